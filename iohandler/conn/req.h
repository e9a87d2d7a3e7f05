/* The inside of ioh_req and ioh_response (include/iohandler/req.h).
 *
 * A req has two sides. What the callbacks of a request see and do belongs to whoever runs them; the
 * answer as it goes to the peer belongs to the thread that holds the loop. Where both are the same
 * thread an answer goes straight from one to the other, elsewhere by mailbox.
 */
#ifndef IOH_CONN_REQ_H
#define IOH_CONN_REQ_H

#include <iohandler/req.h>

#include "conn/conn.h"
#include "conn/message.h"
#include "proto/http1_body.h"
#include "proto/http1_head.h"

enum ioh__answer { IOH__ANSWER_NONE, IOH__ANSWER_STREAMING, IOH__ANSWER_DONE };

/* Bytes that grow, of the loop's memory; room 0: they are not our own, but still lie where they were read. */
struct ioh__block {
    char *data;
    size_t len, room;
};

/* When what happened, in ns of ioh__exact_ns(); only if ioh__timed(). */
struct ioh__times {
    uint64_t begin, first, last; /* the loop's: first byte in, first and last into the send queue */
    uint64_t called, busy; /* of who runs the callbacks: on_request; how long all of them took */
};

/* Each request begins with zeros in two groups and nothing new elsewhere: what the others hold is set before it is
 * looked at. */
struct ioh_req {
    ioh_conn *conn;
    uint32_t number;
    struct ioh__http1_head head; /* does not change while a callback runs */

    /* zeros, from user to completing: the callbacks' side */
    void *user;
    /* of the head: in the receive buffer while the turn feeds from it, then in a copy */
    const char *base;
    char *copy;
    char *ws_fields;       /* malloc's: "Name: value\r\n" for the 101; NULL: none */
    enum ioh__answer said; /* as far as the host has answered */
    bool deferred;
    bool fresh;      /* on_request runs, or is about to */
    bool gathers;    /* ioh_req_gather() */
    bool upgrading;  /* on_ws_upgrade has not answered yet */
    bool completing; /* on_complete runs, or is about to */

    size_t copy_room;
    size_t ws_fields_len;
    size_t gather_max; /* gathers: up to this */
    int64_t said_left; /* of the length that the host announced; -1: none */

    /* zeros, from gathered to more_wanted: the loop's side, reading */
    struct ioh__block gathered;
    struct ioh__block trailers; /* the lines of those that may be told */
    bool body_whole;            /* the request has been read to its end */
    bool continue_pending;      /* the client waits for a 100 (RFC 9110 10.1.1) */
    bool called;                /* on_request has run: on_complete is due */
    /* and answering */
    bool close;     /* the connection ends after this answer */
    bool chunked;   /* the answer's body is */
    bool send_body; /* false: HEAD, 204, 304 */
    bool event_stream;
    enum ioh__answer answer;
    int status;
    uint64_t body_sent;
    struct ioh__squeeze *squeeze; /* what compresses it; NULL: nothing does */
    ioh_more_fn more;             /* ioh_respond_pull() */
    bool more_wanted;             /* the host has not said that it has nothing now */

    struct ioh__http1_body body;
    uint64_t drained;    /* bytes of body that came after the answer */
    int64_t left;        /* of an announced length, -1: not announced */
    uint32_t comment_ms; /* event stream: after so much silence a comment */
    void *more_user;

    struct ioh__times times;
    struct ioh__http1_field fields[]; /* options.max_headers */
};

struct ioh_response {
    _Atomic uint32_t refs;
    int status;
    size_t date;       /* the status line stands first, then room for the Date line, */
    size_t fields_len; /* then all fields and the empty line, */
    size_t body_len;   /* then the body */
    char bytes[];
};

/* May unread body be read and dropped, so that the connection can go on after an early answer? A client
 * that is about to send more should rather be told to stop. */
#define IOH__DRAIN_MAX 65536u

/* One step of an answer, on the thread that holds the loop. Its buf and file are consumed, `shared` is not.
 * Answers as the public functions do. */
int ioh__reply_apply(ioh_req *req, struct ioh__reply *reply);

/* The same with a shared answer. */
int ioh__reply_apply_shared(ioh_req *req, const ioh_response *response);

/* Any thread: a message that carries a step of the answer to the request named id, independent of the caller's
 * memory. NULL: out of memory; its buf and file are consumed all the same. */
struct ioh__message *ioh__reply_message(struct ioh_req_id id, struct ioh__reply *reply);

/* 0, IOH_EINVAL or IOH_EHEADER: what the public functions check before anything else. */
int ioh__reply_check(struct ioh__reply *reply, const struct ioh_header *headers, size_t count);

/* In a callback: 0, IOH_EDONE or IOH_EGONE: may an answer begin? */
int ioh__reply_may_begin(const ioh_req *req);

/* In a callback, after that: a whole answer, applied or posted; its buf and file are consumed. */
int ioh__reply_say(ioh_req *req, struct ioh__reply *reply);
/* ioh_respond_start() of an event stream: a comment after comment_ms of silence. */
int ioh__respond_events(ioh_req *req, const struct ioh_header *headers, size_t count,
                        uint32_t comment_ms);

/* The request of that number, if it is the one under way. */
ioh_req *ioh__http1_request(ioh_conn *conn, uint32_t number);

/* The library's own answer to a bad request: status, reason and close (RFC 9112 2.2, 9.6). */
void ioh__respond_refusal(ioh_req *req, int status);

/* "HTTP/1.1 100 Continue" */
void ioh__respond_continue(ioh_req *req);

/* An event stream: a comment, since nothing else was sent for so long. */
void ioh__respond_comment(ioh_req *req);

/* When the next comment of an event stream is due; 0: never. */
static inline uint64_t ioh__comment_at(const ioh_req *req)
{
    bool open = req->event_stream && req->answer == IOH__ANSWER_STREAMING && req->body_whole;
    return open ? ioh__hub_now(req->conn->hub) + req->comment_ms : 0;
}

#endif

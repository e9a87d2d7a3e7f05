/* The inside of ioh_req and ioh_response (include/iohandler/req.h). */
#ifndef IOH_CONN_REQ_H
#define IOH_CONN_REQ_H

#include <iohandler/req.h>

#include "conn/conn.h"
#include "proto/http1_body.h"
#include "proto/http1_head.h"

enum ioh__answer { IOH__ANSWER_NONE, IOH__ANSWER_STREAMING, IOH__ANSWER_DONE };

struct ioh_req {
    ioh_conn *conn;
    void *user;

    /* the head: in the receive buffer while the turn feeds from it, then in a copy */
    const char *base;
    char *copy;
    size_t copy_room;
    struct ioh__http1_head head;
    struct ioh__http1_body body;
    bool body_whole;       /* the request has been read to its end */
    bool continue_pending; /* the client waits for a 100 (RFC 9110 10.1.1) */
    uint64_t drained;      /* bytes of body that came after the answer */
    bool called;           /* on_request has run: on_complete is due */

    /* the answer */
    enum ioh__answer answer;
    int status;
    bool close;     /* the connection ends after this answer */
    bool chunked;   /* the answer's body is */
    bool send_body; /* false: HEAD, 204, 304 */
    int64_t left;   /* of an announced length, -1: not announced */
    uint64_t body_sent;

    struct ioh__http1_field fields[]; /* options.max_headers */
};

struct ioh_response {
    int status;
    size_t status_len;  /* the status line stands first, */
    size_t fields_len;  /* then all fields and the empty line, */
    size_t body_len;    /* then the body */
    char bytes[];
};

/* May unread body be read and dropped, so that the connection can go on after an early answer? A client
 * that is about to send more should rather be told to stop. */
#define IOH__DRAIN_MAX 65536u

/* The library's own answer to a bad request: status, reason and close (RFC 9112 2.2, 9.6). */
void ioh__respond_refusal(ioh_req *req, int status);

/* "HTTP/1.1 100 Continue" */
void ioh__respond_continue(ioh_req *req);

#endif

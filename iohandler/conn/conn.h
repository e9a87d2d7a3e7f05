/* A connection: descriptor, transport, protocol, out queue, deadlines.
 *
 *     NEW --on_open--> OPEN --close--> FLUSHING --all is out, FIN sent--> LINGERING
 *      |                |                 |                                   |
 *      +----------------+---- die --------+-----------------------------------+--> DEAD --> freed
 *
 * Behind a proxy that tells whose connection it is (proxy_conn.c) it is OPEN until its PROXY header is whole, and
 * then NEW.
 *
 * DEAD: the descriptor is closed and the slot is free, so no event and no id finds it any more; the
 * struct lives until the turn has run its last callbacks.
 *
 * Only the thread that holds the loop touches a connection.
 */
#ifndef IOH_CONN_CONN_H
#define IOH_CONN_CONN_H

#include "conn/hub.h"
#include "conn/outq.h"

enum ioh__conn_state {
    IOH__CONN_NEW,
    IOH__CONN_OPEN,
    IOH__CONN_FLUSHING,
    IOH__CONN_LINGERING,
    IOH__CONN_DEAD,
};

/* ---- transport: how bytes get in and out */

enum {
    IOH__XPORT_AGAIN = -1,
    IOH__XPORT_BROKEN = -2,
    IOH__XPORT_UNABLE = -3, /* send_file: not with this file; it has to be read and written */
};

struct ioh__xport_ops {
    /* Bytes read, 0 at the end of the stream, or AGAIN or BROKEN. */
    ssize_t (*read)(ioh_conn *conn, void *data, size_t len);
    /* Bytes written, at least one, or AGAIN or BROKEN. more: further bytes follow at once, so these may wait
     * for them. */
    ssize_t (*write)(ioh_conn *conn, const struct iovec *iov, int count, bool more);
    /* The same with len bytes of a file from `at` on, straight from the page cache; 0: the file gives none.
     * NULL: never able to. */
    ssize_t (*send_file)(ioh_conn *conn, int fd, uint64_t at, size_t len);
    /* No more will be written. */
    void (*finish)(ioh_conn *conn);
};

extern const struct ioh__xport_ops ioh__xport_plain;

/* ---- protocol: what the bytes mean */

enum ioh__feed {
    IOH__FEED_MORE, /* needs more bytes; unused ones are kept and given again */
    IOH__FEED_WAIT, /* must not go on yet: an answer is due, or the peer does not read */
    IOH__FEED_JOB,  /* a callback has to run; then feed again */
};

struct ioh__proto_ops {
    /* Takes bytes, up to the next job. It may be called without bytes. When it has closed the
     * connection it answers MORE. */
    enum ioh__feed (*feed)(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                           struct ioh__job *job);
    /* A job that feed made has run, wherever, and the connection is still OPEN. NULL: that changes nothing. */
    void (*done)(ioh_conn *conn, struct ioh__job *job);
    /* After WAIT: would feed go on now? */
    bool (*ready)(const ioh_conn *conn);
    /* The peer will send no more. */
    void (*eof)(ioh_conn *conn);
    /* phase_at has passed. */
    void (*timeout)(ioh_conn *conn);
    /* The server stops: end what is idle, let what is under way finish. */
    void (*stop)(ioh_conn *conn);
    /* What the host may still read moves out of the receive buffer. */
    void (*keep)(ioh_conn *conn);
    /* The path of the request under way, for AUTO's memory; len 0: none. */
    struct ioh_str (*path)(const ioh_conn *conn);
    /* Is something of the host's under way, so that it wants to know when the peer leaves? */
    bool (*engaged)(const ioh_conn *conn);
    /* The job that feed made last will not run, since its pool is full: refuse what it was for. */
    void (*overloaded)(ioh_conn *conn);
    /* The connection is DEAD: true: one more callback is due, and call again; false: all is freed. */
    bool (*gone)(ioh_conn *conn, struct ioh__job *job);
};

extern const struct ioh__proto_ops ioh__proto_proxy, ioh__proto_http1, ioh__proto_ws;

/* ---- the protocols' parts of a connection */

struct ioh__http1_conn {
    ioh_req *req;
    uint32_t number;  /* of the current or last request: half of its id */
    uint32_t scanned; /* of the head: ioh__http1_parse() */
    uint8_t step;     /* enum ioh__http1_step */
    bool begun;       /* the head's first byte has come */
};

struct ioh__ws_conn {
    struct ioh__ws engine;
    uint8_t step;    /* enum ioh__ws_step */
    bool told_open;  /* on_ws_open has been called, or would have been: on_ws_close is due */
    bool pinged;     /* it was silent for ws_ping_ms; phase_at is when it is given up */
    uint8_t ended;   /* IOH_WS_BY_...: who sent the first Close frame */
    uint8_t sending; /* enum ioh__ws_sending */
};

/* What other threads are told of a connection. */
enum ioh__face {
    IOH__FACE_HTTP,
    IOH__FACE_WS,
    IOH__FACE_WS_SENDING, /* a message in pieces: ws_stream.c */
    IOH__FACE_WS_CLOSED,
    IOH__FACE_OVER
};

/* Ten thousand idle ones are ten thousand of these: 256 bytes, four lines of the cache. */
struct ioh_conn {
    struct ioh__chan chan; /* first: the loop hands it out */
    struct ioh__timer timer;
    struct ioh__list work; /* in hub->work or work_now */
    struct ioh__hub *hub;
    const struct ioh__proto_ops *proto;
    const struct ioh__xport_ops *xport;
    void *user;

    struct ioh__outq out;
    uint8_t *in; /* bytes that feed() left; NULL: none */
    uint32_t in_len, in_room;

    uint64_t phase_at; /* ms; the protocol's deadline, 0 = none */
    uint64_t write_at; /* ms; the peer must have read by then, 0 = nothing waits for it */

    union {
        struct ioh__http1_conn http1;
        struct ioh__ws_conn ws;
    } as;

    /* who runs its callbacks */
    struct ioh__queue *queue;     /* the threads that do; NULL: who holds the loop */
    struct ioh__queue *own_queue; /* AFFINE: its work thread's, once it has one */
    struct ioh__member *topics;   /* NULL: it is subscribed to none */
    struct ioh__message *runs;    /* ioh_run_on() that came while a callback ran; oldest first */
    _Atomic size_t queued;        /* out.bytes, for other threads; */
    _Atomic size_t posted;        /* and what they have posted since */

    uint32_t write_mark; /* what the kernel still held when write_at was set */
    struct ioh__peer peer;
    _Atomic uint8_t face; /* enum ioh__face */
    _Atomic bool gone;    /* the peer has left, or half of it */
    uint8_t state;        /* enum ioh__conn_state */
    uint8_t late : 4;     /* AUTO: how many more callbacks go to the pool at once */
    bool busy : 1;        /* a callback of it runs on another thread, or is on its way there */
    bool paused : 1;      /* ioh_pause() */
    bool
        corked : 1; /* what is queued waits: on_ws_open comes before the peer knows of the WebSocket */
    bool gone_due : 1;   /* on_peer_gone is to be called, */
    bool gone_told : 1;  /* or has been */
    bool classified : 1; /* queue is on_classify's choice for this request */
    bool stays : 1;      /* and it was INLINE: AUTO does not send it to the pool beforehand */
    bool opened : 1;     /* on_open said yes: on_close is due */
    bool waiting : 1;    /* feed said WAIT */
    bool held : 1;    /* bytes came that must not be read yet: the poller is not asked for input */
    bool blocked : 1; /* the kernel's buffer is full: the poller is asked for output */
    bool peer_eof : 1;
    bool linger : 1;     /* wait for the peer's end after ours */
    bool has_file : 1;   /* parts of a file are queued, or were until the queue is empty */
    bool want_drain : 1; /* a send answered IOH_QUEUED: on_drain is due once */
    bool owes : 1;       /* publications wait for its queue to fall (IOH_TOPIC_LATEST) */
    bool pulled : 1;     /* the answer under way is asked for: ioh_respond_pull() */
    bool counted : 1;    /* the reason of the end is in the counters */
    uint16_t listener;
};
_Static_assert(sizeof(struct ioh_conn) <= 256 || sizeof(void *) != 8, "see above");

/* ---- for the turn */

/* A new connection in state NEW (peer->proxied: OPEN), or NULL: out of memory, fd is closed then. */
ioh_conn *ioh__conn_create(struct ioh__hub *hub, int fd, const struct ioh__peer *peer,
                           int listener);

/* After anything was done with it: writes what is queued, goes on with closing, tells the poller and the
 * timer. */
void ioh__conn_settle(ioh_conn *conn);

/* Reads once into the hub's receive buffer, behind what was left; true: there is something to feed. */
bool ioh__conn_read(ioh_conn *conn);

/* Lays what was left into the receive buffer. */
void ioh__conn_recall(ioh_conn *conn);

/* Keeps what feed() did not use. */
void ioh__conn_keep(ioh_conn *conn, const uint8_t *data, size_t len);

/* LINGERING: reads and drops. */
void ioh__conn_discard(ioh_conn *conn);

/* Its timer has expired. */
void ioh__conn_expired(ioh_conn *conn);

/* May feed() be called? And may more be read? */
bool ioh__conn_may_feed(const ioh_conn *conn);
bool ioh__conn_may_read(const ioh_conn *conn);

/* DEAD and all callbacks are through. */
void ioh__conn_free(ioh_conn *conn);

/* ---- for the protocols, too */

/* OPEN -> NEW: the PROXY header was whole. */
void ioh__conn_begin(ioh_conn *conn);

/* In this turn or the next, it will be looked at. */
void ioh__conn_touch(ioh_conn *conn);

/* OPEN -> FLUSHING. linger: as ioh_close() does; else only until the peer's kernel has everything. */
void ioh__conn_close(ioh_conn *conn, bool linger);

enum ioh__end { IOH__END_LOCAL, IOH__END_PEER, IOH__END_DEADLINE };

/* -> DEAD at once. reset: the peer gets a RST. */
void ioh__conn_die(ioh_conn *conn, enum ioh__end why, bool reset);

/* What other threads see. */
static inline void ioh__conn_show(ioh_conn *conn, enum ioh__face face)
{
    atomic_store_explicit(&conn->face, (uint8_t)face, memory_order_release);
}

/* pulled: is more to be asked for now? Then the job to do so. */
bool ioh__http1_pull_due(const ioh_conn *conn);
void ioh__http1_pull(ioh_conn *conn, struct ioh__job *job);

/* Ends an event stream, if there is one under way: it would not end by itself. */
void ioh__http1_end_events(ioh_conn *conn);

/* The peer has gone, or will send no more. */
void ioh__conn_peer_left(ioh_conn *conn);

/* Reading goes on after ioh_pause(). */
void ioh__conn_resume(ioh_conn *conn);

/* Is a message of len bytes to be dropped, since the queue is full and options.send_full says so? */
bool ioh__conn_drops(ioh_conn *conn, size_t len);

/* The answer of a sending function after bytes were queued: 0, IOH_QUEUED or IOH_EFULL. */
int ioh__conn_queued(ioh_conn *conn);

/* The same for where it is asked very often. */
static inline int ioh__conn_queued_here(ioh_conn *conn)
{
    if (conn->hub->cur != conn || conn->out.bytes > conn->hub->options->send_high)
        return ioh__conn_queued(conn);
    /* At once, and not only when it settles: a callback that loses its loop now must not see less. */
    atomic_store_explicit(&conn->queued, conn->out.bytes, memory_order_relaxed);
    return 0;
}

/* The queue is above send_max: a reset. Answers IOH_EFULL. */
int ioh__conn_too_much(ioh_conn *conn);

/* Out of memory while sending: the stream has a hole, so the connection ends. Answers IOH_ENOMEM. */
int ioh__conn_no_memory(ioh_conn *conn);

/* `at` moved by what n bytes buy at options.min_rate, but not beyond now + full_ms. */
uint64_t ioh__conn_prolong(const ioh_conn *conn, uint64_t at, size_t n, uint32_t full_ms);

/* This connection is being fed: more output may follow in this turn. */
static inline bool ioh__conn_is_current(const ioh_conn *conn)
{
    return conn->hub->cur == conn;
}

/* Turns an http1 connection into a WebSocket. */
void ioh__ws_begin(ioh_conn *conn, const struct ioh__deflate_terms *terms);

/* After a WS_MESSAGE that ran here, out of the connection that is being fed: is the next one there, as a whole and on the
 * short way? Then the job is it. false: the turn goes on. So of many messages that came together all but the first go
 * without the turn. */
bool ioh__ws_next(ioh_conn *conn, struct ioh__job *job);

/* After on_request ran here, for the connection that is being fed: is all said, nothing left to read, and on_complete
 * due? Then the job is that. false: the turn goes on, nothing has changed. */
bool ioh__http1_next(ioh_conn *conn, struct ioh__job *job);

/* What ioh_ws_send_frame() and ioh_ws_close() do, on the thread that holds the loop. */
int ioh__ws_send_frame_now(ioh_conn *conn, ioh_buf *frame);
void ioh__ws_close_now(ioh_conn *conn, int code, const char *reason, size_t len);

/* May a WebSocket message be sent? 0, IOH_ESTATE, IOH_EGONE: as far as the thread of a callback can know, and as the
 * thread that holds the loop knows. */
int ioh__ws_check_send(const ioh_conn *conn);
int ioh__ws_may_send(const ioh_conn *conn);

/* ---- from another thread: the posting half of the public functions */

/* Posts what a callback of the connection wants done; NULL: out of memory, which ends the connection. bytes count as queued from now on. 0,
 * IOH_QUEUED, IOH_EFULL, IOH_EGONE, IOH_ENOMEM; on an error the message is freed. */
struct ioh__message;
int ioh__conn_post(ioh_conn *conn, struct ioh__message *m, size_t bytes);

#endif

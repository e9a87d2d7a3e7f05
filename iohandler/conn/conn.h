/* A connection: descriptor, transport, protocol, out queue, deadlines.
 *
 *     NEW --on_open--> OPEN --close--> FLUSHING --all is out, FIN sent--> LINGERING
 *      |                |                 |                                   |
 *      +----------------+---- die --------+-----------------------------------+--> DEAD --> freed
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

enum { IOH__XPORT_AGAIN = -1, IOH__XPORT_BROKEN = -2 };

struct ioh__xport_ops {
    /* Bytes read, 0 at the end of the stream, or AGAIN or BROKEN. */
    ssize_t (*read)(ioh_conn *conn, void *data, size_t len);
    /* Bytes written, at least one, or AGAIN or BROKEN. */
    ssize_t (*write)(ioh_conn *conn, const struct iovec *iov, int count);
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
    /* A job that feed made has run, and the connection is still OPEN. */
    void (*done)(ioh_conn *conn, struct ioh__job *job);
    /* After WAIT: would feed go on now? */
    bool (*ready)(const ioh_conn *conn);
    /* The peer will send no more. */
    void (*eof)(ioh_conn *conn);
    /* phase_at has passed. */
    void (*timeout)(ioh_conn *conn);
    /* The server stops: end what is idle, let what is under way finish. */
    void (*stop)(ioh_conn *conn);
    /* The connection is DEAD: true: one more callback is due, and call again; false: all is freed. */
    bool (*gone)(ioh_conn *conn, struct ioh__job *job);
};

extern const struct ioh__proto_ops ioh__proto_http1, ioh__proto_ws;

/* ---- the protocols' parts of a connection */

struct ioh__http1_conn {
    ioh_req *req;
    uint32_t scanned; /* of the head: ioh__http1_parse() */
    uint8_t step;     /* enum step of http1_conn.c */
    bool begun;       /* the head's first byte has come */
};

struct ioh__ws_conn {
    struct ioh__ws engine;
    uint8_t step; /* enum step of ws_conn.c */
};

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
    size_t in_len, in_room;

    uint64_t phase_at; /* ms; the protocol's deadline, 0 = none */
    uint64_t write_at; /* ms; the peer must have read by then, 0 = nothing waits for it */
    uint32_t write_mark; /* what the kernel still held when write_at was set */

    union {
        struct ioh__http1_conn http1;
        struct ioh__ws_conn ws;
    } as;

    struct ioh__peer peer;
    uint8_t state;    /* enum ioh__conn_state */
    bool opened : 1;  /* on_open said yes: on_close is due */
    bool waiting : 1; /* feed said WAIT, or must not be called while the queue is high */
    bool held : 1;    /* waiting, and bytes came: the poller is not asked for input */
    bool blocked : 1; /* the kernel's buffer is full: the poller is asked for output */
    bool peer_eof : 1;
    bool linger : 1;     /* wait for the peer's end after ours */
    bool want_drain : 1; /* a send answered IOH_QUEUED: on_drain is due once */
    bool counted : 1;    /* the reason of the end is in the counters */
    uint16_t listener;
};

/* ---- for the turn */

/* A new connection in state NEW, or NULL: out of memory, fd is closed then. */
ioh_conn *ioh__conn_create(struct ioh__hub *hub, int fd, const struct ioh__peer *peer, int listener);

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

/* May feed() be called? */
bool ioh__conn_may_feed(const ioh_conn *conn);

/* DEAD and all callbacks are through. */
void ioh__conn_free(ioh_conn *conn);

/* ---- for the protocols, too */

/* In this turn or the next, it will be looked at. */
void ioh__conn_touch(ioh_conn *conn);

/* OPEN -> FLUSHING. linger: as ioh_close() does; else only until the peer's kernel has everything. */
void ioh__conn_close(ioh_conn *conn, bool linger);

enum ioh__end { IOH__END_LOCAL, IOH__END_PEER, IOH__END_DEADLINE };

/* -> DEAD at once. reset: the peer gets a RST. */
void ioh__conn_die(ioh_conn *conn, enum ioh__end why, bool reset);

/* The answer of a sending function after bytes were queued: 0, IOH_QUEUED or IOH_EFULL. */
int ioh__conn_queued(ioh_conn *conn);

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
void ioh__ws_begin(ioh_conn *conn);

#endif

/* A hub: a loop together with all that its connections share: pools, the engines' common parts, the
 * accepting ends of the listeners, and the turn in progress. One per epoll thread.
 *
 * Who holds the loop holds the hub. Only `load`, the mailbox and the counters are touched by others.
 */
#ifndef IOH_CONN_HUB_H
#define IOH_CONN_HUB_H

#include <iohandler/handler.h>
#include <iohandler/options.h>

#include "base/clock.h"
#include "exec/job.h"
#include "exec/queue.h"
#include "net/loop.h"
#include "net/sock.h"
#include "proto/http1_parse.h"
#include "proto/ws_engine.h"

#define IOH__DATE_LINE 37u /* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */

/* One hub's end of a listener: all hubs poll the same socket (EPOLLEXCLUSIVE). */
struct ioh__acceptor {
    struct ioh__chan chan;
    bool tcp;
    int number;                             /* as ioh_server_listen() answered */
    const struct ioh__prefixes *proxy_from; /* NULL: no PROXY protocol */
};

/* Where the turn stands. It is data, not a place in the code: a turn can be left after every job.
 *
 *     MAIL -> EVENTS -> TIMERS -> WORK -> POLL -> MAIL ...        ENDED: nothing is left after a stop
 */
enum ioh__phase {
    IOH__PHASE_MAIL,
    IOH__PHASE_EVENTS,
    IOH__PHASE_TIMERS,
    IOH__PHASE_WORK,
    IOH__PHASE_POLL,
    IOH__PHASE_ENDED,
};

struct ioh__compress;
struct ioh__crew;
struct ioh__message;
struct ioh__delivery;

/* Publications that have come, oldest first, and how far the first ones of them are with this loop's subscribers:
 * data like the turn itself (topics.h). */
struct ioh__pass {
    struct ioh__delivery *first, *last;
    unsigned batch;       /* how many are under way together; 0: none */
    ioh_buf *joined;      /* their frames in one piece; NULL: there is one, or they are too long */
    unsigned topic;       /* which of their topics, and */
    struct ioh__list *at; /* which subscription of its is next; NULL: the first */
};

/* Connections that were fed one after another, and whose answers have not left yet (batch.h). */
struct ioh__batch {
    struct ioh__list conns;
    unsigned count, most;
    size_t bytes;   /* in their queues */
    uint64_t began; /* ms, of the coarse clock */
    uint64_t counted_from;
    uint64_t fed; /* connections since then */
};

/* A job that runs, or may come to run, on a thread that does not hold the loop. */
struct ioh__work;

struct ioh__hub {
    struct ioh__loop loop;

    /* constant after create */
    const struct ioh_handler *handler;
    void *state;
    const struct ioh_options *options; /* without zeros: every default filled in */
    ioh_server *server;
    struct ioh__hub *const *all; /* the server's hubs, this one among them */
    unsigned all_count;
    struct ioh__crew *crew;         /* who else runs callbacks */
    struct ioh__compress *compress; /* NULL: no answer is */
    struct ioh__http1_limits limits;
    struct ioh__pass
        *pass; /* that goes along its connections' subscriptions: its own; single: the acceptor's */
    bool guarded;           /* AUTO: the loop may be taken from under a callback */
    struct ioh__chan *only; /* single: the connection */
    bool single;            /* IOH_THREADS: the loop of one connection, ends with it */
    uint32_t number;        /* single: the low half of the connection's id, */
    uint32_t era;           /* and the high half */

    /* any thread */
    _Alignas(64) _Atomic uint32_t load; /* connections, with those on their way here */
    _Atomic bool stopping;              /* written by the holder */
    _Atomic bool aborting;              /* single: ioh_post_abort() is on its way */

    /* AUTO: who may touch the loop (reach.h); the watcher and the holder */
    _Alignas(64) _Atomic uint64_t watch;
    struct ioh__work *running; /* the job that the holder runs, or the next one */

    /* the holder */
    _Alignas(64) struct ioh__pool conns, reqs;
    struct ioh__ws_engine ws_engine;
    struct ioh__ws_held *ws_held; /* ws_stream.c */
    ioh_req *spare_req;           /* heads are parsed into it; one is always at hand */
    int64_t date_second;
    char date[IOH__DATE_LINE + 1];

    struct ioh__hub *next_single; /* IOH_THREADS: made before there is a connection for it */
    struct ioh__acceptor *acceptors;
    unsigned acceptor_count;
    bool accepting_paused;
    uint64_t accept_again_at;  /* ms; while paused */
    uint64_t accept_logged_at; /* ms */

    /* the turn */
    enum ioh__phase phase;
    ioh_conn *cur; /* being fed from rx[rx_at..rx_len) */
    size_t rx_at, rx_len;
    bool now_is_old;        /* callbacks have run since loop.now was read */
    struct ioh__mail *mail; /* taken from the mailbox, not yet looked at */
    struct ioh__batch batch;
    struct ioh__list work;     /* connections touched since their last flush, or with more to do */
    struct ioh__list work_now; /* of these, what this turn looks at: each once */
    struct ioh__log_line log_line; /* of a LOG job */
    struct ioh__pass own_pass;

    uint64_t ticket; /* AUTO: of the last callback */
    uint64_t stalls_logged, stall_logged_at;
    bool served; /* single: the connection has been here */

    /* jobs that other threads run */
    struct ioh__work *handoff, *handoff_last; /* made in this batch, not yet handed over */
    struct ioh__work *stalled;                /* found their queue full and wait (IOH_FULL_WAIT) */
    unsigned awaited; /* of them, and handed over in this turn: they may be back in a moment */
    uint64_t await_from_ms; /* not before: somebody computes on this core */
    uint32_t busy;          /* connections whose callback runs elsewhere */
    uint8_t *spare_rx[2];   /* receive buffers at rest */

    /* a host that drives the loop */
    bool stepping; /* turn_next() answers false after each turn */
    int step_wait; /* ms: the next poll's limit; -1 none */
    bool step_over;

    /* the stop */
    struct ioh__message
        *stop; /* made with the hub, so that stopping cannot fail; who stops takes it */
    bool cut;  /* the drain time is over */
    uint64_t drain_until;
    uint64_t aborted; /* connections that had to be cut */
};

/* The time, for a deadline that begins while a connection is fed: it must not be short by what the callbacks of this
 * batch took. */
static inline uint64_t ioh__hub_now(struct ioh__hub *hub)
{
    if (hub->now_is_old) {
        hub->now_is_old = false;
        hub->loop.now = ioh__now_ms();
    }
    return hub->loop.now;
}

/* A connection's id: generation, loop, slot. */
static inline ioh_conn_id ioh__make_id(const struct ioh__hub *hub, const struct ioh__chan *chan)
{
    if (hub->single)
        return (uint64_t)hub->era << 32 | hub->number;
    return (uint64_t)chan->generation << 32 | (uint64_t)(hub->loop.index & 0xffu) << 24 |
           chan->slot;
}

static inline unsigned ioh__id_loop(ioh_conn_id id)
{
    return (unsigned)(id >> 24 & 0xffu);
}

/* Is it kept what a request takes? */
static inline bool ioh__timed(const struct ioh__hub *hub)
{
    return hub->options->timings && hub->handler->on_complete;
}

/* 0, IOH_ENOMEM or IOH_ESYS; destroy is allowed after an error. Constant fields are the caller's to set
 * before. */
int ioh__hub_init(struct ioh__hub *hub, unsigned index);
void ioh__hub_destroy(struct ioh__hub *hub);

/* Any thread, once: tells the hub to stop. false: it has ended already. */
bool ioh__hub_stop(struct ioh__hub *hub, uint32_t drain_ms);

/* A peer ran into a limit or deadline: counted, and logged once per kind and second with what the format says of
 * it. The holder. */
void ioh__hub_hit(struct ioh__hub *hub, enum ioh__limit kind, const struct ioh__peer *peer,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Adds this hub's end of a listener. Before the hub runs. 0, IOH_ENOMEM or IOH_ESYS. */
int ioh__hub_accept_from(struct ioh__hub *hub, unsigned position,
                         const struct ioh__listen_socket *sock, int number);

#endif

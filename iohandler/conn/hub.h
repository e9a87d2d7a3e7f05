/* A hub: a loop together with all that its connections share: pools, the engines' common parts, the
 * accepting ends of the listeners, and the turn in progress. One per epoll thread.
 *
 * Who holds the loop holds the hub. Only `load`, the mailbox and the counters are touched by others.
 */
#ifndef IOH_CONN_HUB_H
#define IOH_CONN_HUB_H

#include <iohandler/handler.h>
#include <iohandler/options.h>

#include "exec/job.h"
#include "net/loop.h"
#include "net/sock.h"
#include "proto/http1_parse.h"
#include "proto/ws_engine.h"

#define IOH__DATE_LINE 37u /* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */

/* One hub's end of a listener: all hubs poll the same socket (EPOLLEXCLUSIVE). */
struct ioh__acceptor {
    struct ioh__chan chan;
    bool tcp;
    int number; /* as ioh_server_listen() answered */
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

struct ioh__hub {
    struct ioh__loop loop;

    /* constant after create */
    const struct ioh_handler *handler;
    void *state;
    const struct ioh_options *options; /* without zeros: every default filled in */
    ioh_server *server;
    struct ioh__hub *const *all; /* the server's hubs, this one among them */
    unsigned all_count;
    struct ioh__http1_limits limits;

    /* any thread */
    _Alignas(64) _Atomic uint32_t load; /* connections, with those on their way here */

    /* the holder */
    _Alignas(64) struct ioh__pool conns, reqs;
    struct ioh__ws_engine ws_engine;
    ioh_req *spare_req; /* heads are parsed into it; one is always at hand */
    int64_t date_second;
    char date[IOH__DATE_LINE + 1];

    struct ioh__acceptor *acceptors;
    unsigned acceptor_count;
    bool accepting_paused;
    uint64_t accept_again_at;  /* ms; while paused */
    uint64_t accept_logged_at; /* ms */

    /* the turn */
    enum ioh__phase phase;
    ioh_conn *cur; /* being fed from rx[rx_at..rx_len) */
    size_t rx_at, rx_len;
    struct ioh__mail *mail;    /* taken from the mailbox, not yet looked at */
    struct ioh__list work;     /* connections touched since their last flush, or with more to do */
    struct ioh__list work_now; /* of these, what this turn looks at: each once */
    struct ioh__log_line log_line;

    /* the stop */
    bool stopping, cut; /* cut: the drain time is over */
    uint64_t drain_until;
    uint64_t aborted; /* connections that had to be cut */
};

/* What arrives in a hub's mailbox. Made with malloc by any thread, freed by the hub. */
enum ioh__message_kind {
    IOH__MESSAGE_ACCEPTED,
    IOH__MESSAGE_RUN,
    IOH__MESSAGE_FRAME,
    IOH__MESSAGE_STOP,
};

struct ioh__message {
    struct ioh__mail mail;
    enum ioh__message_kind kind;
    ioh_conn_id id; /* RUN, FRAME */
    union {
        struct {
            int fd, listener;
            struct ioh__peer peer;
        } accepted;
        struct {
            void (*fn)(ioh_conn *conn, void *user);
            void (*gone)(void *user);
            void *user;
        } run;
        ioh_buf *frame;
        uint32_t drain_ms;
    } as;
};

/* A connection's id: generation, loop, slot. */
static inline ioh_conn_id ioh__make_id(uint32_t generation, unsigned loop, uint32_t slot)
{
    return (uint64_t)generation << 32 | (uint64_t)(loop & 0xffu) << 24 | slot;
}

static inline unsigned ioh__id_loop(ioh_conn_id id)
{
    return (unsigned)(id >> 24 & 0xffu);
}

/* 0, IOH_ENOMEM or IOH_ESYS; destroy is allowed after an error. Constant fields are the caller's to set
 * before. */
int ioh__hub_init(struct ioh__hub *hub, unsigned index);
void ioh__hub_destroy(struct ioh__hub *hub);

/* Adds this hub's end of a listener. Before the hub runs. 0, IOH_ENOMEM or IOH_ESYS. */
int ioh__hub_accept_from(struct ioh__hub *hub, unsigned position, int fd, bool tcp, int number);

#endif

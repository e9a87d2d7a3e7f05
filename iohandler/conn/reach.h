/* Who may touch the loop: the question every function of the public face asks first.
 *
 * A callback that runs on the thread that holds its connection's loop touches the connection directly.
 * Anywhere else (a pool thread, a work thread, a callback that was late and lost its loop) what it wants
 * done travels by mailbox.
 *
 * Under AUTO the answer can change while a callback runs, so it is asked by compare-and-swap on
 * hub->watch: a ticket, one for each callback, and a state.
 *
 *     OUT --callback begins--> CALLBACK --a library call begins--> CALL --it ends--> CALLBACK
 *      ^                          |  |
 *      +------callback ends-------+  +--the watcher: late--> TAKEN: this ticket owns nothing any more
 *
 * Only from CALLBACK can a loop be taken; so it is never taken while a library call changes it.
 */
#ifndef IOH_CONN_REACH_H
#define IOH_CONN_REACH_H

#include "conn/conn.h"

enum ioh__watch_state { IOH__WATCH_OUT, IOH__WATCH_CALLBACK, IOH__WATCH_CALL, IOH__WATCH_TAKEN };

static inline uint64_t ioh__watch_word(uint64_t ticket, enum ioh__watch_state state)
{
    return ticket << 2 | (uint64_t)state;
}

/* What the library knows about the thread it is in: the one thread-local. */
struct ioh__self {
    struct ioh__hub *hub; /* whose callback runs here while it is held; NULL: none */
    uint64_t ticket;
    ioh_server *server; /* whose thread this is, whatever it runs; NULL: the host's own */
};

extern _Thread_local struct ioh__self ioh__self __attribute__((tls_model("initial-exec")));

/* May the connection be touched here and now? true: then ioh__unreach() must follow. */
static inline bool ioh__reach(struct ioh__hub *hub)
{
    if (ioh__self.hub != hub)
        return false;
    if (!hub->guarded)
        return true;
    uint64_t mine = ioh__watch_word(ioh__self.ticket, IOH__WATCH_CALLBACK);
    return atomic_compare_exchange_strong_explicit(
        &hub->watch, &mine, ioh__watch_word(ioh__self.ticket, IOH__WATCH_CALL),
        memory_order_acquire, memory_order_relaxed);
}

static inline void ioh__unreach(struct ioh__hub *hub)
{
    if (hub->guarded)
        atomic_store_explicit(&hub->watch, ioh__watch_word(ioh__self.ticket, IOH__WATCH_CALLBACK),
                              memory_order_release);
}

#endif

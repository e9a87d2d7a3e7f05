/* A loop: one poller, its channels, timers, mail, memory and receive buffer.
 *
 * A loop is an object that a thread holds; whoever holds it is the only one to touch it, except for
 * the mailbox and the counters. Nothing of it lives in a thread-local or on the holder's stack: the
 * batch in progress is in `events`, so another thread could go on with it.
 *
 * The loop calls nobody. It is asked: ioh__loop_poll() fetches a batch, ioh__loop_next() gives the
 * ready channels one by one, the wheel gives the expired timers.
 *
 * A channel is a descriptor in the loop. Its slot and generation are in the event's tag, so an event
 * that was fetched before the channel left (and its descriptor number was used again) finds another
 * generation and is dropped.
 */
#ifndef IOH_NET_LOOP_H
#define IOH_NET_LOOP_H

#include <stdbool.h>

#include "base/hist.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "base/wheel.h"
#include "net/poller.h"

#define IOH__LOOP_EVENTS 256 /* a turn's batch: bounds how long the first waits for the last */
#define IOH__RX_SIZE (256u * 1024u) /* what a connection reads at most in a turn */
#define IOH__MAX_SLOTS (1u << 24)   /* the slot's part of a connection id */

enum ioh__chan_kind { IOH__CHAN_CONN, IOH__CHAN_LISTENER, IOH__CHAN_MAILBOX };

struct ioh__chan {
    int fd;
    uint32_t slot;
    uint32_t generation;
    uint16_t events; /* what the poller has been told; EPOLLIN | EPOLLOUT | EPOLLRDHUP fit */
    uint8_t kind;    /* enum ioh__chan_kind */
    bool polled;     /* is in the poller */
};

struct ioh__slot {
    struct ioh__chan *chan; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

/* Written by the holder, read by any thread; on cache lines of their own. */
struct ioh__counters {
    _Alignas(64) _Atomic uint64_t connections;
    _Atomic uint64_t websockets, accepted, accept_pauses, closed_by_peer, closed_by_deadline;
    _Atomic uint64_t requests, requests_refused, ws_messages_received, ws_messages_sent, ws_failed;
    _Atomic uint64_t bytes_received, bytes_sent, turns;
    _Atomic uint64_t late_answers, pool_jobs;
    _Atomic uint64_t limits[IOH__LIMIT_KINDS]; /* hits of each kind */
};

struct ioh__loop {
    unsigned index;
    struct ioh__poller poller;
    struct ioh__mailbox mailbox;
    struct ioh__chan mail_chan;
    struct ioh__wheel wheel;
    struct ioh__mem mem;
    struct ioh__log log;
    uint64_t now; /* ms of ioh__now_ms(), read once a turn */

    struct ioh__slot *slots;
    uint32_t slot_count, slot_room, free_slot; /* free_slot: UINT32_MAX = none */

    struct epoll_event events[IOH__LOOP_EVENTS];
    int event_count, event_next;

    uint8_t *rx; /* IOH__RX_SIZE bytes */

    struct ioh__counters count;
    struct ioh__hist turn_events;
};

/* small: for a single connection, over poll(2). 0, IOH_ESYS or IOH_ENOMEM; after an error destroy is still
 * allowed. */
int ioh__loop_init(struct ioh__loop *loop, unsigned index, bool small);
void ioh__loop_destroy(struct ioh__loop *loop);

/* Gives chan a slot: its fd and kind are set. 0 or IOH_ENOMEM. */
int ioh__loop_enter(struct ioh__loop *loop, struct ioh__chan *chan);

/* Takes it out of the poller and frees the slot. The descriptor is the caller's to close. */
void ioh__loop_leave(struct ioh__loop *loop, struct ioh__chan *chan);

/* What to wait for; the poller is only asked when it changes. 0 or -1 with errno. */
int ioh__loop_watch(struct ioh__loop *loop, struct ioh__chan *chan, uint32_t events);
void ioh__loop_unwatch(struct ioh__loop *loop, struct ioh__chan *chan);

/* The channel in a slot, if it is still of that generation; else NULL. */
struct ioh__chan *ioh__loop_find(const struct ioh__loop *loop, uint32_t slot, uint32_t generation);

/* Fetches a batch, waiting at most timeout_ms (-1: until something happens), less when mail is there or
 * a timer expires. Updates `now`. */
void ioh__loop_poll(struct ioh__loop *loop, int timeout_ms);

/* The next ready channel of the batch, or NULL. */
struct ioh__chan *ioh__loop_next(struct ioh__loop *loop, uint32_t *events);

/* The holder's way to count: no locked instruction. */
static inline void ioh__count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif

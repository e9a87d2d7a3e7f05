/* The loop (see loop.h). The holder's thread only. */
#include "net/loop.h"

#include <assert.h>
#include <iohandler/error.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define NO_SLOT UINT32_MAX
#define FIRST_SLOTS 64u

static_assert((EPOLLIN | EPOLLOUT | EPOLLRDHUP) <= UINT16_MAX, "interest fits in 16 bits");

static uint64_t tag_of(const struct ioh__chan *chan)
{
    return (uint64_t)chan->generation << 32 | chan->slot;
}

int ioh__loop_init(struct ioh__loop *loop, unsigned index, bool small)
{
    memset(loop, 0, sizeof *loop);
    loop->index = index;
    loop->poller.fd = -1;
    loop->mailbox.fd = -1;
    loop->free_slot = NO_SLOT;
    loop->now = ioh__now_ms();
    bool has_memory = ioh__mem_init(&loop->mem);
    ioh__wheel_init(&loop->wheel, loop->now);
    loop->rx = malloc(IOH__RX_SIZE);
    if (!loop->rx || !has_memory)
        return IOH_ENOMEM;
    int rc = ioh__poller_init(&loop->poller, small);
    if (rc == 0)
        rc = ioh__mailbox_init(&loop->mailbox);
    if (rc)
        return rc;
    loop->mail_chan = (struct ioh__chan){.fd = loop->mailbox.fd, .kind = IOH__CHAN_MAILBOX};
    rc = ioh__loop_enter(loop, &loop->mail_chan);
    if (rc)
        return rc;
    /* Edge-triggered: every write of the eventfd is told once, and nobody has to read it. */
    return ioh__loop_watch(loop, &loop->mail_chan, EPOLLIN | EPOLLET) ? IOH_ESYS : 0;
}

void ioh__loop_destroy(struct ioh__loop *loop)
{
    ioh__poller_destroy(&loop->poller);
    if (loop->mailbox.fd >= 0)
        ioh__mailbox_destroy(&loop->mailbox);
    ioh__mem_destroy(&loop->mem);
    free(loop->slots);
    free(loop->rx);
}

static int more_slots(struct ioh__loop *loop)
{
    uint32_t room = loop->slot_room ? loop->slot_room * 2 : FIRST_SLOTS;
    if (room > IOH__MAX_SLOTS)
        return IOH_ENOMEM;
    struct ioh__slot *slots = realloc(loop->slots, room * sizeof *slots);
    if (!slots)
        return IOH_ENOMEM;
    loop->slots = slots;
    loop->slot_room = room;
    return 0;
}

int ioh__loop_enter(struct ioh__loop *loop, struct ioh__chan *chan)
{
    uint32_t i = loop->free_slot;
    if (i != NO_SLOT) {
        loop->free_slot = loop->slots[i].next_free;
    } else {
        if (loop->slot_count == loop->slot_room && more_slots(loop))
            return IOH_ENOMEM;
        i = loop->slot_count++;
        loop->slots[i].generation = 0;
    }
    struct ioh__slot *slot = &loop->slots[i];
    slot->generation += slot->generation == UINT32_MAX ? 2 : 1; /* never 0: id 0 is no connection */
    slot->chan = chan;
    chan->slot = i;
    chan->generation = slot->generation;
    chan->events = 0;
    chan->polled = false;
    return 0;
}

void ioh__loop_leave(struct ioh__loop *loop, struct ioh__chan *chan)
{
    struct ioh__slot *slot = &loop->slots[chan->slot];
    assert(slot->chan == chan);
    ioh__loop_unwatch(loop, chan);
    slot->chan = NULL;
    slot->next_free = loop->free_slot;
    loop->free_slot = chan->slot;
}

int ioh__loop_watch(struct ioh__loop *loop, struct ioh__chan *chan, uint32_t events)
{
    int rc = 0;
    if (!chan->polled)
        rc = ioh__poller_add(&loop->poller, chan->fd, events, tag_of(chan));
    else if (chan->events != (uint16_t)events)
        rc = ioh__poller_change(&loop->poller, chan->fd, events, tag_of(chan));
    if (rc == 0) {
        chan->polled = true;
        chan->events = (uint16_t)events;
    }
    return rc;
}

void ioh__loop_unwatch(struct ioh__loop *loop, struct ioh__chan *chan)
{
    if (chan->polled)
        ioh__poller_remove(&loop->poller, chan->fd);
    chan->polled = false;
    chan->events = 0;
}

struct ioh__chan *ioh__loop_find(const struct ioh__loop *loop, uint32_t slot, uint32_t generation)
{
    if (slot >= loop->slot_count || loop->slots[slot].generation != generation)
        return NULL;
    return loop->slots[slot].chan;
}

void ioh__loop_poll(struct ioh__loop *loop, int timeout_ms)
{
    int timer = ioh__wheel_timeout(&loop->wheel, ioh__now_ms());
    if (timer >= 0 && (timeout_ms < 0 || timer < timeout_ms))
        timeout_ms = timer;
    if (timeout_ms != 0 && !ioh__mailbox_sleep(&loop->mailbox))
        timeout_ms = 0;
    loop->event_next = 0;
    loop->event_count = ioh__poller_wait(&loop->poller, loop->events, IOH__LOOP_EVENTS, timeout_ms);
    ioh__mailbox_wake(&loop->mailbox);
    loop->now = ioh__now_ms();
    ioh__count(&loop->count.turns, 1);
    ioh__hist_add(&loop->turn_events, (uint64_t)loop->event_count);
}

struct ioh__chan *ioh__loop_next(struct ioh__loop *loop, uint32_t *events)
{
    while (loop->event_next < loop->event_count) {
        const struct epoll_event *ev = &loop->events[loop->event_next++];
        struct ioh__chan *chan =
            ioh__loop_find(loop, (uint32_t)ev->data.u64, (uint32_t)(ev->data.u64 >> 32));
        if (chan) {
            *events = ev->events;
            return chan;
        }
    }
    return NULL;
}

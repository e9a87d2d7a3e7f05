/* The timers of one loop. The wheel owns its slots' list heads, the timers belong to what they time;
 * the thread that holds the loop runs it.
 *
 * A timer is filed under its tick, the first one that begins at or after its deadline. Level 0 has a
 * slot for each of the next 64 ticks, level l one for each block of 64^l ticks:
 *
 *     level 3   3.1 days ahead, 262,144 ticks a slot --+
 *     level 2   70 minutes,       4,096 ticks a slot --+  when tick reaches the block's first tick its
 *     level 1   65 seconds,          64 ticks a slot --+  slot is cascaded: each timer is filed anew,
 *     level 0   1 second,              1 tick a slot --+  now nearer, so at a lower level
 *                                                      +--> due --> ioh__wheel_expired()
 *
 * Life of a timer:
 *
 *     idle --set--> in a slot --cascade--> ... --tick passed--> due --deadline passed--> idle (fires)
 *                       ^                                        |
 *                       +----------- deadline was moved ---------+
 *
 * At a level above 0 a used slot is never that of the block which tick is in, unless tick is that
 * block's first tick and the cascade is still to come: a timer of this block is less than a block
 * away and so has its place further down.
 */
#include "base/wheel.h"

#include <assert.h>
#include <limits.h>
#include <stddef.h>

#define SLOT_BITS 6u
#define SLOT_MASK (IOH__WHEEL_SLOTS - 1u)
#define SPAN ((uint64_t)1 << (SLOT_BITS * IOH__WHEEL_LEVELS)) /* ticks that the wheel sees ahead */
#define NEVER UINT64_MAX

static_assert(IOH__WHEEL_SLOTS == 1u << SLOT_BITS, "a slot number has SLOT_BITS bits");
static_assert(sizeof(struct ioh__timer) == 32, "a connection embeds one");
static_assert(SPAN <= INT_MAX / IOH__WHEEL_TICK_MS, "a timeout fits an int");

/* Something to do: the slot of a level comes up at a tick. */
struct event {
    uint64_t tick; /* NEVER: no timer is filed */
    unsigned level;
};

static uint64_t tick_after(uint64_t deadline)
{
    return deadline / IOH__WHEEL_TICK_MS + (deadline % IOH__WHEEL_TICK_MS != 0);
}

/* Moves all of from to the end of to. */
static void splice(struct ioh__list *to, struct ioh__list *from)
{
    if (ioh__list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    ioh__list_init(from);
}

/* Files a timer that is in no list. A tick that was looked at is over: the next one takes it, so a
 * timer set to the past fires a turn later and never twice in one. */
static void file(struct ioh__wheel *w, struct ioh__timer *t)
{
    uint64_t tick = tick_after(t->deadline);
    if (tick < w->tick)
        tick = w->tick;
    uint64_t ahead = tick - w->tick;
    if (ahead >= SPAN) { /* filed anew, by its deadline, when that slot comes up */
        ahead = SPAN - 1;
        tick = w->tick + ahead;
    }
    unsigned level = 0;
    while (ahead >> (SLOT_BITS * (level + 1)) != 0)
        level++;
    unsigned slot = (unsigned)(tick >> (SLOT_BITS * level)) & SLOT_MASK;
    t->filed = t->deadline ? t->deadline : 1;
    ioh__list_append(&w->slot[level][slot], &t->link);
    w->used[level] |= (uint64_t)1 << slot;
}

/* The first used slot of a level, counted from the slot of block; forgets empty ones on the way.
 * -1: there is none. */
static int first_used(struct ioh__wheel *w, unsigned level, uint64_t block)
{
    unsigned from = (unsigned)block & SLOT_MASK;
    while (w->used[level]) {
        uint64_t used = w->used[level];
        uint64_t turned = from ? used >> from | used << (IOH__WHEEL_SLOTS - from) : used;
        unsigned ahead = (unsigned)__builtin_ctzll(turned);
        unsigned slot = (from + ahead) & SLOT_MASK;
        if (!ioh__list_empty(&w->slot[level][slot]))
            return (int)ahead;
        w->used[level] &= ~((uint64_t)1 << slot);
    }
    return -1;
}

/* The earliest thing to do; of several at one tick the highest level, which fills the lower ones. */
static struct event next_event(struct ioh__wheel *w)
{
    struct event next = {.tick = NEVER};
    for (unsigned level = IOH__WHEEL_LEVELS; level-- > 0;) {
        unsigned shift = SLOT_BITS * level;
        /* the first block that begins at tick or after it */
        uint64_t block = (w->tick + ((uint64_t)1 << shift) - 1) >> shift;
        int ahead = first_used(w, level, block);
        if (ahead < 0)
            continue;
        uint64_t tick = (block + (unsigned)ahead) << shift;
        if (tick < next.tick)
            next = (struct event){.tick = tick, .level = level};
    }
    return next;
}

/* Cascades the slot of a level that comes up at w->tick. */
static void cascade(struct ioh__wheel *w, unsigned level, unsigned slot)
{
    struct ioh__list list;
    ioh__list_init(&list);
    splice(&list, &w->slot[level][slot]);
    while (!ioh__list_empty(&list)) {
        struct ioh__timer *t = ioh__container(list.next, struct ioh__timer, link);
        ioh__list_remove(&t->link);
        file(w, t);
    }
}

/* Brings everything up to now into due. Jumps from used slot to used slot: an hour without timers
 * costs nothing. */
static void advance(struct ioh__wheel *w, uint64_t now)
{
    uint64_t last = now / IOH__WHEEL_TICK_MS;
    while (w->tick <= last) {
        struct event next = next_event(w);
        if (next.tick > last) {
            w->tick = last + 1;
            return;
        }
        unsigned slot = (unsigned)(next.tick >> (SLOT_BITS * next.level)) & SLOT_MASK;
        w->used[next.level] &= ~((uint64_t)1 << slot);
        w->tick = next.tick;
        if (next.level > 0)
            cascade(w, next.level, slot);
        else
            splice(&w->due, &w->slot[0][slot]);
    }
}

void ioh__wheel_init(struct ioh__wheel *w, uint64_t now)
{
    w->tick = now / IOH__WHEEL_TICK_MS;
    for (unsigned level = 0; level < IOH__WHEEL_LEVELS; level++) {
        w->used[level] = 0;
        for (unsigned slot = 0; slot < IOH__WHEEL_SLOTS; slot++)
            ioh__list_init(&w->slot[level][slot]);
    }
    ioh__list_init(&w->due);
}

void ioh__timer_init(struct ioh__timer *t)
{
    ioh__list_init(&t->link);
    t->deadline = 0;
    t->filed = 0;
}

void ioh__timer_file(struct ioh__wheel *w, struct ioh__timer *t, uint64_t deadline)
{
    ioh__list_remove(&t->link);
    t->deadline = deadline;
    file(w, t);
}

/* The slot's bit stays; first_used() clears it. */
void ioh__timer_cancel(struct ioh__timer *t)
{
    ioh__list_remove(&t->link);
    t->filed = 0;
}

struct ioh__timer *ioh__wheel_expired(struct ioh__wheel *w, uint64_t now)
{
    advance(w, now);
    while (!ioh__list_empty(&w->due)) {
        struct ioh__timer *t = ioh__container(w->due.next, struct ioh__timer, link);
        ioh__list_remove(&t->link);
        if (t->deadline > now) {
            file(w, t);
            continue;
        }
        t->filed = 0;
        return t;
    }
    return NULL;
}

int ioh__wheel_timeout(struct ioh__wheel *w, uint64_t now)
{
    if (!ioh__list_empty(&w->due))
        return 0;
    uint64_t tick = next_event(w).tick;
    if (tick == NEVER)
        return -1;
    uint64_t at = tick * IOH__WHEEL_TICK_MS;
    return at > now ? (int)(at - now) : 0;
}

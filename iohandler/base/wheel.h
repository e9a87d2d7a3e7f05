/* Timers of one loop: a hierarchical wheel of 4 levels with 64 slots each; a slot of the lowest level
 * is IOH__WHEEL_TICK_MS wide. A timer fires at its deadline or up to one tick later, never before it.
 *
 * A deadline that moves later only changes a field: the node is moved when its old slot comes up. So
 * pushing back an idle deadline costs one store per request.
 *
 * Times are milliseconds of ioh__now_ms().
 */
#ifndef IOH_BASE_WHEEL_H
#define IOH_BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define IOH__WHEEL_TICK_MS 16u
#define IOH__WHEEL_LEVELS 4u
#define IOH__WHEEL_SLOTS 64u

/* 32 bytes, embedded in what it times. */
struct ioh__timer {
    struct ioh__list link;
    uint64_t deadline; /* when it is due */
    uint64_t filed;    /* the deadline it was filed under; 0 = not armed */
};

struct ioh__wheel {
    uint64_t tick;                    /* all before this tick has been looked at */
    uint64_t used[IOH__WHEEL_LEVELS]; /* bit s: slot s may hold timers */
    struct ioh__list slot[IOH__WHEEL_LEVELS][IOH__WHEEL_SLOTS];
    struct ioh__list due;
};

void ioh__wheel_init(struct ioh__wheel *w, uint64_t now);
void ioh__timer_init(struct ioh__timer *t);

/* Files or moves t; use ioh__timer_set(). */
void ioh__timer_file(struct ioh__wheel *w, struct ioh__timer *t, uint64_t deadline);

static inline void ioh__timer_set(struct ioh__wheel *w, struct ioh__timer *t, uint64_t deadline)
{
    if (t->filed && deadline >= t->filed)
        t->deadline = deadline;
    else
        ioh__timer_file(w, t, deadline);
}

static inline bool ioh__timer_armed(const struct ioh__timer *t)
{
    return t->filed != 0;
}

void ioh__timer_cancel(struct ioh__timer *t);

/* The next timer whose deadline is at or before now, disarmed; NULL when there is none. Called until
 * NULL, once a turn; between two calls any timer may be set or cancelled. What is set meanwhile, even
 * to a time that has passed, comes in a later turn. */
struct ioh__timer *ioh__wheel_expired(struct ioh__wheel *w, uint64_t now);

/* How many milliseconds a loop may sleep before it must call ioh__wheel_expired() again; -1 = for
 * ever (no timer is armed). 0 only if that call has something to do. Not const: it forgets slots that
 * have become empty. */
int ioh__wheel_timeout(struct ioh__wheel *w, uint64_t now);

#endif

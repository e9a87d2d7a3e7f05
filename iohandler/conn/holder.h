/* Holders: what the library's threads do.
 *
 *     epoll thread   holds a hub; under AUTO, once it lost it to another, serves the pool
 *     pool thread    serves its pool's queue; under AUTO it may find a loop there, and then holds it
 *     work thread    serves its own queue
 *     watcher        AUTO: sees which callbacks are late
 */
#ifndef IOH_CONN_HOLDER_H
#define IOH_CONN_HOLDER_H

#include "conn/crew.h"

/* Goes round until the hub has ended (true) or was taken from under a callback (false). */
bool ioh__hold(struct ioh__hub *hub);

/* Runs what comes until the queue is closed, as nice as options.pool_nice says by nice, except while it holds a hub. hub_ended(arg)
 * is told each time a hub ended that was taken over here. */
void ioh__serve(struct ioh__queue *queue, unsigned nice, void (*hub_ended)(void *arg), void *arg);

/* One turn of a hub that the host drives; false: it has ended. */
bool ioh__step(struct ioh__hub *hub, int timeout_ms);

/* The watcher's life; ends after ioh__watch_stop(). */
void ioh__watch(struct ioh__crew *crew, struct ioh__hub *const *hubs, unsigned count);
void ioh__watch_stop(struct ioh__crew *crew);

/* After a callback began. Any thread. */
void ioh__watch_wake(struct ioh__crew *crew);

#endif

/* The turn: how a hub goes round, one callback at a time.
 *
 *     while (ioh__turn_next(hub, &job)) {
 *         ioh__job_run(&job, handler, state);
 *         ioh__turn_done(hub, &job);
 *     }
 *
 * turn_next() does all work that needs no callback and returns when one has to run; turn_done() takes
 * its outcome. Between the two nothing of the hub stands on any stack.
 */
#ifndef IOH_CONN_TURN_H
#define IOH_CONN_TURN_H

#include "conn/hub.h"

/* false: the hub was stopped and nothing is left, or (hub->stepping) a turn is over. */
bool ioh__turn_next(struct ioh__hub *hub, struct ioh__job *job);

void ioh__turn_done(struct ioh__hub *hub, struct ioh__job *job);

/* Is the drain time over (and the holder may be in the middle of a long batch)? Then everything that is left is
 * aborted here and now. */
bool ioh__turn_late_stop(struct ioh__hub *hub);

/* A driven hub between two steps: its descriptor becomes readable when there is something to do. */
void ioh__turn_expose(struct ioh__hub *hub);

/* The server stops: what is open has drain_ms to end. */
void ioh__turn_stop(struct ioh__hub *hub, uint32_t drain_ms);

#endif

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

/* false: the hub was stopped and nothing is left. */
bool ioh__turn_next(struct ioh__hub *hub, struct ioh__job *job);

void ioh__turn_done(struct ioh__hub *hub, struct ioh__job *job);

#endif

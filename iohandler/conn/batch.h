/* Sending in batches: connections are fed one after another, then their answers leave one after another. The kernel's
 * way in and its way out each fill the processor's caches; taken in turns, they drive each other out of them. Worth 3 to
 * 8 % of the rate of small answers.
 *
 * No answer waits long for it: a batch is at most what the loop feeds in about half a millisecond, as measured
 * over the last ticks of the coarse clock, and ends with the tick.
 */
#ifndef IOH_CONN_BATCH_H
#define IOH_CONN_BATCH_H

#include "conn/hub.h"

/* Once a turn, after the poll: how large may a batch be from now on? */
void ioh__batch_tune(struct ioh__hub *hub);

/* The connection has been fed: it settles now, or with its batch. */
void ioh__batch_add(struct ioh__hub *hub, ioh_conn *conn);

/* All of the batch settle. */
void ioh__batch_send(struct ioh__hub *hub);

#endif

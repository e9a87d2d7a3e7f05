/* Accepting: a hub's ends of the listeners.
 *
 * All hubs poll the same sockets (EPOLLEXCLUSIVE wakes one of them); whoever accepts gives the
 * connection to the hub with the fewest. Out of descriptors or memory, accepting pauses for a while:
 * the connection stays in the kernel's queue, and a level-triggered listener must not be polled
 * meanwhile, or the loop would spin. (A spare descriptor to accept and close with does not help: other
 * threads take it.)
 */
#ifndef IOH_CONN_ACCEPTOR_H
#define IOH_CONN_ACCEPTOR_H

#include "conn/hub.h"

#define IOH__ACCEPT_BATCH 64 /* a turn's: those who are connected go on being served */
#define IOH__ACCEPT_PAUSE_MS 100u

void ioh__accept_some(struct ioh__hub *hub, struct ioh__acceptor *acceptor);

/* An accepted connection that comes to nothing: closed, and out of the books. */
void ioh__accept_undo(struct ioh__crew *crew, int fd, const struct ioh__peer *peer);

/* A connection that this hub is to have; it is counted in hub->load already. */
void ioh__accepted(struct ioh__hub *hub, int fd, const struct ioh__peer *peer, int listener);

/* Ends a pause whose time has come. */
void ioh__acceptors_resume(struct ioh__hub *hub);

void ioh__acceptors_stop(struct ioh__hub *hub);

#endif

/* Singles: IOH_THREADS, a thread for each connection. Such a thread holds a hub of its own, over
 * poll(2), with just that connection, and ends with it; all code above and below is the same.
 *
 * The crew keeps the list of them, since their ids and their stop must be found from outside.
 */
#ifndef IOH_CONN_SINGLE_H
#define IOH_CONN_SINGLE_H

#include "conn/crew.h"

struct ioh__single_slot {
    struct ioh__hub *hub; /* NULL: free */
    uint32_t era;         /* how often the slot was used */
};

/* A thread that has ended and waits to be joined. */
struct ioh__single_end {
    struct ioh__single_end *next;
    pthread_t thread;
};

/* Makes what the next connection will need, which includes a descriptor, before it is accepted: 0 or errno. */
int ioh__single_prepare(struct ioh__hub *acceptor);
void ioh__single_unprepare(struct ioh__hub *acceptor);

/* Starts the thread of an accepted connection. When no thread can be made the connection is closed. */
void ioh__single_start(struct ioh__hub *acceptor, int fd, const struct ioh__peer *peer,
                       int listener);

/* Posts a message to the connection it names. As ioh__message_give(). Any thread. */
int ioh__single_give(struct ioh__crew *crew, struct ioh__message *m);

/* Tells all of them to stop, once nobody accepts any more. */
void ioh__singles_stop(struct ioh__crew *crew, uint32_t drain_ms);

/* Waits until none is left; until NULL: for ever. false: it took longer. */
bool ioh__singles_wait(struct ioh__crew *crew, const struct timespec *until);

/* Adds their counters to *sum with add(), and answers how many threads there are. */
uint32_t ioh__singles_count(struct ioh__crew *crew,
                            void (*add)(void *sum, const struct ioh__counters *c), void *sum);

#endif

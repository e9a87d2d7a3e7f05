/* The gate: how many connections there may be, in all and of one address. One for a server, shared by all its
 * loops and connections' threads.
 *
 * Who is let in is in the books until ioh__gate_leave(). The table of addresses has a lock, is found by hash
 * and holds nothing but the addresses that are connected now: it grows and shrinks with them. Without limits
 * nothing is counted. Any thread.
 */
#ifndef IOH_CONN_GATE_H
#define IOH_CONN_GATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/sock.h"

struct ioh__gate_slot {
    uint64_t key;
    uint32_t count; /* 0: free */
};

struct ioh__gate {
    uint32_t max_connections, max_per_address; /* 0: no limit */
    _Atomic uint32_t connections;

    pthread_mutex_t lock; /* all below */
    struct ioh__gate_slot *slots;
    uint32_t room, used; /* a power of two, or 0 */
    uint64_t seed;       /* so that nobody outside can choose addresses that collide */
};

enum ioh__gate_answer { IOH__GATE_OPEN, IOH__GATE_FULL, IOH__GATE_NO_MEMORY };

void ioh__gate_init(struct ioh__gate *gate, uint32_t max_connections, uint32_t max_per_address);
void ioh__gate_destroy(struct ioh__gate *gate);

/* One connection more, if there may be one. */
bool ioh__gate_enter(struct ioh__gate *gate);

/* One more of the peer's address, if there may be one: then peer->counted. Peers on unix sockets have no address. */
enum ioh__gate_answer ioh__gate_enter_address(struct ioh__gate *gate, struct ioh__peer *peer);

/* It is over. */
void ioh__gate_leave(struct ioh__gate *gate, struct ioh__peer *peer);

#endif

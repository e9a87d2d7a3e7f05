/* The gate (see gate.h). Any thread.
 *
 * Open addressing with linear probing; who leaves pulls those behind back into the hole, so that there are no
 * tombstones and the table stays as short as its content. At most 3/4 full, at least 1/8.
 */
#include "conn/gate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define FIRST_ROOM 64u

void ioh__gate_init(struct ioh__gate *gate, uint32_t max_connections, uint32_t max_per_address)
{
    memset(gate, 0, sizeof *gate);
    gate->max_connections = max_connections;
    gate->max_per_address = max_per_address;
    pthread_mutex_init(&gate->lock, NULL);
    if (max_per_address && getrandom(&gate->seed, sizeof gate->seed, GRND_NONBLOCK) < 0)
        gate->seed = (uint64_t)(uintptr_t)gate; /* too early after the boot, or forbidden */
}

void ioh__gate_destroy(struct ioh__gate *gate)
{
    free(gate->slots);
    pthread_mutex_destroy(&gate->lock);
}

bool ioh__gate_enter(struct ioh__gate *gate)
{
    if (gate->max_connections == 0)
        return true;
    uint32_t count = atomic_load_explicit(&gate->connections, memory_order_relaxed);
    do {
        if (count >= gate->max_connections)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&gate->connections, &count, count + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* ---- the table; under the lock */

/* The first eight bytes of an IPv6 address: a host has its /64 to itself (RFC 4291 2.5.4). IPv4 addresses, also mapped
 * ones, stand in 0:1::/32, where no IPv6 host is (RFC 4291 4). */
static uint64_t key_of(const struct ioh__peer *peer)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const uint8_t *at = peer->address;
    uint64_t key = 0;
    bool v4 = peer->family == AF_INET;
    if (!v4 && memcmp(at, mapped, sizeof mapped) == 0) {
        v4 = true;
        at += sizeof mapped;
    }
    for (int i = 0; i < (v4 ? 4 : 8); i++)
        key = key << 8 | at[i];
    return v4 ? key | (uint64_t)1 << 32 : key;
}

static uint32_t home_of(const struct ioh__gate *gate, uint64_t key)
{
    uint64_t h = (key ^ gate->seed) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * (gate->seed | 1);
    return (uint32_t)(h >> 32) & (gate->room - 1);
}

/* Where the key stands, or the free slot where it belongs. */
static struct ioh__gate_slot *find(struct ioh__gate *gate, uint64_t key)
{
    uint32_t i = home_of(gate, key);
    while (gate->slots[i].count && gate->slots[i].key != key)
        i = (i + 1) & (gate->room - 1);
    return &gate->slots[i];
}

static bool resize(struct ioh__gate *gate, uint32_t room)
{
    struct ioh__gate_slot *old = gate->slots;
    uint32_t old_room = gate->room;
    struct ioh__gate_slot *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    gate->slots = slots;
    gate->room = room;
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i].count)
            *find(gate, old[i].key) = old[i];
    free(old);
    return true;
}

/* false: not even one more fits. */
static bool make_room(struct ioh__gate *gate)
{
    if (gate->used < gate->room - gate->room / 4)
        return true;
    return resize(gate, gate->room ? gate->room * 2 : FIRST_ROOM) || gate->used + 1 < gate->room;
}

static void drop(struct ioh__gate *gate, uint32_t hole)
{
    uint32_t mask = gate->room - 1;
    for (uint32_t i = (hole + 1) & mask; gate->slots[i].count; i = (i + 1) & mask) {
        uint32_t home = home_of(gate, gate->slots[i].key);
        if (((i - home) & mask) < ((i - hole) & mask)) /* it would stand before its home */
            continue;
        gate->slots[hole] = gate->slots[i];
        hole = i;
    }
    gate->slots[hole].count = 0;
    gate->used--;
    if (gate->room > FIRST_ROOM && gate->used < gate->room / 8)
        resize(gate, gate->room / 2);
}

/* ---- */

enum ioh__gate_answer ioh__gate_enter_address(struct ioh__gate *gate, struct ioh__peer *peer)
{
    enum ioh__gate_answer answer = IOH__GATE_OPEN;
    if (gate->max_per_address == 0 || peer->family == AF_UNIX)
        return IOH__GATE_OPEN;
    uint64_t key = key_of(peer);
    pthread_mutex_lock(&gate->lock);
    struct ioh__gate_slot *slot = gate->room ? find(gate, key) : NULL;
    if (slot && slot->count >= gate->max_per_address) {
        answer = IOH__GATE_FULL;
    } else if (slot && slot->count) {
        slot->count++;
    } else if (make_room(gate)) {
        *find(gate, key) = (struct ioh__gate_slot){.key = key, .count = 1};
        gate->used++;
    } else {
        answer = IOH__GATE_NO_MEMORY;
    }
    pthread_mutex_unlock(&gate->lock);
    peer->counted = answer == IOH__GATE_OPEN;
    return answer;
}

void ioh__gate_leave(struct ioh__gate *gate, struct ioh__peer *peer)
{
    if (gate->max_connections)
        atomic_fetch_sub_explicit(&gate->connections, 1, memory_order_relaxed);
    if (!peer->counted)
        return;
    peer->counted = false;
    pthread_mutex_lock(&gate->lock);
    struct ioh__gate_slot *slot = find(gate, key_of(peer));
    if (slot->count > 1)
        slot->count--;
    else
        drop(gate, (uint32_t)(slot - gate->slots));
    pthread_mutex_unlock(&gate->lock);
}

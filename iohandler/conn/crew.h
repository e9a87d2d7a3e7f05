/* The crew: the threads of a server that run callbacks without owning a loop, and what decides who runs
 * what. Made before the hubs, gone after them.
 */
#ifndef IOH_CONN_CREW_H
#define IOH_CONN_CREW_H

#include "conn/topics.h"
#include "conn/gate.h"
#include "conn/work.h"
#include "proto/deflate.h"

#define IOH__LATE_SLOTS 256u /* AUTO's memory of late paths, by hash */
#define IOH__LATE_CALLS \
    8u /* a late callback's successors that go to the pool; quick ones count down */

/* A pool: the server's own or a named one. */
struct ioh_pool {
    struct ioh__queue queue;
    struct ioh_pool *next;
    char name[11];
    unsigned threads;
};

/* A work thread (AFFINE). */
struct ioh__worker {
    struct ioh__queue queue;
    _Atomic uint32_t load; /* connections */
};

/* What the watcher saw of a loop. */
struct ioh__look {
    uint64_t word;    /* hub->watch at the last look */
    uint64_t stalled; /* the last callback that nobody could take over from */
};

struct ioh__crew {
    const struct ioh_options *options;
    unsigned cores;         /* that this process may use, looked up once */
    struct ioh_pool *pool;  /* the server's own; NULL: none */
    struct ioh_pool *named; /* all others */
    struct ioh__worker *workers;
    unsigned worker_count;
    struct ioh__gate gate;
    struct ioh__limits limits;       /* which lines of hits are due */
    struct ioh__deflaters deflaters; /* of all threads that send */

    /* AUTO */
    _Atomic uint8_t late_paths[IOH__LATE_SLOTS];
    _Atomic uint64_t refused;    /* sends of other threads at send_max */
    _Atomic uint64_t stop_at;    /* ms; when the drain time of a stop is over; 0: no stop */
    _Atomic uint32_t late_known; /* how many slots are not 0 */
    _Atomic uint64_t taken, stalled;
    _Atomic bool watcher_asleep;
    pthread_mutex_t watcher_lock;
    pthread_cond_t watcher_wake;
    _Atomic bool watcher_over;
    struct ioh__look *looks; /* one for each loop; the watcher's */

    /* IOH_THREADS: the connections' threads (single.h) */
    pthread_mutex_t single_lock;
    pthread_cond_t single_ended;
    struct ioh__single_slot *singles;
    struct ioh__single_end *single_ends; /* to be joined */
    uint32_t single_room, single_count;  /* slots; threads that live */
    uint64_t singles_aborted;
    struct ioh__counters retired; /* sums of those that have ended */

    struct ioh__topics topics;

    /* ioh_wait_sent() */
    _Atomic uint32_t waiters;
    pthread_mutex_t wait_lock;
    pthread_cond_t wait_change;
};

int ioh__crew_init(struct ioh__crew *crew, const struct ioh_options *options);
void ioh__crew_destroy(struct ioh__crew *crew);
struct ioh_pool *ioh__pool_make(const struct ioh__crew *crew, const char *name, unsigned threads,
                                unsigned queue);

/* The default queue of a new connection; NULL: the loop's holder. */
struct ioh__queue *ioh__crew_queue(struct ioh__crew *crew, ioh_conn *conn);

/* The connection is over. */
void ioh__crew_leave(struct ioh__crew *crew, ioh_conn *conn);

/* The connection's work thread's queue, chosen at the first call; NULL: there are none. */
struct ioh__queue *ioh__crew_affine(struct ioh__crew *crew, ioh_conn *conn);

/* What on_classify said, and back to the default. */
void ioh__crew_route(struct ioh__crew *crew, ioh_conn *conn, const struct ioh_route *route);
void ioh__crew_reset(struct ioh__crew *crew, ioh_conn *conn);

/* AUTO's memory: by path (key >= 0), and by connection where there is none (-1). */
int ioh__crew_late_key(const struct ioh__job *job);
bool ioh__crew_known_late(struct ioh__crew *crew, const struct ioh__job *job);
void ioh__crew_was_late(struct ioh__crew *crew, ioh_conn *conn, int key);
void ioh__crew_was_quick(struct ioh__crew *crew, ioh_conn *conn, int key);

/* Those in ioh_wait_sent() look again. */
void ioh__crew_wake_waiters(struct ioh__crew *crew);

#endif

/* A bounded queue of tasks in front of a set of threads: a pool's, or one work thread's.
 *
 * Loops put whole batches in and wake a thread or two; who takes a task and leaves others wakes the next, so that tasks
 * which wait do not keep others waiting; but no more are on their way at a time than there are cores, so that quick tasks
 * are done by a few threads and do not pay for a wake-up each. A thread that finds nothing looks again for a moment
 * before it sleeps, since the next batch is usually microseconds away; only one does at a time, and on a single core
 * it gives the core to the others.
 */
#ifndef IOH_EXEC_QUEUE_H
#define IOH_EXEC_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ioh__task {
    struct ioh__task *next;
};

struct ioh__queue {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct ioh__task *first, *last;
    size_t limit;
    unsigned idle;   /* threads inside pop() */
    unsigned waking; /* sleepers that have been signalled and have not come yet */
    unsigned cores;
    bool closed;
    uint64_t spin_from_ns;  /* on one core nobody spins before this */
    _Atomic size_t count;   /* tasks; changed under the lock, read by spinners and statistics */
    _Atomic bool spinning;  /* one thread looks at count */
    _Atomic bool signalled; /* closed, for the spinner */
};

/* cores: how many threads can run at a time. */
void ioh__queue_init(struct ioh__queue *q, size_t limit, unsigned cores);
void ioh__queue_destroy(struct ioh__queue *q);

/* Puts in as many of the tasks, linked by next, as there is room for; answers the first that did not fit,
 * or NULL. Any thread. */
struct ioh__task *ioh__queue_put(struct ioh__queue *q, struct ioh__task *tasks);

/* Puts a task in front of all others, beyond the limit, if a thread waits that has nothing else to
 * take, and if claim(arg) says so; claim runs under the lock. Any thread. */
bool ioh__queue_put_urgent(struct ioh__queue *q, struct ioh__task *task, bool (*claim)(void *arg),
                           void *arg);

/* The next task; waits for one. NULL: closed and empty. */
struct ioh__task *ioh__queue_pop(struct ioh__queue *q);

/* Wakes all threads; pop() answers NULL once nothing is left. */
void ioh__queue_close(struct ioh__queue *q);

#endif

/* The queue in front of a set of threads (see queue.h). Any thread. */
#include "exec/queue.h"

#include <sched.h>

#define SPINS 200 /* looks at the count: about 5 us; what a sleep and a wake-up cost */
#define YIELDS 2  /* instead, on one core */

void ioh__queue_init(struct ioh__queue *q, size_t limit, unsigned cores)
{
    *q = (struct ioh__queue){.limit = limit, .cores = cores};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->ready, NULL);
}

void ioh__queue_destroy(struct ioh__queue *q)
{
    pthread_cond_destroy(&q->ready);
    pthread_mutex_destroy(&q->lock);
}

static size_t count_of(const struct ioh__queue *q)
{
    return atomic_load_explicit(&q->count, memory_order_relaxed);
}

static void set_count(struct ioh__queue *q, size_t count)
{
    atomic_store_explicit(&q->count, count, memory_order_relaxed);
}

/* How many sleepers are to be woken? No more than there are cores are on their way at a time, and the spinner sees the
 * count by itself. Under the lock. */
static unsigned wants_wake(struct ioh__queue *q)
{
    unsigned most = q->cores > q->waking ? q->cores - q->waking : 0;
    size_t tasks = count_of(q);
    unsigned spinner = atomic_load_explicit(&q->spinning, memory_order_relaxed);
    unsigned asleep = q->idle - spinner - q->waking;
    if (tasks <= spinner + q->waking)
        return 0;
    tasks -= spinner + q->waking;
    most = most < asleep ? most : asleep;
    most = tasks < most ? (unsigned)tasks : most;
    q->waking += most;
    return most;
}

static void wake(struct ioh__queue *q, unsigned count)
{
    while (count--)
        pthread_cond_signal(&q->ready);
}

struct ioh__task *ioh__queue_put(struct ioh__queue *q, struct ioh__task *tasks)
{
    pthread_mutex_lock(&q->lock);
    size_t count = count_of(q);
    while (tasks && count < q->limit && !q->closed) {
        struct ioh__task *task = tasks;
        tasks = task->next;
        task->next = NULL;
        if (q->last)
            q->last->next = task;
        else
            q->first = task;
        q->last = task;
        count++;
    }
    set_count(q, count);
    unsigned sleepers = wants_wake(q);
    pthread_mutex_unlock(&q->lock);
    wake(q, sleepers);
    return tasks;
}

bool ioh__queue_put_urgent(struct ioh__queue *q, struct ioh__task *task, bool (*claim)(void *arg),
                           void *arg)
{
    pthread_mutex_lock(&q->lock);
    bool taken = !q->closed && q->idle > count_of(q) && claim(arg);
    if (taken) {
        task->next = q->first;
        q->first = task;
        if (!q->last)
            q->last = task;
        set_count(q, count_of(q) + 1);
    }
    pthread_mutex_unlock(&q->lock);
    if (taken)
        pthread_cond_signal(&q->ready);
    return taken;
}

/* Looks for a while without the lock. */
static void spin(struct ioh__queue *q)
{
    for (int i = q->cores == 1 ? SPINS - YIELDS : 0; i < SPINS; i++) {
        if (count_of(q) || atomic_load_explicit(&q->signalled, memory_order_relaxed))
            return;
        if (q->cores == 1)
            sched_yield();
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
}

struct ioh__task *ioh__queue_pop(struct ioh__queue *q)
{
    bool spun = false;
    pthread_mutex_lock(&q->lock);
    q->idle++;
    while (!q->first && !q->closed) {
        bool free = false;
        if (!spun && atomic_compare_exchange_strong(&q->spinning, &free, true)) {
            pthread_mutex_unlock(&q->lock);
            spin(q);
            pthread_mutex_lock(&q->lock);
            atomic_store(&q->spinning, false);
            spun = true;
        } else {
            pthread_cond_wait(&q->ready, &q->lock);
            if (q->waking)
                q->waking--;
            spun = false;
        }
    }
    q->idle--;
    struct ioh__task *task = q->first;
    if (task) {
        q->first = task->next;
        if (!q->first)
            q->last = NULL;
        set_count(q, count_of(q) - 1);
    }
    unsigned sleepers = wants_wake(q);
    pthread_mutex_unlock(&q->lock);
    wake(q, sleepers);
    return task;
}

void ioh__queue_close(struct ioh__queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    atomic_store(&q->signalled, true);
    pthread_cond_broadcast(&q->ready);
    pthread_mutex_unlock(&q->lock);
}

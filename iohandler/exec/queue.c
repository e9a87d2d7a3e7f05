/* The queue in front of a set of threads (see queue.h). Any thread. */
#include "exec/queue.h"

#include <sched.h>

#include "base/clock.h"

#define SPINS 200 /* looks at the count: about 5 us; what a sleep and a wake-up cost */
#define YIELDS 2  /* instead, on one core */
/* Whoever computes keeps a core that is given to him for a slice and a tick, 3 ms and more; a loop, for the batch that it
 * reads, some 1 ms. Those who put tasks in count on the one who looks for them: after so long, */
#define YIELD_NS 3000000u
#define YIELD_PAUSE_NS 1000000000u /* nobody does for a while */

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

static bool has_news(const struct ioh__queue *q)
{
    return count_of(q) || atomic_load_explicit(&q->signalled, memory_order_relaxed);
}

/* Looks for a while without the lock. Until when nobody is to do so again. */
static uint64_t spin(const struct ioh__queue *q)
{
    for (int i = 0; i < SPINS && !has_news(q); i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    return 0;
}

/* The same on one core, which others need to bring something. */
static uint64_t yield(const struct ioh__queue *q)
{
    uint64_t begin = ioh__exact_ns();
    for (int i = 0; i < YIELDS && !has_news(q); i++)
        sched_yield();
    uint64_t now = ioh__exact_ns();
    return now - begin > YIELD_NS ? now + YIELD_PAUSE_NS : 0;
}

/* Is it time to look, and is nobody else at it? Then this thread is. */
static bool begin_spin(struct ioh__queue *q)
{
    bool free = false;
    return (q->cores > 1 || ioh__exact_ns() >= q->spin_from_ns) &&
           atomic_compare_exchange_strong(&q->spinning, &free, true);
}

struct ioh__task *ioh__queue_pop(struct ioh__queue *q)
{
    bool spun = false;
    pthread_mutex_lock(&q->lock);
    q->idle++;
    while (!q->first && !q->closed) {
        if (!spun && begin_spin(q)) {
            pthread_mutex_unlock(&q->lock);
            uint64_t from = q->cores == 1 ? yield(q) : spin(q);
            pthread_mutex_lock(&q->lock);
            q->spin_from_ns = from;
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

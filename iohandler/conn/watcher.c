/* The watcher of AUTO (see holder.h): a thread that looks every handoff_us while callbacks run, takes the loop of one
 * that is late, and sleeps while none runs. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "conn/holder.h"
#include "conn/reach.h"

void ioh__watch_wake(struct ioh__crew *crew)
{
    if (!atomic_load(&crew->watcher_asleep))
        return;
    pthread_mutex_lock(&crew->watcher_lock);
    atomic_store(&crew->watcher_asleep, false);
    pthread_cond_signal(&crew->watcher_wake);
    pthread_mutex_unlock(&crew->watcher_lock);
}

struct claim {
    struct ioh__hub *hub;
    uint64_t word;
};

static bool claim_loop(void *arg)
{
    struct claim *c = arg;
    uint64_t word = c->word;
    return atomic_compare_exchange_strong_explicit(&c->hub->watch, &word,
                                                   (word & ~(uint64_t)3) | IOH__WATCH_TAKEN,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* A work that can be the hub's running one, with a receive buffer; NULL: out of memory. */
static struct ioh__work *spare_work(struct ioh__hub *hub)
{
    struct ioh__work *w = ioh__work_running(hub);
    uint8_t *rx = malloc(IOH__RX_SIZE);
    if (!w || !rx) {
        free(w);
        free(rx);
        return NULL;
    }
    w->rx = rx;
    w->take_over = true;
    return w;
}

/* The same callback as at the last look: its loop goes to a pool thread, if one is left. */
static void take(struct ioh__crew *crew, struct ioh__hub *hub, uint64_t word, uint64_t *stalled)
{
    struct claim c = {hub, word};
    struct ioh__work *w = spare_work(hub);
    if (w && ioh__queue_put_urgent(&crew->pool->queue, &w->task, claim_loop, &c)) {
        atomic_fetch_add_explicit(&crew->taken, 1, memory_order_relaxed);
        return;
    }
    if (w) {
        free(w->rx);
        free(w);
    }
    if (*stalled != word && atomic_load_explicit(&hub->watch, memory_order_relaxed) == word) {
        *stalled = word;
        atomic_fetch_add_explicit(&crew->stalled, 1, memory_order_relaxed);
    }
}

/* One look at all loops; true: something happened since the last. *running: a callback runs somewhere. */
static bool look_at_all(struct ioh__crew *crew, struct ioh__hub *const *hubs, unsigned count,
                        struct ioh__look *looks, bool *running)
{
    bool active = false;
    *running = false;
    for (unsigned i = 0; i < count; i++) {
        uint64_t word = atomic_load(&hubs[i]->watch);
        enum ioh__watch_state state = (enum ioh__watch_state)(word & 3);
        *running = *running || state == IOH__WATCH_CALLBACK || state == IOH__WATCH_CALL;
        active = active || word != looks[i].word || *running;
        if (state == IOH__WATCH_CALLBACK && word == looks[i].word)
            take(crew, hubs[i], word, &looks[i].stalled);
        looks[i].word = word;
    }
    return active;
}

/* Sleeps until a callback begins, unless one runs already. */
static void sleep_until_busy(struct ioh__crew *crew, struct ioh__hub *const *hubs, unsigned count,
                             struct ioh__look *looks)
{
    bool running;
    pthread_mutex_lock(&crew->watcher_lock);
    atomic_store(&crew->watcher_asleep, true);
    if (look_at_all(crew, hubs, count, looks, &running))
        atomic_store(&crew->watcher_asleep, false);
    while (atomic_load(&crew->watcher_asleep) && !atomic_load(&crew->watcher_over))
        pthread_cond_wait(&crew->watcher_wake, &crew->watcher_lock);
    atomic_store(&crew->watcher_asleep, false);
    pthread_mutex_unlock(&crew->watcher_lock);
}

/* A look costs some 10 us of somebody's core. While nothing was late for long there are few of them. */
#define SPARING 4u           /* so many times fewer, */
#define SPARING_MAX_US 2500u /* where that delays nobody for long */
#define ALERT_LOOKS 2000u    /* close looks after a late callback */

static void nap(struct ioh__crew *crew, uint64_t us)
{
    struct timespec until = ioh__moment_in(us);
    pthread_mutex_lock(&crew->watcher_lock);
    int rc = 0;
    while (rc == 0 && !crew->watcher_over)
        rc = pthread_cond_timedwait(&crew->watcher_wake, &crew->watcher_lock, &until);
    pthread_mutex_unlock(&crew->watcher_lock);
}

void ioh__watch(struct ioh__crew *crew, struct ioh__hub *const *hubs, unsigned count)
{
    /* So long without a callback before it sleeps: a busy server does not pay for waking it, and an idle one
     * has it asleep after some 10 ms. */
    const uint64_t close_us = crew->options->handoff_us, sleep_after_us = 10000 + 2 * close_us;
    const uint64_t sparing_us = close_us <= SPARING_MAX_US ? SPARING * close_us : close_us;
    struct ioh__look *looks = crew->looks;
    uint64_t late_before = 0, quiet_us = 0;
    unsigned alert = 0;
    while (!atomic_load_explicit(&crew->watcher_over, memory_order_relaxed)) {
        bool running;
        bool active = look_at_all(crew, hubs, count, looks, &running);
        uint64_t late = atomic_load_explicit(&crew->taken, memory_order_relaxed) +
                        atomic_load_explicit(&crew->stalled, memory_order_relaxed);
        alert = late != late_before ? ALERT_LOOKS : alert - (alert > 0);
        late_before = late;
        uint64_t us = running || alert ? close_us : sparing_us;
        quiet_us = active ? 0 : quiet_us + us;
        if (quiet_us < sleep_after_us)
            nap(crew, us);
        else
            sleep_until_busy(crew, hubs, count, looks);
    }
}

void ioh__watch_stop(struct ioh__crew *crew)
{
    pthread_mutex_lock(&crew->watcher_lock);
    atomic_store(&crew->watcher_over, true);
    pthread_cond_signal(&crew->watcher_wake);
    pthread_mutex_unlock(&crew->watcher_lock);
}

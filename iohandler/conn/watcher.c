/* The watcher of AUTO (see holder.h): a thread that looks every handoff_us while callbacks run, takes the loop of one
 * that is late, and sleeps while none runs. */
#include <stdlib.h>
#include <time.h>

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

/* One look at all loops; true: something happened since the last. */
static bool look_at_all(struct ioh__crew *crew, struct ioh__hub *const *hubs, unsigned count,
                        struct ioh__look *looks)
{
    bool active = false;
    for (unsigned i = 0; i < count; i++) {
        uint64_t word = atomic_load(&hubs[i]->watch);
        enum ioh__watch_state state = (enum ioh__watch_state)(word & 3);
        active = active || word != looks[i].word || state == IOH__WATCH_CALLBACK ||
                 state == IOH__WATCH_CALL;
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
    pthread_mutex_lock(&crew->watcher_lock);
    atomic_store(&crew->watcher_asleep, true);
    if (look_at_all(crew, hubs, count, looks))
        atomic_store(&crew->watcher_asleep, false);
    while (atomic_load(&crew->watcher_asleep) && !crew->watcher_over)
        pthread_cond_wait(&crew->watcher_wake, &crew->watcher_lock);
    atomic_store(&crew->watcher_asleep, false);
    pthread_mutex_unlock(&crew->watcher_lock);
}

static bool watch_is_over(struct ioh__crew *crew)
{
    pthread_mutex_lock(&crew->watcher_lock);
    bool over = crew->watcher_over;
    pthread_mutex_unlock(&crew->watcher_lock);
    return over;
}

void ioh__watch(struct ioh__crew *crew, struct ioh__hub *const *hubs, unsigned count)
{
    /* So many quiet looks before it sleeps: a busy server does not pay for waking it, and an idle one
     * has it asleep after 10 ms. */
    const unsigned quiet_looks = 10000 / crew->options->handoff_us + 2;
    struct ioh__look *looks = crew->looks;
    unsigned quiet = 0;
    struct timespec nap = {.tv_sec = crew->options->handoff_us / 1000000u,
                           .tv_nsec = (long)(crew->options->handoff_us % 1000000u) * 1000};
    while (!watch_is_over(crew)) {
        quiet = look_at_all(crew, hubs, count, looks) ? 0 : quiet + 1;
        if (quiet < quiet_looks)
            nanosleep(&nap, NULL);
        else
            sleep_until_busy(crew, hubs, count, looks);
    }
}

void ioh__watch_stop(struct ioh__crew *crew)
{
    pthread_mutex_lock(&crew->watcher_lock);
    crew->watcher_over = true;
    pthread_cond_signal(&crew->watcher_wake);
    pthread_mutex_unlock(&crew->watcher_lock);
}

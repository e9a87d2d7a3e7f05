/* The server's threads: making, naming, stopping, joining. */
#include <errno.h>
#include <iohandler/error.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/share.h"
#include "conn/holder.h"
#include "conn/reach.h"
#include "conn/single.h"
#include "server/server.h"

#define GRACE_MS 500u /* beyond the drain time, for aborting and the last callbacks */

/* ---- hubs */

static int make_hub(ioh_server *s, unsigned index)
{
    struct ioh__hub *hub = aligned_alloc(_Alignof(struct ioh__hub), sizeof *hub);
    if (!hub)
        return IOH_ENOMEM;
    memset(hub, 0, sizeof *hub);
    s->hubs[index] = hub;
    s->hub_count = index + 1;
    hub->handler = &s->handler;
    hub->state = s->state;
    hub->options = &s->options;
    hub->server = s;
    hub->crew = &s->crew;
    hub->compress = s->compress;
    hub->all = s->hubs;
    hub->all_count = s->options.epoll_threads;
    hub->stepping = s->driven;
    hub->guarded = s->options.exec == IOH_EXEC_AUTO && s->options.type == IOH_EPOLL && !s->driven;
    return ioh__hub_init(hub, index);
}

int ioh__hub_listen(ioh_server *s, struct ioh__hub *hub)
{
    int rc = 0;
    hub->acceptors = calloc(s->listener_count + 1, sizeof *hub->acceptors);
    if (!hub->acceptors)
        return IOH_ENOMEM;
    for (unsigned i = 0; rc == 0 && i < s->listener_count; i++)
        rc = ioh__hub_accept_from(hub, i, &s->listeners[i], (int)i);
    return rc;
}

int ioh__hubs_make(ioh_server *s)
{
    s->hubs = calloc(s->options.epoll_threads, sizeof *s->hubs);
    s->crew.looks = calloc(s->options.epoll_threads, sizeof *s->crew.looks);
    int rc = s->hubs && s->crew.looks ? 0 : IOH_ENOMEM;
    for (unsigned i = 0; rc == 0 && i < s->options.epoll_threads; i++)
        rc = make_hub(s, i);
    return rc;
}

void ioh__hubs_free(ioh_server *s)
{
    for (unsigned i = 0; i < s->hub_count; i++) {
        ioh__hub_destroy(s->hubs[i]);
        free(s->hubs[i]->acceptors);
        free(s->hubs[i]);
    }
    free(s->hubs);
    free(s->threads);
    free(s->crew.looks);
    s->crew.looks = NULL;
    s->hubs = NULL;
    s->threads = NULL;
    s->hub_count = 0;
}

/* ---- what a thread does */

static void hub_ended(void *arg)
{
    ioh_server *s = arg;
    pthread_mutex_lock(&s->lock);
    s->hubs_left--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void thread_ready(ioh_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->threads_ready++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Nobody cancels a thread of the library. Around recv(), send() and the like glibc marks a thread of several as one that
 * may be cancelled there and then, with two locked instructions for each call; it spares them where that is how the
 * thread is anyway. */
static void spare_marks(void)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}

static void *run_thread(void *arg)
{
    spare_marks();
    struct ioh__thread *t = arg;
    ioh_server *s = t->server;
    ioh__self.server = s;
    if (s->handler.on_thread_start)
        s->handler.on_thread_start(s->state);
    thread_ready(s);
    if (t->hub && ioh__hold(t->hub))
        hub_ended(s);
    if (t->queue)
        ioh__serve(t->queue, t->nice, hub_ended, s);
    if (s->handler.on_thread_stop)
        s->handler.on_thread_stop(s->state);
    return NULL;
}

/* It calls nobody, so the host is not told of it. */
static void *run_watcher(void *arg)
{
    struct ioh__thread *t = arg;
    ioh_server *s = t->server;
    thread_ready(s);
    ioh__watch(&s->crew, s->hubs, s->hub_count);
    return NULL;
}

/* ---- the list of them */

static unsigned named_threads(const ioh_server *s)
{
    unsigned count = 0;
    for (const ioh_pool *p = s->crew.named; p; p = p->next)
        count += p->threads;
    return s->options.type == IOH_THREADS ? 0 : count; /* nothing would ever run there */
}

/* 15 bytes are all that the kernel keeps; the number matters more than the end of a pool's name. */
static struct ioh__thread *add(ioh_server *s, const char *kind, unsigned number)
{
    struct ioh__thread *t = &s->threads[s->thread_count++];
    char digits[8];
    int n = snprintf(digits, sizeof digits, "-%u", number % 100000);
    t->server = s;
    snprintf(t->name, sizeof t->name, "%.*s%s", (int)sizeof t->name - 1 - n, kind, digits);
    return t;
}

static void add_pool(ioh_server *s, struct ioh_pool *pool, unsigned nice)
{
    char kind[sizeof "ioh-" + sizeof pool->name];
    snprintf(kind, sizeof kind, "ioh-%s", pool->name);
    for (unsigned i = 0; i < pool->threads; i++) {
        struct ioh__thread *t = add(s, kind, i);
        t->queue = &pool->queue;
        t->nice = nice;
    }
}

struct trial {
    unsigned nice;
    bool possible;
};

static void *raise_and_lower(void *arg)
{
    struct trial *t = arg;
    struct ioh__share full, less;
    if (ioh__share_read(&full)) {
        less = ioh__share_less(&full, t->nice);
        t->possible = ioh__share_take(&less) && ioh__share_take(&full);
    }
    return NULL;
}

/* By how much pool threads are nicer. Under AUTO they come to hold loops and must be able to go back, which only a
 * trial tells; it takes a thread of its own, which may be stuck afterwards. */
static unsigned pool_nice(ioh_server *s, bool watched)
{
    pthread_t thread;
    struct trial trial = {.nice = s->options.pool_nice};
    if (s->options.pool_nice == 0 || !watched)
        return s->options.pool_nice;
    if (pthread_create(&thread, NULL, raise_and_lower, &trial) == 0)
        pthread_join(thread, NULL);
    if (trial.possible)
        return s->options.pool_nice;
    ioh__log_add(&s->hubs[0]->loop.log, IOH_LOG_WARN,
                 "pool_nice is left alone: this process may not lower a nice value again");
    return 0;
}

static int list_threads(ioh_server *s)
{
    const struct ioh_options *o = &s->options;
    bool watched = s->hub_count && s->hubs[0]->guarded;
    struct ioh__queue *afterwards = watched ? &s->crew.pool->queue : NULL;
    size_t most =
        (size_t)s->hub_count + o->pool_threads + o->work_op_threads + named_threads(s) + 1;
    s->threads = calloc(most, sizeof *s->threads);
    if (!s->threads)
        return IOH_ENOMEM;
    unsigned nice = pool_nice(s, watched);
    s->thread_count = 0;
    for (unsigned i = 0; i < s->hub_count && !s->driven; i++) {
        struct ioh__thread *t = add(s, o->type == IOH_THREADS ? "ioh-accept" : "ioh-epoll", i);
        t->hub = s->hubs[i];
        t->queue = afterwards;
        t->nice = nice;
    }
    if (s->crew.pool)
        add_pool(s, s->crew.pool, s->options.exec == IOH_EXEC_POOL ? 0 : nice);
    for (ioh_pool *p = named_threads(s) ? s->crew.named : NULL; p; p = p->next)
        add_pool(s, p, nice);
    for (unsigned i = 0; i < s->crew.worker_count; i++)
        add(s, "ioh-work", i)->queue = &s->crew.workers[i].queue;
    if (watched)
        add(s, "ioh-watch", 0);
    return 0;
}

/* ---- start */

/* The library's threads take no signals, so the host's handlers and sigwait() are not disturbed; only
 * those that a thread brings upon itself, and the profiler's. */
static void library_signals(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

static int create_threads(ioh_server *s)
{
    sigset_t blocked, before;
    int error = 0;
    library_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    for (s->threads_made = 0; s->threads_made < s->thread_count; s->threads_made++) {
        struct ioh__thread *t = &s->threads[s->threads_made];
        bool watcher = !t->hub && !t->queue;
        error = pthread_create(&t->id, NULL, watcher ? run_watcher : run_thread, t);
        if (error)
            break;
        pthread_setname_np(t->id, t->name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int ioh__threads_start(ioh_server *s)
{
    if (list_threads(s))
        return ioh__server_failed(s, IOH_ENOMEM, "start", ENOMEM);
    s->hubs_left = s->hub_count;
    /* From the first thread on there are connections, and ids that others may post to. */
    atomic_store_explicit(&s->phase, IOH__SERVER_RUNNING, memory_order_release);
    int error = create_threads(s);
    if (error) {
        /* Epoll threads come first: those whose hub nobody holds have nothing to end. */
        pthread_mutex_lock(&s->lock);
        s->stopping = true;
        if (!s->driven && s->threads_made < s->hub_count)
            s->hubs_left = s->threads_made;
        pthread_mutex_unlock(&s->lock);
        ioh__threads_stop(s, 0);
        ioh__threads_join(s);
        return ioh__server_failed(s, IOH_ESYS, "a thread cannot be made", error);
    }
    pthread_mutex_lock(&s->lock);
    while (s->threads_ready < s->thread_count)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* ---- stop */

/* until NULL: for ever. */
static bool wait_for_hubs(ioh_server *s, const struct timespec *until)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while (s->hubs_left && rc == 0)
        rc = until ? pthread_cond_timedwait(&s->changed, &s->lock, until)
                   : pthread_cond_wait(&s->changed, &s->lock);
    bool all = s->hubs_left == 0;
    pthread_mutex_unlock(&s->lock);
    return all;
}

bool ioh__threads_own_this(const ioh_server *s)
{
    return ioh__self.server == s || (ioh__self.hub && ioh__self.hub->server == s);
}

void ioh__threads_join(ioh_server *s)
{
    if (s->joined || s->threads_made == 0)
        return;
    wait_for_hubs(s, NULL);
    ioh__singles_wait(&s->crew, NULL);
    ioh__watch_stop(&s->crew);
    if (s->crew.pool)
        ioh__queue_close(&s->crew.pool->queue);
    for (ioh_pool *p = s->crew.named; p; p = p->next)
        ioh__queue_close(&p->queue);
    for (unsigned i = 0; i < s->crew.worker_count; i++)
        ioh__queue_close(&s->crew.workers[i].queue);
    for (unsigned i = 0; i < s->threads_made; i++)
        pthread_join(s->threads[i].id, NULL);
    /* Not before: a hub that has not ended would take the descriptor's next owner for its listener. */
    for (unsigned i = 0; i < s->listener_count; i++)
        ioh__sock_listen_close(&s->listeners[i]);
    s->joined = true;
}

int ioh__threads_stop(ioh_server *s, uint32_t drain_ms)
{
    struct timespec until;
    uint64_t aborted = 0;
    until = ioh__moment_in(((uint64_t)drain_ms + GRACE_MS) * 1000u);
    atomic_store_explicit(&s->crew.stop_at, ioh__now_ms() + drain_ms, memory_order_relaxed);
    for (unsigned i = 0; i < s->listener_count; i++)
        ioh__sock_refuse(&s->listeners[i]);
    for (unsigned i = 0; i < s->hub_count; i++)
        ioh__hub_stop(s->hubs[i], drain_ms);
    if (s->driven) /* the host steps on until the hub has ended */
        return 0;
    bool in_time = wait_for_hubs(s, &until);
    if (s->options.type == IOH_THREADS) {
        ioh__singles_stop(&s->crew, drain_ms);
        in_time = ioh__singles_wait(&s->crew, &until) && in_time;
    }
    if (in_time)
        ioh__threads_join(s);
    for (unsigned i = 0; in_time && i < s->hub_count; i++)
        aborted += s->hubs[i]->aborted;
    atomic_store_explicit(&s->phase, IOH__SERVER_STOPPED, memory_order_release);
    return aborted + s->crew.singles_aborted || !in_time ? IOH_ETIMEOUT : 0;
}

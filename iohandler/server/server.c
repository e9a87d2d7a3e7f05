/* The server (see include/iohandler/server.h): from options to running threads and back. */
#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conn/turn.h"

static_assert(offsetof(struct ioh_handler, on_thread_start) == sizeof(size_t), "version 1");
#define HANDLER_VERSION_1 (offsetof(struct ioh_handler, on_ws_close) + sizeof(void (*)(void)))
#define LISTEN_VERSION_1 (offsetof(struct ioh_listen_options, unix_mode) + sizeof(uint32_t))

static enum ioh__server_state phase_of(const ioh_server *s)
{
    return (enum ioh__server_state)atomic_load_explicit(&s->phase, memory_order_acquire);
}

static int failed(ioh_server *s, int code, const char *what, int error)
{
    snprintf(s->error, sizeof s->error, "%s: %s", what, strerror(error));
    return code;
}

/* ---- create */

int ioh_server_create(ioh_server **server, const struct ioh_handler *handler,
                      const struct ioh_options *options, void *state)
{
    if (!server)
        return IOH_EINVAL;
    *server = NULL;
    if (!handler)
        return IOH_EINVAL;
    if (handler->size < HANDLER_VERSION_1)
        return IOH_EVERSION;
    ioh_server *s = calloc(1, sizeof *s);
    if (!s)
        return IOH_ENOMEM;
    memcpy(&s->handler, handler, handler->size < sizeof s->handler ? handler->size : sizeof s->handler);
    s->handler.size = sizeof s->handler;
    s->state = state;
    int rc = ioh__options_read(&s->options, options, s->error);
    if (rc == IOH_EVERSION) {
        free(s);
        return rc;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->broken = rc != 0;
    *server = s;
    return rc;
}

const char *ioh_server_error(const ioh_server *server)
{
    return server->error;
}

/* ---- listen */

int ioh_server_listen(ioh_server *s, const char *address, const struct ioh_listen_options *options)
{
    struct ioh_listen_options o = IOH_LISTEN_OPTIONS_INIT;
    if (!address)
        return IOH_EINVAL;
    if (options) {
        if (options->size < LISTEN_VERSION_1)
            return IOH_EVERSION;
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    }
    if (s->broken || phase_of(s) != IOH__SERVER_CREATED)
        return IOH_ESTATE;
    struct ioh__listen_socket *more =
        realloc(s->listeners, (s->listener_count + 1) * sizeof *more);
    if (!more)
        return failed(s, IOH_ENOMEM, address, ENOMEM);
    s->listeners = more;
    int rc = ioh__sock_listen(&more[s->listener_count], address, &o, s->error);
    return rc ? rc : (int)s->listener_count++;
}

int ioh_server_address(ioh_server *s, int listener, char *text, size_t size)
{
    if (listener < 0 || (unsigned)listener >= s->listener_count || !text)
        return IOH_EINVAL;
    int n = snprintf(text, size, "%s", s->listeners[listener].address);
    return n < 0 || (size_t)n >= size ? IOH_ETOOBIG : 0;
}

/* ---- start */

static void thread_ready(ioh_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->running_threads++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* An epoll thread: holds one hub until it is stopped. */
static void *run_hub(void *arg)
{
    struct ioh__hub *hub = arg;
    const struct ioh_handler *h = hub->handler;
    struct ioh__job job;
    if (h->on_thread_start)
        h->on_thread_start(hub->state);
    thread_ready(hub->server);
    while (ioh__turn_next(hub, &job)) {
        ioh__job_run(&job, h, hub->state);
        ioh__turn_done(hub, &job);
    }
    if (h->on_thread_stop)
        h->on_thread_stop(hub->state);
    return NULL;
}

static int make_hub(ioh_server *s, unsigned index)
{
    struct ioh__hub *hub = aligned_alloc(_Alignof(struct ioh__hub), sizeof *hub);
    if (!hub)
        return IOH_ENOMEM;
    memset(hub, 0, sizeof *hub);
    s->hubs[index] = hub;
    hub->handler = &s->handler;
    hub->state = s->state;
    hub->options = &s->options;
    hub->server = s;
    hub->all = s->hubs;
    hub->all_count = s->options.epoll_threads;
    s->hub_count = index + 1;
    int rc = ioh__hub_init(hub, index);
    hub->acceptors = calloc(s->listener_count + 1, sizeof *hub->acceptors);
    if (rc == 0 && !hub->acceptors)
        rc = IOH_ENOMEM;
    for (unsigned i = 0; rc == 0 && i < s->listener_count; i++)
        rc = ioh__hub_accept_from(hub, i, s->listeners[i].fd, s->listeners[i].tcp, (int)i);
    return rc;
}

static void free_hubs(ioh_server *s)
{
    for (unsigned i = 0; i < s->hub_count; i++) {
        ioh__hub_destroy(s->hubs[i]);
        free(s->hubs[i]->acceptors);
        free(s->hubs[i]);
    }
    free(s->hubs);
    free(s->threads);
    s->hubs = NULL;
    s->threads = NULL;
    s->hub_count = 0;
}

/* The library's threads take no signals, so the host's handlers and sigwait() are not disturbed; only
 * those that a thread brings upon itself, and the profiler's. */
static void library_signals(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

static int start_threads(ioh_server *s, unsigned *started)
{
    sigset_t blocked, before;
    char name[16];
    int error = 0;
    library_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    for (*started = 0; *started < s->hub_count; ++*started) {
        error = pthread_create(&s->threads[*started], NULL, run_hub, s->hubs[*started]);
        if (error)
            break;
        snprintf(name, sizeof name, "ioh-epoll-%u", *started);
        pthread_setname_np(s->threads[*started], name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void wait_until_running(ioh_server *s, unsigned threads)
{
    pthread_mutex_lock(&s->lock);
    while (s->running_threads < threads)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Tells the first `count` hubs to stop and waits for their threads; answers how many connections had to
 * be aborted. */
static uint64_t end_threads(ioh_server *s, struct ioh__message *const *stops, unsigned count)
{
    uint64_t aborted = 0;
    for (unsigned i = 0; i < s->listener_count; i++)
        ioh__sock_refuse(&s->listeners[i]);
    for (unsigned i = 0; i < count; i++)
        ioh__mailbox_post(&s->hubs[i]->loop.mailbox, &stops[i]->mail);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(s->threads[i], NULL);
        aborted += s->hubs[i]->aborted;
    }
    for (unsigned i = 0; i < s->listener_count; i++)
        ioh__sock_listen_close(&s->listeners[i]);
    return aborted;
}

/* One stop message per hub, or NULL: out of memory. */
static struct ioh__message **make_stops(const ioh_server *s)
{
    struct ioh__message **stops = calloc(s->hub_count + 1, sizeof *stops);
    bool ok = stops != NULL;
    for (unsigned i = 0; ok && i < s->hub_count; i++) {
        stops[i] = malloc(sizeof **stops);
        ok = stops[i] != NULL;
        if (ok)
            *stops[i] = (struct ioh__message){.kind = IOH__MESSAGE_STOP};
    }
    if (ok)
        return stops;
    for (unsigned i = 0; stops && i < s->hub_count; i++)
        free(stops[i]);
    free(stops);
    return NULL;
}

int ioh_server_start(ioh_server *s)
{
    unsigned started = 0;
    if (s->broken || phase_of(s) != IOH__SERVER_CREATED)
        return IOH_ESTATE;
    s->fd_limit = ioh__fd_limit(!s->options.keep_fd_limit);
    s->hubs = calloc(s->options.epoll_threads, sizeof *s->hubs);
    s->threads = calloc(s->options.epoll_threads, sizeof *s->threads);
    int rc = s->hubs && s->threads ? 0 : IOH_ENOMEM;
    for (unsigned i = 0; rc == 0 && i < s->options.epoll_threads; i++)
        rc = make_hub(s, i);
    /* What the stop will need is there before anything runs, so that it cannot fail then. */
    struct ioh__message **stops = rc == 0 ? make_stops(s) : NULL;
    if (rc == 0 && !stops)
        rc = IOH_ENOMEM;
    if (rc) {
        failed(s, rc, "start", rc == IOH_ENOMEM ? ENOMEM : errno);
        free_hubs(s);
        return rc;
    }
    s->stops = stops;
    /* From the first thread on there are connections, and ids that others may post to. */
    atomic_store_explicit(&s->phase, IOH__SERVER_RUNNING, memory_order_release);
    int error = start_threads(s, &started);
    if (error) {
        atomic_store_explicit(&s->phase, IOH__SERVER_CREATED, memory_order_release);
        for (unsigned i = started; i < s->hub_count; i++)
            free(stops[i]);
        end_threads(s, stops, started);
        free(stops);
        s->stops = NULL;
        free_hubs(s);
        return failed(s, IOH_ESYS, "a thread cannot be made", error);
    }
    wait_until_running(s, started);
    return 0;
}

/* ---- stop */

static bool is_own_thread(const ioh_server *s)
{
    for (unsigned i = 0; i < s->hub_count; i++)
        if (pthread_equal(s->threads[i], pthread_self()))
            return true;
    return false;
}

int ioh_server_stop(ioh_server *s, uint32_t drain_ms)
{
    pthread_mutex_lock(&s->lock);
    if (phase_of(s) != IOH__SERVER_RUNNING || s->stopping || is_own_thread(s)) {
        pthread_mutex_unlock(&s->lock);
        return IOH_ESTATE;
    }
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->hub_count; i++)
        s->stops[i]->as.drain_ms = drain_ms;
    uint64_t aborted = end_threads(s, s->stops, s->hub_count);
    free(s->stops);
    s->stops = NULL;
    atomic_store_explicit(&s->phase, IOH__SERVER_STOPPED, memory_order_release);
    return aborted ? IOH_ETIMEOUT : 0;
}

void ioh_server_destroy(ioh_server *s)
{
    if (!s)
        return;
    if (phase_of(s) == IOH__SERVER_RUNNING)
        ioh_server_stop(s, 0);
    for (unsigned i = 0; i < s->listener_count; i++)
        ioh__sock_listen_close(&s->listeners[i]);
    free_hubs(s);
    free(s->listeners);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int ioh_server_threads(const ioh_server *s)
{
    return phase_of(s) == IOH__SERVER_RUNNING ? (int)s->hub_count : 0;
}

/* ---- to a connection, from any thread */

static int post(ioh_server *s, const struct ioh__message *message)
{
    unsigned loop = ioh__id_loop(message->id);
    if (phase_of(s) != IOH__SERVER_RUNNING || message->id >> 32 == 0 || loop >= s->hub_count)
        return IOH_EGONE;
    struct ioh__message *m = malloc(sizeof *m);
    if (!m)
        return IOH_ENOMEM;
    *m = *message;
    if (ioh__mailbox_post(&s->hubs[loop]->loop.mailbox, &m->mail))
        return 0;
    free(m);
    return IOH_EGONE;
}

int ioh_run_on(ioh_server *s, ioh_conn_id id, void (*fn)(ioh_conn *conn, void *user), void *user,
               void (*gone)(void *user))
{
    struct ioh__message m = {.kind = IOH__MESSAGE_RUN, .id = id, .as.run = {fn, gone, user}};
    return fn ? post(s, &m) : IOH_EINVAL;
}

int ioh_ws_post(ioh_server *s, ioh_conn_id id, ioh_buf *frame)
{
    struct ioh__message m = {.kind = IOH__MESSAGE_FRAME, .id = id, .as.frame = frame};
    int rc = frame && frame->is_frame ? post(s, &m) : IOH_EINVAL;
    if (rc)
        ioh_buf_unref(frame);
    return rc;
}

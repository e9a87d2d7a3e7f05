/* The server (see include/iohandler/server.h): create, listen, start, stop. */
#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/holder.h"
#include "conn/single.h"
#include "net/prefix.h"

static_assert(offsetof(struct ioh_handler, on_thread_start) == sizeof(size_t), "version 1");
#define HANDLER_VERSION_1 (offsetof(struct ioh_handler, on_ws_close) + sizeof(void (*)(void)))
#define LISTEN_VERSION_1 (offsetof(struct ioh_listen_options, unix_mode) + sizeof(uint32_t))
#define POOL_QUEUE 1024u

int ioh__server_failed(ioh_server *s, int code, const char *what, int error)
{
    snprintf(s->error, sizeof s->error, "%s: %s", what, strerror(error));
    return code;
}

/* ---- create */

int ioh_server_create(ioh_server **server, const struct ioh_handler *handler,
                      const struct ioh_options *options, void *state)
{
    pthread_condattr_t monotonic;
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
    memcpy(&s->handler, handler,
           handler->size < sizeof s->handler ? handler->size : sizeof s->handler);
    s->handler.size = sizeof s->handler;
    s->state = state;
    int rc = ioh__options_read(&s->options, options, s->error);
    if (rc == IOH_EVERSION) {
        free(s);
        return rc;
    }
    if (rc == 0)
        rc = ioh__compress_create(&s->compress, &s->options, s->error);
    s->options.compress = NULL; /* the host's */
    if (rc == IOH_ENOMEM) {
        free(s);
        return rc;
    }
    s->broken = rc != 0;
    if (s->broken) /* no threads, say, by the hundred thousand */
        s->options = (struct ioh_options)IOH_OPTIONS_INIT;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (ioh__crew_init(&s->crew, &s->options)) {
        ioh_server_destroy(s);
        return IOH_ENOMEM;
    }
    *server = s;
    return rc;
}

const char *ioh_server_error(const ioh_server *server)
{
    return server->error;
}

ioh_pool *ioh_pool_create(ioh_server *s, const char *name, unsigned threads, unsigned queue)
{
    if (s->broken || ioh__server_phase(s) != IOH__SERVER_CREATED || !name || !*name ||
        strlen(name) > 10 || threads == 0 || threads > 10000)
        return NULL;
    ioh_pool *pool = ioh__pool_make(&s->crew, name, threads, queue ? queue : POOL_QUEUE);
    if (!pool)
        return NULL;
    pool->next = s->crew.named;
    s->crew.named = pool;
    return pool;
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
    if (s->broken || ioh__server_phase(s) != IOH__SERVER_CREATED)
        return IOH_ESTATE;
    struct ioh__listen_socket *more = realloc(s->listeners, (s->listener_count + 1) * sizeof *more);
    if (!more)
        return ioh__server_failed(s, IOH_ENOMEM, address, ENOMEM);
    s->listeners = more;
    struct ioh__prefixes *proxies = NULL;
    int rc = o.proxy_from ? ioh__prefixes_read(&proxies, o.proxy_from, s->error) : 0;
    if (rc == 0)
        rc = ioh__sock_listen(&more[s->listener_count], address, &o, s->error);
    if (rc) {
        free(proxies);
        return rc;
    }
    more[s->listener_count].proxy_from = proxies;
    return (int)s->listener_count++;
}

int ioh_server_address(ioh_server *s, int listener, char *text, size_t size)
{
    if (listener < 0 || (unsigned)listener >= s->listener_count || !text)
        return IOH_EINVAL;
    int n = snprintf(text, size, "%s", s->listeners[listener].address);
    return n < 0 || (size_t)n >= size ? IOH_ETOOBIG : 0;
}

/* ---- a host that drives the loop */

int ioh_server_fd(ioh_server *s)
{
    if (s->broken || s->options.type == IOH_THREADS ||
        (ioh__server_phase(s) != IOH__SERVER_CREATED && !s->driven))
        return IOH_ESTATE;
    if (!s->driven) {
        s->options.epoll_threads = 1;
        s->driven = true;
        int rc = ioh__hubs_make(s);
        if (rc) {
            s->driven = false;
            ioh__hubs_free(s);
            return rc;
        }
    }
    return s->hubs[0]->loop.poller.fd;
}

int ioh_server_step(ioh_server *s, int timeout_ms)
{
    if (!s->driven || ioh__server_phase(s) == IOH__SERVER_CREATED)
        return IOH_ESTATE;
    if (s->hubs_left == 0)
        return 0;
    if (ioh__step(s->hubs[0], timeout_ms))
        return 1;
    pthread_mutex_lock(&s->lock);
    s->hubs_left = 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    atomic_store_explicit(&s->phase, IOH__SERVER_STOPPED, memory_order_release);
    return 0;
}

/* ---- start and stop */

int ioh_server_start(ioh_server *s)
{
    if (s->broken || ioh__server_phase(s) != IOH__SERVER_CREATED)
        return IOH_ESTATE;
    s->fd_limit = ioh__fd_limit(!s->options.keep_fd_limit);
    int rc = s->driven ? 0 : ioh__hubs_make(s);
    for (unsigned i = 0; rc == 0 && i < s->hub_count; i++)
        rc = ioh__hub_listen(s, s->hubs[i]);
    if (rc == 0)
        rc = ioh__threads_start(s);
    else
        ioh__server_failed(s, rc, "start", rc == IOH_ENOMEM ? ENOMEM : errno);
    if (rc) {
        ioh__hubs_free(s);
        s->driven = false;
    }
    return rc;
}

int ioh_server_stop(ioh_server *s, uint32_t drain_ms)
{
    pthread_mutex_lock(&s->lock);
    bool may =
        ioh__server_phase(s) == IOH__SERVER_RUNNING && !s->stopping && !ioh__threads_own_this(s);
    s->stopping = s->stopping || may;
    pthread_mutex_unlock(&s->lock);
    if (!may)
        return IOH_ESTATE;
    return ioh__threads_stop(s, drain_ms);
}

void ioh_server_destroy(ioh_server *s)
{
    if (!s)
        return;
    if (ioh__server_phase(s) == IOH__SERVER_RUNNING)
        ioh_server_stop(s, 0);
    while (s->driven && ioh_server_step(s, -1) == 1)
        ;
    ioh__threads_join(s);
    for (unsigned i = 0; i < s->listener_count; i++) {
        ioh__sock_listen_close(&s->listeners[i]);
        free(s->listeners[i].proxy_from);
    }
    ioh__hubs_free(s);
    ioh__crew_destroy(&s->crew);
    ioh__compress_destroy(s->compress);
    free(s->listeners);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int ioh_server_threads(const ioh_server *s)
{
    if (ioh__server_phase(s) != IOH__SERVER_RUNNING)
        return 0;
    uint32_t singles = ioh__singles_count((struct ioh__crew *)&s->crew, NULL, NULL);
    return (int)(s->thread_count + singles);
}

/* The watched side of a test's host (host.h): its state, CHECK() and WAIT(), and callbacks that check the
 * order of handler.h, count, and call the test's own.
 */
#ifndef IOH_TESTS_WATCH_H
#define IOH_TESTS_WATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <iohandler/iohandler.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct host_config;

/* How long anything may take before a test gives up. No test asserts that something is quick. */
#define PATIENCE_MS 15000
/* For a stop that is expected to end by itself. */
#define LONG_DRAIN_MS 20000

/* What was seen of one connection. The harness owns ioh_conn_set_user(); data is the test's. */
struct seen {
    struct seen *next;
    ioh_conn_id id;
    atomic_int busy; /* a callback runs */
    bool closed;
    int ws_opens, ws_closes;
    int piece_op; /* of the message that comes in pieces */
    ioh_req *req; /* between on_request and on_complete */
    bool body_ended;
    bool peer_gone;  /* told for this request, or for the WebSocket */
    bool classified; /* on_classify, and nothing since */
    int last_status; /* of on_complete */
    uint64_t last_bytes;
    void *data;
    int number; /* likewise */
};

struct host {
    const struct host_config *config;
    struct ioh_handler on; /* the test's callbacks; state is this host */
    struct ioh_options options;
    const char *proxy_from; /* of its listener */
    void *data;             /* the test's */

    ioh_server *server;
    char address[128];
    int named_threads; /* of host_pool() */
    bool running;
    bool stopping; /* by host_begin_stop(), in this thread: */
    pthread_t stopper;
    uint32_t stop_drain_ms;
    int stop_rc;
    struct host *next; /* in host_live */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* after every callback */
    struct seen *seen;
    char fault[400]; /* the first thing that was not as it should be */
    atomic_int faults;

    atomic_int thread_starts, thread_stops, opens, refusals, closes, requests, request_ends, bodies,
        completes, drains, peers_gone, classifies, upgrades, ws_opens, ws_messages, ws_pieces,
        ws_pings, ws_pongs, ws_closes, runs, gones, logs;
    atomic_int last_status, last_ws_code; /* of on_complete, on_ws_close */
    _Atomic uint64_t last_bytes;
    _Atomic ioh_conn_id last_id; /* of on_open */
};

static struct host *host_live;
static _Thread_local struct host *host_of_thread;

static inline uint64_t host_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void host_fault(struct host *h, const char *file, int line, const char *what)
{
    pthread_mutex_lock(&h->lock);
    if (atomic_fetch_add(&h->faults, 1) == 0)
        snprintf(h->fault, sizeof h->fault, "%s:%d: %s", file, line, what);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* In callbacks, instead of an assert. */
#define CHECK(h, what) ((what) ? (void)0 : host_fault(h, __FILE__, __LINE__, #what))

/* One look's pause; the caller holds the lock. */
static inline void host_pause(struct host *h)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += 5000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    pthread_cond_timedwait(&h->changed, &h->lock, &at);
}

/* In the test: waits until it is so. */
#define WAIT(h, what)                                                           \
    do {                                                                        \
        uint64_t until_ = host_now_ms() + PATIENCE_MS;                          \
        pthread_mutex_lock(&(h)->lock);                                         \
        while (!(what) && host_now_ms() < until_ && !atomic_load(&(h)->faults)) \
            host_pause(h);                                                      \
        bool so_ = (what);                                                      \
        pthread_mutex_unlock(&(h)->lock);                                       \
        if (!so_)                                                               \
            fail_msg("waited in vain for: %s; %s", #what, (h)->fault);          \
    } while (0)

static inline struct seen *host_seen(const ioh_conn *conn)
{
    return ioh_conn_user(conn);
}

/* ---- the watched callbacks */

static inline void host_bump(struct host *h, atomic_int *counter)
{
    pthread_mutex_lock(&h->lock);
    atomic_fetch_add(counter, 1);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static inline struct seen *host_enter(struct host *h, ioh_conn *conn)
{
    struct seen *s = ioh_conn_user(conn);
    CHECK(h, host_of_thread == h);
    CHECK(h, s != NULL);
    if (!s)
        abort();
    CHECK(h, atomic_exchange(&s->busy, 1) == 0);
    CHECK(h, !s->closed);
    CHECK(h, s->id == ioh_conn_get_id(conn));
    CHECK(h, ioh_conn_server(conn) == h->server);
    return s;
}

static inline void host_leave(struct host *h, struct seen *s, atomic_int *counter)
{
    atomic_store(&s->busy, 0);
    host_bump(h, counter);
}

static inline void host_on_thread_start(void *state)
{
    struct host *h = state;
    CHECK(h, host_of_thread == NULL);
    host_of_thread = h;
    if (h->on.on_thread_start)
        h->on.on_thread_start(h);
    host_bump(h, &h->thread_starts);
}

static inline void host_on_thread_stop(void *state)
{
    struct host *h = state;
    CHECK(h, host_of_thread == h);
    if (h->on.on_thread_stop)
        h->on.on_thread_stop(h);
    host_of_thread = NULL;
    host_bump(h, &h->thread_stops);
}

static inline int host_on_open(ioh_conn *conn, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_conn_user(conn) == NULL);
    struct seen *s = calloc(1, sizeof *s);
    s->id = ioh_conn_get_id(conn);
    CHECK(h, s->id != 0);
    pthread_mutex_lock(&h->lock);
    for (struct seen *other = h->seen; other; other = other->next)
        if (other->id == s->id)
            atomic_fetch_add(&h->faults, 1); /* an id must never come back */
    s->next = h->seen;
    h->seen = s;
    pthread_mutex_unlock(&h->lock);
    ioh_conn_set_user(conn, s);
    host_enter(h, conn);
    atomic_store(&h->last_id, s->id);
    int no = h->on.on_open ? h->on.on_open(conn, h) : 0;
    if (no) {
        s->closed = true; /* whatever comes now is a fault */
        host_leave(h, s, &h->refusals);
    } else {
        host_leave(h, s, &h->opens);
    }
    return no;
}

static inline void host_on_drain(ioh_conn *conn, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, conn);
    CHECK(h, ioh_conn_queued(conn) <= (h->options.send_low ? h->options.send_low : 1u << 20));
    if (h->on.on_drain)
        h->on.on_drain(conn, h);
    host_leave(h, s, &h->drains);
}

static inline void host_on_peer_gone(ioh_conn *conn, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, conn);
    bool websocket = h->on.on_ws_message || h->on.on_ws_piece || h->on.on_ws_upgrade;
    CHECK(h, s->req || websocket);
    CHECK(h, s->ws_closes == 0);
    CHECK(h, !s->peer_gone);
    CHECK(h, ioh_conn_gone(conn) == 1);
    s->peer_gone = true;
    if (h->on.on_peer_gone)
        h->on.on_peer_gone(conn, h);
    host_leave(h, s, &h->peers_gone);
}

static inline void host_on_close(ioh_conn *conn, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, conn);
    CHECK(h, s->req == NULL);
    CHECK(h, s->ws_opens == s->ws_closes);
    CHECK(h, ioh_conn_queued(conn) == 0);
    CHECK(h, ioh_conn_gone(conn) == 1);
    if (h->on.on_close)
        h->on.on_close(conn, h);
    s->closed = true;
    host_leave(h, s, &h->closes);
}

static inline void host_on_log(int level, const char *text, void *state)
{
    struct host *h = state;
    CHECK(h, host_of_thread == h);
    CHECK(h, level >= IOH_LOG_ERROR && level <= IOH_LOG_DEBUG);
    CHECK(h, text && *text && !strchr(text, '\n'));
    if (h->on.on_log)
        h->on.on_log(level, text, h);
    host_bump(h, &h->logs);
}

/* Has the answer been given? Data without bytes changes nothing and tells. */
static inline bool host_answered(ioh_req *req)
{
    return ioh_respond_data(req, NULL, 0) == IOH_EDONE;
}

static inline struct seen *host_enter_req(struct host *h, ioh_req *req)
{
    struct seen *s = host_enter(h, ioh_req_conn(req));
    CHECK(h, s->req == req);
    return s;
}

static inline void host_on_classify(ioh_req *req, struct ioh_route *route, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, ioh_req_conn(req));
    CHECK(h, s->req == NULL && s->ws_opens == 0 && !s->classified);
    CHECK(h, route->size >= sizeof *route && route->pool == NULL);
    s->classified = true;
    h->on.on_classify(req, route, h);
    host_leave(h, s, &h->classifies);
}

static inline void host_on_request(ioh_req *req, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, ioh_req_conn(req));
    CHECK(h, s->req == NULL);
    CHECK(h, ioh_req_user(req) == NULL);
    CHECK(h, !host_answered(req));
    CHECK(h, s->classified == (h->on.on_classify != NULL));
    s->classified = s->peer_gone = s->body_ended = false;
    s->req = req;
    h->on.on_request(req, h);
    host_leave(h, s, &h->requests);
}

static inline void host_on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_req(h, req);
    CHECK(h, data && len > 0);
    CHECK(h, !s->body_ended);
    CHECK(h, !host_answered(req));
    h->on.on_body(req, data, len, h);
    host_leave(h, s, &h->bodies);
}

static inline void host_on_request_end(ioh_req *req, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_req(h, req);
    CHECK(h, !s->body_ended);
    CHECK(h, !host_answered(req));
    s->body_ended = true;
    h->on.on_request_end(req, h);
    host_leave(h, s, &h->request_ends);
}

static inline void host_on_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_req(h, req);
    CHECK(h, status == 0 || (status >= 200 && status <= 599));
    CHECK(h, ioh_respond(req, 200, NULL, 0, NULL, 0) < 0);
    if (h->on.on_complete)
        h->on.on_complete(req, status, bytes, h);
    s->req = NULL;
    s->last_status = status;
    s->last_bytes = bytes;
    atomic_store(&h->last_status, status);
    atomic_store(&h->last_bytes, bytes);
    host_leave(h, s, &h->completes);
}

static inline int host_on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, ioh_req_conn(req));
    CHECK(h, s->ws_opens == 0 && s->req == NULL);
    CHECK(h, accept->size >= sizeof *accept && accept->protocol == NULL);
    CHECK(h, s->classified == (h->on.on_classify != NULL));
    s->classified = s->peer_gone = false;
    int result = h->on.on_ws_upgrade(req, accept, h);
    host_leave(h, s, &h->upgrades);
    return result;
}

static inline struct seen *host_enter_ws(struct host *h, ioh_conn *conn)
{
    struct seen *s = host_enter(h, conn);
    CHECK(h, s->ws_opens == 1 && s->ws_closes == 0);
    return s;
}

static inline void host_on_ws_open(ioh_conn *conn, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter(h, conn);
    CHECK(h, s->ws_opens++ == 0);
    if (h->on.on_ws_open)
        h->on.on_ws_open(conn, h);
    host_leave(h, s, &h->ws_opens);
}

static inline void host_on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_ws(h, conn);
    CHECK(h, op == IOH_WS_TEXT || op == IOH_WS_BINARY);
    CHECK(h, s->piece_op == 0);
    h->on.on_ws_message(conn, op, data, len, h);
    host_leave(h, s, &h->ws_messages);
}

static inline void host_on_ws_piece(ioh_conn *conn, int op, void *data, size_t len, int last,
                                    void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_ws(h, conn);
    CHECK(h, op == IOH_WS_TEXT || op == IOH_WS_BINARY);
    CHECK(h, last == 0 || last == 1);
    CHECK(h, last || len > 0);
    CHECK(h, s->piece_op == 0 || s->piece_op == op);
    s->piece_op = last ? 0 : op;
    h->on.on_ws_piece(conn, op, data, len, last, h);
    host_leave(h, s, last ? &h->ws_messages : &h->ws_pieces);
}

static inline void host_on_ws_ping(ioh_conn *conn, const void *data, size_t len, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_ws(h, conn);
    CHECK(h, len <= 125);
    if (h->on.on_ws_ping)
        h->on.on_ws_ping(conn, data, len, h);
    host_leave(h, s, &h->ws_pings);
}

static inline void host_on_ws_pong(ioh_conn *conn, const void *data, size_t len, void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_ws(h, conn);
    CHECK(h, len <= 125);
    if (h->on.on_ws_pong)
        h->on.on_ws_pong(conn, data, len, h);
    host_leave(h, s, &h->ws_pongs);
}

static inline void host_on_ws_close(ioh_conn *conn, int code, const char *reason, size_t len,
                                    void *state)
{
    struct host *h = state;
    struct seen *s = host_enter_ws(h, conn);
    CHECK(h, len <= 123);
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "late", 4) < 0);
    s->ws_closes++;
    if (h->on.on_ws_close)
        h->on.on_ws_close(conn, code, reason, len, h);
    atomic_store(&h->last_ws_code, code);
    host_leave(h, s, &h->ws_closes);
}

/* ---- ioh_run_on(), watched too */

struct host_errand {
    struct host *host;
    void (*fn)(ioh_conn *conn, void *user);
    void (*gone)(void *user);
    void *user;
    atomic_int ran;
};

static inline void host_run(ioh_conn *conn, void *user)
{
    struct host_errand *e = user;
    struct host *h = e->host;
    struct seen *s = host_enter(h, conn);
    CHECK(h, atomic_exchange(&e->ran, 1) == 0);
    if (e->fn)
        e->fn(conn, e->user);
    free(e);
    host_leave(h, s, &h->runs);
}

static inline void host_gone(void *user)
{
    struct host_errand *e = user;
    struct host *h = e->host;
    CHECK(h, host_of_thread == h);
    CHECK(h, atomic_exchange(&e->ran, 1) == 0);
    if (e->gone)
        e->gone(e->user);
    free(e);
    host_bump(h, &h->gones);
}

/* As ioh_run_on(); fn and gone may both be NULL: then only h->runs and h->gones count. A thread per
 * connection is known to have ended at once: that IOH_EGONE is turned into what the others do. */
static inline int host_run_on(struct host *h, ioh_conn_id id, void (*fn)(ioh_conn *, void *),
                              void *user, void (*gone)(void *))
{
    struct host_errand *e = calloc(1, sizeof *e);
    e->host = h;
    e->fn = fn;
    e->gone = gone;
    e->user = user;
    int rc = ioh_run_on(h->server, id, host_run, e, host_gone);
    if (rc == 0)
        return 0;
    bool told = rc == IOH_EGONE && h->options.type == IOH_THREADS && ioh_server_threads(h->server);
    if (told) {
        if (gone)
            gone(user);
        host_bump(h, &h->gones);
    }
    free(e);
    return told ? 0 : rc;
}

#endif

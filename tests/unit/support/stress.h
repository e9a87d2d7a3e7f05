/* A server under stress: its host. Every callback checks the order of handler.h, and at random returns at once,
 * spins, yields or sleeps, before, between and after its calls of the library.
 *
 * The client (stress_client.h) chooses what is to happen and says so in the target or message, so it knows what must
 * come back:
 *
 *     GET or POST /K/N      K: what the host does (enum below), N: a number that seeds all sizes
 *     GET /ws/N             a WebSocket; refused when N says so (ws_refusal())
 *     message "K:N:..."     K: what the host does with it
 *
 * An answer has the field X-N: N, and its body is the pattern of N; so nothing can be lost, doubled or sent to
 * somebody else without being seen.
 */
#ifndef IOH_TESTS_STRESS_H
#define IOH_TESTS_STRESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <iohandler/iohandler.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "conn/reach.h"
#include "server/server.h"

/* ---- what is to happen */

enum {
    WHOLE = 'w',     /* one answer */
    SHARED = 'h',    /* one that was built before */
    STREAM = 's',    /* in pieces */
    ECHO = 'b',      /* the body comes back */
    EARLY = 'e',     /* answered before the body is whole */
    LATER = 'd',     /* ioh_defer(), then ioh_reply() from another thread */
    PIECES = 'D',    /* the same, streamed */
    ERRAND = 'r',    /* answered, and ioh_run_on() from another thread */
    PAUSE = 'u',     /* ioh_pause(); ioh_resume() by ioh_run_on() from another thread */
    RESUME = 'U',    /* both in the same callback */
    WAIT_SENT = 'W', /* ioh_wait_sent() between the pieces */
    /* after these the connection ends */
    LAST = 'c',         /* ioh_respond_close() */
    CLOSE = 'C',        /* answered, then ioh_close() */
    FAR_CLOSE = 'k',    /* answered, then ioh_post_close() from another thread */
    SILENCE = 'n',      /* no answer: 500 */
    ABORT = 'a',        /* ioh_abort() instead of an answer */
    ANSWER_ABORT = 'A', /* after it: it may be lost */
    FAR_ABORT = 'K',    /* ioh_post_abort() from another thread: likewise */
};

static const char going_on[] = {WHOLE, WHOLE, WHOLE,  SHARED, STREAM, STREAM, ECHO,     ECHO,
                                EARLY, LATER, PIECES, ERRAND, PAUSE,  RESUME, WAIT_SENT};
static const char ending[] = {LAST, CLOSE, FAR_CLOSE, SILENCE, ABORT, ANSWER_ABORT, FAR_ABORT};

/* WebSocket */
enum {
    WS_ECHO = 'e',   /* once to three times */
    WS_POST = 'p',   /* once, and once more by ioh_ws_post() from another thread */
    WS_BUF = 'b',    /* by ioh_ws_send_buf() and ioh_ws_send_frame() */
    WS_WAIT = 'w',   /* by ioh_ws_send_wait() */
    WS_PIECES = 'f', /* by ioh_ws_send_piece(), and as WS_POST */
    WS_CLOSE = 'c',  /* once, then ioh_ws_close() */
    WS_SHUT = 'x',   /* once, then ioh_close() */
    WS_ABORT = 'a',  /* ioh_abort() */
};

static inline uint32_t roll(uint32_t *seed)
{
    uint32_t x = *seed ? *seed : 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *seed = x;
    return x >> 3;
}

/* Spreads consecutive numbers. */
static inline uint32_t mix(uint32_t n)
{
    n = (n ^ n >> 16) * 0x45d9f3bu;
    n = (n ^ n >> 16) * 0x45d9f3bu;
    return n ^ n >> 16;
}

/* The body of answer N, and of the request: mostly small, sometimes beyond every threshold inside. */
static inline size_t body_len(uint32_t n)
{
    uint32_t x = mix(n + 1);
    return x % 16 == 0 ? 66000 + x / 16 % 9000 : x % 16 < 4 ? x / 16 % 9000 : x / 16 % 300;
}

static inline size_t request_len(uint32_t n)
{
    uint32_t x = mix(n + 2);
    return 1 + (x % 16 == 0 ? 5000 + x / 16 % 25000 : x / 16 % 700);
}

static inline char pattern_byte(uint32_t n, size_t i)
{
    return (char)('!' + (n + i * 7 + i / 89) % 93);
}

static inline void fill_pattern(char *to, uint32_t n, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = pattern_byte(n, from + i);
}

static inline bool is_pattern(const char *bytes, uint32_t n, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern_byte(n, from + i))
            return false;
    return true;
}

/* 0: accepted; else the status, given by on_ws_upgrade's answer (403) or by ioh_respond() (409). */
static inline int ws_refusal(uint32_t n)
{
    uint32_t x = mix(n + 3) % 16;
    return x == 0 ? 403 : x == 1 ? 409 : 0;
}

/* ---- the run */

/* What was seen of one connection. Only its callbacks touch it: no lock, no atomics, so that the thread sanitizer sees
 * whether one callback comes after another. */
struct link_seen {
    struct link_seen *next;
    atomic_int busy; /* a callback runs */
    uint32_t seed;
    bool closed;
    pthread_t thread; /* of on_open */
    ioh_conn_id id;
    ioh_req *req; /* between on_request and on_complete */
    char kind;
    uint32_t n;
    bool answered, body_ended, deferred;
    char *body; /* arrived, for ECHO */
    size_t body_len;
    int ws_opens, ws_closes;
};

struct stress_config {
    const char *name;
    int32_t type, exec, pool_full;
    uint32_t pool_threads, pool_queue, work_op_threads, handoff_us;
    bool classify;      /* every request is sent somewhere else */
    bool forget;        /* AUTO's memory is wiped now and then, so that it keeps being late */
    uint64_t callbacks; /* the run ends after so many */
    int clients;
};

static struct stress {
    const struct stress_config *config;
    ioh_server *server;
    ioh_pool *named;
    ioh_response *shared;
    char tcp[128], unix_path[128];
    _Atomic bool over;     /* the clients leave */
    _Atomic bool stopping; /* while they load it: anything may end now */
    _Atomic int faults;
    char fault[300]; /* the first */
    pthread_mutex_t lock;
    struct link_seen *links;
    atomic_uint next_seed;
    _Atomic uint64_t callbacks, opens, refusals, closes, requests, completes, ws_opens, ws_closes,
        messages, drains, peer_gones, logs, runs, gones, given, taken_calls;
} stress = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void stress_fault(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline void stress_fault(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&stress.lock);
    if (atomic_fetch_add(&stress.faults, 1) == 0) {
        int n = snprintf(stress.fault, sizeof stress.fault, "%s:%d: ", file, line);
        vsnprintf(stress.fault + n, sizeof stress.fault - (size_t)n, format, args);
    }
    pthread_mutex_unlock(&stress.lock);
    va_end(args);
    atomic_store(&stress.over, true);
}

#define SURE(what) ((what) ? (void)0 : stress_fault(__FILE__, __LINE__, "%s", #what))

/* After a call that may also find the connection gone, or the WebSocket closed by a stop. */
#define SENT(call)                                                                                \
    do {                                                                                          \
        int rc_ = (call);                                                                         \
        if (rc_ < 0 && rc_ != IOH_EGONE && !(rc_ == IOH_ESTATE && atomic_load(&stress.stopping))) \
            stress_fault(__FILE__, __LINE__, "%s: %s", #call, ioh_strerror(rc_));                 \
    } while (0)

static inline void bump(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- time passes */

static inline void spin_us(uint32_t us)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static inline void sleep_us(uint32_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

static inline void linger(uint32_t *seed)
{
    uint32_t x = roll(seed);
    switch (x % 8) {
    case 0:
        sleep_us(x / 8 % 300);
        break;
    case 1:
        spin_us(x / 8 % 30);
        break;
    case 2:
        sched_yield();
        break;
    default:
        break;
    }
}

/* ---- the order of callbacks */

/* Has the loop been taken from under this callback? */
static inline bool is_taken(const ioh_conn *conn)
{
    const struct ioh__hub *hub = conn->hub;
    return hub->guarded && ioh__self.hub == hub &&
           atomic_load(&hub->watch) != ioh__watch_word(ioh__self.ticket, IOH__WATCH_CALLBACK);
}

/* All callbacks of a connection run on one thread. */
static inline bool is_affine(void)
{
    const struct stress_config *c = stress.config;
    return c->type == IOH_THREADS || (c->exec == IOH_EXEC_AFFINE && !c->classify);
}

static inline struct link_seen *enter(ioh_conn *conn)
{
    struct link_seen *l = ioh_conn_user(conn);
    bump(&stress.callbacks);
    SURE(l != NULL);
    if (!l)
        abort();
    SURE(atomic_exchange(&l->busy, 1) == 0);
    SURE(!l->closed);
    SURE(l->id == ioh_conn_get_id(conn));
    SURE(ioh_conn_server(conn) == stress.server);
    SURE(!is_affine() || pthread_equal(l->thread, pthread_self()));
    if (roll(&l->seed) % 8 == 0) {
        SURE(ioh_conn_gone(conn) <= 1);
        SURE(ioh_conn_queued(conn) < 1u << 26);
    }
    linger(&l->seed);
    return l;
}

static inline void leave(ioh_conn *conn, struct link_seen *l)
{
    linger(&l->seed);
    if (is_taken(conn))
        bump(&stress.taken_calls);
    atomic_store(&l->busy, 0);
}

static inline int stress_on_open(ioh_conn *conn, void *state)
{
    struct link_seen *l = calloc(1, sizeof *l);
    (void)state;
    if (!l)
        abort();
    SURE(ioh_conn_user(conn) == NULL);
    l->id = ioh_conn_get_id(conn);
    l->thread = pthread_self();
    l->seed = mix(atomic_fetch_add(&stress.next_seed, 1) + 77);
    pthread_mutex_lock(&stress.lock);
    l->next = stress.links;
    stress.links = l;
    pthread_mutex_unlock(&stress.lock);
    ioh_conn_set_user(conn, l);
    enter(conn);
    bool refuse = roll(&l->seed) % 64 == 0;
    bump(refuse ? &stress.refusals : &stress.opens);
    leave(conn, l);
    l->closed = refuse; /* then nothing may follow */
    return refuse ? -1 : 0;
}

static inline void stress_on_close(ioh_conn *conn, void *state)
{
    struct link_seen *l = enter(conn);
    (void)state;
    SURE(l->req == NULL);
    SURE(l->ws_opens == l->ws_closes);
    SURE(ioh_conn_queued(conn) == 0);
    SURE(ioh_conn_gone(conn) == 1);
    bump(&stress.closes);
    leave(conn, l);
    l->closed = true;
}

static inline void stress_on_drain(ioh_conn *conn, void *state)
{
    struct link_seen *l = enter(conn);
    (void)state;
    bump(&stress.drains);
    leave(conn, l);
}

static inline void stress_on_peer_gone(ioh_conn *conn, void *state)
{
    struct link_seen *l = enter(conn);
    (void)state;
    SURE(ioh_conn_gone(conn) == 1);
    bump(&stress.peer_gones);
    leave(conn, l);
}

static inline void stress_on_log(int level, const char *text, void *state)
{
    static _Thread_local uint32_t seed = 5;
    (void)state;
    SURE(level >= IOH_LOG_ERROR && level <= IOH_LOG_DEBUG && text && *text);
    bump(&stress.callbacks);
    bump(&stress.logs);
    linger(&seed);
    SURE(*text);
}

#include "stress_answers.h"
#include "stress_ws.h"

/* Each request, and each WebSocket, somewhere else. */
static inline void stress_on_classify(ioh_req *req, struct ioh_route *route, void *state)
{
    ioh_conn *conn = ioh_req_conn(req);
    struct link_seen *l = enter(conn);
    const struct ioh_options *o = &stress.server->options;
    uint32_t x = roll(&l->seed) % 4;
    (void)state;
    route->pool = x == 0 ? stress.named : NULL;
    if (x == 0 || (x == 1 && o->pool_threads))
        route->exec = IOH_EXEC_POOL;
    else if (x == 2 && o->work_op_threads)
        route->exec = IOH_EXEC_AFFINE;
    else if (x == 3)
        route->exec = IOH_EXEC_INLINE;
    leave(conn, l);
}

static inline struct ioh_handler stress_handler(void)
{
    struct ioh_handler h = IOH_HANDLER_INIT;
    h.on_open = stress_on_open;
    h.on_drain = stress_on_drain;
    h.on_peer_gone = stress_on_peer_gone;
    h.on_close = stress_on_close;
    h.on_log = stress_on_log;
    h.on_classify = stress.config->classify ? stress_on_classify : NULL;
    h.on_request = stress_on_request;
    h.on_body = stress_on_body;
    h.on_request_end = stress_on_request_end;
    h.on_complete = stress_on_complete;
    h.on_ws_upgrade = stress_on_ws_upgrade;
    h.on_ws_open = stress_on_ws_open;
    h.on_ws_message = stress_on_ws_message;
    h.on_ws_ping = stress_on_ws_ping;
    h.on_ws_close = stress_on_ws_close;
    return h;
}

#endif

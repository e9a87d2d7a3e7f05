/* What most tests of the public face use: the simplest callbacks, strings, patterns. */
#ifndef IOH_TESTS_COMMON_H
#define IOH_TESTS_COMMON_H

#include "client.h"
#include "host.h"

static inline bool str_is(struct ioh_str s, const char *text)
{
    return s.ptr && s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

static inline bool path_is(const ioh_req *req, const char *text)
{
    return str_is(ioh_req_path(req), text);
}

/* on_request: 200 "ok" */
static inline void answer_ok(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, "ok", 2) == 0);
}

static inline void answer_nothing(ioh_req *req, void *state)
{
    (void)req;
    (void)state;
}

static inline void drop_body(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)req;
    (void)data;
    (void)len;
    (void)state;
}

/* on_ws_message */
static inline void echo(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    CHECK((struct host *)state, ioh_ws_send(conn, op, data, len) >= 0);
}

/* ---- callbacks that wait */

/* Shut at first. Nobody waits longer than PATIENCE_MS. */
struct latch {
    atomic_bool open;
    atomic_int waiting;
};

static inline void latch_wait(struct host *h, struct latch *l)
{
    uint64_t until = host_now_ms() + PATIENCE_MS;
    atomic_fetch_add(&l->waiting, 1);
    while (!atomic_load(&l->open) && host_now_ms() < until)
        poll(NULL, 0, 1);
    atomic_fetch_sub(&l->waiting, 1);
    CHECK(h, atomic_load(&l->open));
}

static inline void latch_open(struct latch *l)
{
    atomic_store(&l->open, true);
}

/* Is this thread's name that, up to its number? */
static inline bool thread_is(const char *name)
{
    char mine[16] = "";
    size_t len = strlen(name);
    pthread_getname_np(pthread_self(), mine, sizeof mine);
    return strncmp(mine, name, len) == 0 && mine[len] == '-' && mine[len + 1] >= '0' &&
           mine[len + 1] <= '9';
}

/* ---- requests that are answered later */

/* Their names, oldest first, under host->lock. */
struct parked {
    struct ioh_req_id ids[400];
    atomic_int count;
};

/* on_request; host->data is the struct parked */
static inline void park(ioh_req *req, void *state)
{
    struct host *h = state;
    struct parked *p = h->data;
    struct ioh_req_id id = ioh_defer(req);
    CHECK(h, id.conn == ioh_conn_get_id(ioh_req_conn(req)));
    pthread_mutex_lock(&h->lock);
    p->ids[atomic_fetch_add(&p->count, 1) % 400] = id;
    pthread_mutex_unlock(&h->lock);
}

/* What the functions that take a name answer when its connection has gone: a thread per connection is
 * known to have ended; elsewhere only the loop knows. */
static inline int gone_answer(const struct host *h)
{
    return host_has_threads_for_each(h) ? IOH_EGONE : 0;
}

/* ---- bytes */

/* Byte i of everything long that is sent, so that no byte may be lost, doubled or misplaced. */
static inline uint8_t pattern_at(size_t i)
{
    return (uint8_t)("abcdefghijklmnopqrstuvwxyz0123456789+"[i % 37] ^
                     (char)(i / 4096 % 2 ? 0 : 32));
}

static inline uint8_t *pattern(size_t len)
{
    uint8_t *bytes = malloc(len ? len : 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern_at(i);
    return bytes;
}

static inline bool is_pattern(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern_at(i))
            return false;
    return true;
}

/* A buf whose release is counted. */
static inline void count_release(void *data, size_t len, void *user)
{
    (void)data;
    (void)len;
    atomic_fetch_add((atomic_int *)user, 1);
}

static inline ioh_buf *counted_buf(void *data, size_t len, atomic_int *releases)
{
    return ioh_buf_wrap(data, len, count_release, releases);
}

#endif

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

/* An out queue, and a plain array of bytes that says what must be in it; memory that runs out when told. For one test
 * program each.
 */
#ifndef IOH_TESTS_OUTQ_MODEL_H
#define IOH_TESTS_OUTQ_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/buf.h>

#include "conn/outq.h"

/* ---- memory that runs out when told */

static size_t mallocs;   /* so far */
static size_t fail_at;   /* the n-th from now, 0: none */
static unsigned fail_in; /* one in so many, by chance; 0: none */

void *__real_malloc(size_t size);
static inline uint32_t chance(uint32_t below);

/* For the test's own __wrap_malloc(). */
static inline void *model_malloc(size_t size)
{
    mallocs++;
    if (fail_at > 0 && --fail_at == 0)
        return NULL;
    return fail_in && chance(fail_in) == 0 ? NULL : __real_malloc(size);
}

/* ---- the queue and its model: all bytes that are queued, in order */

static struct ioh__mem mem;
static struct ioh__outq q, rival;

#define MODEL_MAX (4u << 20)
static uint8_t model[MODEL_MAX];
static size_t model_len;
static uint8_t next_byte; /* every byte differs from its neighbours */
static uint32_t seed;

static inline uint32_t chance(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static inline void fill(void *to, size_t len)
{
    uint8_t *bytes = to;
    for (size_t i = 0; i < len; i++) {
        next_byte = (uint8_t)(next_byte * 5 + 17);
        bytes[i] = next_byte;
    }
}

static inline void expect(const void *bytes, size_t len)
{
    assert_true(model_len + len <= MODEL_MAX);
    memcpy(model + model_len, bytes, len);
    model_len += len;
}

static inline int set_up(void **state)
{
    (void)state;
    memset(&q, 0, sizeof q);
    ioh__mem_init(&mem);
    model_len = fail_at = fail_in = 0;
    return 0;
}

static inline size_t blocks_out(void)
{
    size_t live = 0;
    for (size_t i = 0; i < sizeof mem.small / sizeof *mem.small; i++)
        live += mem.small[i].live;
    return live;
}

static inline int tear_down(void **state)
{
    (void)state;
    fail_at = fail_in = 0;
    ioh__outq_clear(&q, &mem);
    ioh__outq_clear(&rival, &mem);
    int rc =
        blocks_out() == 0 && mem.scratch.live == 0 && q.bytes == 0 && !q.first && !q.last ? 0 : -1;
    ioh__mem_destroy(&mem);
    return rc;
}

/* What the queue offers is how the model begins, with as many pieces as fit in max. */
static inline void check_begin(int max)
{
    struct iovec iov[IOH__OUT_IOV];
    size_t at = 0;
    int n = ioh__outq_iov(&q, iov, max);
    assert_true(n <= max);
    for (int i = 0; i < n; i++) {
        assert_true(iov[i].iov_len > 0);
        assert_true(at + iov[i].iov_len <= model_len);
        assert_memory_equal(iov[i].iov_base, model + at, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    if (n < max)
        assert_int_equal(at, model_len);
    assert_int_equal(q.bytes, model_len);
}

static inline void check(void)
{
    check_begin(IOH__OUT_IOV);
}

static inline void consume(size_t n)
{
    ioh__outq_consume(&q, &mem, n);
    model_len -= n;
    memmove(model, model + n, model_len);
}

static inline void copy(size_t len, bool roomy)
{
    static uint8_t bytes[200000];
    fill(bytes, len);
    if (ioh__outq_copy(&q, &mem, bytes, len, roomy))
        expect(bytes, len);
    else
        assert_true(fail_in);
}

/* Of what was reserved, `used` bytes are written and kept. */
static inline void reserve(size_t len, size_t used, bool roomy)
{
    char *at = ioh__outq_reserve(&q, &mem, len, roomy);
    if (!at) {
        assert_true(fail_in);
        return;
    }
    fill(at, used);
    expect(at, used);
    memset(at + used, 0xdd, len - used); /* it is ours to write until trimmed */
    ioh__outq_trim(&q, len - used);
}

static unsigned released;

static inline void release(void *data, size_t len, void *user)
{
    released++;
    memset(data, 0xee, len); /* whoever still reads it is found out */
    free(user);
}

/* A buf over bytes of its own. */
static inline ioh_buf *make_buf(size_t len)
{
    fail_in = 0;
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    fill(bytes, len);
    ioh_buf *buf = ioh_buf_wrap(bytes, len, release, bytes);
    assert_non_null(buf);
    return buf;
}

static inline void take(size_t len, bool roomy, unsigned failing)
{
    ioh_buf *buf = make_buf(len);
    expect(ioh_buf_data(buf), len);
    fail_in = failing;
    if (!ioh__outq_take_buf(&q, &mem, buf, roomy)) {
        assert_true(failing);
        model_len -= len;
    }
}

#define with_queue(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif

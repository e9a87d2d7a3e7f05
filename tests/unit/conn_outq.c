/* The out queue against a plain array of bytes, with random operations; and when memory is short. */
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
static uint32_t chance(uint32_t below);

void *__wrap_malloc(size_t size)
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

static uint32_t chance(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void fill(void *to, size_t len)
{
    uint8_t *bytes = to;
    for (size_t i = 0; i < len; i++) {
        next_byte = (uint8_t)(next_byte * 5 + 17);
        bytes[i] = next_byte;
    }
}

static void expect(const void *bytes, size_t len)
{
    assert_true(model_len + len <= MODEL_MAX);
    memcpy(model + model_len, bytes, len);
    model_len += len;
}

static int set_up(void **state)
{
    (void)state;
    memset(&q, 0, sizeof q);
    ioh__mem_init(&mem);
    model_len = fail_at = fail_in = 0;
    return 0;
}

static size_t blocks_out(void)
{
    size_t live = 0;
    for (size_t i = 0; i < sizeof mem.small / sizeof *mem.small; i++)
        live += mem.small[i].live;
    return live;
}

static int tear_down(void **state)
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
static void check_begin(int max)
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

static void check(void)
{
    check_begin(IOH__OUT_IOV);
}

static void consume(size_t n)
{
    ioh__outq_consume(&q, &mem, n);
    model_len -= n;
    memmove(model, model + n, model_len);
}

static void copy(size_t len, bool roomy)
{
    static uint8_t bytes[200000];
    fill(bytes, len);
    if (ioh__outq_copy(&q, &mem, bytes, len, roomy))
        expect(bytes, len);
    else
        assert_true(fail_in);
}

/* Of what was reserved, `used` bytes are written and kept. */
static void reserve(size_t len, size_t used, bool roomy)
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

static void release(void *data, size_t len, void *user)
{
    released++;
    memset(data, 0xee, len); /* whoever still reads it is found out */
    free(user);
}

/* A buf over bytes of its own. */
static ioh_buf *make_buf(size_t len)
{
    fail_in = 0;
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    fill(bytes, len);
    ioh_buf *buf = ioh_buf_wrap(bytes, len, release, bytes);
    assert_non_null(buf);
    return buf;
}

static void take(size_t len, bool roomy, unsigned failing)
{
    ioh_buf *buf = make_buf(len);
    expect(ioh_buf_data(buf), len);
    fail_in = failing;
    if (!ioh__outq_take_buf(&q, &mem, buf, roomy)) {
        assert_true(failing);
        model_len -= len;
    }
}

/* ---- pieces */

static void an_empty_queue_offers_nothing_and_holds_nothing(void **state)
{
    (void)state;
    mallocs = 0;
    check();
    ioh__outq_consume(&q, &mem, 0);
    assert_true(ioh__outq_rest(&q, &mem));
    ioh__outq_clear(&q, &mem);
    copy(0, true);
    assert_null(q.first);
    assert_int_equal(mallocs, 0);
    copy(100, false);
    consume(100);
    assert_null(q.first);
    assert_null(q.last);
    assert_int_equal(blocks_out(), 0);
}

static void small_pieces_of_a_turn_are_one_piece(void **state)
{
    (void)state;
    struct iovec iov[2];
    for (int i = 0; i < 100; i++)
        copy(130, true);
    assert_int_equal(ioh__outq_iov(&q, iov, 2), 1);
    check();
}

static void a_single_message_takes_a_small_block(void **state)
{
    (void)state;
    copy(64, false);
    assert_int_equal(blocks_out(), 1); /* large ones are not counted there */
    assert_int_equal(mem.small[2].live, 1);
    check();
}

static void what_is_trimmed_was_never_there(void **state)
{
    (void)state;
    reserve(300, 200, true);
    check();
    reserve(300, 0, true);
    check();
    reserve(300, 300, true);
    check();
    assert_int_equal(q.bytes, 500);
}

static void a_piece_larger_than_any_block_is_one_piece(void **state)
{
    (void)state;
    struct iovec iov[3];
    copy(10, true);
    reserve(150000, 150000, true);
    copy(10, true);
    assert_in_range(ioh__outq_iov(&q, iov, 3), 2, 3);
    check();
}

static void pieces_come_in_order_and_at_most_as_many_as_asked_for(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        take(5000, true, 0);
    check_begin(1);
    check_begin(7);
    check_begin(IOH__OUT_IOV);
    consume(5000 * 99 + 1);
    check();
}

static void bytes_are_consumed_at_any_point(void **state)
{
    (void)state;
    for (size_t step = 1; step < 12000; step = step * 3 + 1) {
        copy(3000, true);
        take(6000, true, 0);
        copy(1, true);
        while (model_len) {
            consume(step < model_len ? step : model_len);
            check();
        }
    }
}

/* ---- bufs */

static void a_large_buf_is_queued_where_it_is_and_released_once_after_its_last_byte(void **state)
{
    (void)state;
    struct iovec iov[1];
    ioh_buf *buf = make_buf(IOH__OUT_COPY_MAX + 1);
    const void *data = ioh_buf_data(buf);
    expect(data, IOH__OUT_COPY_MAX + 1);
    released = 0;
    assert_true(ioh__outq_take_buf(&q, &mem, buf, true));
    assert_int_equal(ioh__outq_iov(&q, iov, 1), 1);
    assert_ptr_equal(iov[0].iov_base, data);
    consume(IOH__OUT_COPY_MAX);
    check();
    assert_int_equal(released, 0);
    consume(1);
    assert_int_equal(released, 1);
}

static void a_small_buf_is_copied_and_released_at_once(void **state)
{
    (void)state;
    released = 0;
    take(IOH__OUT_COPY_MAX, true, 0);
    assert_int_equal(released, 1);
    check();
    take(0, true, 0);
    assert_int_equal(released, 2);
    check();
}

static void one_buf_in_the_queue_many_times_is_released_after_the_last(void **state)
{
    (void)state;
    ioh_buf *buf = make_buf(10000);
    released = 0;
    for (int i = 0; i < 5; i++) {
        expect(ioh_buf_data(buf), 10000);
        assert_true(ioh__outq_take_buf(&q, &mem, ioh_buf_ref(buf), true));
    }
    ioh_buf_unref(buf);
    check();
    consume(49999);
    assert_int_equal(released, 0);
    consume(1);
    assert_int_equal(released, 1);
}

/* Into an empty queue, from an empty one, and both full: as if all had been queued in one. */
static void another_queue_can_be_appended(void **state)
{
    struct ioh__outq other = {NULL, NULL, 0}, first;
    (void)state;
    ioh__outq_append(&q, &other);
    check();
    for (int round = 0; round < 3; round++) {
        size_t before = model_len;
        first = q; /* what the model's next bytes are queued in */
        q = other;
        copy(1000, false);
        take(IOH__OUT_COPY_MAX + 1, false, 0);
        copy(10, false);
        other = q;
        q = first;
        assert_int_equal(other.bytes, model_len - before);
        ioh__outq_append(&q, &other);
        assert_null(other.first);
        assert_int_equal(other.bytes, 0);
        check();
        copy(5, false);
        ioh__outq_append(&q, &other);
        check();
        if (round == 1)
            consume(model_len);
    }
    consume(100);
}

static void clearing_releases_what_was_not_sent(void **state)
{
    (void)state;
    released = 0;
    take(10000, true, 0);
    copy(10, true);
    take(20000, true, 0);
    consume(5000);
    ioh__outq_clear(&q, &mem);
    model_len = 0;
    assert_int_equal(released, 2);
    assert_null(q.first);
    check();
}

/* ---- at rest */

/* A first block that is not scratch memory. */
static void copy_into_a_large_block(void)
{
    assert_non_null(ioh__outq_reserve(&rival, &mem, IOH__SCRATCH_SIZE - 1000, true));
    copy(10000, true);
}

static void a_large_block_with_little_in_it_is_changed_for_a_small_one(void **state)
{
    (void)state;
    copy_into_a_large_block();
    consume(9900);
    assert_int_equal(blocks_out(), 0);
    assert_true(ioh__outq_rest(&q, &mem));
    assert_int_equal(blocks_out(), 1);
    check();
    copy(50, false);
    check();
}

static void what_shrinking_would_not_help_is_left_alone(void **state)
{
    (void)state;
    struct iovec before, after;
    copy_into_a_large_block(); /* well filled */
    ioh__outq_iov(&q, &before, 1);
    assert_true(ioh__outq_rest(&q, &mem));
    ioh__outq_iov(&q, &after, 1);
    assert_ptr_equal(before.iov_base, after.iov_base);
    ioh__outq_clear(&q, &mem);
    model_len = 0;
    take(10000, true, 0); /* not our memory */
    consume(9999);
    ioh__outq_iov(&q, &before, 1);
    assert_true(ioh__outq_rest(&q, &mem));
    ioh__outq_iov(&q, &after, 1);
    assert_ptr_equal(before.iov_base, after.iov_base);
    check();
}

static void shrinking_without_memory_leaves_the_bytes_where_they_are(void **state)
{
    (void)state;
    copy_into_a_large_block();
    consume(9900);
    fail_at = 1;
    assert_true(ioh__outq_rest(&q, &mem));
    assert_int_equal(fail_at, 0); /* it was tried */
    check();
}

/* ---- scratch memory */

static bool in_scratch(const struct iovec *iov)
{
    const char *at = iov->iov_base;
    return at > mem.scratch.base && at < mem.scratch.base + IOH__SCRATCH_SIZE;
}

static void what_is_sent_at_once_lies_in_scratch_memory_and_costs_no_block(void **state)
{
    (void)state;
    struct iovec iov[2];
    mallocs = 0;
    for (int round = 0; round < 1000; round++) {
        copy(100, true);
        copy(3000, true);
        assert_int_equal(ioh__outq_iov(&q, iov, 2), 1);
        assert_true(in_scratch(iov));
        check();
        consume(3100);
    }
    assert_int_equal(mallocs, 0);
}

static void what_rests_leaves_the_scratch_memory_and_is_as_it_was(void **state)
{
    (void)state;
    struct iovec iov[3];
    for (int more = 0; more < 2; more++) {
        copy(3000, true);
        consume(1000);
        if (more) /* behind it */
            take(6000, true, 0);
        assert_int_equal(mem.scratch.live, 1);
        assert_true(ioh__outq_rest(&q, &mem));
        assert_int_equal(mem.scratch.live, 0);
        assert_int_equal(ioh__outq_iov(&q, iov, 3), 1 + more);
        assert_false(in_scratch(iov));
        check();
        copy(10, true);
        assert_int_equal(mem.scratch.live, 0);
        check();
        consume(model_len);
    }
    reserve(100, 0, true);
    assert_true(ioh__outq_rest(&q, &mem));
    assert_null(q.first);
    assert_int_equal(mem.scratch.live, 0);
}

static void without_memory_what_cannot_rest_says_so_and_stays(void **state)
{
    (void)state;
    copy(3000, true);
    fail_at = 1;
    assert_false(ioh__outq_rest(&q, &mem));
    check();
    assert_true(ioh__outq_rest(&q, &mem));
    check();
}

/* Each keeps its own bytes, whichever is written to; when all is used up there are blocks. */
static void many_queues_share_the_scratch_memory(void **state)
{
    (void)state;
    enum { QUEUES = 40, LEN = 3000 };
    struct ioh__outq queue[QUEUES] = {{NULL, NULL, 0}};
    struct iovec iov[4];
    char bytes[LEN];
    size_t borrowed = 0;
    for (int i = 0; i < QUEUES; i++) {
        for (int piece = 0; piece < 2; piece++) {
            memset(bytes, 'A' + i, LEN);
            assert_true(ioh__outq_copy(&queue[i], &mem, bytes, piece ? 10 : LEN, true));
            if (i > 0) /* no longer the last one: it goes on in a block */
                assert_true(ioh__outq_copy(&queue[i - 1], &mem, bytes, 1, true));
        }
    }
    for (int i = 0; i < QUEUES; i++) {
        int count = ioh__outq_iov(&queue[i], iov, 4);
        size_t len = 0;
        borrowed += in_scratch(iov);
        for (int k = 0; k < count; k++)
            for (size_t b = 0; b < iov[k].iov_len; b++, len++)
                assert_int_equal(((char *)iov[k].iov_base)[b], len < LEN + 10 ? 'A' + i : 'B' + i);
        assert_int_equal(len, i < QUEUES - 1 ? LEN + 12 : LEN + 10);
    }
    assert_in_range(borrowed, 10, 21); /* of 64 KiB */
    assert_int_equal(mem.scratch.live, borrowed);
    for (int i = QUEUES; i-- > 0;)
        ioh__outq_clear(&queue[i], &mem);
    assert_int_equal(mem.scratch.live, 0);
    copy(60000, true); /* all of it is there again */
    ioh__outq_iov(&q, iov, 1);
    assert_true(in_scratch(iov));
}

/* ---- memory */

static void without_memory_a_copy_is_refused_and_the_queue_is_as_before(void **state)
{
    (void)state;
    char bytes[100] = "";
    fail_at = 1;
    assert_null(ioh__outq_reserve(&q, &mem, IOH__SCRATCH_SIZE, true));
    fail_at = 1;
    assert_false(ioh__outq_copy(&q, &mem, bytes, sizeof bytes, false));
    assert_null(q.first);
    check();
    copy(20, true);
    fail_at = 1;
    assert_null(ioh__outq_reserve(&q, &mem, 100000, true));
    check();
    copy(20, true);
    check();
}

static void without_memory_a_buf_is_refused_and_released(void **state)
{
    (void)state;
    static const size_t sizes[] = {IOH__OUT_COPY_MAX, IOH__OUT_COPY_MAX + 1};
    released = 0;
    for (unsigned i = 0; i < 2; i++) {
        ioh_buf *buf = make_buf(sizes[i]);
        fail_at = 1;
        assert_false(ioh__outq_take_buf(&q, &mem, buf, false));
        assert_int_equal(released, i + 1);
        check();
    }
}

/* ---- all of it by chance */

static size_t random_size(void)
{
    static const uint32_t below[] = {2, 40, 600, 5000, 20000, 100000};
    return chance(below[chance(6)]);
}

static void random_step(unsigned failing)
{
    size_t size = random_size();
    fail_in = failing;
    switch (chance(8)) {
    case 0:
    case 1:
        copy(size, chance(2));
        break;
    case 2:
        reserve(size, chance((uint32_t)size + 1), chance(2));
        break;
    case 3:
        take(size, chance(2), failing);
        break;
    case 4:
        consume(size < model_len ? size : model_len);
        break;
    case 5:
        consume(chance(4) ? chance((uint32_t)model_len + 1) : model_len);
        break;
    case 6:
        assert_true(ioh__outq_rest(&q, &mem) || failing);
        break;
    case 7: /* another queue's share of the scratch memory */
        if (rival.first)
            ioh__outq_clear(&rival, &mem);
        else
            ioh__outq_reserve(&rival, &mem, size, true);
        break;
    }
    fail_in = 0;
    if (chance(500) == 0 || model_len > MODEL_MAX / 2) {
        ioh__outq_clear(&q, &mem);
        model_len = 0;
    }
    check_begin((int)chance(IOH__OUT_IOV) + 1);
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    (void)state;
    seed = 20240229;
    for (int i = 0; i < 6000; i++)
        random_step(0);
}

static void random_operations_agree_while_every_third_malloc_fails(void **state)
{
    (void)state;
    seed = 4711;
    for (int i = 0; i < 6000; i++)
        random_step(3);
}

#define with_queue(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_queue(an_empty_queue_offers_nothing_and_holds_nothing),
        with_queue(small_pieces_of_a_turn_are_one_piece),
        with_queue(a_single_message_takes_a_small_block),
        with_queue(what_is_trimmed_was_never_there),
        with_queue(a_piece_larger_than_any_block_is_one_piece),
        with_queue(pieces_come_in_order_and_at_most_as_many_as_asked_for),
        with_queue(bytes_are_consumed_at_any_point),
        with_queue(a_large_buf_is_queued_where_it_is_and_released_once_after_its_last_byte),
        with_queue(a_small_buf_is_copied_and_released_at_once),
        with_queue(one_buf_in_the_queue_many_times_is_released_after_the_last),
        with_queue(another_queue_can_be_appended),
        with_queue(clearing_releases_what_was_not_sent),
        with_queue(a_large_block_with_little_in_it_is_changed_for_a_small_one),
        with_queue(what_shrinking_would_not_help_is_left_alone),
        with_queue(shrinking_without_memory_leaves_the_bytes_where_they_are),
        with_queue(what_is_sent_at_once_lies_in_scratch_memory_and_costs_no_block),
        with_queue(what_rests_leaves_the_scratch_memory_and_is_as_it_was),
        with_queue(without_memory_what_cannot_rest_says_so_and_stays),
        with_queue(many_queues_share_the_scratch_memory),
        with_queue(without_memory_a_copy_is_refused_and_the_queue_is_as_before),
        with_queue(without_memory_a_buf_is_refused_and_released),
        with_queue(random_operations_agree_with_a_plain_array),
        with_queue(random_operations_agree_while_every_third_malloc_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

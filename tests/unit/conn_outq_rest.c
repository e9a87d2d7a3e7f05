/* What of an out queue may stay where it is while it waits: scratch memory, and large blocks with little in them. */
#include "support/outq_model.h"

void *__wrap_malloc(size_t size)
{
    return model_malloc(size);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_queue(a_large_block_with_little_in_it_is_changed_for_a_small_one),
        with_queue(what_shrinking_would_not_help_is_left_alone),
        with_queue(shrinking_without_memory_leaves_the_bytes_where_they_are),
        with_queue(what_is_sent_at_once_lies_in_scratch_memory_and_costs_no_block),
        with_queue(what_rests_leaves_the_scratch_memory_and_is_as_it_was),
        with_queue(without_memory_what_cannot_rest_says_so_and_stays),
        with_queue(many_queues_share_the_scratch_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The out queue against a plain array of bytes, with random operations; and when memory is short. */
#include "support/outq_model.h"

void *__wrap_malloc(size_t size)
{
    return model_malloc(size);
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
        with_queue(without_memory_a_copy_is_refused_and_the_queue_is_as_before),
        with_queue(without_memory_a_buf_is_refused_and_released),
        with_queue(random_operations_agree_with_a_plain_array),
        with_queue(random_operations_agree_while_every_third_malloc_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

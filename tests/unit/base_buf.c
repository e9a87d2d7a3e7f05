/* Bufs: counted, immutable bytes. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

/* ---- malloc, counted, and failing when told */

static _Atomic unsigned mallocs;
static _Atomic bool malloc_fails;

void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    mallocs++;
    return malloc_fails ? NULL : __real_malloc(size);
}

/* ---- a release function that remembers its call */

struct released {
    _Atomic unsigned calls;
    void *data;
    size_t len;
};

static void release(void *data, size_t len, void *user)
{
    struct released *seen = user;
    seen->calls++;
    seen->data = data;
    seen->len = len;
}

static void a_copy_does_not_see_later_changes(void **state)
{
    (void)state;
    char text[] = "bytes";
    ioh_buf *buf = ioh_buf_copy(text, 5);
    memset(text, 'x', 5);
    assert_int_equal(ioh_buf_len(buf), 5);
    assert_memory_equal(ioh_buf_data(buf), "bytes", 5);
    ioh_buf_unref(buf);
}

static void a_copy_of_nothing_is_a_buf_of_length_zero(void **state)
{
    (void)state;
    ioh_buf *buf = ioh_buf_copy(NULL, 0);
    assert_non_null(buf);
    assert_int_equal(ioh_buf_len(buf), 0);
    ioh_buf_unref(buf);
}

static void a_copy_is_one_allocation(void **state)
{
    (void)state;
    unsigned before = mallocs;
    ioh_buf *buf = ioh_buf_copy("x", 1);
    assert_int_equal(mallocs - before, 1);
    ioh_buf_unref(buf);
}

static void a_new_buf_has_room_and_is_no_frame(void **state)
{
    (void)state;
    ioh_buf *buf = ioh__buf_new(1000);
    memset(buf->data, 7, 1000);
    assert_int_equal(ioh_buf_len(buf), 1000);
    assert_ptr_equal(ioh_buf_data(buf), buf->data);
    assert_false(buf->is_frame);
    ioh_buf_unref(buf);
}

static void wrapped_bytes_stay_where_they_are_and_are_released_once(void **state)
{
    (void)state;
    char text[] = "bytes";
    struct released seen = {0};
    ioh_buf *buf = ioh_buf_wrap(text, 5, release, &seen);
    assert_ptr_equal(ioh_buf_data(buf), text);
    assert_int_equal(ioh_buf_len(buf), 5);
    assert_ptr_equal(ioh_buf_ref(buf), buf);
    ioh_buf_ref(buf);
    ioh_buf_unref(buf);
    ioh_buf_unref(buf);
    assert_int_equal(seen.calls, 0);
    ioh_buf_unref(buf);
    assert_int_equal(seen.calls, 1);
    assert_ptr_equal(seen.data, text);
    assert_int_equal(seen.len, 5);
}

static void wrapped_static_bytes_need_no_release(void **state)
{
    (void)state;
    static char text[] = "static";
    ioh_buf *buf = ioh_buf_wrap(text, 6, NULL, NULL);
    assert_memory_equal(ioh_buf_data(buf), "static", 6);
    ioh_buf_unref(buf);
    assert_string_equal(text, "static");
}

static void unref_of_null_does_nothing(void **state)
{
    (void)state;
    ioh_buf_unref(NULL);
}

static void without_memory_there_is_no_buf_and_no_release(void **state)
{
    (void)state;
    char text[] = "bytes";
    struct released seen = {0};
    malloc_fails = true;
    ioh_buf *copy = ioh_buf_copy(text, 5);
    ioh_buf *wrapped = ioh_buf_wrap(text, 5, release, &seen);
    ioh_buf *fresh = ioh__buf_new(5);
    malloc_fails = false;
    assert_null(copy);
    assert_null(wrapped);
    assert_null(fresh);
    assert_int_equal(seen.calls, 0);
}

static void a_length_that_overflows_is_out_of_memory(void **state)
{
    (void)state;
    unsigned before = mallocs;
    assert_null(ioh__buf_new(SIZE_MAX));
    assert_null(ioh__buf_new(SIZE_MAX - sizeof(ioh_buf) + 1));
    assert_int_equal(mallocs, before);
}

/* ---- threads */

enum { THREADS = 4, ROUNDS = 200, REFS = 50 };

struct sharer {
    pthread_t thread;
    pthread_barrier_t *start;
    ioh_buf **bufs; /* one reference of each belongs to this thread */
    unsigned wrong; /* bytes that were not what they should be */
};

static void *share(void *arg)
{
    struct sharer *me = arg;
    pthread_barrier_wait(me->start);
    for (unsigned round = 0; round < ROUNDS; round++) {
        ioh_buf *buf = me->bufs[round];
        for (unsigned i = 0; i < REFS; i++) {
            ioh_buf_ref(buf);
            const uint8_t *bytes = ioh_buf_data(buf);
            me->wrong += bytes[0] != (uint8_t)round;
            ioh_buf_unref(buf);
        }
        ioh_buf_unref(buf);
    }
    return NULL;
}

/* The release function writes to the bytes: the thread sanitizer sees whether all reads of the other
 * threads come before that. */
static void release_and_wipe(void *data, size_t len, void *user)
{
    memset(data, 0xff, len);
    release(data, len, user);
}

static void the_last_of_many_threads_releases_exactly_once(void **state)
{
    (void)state;
    static struct released seen[ROUNDS];
    static uint8_t bytes[ROUNDS][16];
    static ioh_buf *bufs[ROUNDS];
    struct sharer sharer[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(bytes[i], (int)i, sizeof(bytes[i]));
        bufs[i] = ioh_buf_wrap(bytes[i], sizeof(bytes[i]), release_and_wipe, &seen[i]);
        for (unsigned k = 1; k < THREADS; k++)
            ioh_buf_ref(bufs[i]);
    }
    for (unsigned k = 0; k < THREADS; k++) {
        sharer[k] = (struct sharer){.start = &start, .bufs = bufs};
        assert_int_equal(pthread_create(&sharer[k].thread, NULL, share, &sharer[k]), 0);
    }
    for (unsigned k = 0; k < THREADS; k++) {
        pthread_join(sharer[k].thread, NULL);
        assert_int_equal(sharer[k].wrong, 0);
    }
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_int_equal(seen[i].calls, 1);
    pthread_barrier_destroy(&start);
}

struct reader {
    ioh_buf *buf;
    unsigned sum;
    _Atomic bool done;
};

/* Says that it is done without ordering anything: only the count may do that. */
static void *read_and_unref(void *arg)
{
    struct reader *me = arg;
    const uint8_t *bytes = ioh_buf_data(me->buf);
    me->sum = bytes[0];
    ioh_buf_unref(me->buf);
    atomic_store_explicit(&me->done, true, memory_order_relaxed);
    return NULL;
}

static void the_last_reference_comes_after_what_the_others_read(void **state)
{
    (void)state;
    uint8_t bytes[1] = {7};
    struct released seen = {0};
    pthread_t thread;
    struct reader reader = {.buf = ioh_buf_wrap(bytes, 1, release_and_wipe, &seen)};
    ioh_buf *mine = ioh_buf_ref(reader.buf);
    assert_int_equal(pthread_create(&thread, NULL, read_and_unref, &reader), 0);
    while (!atomic_load_explicit(&reader.done, memory_order_relaxed))
        sched_yield();
    ioh_buf_unref(mine);
    assert_int_equal(seen.calls, 1);
    pthread_join(thread, NULL);
    assert_int_equal(reader.sum, 7);
    assert_int_equal(bytes[0], 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_does_not_see_later_changes),
        cmocka_unit_test(a_copy_of_nothing_is_a_buf_of_length_zero),
        cmocka_unit_test(a_copy_is_one_allocation),
        cmocka_unit_test(a_new_buf_has_room_and_is_no_frame),
        cmocka_unit_test(wrapped_bytes_stay_where_they_are_and_are_released_once),
        cmocka_unit_test(wrapped_static_bytes_need_no_release),
        cmocka_unit_test(unref_of_null_does_nothing),
        cmocka_unit_test(without_memory_there_is_no_buf_and_no_release),
        cmocka_unit_test(a_length_that_overflows_is_out_of_memory),
        cmocka_unit_test(the_last_of_many_threads_releases_exactly_once),
        cmocka_unit_test(the_last_reference_comes_after_what_the_others_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

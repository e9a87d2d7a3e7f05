/* The memory of one loop: pools and size classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* ---- malloc, counted, and failing when told */

static unsigned mallocs;
static bool malloc_fails;

void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    mallocs++;
    return malloc_fails ? NULL : __real_malloc(size);
}

static int reset_malloc(void **state)
{
    (void)state;
    mallocs = 0;
    malloc_fails = false;
    return 0;
}

/* ---- pools */

static void objects_are_aligned_apart_and_writable(void **state)
{
    (void)state;
    enum { COUNT = 100, SIZE = 40 };
    struct ioh__pool pool;
    uint8_t *object[COUNT];
    ioh__pool_init(&pool, SIZE, 8);
    assert_int_equal(pool.size, 48);
    for (unsigned i = 0; i < COUNT; i++) {
        object[i] = ioh__pool_get(&pool);
        assert_non_null(object[i]);
        assert_int_equal((uintptr_t)object[i] % 16, 0);
        memset(object[i], (int)i, SIZE);
    }
    assert_int_equal(pool.live, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned k = 0; k < SIZE; k++)
            assert_int_equal(object[i][k], i);
    for (unsigned i = 0; i < COUNT; i++)
        ioh__pool_put(&pool, object[i]);
    assert_int_equal(pool.live, 0);
    ioh__pool_destroy(&pool);
}

static void the_last_put_is_the_first_got(void **state)
{
    (void)state;
    struct ioh__pool pool;
    ioh__pool_init(&pool, 64, 4);
    void *a = ioh__pool_get(&pool);
    void *b = ioh__pool_get(&pool);
    ioh__pool_put(&pool, a);
    ioh__pool_put(&pool, b);
    assert_ptr_equal(ioh__pool_get(&pool), b);
    assert_ptr_equal(ioh__pool_get(&pool), a);
    ioh__pool_put(&pool, a);
    ioh__pool_put(&pool, b);
    ioh__pool_destroy(&pool);
}

static void one_malloc_serves_a_slab_and_then_none(void **state)
{
    (void)state;
    enum { PER_SLAB = 10 };
    struct ioh__pool pool;
    void *object[2 * PER_SLAB];
    ioh__pool_init(&pool, 32, PER_SLAB);
    assert_int_equal(mallocs, 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 2 * PER_SLAB; i++)
            object[i] = ioh__pool_get(&pool);
        assert_int_equal(mallocs, 2);
        for (unsigned i = 0; i < 2 * PER_SLAB; i++)
            ioh__pool_put(&pool, object[i]);
    }
    ioh__pool_destroy(&pool);
}

static void objects_of_size_zero_and_one_are_sixteen_bytes(void **state)
{
    (void)state;
    for (size_t size = 0; size < 2; size++) {
        struct ioh__pool pool;
        ioh__pool_init(&pool, size, 1);
        void *a = ioh__pool_get(&pool);
        void *b = ioh__pool_get(&pool);
        memset(a, 1, 16);
        memset(b, 2, 16);
        ioh__pool_put(&pool, a);
        ioh__pool_put(&pool, b);
        ioh__pool_destroy(&pool);
    }
}

static void a_pool_answers_null_without_memory_and_recovers(void **state)
{
    (void)state;
    struct ioh__pool pool;
    ioh__pool_init(&pool, 100, 1);
    void *a = ioh__pool_get(&pool);
    malloc_fails = true;
    assert_null(ioh__pool_get(&pool));
    assert_int_equal(pool.live, 1);
    ioh__pool_put(&pool, a);
    assert_ptr_equal(ioh__pool_get(&pool), a); /* needs no malloc */
    malloc_fails = false;
    void *b = ioh__pool_get(&pool);
    assert_non_null(b);
    ioh__pool_put(&pool, b);
    ioh__pool_put(&pool, a);
    ioh__pool_destroy(&pool);
}

static void a_destroyed_pool_forgets_what_is_out(void **state)
{
    (void)state;
    struct ioh__pool pool;
    ioh__pool_init(&pool, 100, 3);
    for (unsigned i = 0; i < 7; i++)
        assert_non_null(ioh__pool_get(&pool));
    ioh__pool_destroy(&pool); /* the leak checkers say whether a slab stayed */
    assert_int_equal(pool.live, 0);
    assert_null(pool.free);
    assert_null(pool.slabs);
}

/* ---- classes */

static void a_block_holds_what_was_wanted_in_the_next_power_of_two(void **state)
{
    (void)state;
    static const struct {
        size_t want, cap;
    } row[] = {
        {0, 128},       {1, 128},       {127, 128},     {128, 128},       {129, 256},
        {256, 256},     {257, 512},     {1024, 1024},   {1025, 2048},     {2048, 2048},
        {2049, 4096},   {4096, 4096},   {4097, 8192},   {16384, 16384},   {32769, 65536},
        {65535, 65536}, {65536, 65536}, {65537, 65537}, {200000, 200000},
    };
    struct ioh__mem mem;
    ioh__mem_init(&mem);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        size_t cap = 0;
        void *block = ioh__mem_get(&mem, row[i].want, &cap);
        assert_non_null(block);
        assert_int_equal(cap, row[i].cap);
        assert_int_equal((uintptr_t)block % 16, 0);
        memset(block, 0xa5, cap);
        ioh__mem_put(&mem, block, cap);
    }
    ioh__mem_destroy(&mem);
}

static void every_class_is_used_again_without_malloc(void **state)
{
    (void)state;
    struct ioh__mem mem;
    ioh__mem_init(&mem);
    for (size_t want = IOH__MEM_MIN; want <= IOH__MEM_MAX; want *= 2) {
        size_t cap;
        void *block = ioh__mem_get(&mem, want, &cap);
        ioh__mem_put(&mem, block, cap);
        unsigned before = mallocs;
        assert_ptr_equal(ioh__mem_get(&mem, want - 1, &cap), block);
        assert_int_equal(mallocs, before);
        ioh__mem_put(&mem, block, cap);
    }
    ioh__mem_destroy(&mem);
}

static void a_burst_of_large_blocks_does_not_stay(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    static void *block[COUNT];
    struct ioh__mem mem;
    ioh__mem_init(&mem);
    for (size_t i = 0; i < 5; i++) {
        size_t size = (size_t)4096 << i, cap;
        for (unsigned k = 0; k < COUNT; k++)
            block[k] = ioh__mem_get(&mem, size, &cap);
        for (unsigned k = 0; k < COUNT; k++)
            ioh__mem_put(&mem, block[k], cap);
        size_t kept = mem.large[i].kept;
        assert_true(kept >= 16 && kept * size <= 1024 * 1024);
        unsigned before = mallocs;
        for (unsigned k = 0; k < COUNT; k++)
            block[k] = ioh__mem_get(&mem, size, &cap);
        assert_int_equal(mallocs - before, COUNT - kept);
        assert_int_equal(mem.large[i].kept, 0);
        for (unsigned k = 0; k < COUNT; k++)
            ioh__mem_put(&mem, block[k], cap);
    }
    ioh__mem_destroy(&mem);
}

/* ---- scratch memory */

static void scratch_pieces_lie_one_behind_the_other_and_begin_anew_when_all_are_back(void **state)
{
    (void)state;
    struct ioh__mem mem;
    size_t cap;
    ioh__mem_init(&mem);
    struct ioh__scratch *s = &mem.scratch;
    mallocs = 0;
    for (int round = 0; round < 3; round++) {
        char *a = ioh__scratch_open(s, 100, &cap);
        assert_non_null(a);
        assert_int_equal(cap, IOH__SCRATCH_SIZE);
        memset(a, 'a', cap);
        ioh__scratch_close(s, 100);
        char *b = ioh__scratch_open(s, 1, &cap);
        assert_ptr_equal(b, a + 112); /* aligned */
        assert_int_equal(cap, IOH__SCRATCH_SIZE - 112);
        memset(b, 'b', cap);
        assert_int_equal(a[99], 'a');
        ioh__scratch_put(s, b); /* open: its memory is there again, */
        char *c = ioh__scratch_open(s, IOH__SCRATCH_SIZE - 112, &cap);
        assert_ptr_equal(c, b);
        ioh__scratch_close(s, cap);
        assert_null(ioh__scratch_open(s, 1, &cap));
        ioh__scratch_put(s, a); /* closed: only when all are back */
        assert_null(ioh__scratch_open(s, 1, &cap));
        assert_int_equal(s->live, 1);
        ioh__scratch_put(s, c);
        assert_int_equal(s->live, 0);
    }
    assert_null(ioh__scratch_open(s, IOH__SCRATCH_SIZE + 1, &cap));
    assert_int_equal(mallocs, 0);
    ioh__mem_destroy(&mem);
}

static void without_memory_there_is_no_scratch_and_it_says_so(void **state)
{
    (void)state;
    struct ioh__mem mem;
    malloc_fails = true;
    assert_false(ioh__mem_init(&mem));
    malloc_fails = false;
    ioh__mem_destroy(&mem);
    assert_true(ioh__mem_init(&mem));
    ioh__mem_destroy(&mem);
}

static void putting_null_does_nothing(void **state)
{
    (void)state;
    struct ioh__mem mem;
    ioh__mem_init(&mem);
    ioh__mem_put(&mem, NULL, 0);
    ioh__mem_put(&mem, NULL, 4096);
    ioh__mem_destroy(&mem);
}

static void no_class_has_memory_when_malloc_fails(void **state)
{
    (void)state;
    static const size_t want[] = {1, 2048, 4096, 65536, 65537};
    struct ioh__mem mem;
    ioh__mem_init(&mem);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        size_t cap;
        malloc_fails = true;
        assert_null(ioh__mem_get(&mem, want[i], &cap));
        malloc_fails = false;
        void *block = ioh__mem_get(&mem, want[i], &cap);
        assert_non_null(block);
        ioh__mem_put(&mem, block, cap);
    }
    ioh__mem_destroy(&mem);
}

/* ---- the address sanitizer */

static void free_objects_are_poisoned_under_the_address_sanitizer(void **state)
{
    (void)state;
#ifdef WITH_ASAN
    struct ioh__mem mem;
    ioh__mem_init(&mem);
    for (size_t want = IOH__MEM_MIN; want <= IOH__MEM_MAX; want *= 2) {
        size_t cap;
        char *block = ioh__mem_get(&mem, want, &cap);
        assert_null(__asan_region_is_poisoned(block, cap));
        ioh__mem_put(&mem, block, cap);
        for (size_t i = 0; i < cap; i++)
            assert_true(__asan_address_is_poisoned(block + i));
        assert_ptr_equal(ioh__mem_get(&mem, want, &cap), block);
        assert_null(__asan_region_is_poisoned(block, cap));
        ioh__mem_put(&mem, block, cap);
    }
    ioh__mem_destroy(&mem);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(objects_are_aligned_apart_and_writable, reset_malloc),
        cmocka_unit_test_setup(the_last_put_is_the_first_got, reset_malloc),
        cmocka_unit_test_setup(one_malloc_serves_a_slab_and_then_none, reset_malloc),
        cmocka_unit_test_setup(objects_of_size_zero_and_one_are_sixteen_bytes, reset_malloc),
        cmocka_unit_test_setup(a_pool_answers_null_without_memory_and_recovers, reset_malloc),
        cmocka_unit_test_setup(a_destroyed_pool_forgets_what_is_out, reset_malloc),
        cmocka_unit_test_setup(a_block_holds_what_was_wanted_in_the_next_power_of_two,
                               reset_malloc),
        cmocka_unit_test_setup(every_class_is_used_again_without_malloc, reset_malloc),
        cmocka_unit_test_setup(a_burst_of_large_blocks_does_not_stay, reset_malloc),
        cmocka_unit_test_setup(putting_null_does_nothing, reset_malloc),
        cmocka_unit_test_setup(no_class_has_memory_when_malloc_fails, reset_malloc),
        cmocka_unit_test_setup(
            scratch_pieces_lie_one_behind_the_other_and_begin_anew_when_all_are_back, reset_malloc),
        cmocka_unit_test_setup(without_memory_there_is_no_scratch_and_it_says_so, reset_malloc),
        cmocka_unit_test_setup(free_objects_are_poisoned_under_the_address_sanitizer, reset_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

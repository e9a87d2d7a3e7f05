/* The log-linear histogram. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hist.h"

static struct ioh__hist hist, other;

static int empty(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof(hist));
    memset(&other, 0, sizeof(other));
    return 0;
}

static uint64_t random_of(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void an_empty_histogram_answers_zero(void **state)
{
    (void)state;
    assert_int_equal(ioh__hist_quantile(&hist, 0), 0);
    assert_int_equal(ioh__hist_quantile(&hist, 0.5), 0);
    assert_int_equal(ioh__hist_quantile(&hist, 1), 0);
}

/* Adds one value to an empty histogram and checks what comes back. */
static void check_alone(uint64_t value)
{
    memset(&hist, 0, sizeof(hist));
    ioh__hist_add(&hist, value);
    uint64_t got = ioh__hist_quantile(&hist, 0.5);
    assert_true(got <= value);
    assert_true(value - got <= value / 16);
    if (value < 32)
        assert_int_equal(got, value);
}

static void every_value_comes_back_within_a_sixteenth(void **state)
{
    (void)state;
    for (uint64_t value = 0; value < 2000; value++)
        check_alone(value);
    for (unsigned bit = 5; bit < 64; bit++) {
        uint64_t power = (uint64_t)1 << bit;
        check_alone(power - 1);
        check_alone(power);
        check_alone(power + 1);
        check_alone(power + power / 16 - 1);
        check_alone(power + power / 16);
    }
    check_alone(UINT64_MAX);
}

static void a_power_of_two_is_the_smallest_of_its_bucket(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        memset(&hist, 0, sizeof(hist));
        ioh__hist_add(&hist, (uint64_t)1 << bit);
        assert_int_equal(ioh__hist_quantile(&hist, 1), (uint64_t)1 << bit);
    }
}

static void quantiles_of_a_few_exact_values(void **state)
{
    (void)state;
    for (uint64_t value = 1; value <= 10; value++)
        ioh__hist_add(&hist, value);
    assert_int_equal(ioh__hist_quantile(&hist, 0), 1);
    assert_int_equal(ioh__hist_quantile(&hist, 0.1), 1);
    assert_int_equal(ioh__hist_quantile(&hist, 0.11), 2);
    assert_int_equal(ioh__hist_quantile(&hist, 0.5), 5);
    assert_int_equal(ioh__hist_quantile(&hist, 0.51), 6);
    assert_int_equal(ioh__hist_quantile(&hist, 0.99), 10);
    assert_int_equal(ioh__hist_quantile(&hist, 1), 10);
}

static void a_fraction_outside_zero_to_one_is_the_nearer_end(void **state)
{
    (void)state;
    ioh__hist_add(&hist, 3);
    ioh__hist_add(&hist, 9);
    assert_int_equal(ioh__hist_quantile(&hist, -1), 3);
    assert_int_equal(ioh__hist_quantile(&hist, 2), 9);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_agree_with_a_sorted_array(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static uint64_t value[COUNT];
    uint64_t seed = 42;
    for (unsigned i = 0; i < COUNT; i++) {
        value[i] = random_of(&seed) >> (random_of(&seed) % 60);
        ioh__hist_add(&hist, value[i]);
    }
    qsort(value, COUNT, sizeof(value[0]), by_value);
    for (unsigned k = 1; k <= 100; k++) {
        unsigned rank = COUNT * k / 100;
        uint64_t exact = value[rank - 1];
        uint64_t got = ioh__hist_quantile(&hist, (rank - 0.5) / COUNT);
        assert_true(got <= exact);
        assert_true(exact - got <= exact / 16);
    }
}

static void merging_adds_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 99; i++)
        ioh__hist_add(&hist, 5);
    for (unsigned i = 0; i < 101; i++)
        ioh__hist_add(&other, 1u << 20);
    ioh__hist_merge(&hist, &other);
    ioh__hist_merge(&hist, &(struct ioh__hist){0});
    assert_int_equal(ioh__hist_quantile(&hist, 0.49), 5);
    assert_int_equal(ioh__hist_quantile(&hist, 0.5), 1u << 20);
    ioh__hist_merge(&hist, &other);
    assert_int_equal(ioh__hist_quantile(&hist, 0.33), 1u << 20);
    assert_int_equal(ioh__hist_quantile(&hist, 0.32), 5);
    assert_int_equal(ioh__hist_quantile(&other, 0), 1u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_histogram_answers_zero, empty),
        cmocka_unit_test_setup(every_value_comes_back_within_a_sixteenth, empty),
        cmocka_unit_test_setup(a_power_of_two_is_the_smallest_of_its_bucket, empty),
        cmocka_unit_test_setup(quantiles_of_a_few_exact_values, empty),
        cmocka_unit_test_setup(a_fraction_outside_zero_to_one_is_the_nearer_end, empty),
        cmocka_unit_test_setup(quantiles_agree_with_a_sorted_array, empty),
        cmocka_unit_test_setup(merging_adds_up, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

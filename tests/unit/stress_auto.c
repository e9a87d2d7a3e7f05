/* AUTO under stress: nearly every callback is late, and its loop is taken over while it runs. Everything that handler.h
 * promises about order holds all the same, and every byte arrives.
 *
 * An argument, or IOH_STRESS_CALLBACKS, says how many callbacks each run is to have.
 */
#include "support/stress_run.h"

static uint64_t callbacks;

static void callbacks_that_are_late_after_a_microsecond_lose_nothing(void **state)
{
    (void)state;
    const struct stress_config config = {.name = "auto, 1 us",
                                         .exec = IOH_EXEC_AUTO,
                                         .pool_threads = 6,
                                         .handoff_us = 1,
                                         .forget = true,
                                         .clients = 16,
                                         .callbacks = callbacks * 3 / 4};
    struct ioh_stats stats = run_stress(&config);
    assert_true(stats.auto_late > config.callbacks / 200);
    assert_true(stress.taken_calls > config.callbacks / 200);
    assert_true(stats.pool_jobs > 0); /* and some were known to be late */
}

static void callbacks_that_are_late_after_50_microseconds_lose_nothing(void **state)
{
    (void)state;
    const struct stress_config config = {.name = "auto, 50 us",
                                         .exec = IOH_EXEC_AUTO,
                                         .pool_threads = 6,
                                         .handoff_us = 50,
                                         .forget = true,
                                         .clients = 16,
                                         .callbacks = callbacks / 4};
    struct ioh_stats stats = run_stress(&config);
    assert_true(stats.auto_late > config.callbacks / 200);
    assert_true(stress.taken_calls > config.callbacks / 200);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_that_are_late_after_a_microsecond_lose_nothing),
        cmocka_unit_test(callbacks_that_are_late_after_50_microseconds_lose_nothing),
    };
    callbacks = wanted_callbacks(argc, argv, 60000);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

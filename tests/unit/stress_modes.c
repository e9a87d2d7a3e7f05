/* The load of stress_auto.c under every other way to run callbacks: pools with too little room by every policy, work
 * threads, a thread per connection, and each request somewhere else.
 *
 * An argument, or IOH_STRESS_CALLBACKS, says how many callbacks each run is to have.
 */
#include "support/stress_run.h"

static uint64_t callbacks;

static struct ioh_stats run(struct stress_config config)
{
    config.callbacks = callbacks;
    config.clients = config.clients ? config.clients : 16;
    return run_stress(&config);
}

static void a_pool_with_room_loses_nothing(void **state)
{
    (void)state;
    struct ioh_stats stats =
        run((struct stress_config){.name = "pool", .exec = IOH_EXEC_POOL, .pool_threads = 6});
    assert_int_equal(stats.pool_full, 0);
    assert_true(stats.pool_jobs > 0);
}

static void a_pool_that_is_full_lets_them_wait_and_loses_nothing(void **state)
{
    (void)state;
    struct ioh_stats stats = run((struct stress_config){.name = "pool, wait",
                                                        .exec = IOH_EXEC_POOL,
                                                        .pool_threads = 2,
                                                        .pool_queue = 3,
                                                        .pool_full = IOH_FULL_WAIT,
                                                        .clients = 24});
    assert_true(stats.pool_full > 0);
    assert_int_equal(turned_away, 0);
}

static void a_pool_that_is_full_refuses_with_an_answer_and_loses_nothing(void **state)
{
    (void)state;
    struct ioh_stats stats = run((struct stress_config){.name = "pool, refuse",
                                                        .exec = IOH_EXEC_POOL,
                                                        .pool_threads = 2,
                                                        .pool_queue = 3,
                                                        .pool_full = IOH_FULL_REFUSE,
                                                        .clients = 24});
    assert_true(stats.pool_full > 0);
    assert_true(turned_away > 0);
}

static void a_pool_that_is_full_resets_and_keeps_the_order(void **state)
{
    (void)state;
    struct ioh_stats stats = run((struct stress_config){.name = "pool, close",
                                                        .exec = IOH_EXEC_POOL,
                                                        .pool_threads = 2,
                                                        .pool_queue = 3,
                                                        .pool_full = IOH_FULL_CLOSE,
                                                        .clients = 24});
    assert_true(stats.pool_full > 0);
}

static void work_threads_keep_their_connections_and_lose_nothing(void **state)
{
    (void)state;
    run((struct stress_config){.name = "affine", .exec = IOH_EXEC_AFFINE, .work_op_threads = 3});
}

static void work_threads_with_short_queues_lose_nothing(void **state)
{
    (void)state;
    struct ioh_stats stats = run((struct stress_config){.name = "affine, wait",
                                                        .exec = IOH_EXEC_AFFINE,
                                                        .work_op_threads = 2,
                                                        .pool_queue = 2,
                                                        .pool_full = IOH_FULL_WAIT,
                                                        .clients = 24});
    assert_true(stats.pool_full > 0);
}

static void a_thread_for_each_connection_loses_nothing(void **state)
{
    (void)state;
    run((struct stress_config){.name = "threads", .type = IOH_THREADS});
}

static void callbacks_on_the_loops_lose_nothing(void **state)
{
    (void)state;
    run((struct stress_config){.name = "inline", .exec = IOH_EXEC_INLINE});
}

static void requests_that_run_each_somewhere_else_lose_nothing(void **state)
{
    (void)state;
    run((struct stress_config){.name = "mixed",
                               .exec = IOH_EXEC_POOL,
                               .pool_threads = 3,
                               .work_op_threads = 2,
                               .classify = true});
}

static void requests_that_run_somewhere_else_under_auto_lose_nothing(void **state)
{
    (void)state;
    struct ioh_stats stats = run((struct stress_config){.name = "auto, mixed",
                                                        .exec = IOH_EXEC_AUTO,
                                                        .pool_threads = 6,
                                                        .handoff_us = 1,
                                                        .forget = true,
                                                        .classify = true});
    assert_true(stats.auto_late > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_with_room_loses_nothing),
        cmocka_unit_test(a_pool_that_is_full_lets_them_wait_and_loses_nothing),
        cmocka_unit_test(a_pool_that_is_full_refuses_with_an_answer_and_loses_nothing),
        cmocka_unit_test(a_pool_that_is_full_resets_and_keeps_the_order),
        cmocka_unit_test(work_threads_keep_their_connections_and_lose_nothing),
        cmocka_unit_test(work_threads_with_short_queues_lose_nothing),
        cmocka_unit_test(a_thread_for_each_connection_loses_nothing),
        cmocka_unit_test(callbacks_on_the_loops_lose_nothing),
        cmocka_unit_test(requests_that_run_each_somewhere_else_lose_nothing),
        cmocka_unit_test(requests_that_run_somewhere_else_under_auto_lose_nothing),
    };
    callbacks = wanted_callbacks(argc, argv, 6000);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

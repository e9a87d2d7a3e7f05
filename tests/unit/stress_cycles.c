/* Start, load, stop, again and again in one process, in every mode: stopped at random moments of the load, with random
 * drain times. Nothing hangs, every callback that must follow has come when the stop returns, nothing is lent or leaks, and
 * all descriptors are back.
 *
 * An argument, or IOH_STRESS_CYCLES, says how many cycles there are to be.
 */
#include "support/stress_run.h"

#include <dirent.h>

#define SLACK_MS 10000u /* beyond what a stop may take: the machine is busy with other tests */

static const struct stress_config modes[] = {
    {.name = "auto, 1 us",
     .exec = IOH_EXEC_AUTO,
     .pool_threads = 4,
     .handoff_us = 1,
     .forget = true,
     .clients = 8},
    {.name = "auto", .exec = IOH_EXEC_AUTO, .clients = 8},
    {.name = "auto, mixed",
     .exec = IOH_EXEC_AUTO,
     .pool_threads = 3,
     .handoff_us = 20,
     .classify = true,
     .clients = 8},
    {.name = "inline", .exec = IOH_EXEC_INLINE, .clients = 8},
    {.name = "pool", .exec = IOH_EXEC_POOL, .pool_threads = 4, .clients = 8},
    {.name = "pool, wait",
     .exec = IOH_EXEC_POOL,
     .pool_threads = 2,
     .pool_queue = 2,
     .pool_full = IOH_FULL_WAIT,
     .clients = 12},
    {.name = "pool, refuse",
     .exec = IOH_EXEC_POOL,
     .pool_threads = 2,
     .pool_queue = 2,
     .pool_full = IOH_FULL_REFUSE,
     .clients = 12},
    {.name = "pool, close",
     .exec = IOH_EXEC_POOL,
     .pool_threads = 2,
     .pool_queue = 2,
     .pool_full = IOH_FULL_CLOSE,
     .clients = 12},
    {.name = "affine", .exec = IOH_EXEC_AFFINE, .work_op_threads = 3, .clients = 8},
    {.name = "threads", .type = IOH_THREADS, .clients = 8},
};

enum { MODES = sizeof modes / sizeof *modes };

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

#define GRACE_MS 500u /* what a stop has beyond its drain time */

static uint64_t slowest, callbacks_run;
static int timeouts;

/* Stops under load. */
static void stop_now(uint32_t drain_ms)
{
    atomic_store(&stress.stopping, true);
    uint64_t begin = now_ms();
    int rc = ioh_server_stop(stress.server, drain_ms);
    uint64_t took = now_ms() - begin;
    slowest = took > slowest ? took : slowest;
    SURE(rc == 0 || rc == IOH_ETIMEOUT);
    if (took > drain_ms + GRACE_MS + SLACK_MS)
        stress_fault(__FILE__, __LINE__, "a stop with %u ms to drain took %llu ms", drain_ms,
                     (unsigned long long)took);
    if (rc == IOH_ETIMEOUT && took >= drain_ms + GRACE_MS) {
        timeouts++; /* the machine was too busy: the rest has come when destroy returns */
    } else if (stress.opens != stress.closes || stress.requests != stress.completes ||
               stress.ws_opens != stress.ws_closes) {
        stress_fault(
            __FILE__, __LINE__,
            "stop answered %d after %llu ms (%u to drain): %llu of %llu connections closed", rc,
            (unsigned long long)took, drain_ms, (unsigned long long)stress.closes,
            (unsigned long long)stress.opens);
    }
    SURE(ioh_server_stop(stress.server, 0) == IOH_ESTATE);
}

static void cycle(const struct stress_config *mode, uint32_t *seed)
{
    static const uint32_t drains[] = {0, 0, 1, 5, 20, 100, 400};
    struct stress_config config = *mode;
    uint32_t drain_ms = drains[roll(seed) % (sizeof drains / sizeof *drains)];
    config.callbacks = UINT64_MAX;
    start_stress(&config);
    begin_load();
    if (roll(seed) % 8)
        sleep_us(roll(seed) % 30000);
    int before = timeouts;
    stop_now(drain_ms);
    join_helpers(); /* they find a server that does not run */
    end_stress(timeouts == before);
    join_clients();
    drop_errands();
    fail_if_faulty();
    callbacks_run += stress.callbacks;
}

static int cycles;

static void a_server_can_be_started_and_stopped_any_number_of_times(void **state)
{
    (void)state;
    uint32_t seed = 20;
    cycle(&modes[0], &seed); /* what is made once, is made */
    int descriptors = open_descriptors();
    for (int i = 1; i < cycles; i++) {
        cycle(&modes[i % MODES], &seed);
        if (open_descriptors() != descriptors)
            fail_msg("cycle %d (%s): %d descriptors, before %d", i, modes[i % MODES].name,
                     open_descriptors(), descriptors);
    }
    print_message(
        "%d cycles, %llu callbacks; the slowest stop took %llu ms, %d went to their bounds\n",
        cycles, (unsigned long long)callbacks_run, (unsigned long long)slowest, timeouts);
}

/* A server that is never stopped by name: destroy does it, under load as well. */
static void destroy_alone_stops_too(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        struct stress_config config = modes[i];
        config.callbacks = UINT64_MAX;
        config.clients = 4;
        config.forget = false;
        start_stress(&config);
        begin_load();
        sleep_us(3000);
        atomic_store(&stress.stopping, true);
        join_helpers(); /* what they leave undone ends with the server */
        ioh_server_destroy(stress.server);
        ioh_response_destroy(stress.shared);
        join_clients();
        SURE(stress.opens == stress.closes);
        SURE(stress.requests == stress.completes);
        check_links();
        drop_errands();
        fail_if_faulty();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_can_be_started_and_stopped_any_number_of_times),
        cmocka_unit_test(destroy_alone_stops_too),
    };
    const char *text = argc > 1 ? argv[1] : getenv("IOH_STRESS_CYCLES");
    cycles = text ? atoi(text) : 60;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A thread's share of the cores, as the kernel sees it. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/share.h"

static void less_is_nicer_and_in_longer_slices(void **state)
{
    (void)state;
    const struct ioh__share full = {.policy = SCHED_OTHER, .nice = 5, .slice = 1400000};
    struct ioh__share less = ioh__share_less(&full, 3);
    assert_int_equal(less.policy, SCHED_OTHER);
    assert_int_equal(less.nice, 8);
    assert_true(less.slice > 3000000);
    assert_int_equal(ioh__share_less(&full, 19).nice, 19);
    less = ioh__share_less(&(struct ioh__share){.policy = SCHED_BATCH, .slice = 50000000}, 1);
    assert_int_equal(less.policy, SCHED_BATCH);
    assert_int_equal(less.slice, 50000000);
}

static void the_least_is_what_nobody_else_wants(void **state)
{
    (void)state;
    const struct ioh__share full = {.policy = SCHED_OTHER, .nice = 5};
    struct ioh__share less = ioh__share_less(&full, IOH__SHARE_LEFTOVER);
    assert_int_equal(less.policy, SCHED_IDLE);
    assert_int_equal(less.nice, 5);
}

static void what_knows_no_niceness_stays_as_it_is(void **state)
{
    (void)state;
    const struct ioh__share full = {.policy = SCHED_FIFO, .priority = 7};
    for (unsigned by = 1; by <= IOH__SHARE_LEFTOVER; by++) {
        struct ioh__share less = ioh__share_less(&full, by);
        assert_memory_equal(&less, &full, sizeof less);
    }
}

/* In a thread of its own, which ends with what it has. */
struct seen {
    bool asked, nice_taken, least_taken, back;
    int before, nice, policy, after;
    uint64_t slice_before, slice;
};

static void *take_shares(void *arg)
{
    struct seen *s = arg;
    struct ioh__share full, less, now = {0};
    s->before = getpriority(PRIO_PROCESS, 0);
    s->asked = ioh__share_read(&full);
    if (!s->asked)
        return NULL;
    less = ioh__share_less(&full, 2);
    s->nice_taken = ioh__share_take(&less);
    s->nice = getpriority(PRIO_PROCESS, 0);
    s->slice_before = full.slice;
    if (ioh__share_read(&now))
        s->slice = now.slice;
    less = ioh__share_less(&full, IOH__SHARE_LEFTOVER);
    s->least_taken = ioh__share_take(&less);
    s->policy = sched_getscheduler(0);
    s->back = ioh__share_take(&full);
    s->after = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

static void the_kernel_does_as_it_is_told(void **state)
{
    (void)state;
    pthread_t thread;
    struct seen s = {0};
    int before = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(pthread_create(&thread, NULL, take_shares, &s), 0);
    pthread_join(thread, NULL);
    if (!s.asked || sched_getscheduler(0) != SCHED_OTHER)
        skip();
    assert_true(s.nice_taken && s.least_taken);
    assert_int_equal(s.nice, s.before < 18 ? s.before + 2 : 19);
    assert_true(s.slice_before == 0 || s.slice > s.slice_before); /* 0: before Linux 6.12 */
    assert_int_equal(s.policy, SCHED_IDLE);
    if (s.back)
        assert_int_equal(s.after, s.before);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before); /* of nobody else */
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_is_nicer_and_in_longer_slices),
        cmocka_unit_test(the_least_is_what_nobody_else_wants),
        cmocka_unit_test(what_knows_no_niceness_stays_as_it_is),
        cmocka_unit_test(the_kernel_does_as_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The timer wheel, alone and against a plain sorted list. Time is a number here: nothing waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/wheel.h"

#define TICK IOH__WHEEL_TICK_MS
#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define START UINT64_C(123456789) /* on no boundary */

static struct ioh__wheel wheel;
static struct ioh__timer timer[8];

static int fresh(void **state)
{
    (void)state;
    ioh__wheel_init(&wheel, START);
    for (unsigned i = 0; i < 8; i++)
        ioh__timer_init(&timer[i]);
    return 0;
}

static void expect_none(uint64_t now)
{
    assert_null(ioh__wheel_expired(&wheel, now));
}

/* Lives like a loop with nothing but timers: sleeps as long as the wheel says, until a timer fires.
 * Answers when that was and counts the wake-ups. */
static uint64_t sleep_until_one_fires(uint64_t now, struct ioh__timer *expected, unsigned *wakes)
{
    for (*wakes = 0; *wakes < 1000; ++*wakes) {
        struct ioh__timer *t = ioh__wheel_expired(&wheel, now);
        if (t) {
            assert_ptr_equal(t, expected);
            return now;
        }
        int timeout = ioh__wheel_timeout(&wheel, now);
        assert_true(timeout > 0);
        now += (uint64_t)timeout;
    }
    fail_msg("no timer fired");
    return 0;
}

/* ---- one timer */

static void a_timer_fires_at_its_deadline_or_a_tick_later(void **state)
{
    (void)state;
    for (uint64_t ahead = 1; ahead < 200; ahead++) {
        uint64_t now = START + 1000 * ahead, fired = 0;
        expect_none(now);
        ioh__timer_set(&wheel, &timer[0], now + ahead);
        assert_true(ioh__timer_armed(&timer[0]));
        for (uint64_t t = now; !fired; t++)
            if (ioh__wheel_expired(&wheel, t))
                fired = t;
        assert_in_range(fired, now + ahead, now + ahead + TICK);
        assert_false(ioh__timer_armed(&timer[0]));
        expect_none(fired);
        assert_int_equal(ioh__wheel_timeout(&wheel, fired), -1);
    }
}

static void a_timer_of_any_distance_fires_after_few_wakes(void **state)
{
    (void)state;
    /* 268,435,451 is the first tick beyond the top level, as START is 5 ms into its tick */
    static const uint64_t distance[] = {
        1,           15,        16,        17,        SECOND,      1024,     1025,
        10 * SECOND, MINUTE,    65536,     HOUR,      70 * MINUTE, 4194304,  DAY,
        3 * DAY,     268435435, 268435451, 268435456, 9 * DAY,     30 * DAY, 400 * DAY,
    };
    for (size_t i = 0; i < sizeof(distance) / sizeof(distance[0]); i++) {
        fresh(state);
        unsigned wakes;
        uint64_t deadline = START + distance[i];
        ioh__timer_set(&wheel, &timer[0], deadline);
        uint64_t fired = sleep_until_one_fires(START, &timer[0], &wakes);
        assert_in_range(fired, deadline, deadline + TICK);
        /* its own, one for each cascade, and one for each time it was beyond the top level */
        assert_true(wakes <= 4 + distance[i] / (3 * DAY));
    }
}

static void a_deadline_of_the_past_fires_in_the_next_tick(void **state)
{
    (void)state;
    static const uint64_t past[] = {0, 1, START - HOUR, START - 1, START};
    for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
        fresh(state);
        expect_none(START);
        ioh__timer_set(&wheel, &timer[0], past[i]);
        assert_true(ioh__timer_armed(&timer[0]));
        int timeout = ioh__wheel_timeout(&wheel, START);
        assert_in_range(timeout, 1, TICK);
        assert_ptr_equal(ioh__wheel_expired(&wheel, START + (uint64_t)timeout), &timer[0]);
        assert_false(ioh__timer_armed(&timer[0]));
    }
}

static void a_timer_for_ever_does_not_fire_and_does_not_overflow(void **state)
{
    (void)state;
    ioh__timer_set(&wheel, &timer[0], UINT64_MAX);
    uint64_t now = START;
    for (unsigned i = 0; i < 20; i++) {
        expect_none(now);
        int timeout = ioh__wheel_timeout(&wheel, now);
        assert_true(timeout > 2 * (int)DAY);
        now += (uint64_t)timeout;
    }
    ioh__timer_cancel(&timer[0]);
    assert_int_equal(ioh__wheel_timeout(&wheel, now), -1);
}

static void the_clock_may_start_at_zero(void **state)
{
    (void)state;
    unsigned wakes;
    ioh__wheel_init(&wheel, 0);
    assert_int_equal(ioh__wheel_timeout(&wheel, 0), -1);
    ioh__timer_set(&wheel, &timer[0], 0);
    assert_true(ioh__timer_armed(&timer[0]));
    assert_ptr_equal(ioh__wheel_expired(&wheel, 0), &timer[0]);
    ioh__timer_set(&wheel, &timer[0], MINUTE);
    assert_in_range(sleep_until_one_fires(0, &timer[0], &wakes), MINUTE, MINUTE + TICK);
}

/* ---- moving */

static void a_later_deadline_is_one_store_and_holds(void **state)
{
    (void)state;
    struct ioh__timer *t = &timer[0];
    ioh__timer_set(&wheel, t, START + SECOND);
    struct ioh__list before = t->link;
    ioh__timer_set(&wheel, t, START + MINUTE);
    assert_memory_equal(&t->link, &before, sizeof(before)); /* still filed where it was */
    expect_none(START + 2 * SECOND);
    expect_none(START + MINUTE - 1);
    assert_ptr_equal(ioh__wheel_expired(&wheel, START + MINUTE + TICK), t);
}

static void an_earlier_deadline_moves_the_timer(void **state)
{
    (void)state;
    ioh__timer_set(&wheel, &timer[0], START + HOUR);
    ioh__timer_set(&wheel, &timer[0], START + SECOND);
    assert_true(ioh__wheel_timeout(&wheel, START) <= (int)(SECOND + TICK));
    assert_ptr_equal(ioh__wheel_expired(&wheel, START + SECOND + TICK), &timer[0]);
}

static void later_and_then_earlier_again_holds_the_last_word(void **state)
{
    (void)state;
    unsigned wakes;
    ioh__timer_set(&wheel, &timer[0], START + 10 * SECOND);
    ioh__timer_set(&wheel, &timer[0], START + HOUR);
    ioh__timer_set(&wheel, &timer[0], START + 20 * SECOND);
    uint64_t due = START + 20 * SECOND;
    assert_in_range(sleep_until_one_fires(START, &timer[0], &wakes), due, due + TICK);
    ioh__timer_set(&wheel, &timer[0], due + HOUR);
    ioh__timer_set(&wheel, &timer[0], due + DAY);
    ioh__timer_set(&wheel, &timer[0], due + SECOND);
    assert_in_range(sleep_until_one_fires(due + TICK, &timer[0], &wakes), due + SECOND,
                    due + SECOND + TICK);
}

static void an_idle_deadline_pushed_back_by_every_request_wakes_seldom(void **state)
{
    (void)state;
    uint64_t now = START;
    unsigned wakes = 0, requests = 0;
    ioh__timer_set(&wheel, &timer[0], now + MINUTE);
    uint64_t wake = now + (uint64_t)ioh__wheel_timeout(&wheel, now);
    for (; now < START + HOUR; now += 5) {
        if (now >= wake) {
            expect_none(now);
            wake = now + (uint64_t)ioh__wheel_timeout(&wheel, now);
            wakes++;
        }
        ioh__timer_set(&wheel, &timer[0], now + MINUTE);
        requests++;
    }
    assert_true(requests > 700000);
    assert_true(wakes <= 3 * 60); /* per minute: one cascade or two, and the old slot */
}

static void a_cancelled_timer_does_not_fire(void **state)
{
    (void)state;
    ioh__timer_cancel(&timer[0]); /* not armed: nothing happens */
    ioh__timer_set(&wheel, &timer[0], START + SECOND);
    ioh__timer_set(&wheel, &timer[1], START + SECOND);
    ioh__timer_cancel(&timer[0]);
    ioh__timer_cancel(&timer[0]);
    assert_false(ioh__timer_armed(&timer[0]));
    assert_ptr_equal(ioh__wheel_expired(&wheel, START + MINUTE), &timer[1]);
    expect_none(START + MINUTE);
}

/* ---- several */

static void timers_fire_in_the_order_of_their_ticks(void **state)
{
    (void)state;
    static const uint64_t ahead[8] = {DAY, 3 * SECOND, HOUR, 100, 2 * MINUTE, 5 * DAY, 40, SECOND};
    static const unsigned order[8] = {6, 3, 7, 1, 4, 2, 0, 5};
    for (unsigned i = 0; i < 8; i++)
        ioh__timer_set(&wheel, &timer[i], START + ahead[i]);
    for (unsigned i = 0; i < 8; i++) /* all at once, after a jump over days */
        assert_ptr_equal(ioh__wheel_expired(&wheel, START + 6 * DAY), &timer[order[i]]);
    expect_none(START + 6 * DAY);
}

static void timers_of_one_tick_all_fire_in_one_turn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++)
        ioh__timer_set(&wheel, &timer[i], START + 500);
    for (unsigned i = 0; i < 8; i++)
        assert_non_null(ioh__wheel_expired(&wheel, START + 500 + TICK));
    expect_none(START + 500 + TICK);
}

static void due_timers_may_be_cancelled_or_moved_before_they_fire(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++)
        ioh__timer_set(&wheel, &timer[i], START + 100);
    uint64_t now = START + SECOND;
    assert_ptr_equal(ioh__wheel_expired(&wheel, now), &timer[0]);
    assert_int_equal(ioh__wheel_timeout(&wheel, now), 0); /* more are due */
    ioh__timer_cancel(&timer[1]);
    ioh__timer_set(&wheel, &timer[2], now + SECOND); /* later */
    ioh__timer_set(&wheel, &timer[3], START);        /* earlier: in a later turn */
    assert_ptr_equal(ioh__wheel_expired(&wheel, now), &timer[4]);
    expect_none(now);
    assert_ptr_equal(ioh__wheel_expired(&wheel, now + TICK), &timer[3]);
    expect_none(now + SECOND - 1);
    assert_ptr_equal(ioh__wheel_expired(&wheel, now + SECOND + TICK), &timer[2]);
    expect_none(now + MINUTE);
}

static void a_timer_set_again_to_now_when_it_fires_does_not_hold_the_turn(void **state)
{
    (void)state;
    uint64_t now = START;
    ioh__timer_set(&wheel, &timer[0], now);
    for (unsigned turn = 0; turn < 100; turn++) {
        now += turn % 10 == 0 ? HOUR : TICK;
        unsigned fired = 0;
        while (ioh__wheel_expired(&wheel, now)) {
            ioh__timer_set(&wheel, &timer[0], turn % 2 ? now : 0);
            assert_int_equal(++fired, 1);
        }
        assert_int_equal(fired, 1);
        assert_in_range(ioh__wheel_timeout(&wheel, now), 1, TICK);
    }
}

static void without_timers_the_loop_sleeps_for_ever(void **state)
{
    (void)state;
    assert_int_equal(ioh__wheel_timeout(&wheel, START), -1);
    for (unsigned i = 0; i < 8; i++)
        ioh__timer_set(&wheel, &timer[i], START + ((uint64_t)10 << (3 * i)));
    for (unsigned i = 0; i < 8; i++)
        ioh__timer_cancel(&timer[i]);
    assert_int_equal(ioh__wheel_timeout(&wheel, START), -1);
}

/* ---- against a sorted list */

enum { TIMERS = 300, STEPS = 60000 };

/* One timer of ours and what we know of it. The list is sorted by `latest`. */
struct model {
    struct ioh__timer timer;
    uint64_t deadline;
    uint64_t latest; /* the time at which it must have fired */
    struct model *next;
};

static struct model model[TIMERS];
static struct model *first;
static uint64_t seed;

static uint64_t below(uint64_t end)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % end;
}

static void model_remove(struct model *m)
{
    for (struct model **at = &first; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    m->next = NULL;
    m->latest = 0;
}

static uint64_t end_of_tick(uint64_t time)
{
    return (time + TICK - 1) / TICK * TICK;
}

static void model_set(struct model *m, uint64_t deadline, uint64_t now)
{
    model_remove(m);
    m->deadline = deadline;
    /* a deadline that has passed waits for the tick after now */
    m->latest = end_of_tick(deadline > now ? deadline : now + 1);
    struct model **at = &first;
    while (*at && (*at)->latest <= m->latest)
        at = &(*at)->next;
    m->next = *at;
    *at = m;
}

static uint64_t random_deadline(uint64_t now)
{
    switch (below(8)) {
    case 0:
        return now - below(200);
    case 1:
    case 2:
        return now + below(100);
    case 3:
    case 4:
        return now + below(2 * SECOND);
    case 5:
        return now + below(3 * MINUTE);
    case 6:
        return now + below(3 * HOUR);
    default:
        return now + below(8 * DAY);
    }
}

static uint64_t random_step(uint64_t now)
{
    uint64_t kind = below(1000);
    if (kind < 600)
        return below(20);
    if (kind < 900)
        return below(300);
    if (kind < 960)
        return below(30 * SECOND);
    if (kind < 990) /* exactly when the next one must fire */
        return first && first->latest > now ? first->latest - now : 0;
    if (kind < 998)
        return below(2 * HOUR);
    return below(6 * DAY);
}

static void set_or_cancel(uint64_t now)
{
    struct model *m = &model[below(TIMERS)];
    if (below(5) == 0) {
        ioh__timer_cancel(&m->timer);
        model_remove(m);
    } else {
        uint64_t deadline = random_deadline(now);
        ioh__timer_set(&wheel, &m->timer, deadline);
        model_set(m, deadline, now);
    }
}

static unsigned drain(uint64_t now)
{
    unsigned fired = 0;
    for (struct ioh__timer *t; (t = ioh__wheel_expired(&wheel, now)); fired++) {
        struct model *m = ioh__container(t, struct model, timer);
        assert_true(m->latest != 0);
        assert_true(m->deadline <= now); /* never early */
        model_remove(m);
        if (below(4) == 0)
            set_or_cancel(now); /* as a callback does */
    }
    if (first)
        assert_true(first->latest > now); /* never more than a tick late */
    return fired;
}

static void check_timeout(uint64_t now)
{
    int timeout = ioh__wheel_timeout(&wheel, now);
    if (!first) {
        assert_int_equal(timeout, -1);
        return;
    }
    assert_true(timeout > 0); /* all that was due is done: no spin */
    assert_true(now + (uint64_t)timeout <= first->latest);
}

static void the_wheel_agrees_with_a_sorted_list(void **state)
{
    (void)state;
    uint64_t now = START;
    unsigned fired = 0;
    seed = 20240229;
    first = NULL;
    memset(model, 0, sizeof(model));
    for (unsigned i = 0; i < TIMERS; i++)
        ioh__timer_init(&model[i].timer);
    for (unsigned step = 0; step < STEPS; step++) {
        for (uint64_t n = below(4); n > 0; n--)
            set_or_cancel(now);
        now += random_step(now);
        fired += drain(now);
        check_timeout(now);
    }
    assert_true(fired > STEPS / 4);
    for (unsigned i = 0; i < TIMERS; i++) {
        ioh__timer_cancel(&model[i].timer);
        model_remove(&model[i]);
    }
    check_timeout(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_timer_fires_at_its_deadline_or_a_tick_later, fresh),
        cmocka_unit_test_setup(a_timer_of_any_distance_fires_after_few_wakes, fresh),
        cmocka_unit_test_setup(a_deadline_of_the_past_fires_in_the_next_tick, fresh),
        cmocka_unit_test_setup(a_timer_for_ever_does_not_fire_and_does_not_overflow, fresh),
        cmocka_unit_test_setup(the_clock_may_start_at_zero, fresh),
        cmocka_unit_test_setup(a_later_deadline_is_one_store_and_holds, fresh),
        cmocka_unit_test_setup(an_earlier_deadline_moves_the_timer, fresh),
        cmocka_unit_test_setup(later_and_then_earlier_again_holds_the_last_word, fresh),
        cmocka_unit_test_setup(an_idle_deadline_pushed_back_by_every_request_wakes_seldom, fresh),
        cmocka_unit_test_setup(a_cancelled_timer_does_not_fire, fresh),
        cmocka_unit_test_setup(timers_fire_in_the_order_of_their_ticks, fresh),
        cmocka_unit_test_setup(timers_of_one_tick_all_fire_in_one_turn, fresh),
        cmocka_unit_test_setup(due_timers_may_be_cancelled_or_moved_before_they_fire, fresh),
        cmocka_unit_test_setup(a_timer_set_again_to_now_when_it_fires_does_not_hold_the_turn,
                               fresh),
        cmocka_unit_test_setup(without_timers_the_loop_sleeps_for_ever, fresh),
        cmocka_unit_test_setup(the_wheel_agrees_with_a_sorted_list, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

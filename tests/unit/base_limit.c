/* Limits that were hit: which of the hits get a line, and that none is forgotten. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/handler.h>

#include "base/limit.h"

static struct ioh__limits limits;
static struct ioh__log slog = {.on = true};

static int fresh(void **state)
{
    (void)state;
    memset(&limits, 0, sizeof limits);
    memset(&slog, 0, sizeof slog);
    slog.on = true;
    return 0;
}

static void expect_line(int level, const char *text)
{
    struct ioh__log_line line;
    assert_true(ioh__log_take(&slog, &line));
    assert_string_equal(line.text, text);
    assert_int_equal(line.level, level);
}

static void expect_silence(void)
{
    struct ioh__log_line line;
    assert_false(ioh__log_take(&slog, &line));
}

static void expect_pass(enum ioh__limit kind, uint64_t now, uint64_t untold)
{
    uint64_t told = UINT64_MAX;
    assert_true(ioh__limit_pass(&limits, kind, now, &told));
    assert_int_equal(told, untold);
}

static void expect_no_pass(enum ioh__limit kind, uint64_t now)
{
    uint64_t told;
    assert_false(ioh__limit_pass(&limits, kind, now, &told));
}

static void every_kind_has_a_name_of_its_own_and_a_level(void **state)
{
    (void)state;
    for (int i = 0; i < IOH__LIMIT_KINDS; i++) {
        int level = ioh__limit_level((enum ioh__limit)i);
        assert_in_range(level, IOH_LOG_WARN, IOH_LOG_DEBUG);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(ioh__limit_name((enum ioh__limit)i),
                                    ioh__limit_name((enum ioh__limit)k));
    }
    assert_string_equal(ioh__limit_name(IOH__LIMIT_HEAD_TIME), "head_timeout_ms");
}

static void one_line_a_second_tells_how_many_had_none(void **state)
{
    (void)state;
    expect_pass(IOH__LIMIT_HEAD, 5000, 0);
    for (uint64_t now = 5000; now < 5000 + IOH__LIMIT_LINE_MS; now += 100)
        expect_no_pass(IOH__LIMIT_HEAD, now);
    expect_pass(IOH__LIMIT_HEAD, 6000, 10);
    expect_no_pass(IOH__LIMIT_HEAD, 6999);
    expect_pass(IOH__LIMIT_HEAD, 9000, 1);
    expect_pass(IOH__LIMIT_HEAD, 20000, 0);
}

static void kinds_do_not_silence_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < IOH__LIMIT_KINDS; i++)
        expect_pass((enum ioh__limit)i, 1000, 0);
    expect_no_pass(IOH__LIMIT_URI, 1999);
    expect_pass(IOH__LIMIT_BODY, 2000, 0);
}

static void what_had_no_line_gets_one_when_its_second_is_over(void **state)
{
    (void)state;
    ioh__limit_tails(&limits, &slog, 1);
    expect_silence();
    expect_pass(IOH__LIMIT_URI, 1000, 0);
    assert_int_equal(limits.tail_at, 0);
    expect_no_pass(IOH__LIMIT_URI, 1500);
    expect_no_pass(IOH__LIMIT_URI, 1600);
    assert_int_equal(limits.tail_at, 2000);
    ioh__limit_tails(&limits, &slog, 1999);
    expect_silence();
    ioh__limit_tails(&limits, &slog, 2000);
    expect_line(IOH_LOG_INFO, "max_uri_bytes: hit 2 times more");
    expect_silence();
    assert_int_equal(limits.tail_at, 0);
    expect_no_pass(IOH__LIMIT_URI, 2999); /* that line was this second's */
    expect_pass(IOH__LIMIT_URI, 3000, 1);
}

static void kinds_whose_second_is_not_over_come_later(void **state)
{
    (void)state;
    expect_pass(IOH__LIMIT_URI, 1000, 0);
    expect_no_pass(IOH__LIMIT_URI, 1001);
    expect_pass(IOH__LIMIT_BODY, 1500, 0);
    expect_no_pass(IOH__LIMIT_BODY, 1501);
    ioh__limit_tails(&limits, &slog, 2100);
    expect_line(IOH_LOG_INFO, "max_uri_bytes: hit 1 time more");
    expect_silence();
    assert_int_equal(limits.tail_at, 2500);
    ioh__limit_tails(&limits, &slog, 2500);
    expect_line(IOH_LOG_INFO, "max_body_bytes: hit 1 time more");
    expect_silence();
}

static void at_the_end_all_that_is_left_is_said(void **state)
{
    (void)state;
    expect_pass(IOH__LIMIT_SEND_MAX, 1000, 0);
    expect_no_pass(IOH__LIMIT_SEND_MAX, 1001);
    ioh__limit_untold(&limits, IOH__LIMIT_POOL_QUEUE, 1002);
    ioh__limit_tails(&limits, &slog, UINT64_MAX);
    expect_line(IOH_LOG_WARN, "send_max: hit 1 time more");
    expect_line(IOH_LOG_WARN, "pool_queue: hit 1 time more");
    ioh__limit_tails(&limits, &slog, UINT64_MAX);
    expect_silence();
}

static void a_hit_without_a_log_at_hand_is_said_by_the_next(void **state)
{
    (void)state;
    ioh__limit_untold(&limits, IOH__LIMIT_SEND_MAX, 1000);
    assert_int_equal(limits.tail_at, 2000);
    expect_pass(IOH__LIMIT_SEND_MAX, 1200, 1);
    ioh__limit_tails(&limits, &slog, 2200);
    expect_silence();
    ioh__limit_untold(&limits, IOH__LIMIT_SEND_MAX, 5000);
    ioh__limit_tails(&limits, &slog, 6000);
    expect_line(IOH_LOG_WARN, "send_max: hit 1 time more");
}

/* ---- threads */

enum { THREADS = 4, HITS = 20000 };
static _Atomic uint64_t told, lines;

static void *hit(void *arg)
{
    uint64_t now = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < HITS; i++) {
        uint64_t untold;
        if (ioh__limit_pass(&limits, IOH__LIMIT_BODY, now + (uint64_t)i, &untold)) {
            atomic_fetch_add(&told, untold + 1);
            atomic_fetch_add(&lines, 1);
        }
    }
    return NULL;
}

static void hits_of_many_threads_are_all_told_of_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t left = 0;
    told = lines = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hit, (void *)(uintptr_t)1000), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(lines, 1, HITS / IOH__LIMIT_LINE_MS + 1);
    ioh__limit_tails(&limits, &slog, UINT64_MAX);
    struct ioh__log_line line;
    if (ioh__log_take(&slog, &line))
        assert_int_equal(sscanf(line.text, "max_body_bytes: hit %" SCNu64, &left), 1);
    assert_int_equal(told + left, THREADS * HITS);
}

#define test_of(function) cmocka_unit_test_setup(function, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of(every_kind_has_a_name_of_its_own_and_a_level),
        test_of(one_line_a_second_tells_how_many_had_none),
        test_of(kinds_do_not_silence_each_other),
        test_of(what_had_no_line_gets_one_when_its_second_is_over),
        test_of(kinds_whose_second_is_not_over_come_later),
        test_of(at_the_end_all_that_is_left_is_said),
        test_of(a_hit_without_a_log_at_hand_is_said_by_the_next),
        test_of(hits_of_many_threads_are_all_told_of_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

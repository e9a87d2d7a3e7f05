/* The log of one loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/handler.h>

#include "base/log.h"

static struct ioh__log log_of(bool on)
{
    struct ioh__log log = {.on = on};
    return log;
}

static void expect(struct ioh__log *log, int level, const char *text)
{
    struct ioh__log_line line;
    assert_true(ioh__log_take(log, &line));
    assert_string_equal(line.text, text);
    assert_int_equal(line.level, level);
}

static void expect_nothing(struct ioh__log *log)
{
    struct ioh__log_line line;
    assert_false(ioh__log_take(log, &line));
}

static void lines_come_out_formatted_and_in_order(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    expect_nothing(&log);
    ioh__log_add(&log, IOH_LOG_ERROR, "accept: %s (%d)", "no", 24);
    ioh__log_add(&log, IOH_LOG_DEBUG, "plain");
    expect(&log, IOH_LOG_ERROR, "accept: no (24)");
    expect(&log, IOH_LOG_DEBUG, "plain");
    expect_nothing(&log);
}

static void a_log_that_is_off_keeps_and_counts_nothing(void **state)
{
    (void)state;
    struct ioh__log log = log_of(false);
    for (unsigned i = 0; i < 2 * IOH__LOG_LINES; i++)
        ioh__log_add(&log, IOH_LOG_INFO, "line %u", i);
    expect_nothing(&log);
    assert_int_equal(log.lost, 0);
}

static void the_ring_goes_round(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    char text[32];
    for (unsigned i = 0; i < 5 * IOH__LOG_LINES; i++) {
        ioh__log_add(&log, IOH_LOG_INFO, "a%u", i);
        ioh__log_add(&log, IOH_LOG_INFO, "b%u", i);
        snprintf(text, sizeof(text), "a%u", i);
        expect(&log, IOH_LOG_INFO, text);
        snprintf(text, sizeof(text), "b%u", i);
        expect(&log, IOH_LOG_INFO, text);
    }
    expect_nothing(&log);
}

static void a_long_line_is_cut_and_ended(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    char text[3 * IOH__LOG_TEXT];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    ioh__log_add(&log, IOH_LOG_INFO, "%s", text);
    text[IOH__LOG_TEXT - 1] = 0;
    expect(&log, IOH_LOG_INFO, text);
}

static void fill(struct ioh__log *log, unsigned lines)
{
    for (unsigned i = 0; i < lines; i++)
        ioh__log_add(log, IOH_LOG_INFO, "line %u", i);
}

static void expect_filled(struct ioh__log *log, unsigned from, unsigned to)
{
    char text[32];
    for (unsigned i = from; i < to; i++) {
        snprintf(text, sizeof(text), "line %u", i);
        expect(log, IOH_LOG_INFO, text);
    }
}

static void a_full_log_keeps_the_oldest_and_counts_the_rest(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    fill(&log, IOH__LOG_LINES + 7);
    expect_filled(&log, 0, IOH__LOG_LINES);
    expect(&log, IOH_LOG_WARN, "7 log lines were lost here");
    expect_nothing(&log);
    ioh__log_add(&log, IOH_LOG_INFO, "again");
    expect(&log, IOH_LOG_INFO, "again");
    expect_nothing(&log);
}

static void exactly_full_loses_nothing(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    fill(&log, IOH__LOG_LINES);
    expect_filled(&log, 0, IOH__LOG_LINES);
    expect_nothing(&log);
}

static void the_count_stands_where_the_lines_were_lost(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    fill(&log, IOH__LOG_LINES + 1);
    expect_filled(&log, 0, 2);
    ioh__log_add(&log, IOH_LOG_ERROR, "later");
    expect_filled(&log, 2, IOH__LOG_LINES);
    expect(&log, IOH_LOG_WARN, "1 log line was lost here");
    expect(&log, IOH_LOG_ERROR, "later");
    expect_nothing(&log);
}

static void a_count_that_takes_the_last_place_starts_a_new_count(void **state)
{
    (void)state;
    struct ioh__log log = log_of(true);
    fill(&log, IOH__LOG_LINES + 3);
    expect_filled(&log, 0, 1);
    ioh__log_add(&log, IOH_LOG_INFO, "no room beside the count");
    expect_filled(&log, 1, IOH__LOG_LINES);
    expect(&log, IOH_LOG_WARN, "3 log lines were lost here");
    expect(&log, IOH_LOG_WARN, "1 log line was lost here");
    expect_nothing(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_out_formatted_and_in_order),
        cmocka_unit_test(a_log_that_is_off_keeps_and_counts_nothing),
        cmocka_unit_test(the_ring_goes_round),
        cmocka_unit_test(a_long_line_is_cut_and_ended),
        cmocka_unit_test(a_full_log_keeps_the_oldest_and_counts_the_rest),
        cmocka_unit_test(exactly_full_loses_nothing),
        cmocka_unit_test(the_count_stands_where_the_lines_were_lost),
        cmocka_unit_test(a_count_that_takes_the_last_place_starts_a_new_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Dates, against the C library's calendar; reading, of all that is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/http_date.h"

#define DAY INT64_C(86400)
#define LAST INT64_C(253402300799) /* 9999-12-31 23:59:59 */

static void assert_date(int64_t seconds, const char *date)
{
    char out[IOH__DATE_LEN + 1];
    out[IOH__DATE_LEN] = '!';
    ioh__http_date(seconds, out);
    assert_int_equal(strlen(date), IOH__DATE_LEN);
    assert_memory_equal(out, date, IOH__DATE_LEN);
    assert_int_equal(out[IOH__DATE_LEN], '!');
}

static void the_dates_that_everybody_knows_are_right(void **state)
{
    (void)state;
    assert_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_date(784111777, "Sun, 06 Nov 1994 08:49:37 GMT"); /* RFC 9110 5.6.7 */
    assert_date(951827696, "Tue, 29 Feb 2000 12:34:56 GMT");
    assert_date(1000000000, "Sun, 09 Sep 2001 01:46:40 GMT");
    assert_date(2147483648, "Tue, 19 Jan 2038 03:14:08 GMT");
    assert_date(4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"); /* 2100 is no leap year */
    assert_date(LAST, "Fri, 31 Dec 9999 23:59:59 GMT");
}

static void times_out_of_range_become_the_nearest_in_it(void **state)
{
    (void)state;
    assert_date(-1, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_date(INT64_MIN, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_date(LAST + 1, "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_date(INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
}

static void assert_like_libc(int64_t seconds)
{
    time_t at = (time_t)seconds;
    struct tm tm;
    char date[64];
    assert_non_null(gmtime_r(&at, &tm));
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    assert_date(seconds, date);
}

static void every_day_of_four_hundred_years_is_right(void **state)
{
    (void)state;
    for (int64_t day = 0; day < 146097; day++)
        assert_like_libc(day * DAY + day % DAY);
}

static void days_up_to_the_year_9999_are_right(void **state)
{
    (void)state;
    for (int64_t seconds = 0; seconds < LAST; seconds += 37 * DAY + 12345)
        assert_like_libc(seconds);
}

static void every_second_of_a_day_is_right(void **state)
{
    (void)state;
    for (int64_t second = 0; second < DAY; second++)
        assert_like_libc(1709164800 + second); /* 2024-02-29 */
}

/* ---- reading */

#define NOW_2026 INT64_C(1780000000)

static int64_t read_date(const char *text)
{
    int64_t seconds;
    return ioh__http_date_parse(text, strlen(text), NOW_2026, &seconds) ? seconds : INT64_MIN;
}

static void all_three_forms_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
    assert_int_equal(read_date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
    assert_int_equal(read_date("Sun Nov  6 08:49:37 1994"), 784111777);
    assert_int_equal(read_date("Wed Nov 16 08:49:37 1994"), 784975777);
    assert_int_equal(read_date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
    assert_int_equal(read_date("Wed, 31 Dec 1969 23:59:59 GMT"), -1);
    assert_int_equal(read_date("Fri, 31 Dec 9999 23:59:59 GMT"), LAST);
    assert_int_equal(read_date("Sat, 31 Dec 2016 23:59:60 GMT"), 1483228800); /* a leap second */
}

static void two_digits_of_a_year_are_at_most_fifty_years_ahead(void **state)
{
    (void)state;
    assert_int_equal(read_date("Thursday, 01-Jan-70 00:00:00 GMT"), INT64_C(3155760000));
    assert_int_equal(read_date("Thursday, 01-Jan-76 00:00:00 GMT"), INT64_C(3345062400));
    assert_int_equal(read_date("Thursday, 01-Jan-77 00:00:00 GMT"), INT64_C(220924800));
    assert_int_equal(read_date("Thursday, 01-Jan-26 00:00:00 GMT"), INT64_C(1767225600));
    int64_t seconds;
    const char *text = "Thursday, 01-Jan-10 00:00:00 GMT";
    assert_true(ioh__http_date_parse(text, strlen(text), INT64_C(4090000000), &seconds)); /* 2099 */
    assert_int_equal(seconds, INT64_C(4417977600));                                       /* 2110 */
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int64_t at = 0; at < LAST; at += 11 * DAY + 4321) {
        char text[IOH__DATE_LEN];
        int64_t seconds;
        ioh__http_date(at, text);
        assert_true(ioh__http_date_parse(text, sizeof text, NOW_2026, &seconds));
        assert_int_equal(seconds, at);
    }
}

static void what_is_no_date_is_not_read(void **state)
{
    static const char *const bad[] = {
        "",
        "0",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 GMTx",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 2023 08:49:37 GMT",
        "Sun, 29 Feb 2100 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, -6 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov   08:49:37 1994",
        "Mit, 06 Nov 1994 08:49:37 GMT",
        "784111777",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_date(bad[i]) != INT64_MIN)
            fail_msg("%s is read", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dates_that_everybody_knows_are_right),
        cmocka_unit_test(times_out_of_range_become_the_nearest_in_it),
        cmocka_unit_test(every_day_of_four_hundred_years_is_right),
        cmocka_unit_test(days_up_to_the_year_9999_are_right),
        cmocka_unit_test(every_second_of_a_day_is_right),
        cmocka_unit_test(all_three_forms_are_read),
        cmocka_unit_test(two_digits_of_a_year_are_at_most_fifty_years_ahead),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_no_date_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

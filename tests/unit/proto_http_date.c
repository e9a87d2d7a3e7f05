/* IMF-fixdate against the C library's calendar. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dates_that_everybody_knows_are_right),
        cmocka_unit_test(times_out_of_range_become_the_nearest_in_it),
        cmocka_unit_test(every_day_of_four_hundred_years_is_right),
        cmocka_unit_test(days_up_to_the_year_9999_are_right),
        cmocka_unit_test(every_second_of_a_day_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

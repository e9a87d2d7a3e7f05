/* Conditional requests: fields as text, and what is decided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http_validators.h"
#include "support/request_head.h"

#define TIME 784111777 /* of DATE */
#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"
#define EARLIER "Sun, 06 Nov 1994 08:49:36 GMT"
#define LATER "Sun, 06 Nov 1994 08:49:38 GMT"
#define NOW (TIME + 1000)

struct verdict_case {
    const char *fields, *etag;
    int verdict;
};

static int verdict(const char *fields, const char *etag)
{
    static struct request_head r;
    struct ioh__validators v = {etag, strlen(etag), TIME};
    struct ioh__conditions c;
    request_head(&r, fields);
    ioh__http_conditions(r.text, &r.head, &c);
    return ioh__http_evaluate(r.text, &r.head, &c, &v, NOW);
}

static void check_verdicts(const struct verdict_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int have = verdict(cases[i].fields, cases[i].etag);
        if (have != cases[i].verdict)
            fail_msg("%s (%s): %d, not %d", cases[i].fields, cases[i].etag, have, cases[i].verdict);
    }
}

#define CHECK_VERDICTS(cases) check_verdicts(cases, sizeof(cases) / sizeof *(cases))

static void if_none_match_compares_weakly(void **state)
{
    static const struct verdict_case cases[] = {
        {"If-None-Match: \"a\"\r\n", "\"a\"", 304},
        {"if-none-match: W/\"a\"\r\n", "\"a\"", 304},
        {"If-None-Match: \"a\"\r\n", "W/\"a\"", 304},
        {"If-None-Match: W/\"a\"\r\n", "W/\"a\"", 304},
        {"If-None-Match: \"b\", \"a\"\r\n", "\"a\"", 304},
        {"If-None-Match: \"b\" ,,\t\"a\" , \"c\"\r\n", "\"a\"", 304},
        {"If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n", "\"a\"", 304},
        {"If-None-Match: *\r\n", "\"a\"", 304},
        {"If-None-Match: \"x,y\", \"a,b\"\r\n", "\"a,b\"", 304},
        {"If-None-Match: \"\"\r\n", "\"\"", 304},
        {"If-None-Match: \"b\"\r\n", "\"a\"", 200},
        {"If-None-Match: \"A\"\r\n", "\"a\"", 200},
        {"If-None-Match: \"aa\"\r\n", "\"a\"", 200},
        {"If-None-Match:\r\n", "\"a\"", 200},
        /* no entity tags */
        {"If-None-Match: a\r\n", "\"a\"", 200},
        {"If-None-Match: 'a'\r\n", "\"a\"", 200},
        {"If-None-Match: w/\"a\"\r\n", "\"a\"", 200},
        {"If-None-Match: \"a\r\n", "\"a\"", 200},
        {"If-None-Match: \"a\"\"b\"\r\n", "\"a\"", 200},
        {"If-None-Match: \"a b\", \"a\"\r\n", "\"a\"", 200},
        {"If-None-Match: **\r\n", "\"a\"", 200},
    };
    (void)state;
    CHECK_VERDICTS(cases);
}

static void if_match_compares_strongly(void **state)
{
    static const struct verdict_case cases[] = {
        {"If-Match: \"a\"\r\n", "\"a\"", 200},
        {"If-Match: \"b\", \"a\"\r\n", "\"a\"", 200},
        {"If-Match: \"b\"\r\nIf-Match: \"a\"\r\n", "\"a\"", 200},
        {"If-Match: *\r\n", "W/\"a\"", 200},
        {"If-Match: W/\"a\"\r\n", "\"a\"", 412},
        {"If-Match: \"a\"\r\n", "W/\"a\"", 412},
        {"If-Match: W/\"a\"\r\n", "W/\"a\"", 412},
        {"If-Match: \"b\"\r\n", "\"a\"", 412},
        {"If-Match:\r\n", "\"a\"", 412},
        {"If-Match: a\r\n", "\"a\"", 412},
    };
    (void)state;
    CHECK_VERDICTS(cases);
}

static void dates_are_compared_by_the_second(void **state)
{
    static const struct verdict_case cases[] = {
        {"If-Modified-Since: " DATE "\r\n", "\"a\"", 304},
        {"If-Modified-Since: " LATER "\r\n", "\"a\"", 304},
        {"If-Modified-Since: " EARLIER "\r\n", "\"a\"", 200},
        {"If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n", "\"a\"", 304},
        {"If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n", "\"a\"", 304},
        {"If-Modified-Since: yesterday\r\n", "\"a\"", 200},
        {"If-Modified-Since: " LATER "\r\nIf-Modified-Since: " LATER "\r\n", "\"a\"", 200},
        {"If-Unmodified-Since: " DATE "\r\n", "\"a\"", 200},
        {"If-Unmodified-Since: " LATER "\r\n", "\"a\"", 200},
        {"If-Unmodified-Since: " EARLIER "\r\n", "\"a\"", 412},
        {"If-Unmodified-Since: yesterday\r\n", "\"a\"", 200},
    };
    (void)state;
    CHECK_VERDICTS(cases);
}

/* RFC 9110 13.2.2: tags go before dates, what must hold before what must not. */
static void preconditions_are_asked_in_their_order(void **state)
{
    static const struct verdict_case cases[] = {
        {"If-None-Match: \"b\"\r\nIf-Modified-Since: " LATER "\r\n", "\"a\"", 200},
        {"If-None-Match: \"a\"\r\nIf-Modified-Since: " EARLIER "\r\n", "\"a\"", 304},
        {"If-Match: \"a\"\r\nIf-Unmodified-Since: " EARLIER "\r\n", "\"a\"", 200},
        {"If-Match: \"b\"\r\nIf-Unmodified-Since: " LATER "\r\n", "\"a\"", 412},
        {"If-None-Match: \"a\"\r\nIf-Match: \"b\"\r\n", "\"a\"", 412},
        {"If-None-Match: \"a\"\r\nIf-Match: \"a\"\r\n", "\"a\"", 304},
        {"If-Modified-Since: " LATER "\r\nIf-Unmodified-Since: " EARLIER "\r\n", "\"a\"", 412},
        {"If-None-Match: \"a\"\r\nIf-Unmodified-Since: " EARLIER "\r\n", "\"a\"", 412},
    };
    (void)state;
    CHECK_VERDICTS(cases);
}

static bool range_holds(const char *fields, const char *etag, int64_t now)
{
    static struct request_head r;
    struct ioh__validators v = {etag, strlen(etag), TIME};
    struct ioh__conditions c;
    request_head(&r, fields);
    ioh__http_conditions(r.text, &r.head, &c);
    return ioh__http_range_holds(r.text, &r.head, &c, &v, now);
}

#define RANGE "Range: bytes=0-0\r\n"

static void if_range_wants_the_very_same_bytes(void **state)
{
    (void)state;
    assert_true(range_holds(RANGE, "\"a\"", NOW));
    assert_true(range_holds(RANGE "If-Range: \"a\"\r\n", "\"a\"", NOW));
    assert_true(range_holds("IF-RANGE: \"a\"\r\nRANGE: bytes=0-0\r\n", "\"a\"", NOW));
    assert_true(range_holds(RANGE "If-Range: " DATE "\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: \"b\"\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: \"a\", \"b\"\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: W/\"a\"\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: \"a\"\r\n", "W/\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: W/\"a\"\r\n", "W/\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: *\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range:\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: " EARLIER "\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: " LATER "\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE "If-Range: \"a\"\r\nIf-Range: \"a\"\r\n", "\"a\"", NOW));
    assert_false(range_holds("If-Range: \"a\"\r\n", "\"a\"", NOW));
    assert_false(range_holds(RANGE RANGE, "\"a\"", NOW));
}

static void a_date_of_this_very_second_is_no_strong_validator(void **state)
{
    (void)state;
    assert_false(range_holds(RANGE "If-Range: " DATE "\r\n", "\"a\"", TIME));
    assert_false(range_holds(RANGE "If-Range: " DATE "\r\n", "\"a\"", TIME + 1));
    assert_true(range_holds(RANGE "If-Range: " DATE "\r\n", "\"a\"", TIME + 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(if_none_match_compares_weakly),
        cmocka_unit_test(if_match_compares_strongly),
        cmocka_unit_test(dates_are_compared_by_the_second),
        cmocka_unit_test(preconditions_are_asked_in_their_order),
        cmocka_unit_test(if_range_wants_the_very_same_bytes),
        cmocka_unit_test(a_date_of_this_very_second_is_no_strong_validator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Byte ranges: what a Range field asks for, and what is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http_range.h"

/* Ranges as text: "0-4 9-9"; "ignored", "none". */
static void assert_ranges(const char *field, uint64_t size, const char *wanted)
{
    struct ioh__range out[IOH__RANGES_MAX];
    char text[IOH__RANGES_MAX * 50] = "", *at = text;
    int n = ioh__http_ranges(field, strlen(field), size, out);
    if (n == 0)
        strcpy(text, "ignored");
    if (n < 0)
        strcpy(text, "none");
    for (int i = 0; i < n; i++) {
        assert_true(out[i].first < out[i].end && out[i].end <= size);
        at += sprintf(at, "%s%llu-%llu", i ? " " : "", (unsigned long long)out[i].first,
                      (unsigned long long)out[i].end - 1);
    }
    if (strcmp(text, wanted) != 0)
        fail_msg("%s of %llu: %s, not %s", field, (unsigned long long)size, text, wanted);
}

static void one_range_is_what_it_says(void **state)
{
    (void)state;
    assert_ranges("bytes=0-0", 1000, "0-0");
    assert_ranges("bytes=0-499", 1000, "0-499");
    assert_ranges("bytes=500-999", 1000, "500-999");
    assert_ranges("bytes=999-", 1000, "999-999");
    assert_ranges("bytes=0-", 1000, "0-999");
    assert_ranges("BYTES=9-10", 1000, "9-10");
    assert_ranges("bytes= 1-2 ", 1000, "1-2");
    assert_ranges("bytes=007-0008", 1000, "7-8");
}

static void a_range_ends_with_the_file(void **state)
{
    (void)state;
    assert_ranges("bytes=0-1000", 1000, "0-999");
    assert_ranges("bytes=998-18446744073709551615", 1000, "998-999");
    assert_ranges("bytes=998-99999999999999999999999999", 1000, "998-999");
}

static void a_suffix_is_the_end_of_the_file(void **state)
{
    (void)state;
    assert_ranges("bytes=-1", 1000, "999-999");
    assert_ranges("bytes=-500", 1058, "558-1057");
    assert_ranges("bytes=-1000", 1000, "0-999");
    assert_ranges("bytes=-9999", 1000, "0-999");
    assert_ranges("bytes=-18446744073709551616", 1000, "0-999");
    assert_ranges("bytes=-0", 1000, "none");
}

static void what_is_not_there_cannot_be_satisfied(void **state)
{
    (void)state;
    assert_ranges("bytes=1000-", 1000, "none");
    assert_ranges("bytes=1000-1001", 1000, "none");
    assert_ranges("bytes=18446744073709551615-", 1000, "none");
    assert_ranges("bytes=18446744073709551616-18446744073709551617", 1000, "none");
    assert_ranges("bytes=1000-,-0,2000-3000", 1000, "none");
    assert_ranges("bytes=1000-,5-5,-0", 1000, "5-5");
}

static void of_an_empty_file_there_are_no_ranges(void **state)
{
    (void)state;
    assert_ranges("bytes=0-", 0, "ignored");
    assert_ranges("bytes=-5", 0, "ignored");
    assert_ranges("bytes=0-0", 0, "ignored");
}

static void what_is_no_range_is_ignored_as_a_whole(void **state)
{
    static const char *const bad[] = {
        "",           "bytes",         "bytes=",      "bytes=-",       "bytes=,",
        "bytes=a-b",  "bytes=5",       "bytes=5-4",   "bytes=0-0,5-4", "bytes=0-0,x",
        "bytes=+1-2", "bytes=1 - 2",   "bytes=1-2-3", "bytes=--1",     "bytes=1--2",
        "bytes=0x1-", "bytes = 1-2",   "bytes:1-2",   "lines=1-2",     "bytess=1-2",
        "bytes=1-2;", "bytes=\"1-2\"", "bytes=-1-2",  "bytes=1-2 3",   "byte=1-2",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_ranges(bad[i], 1000, "ignored");
}

static void several_ranges_keep_their_order(void **state)
{
    (void)state;
    assert_ranges("bytes=0-0,-1", 1000, "0-0 999-999");
    assert_ranges("bytes=-1,0-0", 1000, "999-999 0-0");
    assert_ranges("bytes=, 5-6 ,\t,300-301,,150-151", 1000, "5-6 300-301 150-151");
}

static void near_and_overlapping_ranges_become_one(void **state)
{
    (void)state;
    assert_ranges("bytes=0-9,10-19", 1000, "0-19");
    assert_ranges("bytes=0-9,50-59", 1000, "0-59");
    assert_ranges("bytes=0-9,91-99", 1000, "0-9 91-99");
    assert_ranges("bytes=0-9,90-99", 1000, "0-99");
    assert_ranges("bytes=0-,0-,0-", 1000, "0-999");
    assert_ranges("bytes=400-500,700-800,300-900", 1000, "300-900");
    /* the last one joins the first two, and takes the place of the first */
    assert_ranges("bytes=0-9,500-509,200-209,100-110,15-99", 1000, "0-110 500-509 200-209");
}

static void more_than_a_few_ranges_get_the_whole(void **state)
{
    char field[4000] = "bytes=";
    size_t len = 6;
    (void)state;
    for (int i = 0; i < IOH__RANGES_MAX; i++)
        len += (size_t)sprintf(field + len, "%d-%d,", i * 1000, i * 1000 + 1);
    struct ioh__range out[IOH__RANGES_MAX];
    assert_int_equal(ioh__http_ranges(field, len, 1000000, out), IOH__RANGES_MAX);
    sprintf(field + len, "%d-%d", 900000, 900001);
    assert_ranges(field, 1000000, "ignored");
}

/* Together they never cover a byte twice, however they overlap. */
static void ranges_never_sum_up_to_more_than_the_file(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        char field[400] = "bytes=";
        size_t len = 6;
        uint64_t size = 1 + (uint64_t)rand() % 3000, sum = 0;
        for (int i = rand() % 12; i >= 0; i--) {
            int first = rand() % 3000;
            len += (size_t)sprintf(field + len, "%d-%d,", first, first + rand() % 400);
        }
        struct ioh__range out[IOH__RANGES_MAX];
        int n = ioh__http_ranges(field, len, size, out);
        for (int i = 0; i < n; i++) {
            assert_true(out[i].first < out[i].end && out[i].end <= size);
            for (int k = 0; k < i; k++)
                assert_true(out[k].end < out[i].first || out[i].end < out[k].first);
            sum += out[i].end - out[i].first;
        }
        assert_true(sum <= size);
    }
}

static void content_range_is_written_as_rfc_9110_14_4_says(void **state)
{
    char text[IOH__CONTENT_RANGE_MAX + 1];
    struct ioh__range range = {558, 1058};
    (void)state;
    *ioh__write_content_range(text, &range, 1058) = 0;
    assert_string_equal(text, "bytes 558-1057/1058");
    *ioh__write_content_range(text, NULL, 47022) = 0;
    assert_string_equal(text, "bytes */47022");
    range = (struct ioh__range){UINT64_MAX - 1, UINT64_MAX};
    *ioh__write_content_range(text, &range, UINT64_MAX) = 0;
    assert_string_equal(text, "bytes 18446744073709551614-18446744073709551614/"
                              "18446744073709551615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_range_is_what_it_says),
        cmocka_unit_test(a_range_ends_with_the_file),
        cmocka_unit_test(a_suffix_is_the_end_of_the_file),
        cmocka_unit_test(what_is_not_there_cannot_be_satisfied),
        cmocka_unit_test(of_an_empty_file_there_are_no_ranges),
        cmocka_unit_test(what_is_no_range_is_ignored_as_a_whole),
        cmocka_unit_test(several_ranges_keep_their_order),
        cmocka_unit_test(near_and_overlapping_ranges_become_one),
        cmocka_unit_test(more_than_a_few_ranges_get_the_whole),
        cmocka_unit_test(ranges_never_sum_up_to_more_than_the_file),
        cmocka_unit_test(content_range_is_written_as_rfc_9110_14_4_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

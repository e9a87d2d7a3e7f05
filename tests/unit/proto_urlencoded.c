/* Pairs and percent-encoding (include/iohandler/form.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/error.h>
#include <iohandler/form.h>

/* The text in memory of exactly its size, so that a sanitizer sees a read beyond it. */
static struct ioh_str exact(const char *text)
{
    static char *last;
    size_t len = strlen(text);
    free(last);
    last = malloc(len ? len : 1);
    assert_non_null(last);
    memcpy(last, text, len);
    return (struct ioh_str){last, len};
}

static void expect_decoded(const char *text, int plus, const char *want)
{
    char out[64];
    memset(out, 'x', sizeof out);
    assert_int_equal(ioh_url_decode(out, sizeof out, exact(text), plus), strlen(want));
    assert_string_equal(out, want);
}

static void percent_and_plus_are_decoded(void **state)
{
    (void)state;
    expect_decoded("", 1, "");
    expect_decoded("plain", 1, "plain");
    expect_decoded("a+b%20c", 1, "a b c");
    expect_decoded("a+b%20c", 0, "a+b c");
    expect_decoded("%2B%25%7e%7E%3D%26", 1, "+%~~=&");
    expect_decoded("%c3%A4", 1, "\xc3\xa4");
    expect_decoded("%ff%80", 1, "\xff\x80");
    expect_decoded("%2541", 1, "%41"); /* once, not twice */
}

static void every_byte_comes_back_from_its_two_digits(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        for (int upper = 0; upper < 2; upper++) {
            char text[4], out[4];
            snprintf(text, sizeof text, upper ? "%%%02X" : "%%%02x", (unsigned)c);
            assert_int_equal(ioh_url_decode(out, sizeof out, exact(text), 1), 1);
            assert_int_equal((unsigned char)out[0], c);
        }
    }
}

static void a_percent_without_two_digits_is_an_error(void **state)
{
    static const char *const broken[] = {"%",   "a%",  "%4",  "100%", "%g0",    "%0g", "%%20",
                                         "%-1", "% 1", "%+1", "%0x",  "%u0041", "a%2", "%\xc3\xa4"};
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(ioh_url_decode(out, sizeof out, exact(broken[i]), 1), IOH_EINVAL);
}

static void room_is_needed_for_the_bytes_and_a_nul(void **state)
{
    char out[8];
    (void)state;
    assert_int_equal(ioh_url_decode(out, 0, exact(""), 1), IOH_ETOOBIG);
    assert_int_equal(ioh_url_decode(out, 1, exact(""), 1), 0);
    assert_int_equal(ioh_url_decode(out, 3, exact("abc"), 1), IOH_ETOOBIG);
    assert_int_equal(ioh_url_decode(out, 4, exact("abc"), 1), 3);
    assert_int_equal(ioh_url_decode(out, 4, exact("%61%62%63"), 1), 3);
    assert_int_equal(ioh_url_decode(out, 0, exact("a"), 1), IOH_ETOOBIG);
}

static void decoding_may_happen_in_place(void **state)
{
    char text[] = "a%20b+c%41";
    (void)state;
    assert_int_equal(ioh_url_decode(text, sizeof text, (struct ioh_str){text, strlen(text)}, 1), 6);
    assert_string_equal(text, "a b cA");
}

static void expect_pairs(const char *text, const char *want)
{
    struct ioh_pairs it;
    struct ioh_str name, value;
    char got[256];
    size_t len = 0;
    ioh_pairs_init(&it, exact(text));
    while (ioh_pairs_next(&it, &name, &value)) {
        assert_non_null(name.ptr);
        len += (size_t)snprintf(got + len, sizeof got - len, "[%.*s|%.*s]", (int)name.len, name.ptr,
                                value.ptr ? (int)value.len : 1, value.ptr ? value.ptr : "-");
    }
    got[len] = '\0';
    assert_string_equal(got, want);
    assert_int_equal(ioh_pairs_next(&it, &name, &value), 0);
}

static void pairs_are_parted_at_ampersands_and_the_first_equals(void **state)
{
    (void)state;
    expect_pairs("", "");
    expect_pairs("a=1", "[a|1]");
    expect_pairs("a=1&b=2&a=3", "[a|1][b|2][a|3]");
    expect_pairs("a", "[a|-]");
    expect_pairs("a=", "[a|]");
    expect_pairs("=b", "[|b]");
    expect_pairs("=", "[|]");
    expect_pairs("&&a=1&&&b&", "[a|1][b|-]");
    expect_pairs("a=b=c", "[a|b=c]");
    expect_pairs("a=1;b=2", "[a|1;b=2]"); /* WHATWG URL 5.1: only '&' */
    expect_pairs("a%26b=%3D+1", "[a%26b|%3D+1]");
}

static void an_absent_text_has_no_pairs(void **state)
{
    struct ioh_pairs it;
    struct ioh_str name, value, absent = {NULL, 0};
    char out[4];
    (void)state;
    ioh_pairs_init(&it, absent);
    assert_int_equal(ioh_pairs_next(&it, &name, &value), 0);
    assert_int_equal(ioh_pair_get(absent, "a", 0, out, sizeof out), IOH_ENOENT);
    assert_int_equal(ioh_url_decode(out, sizeof out, absent, 1), 0);
}

static void expect_found(const char *text, const char *name, size_t nth, const char *want)
{
    char out[64];
    assert_int_equal(ioh_pair_get(exact(text), name, nth, out, sizeof out), strlen(want));
    assert_string_equal(out, want);
}

static void a_value_is_found_by_its_decoded_name(void **state)
{
    char out[64];
    (void)state;
    expect_found("a=1&b=two+words&a=3", "b", 0, "two words");
    expect_found("a=1&b=2&a=3", "a", 0, "1");
    expect_found("a=1&b=2&a=3", "a", 1, "3");
    assert_int_equal(ioh_pair_get(exact("a=1&b=2&a=3"), "a", 2, out, sizeof out), IOH_ENOENT);
    expect_found("x%5B%5d=1", "x[]", 0, "1");
    expect_found("first+name=J%C3%B6rg", "first name", 0, "J\xc3\xb6rg");
    expect_found("flag&b=1", "flag", 0, "");
    expect_found("=nameless", "", 0, "nameless");
    assert_int_equal(ioh_pair_get(exact("ab=1"), "a", 0, out, sizeof out), IOH_ENOENT);
    assert_int_equal(ioh_pair_get(exact("a=1"), "ab", 0, out, sizeof out), IOH_ENOENT);
    assert_int_equal(ioh_pair_get(exact("A=1"), "a", 0, out, sizeof out), IOH_ENOENT);
}

static void a_value_that_cannot_be_given_as_a_string_is_an_error(void **state)
{
    char out[8];
    (void)state;
    assert_int_equal(ioh_pair_get(exact("a=%00"), "a", 0, out, sizeof out), IOH_EINVAL);
    assert_int_equal(ioh_pair_get(exact("a=x%00y"), "a", 0, out, sizeof out), IOH_EINVAL);
    assert_int_equal(ioh_pair_get(exact("a=%zz"), "a", 0, out, sizeof out), IOH_EINVAL);
    assert_int_equal(ioh_pair_get(exact("a=12345678"), "a", 0, out, sizeof out), IOH_ETOOBIG);
    assert_int_equal(ioh_pair_get(exact("a%00b=1"), "a", 0, out, sizeof out), IOH_ENOENT);
    assert_int_equal(ioh_pair_get(exact("%zz=1&a=2"), "a", 0, out, sizeof out), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percent_and_plus_are_decoded),
        cmocka_unit_test(every_byte_comes_back_from_its_two_digits),
        cmocka_unit_test(a_percent_without_two_digits_is_an_error),
        cmocka_unit_test(room_is_needed_for_the_bytes_and_a_nul),
        cmocka_unit_test(decoding_may_happen_in_place),
        cmocka_unit_test(pairs_are_parted_at_ampersands_and_the_first_equals),
        cmocka_unit_test(an_absent_text_has_no_pairs),
        cmocka_unit_test(a_value_is_found_by_its_decoded_name),
        cmocka_unit_test(a_value_that_cannot_be_given_as_a_string_is_an_error),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)exact("");
    return failed;
}

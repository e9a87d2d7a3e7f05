/* Heads of answers: status lines, fields, numbers. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/error.h>
#include <iohandler/req.h>

#include "proto/http1_head.h"

static void assert_line(int status, const char *line)
{
    char out[IOH__STATUS_LINE_MAX];
    size_t len = ioh__http1_status_line(status, out);
    assert_int_equal(len, strlen(line));
    assert_memory_equal(out, line, len);
}

static void a_known_status_has_its_reason(void **state)
{
    (void)state;
    assert_line(200, "HTTP/1.1 200 OK\r\n");
    assert_line(101, "HTTP/1.1 101 Switching Protocols\r\n");
    assert_line(404, "HTTP/1.1 404 Not Found\r\n");
    assert_line(431, "HTTP/1.1 431 Request Header Fields Too Large\r\n");
    assert_line(511, "HTTP/1.1 511 Network Authentication Required\r\n");
}

static void the_space_stays_when_there_is_no_reason(void **state)
{
    (void)state;
    assert_line(299, "HTTP/1.1 299 \r\n");
    assert_line(418, "HTTP/1.1 418 \r\n");
    assert_line(599, "HTTP/1.1 599 \r\n");
}

static void line_and_reason_agree_for_every_status(void **state)
{
    (void)state;
    for (int status = 100; status < 600; status++) {
        char line[2 * IOH__STATUS_LINE_MAX];
        int len = snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, ioh_reason(status));
        assert_true(len <= (int)IOH__STATUS_LINE_MAX);
        assert_line(status, line);
    }
}

/* IANA's registry, counted per hundred; 306 and 418 are "(Unused)". */
static void every_registered_status_has_a_reason(void **state)
{
    static const struct {
        int first, last;
    } known[] = {{100, 104}, {200, 208}, {226, 226}, {300, 305}, {307, 308}, {400, 417},
                 {421, 426}, {428, 429}, {431, 431}, {451, 451}, {500, 508}, {510, 511}};
    (void)state;
    for (int status = -1; status < 1100; status++) {
        bool is = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is = is || (status >= known[i].first && status <= known[i].last);
        assert_int_equal(ioh_reason(status)[0] != '\0', is);
    }
    assert_string_equal(ioh_reason(413), "Content Too Large");
    assert_string_equal(ioh_reason(422), "Unprocessable Content");
    assert_string_equal(ioh_reason(505), "HTTP Version Not Supported");
}

/* ---- fields */

static int check(const char *name, const char *value)
{
    struct ioh_header header = {name, value};
    size_t bytes = 0;
    return ioh__http1_check_fields(&header, 1, &bytes);
}

static void fields_are_written_with_the_length_that_was_told(void **state)
{
    static const struct ioh_header headers[] = {
        {"Content-Type", "text/plain"}, {"X-Empty", ""}, {"Set-Cookie", "a=b; c\t\xc3\xa4"}};
    static const char text[] =
        "Content-Type: text/plain\r\nX-Empty: \r\nSet-Cookie: a=b; c\t\xc3\xa4\r\n";
    char out[sizeof text];
    size_t bytes = 0;
    (void)state;
    assert_int_equal(ioh__http1_check_fields(headers, 3, &bytes), 0);
    assert_int_equal(bytes, sizeof text - 1);
    assert_ptr_equal(ioh__http1_write_fields(out, headers, 3), out + bytes);
    assert_memory_equal(out, text, bytes);
}

static void no_fields_are_no_bytes(void **state)
{
    size_t bytes = 1;
    char out[1];
    (void)state;
    assert_int_equal(ioh__http1_check_fields(NULL, 0, &bytes), 0);
    assert_int_equal(bytes, 0);
    assert_ptr_equal(ioh__http1_write_fields(out, NULL, 0), out);
}

static void missing_strings_are_invalid(void **state)
{
    size_t bytes;
    (void)state;
    assert_int_equal(ioh__http1_check_fields(NULL, 1, &bytes), IOH_EINVAL);
    assert_int_equal(check(NULL, "a"), IOH_EINVAL);
    assert_int_equal(check("a", NULL), IOH_EINVAL);
}

static void a_name_that_is_no_token_is_refused(void **state)
{
    static const char *const names[] = {"", "a b", "a:", "a\r\nb", "\xc3\xa4", "a\x7f", "(a)"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(check(names[i], "b"), IOH_EHEADER);
}

static void a_value_that_would_split_the_head_is_refused(void **state)
{
    static const char *const values[] = {"a\r\nB: c", "a\n", "\r", "a\x01", "\x7f", "0123456789\n"};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        assert_int_equal(check("a", values[i]), IOH_EHEADER);
}

static void a_bad_field_behind_good_ones_is_refused(void **state)
{
    static const struct ioh_header headers[] = {{"A", "b"}, {"C", "d"}, {"E", "\n"}};
    size_t bytes;
    (void)state;
    assert_int_equal(ioh__http1_check_fields(headers, 2, &bytes), 0);
    assert_int_equal(ioh__http1_check_fields(headers, 3, &bytes), IOH_EHEADER);
}

static void the_fields_of_the_library_are_refused_in_any_case(void **state)
{
    static const char *const own[] = {
        "Content-Length", "Transfer-Encoding", "Connection", "Date", "Keep-Alive", "Upgrade",
        "cONTENT-lENGTH", "TRANSFER-ENCODING", "connection", "dAtE", "keep-alive", "UPGRADE"};
    static const char *const others[] = {"Content-Length2", "Content-Type", "Dat",
                                         "Date-X",          "Upgrades",     "Server",
                                         "Keep-Alives",     "Trailer"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        assert_int_equal(check(own[i], "1"), IOH_EHEADER);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(check(others[i], "1"), 0);
}

/* ---- numbers */

static void assert_numbers(uint64_t value)
{
    char expected[32], out[32];
    int len = snprintf(expected, sizeof expected, "%" PRIu64, value);
    assert_ptr_equal(ioh__write_decimal(out, value), out + len);
    assert_memory_equal(out, expected, (size_t)len);
    len = snprintf(expected, sizeof expected, "%" PRIx64, value);
    assert_ptr_equal(ioh__write_hex(out, value), out + len);
    assert_memory_equal(out, expected, (size_t)len);
}

static void numbers_are_written_as_printf_does(void **state)
{
    (void)state;
    for (uint64_t value = 0; value < 2000; value++)
        assert_numbers(value);
    for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10) {
        assert_numbers(power - 1);
        assert_numbers(power);
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_numbers((UINT64_C(1) << bit) - 1);
        assert_numbers(UINT64_C(1) << bit);
    }
    assert_numbers(UINT64_MAX);
}

static void statuses_without_body_are_known(void **state)
{
    (void)state;
    for (int status = 100; status < 600; status++)
        assert_int_equal(ioh__status_bodyless(status),
                         status < 200 || status == 204 || status == 304);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_status_has_its_reason),
        cmocka_unit_test(the_space_stays_when_there_is_no_reason),
        cmocka_unit_test(line_and_reason_agree_for_every_status),
        cmocka_unit_test(every_registered_status_has_a_reason),
        cmocka_unit_test(fields_are_written_with_the_length_that_was_told),
        cmocka_unit_test(no_fields_are_no_bytes),
        cmocka_unit_test(missing_strings_are_invalid),
        cmocka_unit_test(a_name_that_is_no_token_is_refused),
        cmocka_unit_test(a_value_that_would_split_the_head_is_refused),
        cmocka_unit_test(a_bad_field_behind_good_ones_is_refused),
        cmocka_unit_test(the_fields_of_the_library_are_refused_in_any_case),
        cmocka_unit_test(numbers_are_written_as_printf_does),
        cmocka_unit_test(statuses_without_body_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

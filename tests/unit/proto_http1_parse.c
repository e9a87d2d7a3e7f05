/* Request heads: what is taken, what is refused and where, and that it never matters how the bytes
 * were cut: each case is parsed whole, cut in two at every byte, and byte by byte. Every piece lies
 * in a block of its own size, so that the address sanitizer sees a read behind its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http1_parse.h"
#include "proto_http1_heads.h"

#define FIELDS 8
static const struct ioh__http1_limits usual = {
    .max_head = 1024, .max_uri = 64, .max_headers = FIELDS};

/* ---- one parse */

struct outcome {
    enum ioh__http1_result result;
    struct ioh__http1_head head;
    struct ioh__http1_field fields[FIELDS];
    struct ioh__http1_fault fault;
    char told[2048]; /* of a head that is DONE: see tell() */
};

/* The head as text: METHOD PATH[?QUERY] VERSION and what was found, then the fields in braces. */
static void tell(const char *data, const struct ioh__http1_head *h, char *out, size_t room)
{
    int n = snprintf(out, room, "%.*s %.*s", h->method_len, data + h->method, h->path_len,
                     data + h->path);
    char *end = out + n, *stop = out + room;
    if (h->query)
        end += snprintf(end, (size_t)(stop - end), "?%.*s", h->query_len, data + h->query);
    end += snprintf(end, (size_t)(stop - end), " 1.%d%s%s%s", h->minor,
                    h->form == IOH__FORM_ABSOLUTE ? " absolute" : "",
                    h->form == IOH__FORM_ASTERISK ? " asterisk" : "", h->is_head ? " head" : "");
    end += snprintf(end, (size_t)(stop - end), "%s%s%s%s", h->keep_alive ? " keep" : " close",
                    h->chunked ? " chunked" : "", h->expect_continue ? " expect" : "",
                    h->upgrade_websocket ? " websocket" : "");
    if (h->has_length)
        end += snprintf(end, (size_t)(stop - end), " length=%llu",
                        (unsigned long long)h->content_length);
    end += snprintf(end, (size_t)(stop - end), " {");
    for (size_t i = 0; i < h->count; i++)
        end +=
            snprintf(end, (size_t)(stop - end), "%s%.*s=%.*s", i ? "; " : "", h->fields[i].name_len,
                     data + h->fields[i].name, h->fields[i].value_len, data + h->fields[i].value);
    snprintf(end, (size_t)(stop - end), "}");
}

static void parse(const char *bytes, size_t len, const struct ioh__http1_limits *limits,
                  size_t *scanned, struct outcome *o)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    memset(o, 0x5a, sizeof *o);
    o->head.fields = o->fields;
    o->result = ioh__http1_parse(copy, len, len, scanned, limits, &o->head, &o->fault);
    if (o->result == IOH__HTTP1_DONE)
        tell(copy, &o->head, o->told, sizeof o->told);
    free(copy);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->result, b->result);
    if (a->result == IOH__HTTP1_DONE) {
        assert_int_equal(a->head.len, b->head.len);
        assert_string_equal(a->told, b->told);
    } else if (a->result == IOH__HTTP1_FAULT) {
        assert_int_equal(a->fault.status, b->fault.status);
        assert_int_equal(a->fault.offset, b->fault.offset);
        assert_string_equal(a->fault.reason, b->fault.reason);
    }
}

/* Parses whole, and checks that all ways to cut it say the same. Answers how many bytes it took until
 * the outcome was known. */
static size_t parse_all_ways(const char *bytes, size_t len, const struct ioh__http1_limits *limits,
                             struct outcome *whole)
{
    struct outcome part;
    size_t scanned = 0, known_at = len;
    parse(bytes, len, limits, &scanned, whole);

    for (size_t cut = 1; cut < len; cut++) {
        scanned = 0;
        parse(bytes, cut, limits, &scanned, &part);
        if (part.result == IOH__HTTP1_MORE) {
            assert_int_equal(scanned, cut);
            parse(bytes, len, limits, &scanned, &part);
        }
        assert_same(whole, &part);
    }
    scanned = 0;
    for (size_t n = 1; n <= len; n++) {
        parse(bytes, n, limits, &scanned, &part);
        if (part.result != IOH__HTTP1_MORE) {
            known_at = n;
            break;
        }
    }
    assert_same(whole, &part);
    return known_at;
}

static void taken(const char *bytes, size_t len, const char *told)
{
    struct outcome o;
    assert_int_equal(parse_all_ways(bytes, len, &usual, &o), len);
    assert_int_equal(o.result, IOH__HTTP1_DONE);
    assert_string_equal(o.told, told);
    assert_int_equal(o.head.len, len);

    /* What follows the head is not its business. */
    char more[2048];
    memcpy(more, bytes, len);
    memcpy(more + len, "\n\r: \x01", 5);
    size_t scanned = 0;
    struct outcome again;
    parse(more, len + 5, &usual, &scanned, &again);
    assert_same(&o, &again);
}

static void refused(int status, const char *before, size_t before_len, const char *rest,
                    size_t rest_len, const char *reason)
{
    char bytes[2048];
    struct outcome o;
    assert_true(before_len + rest_len <= sizeof bytes);
    memcpy(bytes, before, before_len);
    memcpy(bytes + before_len, rest, rest_len);
    parse_all_ways(bytes, before_len + rest_len, &usual, &o);
    assert_int_equal(o.result, IOH__HTTP1_FAULT);
    assert_int_equal(o.fault.status, status);
    assert_string_equal(o.fault.reason, reason);
    assert_int_equal(o.fault.offset, before_len);
}

/* ---- the tables of proto_http1_heads.h */

#define TAKEN_TEST(name, bytes, told)          \
    static void name(void **state)             \
    {                                          \
        (void)state;                           \
        taken(bytes, sizeof(bytes) - 1, told); \
    }
TAKEN(TAKEN_TEST)

#define REFUSED_TEST(name, status, before, rest, reason)                             \
    static void name(void **state)                                                   \
    {                                                                                \
        (void)state;                                                                 \
        refused(status, before, sizeof(before) - 1, rest, sizeof(rest) - 1, reason); \
    }
REFUSED_LINE(REFUSED_TEST)
REFUSED_FIELD(REFUSED_TEST)
REFUSED_FRAMING(REFUSED_TEST)

/* ---- limits */

static char *fill(char *at, char c, size_t n)
{
    memset(at, c, n);
    return at + n;
}

static char *put(char *at, const char *text)
{
    memcpy(at, text, strlen(text));
    return at + strlen(text);
}

static void assert_fault(const struct outcome *o, int status, size_t offset, const char *reason)
{
    assert_int_equal(o->result, IOH__HTTP1_FAULT);
    assert_int_equal(o->fault.status, status);
    assert_int_equal(o->fault.offset, offset);
    assert_string_equal(o->fault.reason, reason);
}

static void a_method_of_32_bytes_is_taken(void **state)
{
    char b[128];
    struct outcome o;
    (void)state;
    size_t len = (size_t)(put(fill(b, 'M', 32), " / HTTP/1.1\r\nHost: a\r\n\r\n") - b);
    parse_all_ways(b, len, &usual, &o);
    assert_int_equal(o.result, IOH__HTTP1_DONE);
    assert_int_equal(o.head.method_len, 32);
}

static void a_longer_method_is_refused_at_its_33rd_byte(void **state)
{
    char b[128];
    struct outcome o;
    (void)state;
    size_t len = (size_t)(put(fill(put(b, "\r\n"), 'M', 33), " / HTTP/1.1\r\nHost: a\r\n\r\n") - b);
    assert_int_equal(parse_all_ways(b, len, &usual, &o), 2 + 33);
    assert_fault(&o, 400, 2 + 32, "the method is too long");
}

static void binary_junk_is_refused_without_waiting_for_a_line(void **state)
{
    char b[128];
    struct outcome o;
    (void)state;
    assert_int_equal(parse_all_ways(b, (size_t)(fill(b, '\x16', 100) - b), &usual, &o), 33);
    assert_fault(&o, 400, 32, "the method is too long");
}

static void a_target_of_the_limit_is_taken(void **state)
{
    char b[256];
    struct outcome o;
    (void)state;
    size_t len = (size_t)(put(fill(put(b, "GET /"), 'x', 63), " HTTP/1.1\r\nHost: a\r\n\r\n") - b);
    parse_all_ways(b, len, &usual, &o);
    assert_int_equal(o.result, IOH__HTTP1_DONE);
    assert_int_equal(o.head.target_len, 64);
}

static void a_longer_target_is_refused_as_soon_as_it_is_seen(void **state)
{
    char b[256];
    struct outcome o;
    (void)state;
    char *end = fill(put(b, "GET /"), 'x', 64);
    size_t len = (size_t)(put(end, " HTTP/1.1\r\nHost: a\r\n\r\n") - b);
    assert_int_equal(parse_all_ways(b, len, &usual, &o), 4 + 65);
    assert_fault(&o, 414, 4 + 64, "the target is too long");
    /* And so it is with bytes that no target has, and without an end. */
    b[6] = '\\';
    assert_int_equal(parse_all_ways(b, len, &usual, &o), 4 + 65);
    assert_fault(&o, 414, 4 + 64, "the target is too long");
    parse_all_ways(b, (size_t)(fill(end, 'x', 100) - b), &usual, &o);
    assert_fault(&o, 414, 4 + 64, "the target is too long");
}

static void a_small_limit_for_targets_goes_before_a_fault_of_the_line(void **state)
{
    static const char b[] =
        "G\x01T /ab HTTP/1.1\r\nHost: a\r\nX: a line to have more bytes\r\n\r\n";
    struct ioh__http1_limits limits = usual;
    struct outcome o;
    (void)state;
    limits.max_uri = 3;
    parse_all_ways(b, sizeof b - 1, &limits, &o);
    assert_fault(&o, 400, 1, "the method is not a token");
    limits.max_uri = 2;
    assert_int_equal(parse_all_ways(b, sizeof b - 1, &limits, &o), 7);
    assert_fault(&o, 414, 6, "the target is too long");
}

static void a_head_of_the_limit_is_taken_and_a_larger_one_is_not(void **state)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: a\r\nX: 12345678\r\n\r\n";
    struct ioh__http1_limits limits = usual;
    struct outcome o;
    (void)state;
    limits.max_head = sizeof head - 1;
    parse_all_ways(head, sizeof head - 1, &limits, &o);
    assert_int_equal(o.result, IOH__HTTP1_DONE);
    for (limits.max_head--; limits.max_head > 4; limits.max_head--) {
        assert_int_equal(parse_all_ways(head, sizeof head - 1, &limits, &o), limits.max_head);
        assert_fault(&o, 431, limits.max_head, "the head is too large");
    }
}

static void a_head_without_end_is_refused_when_it_has_reached_the_limit(void **state)
{
    char b[2048];
    struct outcome o;
    (void)state;
    size_t len = (size_t)(fill(put(b, "GET / HTTP/1.1\r\nX: "), 'x', 2000) - b);
    assert_int_equal(parse_all_ways(b, len, &usual, &o), usual.max_head);
    assert_fault(&o, 431, usual.max_head, "the head is too large");
}

static void a_bad_line_within_the_limit_goes_before_the_limit(void **state)
{
    char b[2048];
    struct outcome o;
    (void)state;
    size_t len = (size_t)(fill(put(b, "GET / HTTP/1.1\r\nX y\r\n"), 'x', 2000) - b);
    parse_all_ways(b, len, &usual, &o);
    assert_fault(&o, 400, 17, "white space in or behind a field name");
}

static void a_head_larger_than_offsets_reach_is_refused_whatever_the_limit(void **state)
{
    struct ioh__http1_limits limits = {
        .max_head = UINT32_MAX, .max_uri = UINT32_MAX, .max_headers = FIELDS};
    size_t scanned = 0, len = 70000;
    struct outcome o;
    char *b = malloc(len);
    (void)state;
    assert_non_null(b);
    put(fill(put(b, "GET / HTTP/1.1\r\nHost: a\r\nX: "), 'x', len - 50), "\r\n\r\n");
    parse(b, len, &limits, &scanned, &o);
    assert_fault(&o, 431, 65535, "the head is too large");
    free(b);
}

static void fields_up_to_the_limit_are_taken_and_one_more_is_not(void **state)
{
    char b[512], *end = put(b, "GET / HTTP/1.1\r\nHost: a\r\n");
    struct outcome o;
    (void)state;
    for (int i = 1; i < FIELDS; i++)
        end = put(end, "X: y\r\n");
    put(end, "\r\n");
    parse_all_ways(b, (size_t)(end - b) + 2, &usual, &o);
    assert_int_equal(o.result, IOH__HTTP1_DONE);
    assert_int_equal(o.head.count, FIELDS);
    size_t len = (size_t)(put(end, "X: y\r\n\r\n") - b);
    assert_int_equal(parse_all_ways(b, len, &usual, &o), len - 2);
    assert_fault(&o, 431, (size_t)(end - b), "too many fields");
}

/* ---- the rest of the face */

static void nothing_is_parsed_again_until_a_line_has_ended(void **state)
{
    /* Seen from outside: what lies before *scanned is not looked at when no line ends behind it. */
    size_t scanned = 10;
    struct outcome o;
    (void)state;
    parse("bad\r\n\r\n   GET", 13, &usual, &scanned, &o);
    assert_int_equal(o.result, IOH__HTTP1_MORE);
    assert_int_equal(scanned, 13);
    parse("bad\r\n\r\n   GET", 13, &usual, &scanned, &o);
    assert_int_equal(o.result, IOH__HTTP1_MORE);
    parse("bad\r\n\r\n   GET\n", 14, &usual, &scanned, &o);
    assert_int_equal(o.result, IOH__HTTP1_FAULT);
}

static void no_bytes_are_no_fault(void **state)
{
    size_t scanned = 0;
    struct outcome o;
    (void)state;
    o.head.fields = o.fields;
    assert_int_equal(ioh__http1_parse(NULL, 0, 0, &scanned, &usual, &o.head, &o.fault),
                     IOH__HTTP1_MORE);
    parse("", 0, &usual, &scanned, &o);
    assert_int_equal(o.result, IOH__HTTP1_MORE);
    parse("\r\n\r\n\r\n\r\n", 8, &usual, &scanned, &o);
    assert_int_equal(o.result, IOH__HTTP1_MORE);
}

static void fields_are_found_by_name_in_any_case_and_from_an_index(void **state)
{
    static const char b[] = "GET / HTTP/1.1\r\nHost: a\r\nCookie: 1\r\nX: 2\r\ncOOKIE: 3\r\n\r\n";
    struct ioh__http1_field fields[FIELDS];
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault;
    size_t scanned = 0;
    (void)state;
    assert_int_equal(
        ioh__http1_parse(b, sizeof b - 1, sizeof b - 1, &scanned, &usual, &head, &fault),
        IOH__HTTP1_DONE);
    assert_int_equal(ioh__http1_find(b, &head, "Cookie", 6, 0), 1);
    assert_int_equal(ioh__http1_find(b, &head, "COOKIE", 6, 2), 3);
    assert_int_equal(ioh__http1_find(b, &head, "cookie", 6, 4), -1);
    assert_int_equal(ioh__http1_find(b, &head, "cooki", 5, 0), -1);
    assert_int_equal(ioh__http1_find(b, &head, "x", 1, 0), 2);
}

#define TAKEN_ENTRY(name, bytes, told) cmocka_unit_test(name),
#define REFUSED_ENTRY(name, status, before, rest, reason) cmocka_unit_test(name),

int main(void)
{
    const struct CMUnitTest tests[] = {
        TAKEN(TAKEN_ENTRY) REFUSED_LINE(REFUSED_ENTRY) REFUSED_FIELD(REFUSED_ENTRY)
            REFUSED_FRAMING(REFUSED_ENTRY) cmocka_unit_test(a_method_of_32_bytes_is_taken),
        cmocka_unit_test(a_longer_method_is_refused_at_its_33rd_byte),
        cmocka_unit_test(binary_junk_is_refused_without_waiting_for_a_line),
        cmocka_unit_test(a_target_of_the_limit_is_taken),
        cmocka_unit_test(a_longer_target_is_refused_as_soon_as_it_is_seen),
        cmocka_unit_test(a_small_limit_for_targets_goes_before_a_fault_of_the_line),
        cmocka_unit_test(a_head_of_the_limit_is_taken_and_a_larger_one_is_not),
        cmocka_unit_test(a_head_without_end_is_refused_when_it_has_reached_the_limit),
        cmocka_unit_test(a_bad_line_within_the_limit_goes_before_the_limit),
        cmocka_unit_test(a_head_larger_than_offsets_reach_is_refused_whatever_the_limit),
        cmocka_unit_test(fields_up_to_the_limit_are_taken_and_one_more_is_not),
        cmocka_unit_test(nothing_is_parsed_again_until_a_line_has_ended),
        cmocka_unit_test(no_bytes_are_no_fault),
        cmocka_unit_test(fields_are_found_by_name_in_any_case_and_from_an_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

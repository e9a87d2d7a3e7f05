/* The PROXY header, versions 1 and 2: what is taken, what is refused, and how soon. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "proto/proxy_header.h"

static struct ioh__proxy_header got;
static const char *why;

/* In a block of their own, so that a read beyond them is seen. */
static enum ioh__proxy_result parse(const void *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    why = NULL;
    enum ioh__proxy_result result = ioh__proxy_parse(copy, len, &got, &why);
    free(copy);
    assert_int_equal(result == IOH__PROXY_FAULT, why != NULL);
    return result;
}

static void expect_address(int family, const char *address, uint16_t port)
{
    uint8_t want[16] = {0};
    assert_int_equal(got.family, family);
    assert_int_equal(got.port, port);
    if (address)
        assert_int_equal(inet_pton(family, address, want), 1);
    assert_memory_equal(got.address, want, sizeof want);
}

/* A whole header: taken with anything or nothing behind it, and not before its last byte. */
static void expect_done(const void *bytes, size_t len, int family, const char *address,
                        uint16_t port)
{
    static uint8_t more[IOH__PROXY_MAX + 100];
    for (size_t n = 0; n < len; n++)
        assert_int_equal(parse(bytes, n), IOH__PROXY_MORE);
    memcpy(more, bytes, len);
    memcpy(more + len, "PROXY TCP4 GET / HTTP/1.1\r\n\r\n", 29);
    for (size_t behind = 0; behind < 29; behind++) {
        if (parse(more, len + behind) != IOH__PROXY_DONE)
            fail_msg("refused: %s", why);
        assert_int_equal(got.len, len);
        expect_address(family, address, port);
    }
}

static void expect_line(const char *line, int family, const char *address, uint16_t port)
{
    expect_done(line, strlen(line), family, address, port);
}

/* Refused at the byte given, and not a byte earlier. */
static void expect_fault_at(const void *bytes, size_t len, size_t at)
{
    for (size_t n = 0; n <= len; n++) {
        enum ioh__proxy_result result = parse(bytes, n);
        if (result != (n > at ? IOH__PROXY_FAULT : IOH__PROXY_MORE))
            fail_msg("result %d with %zu bytes of \"%.*s\"", (int)result, n, (int)len,
                     (const char *)bytes);
    }
}

static void expect_bad_line(const char *line)
{
    expect_fault_at(line, strlen(line), strlen(line) - 1);
}

/* ---- version 1 */

static void lines_of_version_1_tell_the_source(void **state)
{
    (void)state;
    expect_line("PROXY TCP4 192.0.2.1 198.51.100.7 4711 80\r\n", AF_INET, "192.0.2.1", 4711);
    expect_line("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", AF_INET,
                "255.255.255.255", 65535);
    expect_line("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", AF_INET, "0.0.0.0", 0);
    expect_line("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", AF_INET6, "2001:db8::1", 1);
    expect_line("PROXY TCP6 2001:DB8::aBcD ::1 1 2\r\n", AF_INET6, "2001:db8::abcd", 1);
    expect_line("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", AF_INET6, "::ffff:192.0.2.1", 1);
    expect_line("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
                AF_INET6, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535);
}

static void unknown_leaves_the_connection_its_own_address(void **state)
{
    (void)state;
    expect_line("PROXY UNKNOWN\r\n", AF_UNSPEC, NULL, 0);
    expect_line("PROXY UNKNOWN and what it says\tis its own affair\r\n", AF_UNSPEC, NULL, 0);
    expect_line("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
                AF_UNSPEC, NULL, 0);
}

static void lines_that_do_not_match_exactly_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY  UNKNOWN\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1  192.0.2.2 1 2\r\n",
        "PROXY TCP4\t192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1  2\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.999 1 2\r\n",
        "PROXY TCP4 localhost 192.0.2.2 1 2\r\n",
        "PROXY TCP4 ::1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 00\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1a 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4294967297 2\r\n",
        "PROXY TCP6 192.0.2.1 ::1 1 2\r\n",
        "PROXY TCP6 ::1 192.0.2.1 1 2\r\n",
        "PROXY TCP6 :::1 ::1 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
        "PROXY TCP6 0000:0000:0000:0000:0000:0000:0000:00001 ::1 1 2\r\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_bad_line(lines[i]);
}

static void a_nul_in_a_line_does_not_end_a_word(void **state)
{
    (void)state;
    static const char line[] = "PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n";
    expect_fault_at(line, sizeof line - 1, sizeof line - 2);
    static const char port[] = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\0\r\n";
    expect_fault_at(port, sizeof port - 1, sizeof port - 2);
    static const char unknown[] = "PROXY UNKNOWN\0\r\n";
    expect_fault_at(unknown, sizeof unknown - 1, sizeof unknown - 2);
}

static void only_cr_lf_ends_a_line(void **state)
{
    (void)state;
    static const char lf[] = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\nGET";
    expect_fault_at(lf, strlen(lf), strlen(lf) - 4);
    static const char cr[] = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\rGET";
    expect_fault_at(cr, strlen(cr), strlen(cr) - 3);
    static const char inside[] = "PROXY UNKNOWN \r \r\n";
    expect_fault_at(inside, strlen(inside), 15);
}

static void a_line_has_at_most_107_bytes(void **state)
{
    (void)state;
    char line[120];
    for (size_t len = 105; len <= 110; len++) {
        memset(line, 'x', sizeof line);
        memcpy(line, "PROXY UNKNOWN ", 14);
        memcpy(line + len - 2, "\r\n", 2);
        if (len <= IOH__PROXY_V1_MAX)
            expect_done(line, len, AF_UNSPEC, NULL, 0);
        else
            expect_fault_at(line, len, IOH__PROXY_V1_MAX - 1);
    }
}

/* ---- neither */

static void what_is_no_header_is_refused_at_its_first_wrong_byte(void **state)
{
    (void)state;
    expect_fault_at("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27, 0);
    expect_fault_at("\x16\x03\x01", 3, 0);
    expect_fault_at("POST / HTTP/1.1\r\n", 17, 1);
    expect_fault_at("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 2);
    expect_fault_at("PROXYTCP4", 9, 5);
    expect_fault_at("proxy UNKNOWN\r\n", 15, 0);
    expect_fault_at(" PROXY UNKNOWN\r\n", 16, 0);
    expect_fault_at("\r\n\r\n\0\r\nQUIX\n", 12, 10);
    expect_fault_at("\r\nPROXY UNKNOWN\r\n", 17, 2);
    expect_fault_at("\n", 1, 0);
    expect_fault_at("\0", 1, 0);
}

/* ---- version 2 */

static uint8_t bin[IOH__PROXY_MAX];

/* Signature, two bytes, the length, and so many bytes 1, 2, 3... behind them. */
static size_t binary(uint8_t command, uint8_t family, size_t rest)
{
    memcpy(bin, "\r\n\r\n\0\r\nQUIT\n", 12);
    bin[12] = command;
    bin[13] = family;
    bin[14] = (uint8_t)(rest >> 8);
    bin[15] = (uint8_t)rest;
    for (size_t i = 0; i < rest; i++)
        bin[16 + i] = (uint8_t)(i + 1);
    return 16 + rest;
}

#define V6 "102:304:506:708:90a:b0c:d0e:f10"

static void headers_of_version_2_tell_the_source(void **state)
{
    (void)state;
    expect_done(bin, binary(0x21, 0x11, 12), AF_INET, "1.2.3.4", 0x090a);
    expect_done(bin, binary(0x21, 0x21, 36), AF_INET6, V6, 0x2122);
    expect_done(bin, binary(0x21, 0x31, 216), AF_UNIX, NULL, 0);
}

static void what_follows_the_addresses_is_skipped(void **state)
{
    (void)state;
    expect_done(bin, binary(0x21, 0x11, 12 + 3), AF_INET, "1.2.3.4", 0x090a);
    expect_done(bin, binary(0x21, 0x21, 36 + 300), AF_INET6, V6, 0x2122);
    expect_done(bin, binary(0x21, 0x31, 216 + 1), AF_UNIX, NULL, 0);
    size_t len = binary(0x21, 0x11, UINT16_MAX);
    assert_int_equal(len, IOH__PROXY_MAX);
    assert_int_equal(parse(bin, len - 1), IOH__PROXY_MORE);
    assert_int_equal(parse(bin, len), IOH__PROXY_DONE);
    assert_int_equal(got.len, len);
}

static void local_and_unspecified_leave_the_connection_its_own_address(void **state)
{
    (void)state;
    static const uint8_t families[] = {0x00, 0x01, 0x10, 0x12, 0x20, 0x22, 0x30, 0x32};
    static const size_t lengths[] = {0, 1, 12, 36, 216, 300};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (size_t i = 0; i < sizeof families; i++) /* datagrams, too: the spec's fallback */
            expect_done(bin, binary(0x21, families[i], lengths[k]), AF_UNSPEC, NULL, 0);
        for (int family = 0; family < 256; family += 15) /* a LOCAL's family is ignored */
            expect_done(bin, binary(0x20, (uint8_t)family, lengths[k]), AF_UNSPEC, NULL, 0);
    }
}

static void unknown_versions_commands_and_families_are_refused(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++)
        if (byte != 0x20 && byte != 0x21)
            expect_fault_at(bin, binary((uint8_t)byte, 0x11, 12), 12);
    for (int byte = 0; byte < 256; byte++)
        if (byte >> 4 > 3 || (byte & 15) > 2)
            expect_fault_at(bin, binary(0x21, (uint8_t)byte, 216), 13);
}

static void a_header_too_short_for_its_addresses_is_refused(void **state)
{
    (void)state;
    for (size_t rest = 0; rest < 216; rest++) {
        if (rest < 12)
            expect_fault_at(bin, binary(0x21, 0x11, rest), 15);
        if (rest < 36)
            expect_fault_at(bin, binary(0x21, 0x21, rest), 15);
        expect_fault_at(bin, binary(0x21, 0x31, rest), 15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_version_1_tell_the_source),
        cmocka_unit_test(unknown_leaves_the_connection_its_own_address),
        cmocka_unit_test(lines_that_do_not_match_exactly_are_refused),
        cmocka_unit_test(a_nul_in_a_line_does_not_end_a_word),
        cmocka_unit_test(only_cr_lf_ends_a_line),
        cmocka_unit_test(a_line_has_at_most_107_bytes),
        cmocka_unit_test(what_is_no_header_is_refused_at_its_first_wrong_byte),
        cmocka_unit_test(headers_of_version_2_tell_the_source),
        cmocka_unit_test(what_follows_the_addresses_is_skipped),
        cmocka_unit_test(local_and_unspecified_leave_the_connection_its_own_address),
        cmocka_unit_test(unknown_versions_commands_and_families_are_refused),
        cmocka_unit_test(a_header_too_short_for_its_addresses_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

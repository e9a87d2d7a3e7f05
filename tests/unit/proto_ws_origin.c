/* Which origins are this server's: pairs of Origin and Host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ws_origin.h"

static bool same(const char *host, const char *origin_fields)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 4096, .max_uri = 1024, .max_headers = 32};
    static struct ioh__http1_field fields[32];
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault;
    char text[1024];
    size_t scanned = 0;
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, origin_fields);
    size_t len = strlen(text);
    if (ioh__http1_parse(text, len, len, &scanned, &limits, &head, &fault) != IOH__HTTP1_DONE)
        fail_msg("not a request: %s", text);
    return ioh__ws_same_origin(text, &head);
}

static bool from(const char *origin, const char *host)
{
    char field[300];
    snprintf(field, sizeof field, "Origin: %s\r\n", origin);
    return same(host, field);
}

static void no_origin_is_no_browsers_page(void **state)
{
    (void)state;
    assert_true(same("example.com", ""));
    assert_true(same("example.com", "X-Origin: http://evil.example\r\n"));
}

static void host_and_port_must_be_the_same(void **state)
{
    static const struct {
        const char *origin, *host;
        bool same;
    } cases[] = {
        {"http://example.com", "example.com", true},
        {"https://example.com", "example.com", true}, /* behind a proxy that ends TLS */
        {"HTTP://Example.COM", "example.com", true},
        {"http://example.com:80", "example.com", true},
        {"http://example.com", "example.com:80", true},
        {"https://example.com:443", "example.com", true},
        {"https://example.com", "example.com:443", true},
        {"http://example.com:8080", "example.com:8080", true},
        {"http://example.com:", "example.com", true},
        {"http://[::1]:8080", "[::1]:8080", true},
        {"http://[2001:DB8::1]", "[2001:db8::1]:80", true},
        {"http://127.0.0.1:9", "127.0.0.1:9", true},

        {"http://example.com:8080", "example.com", false},
        {"http://example.com", "example.com:8080", false},
        {"http://example.com:443", "example.com", false},
        {"https://example.com:80", "example.com", false},
        {"https://example.com", "example.com:80", false},
        {"http://example.com:8080", "example.com:8081", false},
        {"http://evil.example", "example.com", false},
        {"http://example.com.evil.example", "example.com", false},
        {"http://evil-example.com", "example.com", false},
        {"http://sub.example.com", "example.com", false},
        {"http://example.co", "example.com", false},
        {"http://[::1]", "[::2]", false},
        {"http://[::1]:81", "[::1]", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (from(cases[i].origin, cases[i].host) != cases[i].same)
            fail_msg("%s at %s", cases[i].origin, cases[i].host);
}

static void what_is_no_origin_of_the_web_is_never_the_same(void **state)
{
    static const char *const origins[] = {"null",
                                          "",
                                          "file://",
                                          "chrome-extension://example.com",
                                          "ws://example.com",
                                          "example.com",
                                          "//example.com",
                                          "http:example.com",
                                          "http:/example.com",
                                          "http://",
                                          "http://:80",
                                          "http://example.com/",
                                          "http://example.com/x",
                                          "http://example.com?x",
                                          "http://example.com#",
                                          "http://me@example.com",
                                          "http://example.com@evil.example",
                                          "http://evil.example@example.com",
                                          "http://example.com:80:80",
                                          "http://example.com:8x",
                                          "http://example.com:65616",
                                          "http://example.com:-80",
                                          "http://example.com example.com",
                                          "http://example.com, http://b",
                                          "https",
                                          "http"};
    (void)state;
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        if (from(origins[i], "example.com"))
            fail_msg("%s", origins[i]);
}

static void two_origins_are_none(void **state)
{
    (void)state;
    assert_false(same("a", "Origin: http://a\r\nOrigin: http://a\r\n"));
    assert_true(same("a", "origin: http://a\r\n"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_origin_is_no_browsers_page),
        cmocka_unit_test(host_and_port_must_be_the_same),
        cmocka_unit_test(what_is_no_origin_of_the_web_is_never_the_same),
        cmocka_unit_test(two_origins_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

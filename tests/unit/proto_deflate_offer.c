/* Offers of permessage-deflate (RFC 7692 7.1) and what is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/deflate_offer.h"

#define MALFORMED "malformed"
#define NONE ""
#define ALONE "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

static struct ioh__http1_field fields[32];

/* The answer to a request with these lines; NONE, or MALFORMED. Valid until the next call. */
static const char *answer_to(const char *lines, enum ioh__deflate_mode mode, unsigned window)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 60000, .max_uri = 1024, .max_headers = 32};
    static char text[60000], answer[IOH__DEFLATE_ANSWER_MAX + 1];
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault;
    struct ioh__deflate_terms terms;
    size_t scanned = 0, at = 0;
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", lines);
    size_t text_len = strlen(text);
    if (ioh__http1_parse(text, text_len, text_len, &scanned, &limits, &head, &fault) !=
        IOH__HTTP1_DONE)
        fail_msg("not a request: %s", text);
    if (!ioh__deflate_agree(text, &head, mode, window, &terms, &at)) {
        assert_true(at > 0 && at < strlen(text));
        return MALFORMED;
    }
    if (terms.server_bits == 0)
        return NONE;
    assert_in_range(terms.server_bits, 9, window);
    assert_in_range(terms.client_bits, 8, 15);
    size_t len = ioh__deflate_answer(&terms, answer);
    assert_in_range(len, 1, IOH__DEFLATE_ANSWER_MAX);
    answer[len] = '\0';
    return answer;
}

struct offer_case {
    const char *offer;
    const char *shared, *takeover; /* the answers with 15 bits */
};

static const struct offer_case offers[] = {
    {"permessage-deflate", ALONE, "permessage-deflate"},
    {"Permessage-Deflate", ALONE, "permessage-deflate"},
    {"permessage-deflate; client_max_window_bits", ALONE, "permessage-deflate"},
    {"permessage-deflate;client_max_window_bits", ALONE, "permessage-deflate"},
    {"permessage-deflate  ;  client_max_window_bits\t", ALONE, "permessage-deflate"},

    /* each parameter */
    {"permessage-deflate; server_no_context_takeover", ALONE,
     "permessage-deflate; server_no_context_takeover"},
    {"permessage-deflate; client_no_context_takeover", ALONE,
     "permessage-deflate; client_no_context_takeover"},
    {"permessage-deflate; server_max_window_bits=15", ALONE "; server_max_window_bits=15",
     "permessage-deflate; server_max_window_bits=15"},
    {"permessage-deflate; server_max_window_bits=9", ALONE "; server_max_window_bits=9",
     "permessage-deflate; server_max_window_bits=9"},
    {"permessage-deflate; server_max_window_bits=\"10\"", ALONE "; server_max_window_bits=10",
     "permessage-deflate; server_max_window_bits=10"},
    {"permessage-deflate; client_max_window_bits=10", ALONE,
     "permessage-deflate; client_max_window_bits=10"},
    {"permessage-deflate; client_max_window_bits=8", ALONE,
     "permessage-deflate; client_max_window_bits=8"},
    {"permessage-deflate; client_max_window_bits=11; server_max_window_bits=12; "
     "client_no_context_takeover; server_no_context_takeover",
     ALONE "; server_max_window_bits=12", ALONE "; server_max_window_bits=12"},
    {"permessage-deflate; client_max_window_bits=11; server_max_window_bits=12",
     ALONE "; server_max_window_bits=12",
     "permessage-deflate; server_max_window_bits=12; client_max_window_bits=11"},

    /* declined */
    {"permessage-deflate; server_max_window_bits=8", NONE, NONE}, /* zlib has no such raw window */
    {"permessage-deflate; server_max_window_bits", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=7", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=16", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=010", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=1", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=100", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=1x", NONE, NONE},
    {"permessage-deflate; client_max_window_bits=7", NONE, NONE},
    {"permessage-deflate; client_max_window_bits=+9", NONE, NONE},
    {"permessage-deflate; server_no_context_takeover=1", NONE, NONE},
    {"permessage-deflate; client_no_context_takeover=\"a\"", NONE, NONE},
    {"permessage-deflate; x", NONE, NONE},
    {"permessage-deflate; client_max_window_bits; client_max_window_bits", NONE, NONE},
    {"permessage-deflate; server_max_window_bits=10; server_max_window_bits=10", NONE, NONE},
    {"permessage-deflate; server_no_context_takeover; server_no_context_takeover", NONE, NONE},
    {"permessage-deflate; client_no_context_takeover; client_no_context_takeover", NONE, NONE},

    /* other extensions, and which of several offers is taken */
    {"x-webkit-deflate-frame", NONE, NONE},
    {"permessage-bzip2; a=b; c=\"d\"", NONE, NONE},
    {"permessage-deflate-2", NONE, NONE},
    {"foo, permessage-deflate", ALONE, "permessage-deflate"},
    {"permessage-deflate; y, permessage-deflate", ALONE, "permessage-deflate"},
    {"permessage-deflate; server_max_window_bits=8, "
     "permessage-deflate; server_max_window_bits=9",
     ALONE "; server_max_window_bits=9", "permessage-deflate; server_max_window_bits=9"},
    {"permessage-deflate; server_max_window_bits=10, permessage-deflate",
     ALONE "; server_max_window_bits=10", "permessage-deflate; server_max_window_bits=10"},
    {",, permessage-deflate ,,", ALONE, "permessage-deflate"},
    {",", NONE, NONE},
    {"constructor", NONE, NONE},
    {",;constructor", MALFORMED, MALFORMED},

    /* not a list of extensions (RFC 6455 9.1) */
    {";;;", MALFORMED, MALFORMED},
    {"permessage-deflate;", MALFORMED, MALFORMED},
    {"permessage-deflate; ", MALFORMED, MALFORMED},
    {"permessage-deflate;;client_max_window_bits", MALFORMED, MALFORMED},
    {"permessage-deflate; client_max_window_bits=", MALFORMED, MALFORMED},
    {"permessage-deflate; client_max_window_bits=\"\"", MALFORMED, MALFORMED},
    {"permessage-deflate; client_max_window_bits=\"10", MALFORMED, MALFORMED},
    {"permessage-deflate; client_max_window_bits=\"1 0\"", MALFORMED, MALFORMED},
    {"permessage-deflate; client_max_window_bits=10 11", MALFORMED, MALFORMED},
    {"permessage-deflate client_max_window_bits", MALFORMED, MALFORMED},
    {"permessage-deflate=1", MALFORMED, MALFORMED},
    {"permessage-deflate, foo; =", MALFORMED, MALFORMED},
    {"permessage-deflate/1", MALFORMED, MALFORMED},
    {"\"permessage-deflate\"", MALFORMED, MALFORMED},
    {"=", MALFORMED, MALFORMED},
};

static void offers_are_answered_by_the_mode(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
        const struct offer_case *c = &offers[i];
        char line[400];
        snprintf(line, sizeof line, "Sec-WebSocket-Extensions: %s", c->offer);
        const char *off = strcmp(c->shared, MALFORMED) ? NONE : MALFORMED;
        const char *got = answer_to(line, IOH__DEFLATE_SHARED, 15);
        if (strcmp(got, c->shared) != 0)
            fail_msg("shared, %s: %s instead of %s", c->offer, got, c->shared);
        got = answer_to(line, IOH__DEFLATE_TAKEOVER, 15);
        if (strcmp(got, c->takeover) != 0)
            fail_msg("takeover, %s: %s instead of %s", c->offer, got, c->takeover);
        got = answer_to(line, IOH__DEFLATE_OFF, 15);
        if (strcmp(got, off) != 0)
            fail_msg("off, %s: %s instead of %s", c->offer, got, off);
    }
}

static void several_fields_are_one_list(void **state)
{
    (void)state;
    assert_string_equal(answer_to("Sec-WebSocket-Extensions: foo\r\nX: permessage-deflate\r\n"
                                  "sec-websocket-extensions: permessage-deflate",
                                  IOH__DEFLATE_SHARED, 15),
                        ALONE);
    assert_string_equal(answer_to("Sec-WebSocket-Extensions: permessage-deflate\r\n"
                                  "Sec-WebSocket-Extensions: a b",
                                  IOH__DEFLATE_SHARED, 15),
                        MALFORMED);
    assert_string_equal(answer_to("X: permessage-deflate", IOH__DEFLATE_SHARED, 15), NONE);
    assert_string_equal(answer_to("Sec-WebSocket-Extensions:", IOH__DEFLATE_SHARED, 15), NONE);
}

/* Without context the server may be told any window, and uses at most its own; a client's window costs the server
 * memory only when the client keeps it. */
static void a_smaller_window_of_ours_is_said(void **state)
{
    (void)state;
#define OFFER "Sec-WebSocket-Extensions: permessage-deflate"
    assert_string_equal(answer_to(OFFER, IOH__DEFLATE_SHARED, 10),
                        ALONE "; server_max_window_bits=10");
    assert_string_equal(answer_to(OFFER "; server_max_window_bits=9", IOH__DEFLATE_SHARED, 10),
                        ALONE "; server_max_window_bits=9");
    assert_string_equal(answer_to(OFFER "; server_max_window_bits=12", IOH__DEFLATE_SHARED, 10),
                        ALONE "; server_max_window_bits=10");
    assert_string_equal(answer_to(OFFER "; client_max_window_bits", IOH__DEFLATE_TAKEOVER, 10),
                        "permessage-deflate; server_max_window_bits=10; client_max_window_bits=10");
    assert_string_equal(answer_to(OFFER "; client_max_window_bits=9", IOH__DEFLATE_TAKEOVER, 10),
                        "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9");
    assert_string_equal(
        answer_to(OFFER, IOH__DEFLATE_TAKEOVER, 10),
        "permessage-deflate; client_no_context_takeover; server_max_window_bits=10");
#undef OFFER
}

static void a_list_of_eight_thousand_commas_offers_nothing(void **state)
{
    char line[8300] = "Sec-WebSocket-Extensions: ";
    (void)state;
    memset(line + strlen(line), ',', 8192);
    assert_string_equal(answer_to(line, IOH__DEFLATE_SHARED, 15), NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_are_answered_by_the_mode),
        cmocka_unit_test(several_fields_are_one_list),
        cmocka_unit_test(a_smaller_window_of_ours_is_said),
        cmocka_unit_test(a_list_of_eight_thousand_commas_offers_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

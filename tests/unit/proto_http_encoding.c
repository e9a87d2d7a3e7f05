/* Accept-Encoding: what a client takes, and what is chosen for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http_encoding.h"
#include "support/request_head.h"

enum { BR = IOH__CODING_BR, ZSTD, GZIP, DEFLATE, IDENTITY };
#define ALL (1u << BR | 1u << ZSTD | 1u << GZIP | 1u << DEFLATE)

static struct ioh__codings codings_of(const char *fields)
{
    static struct request_head r;
    struct ioh__codings codings;
    request_head(&r, fields);
    ioh__http_codings(r.text, &r.head, &codings);
    return codings;
}

static void assert_q(const char *fields, int br, int zstd, int gzip, int deflate, int identity)
{
    struct ioh__codings c = codings_of(fields);
    const int wanted[] = {br, zstd, gzip, deflate, identity};
    for (int i = 0; i < IOH__CODINGS; i++)
        if (c.q[i] != wanted[i])
            fail_msg("%s: %s has %d, not %d", fields, ioh__coding_name((enum ioh__coding)i), c.q[i],
                     wanted[i]);
}

static void without_a_word_only_identity_is_taken(void **state)
{
    (void)state;
    assert_q("", 0, 0, 0, 0, 1);
    assert_q("Accept-Encoding:\r\n", 0, 0, 0, 0, 1);
    assert_q("Accept: br\r\n", 0, 0, 0, 0, 1);
}

static void named_codings_are_taken_with_their_weight(void **state)
{
    (void)state;
    assert_q("Accept-Encoding: gzip, deflate, br, zstd\r\n", 1000, 1000, 1000, 1000, 1);
    assert_q("Accept-Encoding: gzip;q=0.5,br;q=0.25\r\n", 250, 0, 500, 0, 1);
    assert_q("Accept-Encoding: GZIP ; Q=0.123 ,\tBR;q=1.000\r\n", 1000, 0, 123, 0, 1);
    assert_q("Accept-Encoding: gzip;q=0.001, deflate;q=0.\r\n", 0, 0, 1, 0, 1);
    assert_q("Accept-Encoding: x-gzip, identity;q=0.5\r\n", 0, 0, 1000, 0, 500);
    assert_q("Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n", 1000, 0, 1000, 0, 1);
}

static void a_star_is_for_what_is_not_named(void **state)
{
    (void)state;
    assert_q("Accept-Encoding: *\r\n", 1000, 1000, 1000, 1000, 1);
    assert_q("Accept-Encoding: *;q=0.5, gzip\r\n", 500, 500, 1000, 500, 1);
    assert_q("Accept-Encoding: gzip;q=0, *\r\n", 1000, 1000, 0, 1000, 1);
    assert_q("Accept-Encoding: *;q=0\r\n", 0, 0, 0, 0, 0);
    assert_q("Accept-Encoding: *;q=0, gzip\r\n", 0, 0, 1000, 0, 0);
    assert_q("Accept-Encoding: identity;q=0, *\r\n", 1000, 1000, 1000, 1000, 0);
    assert_q("Accept-Encoding: *;q=0, identity\r\n", 0, 0, 0, 0, 1000);
}

static void what_is_badly_said_is_not_heard(void **state)
{
    static const char *const bad[] = {"gzip;q=2",   "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=-1",
                                      "gzip;q=.5",  "gzip;q=",      "gzip;",         "gzip;x=1",
                                      "gzip q=1",   "gzip;q=1 br",  "gzip;q=0.5x",   "gzip;q=10",
                                      "gzip;q = 1", "gzipp",        "gzi",           ";q=1",
                                      "\"gzip\"",   "gzip/1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char fields[100];
        snprintf(fields, sizeof fields, "Accept-Encoding: %s\r\n", bad[i]);
        assert_q(fields, 0, 0, 0, 0, 1);
        snprintf(fields, sizeof fields, "Accept-Encoding: br, %s\r\n", bad[i]);
        assert_q(fields, 1000, 0, 0, 0, 1);
    }
}

static void assert_chosen(const char *accept, unsigned have, int wanted)
{
    char fields[200];
    snprintf(fields, sizeof fields, "Accept-Encoding: %s\r\n", accept);
    struct ioh__codings c = codings_of(fields);
    assert_int_equal(ioh__coding_choose(&c, have), wanted);
}

static void the_best_that_is_there_is_chosen(void **state)
{
    (void)state;
    assert_chosen("gzip, deflate, br, zstd", ALL, BR);
    assert_chosen("gzip, deflate, br, zstd", 1u << GZIP | 1u << DEFLATE, GZIP);
    assert_chosen("gzip, deflate, br, zstd", 0, IDENTITY);
    assert_chosen("gzip, br;q=0.9", ALL, GZIP);
    assert_chosen("gzip;q=0.001", ALL, GZIP);
    assert_chosen("gzip;q=0.5, identity", ALL, IDENTITY);
    assert_chosen("gzip, identity", ALL, GZIP);
    assert_chosen("gzip;q=0", ALL, IDENTITY);
    assert_chosen("*", 1u << GZIP, GZIP);
    assert_chosen("identity;q=0, gzip", ALL, GZIP);
    assert_chosen("identity;q=0, br", 1u << GZIP, IDENTITY);
    assert_chosen("identity;q=0", ALL, IDENTITY);
    assert_chosen("*;q=0", ALL, IDENTITY);
    assert_chosen("", ALL, IDENTITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_only_identity_is_taken),
        cmocka_unit_test(named_codings_are_taken_with_their_weight),
        cmocka_unit_test(a_star_is_for_what_is_not_named),
        cmocka_unit_test(what_is_badly_said_is_not_heard),
        cmocka_unit_test(the_best_that_is_there_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

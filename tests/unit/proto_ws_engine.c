/* The receiving WebSocket engine (RFC 6455 5): frames in, events out, by both paths and cut at every
 * byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mask.h"
#include "proto/ws_engine.h"
#include "ws_client.h"

/* ---- cases: frames and the events they make */

struct frame {
    int b0;
    const char *payload;
    size_t len;
    int flags;
};

#define F(b0, s)                    \
    {                               \
        (b0), (s), sizeof(s) - 1, 0 \
    }
#define FLAG(b0, s, flags)                \
    {                                     \
        (b0), (s), sizeof(s) - 1, (flags) \
    }

struct ws_case {
    struct frame frames[7];
    const char *events;
};

static const struct ws_case cases[] = {
    /* RFC 6455 5.7: a masked Hello, in two fragments, a ping with Hello */
    {{F(FIN | TEXT, "Hello")}, "text Hello\n"},
    {{F(TEXT, "Hel"), F(FIN | CONT, "lo")}, "text Hello\n"},
    {{F(FIN | PING, "Hello"), F(FIN | PONG, "Hello")}, "ping Hello\npong Hello\n"},

    /* whole messages of every form of length */
    {{F(FIN | TEXT, ""), F(FIN | BINARY, "")}, "text \nbinary \n"},
    {{F(FIN | BINARY, "\xff\xfe"), F(FIN | TEXT, "\xc3\xa9")}, "binary \xff\xfe\ntext \xc3\xa9\n"},
    {{F(FIN | TEXT, HUNDRED TEN TEN "12345"), F(FIN | TEXT, HUNDRED TEN TEN "123456")},
     "text " HUNDRED TEN TEN "12345\ntext " HUNDRED TEN TEN "123456\n"},
    {{F(FIN | BINARY, HUNDRED HUNDRED TEN)}, "binary 210 bytes\n"},
    {{F(FIN | PING, ""), F(FIN | PONG, ""), F(FIN | PING, HUNDRED TEN TEN "12345")},
     "ping \npong \nping " HUNDRED TEN TEN "12345\n"},

    /* fragments, empty ones too, with control frames between them, and what follows */
    {{F(TEXT, ""), F(CONT, ""), F(FIN | CONT, "")}, "text \n"},
    {{F(TEXT, ""), F(CONT, "a"), F(FIN | CONT, ""), F(FIN | TEXT, "b")}, "text a\ntext b\n"},
    {{F(BINARY, "ab"), F(FIN | PING, "p"), F(CONT, "cd"), F(FIN | PONG, ""), F(FIN | CONT, "e")},
     "ping p\npong \nbinary abcde\n"},
    {{F(TEXT, "a"), F(FIN | CONT, "b"), F(TEXT, "c"), F(FIN | CONT, "d"), F(FIN | BINARY, "e")},
     "text ab\ntext cd\nbinary e\n"},
    {{F(TEXT, "a\xe2\x82"), F(FIN | PING, "\xff"), F(FIN | CONT, "\xac")},
     "ping \xff\ntext a\xe2\x82\xac\n"},
    {{F(TEXT, "\xf0"), F(CONT, "\x9f"), F(CONT, "\x99"), F(FIN | CONT, "\x82")},
     "text \xf0\x9f\x99\x82\n"},
    {{F(BINARY, HUNDRED HUNDRED), F(CONT, HUNDRED HUNDRED), F(CONT, HUNDRED HUNDRED),
      F(CONT, HUNDRED), F(CONT, HUNDRED), F(FIN | CONT, HUNDRED HUNDRED)},
     "binary 1000 bytes\n"},

    /* Close: valid ones end everything, whatever follows */
    {{F(FIN | CLOSE, ""), F(FIN | TEXT, "a")}, "close 1005 \n"},
    {{F(FIN | CLOSE, "\x03\xe8")}, "close 1000 \n"},
    {{F(FIN | CLOSE, "\x03\xe9going"), FLAG(RSV1, "x", BARE)}, "close 1001 going\n"},
    {{F(FIN | CLOSE, "\x03\xf6"), F(FIN | CLOSE, "")}, "close 1014 \n"},
    {{F(FIN | CLOSE, "\x0b\xb8\xc3\xa9")}, "close 3000 \xc3\xa9\n"},
    {{F(FIN | CLOSE, "\x13\x87" HUNDRED TEN TEN "123")}, "close 4999 " HUNDRED TEN TEN "123\n"},
    {{F(TEXT, "a"), F(FIN | CLOSE, "\x03\xe8 bye"), F(FIN | CONT, "b")}, "close 1000  bye\n"},
    {{F(FIN | CLOSE, "\x03")}, "fault 1002\n"},
    {{F(TEXT, "a"), F(FIN | CLOSE, "\x03")}, "fault 1002\n"},
    {{F(FIN | CLOSE, "\x03\xe7")}, "fault 1002\n"},      /* 999 */
    {{F(FIN | CLOSE, "\x03\xec")}, "fault 1002\n"},      /* 1004 */
    {{F(FIN | CLOSE, "\x03\xed none")}, "fault 1002\n"}, /* 1005 */
    {{F(FIN | CLOSE, "\x03\xee")}, "fault 1002\n"},      /* 1006 */
    {{F(FIN | CLOSE, "\x03\xf7")}, "fault 1002\n"},      /* 1015 */
    {{F(FIN | CLOSE, "\x0b\xb7")}, "fault 1002\n"},      /* 2999 */
    {{F(FIN | CLOSE, "\x13\x88")}, "fault 1002\n"},      /* 5000 */
    {{F(FIN | CLOSE, "\x03\xe8\xff")}, "fault 1007\n"},
    {{F(FIN | CLOSE, "\x03\xe8 \xe2\x82")}, "fault 1007\n"},
    {{F(BINARY, "a"), F(FIN | CLOSE, "\x03\xe8\x80")}, "fault 1007\n"},

    /* headers that must not be */
    {{F(FIN | RSV1 | TEXT, "a"), F(FIN | TEXT, "b")}, "fault 1002\n"},
    {{F(FIN | RSV2 | BINARY, "a")}, "fault 1002\n"},
    {{F(FIN | RSV3 | BINARY, "")}, "fault 1002\n"},
    {{F(FIN | RSV1 | PING, "a")}, "fault 1002\n"},
    {{F(TEXT, "a"), F(FIN | RSV1 | CONT, "b")}, "fault 1002\n"},
    {{F(FIN | 3, "a")}, "fault 1002\n"},
    {{F(FIN | 7, "")}, "fault 1002\n"},
    {{F(FIN | 11, "a")}, "fault 1002\n"},
    {{F(FIN | 15, "")}, "fault 1002\n"},
    {{F(BINARY, "a"), F(FIN | 4, "b")}, "fault 1002\n"},
    {{F(BINARY, "a"), F(FIN | 13, "b")}, "fault 1002\n"},
    {{FLAG(FIN | TEXT, "a", BARE)}, "fault 1002\n"},
    {{FLAG(FIN | PING, "", BARE)}, "fault 1002\n"},
    {{FLAG(FIN | CLOSE, "\x03\xe8", BARE)}, "fault 1002\n"},
    {{F(TEXT, "a"), FLAG(FIN | CONT, "b", BARE)}, "fault 1002\n"},
    {{F(PING, "a"), F(FIN | CONT, "b")}, "fault 1002\n"},
    {{F(CLOSE, "")}, "fault 1002\n"},
    {{F(TEXT, "a"), F(PONG, "")}, "fault 1002\n"},
    {{F(FIN | PING, HUNDRED TEN TEN "123456")}, "fault 1002\n"},
    {{FLAG(FIN | PONG, "a", LONG16)}, "fault 1002\n"},
    {{FLAG(FIN | CLOSE, "\x03\xe8", LONG64)}, "fault 1002\n"},
    {{FLAG(FIN | TEXT, HUNDRED TEN TEN "12345", LONG16)}, "fault 1002\n"},
    {{FLAG(FIN | TEXT, HUNDRED HUNDRED, LONG64)}, "fault 1002\n"},
    {{FLAG(FIN | BINARY, "", LONG64)}, "fault 1002\n"},
    {{F(BINARY, "a"), FLAG(FIN | CONT, "b", LONG16)}, "fault 1002\n"},

    /* frames out of order */
    {{F(FIN | CONT, "a")}, "fault 1002\n"},
    {{F(CONT, "")}, "fault 1002\n"},
    {{F(FIN | TEXT, "a"), F(FIN | CONT, "b")}, "text a\nfault 1002\n"},
    {{F(TEXT, "a"), F(FIN | CONT, "b"), F(FIN | CONT, "c")}, "text ab\nfault 1002\n"},
    {{F(TEXT, "a"), F(FIN | TEXT, "b")}, "fault 1002\n"},
    {{F(TEXT, ""), F(BINARY, "")}, "fault 1002\n"},
    {{F(TEXT, "a"), F(FIN | PING, "p"), F(FIN | BINARY, "b")}, "ping p\nfault 1002\n"},

    /* text that is not */
    {{F(FIN | TEXT, "ab\xff"
                    "cd")},
     "fault 1007\n"},
    {{F(FIN | TEXT, "ab\xe2\x82")}, "fault 1007\n"},
    {{F(FIN | TEXT, "a"), F(FIN | TEXT, "\xed\xa0\x80")}, "text a\nfault 1007\n"},
    {{F(TEXT, "a\xe2"), F(FIN | CONT, "\x28\xa1")}, "fault 1007\n"},
    {{F(TEXT, "a"), F(FIN | CONT, "b\xf0\x9f")}, "fault 1007\n"},
    {{F(TEXT, "a\xc3"), F(FIN | CONT, "")}, "fault 1007\n"},
    {{F(TEXT, "\xff"), F(FIN | PING, "p")}, "fault 1007\n"},

    /* more than the limit of 1000 */
    {{F(BINARY, HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED),
      F(FIN | CONT, HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED "+")},
     "fault 1009\n"},
    {{F(FIN | BINARY,
        HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED "+")},
     "fault 1009\n"},
};

static void build(const struct ws_case *c)
{
    wire.len = 0;
    for (size_t i = 0; i < 7 && c->frames[i].payload; i++)
        put(&wire, c->frames[i].b0, c->frames[i].payload, c->frames[i].len, c->frames[i].flags);
}

/* Runs the case that is built with the first piece of cut bytes and further pieces of step bytes. */
static void run_cut(const struct ws_case *c, bool no_fast_path, size_t cut, size_t step)
{
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    engine.no_fast_path = no_fast_path;
    struct client client = connect_client(&engine, &wire);
    arrive(&client, cut);
    while (client.end < wire.len)
        arrive(&client, wire.len - client.end < step ? wire.len - client.end : step);
    if (strcmp(client.log.text, c->events) != 0)
        fail_msg("case %td, cut %zu, step %zu, %s:\n%sinstead of\n%s", c - cases, cut, step,
                 no_fast_path ? "wslay" : "fast", client.log.text, c->events);
    assert_int_equal(client.at, wire.len);
    assert_null(client.ws.loan); /* every case ends at a boundary or is ended */
    assert_int_equal(engine.lent, 0);
    leave(&client);
    ioh__ws_engine_destroy(&engine);
}

static void run_cases(bool no_fast_path, bool cut)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build(&cases[i]);
        run_cut(&cases[i], no_fast_path, cut ? 1 : wire.len, 1);
        for (size_t at = 0; cut && at < wire.len; at++)
            run_cut(&cases[i], no_fast_path, at, wire.len);
    }
}

static void frames_in_one_piece_make_the_expected_events(void **state)
{
    (void)state;
    run_cases(false, false);
}

static void frames_cut_at_every_byte_make_the_expected_events(void **state)
{
    (void)state;
    run_cases(false, true);
}

static void wslay_alone_makes_the_expected_events(void **state)
{
    (void)state;
    run_cases(true, false);
}

static void wslay_alone_makes_the_expected_events_cut_at_every_byte(void **state)
{
    (void)state;
    run_cases(true, true);
}

/* ---- as early as possible */

static void a_header_shows_its_fault_with_the_first_byte_that_has_it(void **state)
{
    (void)state;
    static const struct {
        const char *bytes; /* the last of them is the one too many */
        size_t len;
    } headers[] = {
        {"\xc1", 1},
        {"\xa2", 1},
        {"\x91", 1},
        {"\x83", 1},
        {"\x8b", 1},
        {"\x09", 1},
        {"\x08", 1},
        {"\x81\x05", 2},
        {"\x89\xfe", 2},
        {"\x88\xff", 2},
        {"\x82\xfe\0\x7d\1\2\3\4", 8},
        {"\x82\xff\0\0\0\0\0\0\xff\xff\1\2\3\4", 14},
        {"\x82\xff\x80\0\0\0\0\1\0\0\1\2\3\4", 14},
        {"\x80\x81\1\2\3\4", 6},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct ioh__ws_engine engine;
        ioh__ws_engine_init(&engine);
        wire.len = headers[i].len;
        memcpy(wire.bytes, headers[i].bytes, headers[i].len);
        struct client c = connect_client(&engine, &wire);
        for (size_t k = 1; k < headers[i].len; k++) {
            arrive(&c, 1);
            assert_string_equal(c.log.text, "");
            assert_null(c.ws.loan);
        }
        arrive(&c, 1);
        assert_string_equal(c.log.text, "fault 1002\n");
        ioh__ws_engine_destroy(&engine);
    }
}

static void bad_text_in_a_large_frame_is_refused_before_its_end(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put_header(&wire, FIN | TEXT, 100000, 0);
    size_t header = wire.len;
    memset(wire.bytes + wire.len, 'a', 5001);
    ioh__mask(wire.bytes + wire.len, 5000, key, 0); /* the byte behind them is not masked: bad */
    wire.bytes[header + 5000] = 0xff ^ key[5000 % 4];
    struct client c = connect_client(&engine, &wire);
    c.max_message = 100000;
    arrive(&c, header + 5000);
    assert_string_equal(c.log.text, "");
    arrive(&c, 1);
    assert_string_equal(c.log.text, "fault 1007\n");
    ioh__ws_engine_destroy(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_in_one_piece_make_the_expected_events),
        cmocka_unit_test(frames_cut_at_every_byte_make_the_expected_events),
        cmocka_unit_test(wslay_alone_makes_the_expected_events),
        cmocka_unit_test(wslay_alone_makes_the_expected_events_cut_at_every_byte),
        cmocka_unit_test(a_header_shows_its_fault_with_the_first_byte_that_has_it),
        cmocka_unit_test(bad_text_in_a_large_frame_is_refused_before_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Compressed messages in the receiving WebSocket engine (RFC 7692 6.2): by both paths, cut at every byte; what a
 * connection holds for them; memory that is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "proto/ws_engine.h"
#include "ws_client.h"

/* ---- memory that runs out when told: the n-th request from now fails; 0: none */

static size_t fail_at, requests;
static long inflaters; /* of zlib's, that live */

int __real_inflateEnd(z_streamp stream);

int __wrap_inflateEnd(z_streamp stream)
{
    inflaters--;
    return __real_inflateEnd(stream);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
int __real_inflateInit2_(z_streamp stream, int bits, const char *version, int size);

static bool refuse(void)
{
    requests++;
    return fail_at > 0 && --fail_at == 0;
}

void *__wrap_malloc(size_t size)
{
    return fail_at && refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuse() ? NULL : __real_realloc(old, size);
}

int __wrap_inflateInit2_(z_streamp stream, int bits, const char *version, int size)
{
    if (refuse())
        return Z_MEM_ERROR;
    inflaters++;
    return __real_inflateInit2_(stream, bits, version, size);
}

/* ---- cases */

static const struct ioh__deflate_terms alone = {.server_bits = 15, .client_bits = 15};
static const struct ioh__deflate_terms kept = {
    .server_bits = 15,
    .client_bits = 15,
    .flags = IOH__DEFLATE_SERVER_KEEPS | IOH__DEFLATE_CLIENT_KEEPS,
};
static const struct ioh__deflate_terms nothing;

struct frame {
    int b0;
    const char *payload;
    size_t len;
};

#define F(b0, s)                 \
    {                            \
        (b0), (s), sizeof(s) - 1 \
    }

struct ws_case {
    const struct ioh__deflate_terms *terms;
    struct frame frames[6];
    const char *events;
};

#define HELLO "\xf2\x48\xcd\xc9\xc9\x07\x00"      /* RFC 7692 7.2.3.1 */
#define HELLO_LAST "\xf3\x48\xcd\xc9\xc9\x07\x00" /* its block is marked as the last */
#define AGAIN "\xf2\x00\x11\x00\x00"              /* the same as the five bytes before */
#define THOUSAND "\x4a\x4c\x1c\x05\xa3\x60\x14\x0c\x77\x00\x00"     /* 1,000 times a, */
#define THOUSAND_ONE "\x4a\x4c\x1c\x05\xa3\x60\x14\x0c\x7b\x00\x00" /* and once more */
#define C3_28 "\x3a\xac\x01\x00"
#define E2_82 "\x7a\xd4\x04\x00"

static const struct ws_case cases[] = {
    {&alone, {F(FIN | RSV1 | TEXT, HELLO)}, "text Hello\n"},
    {&alone, {F(FIN | RSV1 | BINARY, HELLO), F(FIN | TEXT, "plain")}, "binary Hello\ntext plain\n"},
    {&alone,
     {F(RSV1 | TEXT, "\xf2\x48"), F(FIN | PING, "p"), F(CONT, ""), F(CONT, "\xcd\xc9\xc9\x07"),
      F(FIN | CONT, "\x00")},
     "ping p\ntext Hello\n"},
    {&alone, {F(RSV1 | TEXT, ""), F(CONT, HELLO), F(FIN | CONT, "")}, "text Hello\n"},
    {&alone,
     {F(FIN | RSV1 | TEXT, HELLO_LAST "\x00"), F(FIN | RSV1 | TEXT, HELLO_LAST),
      F(FIN | RSV1 | TEXT, HELLO_LAST HELLO)},
     "text Hello\ntext Hello\ntext HelloHello\n"},
    {&alone, {F(FIN | RSV1 | TEXT, "\x00"), F(FIN | RSV1 | BINARY, "\x00")}, "text \nbinary \n"},
    {&alone, {F(FIN | PONG, ""), F(FIN | RSV1 | TEXT, HELLO)}, "pong \ntext Hello\n"},
    {&alone, {F(FIN | RSV1 | TEXT, THOUSAND)}, "text 1000 bytes\n"},
    {&alone,
     {F(RSV1 | BINARY, HELLO), F(FIN | CLOSE, "\x03\xe8"), F(FIN | CONT, HELLO)},
     "close 1000 \n"},
    {&kept,
     {F(FIN | RSV1 | TEXT, HELLO), F(FIN | TEXT, "World"), F(FIN | RSV1 | TEXT, AGAIN),
      F(FIN | RSV1 | BINARY, AGAIN)},
     "text Hello\ntext World\ntext Hello\nbinary Hello\n"},
    {&kept,
     {F(RSV1 | TEXT, "\xf2\x48\xcd\xc9"), F(FIN | CONT, "\xc9\x07\x00"), F(RSV1 | TEXT, "\xf2\x00"),
      F(FIN | CONT, "\x11\x00\x00")},
     "text Hello\ntext Hello\n"},
    {&kept,
     {F(FIN | RSV1 | TEXT, HELLO_LAST "\x00"), F(FIN | RSV1 | TEXT, AGAIN)},
     "text Hello\ntext Hello\n"},
    {&kept,
     {F(FIN | RSV1 | TEXT, HELLO_LAST), F(FIN | RSV1 | TEXT, AGAIN)},
     "text Hello\ntext Hello\n"},

    /* what cannot be inflated */
    {&alone,
     {F(FIN | RSV1 | TEXT, HELLO), F(FIN | RSV1 | TEXT, AGAIN)},
     "text Hello\nfault 1007\n"},
    {&kept, {F(FIN | RSV1 | TEXT, AGAIN)}, "fault 1007\n"},
    {&alone, {F(FIN | RSV1 | BINARY, "\xff\xff\xff")}, "fault 1007\n"},
    {&alone, {F(FIN | RSV1 | BINARY, "\xf2\x48\xcd")}, "fault 1007\n"},
    {&alone, {F(FIN | RSV1 | BINARY, "")}, "fault 1007\n"},
    {&kept,
     {F(FIN | RSV1 | BINARY, HELLO_LAST), F(FIN | RSV1 | TEXT, "")},
     "binary Hello\nfault 1007\n"},
    {&alone, {F(RSV1 | BINARY, "\x06"), F(FIN | PING, "")}, "fault 1007\n"},

    /* text that is not */
    {&alone, {F(FIN | RSV1 | TEXT, C3_28)}, "fault 1007\n"},
    {&alone, {F(FIN | RSV1 | TEXT, E2_82)}, "fault 1007\n"},
    {&alone,
     {F(FIN | RSV1 | BINARY, C3_28), F(FIN | RSV1 | BINARY, E2_82)},
     "binary \xc3(\nbinary \xe2\x82\n"},

    /* more than the limit of 1000 when it is inflated */
    {&alone, {F(FIN | RSV1 | BINARY, THOUSAND_ONE)}, "fault 1009\n"},
    {&alone, {F(RSV1 | BINARY, THOUSAND_ONE "\x00\x00\xff\xff")}, "fault 1009\n"},
    {&kept,
     {F(FIN | RSV1 | BINARY, THOUSAND), F(FIN | RSV1 | BINARY, THOUSAND_ONE)},
     "binary 1000 bytes\nfault 1009\n"},

    /* RSV1 where it has no place (RFC 7692 6.1) */
    {&nothing, {F(FIN | RSV1 | TEXT, HELLO)}, "fault 1002\n"},
    {&alone, {F(FIN | RSV1 | PING, "")}, "fault 1002\n"},
    {&alone, {F(FIN | RSV1 | CLOSE, "\x03\xe8")}, "fault 1002\n"},
    {&alone, {F(RSV1 | TEXT, HELLO), F(FIN | RSV1 | CONT, "")}, "fault 1002\n"},
    {&alone, {F(TEXT, "a"), F(FIN | RSV1 | CONT, HELLO)}, "fault 1002\n"},
    {&alone, {F(FIN | RSV1 | CONT, HELLO)}, "fault 1002\n"},
    {&alone, {F(RSV1 | TEXT, HELLO), F(FIN | RSV1 | TEXT, HELLO)}, "fault 1002\n"},
    {&alone, {F(FIN | RSV1 | RSV2 | TEXT, HELLO)}, "fault 1002\n"},
    {&alone, {F(FIN | RSV3 | TEXT, "a")}, "fault 1002\n"},
};

static void build(const struct ws_case *c)
{
    wire.len = 0;
    for (size_t i = 0; i < 6 && c->frames[i].payload; i++)
        put(&wire, c->frames[i].b0, c->frames[i].payload, c->frames[i].len, 0);
}

static void run_cut(const struct ws_case *c, bool no_fast_path, size_t cut, size_t step)
{
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    engine.no_fast_path = no_fast_path;
    struct client client = connect_client(&engine, &wire);
    client.ws.terms = *c->terms;
    arrive(&client, cut);
    while (client.end < wire.len)
        arrive(&client, wire.len - client.end < step ? wire.len - client.end : step);
    if (strcmp(client.log.text, c->events) != 0)
        fail_msg("case %td, cut %zu, step %zu, %s:\n%sinstead of\n%s", c - cases, cut, step,
                 no_fast_path ? "wslay" : "fast", client.log.text, c->events);
    assert_int_equal(client.at, wire.len);
    assert_int_equal(engine.lent, 0);
    leave(&client);
    assert_int_equal(engine.contexts.own_count, 0);
    ioh__ws_engine_destroy(&engine);
    assert_int_equal(inflaters, 0);
}

static void run_cases(bool no_fast_path)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build(&cases[i]);
        run_cut(&cases[i], no_fast_path, wire.len, 1);
        run_cut(&cases[i], no_fast_path, 1, 1);
        for (size_t at = 0; at < wire.len; at++)
            run_cut(&cases[i], no_fast_path, at, wire.len);
    }
}

static void compressed_frames_make_the_expected_events(void **state)
{
    (void)state;
    run_cases(false);
}

static void by_wslay_they_make_the_same(void **state)
{
    (void)state;
    run_cases(true);
}

/* ---- what connections hold */

static void connect_to(struct client *c, struct ioh__ws_engine *engine,
                       const struct ioh__deflate_terms *terms)
{
    *c = connect_client(engine, &wire);
    c->ws.terms = *terms;
}

static void between_messages_a_connection_holds_nothing(void **state)
{
    struct ioh__ws_engine engine;
    static struct client clients[20];
    (void)state;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, FIN | RSV1 | TEXT, HELLO, 7, 0);
    for (int i = 0; i < 20; i++) {
        connect_to(&clients[i], &engine, &alone);
        arrive(&clients[i], wire.len);
        assert_string_equal(clients[i].log.text, "text Hello\n");
        assert_null(clients[i].ws.loan);
        assert_int_equal(clients[i].ws.own, 0);
    }
    assert_int_equal(engine.contexts.idle_count, 1); /* one for all of them */
    assert_int_equal(engine.contexts.own_room, 0);
    ioh__ws_engine_destroy(&engine);
}

static void messages_of_many_may_be_under_way_at_once(void **state)
{
    struct ioh__ws_engine engine;
    static struct client clients[20];
    (void)state;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, RSV1 | TEXT, HELLO, 4, 0);
    size_t half = wire.len;
    put(&wire, FIN | CONT, &HELLO[4], 3, 0);
    for (int i = 0; i < 20; i++) {
        connect_to(&clients[i], &engine, &alone);
        arrive(&clients[i], half);
    }
    for (int i = 0; i < 19; i++) {
        arrive(&clients[i], wire.len - half);
        assert_string_equal(clients[i].log.text, "text Hello\n");
    }
    assert_int_equal(engine.contexts.idle_count, IOH__INFLATERS_KEPT);
    leave(&clients[19]); /* in the middle */
    assert_int_equal(engine.lent, 0);
    ioh__ws_engine_destroy(&engine);
}

static void contexts_are_each_connections_own(void **state)
{
    enum { MANY = 40 }; /* the table grows on the way */
    struct ioh__ws_engine engine;
    static struct client clients[MANY];
    (void)state;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, FIN | RSV1 | TEXT, HELLO, 7, 0);
    put(&wire, FIN | RSV1 | TEXT, AGAIN, 5, 0);
    for (int i = 0; i < MANY; i++) {
        connect_to(&clients[i], &engine, &kept);
        arrive(&clients[i], 13);
        assert_int_equal(engine.contexts.own_count, i + 1);
    }
    for (int i = 0; i < MANY; i += 2) {
        leave(&clients[i]);
        assert_int_equal(clients[i].ws.own, 0);
    }
    assert_int_equal(engine.contexts.own_count, MANY / 2);
    for (int i = 0; i < MANY; i += 2) { /* a newcomer does not find what another left */
        connect_to(&clients[i], &engine, &kept);
        clients[i].at = clients[i].end = 13;
        arrive(&clients[i], wire.len - 13);
        assert_string_equal(clients[i].log.text, "fault 1007\n");
    }
    for (int i = 1; i < MANY; i += 2) {
        arrive(&clients[i], wire.len - 13);
        assert_string_equal(clients[i].log.text, "text Hello\ntext Hello\n");
    }
    for (int i = 0; i < MANY; i++)
        leave(&clients[i]);
    assert_int_equal(engine.contexts.own_count, 0);
    ioh__ws_engine_destroy(&engine);
}

/* 1,000 bytes become a hundred million: never is there more than the limit and one byte. */
static void a_bomb_needs_no_more_than_the_limit(void **state)
{
    static uint8_t zeros[1 << 16];
    struct ioh__ws_engine engine;
    z_stream s = {0};
    (void)state;
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 9, 0), Z_OK);
    static uint8_t bomb[120000];
    s.next_out = bomb;
    s.avail_out = sizeof bomb;
    for (int i = 0; i < 1600; i++) {
        s.next_in = zeros;
        s.avail_in = sizeof zeros;
        assert_int_equal(deflate(&s, i == 1599 ? Z_SYNC_FLUSH : Z_NO_FLUSH), Z_OK);
    }
    size_t len = sizeof bomb - s.avail_out - 4;
    deflateEnd(&s);
    for (int path = 0; path < 2; path++) {
        ioh__ws_engine_init(&engine);
        engine.no_fast_path = path;
        wire.len = 0;
        put(&wire, FIN | RSV1 | BINARY, (const char *)bomb, len, 0);
        struct client c;
        connect_to(&c, &engine, &alone);
        c.max_message = 5000000;
        arrive(&c, wire.len);
        assert_string_equal(c.log.text, "fault 1009\n");
        ioh__ws_engine_destroy(&engine);
    }
}

/* ---- memory that is short */

static void short_memory_ends_the_websocket_with_1011(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++)
        for (size_t n = 1;; n++) {
            struct ioh__ws_engine engine;
            struct client c;
            ioh__ws_engine_init(&engine);
            wire.len = 0;
            put(&wire, FIN | RSV1 | TEXT, HELLO_LAST, 7, 0);
            put(&wire, FIN | RSV1 | BINARY, THOUSAND, 11, 0);
            connect_to(&c, &engine, keeps ? &kept : &alone);
            uint8_t given[100];
            struct ioh__ws_event event;
            size_t at = 0, used;
            memcpy(given, wire.bytes, wire.len);
            fail_at = n;
            do {
                ioh__ws_feed(&engine, &c.ws, given + at, wire.len - at, 1000, &used, &event);
                at += used;
            } while (event.kind == IOH__WS_MESSAGE);
            bool failed = fail_at == 0;
            fail_at = 0;
            assert_int_equal(event.kind, failed ? IOH__WS_FAULT : IOH__WS_MORE);
            if (failed)
                assert_int_equal(event.code, 1011);
            ioh__ws_release(&engine, &c.ws);
            assert_int_equal(engine.lent, 0);
            assert_int_equal(engine.contexts.own_count, 0);
            ioh__ws_engine_destroy(&engine);
            if (!failed) {
                assert_true(n > 4);
                break;
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_frames_make_the_expected_events),
        cmocka_unit_test(by_wslay_they_make_the_same),
        cmocka_unit_test(between_messages_a_connection_holds_nothing),
        cmocka_unit_test(messages_of_many_may_be_under_way_at_once),
        cmocka_unit_test(contexts_are_each_connections_own),
        cmocka_unit_test(a_bomb_needs_no_more_than_the_limit),
        cmocka_unit_test(short_memory_ends_the_websocket_with_1011),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

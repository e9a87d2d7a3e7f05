/* WebSocket frame headers (RFC 6455 5.2, 7.4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ws_frame.h"

struct header_case {
    uint8_t bytes[IOH__WS_HEADER_MAX];
    struct ioh__ws_header expected;
};

/* The first six are the examples of RFC 6455 5.7. */
static const struct header_case header_cases[] = {
    {{0x81, 0x05}, {.op = 1, .fin = true, .len = 2, .payload = 5}},
    {{0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d},
     {.op = 1,
      .fin = true,
      .masked = true,
      .len = 6,
      .key = {0x37, 0xfa, 0x21, 0x3d},
      .payload = 5}},
    {{0x01, 0x03}, {.op = 1, .len = 2, .payload = 3}},
    {{0x80, 0x02}, {.op = 0, .fin = true, .len = 2, .payload = 2}},
    {{0x82, 0x7e, 0x01, 0x00}, {.op = 2, .fin = true, .len = 4, .payload = 256}},
    {{0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0}, {.op = 2, .fin = true, .len = 10, .payload = 65536}},
    {{0x8a, 0x80, 1, 2, 3, 4},
     {.op = 10, .fin = true, .masked = true, .len = 6, .key = {1, 2, 3, 4}}},
    {{0x82, 0xfe, 0xff, 0xff, 9, 8, 7, 6},
     {.op = 2, .fin = true, .masked = true, .len = 8, .key = {9, 8, 7, 6}, .payload = 65535}},
    {{0x82, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6},
     {.op = 2,
      .fin = true,
      .masked = true,
      .len = 14,
      .key = {9, 8, 7, 6},
      .payload = 0x0102030405060708}},
    /* not judged here: all reserved bits, a long form for nothing, the top bit of the length */
    {{0x7f, 0x00}, {.op = 15, .rsv = 7, .len = 2}},
    {{0x41, 0x00}, {.op = 1, .rsv = 4, .len = 2}},
    {{0x11, 0x00}, {.op = 1, .rsv = 1, .len = 2}},
    {{0x82, 0x7e, 0, 0}, {.op = 2, .fin = true, .len = 4}},
    {{0x82, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
     {.op = 2, .fin = true, .len = 10, .payload = UINT64_MAX}},
};

static void headers_are_read_as_they_stand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof header_cases / sizeof header_cases[0]; i++) {
        const struct header_case *c = &header_cases[i];
        struct ioh__ws_header h;
        memset(&h, 0xee, sizeof h);
        assert_true(ioh__ws_header_read(c->bytes, c->expected.len, &h));
        assert_int_equal(h.op, c->expected.op);
        assert_int_equal(h.fin, c->expected.fin);
        assert_int_equal(h.masked, c->expected.masked);
        assert_int_equal(h.rsv, c->expected.rsv);
        assert_int_equal(h.len, c->expected.len);
        assert_memory_equal(h.key, c->expected.key, 4);
        assert_true(h.payload == c->expected.payload);
    }
}

static void a_header_that_is_cut_anywhere_is_not_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof header_cases / sizeof header_cases[0]; i++) {
        for (size_t len = 0; len < header_cases[i].expected.len; len++) {
            struct ioh__ws_header h;
            uint8_t *cut = malloc(len ? len : 1);
            assert_non_null(cut);
            memcpy(cut, header_cases[i].bytes, len);
            assert_false(ioh__ws_header_read(cut, len, &h));
            free(cut);
        }
    }
}

static void bytes_behind_a_header_do_not_matter(void **state)
{
    (void)state;
    struct ioh__ws_header h;
    uint8_t bytes[40];
    memset(bytes, 0xff, sizeof bytes);
    memcpy(bytes, header_cases[0].bytes, 2);
    assert_true(ioh__ws_header_read(bytes, sizeof bytes, &h));
    assert_int_equal(h.len, 2);
    assert_true(h.payload == 5);
}

static void written_headers_have_the_shortest_length(void **state)
{
    (void)state;
    static const struct {
        uint64_t payload;
        size_t len;
    } cases[] = {
        {0, 2},     {1, 2},      {125, 2},         {126, 4},         {127, 4},
        {65535, 4}, {65536, 10}, {UINT32_MAX, 10}, {1ull << 32, 10}, {INT64_MAX, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int op = 0; op < 16; op++) {
            uint8_t out[IOH__WS_SERVER_HEADER_MAX + 1];
            struct ioh__ws_header h;
            memset(out, 0xee, sizeof out);
            assert_int_equal(ioh__ws_header_write(out, op, cases[i].payload), cases[i].len);
            assert_int_equal(out[cases[i].len], 0xee);
            assert_true(ioh__ws_header_read(out, cases[i].len, &h));
            assert_int_equal(h.op, op);
            assert_true(h.fin);
            assert_false(h.masked);
            assert_int_equal(h.rsv, 0);
            assert_int_equal(h.len, cases[i].len);
            assert_true(h.payload == cases[i].payload);
        }
    }
}

static void only_codes_that_may_be_sent_are_valid_in_a_close_frame(void **state)
{
    (void)state;
    static const struct {
        int from, to;
        bool valid;
    } ranges[] = {
        {-1, 999, false},    {1000, 1003, true}, {1004, 1006, false},  {1007, 1014, true},
        {1015, 2999, false}, {3000, 4999, true}, {5000, 65535, false},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        for (int code = ranges[i].from; code <= ranges[i].to; code++)
            assert_int_equal(ioh__ws_close_code_valid(code), ranges[i].valid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_read_as_they_stand),
        cmocka_unit_test(a_header_that_is_cut_anywhere_is_not_whole),
        cmocka_unit_test(bytes_behind_a_header_do_not_matter),
        cmocka_unit_test(written_headers_have_the_shortest_length),
        cmocka_unit_test(only_codes_that_may_be_sent_are_valid_in_a_close_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

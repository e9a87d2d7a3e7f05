/* UTF-8 against a list made by encoding every code point (RFC 3629 3, 4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/utf8.h"

/* ---- what is valid: bit sets of all beginnings of characters, of one to four bytes */

struct known {
    uint8_t one[1 << 8 >> 3], two[1 << 16 >> 3], three[1 << 24 >> 3];
};

static struct known begins; /* some character begins with these bytes */
static struct known whole;  /* these bytes are a character */

static void set(uint8_t *bits, uint32_t i)
{
    bits[i >> 3] |= (uint8_t)(1u << (i & 7));
}

static bool get(const uint8_t *bits, uint32_t i)
{
    return bits[i >> 3] >> (i & 7) & 1;
}

static size_t encode(uint32_t point, uint8_t out[4])
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    size_t len = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, point >>= 6)
        out[i] = (uint8_t)(0x80 | (point & 0x3f));
    out[0] = (uint8_t)((0xf00u >> len & 0xff) | point);
    return len;
}

static bool is_scalar(uint32_t point)
{
    return point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
}

static int learn(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        uint8_t c[4];
        if (!is_scalar(point))
            continue;
        size_t len = encode(point, c);
        set(len == 1 ? whole.one : begins.one, c[0]);
        if (len > 1)
            set(len == 2 ? whole.two : begins.two, (uint32_t)c[0] << 8 | c[1]);
        if (len > 2)
            set(len == 3 ? whole.three : begins.three,
                (uint32_t)c[0] << 16 | (uint32_t)c[1] << 8 | c[2]);
    }
    return 0;
}

/* ---- the tests */

static void every_code_point_is_valid_and_every_beginning_of_it_may_go_on(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        uint8_t c[4];
        bool broken;
        if (!is_scalar(point))
            continue;
        size_t len = encode(point, c);
        assert_true(ioh__utf8_valid(c, len));
        for (size_t n = 1; n < len; n++) {
            assert_int_equal(ioh__utf8_whole(c, n, &broken), 0);
            assert_false(broken);
        }
    }
}

static void no_byte_alone_is_more_than_the_list_says(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1u << 8; i++) {
        uint8_t c[1] = {(uint8_t)i};
        bool broken;
        size_t n = ioh__utf8_whole(c, 1, &broken);
        assert_int_equal(n, get(whole.one, i));
        assert_int_equal(broken, !get(whole.one, i) && !get(begins.one, i));
        assert_int_equal(ioh__utf8_valid(c, 1), n == 1);
    }
}

static void no_two_bytes_are_more_than_the_list_says(void **state)
{
    (void)state;
    for (uint32_t i = 0x8000; i < 1u << 16; i++) { /* the first is not ASCII */
        uint8_t c[2] = {(uint8_t)(i >> 8), (uint8_t)i};
        bool broken;
        size_t n = ioh__utf8_whole(c, 2, &broken);
        assert_int_equal(n, get(whole.two, i) ? 2 : 0);
        assert_int_equal(broken, !get(whole.two, i) && !get(begins.two, i));
    }
}

static void no_three_bytes_are_more_than_the_list_says(void **state)
{
    (void)state;
    for (uint32_t i = 0xe00000; i < 1u << 24; i++) { /* two-byte characters are done above */
        uint8_t c[3] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
        bool broken;
        size_t n = ioh__utf8_whole(c, 3, &broken);
        bool good = get(whole.three, i);
        if (n != (good ? 3 : 0) || broken != (!good && !get(begins.three, i)))
            fail_msg("%06x: %zu %d", i, n, broken);
    }
}

static void four_bytes_are_valid_only_with_four_good_ones(void **state)
{
    (void)state;
    for (uint32_t i = 0xf00000; i < 1u << 24; i += 13) {
        for (uint32_t last = 0x70; last < 0xd0; last++) {
            uint8_t c[4] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i, (uint8_t)last};
            bool good = get(begins.three, i) && last >= 0x80 && last <= 0xbf;
            if (ioh__utf8_valid(c, 4) != good)
                fail_msg("%06x%02x", i, last);
        }
    }
}

static void above_the_last_code_point_nothing_is_valid(void **state)
{
    (void)state;
    for (unsigned lead = 0xf5; lead <= 0xff; lead++) {
        uint8_t c[] = {(uint8_t)lead, 0x80, 0x80, 0x80, 0x80, 0x80};
        assert_false(ioh__utf8_valid(c, 4));
        assert_false(ioh__utf8_valid(c, 5));
        assert_false(ioh__utf8_valid(c, 6));
    }
}

/* The word-wise part must not step over anything: each thing at each place of a long ASCII text. */
static void a_character_and_a_fault_are_seen_at_every_place(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bool valid;
    } things[] = {
        {"\xc3\xa9", true},  {"\xe2\x82\xac", true},  {"\xf0\x9f\x99\x82", true},
        {"\x7f", true},      {"\x80", false},         {"\xff", false},
        {"\xc0\xaf", false}, {"\xed\xa0\x80", false}, {"\xc3", false},
        {"\xe2\x82", false}, {"\xf0\x9f\x99", false}, {"\xf4\x90\x80\x80", false},
    };
    for (size_t t = 0; t < sizeof things / sizeof things[0]; t++) {
        size_t n = strlen(things[t].bytes);
        for (size_t len = n; len < 90; len++) {
            char *text = malloc(len); /* of exactly this size: a read beyond it is seen */
            assert_non_null(text);
            for (size_t at = 0; at + n <= len; at++) {
                bool broken;
                memset(text, 'a', len);
                memcpy(text + at, things[t].bytes, n);
                assert_int_equal(ioh__utf8_valid(text, len), things[t].valid);
                size_t whole_len = ioh__utf8_whole(text, len, &broken);
                assert_int_equal(whole_len, things[t].valid ? len : at);
            }
            free(text);
        }
    }
}

static void an_empty_text_is_valid(void **state)
{
    (void)state;
    bool broken;
    assert_true(ioh__utf8_valid("", 0));
    assert_int_equal(ioh__utf8_whole("", 0, &broken), 0);
    assert_false(broken);
}

static void a_nul_byte_is_a_character(void **state)
{
    (void)state;
    assert_true(ioh__utf8_valid("a\0b", 3));
}

/* ---- by vectors as by bytes */

#if IOH__UTF8_VECTORS
static void expect_equal(const uint8_t *text, size_t len)
{
    bool slow_broken, fast_broken;
    size_t slow = ioh__utf8_whole_by_bytes(text, len, &slow_broken);
    size_t fast = ioh__utf8_whole_by_avx2(text, len, &fast_broken);
    if (slow != fast || slow_broken != fast_broken) {
        for (size_t i = 0; i < len; i++)
            print_error("%02x", text[i]);
        fail_msg(" of %zu: %zu %d, by vectors %zu %d", len, slow, slow_broken, fast, fast_broken);
    }
}

static bool no_avx2(void)
{
    if (__builtin_cpu_supports("avx2"))
        return false;
    print_message("no AVX2 here\n");
    return true;
}

/* Each byte at which a range of the table begins or ends. */
static const uint8_t edges[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
                                0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
enum { EDGES = sizeof edges };

/* Any four such bytes, around each place where vectors and blocks meet, in ASCII and between other characters. */
static void four_bytes_of_any_kind_are_seen_alike_at_the_seams(void **state)
{
    static const size_t places[] = {0, 29, 31, 61, 62, 63, 64, 95, 124};
    static const char *const around[] = {"a", "\xc3\xa9", "\xe2\x82\xac"};
    (void)state;
    if (no_avx2())
        return;
    uint8_t text[128];
    for (uint32_t i = 0; i < EDGES * EDGES * EDGES * EDGES; i++) {
        const uint8_t four[4] = {edges[i % EDGES], edges[i / EDGES % EDGES],
                                 edges[i / EDGES / EDGES % EDGES],
                                 edges[i / EDGES / EDGES / EDGES]};
        size_t at = places[i % (sizeof places / sizeof *places)];
        const char *filling = around[i % 7 % 3];
        size_t n = strlen(filling), from = at % n;
        memset(text, 'a', sizeof text);
        for (size_t k = from; k + n <= sizeof text; k += n)
            memcpy(text + k, filling, n);
        memcpy(text + at, four, 4);
        expect_equal(text, sizeof text);
    }
}

static void a_text_is_seen_alike_at_every_length_and_with_a_fault_at_every_place(void **state)
{
    static const char sample[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\x7f\xed\x9f\xbf\xee\x80\x80"
                                 "\xf4\x8f\xbf\xbf\xe0\xa0\x80\xf0\x90\x80\x80\xdf\xbf";
    (void)state;
    if (no_avx2())
        return;
    for (size_t len = 0; len <= 300; len++) {
        uint8_t *text = malloc(len + 1); /* a read beyond it is seen */
        assert_non_null(text);
        uint8_t *end = text + 1;
        for (size_t i = 0; i < len; i++)
            end[i] = (uint8_t)sample[i % (sizeof sample - 1)];
        expect_equal(end, len);
        for (size_t at = 0; at < len; at++) {
            uint8_t was = end[at];
            end[at] = edges[(at + len) % EDGES];
            expect_equal(end, len);
            end[at] = was;
        }
        free(text);
    }
}

static void random_texts_are_seen_alike(void **state)
{
    uint32_t x = 1;
    uint8_t text[256];
    (void)state;
    if (no_avx2())
        return;
    for (int round = 0; round < 100000; round++) {
        size_t len = 0;
        while (len < 200) {
            x = x * 1664525u + 1013904223u;
            uint32_t point = (x >> 8) % (round % 3 == 0   ? 0x11000u
                                         : round % 3 == 1 ? 0x900u
                                                          : 0x110400u);
            len += encode(point, text + len); /* surrogates, and some beyond the last */
        }
        expect_equal(text, len);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_valid_and_every_beginning_of_it_may_go_on),
        cmocka_unit_test(no_byte_alone_is_more_than_the_list_says),
        cmocka_unit_test(no_two_bytes_are_more_than_the_list_says),
        cmocka_unit_test(no_three_bytes_are_more_than_the_list_says),
        cmocka_unit_test(four_bytes_are_valid_only_with_four_good_ones),
        cmocka_unit_test(above_the_last_code_point_nothing_is_valid),
        cmocka_unit_test(a_character_and_a_fault_are_seen_at_every_place),
        cmocka_unit_test(an_empty_text_is_valid),
        cmocka_unit_test(a_nul_byte_is_a_character),
#if IOH__UTF8_VECTORS
        cmocka_unit_test(four_bytes_of_any_kind_are_seen_alike_at_the_seams),
        cmocka_unit_test(a_text_is_seen_alike_at_every_length_and_with_a_fault_at_every_place),
        cmocka_unit_test(random_texts_are_seen_alike),
#endif
    };
    return cmocka_run_group_tests(tests, learn, NULL);
}

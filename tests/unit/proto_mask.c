/* WebSocket masking against the definition, byte by byte (RFC 6455 5.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mask.h"

enum { LEN_MAX = 300, PLACES = 16, GUARD = 8 };

static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};

static void fill(uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 31 + 7);
}

/* What the whole array must be after data[from..to) was masked. */
static void expect_masked(const uint8_t *data, size_t size, size_t from, size_t to, size_t phase)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(i * 31 + 7);
        if (i >= from && i < to)
            byte ^= key[(phase + i - from) % 4];
        assert_int_equal(data[i], byte);
    }
}

static void every_length_place_and_phase_is_masked_as_the_rfc_says(void **state)
{
    (void)state;
    uint8_t data[PLACES + LEN_MAX + GUARD];
    for (size_t len = 0; len <= LEN_MAX; len++) {
        for (size_t at = 0; at < PLACES; at++) {
            for (size_t phase = 0; phase < 4; phase++) {
                fill(data, sizeof data);
                ioh__mask(data + at, len, key, phase);
                expect_masked(data, sizeof data, at, at + len, phase);
            }
        }
    }
}

static void a_masked_copy_leaves_its_source_alone(void **state)
{
    (void)state;
    uint8_t from[PLACES + LEN_MAX], to[PLACES + LEN_MAX + GUARD];
    fill(from, sizeof from);
    for (size_t len = 0; len <= LEN_MAX; len++) {
        for (size_t at = 0; at < PLACES; at++) {
            fill(to, sizeof to);
            ioh__mask_copy(to + at, from + at, len, key, len);
            expect_masked(to, sizeof to, at, at + len, len);
            expect_masked(from, sizeof from, 0, 0, 0);
        }
    }
}

static void pieces_with_their_phase_make_the_whole(void **state)
{
    (void)state;
    uint8_t data[LEN_MAX];
    for (size_t step = 1; step < LEN_MAX; step++) {
        fill(data, sizeof data);
        for (size_t at = 0; at < sizeof data; at += step) {
            size_t n = sizeof data - at < step ? sizeof data - at : step;
            ioh__mask(data + at, n, key, at);
        }
        expect_masked(data, sizeof data, 0, sizeof data, 0);
    }
}

static void the_masked_hello_of_the_rfc_is_hello(void **state)
{
    (void)state;
    uint8_t data[] = {0x7f, 0x9f, 0x4d, 0x51, 0x58}; /* RFC 6455 5.7 */
    ioh__mask(data, sizeof data, key, 0);
    assert_memory_equal(data, "Hello", 5);
}

/* What a processor without vectors does. */
static void by_words_the_same_comes_out(void **state)
{
    (void)state;
    uint8_t data[LEN_MAX + GUARD];
    for (size_t len = 0; len <= LEN_MAX; len++) {
        fill(data, sizeof data);
        ioh__mask_by_words(data, data, len, key, len);
        expect_masked(data, sizeof data, 0, len, len);
    }
}

/* One byte beyond ASCII at every place: what is said to be ASCII ends before it, and less than a block. */
static void text_is_told_how_far_it_is_ascii(void **state)
{
    (void)state;
    uint8_t data[LEN_MAX], again[LEN_MAX];
    for (size_t len = 0; len <= LEN_MAX; len++) {
        for (size_t at = 0; at <= len; at++) { /* at == len: none */
            memset(data, 'a', len);
            if (at < len)
                data[at] = 0xc3;
            ioh__mask(data, len, key, 0);
            memcpy(again, data, len);
            size_t ascii = ioh__mask_text(data, len, key);
            assert_true(ascii <= at && ascii + 128 > at);
            assert_int_equal(ascii == len, at == len);
            assert_true(ioh__mask_by_words(again, again, len, key, 0) <= at);
            assert_memory_equal(data, again, len);
            for (size_t i = 0; i < len; i++)
                assert_int_equal(data[i], i == at ? 0xc3 : 'a');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_place_and_phase_is_masked_as_the_rfc_says),
        cmocka_unit_test(a_masked_copy_leaves_its_source_alone),
        cmocka_unit_test(pieces_with_their_phase_make_the_whole),
        cmocka_unit_test(the_masked_hello_of_the_rfc_is_hello),
        cmocka_unit_test(by_words_the_same_comes_out),
        cmocka_unit_test(text_is_told_how_far_it_is_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* UTF-8 validation (RFC 3629). It owns nothing; any thread.
 *
 * By bytes: ASCII runs are skipped 32 bytes, then 8 bytes at a time: a word is ASCII when no byte has its top
 * bit. Other characters are checked one by one after the table of RFC 3629 4, where only the second byte has a
 * range of its own:
 *
 *     C2..DF  80..BF                      E1..EC, EE, EF  80..BF  +1      F1..F3  80..BF  +2
 *                                         E0              A0..BF  +1      F0      90..BF  +2
 *                                         ED              80..9F  +1      F4      80..8F  +2
 *
 * By vectors, with AVX2 where the processor has it, 64 bytes at a time: as in Keiser and Lemire, "Validating
 * UTF-8 in less than one instruction per byte" (2020). Each fault but one shows in two bytes that follow one
 * another, so in three halves of bytes: the two of the first, and the upper one of the second. Each half picks
 * a set of faults from a table of 16, and what is in all three sets is one. The fault that is left, a third or
 * fourth byte that does or does not continue, is found by looking two and three bytes back. A block with a fault,
 * and what is left at the end, is gone through by bytes, which know where exactly.
 */
#include "proto/utf8.h"

#include <stdint.h>
#include <string.h>

#define TOP_BITS 0x8080808080808080u

/* Where the ASCII run that begins at at ends, at the latest at len; it may stop up to 7 bytes early. */
static size_t skip_ascii(const uint8_t *s, size_t at, size_t len)
{
    uint64_t w[4];
    for (; len - at >= sizeof w; at += sizeof w) {
        memcpy(w, s + at, sizeof w);
        if ((w[0] | w[1] | w[2] | w[3]) & TOP_BITS) {
            break;
        }
    }
    for (; len - at >= sizeof w[0]; at += sizeof w[0]) {
        memcpy(w, s + at, sizeof w[0]);
        if (w[0] & TOP_BITS) {
            break;
        }
    }
    return at;
}

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

static bool within(uint8_t byte, uint8_t low, uint8_t high)
{
    return byte >= low && byte <= high;
}

/* The length of the character at s, which is not ASCII; 0 when it is none, or -1 when the bytes there
 * begin one. */
static int character(const uint8_t *s, size_t len)
{
    uint8_t lead = s[0];
    if (lead < 0xe0) {
        if (lead < 0xc2) { /* a continuation byte, or an overlong form of ASCII */
            return 0;
        }
        return len < 2 ? -1 : continues(s[1]) ? 2 : 0;
    }
    if (lead > 0xf4) {
        return 0;
    }
    if (len < 2) {
        return -1;
    }
    if (lead < 0xf0) {
        if (!within(s[1], lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf)) {
            return 0;
        }
        return len < 3 ? -1 : continues(s[2]) ? 3 : 0;
    }
    if (!within(s[1], lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf)) {
        return 0;
    }
    if (len < 4) {
        return len < 3 || continues(s[2]) ? -1 : 0;
    }
    return continues(s[2]) && continues(s[3]) ? 4 : 0;
}

static size_t whole_from(const uint8_t *s, size_t at, size_t len, bool *broken)
{
    *broken = false;
    while (at < len) {
        if (s[at] < 0x80) {
            at = skip_ascii(s, at, len);
            while (at < len && s[at] < 0x80) {
                at++;
            }
            continue;
        }
        int size = character(s + at, len - at);
        if (size <= 0) {
            *broken = size == 0;
            break;
        }
        at += (size_t)size;
    }
    return at;
}

size_t ioh__utf8_whole_by_bytes(const void *data, size_t len, bool *broken)
{
    return whole_from(data, 0, len, broken);
}

#if IOH__UTF8_VECTORS

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define BLOCK 64u

/* The faults of two bytes. The last two share a bit: they never meet. */
#define SHORT 0x01u      /* a lead byte, then none that continues */
#define LONG 0x02u       /* ASCII, then one that continues */
#define OVERLONG_3 0x04u /* E0 80..9F */
#define LARGE 0x08u      /* F4 90..BF, F5..FF 90..BF */
#define SURROGATE 0x10u  /* ED A0..BF */
#define OVERLONG_2 0x20u /* C0..C1 80..BF */
#define LARGE_80 0x40u   /* F5..FF 80..8F */
#define OVERLONG_4 0x40u /* F0 80..8F */
#define TWO_CONT 0x80u   /* two that continue; right as a third or fourth byte */

#define ANY_LOW (SHORT | LONG | TWO_CONT) /* what the lower half of the first byte does not tell */
#define LARGE_LOW (ANY_LOW | LARGE | LARGE_80)
#define CONT (LONG | OVERLONG_2 | TWO_CONT)

/* 16 bytes, for both halves of a vector. */
#define TABLE(...)               \
    _mm256_broadcastsi128_si256( \
        _mm_loadu_si128((const __m128i *)(const void *)(const uint8_t[16]){__VA_ARGS__}))

/* The bytes that lie n before those of v; before is the vector that lies before v. */
#define SHIFTED(v, before, n) \
    _mm256_alignr_epi8((v), _mm256_permute2x128_si256((before), (v), 0x21), 16 - (n))

AVX2 static inline __m256i upper_halves(__m256i v)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}

/* Not zero where a fault ends. */
AVX2 static inline __m256i faults(__m256i v, __m256i before)
{
    const __m256i first_upper =
        TABLE(LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, TWO_CONT, TWO_CONT, TWO_CONT,
              TWO_CONT, SHORT | OVERLONG_2, SHORT, SHORT | OVERLONG_3 | SURROGATE,
              SHORT | LARGE | LARGE_80 | OVERLONG_4);
    const __m256i first_lower =
        TABLE(ANY_LOW | OVERLONG_2 | OVERLONG_3 | OVERLONG_4, ANY_LOW | OVERLONG_2, ANY_LOW,
              ANY_LOW, ANY_LOW | LARGE, LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW,
              LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW | SURROGATE, LARGE_LOW, LARGE_LOW);
    const __m256i second_upper =
        TABLE(SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT, SHORT,
              CONT | OVERLONG_3 | LARGE_80 | OVERLONG_4, CONT | OVERLONG_3 | LARGE,
              CONT | SURROGATE | LARGE, CONT | SURROGATE | LARGE, SHORT, SHORT, SHORT, SHORT);
    __m256i first = SHIFTED(v, before, 1);
    __m256i found = _mm256_and_si256(
        _mm256_and_si256(
            _mm256_shuffle_epi8(first_upper, upper_halves(first)),
            _mm256_shuffle_epi8(first_lower, _mm256_and_si256(first, _mm256_set1_epi8(15)))),
        _mm256_shuffle_epi8(second_upper, upper_halves(v)));
    /* the top bit where a third or a fourth byte must stand, by a subtraction that does not go below 0 */
    __m256i third = _mm256_subs_epu8(SHIFTED(v, before, 2), _mm256_set1_epi8(0xe0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(SHIFTED(v, before, 3), _mm256_set1_epi8(0xf0 - 0x80));
    __m256i later =
        _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)TWO_CONT));
    return _mm256_xor_si256(found, later);
}

/* How many bytes at the start are well-formed as far as whole blocks tell: a multiple of BLOCK, where the last
 * character may reach beyond. */
AVX2 static size_t blocks_without_fault(const uint8_t *s, size_t len)
{
    __m256i before = _mm256_setzero_si256();
    bool ascii_before = true;
    size_t at = 0;
    for (; len - at >= BLOCK; at += BLOCK) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(s + at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(s + at + 32));
        bool ascii = _mm256_movemask_epi8(_mm256_or_si256(a, b)) == 0;
        if (!ascii || !ascii_before) {
            __m256i found = _mm256_or_si256(faults(a, before), faults(b, a));
            if (!_mm256_testz_si256(found, found))
                break;
        }
        ascii_before = ascii;
        before = b;
    }
    return at;
}

size_t ioh__utf8_whole_by_avx2(const void *data, size_t len, bool *broken)
{
    const uint8_t *s = data;
    size_t at = blocks_without_fault(s, len);
    for (size_t back = 1; back <= 3 && back <= at; back++) {
        if (s[at - back] >= 0xc0) { /* the last character begins here, and may not be whole yet */
            at -= back;
            break;
        }
        if (s[at - back] < 0x80)
            break;
    }
    return whole_from(s, at, len, broken);
}
#endif

size_t ioh__utf8_whole(const void *data, size_t len, bool *broken)
{
#if IOH__UTF8_VECTORS
    if (len >= BLOCK && __builtin_cpu_supports("avx2"))
        return ioh__utf8_whole_by_avx2(data, len, broken);
#endif
    return ioh__utf8_whole_by_bytes(data, len, broken);
}

bool ioh__utf8_valid(const void *data, size_t len)
{
    bool broken;
    return ioh__utf8_whole(data, len, &broken) == len;
}

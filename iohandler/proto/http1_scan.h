/* Where the pieces of a request head end. Owns nothing, any thread.
 *
 * By vectors, 64 bytes at a time: for each byte of a window a bit in each of three masks says that a token, a
 * field value or a path may not have it. So the parser goes from one end to the next by counting zero bits,
 * however long the pieces are. With SSSE3 or AVX2, where the processor has them.
 *
 * By bytes: from one to the next with the table of http1_field.h. That is for processors with neither, and where
 * no whole window may be read.
 *
 * All is inline: a parser is compiled for each way, so that the masks stay in registers.
 *
 * By vectors a byte of a kind is found by its two halves. The upper half picks a bit, one for each of the eight
 * rows of ASCII; the lower half picks the set of rows in which a byte of that kind stands there. A byte beyond
 * ASCII picks nothing (pshufb gives 0 where the top bit of an index is set); since a value may have those, it
 * is the control bytes that are looked for.
 */
#ifndef IOH_PROTO_HTTP1_SCAN_H
#define IOH_PROTO_HTTP1_SCAN_H

#include "proto/http1_field.h"
#include "proto/http1_parse.h"
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define IOH__SCAN_VECTORS 1
#else
#define IOH__SCAN_VECTORS 0
#endif

#define IOH__SCAN_WIDTH 64u
#define IOH__SCAN_INLINE static inline __attribute__((always_inline))
#define IOH__SCAN_FLAT __attribute__((flatten)) /* all that is called and can be seen is inlined, */
#define IOH__SCAN_RARE __attribute__((noinline, cold)) /* but not these */
#define IOH__SSSE3 __attribute__((target("ssse3")))
#define IOH__AVX2 __attribute__((target("avx2,bmi,bmi2")))

enum ioh__scan_kind { IOH__SCAN_TOKEN, IOH__SCAN_VALUE, IOH__SCAN_PATH };

/* Bit i is about byte i of a window. */
struct ioh__scan {
    uint64_t token; /* not IOH__CH_TOKEN */
    uint64_t value; /* not IOH__CH_VALUE */
    uint64_t path;  /* not IOH__CH_PATH */
};

#if IOH__SCAN_VECTORS

/* For one lower half: the rows in which what is(byte) says is true. */
#define IOH__ROW(is, low, row) (is((row) << 4 | (low)) ? 1u << (row) : 0u)
#define IOH__ROWS(is, low)                                                      \
    (char)(IOH__ROW(is, low, 0) | IOH__ROW(is, low, 1) | IOH__ROW(is, low, 2) | \
           IOH__ROW(is, low, 3) | IOH__ROW(is, low, 4) | IOH__ROW(is, low, 5) | \
           IOH__ROW(is, low, 6) | IOH__ROW(is, low, 7))
#define IOH__ALL_ROWS(is)                                                                         \
    IOH__ROWS(is, 0), IOH__ROWS(is, 1), IOH__ROWS(is, 2), IOH__ROWS(is, 3), IOH__ROWS(is, 4),     \
        IOH__ROWS(is, 5), IOH__ROWS(is, 6), IOH__ROWS(is, 7), IOH__ROWS(is, 8), IOH__ROWS(is, 9), \
        IOH__ROWS(is, 10), IOH__ROWS(is, 11), IOH__ROWS(is, 12), IOH__ROWS(is, 13),               \
        IOH__ROWS(is, 14), IOH__ROWS(is, 15)
/* By the upper half: the bit of the row. */
#define IOH__ROW_BIT 1, 2, 4, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0

/* ---- 16 bytes at a time */

/* The bytes that are in none of the rows given. */
#define IOH__OUTSIDE_16(v, row, ...)                                                        \
    ((uint64_t)(uint32_t)_mm_movemask_epi8(                                                 \
        _mm_cmpeq_epi8(_mm_and_si128(row, _mm_shuffle_epi8(_mm_setr_epi8(__VA_ARGS__), v)), \
                       _mm_setzero_si128())))

IOH__SSSE3 static inline void ioh__scan_16(__m128i v, size_t at, bool path, struct ioh__scan *s)
{
    __m128i row = _mm_shuffle_epi8(_mm_setr_epi8(IOH__ROW_BIT),
                                   _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi8(15)));
    s->token |= IOH__OUTSIDE_16(v, row, IOH__ALL_ROWS(IOH__IS_TOKEN)) << at;
    s->value |= (IOH__OUTSIDE_16(v, row, IOH__ALL_ROWS(IOH__IS_CONTROL)) ^ 0xffffu) << at;
    if (path)
        s->path |= IOH__OUTSIDE_16(v, row, IOH__ALL_ROWS(IOH__IS_PATH)) << at;
}

IOH__SSSE3 static inline struct ioh__scan ioh__scan_by_ssse3(const char *p, bool path)
{
    struct ioh__scan s = {0, 0, 0};
    for (size_t at = 0; at < IOH__SCAN_WIDTH; at += 16)
        ioh__scan_16(_mm_loadu_si128((const __m128i *)(const void *)(p + at)), at, path, &s);
    return s;
}

/* ---- 32 bytes at a time */

#define IOH__OUTSIDE_32(v, row, ...)                                                               \
    ((uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(                                   \
        _mm256_and_si256(row, _mm256_shuffle_epi8(_mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__), v)), \
        _mm256_setzero_si256())))

IOH__AVX2 static inline void ioh__scan_32(__m256i v, size_t at, bool path, struct ioh__scan *s)
{
    __m256i row =
        _mm256_shuffle_epi8(_mm256_setr_epi8(IOH__ROW_BIT, IOH__ROW_BIT),
                            _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)));
    s->token |= IOH__OUTSIDE_32(v, row, IOH__ALL_ROWS(IOH__IS_TOKEN)) << at;
    s->value |= (IOH__OUTSIDE_32(v, row, IOH__ALL_ROWS(IOH__IS_CONTROL)) ^ 0xffffffffu) << at;
    if (path)
        s->path |= IOH__OUTSIDE_32(v, row, IOH__ALL_ROWS(IOH__IS_PATH)) << at;
}

IOH__AVX2 static inline struct ioh__scan ioh__scan_by_avx2(const char *p, bool path)
{
    struct ioh__scan s = {0, 0, 0};
    ioh__scan_32(_mm256_loadu_si256((const __m256i *)(const void *)p), 0, path, &s);
    ioh__scan_32(_mm256_loadu_si256((const __m256i *)(const void *)(p + 32)), 32, path, &s);
    return s;
}
#endif

/* The best way that this processor has. */
static inline enum ioh__scan_way ioh__scan_best(void)
{
#if IOH__SCAN_VECTORS
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2"))
        return IOH__BY_AVX2;
    if (__builtin_cpu_supports("ssse3"))
        return IOH__BY_SSSE3;
#endif
    return IOH__BY_BYTES;
}

/* ---- from one end to the next */

/* The bytes, and the masks of IOH__SCAN_WIDTH of them from window on; no masks by bytes. Up to room may be read,
 * at least IOH__SCAN_WIDTH; what lies behind the end is in no mask but as a stop. */
struct ioh__scan_cursor {
    const char *data;
    size_t end, room, window;
    struct ioh__scan stops;
};

/* Makes the byte at p one of the window; the last window lies flush with what may be read. */
IOH__SCAN_INLINE void ioh__scan_move(struct ioh__scan_cursor *c, enum ioh__scan_way way, size_t p,
                                     bool path)
{
    if (p > c->room - IOH__SCAN_WIDTH)
        p = c->room - IOH__SCAN_WIDTH;
    c->window = p;
#if IOH__SCAN_VECTORS
    if (way == IOH__BY_AVX2)
        c->stops = ioh__scan_by_avx2(c->data + p, path);
    if (way == IOH__BY_SSSE3)
        c->stops = ioh__scan_by_ssse3(c->data + p, path);
#endif
    if (c->end - p < IOH__SCAN_WIDTH) {
        uint64_t behind = UINT64_MAX << (c->end - p);
        c->stops.token |= behind;
        c->stops.value |= behind;
        c->stops.path |= behind;
    }
}

/* Begins at p. */
IOH__SCAN_INLINE void ioh__scan_begin(struct ioh__scan_cursor *c, enum ioh__scan_way way, size_t p)
{
    if (way != IOH__BY_BYTES)
        ioh__scan_move(c, way, p, true);
}

/* The first byte from p on that is not of that kind, or the end. p only grows from call to call, and a path is
 * not asked for behind a value. To be called with a constant way, in a function that may use what it needs. */
IOH__SCAN_INLINE size_t ioh__scan_next(struct ioh__scan_cursor *c, enum ioh__scan_way way, size_t p,
                                       enum ioh__scan_kind kind)
{
    if (way == IOH__BY_BYTES) {
        if (kind == IOH__SCAN_VALUE)
            return (size_t)(ioh__skip_value(c->data + p, c->data + c->end) - c->data);
        unsigned is = kind == IOH__SCAN_TOKEN ? IOH__CH_TOKEN : IOH__CH_PATH;
        while (p < c->end && ioh__is_ch(c->data[p], is))
            p++;
        return p;
    }
    for (;;) {
        size_t at = p - c->window;
        if (at < IOH__SCAN_WIDTH) {
            uint64_t stops = kind == IOH__SCAN_TOKEN   ? c->stops.token
                             : kind == IOH__SCAN_VALUE ? c->stops.value
                                                       : c->stops.path;
            if (stops >> at)
                return p + (size_t)__builtin_ctzll(stops >> at);
            p = c->window + IOH__SCAN_WIDTH;
        }
        if (p >= c->end)
            return c->end;
        ioh__scan_move(c, way, p, kind == IOH__SCAN_PATH);
    }
}

#endif

/* Where the pieces of a request head end. Owns nothing, any thread.
 *
 * By vectors, 64 bytes at a time: for each byte of a window a bit in each of three masks says that a token, a
 * field value or a path may not have it. So the parser goes from one end to the next by counting zero bits,
 * however long the pieces are. With SSSE3 or AVX2, where the processor has them.
 *
 * By bytes: from one to the next with the table of http1_field.h. That is for processors with neither, and for
 * heads shorter than a window, where it is quicker.
 *
 * All is inline: a parser is compiled for each way, so that the masks stay in registers.
 *
 * By vectors a token byte is found by its two halves. The upper half picks a bit, one for each of the eight
 * rows of ASCII; the lower half picks the set of rows in which a token byte stands there. A byte beyond
 * ASCII picks nothing (pshufb gives 0 where the top bit of an index is set). The other two kinds are a range
 * with a few exceptions, so they are compared.
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

#define IOH__ROW(low, row) (IOH__TCHAR((row) << 4 | (low)) ? 1u << (row) : 0u)
#define IOH__ROWS(low)                                                                 \
    (char)(IOH__ROW(low, 0) | IOH__ROW(low, 1) | IOH__ROW(low, 2) | IOH__ROW(low, 3) | \
           IOH__ROW(low, 4) | IOH__ROW(low, 5) | IOH__ROW(low, 6) | IOH__ROW(low, 7))
/* By the lower half: the rows with a token byte there. */
#define IOH__TOKEN_ROWS                                                                       \
    IOH__ROWS(0), IOH__ROWS(1), IOH__ROWS(2), IOH__ROWS(3), IOH__ROWS(4), IOH__ROWS(5),       \
        IOH__ROWS(6), IOH__ROWS(7), IOH__ROWS(8), IOH__ROWS(9), IOH__ROWS(10), IOH__ROWS(11), \
        IOH__ROWS(12), IOH__ROWS(13), IOH__ROWS(14), IOH__ROWS(15)
/* By the upper half: the bit of the row. */
#define IOH__ROW_BIT 1, 2, 4, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0

/* ---- 16 bytes at a time */

IOH__SSSE3 static inline void ioh__scan_16(__m128i v, size_t at, bool path, struct ioh__scan *s)
{
    __m128i row = _mm_shuffle_epi8(_mm_setr_epi8(IOH__ROW_BIT),
                                   _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi8(15)));
    __m128i rows = _mm_shuffle_epi8(_mm_setr_epi8(IOH__TOKEN_ROWS), v);
    __m128i no_token = _mm_cmpeq_epi8(_mm_and_si128(row, rows), _mm_setzero_si128());
    __m128i del = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f));
    __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
    __m128i tab = _mm_cmpeq_epi8(v, _mm_set1_epi8('\t'));
    __m128i no_value = _mm_or_si128(del, _mm_andnot_si128(tab, control));
    s->token |= (uint64_t)(uint32_t)_mm_movemask_epi8(no_token) << at;
    s->value |= (uint64_t)(uint32_t)_mm_movemask_epi8(no_value) << at;
    if (!path)
        return;
    /* as signed numbers the bytes beyond ASCII are below the controls */
    __m128i no_path = _mm_or_si128(del, _mm_cmplt_epi8(v, _mm_set1_epi8(0x21)));
    no_path = _mm_or_si128(no_path, _mm_cmpeq_epi8(v, _mm_set1_epi8('#')));
    no_path = _mm_or_si128(no_path, _mm_cmpeq_epi8(v, _mm_set1_epi8('?')));
    no_path = _mm_or_si128(no_path, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    s->path |= (uint64_t)(uint32_t)_mm_movemask_epi8(no_path) << at;
}

IOH__SSSE3 static inline struct ioh__scan ioh__scan_by_ssse3(const char *p, bool path)
{
    struct ioh__scan s = {0, 0, 0};
    for (size_t at = 0; at < IOH__SCAN_WIDTH; at += 16)
        ioh__scan_16(_mm_loadu_si128((const __m128i *)(const void *)(p + at)), at, path, &s);
    return s;
}

/* ---- 32 bytes at a time */

IOH__AVX2 static inline void ioh__scan_32(__m256i v, size_t at, bool path, struct ioh__scan *s)
{
    __m256i row =
        _mm256_shuffle_epi8(_mm256_setr_epi8(IOH__ROW_BIT, IOH__ROW_BIT),
                            _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)));
    __m256i rows = _mm256_shuffle_epi8(_mm256_setr_epi8(IOH__TOKEN_ROWS, IOH__TOKEN_ROWS), v);
    __m256i no_token = _mm256_cmpeq_epi8(_mm256_and_si256(row, rows), _mm256_setzero_si256());
    __m256i del = _mm256_cmpeq_epi8(v, _mm256_set1_epi8(0x7f));
    __m256i control = _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(0x1f)), v);
    __m256i tab = _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\t'));
    __m256i no_value = _mm256_or_si256(del, _mm256_andnot_si256(tab, control));
    s->token |= (uint64_t)(uint32_t)_mm256_movemask_epi8(no_token) << at;
    s->value |= (uint64_t)(uint32_t)_mm256_movemask_epi8(no_value) << at;
    if (!path)
        return;
    __m256i no_path = _mm256_or_si256(del, _mm256_cmpgt_epi8(_mm256_set1_epi8(0x21), v));
    no_path = _mm256_or_si256(no_path, _mm256_cmpeq_epi8(v, _mm256_set1_epi8('#')));
    no_path = _mm256_or_si256(no_path, _mm256_cmpeq_epi8(v, _mm256_set1_epi8('?')));
    no_path = _mm256_or_si256(no_path, _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')));
    s->path |= (uint64_t)(uint32_t)_mm256_movemask_epi8(no_path) << at;
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

/* The bytes, and the masks of IOH__SCAN_WIDTH of them from window on; no masks by bytes. */
struct ioh__scan_cursor {
    const char *data;
    size_t end, window;
    struct ioh__scan stops;
};

/* Makes the byte at p one of the window; there are at least IOH__SCAN_WIDTH in all, and the last window lies
 * flush with the end. */
IOH__SCAN_INLINE void ioh__scan_move(struct ioh__scan_cursor *c, enum ioh__scan_way way, size_t p,
                                     bool path)
{
    if (p > c->end - IOH__SCAN_WIDTH)
        p = c->end - IOH__SCAN_WIDTH;
    c->window = p;
#if IOH__SCAN_VECTORS
    if (way == IOH__BY_AVX2)
        c->stops = ioh__scan_by_avx2(c->data + p, path);
    if (way == IOH__BY_SSSE3)
        c->stops = ioh__scan_by_ssse3(c->data + p, path);
#endif
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

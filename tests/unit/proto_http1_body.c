/* Request bodies: what is decoded, what is refused and where. Each case is decoded whole, cut in two
 * at every byte, and byte by byte, from blocks of their own size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http1_body.h"

#define ROOM 20000 /* for the bytes of a case */

/* ---- one decoding */

struct decoding {
    struct ioh__http1_body body;
    enum ioh__http1_body_result result; /* the last one that was no piece */
    struct ioh__http1_fault fault;      /* offset from the first byte of the body */
    size_t used;                        /* bytes taken */
    size_t len;                         /* of out */
    char out[ROOM];
    size_t trailers_len;
    char trailers[IOH__TRAILER_MAX];
};

static void begin(struct decoding *d, bool chunked, uint64_t length)
{
    struct ioh__http1_head head = {
        .chunked = chunked, .has_length = !chunked, .content_length = length};
    memset(d, 0, sizeof *d);
    ioh__http1_body_init(&d->body, &head);
    d->result = IOH__BODY_MORE;
}

/* The bytes from where the decoding stands up to end, as a server gets them. */
static void feed(struct decoding *d, const char *bytes, size_t end, uint64_t max_body)
{
    size_t len = end - d->used, at = 0;
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes + d->used, len);
    do {
        struct ioh_str piece = {NULL, 0};
        size_t used = SIZE_MAX;
        d->result =
            ioh__http1_body_next(&d->body, copy + at, len - at, max_body, &used, &piece, &d->fault);
        assert_true(used <= len - at);
        if (d->result == IOH__BODY_PIECE) {
            assert_true(piece.len > 0 && piece.len <= used);
            assert_ptr_equal(piece.ptr + piece.len, copy + at + used);
            memcpy(d->out + d->len, piece.ptr, piece.len);
            d->len += piece.len;
        } else if (d->result == IOH__BODY_TRAILER) {
            assert_true(piece.len > 0 && piece.len <= used);
            assert_ptr_equal(piece.ptr + piece.len, copy + at + used);
            assert_true(piece.len <= sizeof d->trailers - d->trailers_len);
            memcpy(d->trailers + d->trailers_len, piece.ptr, piece.len);
            d->trailers_len += piece.len;
        } else if (d->result == IOH__BODY_MORE) {
            assert_int_equal(used, len - at);
        } else if (d->result == IOH__BODY_FAULT) {
            assert_int_equal(used, d->fault.offset);
            d->fault.offset += d->used;
        }
        at += used;
        d->used += used;
    } while (d->result == IOH__BODY_PIECE || d->result == IOH__BODY_TRAILER);
    free(copy);
}

static void assert_same(const struct decoding *a, const struct decoding *b)
{
    assert_int_equal(a->result, b->result);
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->out, b->out, a->len);
    if (a->result == IOH__BODY_END) {
        assert_int_equal(a->trailers_len, b->trailers_len);
        assert_memory_equal(a->trailers, b->trailers, a->trailers_len);
    }
    if (a->result == IOH__BODY_FAULT) {
        assert_int_equal(a->fault.status, b->fault.status);
        assert_int_equal(a->fault.offset, b->fault.offset);
        assert_string_equal(a->fault.reason, b->fault.reason);
    }
}

/* Decodes whole, and checks that all ways to cut the bytes say the same. */
static void decode_all_ways(struct decoding *whole, const char *bytes, size_t len, bool chunked,
                            uint64_t length, uint64_t max_body)
{
    static struct decoding part;
    begin(whole, chunked, length);
    feed(whole, bytes, len, max_body);
    for (size_t cut = 0; len < 500 && cut < len; cut++) {
        begin(&part, chunked, length);
        feed(&part, bytes, cut, max_body);
        if (part.result == IOH__BODY_MORE)
            feed(&part, bytes, len, max_body);
        assert_same(whole, &part);
    }
    begin(&part, chunked, length);
    for (size_t n = 1; n <= len && part.result == IOH__BODY_MORE; n++)
        feed(&part, bytes, n, max_body);
    assert_same(whole, &part);
}

#define ANY_SIZE UINT64_MAX

static void decoded(const char *bytes, size_t len, const char *content, size_t content_len)
{
    static struct decoding d;
    char more[ROOM];
    decode_all_ways(&d, bytes, len, true, 0, content_len);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, len);
    assert_int_equal(d.len, content_len);
    assert_memory_equal(d.out, content, content_len);

    /* What follows is left alone, and the end stays the end. */
    memcpy(more, bytes, len);
    memcpy(more + len, "GET", 3);
    decode_all_ways(&d, more, len + 3, true, 0, content_len);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, len);
    feed(&d, more, len + 3, content_len);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, len);
}

static void refused(const char *before, size_t before_len, const char *rest, size_t rest_len,
                    const char *reason)
{
    static struct decoding d;
    char bytes[ROOM];
    memcpy(bytes, before, before_len);
    memcpy(bytes + before_len, rest, rest_len);
    decode_all_ways(&d, bytes, before_len + rest_len, true, 0, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_FAULT);
    assert_int_equal(d.fault.status, 400);
    assert_string_equal(d.fault.reason, reason);
    assert_int_equal(d.fault.offset, before_len);
}

/* ---- chunked bodies (RFC 9112 7.1): name, bytes, what they carry */

/* clang-format off */
#define END "0\r\n\r\n"

#define DECODED(X)                                                                                 \
    X(no_chunk_is_an_empty_body, END, "")                                                          \
    X(one_chunk_is_decoded, "5\r\nhello\r\n" END, "hello")                                         \
    X(chunks_are_put_together, "5\r\nhello\r\n7\r\n, world\r\n" END, "hello, world")               \
    X(data_may_look_like_framing, "7\r\n\r\n0\r\n\r\n\r\n" END, "\r\n0\r\n\r\n")                   \
    X(sizes_are_hex_in_both_cases, "a\r\n0123456789\r\nA\r\n0123456789\r\n" END, "01234567890123456789") \
    X(sizes_of_two_digits_are_decoded, "1f\r\nall the bytes of thirty of them\r\n" END,            \
      "all the bytes of thirty of them")                                                           \
    X(the_last_chunk_may_have_many_zeros, "1\r\na\r\n000\r\n\r\n", "a")                            \
    X(a_size_may_have_16_digits, "0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", "hello") \
    X(extensions_are_dropped, "5;a\r\nhello\r\n5;b=c;d=\"e\"\r\nworld\r\n0;f\r\n\r\n", "helloworld") \
    X(a_quoted_extension_may_have_escapes, "1;a=\"b \\\"c\\\\;\t\xff\";d\r\nx\r\n" END, "x")       \
    X(a_quoted_extension_may_be_empty, "1;a=\"\"\r\nx\r\n" END, "x")                               \
    X(trailers_are_not_content, "1\r\nx\r\n0\r\nVary: *\r\nX:\r\nY: \t a b\xff \r\n\r\n", "x")         \
    X(trailers_that_frame_mean_nothing,                                                            \
      "1\r\nx\r\n0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n", "x")

/* ---- refused: name, the bytes before the fault, the rest, the reason */

#define REFUSED(X)                                                                                 \
    X(an_empty_size_line_is_refused, "", "\r\n\r\n", "a chunk without size")                       \
    X(an_empty_size_line_is_not_the_last_chunk, "1\r\nZ\r\n", "\r\n\r\nGET /b HTTP/1.1\r\n",       \
      "a chunk without size")                                                                      \
    X(a_size_with_a_plus_sign_is_refused, "", "+5\r\nhello\r\n" END, "a chunk without size")       \
    X(a_size_with_a_minus_sign_is_refused, "", "-5\r\nhello\r\n" END, "a chunk without size")      \
    X(a_space_before_a_size_is_refused, "", " 5\r\nhello\r\n" END, "a chunk without size")         \
    X(a_size_with_0x_is_refused, "0", "xa\r\n0123456789\r\n" END, "a bad byte behind the chunk size") \
    X(a_size_with_an_underscore_is_refused, "1", "_0\r\n" END, "a bad byte behind the chunk size") \
    X(a_size_of_other_letters_is_refused, "", "zz\r\n" END, "a chunk without size")                \
    X(a_letter_behind_a_size_is_refused, "5", "g\r\nhello\r\n" END, "a bad byte behind the chunk size") \
    X(a_space_behind_a_size_is_refused, "5", " \r\nhello\r\n" END, "a bad byte behind the chunk size") \
    X(a_space_before_an_extension_is_refused, "5", " ;a\r\nhello\r\n" END,                         \
      "a bad byte behind the chunk size")                                                          \
    X(a_size_of_17_digits_is_refused, "0000000000000000", "5\r\nhello\r\n" END,                    \
      "the chunk size is too large")                                                               \
    X(a_size_that_wraps_is_refused, "FFFFFFFFFFFFFFF", "F1\r\n" END, "the chunk size is too large") \
    X(a_size_of_two_to_the_63_is_refused, "800000000000000", "0\r\n" END, "the chunk size is too large") \
    X(bare_lf_behind_a_size_is_refused, "a", "\n0123456789\r\n" END,                               \
      "a bad byte behind the chunk size")                                                          \
    X(bare_cr_behind_a_size_is_refused, "5\r", "hello\r\n" END, "bare CR behind the chunk size")   \
    X(two_crs_behind_a_size_are_refused, "5\r", "\r;ABCD\r\n" END, "bare CR behind the chunk size") \
    X(cr_before_a_size_is_refused, "", "\r0\r\n\r\n", "a chunk without size")                      \
    X(bare_lf_behind_a_chunk_is_refused, "5\r\nhello", "\n" END, "a chunk is longer than its size") \
    X(bare_cr_behind_a_chunk_is_refused, "5\r\nhello\r", "0\r\n\r\n", "bare CR behind a chunk")    \
    X(a_chunk_longer_than_its_size_is_refused, "5\r\nhello", "!!\r\n" END,                         \
      "a chunk is longer than its size")                                                           \
    X(a_chunk_without_line_end_is_refused, "5\r\nABCDE", END, "a chunk is longer than its size")   \
    X(an_extension_without_name_is_refused, "2;", "\r\naa\r\n" END, "a chunk extension without name") \
    X(an_extension_that_begins_with_lf_is_refused, "2;", "\nxx\r\nAB\r\n" END,                     \
      "a chunk extension without name")                                                            \
    X(an_extension_with_a_nul_byte_is_refused, "2;", "\0a\r\naa\r\n" END,                          \
      "a chunk extension without name")                                                            \
    X(a_space_in_an_extension_is_refused, "2;a", " =b\r\naa\r\n" END,                              \
      "a bad byte behind the chunk size")                                                          \
    X(an_extension_with_a_bracket_is_refused, "2;bad", "[=x\r\naa\r\n" END,                        \
      "a bad byte behind the chunk size")                                                          \
    X(an_extension_without_value_is_refused, "2;a=", "\r\naa\r\n" END,                             \
      "a chunk extension without value")                                                           \
    X(an_extension_with_two_values_is_refused, "2;a=b", "=c\r\naa\r\n" END,                        \
      "a bad byte behind the chunk size")                                                          \
    X(bare_cr_in_an_extension_is_refused, "5;a\r", "X\r\nhello\r\n" END,                           \
      "bare CR behind the chunk size")                                                             \
    X(a_quoted_extension_that_does_not_end_is_refused, "5;a=\"b; c", "\r\nhello\r\n" END,          \
      "a bad byte in a quoted chunk extension")                                                    \
    X(an_escaped_line_end_is_refused, "5;a=\"\\", "\r\n\"\r\nhello\r\n" END,                       \
      "a bad byte in a quoted chunk extension")                                                    \
    X(bytes_behind_a_quoted_extension_are_refused, "5;a=\"b\"", "c\r\nhello\r\n" END,              \
      "a bad byte behind the chunk size")                                                          \
    X(bytes_instead_of_the_last_line_end_are_refused, "0\r\nXXGET", " /evil HTTP/1.1\r\n\r\n",     \
      "a bad byte in the name of a trailer field")                                                 \
    X(bare_lf_at_the_end_is_refused, "0\r\n", "\n", "neither a trailer field nor the end of the body") \
    X(bare_cr_at_the_end_is_refused, "0\r\n\r", "X", "bare CR at the end of the body")             \
    X(a_folded_trailer_is_refused, "0\r\nX: y\r\n", " z\r\n\r\n",                                  \
      "neither a trailer field nor the end of the body")                                           \
    X(a_trailer_without_name_is_refused, "0\r\n", ": y\r\n\r\n",                                   \
      "neither a trailer field nor the end of the body")                                           \
    X(a_trailer_without_colon_is_refused, "0\r\nX", "\r\n\r\n",                                    \
      "a bad byte in the name of a trailer field")                                                 \
    X(a_space_before_the_colon_of_a_trailer_is_refused, "0\r\nX", " : y\r\n\r\n",                  \
      "a bad byte in the name of a trailer field")                                                 \
    X(bare_lf_behind_a_trailer_is_refused, "0\r\nX: y", "\n\r\n",                                  \
      "a bad byte in the value of a trailer field")                                                \
    X(bare_cr_in_a_trailer_is_refused, "0\r\nX: y\r", "Z: a\r\n\r\n", "bare CR in a trailer field") \
    X(a_nul_byte_in_a_trailer_is_refused, "0\r\nX: y", "\0\r\n\r\n",                               \
      "a bad byte in the value of a trailer field")
/* clang-format on */

#define DECODED_TEST(name, bytes, content)                               \
    static void name(void **state)                                       \
    {                                                                    \
        (void)state;                                                     \
        decoded(bytes, sizeof(bytes) - 1, content, sizeof(content) - 1); \
    }
DECODED(DECODED_TEST)

#define REFUSED_TEST(name, before, rest, reason)                             \
    static void name(void **state)                                           \
    {                                                                        \
        (void)state;                                                         \
        refused(before, sizeof(before) - 1, rest, sizeof(rest) - 1, reason); \
    }
REFUSED(REFUSED_TEST)

/* ---- by length */

static void a_body_by_length_ends_after_its_bytes(void **state)
{
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, "helloGET / HTTP/1.1", 19, false, 5, 5);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, 5);
    assert_int_equal(d.len, 5);
    assert_memory_equal(d.out, "hello", 5);
}

static void a_body_that_is_short_of_its_length_is_not_over(void **state)
{
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, "hell", 4, false, 5, 5);
    assert_int_equal(d.result, IOH__BODY_MORE);
    assert_int_equal(d.len, 4);
}

static void a_body_of_length_zero_is_over_at_once(void **state)
{
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, "GET", 3, false, 0, 0);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, 0);
}

static void a_request_without_length_has_no_body(void **state)
{
    static struct decoding d;
    struct ioh__http1_head head = {.has_length = false};
    (void)state;
    begin(&d, false, 0);
    ioh__http1_body_init(&d.body, &head);
    feed(&d, "GET", 3, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, 0);
}

static void a_chunk_of_unusual_size_goes_on_as_long_as_it_says(void **state)
{
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, "7fffffffffffffff\r\nabc", 21, true, 0, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_MORE);
    assert_int_equal(d.len, 3);
    assert_true(d.body.left == (uint64_t)INT64_MAX - 3);
}

/* ---- limits */

static void assert_fault(const struct decoding *d, int status, size_t offset, const char *reason)
{
    assert_int_equal(d->result, IOH__BODY_FAULT);
    assert_int_equal(d->fault.status, status);
    assert_int_equal(d->fault.offset, offset);
    assert_string_equal(d->fault.reason, reason);
}

static void a_length_above_the_limit_is_refused_before_its_bytes(void **state)
{
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, "hello", 5, false, 5, 4);
    assert_fault(&d, 413, 0, "the body is larger than the limit");
    assert_int_equal(d.len, 0);
}

static void a_chunk_above_the_limit_is_refused_before_its_bytes(void **state)
{
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, "5\r\nhello\r\n" END, 15, true, 0, 4);
    assert_fault(&d, 413, 2, "the chunks are larger than the limit");
    assert_int_equal(d.len, 0);
}

static void chunks_are_summed_up_to_the_limit(void **state)
{
    static const char bytes[] = "3\r\nabc\r\n3\r\ndef\r\n" END;
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, bytes, sizeof bytes - 1, true, 0, 6);
    assert_int_equal(d.result, IOH__BODY_END);
    decode_all_ways(&d, bytes, sizeof bytes - 1, true, 0, 5);
    assert_fault(&d, 413, 10, "the chunks are larger than the limit");
    assert_int_equal(d.len, 3);
    /* 3 and 2^63 - 1: the sum would have its top bit set */
    decode_all_ways(&d, "3\r\nabc\r\n7fffffffffffffff\r\n", 26, true, 0, INT64_MAX);
    assert_fault(&d, 413, 25, "the chunks are larger than the limit");
}

static void a_limit_that_is_lowered_on_the_way_holds(void **state)
{
    static struct decoding d;
    (void)state;
    begin(&d, true, 0);
    feed(&d, "3\r\nabc\r\n", 8, 3);
    assert_int_equal(d.result, IOH__BODY_MORE);
    feed(&d, "3\r\nabc\r\n0\r\n\r\n", 13, 2);
    assert_int_equal(d.result, IOH__BODY_FAULT);
    assert_int_equal(d.fault.status, 413);
}

static void the_line_of_a_chunk_may_be_as_long_as_its_limit(void **state)
{
    static struct decoding d;
    static char b[ROOM];
    (void)state;
    memset(b, 'x', sizeof b);
    memcpy(b, "1;", 2);
    memcpy(b + IOH__CHUNK_LINE_MAX, "\r\na\r\n" END, 10);
    decode_all_ways(&d, b, IOH__CHUNK_LINE_MAX + 10, true, 0, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_END);
    memset(b + IOH__CHUNK_LINE_MAX, 'x', 10);
    decode_all_ways(&d, b, IOH__CHUNK_LINE_MAX + 10, true, 0, ANY_SIZE);
    assert_fault(&d, 400, IOH__CHUNK_LINE_MAX, "the line of a chunk is too long");
}

static void each_chunk_has_a_line_of_its_own(void **state)
{
    static struct decoding d;
    static char b[ROOM];
    char *p = b;
    (void)state;
    for (int i = 0; i < 3; i++) {
        memcpy(p, "1;", 2);
        memset(p + 2, 'x', 4000);
        memcpy(p + 4002, "\r\na\r\n", 5);
        p += 4007;
    }
    memcpy(p, END, 5);
    decode_all_ways(&d, b, (size_t)(p + 5 - b), true, 0, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.len, 3);
}

static void trailers_may_be_as_large_as_their_limit(void **state)
{
    static struct decoding d;
    static char b[ROOM];
    size_t len = 3 + IOH__TRAILER_MAX;
    (void)state;
    memset(b, 'x', sizeof b);
    memcpy(b, "0\r\nX: a\r\nY: ", 12);
    memcpy(b + len - 4, "\r\n\r\n", 4);
    decode_all_ways(&d, b, len, true, 0, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, len);
    memcpy(b + len - 4, "x\r\n\r\n", 5);
    decode_all_ways(&d, b, len + 1, true, 0, ANY_SIZE);
    assert_fault(&d, 431, len, "the trailers are too large");
}

static void no_bytes_are_no_fault(void **state)
{
    static struct decoding d;
    struct ioh_str piece;
    size_t used = 1;
    (void)state;
    begin(&d, true, 0);
    assert_int_equal(ioh__http1_body_next(&d.body, NULL, 0, 0, &used, &piece, &d.fault),
                     IOH__BODY_MORE);
    assert_int_equal(used, 0);
}

static void a_refused_body_stays_refused(void **state)
{
    static struct decoding d;
    (void)state;
    begin(&d, true, 0);
    feed(&d, "x", 1, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_FAULT);
    feed(&d, END, 5, ANY_SIZE);
    assert_fault(&d, 400, 0, "a body that was refused");
}

#define DECODED_ENTRY(name, bytes, content) cmocka_unit_test(name),
#define REFUSED_ENTRY(name, before, rest, reason) cmocka_unit_test(name),

static void trailer_lines_are_handed_over_as_they_stand(void **state)
{
    static const char bytes[] = "2\r\nab\r\n0\r\nA: \t b c \t\r\nB:\r\n\r\nGET";
    static struct decoding d;
    (void)state;
    decode_all_ways(&d, bytes, sizeof bytes - 1, true, 0, ANY_SIZE);
    assert_int_equal(d.result, IOH__BODY_END);
    assert_int_equal(d.used, sizeof bytes - 4);
    assert_int_equal(d.trailers_len, strlen("A: \t b c \t\r\nB:\r\n"));
    assert_memory_equal(d.trailers, "A: \t b c \t\r\nB:\r\n", d.trailers_len);

    struct ioh_str name, value;
    const char *at = d.trailers, *end = at + d.trailers_len;
    assert_true(ioh__http1_trailer_next(&at, end, &name, &value));
    assert_int_equal(name.len, 1);
    assert_int_equal(value.len, 3);
    assert_memory_equal(value.ptr, "b c", 3);
    assert_true(ioh__http1_trailer_next(&at, end, &name, &value));
    assert_memory_equal(name.ptr, "B", 1);
    assert_int_equal(value.len, 0);
    assert_false(ioh__http1_trailer_next(&at, end, &name, &value));
}

static void what_may_be_a_trailer(void **state)
{
    static const char *const yes[] = {"X-Sum", "Content-Digest", "Server-Timing", "Grpc-Status",
                                      "T"};
    static const char *const no[] = {
        "Content-Length", "TRANSFER-ENCODING", "host", "Set-Cookie",
        "Trailer",        "Content-Type",      "Age",  "www-authenticate"};
    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(ioh__http1_trailer_allowed(yes[i], strlen(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(ioh__http1_trailer_allowed(no[i], strlen(no[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DECODED(DECODED_ENTRY) REFUSED(REFUSED_ENTRY)
            cmocka_unit_test(a_body_by_length_ends_after_its_bytes),
        cmocka_unit_test(a_body_that_is_short_of_its_length_is_not_over),
        cmocka_unit_test(a_body_of_length_zero_is_over_at_once),
        cmocka_unit_test(a_request_without_length_has_no_body),
        cmocka_unit_test(a_chunk_of_unusual_size_goes_on_as_long_as_it_says),
        cmocka_unit_test(a_length_above_the_limit_is_refused_before_its_bytes),
        cmocka_unit_test(a_chunk_above_the_limit_is_refused_before_its_bytes),
        cmocka_unit_test(chunks_are_summed_up_to_the_limit),
        cmocka_unit_test(a_limit_that_is_lowered_on_the_way_holds),
        cmocka_unit_test(the_line_of_a_chunk_may_be_as_long_as_its_limit),
        cmocka_unit_test(each_chunk_has_a_line_of_its_own),
        cmocka_unit_test(trailer_lines_are_handed_over_as_they_stand),
        cmocka_unit_test(what_may_be_a_trailer),
        cmocka_unit_test(trailers_may_be_as_large_as_their_limit),
        cmocka_unit_test(no_bytes_are_no_fault),
        cmocka_unit_test(a_refused_body_stays_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

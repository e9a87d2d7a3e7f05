/* Compressed answers from below: what a stream of zlib's costs, when there is none, pieces of any size. */
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

#include <iohandler/buf.h>
#include <iohandler/error.h>

#include "conn/compress.h"
#include "conn/message.h"

/* ---- zlib and memory that fail when told */

static int streams;     /* that live */
static bool no_streams; /* deflateInit2() fails */
static int memory_left = -1;

int __real_deflateInit2_(z_streamp z, int level, int method, int window, int mem_level,
                         int strategy, const char *version, int size);
int __real_deflateEnd(z_streamp z);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);

int __wrap_deflateInit2_(z_streamp z, int level, int method, int window, int mem_level,
                         int strategy, const char *version, int size)
{
    if (no_streams)
        return Z_MEM_ERROR;
    streams++;
    return __real_deflateInit2_(z, level, method, window, mem_level, strategy, version, size);
}

int __wrap_deflateEnd(z_streamp z)
{
    streams--;
    return __real_deflateEnd(z);
}

static bool no_memory(void)
{
    return memory_left >= 0 && memory_left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return no_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory() ? NULL : __real_calloc(count, size);
}

/* ---- */

static const struct ioh_header fields[] = {{"Content-Type", "text/plain"}, {"ETag", "\"x\""}};
static char bytes[5000];

static struct ioh__compress *new_compress(void)
{
    struct ioh_options o = {.compress = "text/*", .compress_min = 1, .compress_level = 4};
    struct ioh__compress *c;
    char error[IOH__ERROR_TEXT];
    assert_int_equal(ioh__compress_create(&c, &o, error), 0);
    assert_non_null(c);
    return c;
}

static struct ioh__reply start_reply(void)
{
    struct ioh__reply r = {.kind = IOH__REPLY_START, .status = 200, .length = -1};
    r.fields.list = fields;
    r.fields.count = 2;
    return r;
}

static struct ioh__squeeze *start(struct ioh__compress *c)
{
    struct ioh__reply r = start_reply();
    struct ioh__coded coded;
    assert_true(ioh__compress_suits(c, &r, &coded));
    ioh__compress_reply(c, true, &r, &coded);
    assert_int_equal(r.fields.count, r.squeeze ? 4 : 3);
    ioh__coded_free(&coded);
    return r.squeeze;
}

static void few_streams_are_kept_and_none_is_lost(void **state)
{
    struct ioh__squeeze *lent[IOH__COMPRESS_STREAMS];
    struct ioh__compress *c = new_compress();
    (void)state;
    assert_int_equal(streams, 0);
    for (unsigned i = 0; i < IOH__COMPRESS_STREAMS; i++) {
        lent[i] = start(c);
        assert_non_null(lent[i]);
    }
    assert_int_equal(streams, IOH__COMPRESS_STREAMS);
    assert_null(start(c));
    for (unsigned i = 0; i < IOH__COMPRESS_STREAMS; i++)
        ioh__squeeze_put(lent[i]);
    assert_int_equal(streams, IOH__COMPRESS_IDLE);
    for (unsigned i = 0; i < 100; i++) /* the steady state makes none */
        ioh__squeeze_put(start(c));
    assert_int_equal(streams, IOH__COMPRESS_IDLE);
    ioh__squeeze_put(NULL);
    ioh__compress_destroy(c);
    ioh__compress_destroy(NULL);
    assert_int_equal(streams, 0);
}

static void without_a_stream_an_answer_stays_plain(void **state)
{
    struct ioh__compress *c = new_compress();
    (void)state;
    no_streams = true;
    for (unsigned i = 0; i < IOH__COMPRESS_STREAMS + 1; i++)
        assert_null(start(c));
    no_streams = false;
    struct ioh__squeeze *s = start(c); /* those that failed were not counted */
    assert_non_null(s);
    ioh__squeeze_put(s);
    ioh__compress_destroy(c);
}

static void without_memory_an_answer_stays_as_it_is(void **state)
{
    struct ioh__compress *c = new_compress();
    int most = 0;
    (void)state;
    for (int n = 0; n < 8; n++) {
        struct ioh__reply r = {.kind = IOH__REPLY_WHOLE, .status = 200, .data = bytes};
        struct ioh__coded coded;
        r.len = sizeof bytes;
        r.fields.list = fields;
        r.fields.count = 2;
        assert_true(ioh__compress_suits(c, &r, &coded));
        memory_left = n;
        ioh__compress_reply(c, true, &r, &coded);
        memory_left = -1;
        if (r.buf) {
            assert_int_equal(r.fields.count, 4);
            assert_true(ioh_buf_len(r.buf) < 100 && r.len == 0);
        } else {
            assert_true(r.data == bytes && r.len == sizeof bytes);
            most = n;
        }
        ioh_buf_unref(r.buf);
        ioh__coded_free(&coded);
    }
    assert_int_equal(most, 2); /* the fields, the stream (later an idle one), the room, the buf */
    ioh__compress_destroy(c);
    assert_int_equal(streams, 0);
    struct ioh_options o = {.compress = "text/*"};
    char error[IOH__ERROR_TEXT];
    memory_left = 0;
    assert_int_equal(ioh__compress_create(&c, &o, error), IOH_ENOMEM);
    memory_left = 1;
    assert_int_equal(ioh__compress_create(&c, &o, error), IOH_ENOMEM);
    memory_left = -1;
    assert_null(c);
}

/* Pieces and rooms of any size: what comes out is what went in, and of each piece all comes out. */
static void pieces_of_any_size_come_out_whole(void **state)
{
    enum { LEN = 200000 };
    static uint8_t in[LEN], out[LEN];
    struct ioh__compress *c = new_compress();
    uint32_t x = 7;
    (void)state;
    for (size_t i = 0; i < LEN; i++) {
        x = x * 1664525u + 1013904223u;
        in[i] = (uint8_t)(x >> 29 | (i / 50000 % 2 ? x >> 24 : 0));
    }
    static const size_t rooms[] = {7, 8, 100, 8192};
    for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
        struct ioh__squeeze *s = start(c);
        z_stream z = {0};
        assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
        z.next_out = out;
        z.avail_out = LEN;
        int rc = Z_OK;
        for (size_t at = 0; rc == Z_OK;) {
            x = x * 1664525u + 1013904223u;
            size_t len = at % 3 ? x >> 20 : 1 + (x >> 30);
            len = len < LEN - at ? len : LEN - at;
            const void *data = in + at;
            bool end = len == 0;
            size_t n, left = len;
            do {
                uint8_t room[8192];
                n = ioh__squeeze(s, &data, &left, end, room, rooms[k]);
                assert_true(n <= rooms[k]);
                z.next_in = room;
                z.avail_in = (uInt)n;
                if (n)
                    rc = inflate(&z, Z_SYNC_FLUSH);
                assert_true(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
                rc = rc == Z_BUF_ERROR ? Z_OK : rc;
            } while (n == rooms[k] || left > 0);
            at += len;
            assert_int_equal(z.total_out, at); /* flushed */
        }
        assert_int_equal(rc, Z_STREAM_END);
        assert_int_equal(z.total_out, LEN);
        assert_memory_equal(in, out, LEN);
        inflateEnd(&z);
        ioh__squeeze_put(s);
    }
    ioh__compress_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_streams_are_kept_and_none_is_lost),
        cmocka_unit_test(without_a_stream_an_answer_stays_plain),
        cmocka_unit_test(without_memory_an_answer_stays_as_it_is),
        cmocka_unit_test(pieces_of_any_size_come_out_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

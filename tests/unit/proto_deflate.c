/* Compressed messages (RFC 7692 7.2): frames out, bytes in, cut anywhere and with any room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/buf.h>
#include <iohandler/handler.h>
#include <pthread.h>
#include <zlib.h>

#include "base/buf.h"
#include "proto/deflate.h"
#include "proto/ws_frame.h"

/* ---- helpers */

struct bytes {
    uint8_t at[300000];
    size_t len;
};

static struct bytes plain; /* what was inflated */

/* Text that becomes shorter, but not to nothing. */
static void fill(uint8_t *to, size_t len, unsigned seed)
{
    static const char *const words[] = {"alpha ", "beta ", "gamma ", "delta ", "omega "};
    for (size_t i = 0; i < len;) {
        seed = seed * 1103515245u + 12345u;
        for (const char *w = words[(seed >> 16) % 5]; *w && i < len; w++)
            to[i++] = (uint8_t)*w;
        if (i < len)
            to[i++] = (uint8_t)('0' + (seed >> 8) % 10);
    }
}

static void fill_random(uint8_t *to, size_t len)
{
    unsigned seed = 7;
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1103515245u + 12345u;
        to[i] = (uint8_t)(seed >> 16);
    }
}

/* Inflates a message that comes in pieces of `cut` bytes into pieces of `room`. */
static enum ioh__inflated inflate_message(struct ioh__inflater *z, bool keep, const uint8_t *in,
                                          size_t len, size_t cut, size_t room)
{
    enum ioh__inflated got = IOH__INFLATED_ALL;
    assert_true(ioh__inflater_begin(z, keep));
    plain.len = 0;
    while (len > 0 && got != IOH__INFLATED_BAD) {
        size_t n = len < cut ? len : cut, used, made;
        uint8_t *exact = malloc(n);
        assert_non_null(exact);
        memcpy(exact, in, n);
        assert_true(plain.len + room <= sizeof plain.at);
        got = ioh__inflate(z, exact, n, &used, plain.at + plain.len, room, &made);
        free(exact);
        assert_true(used <= n && made <= room);
        assert_true(got != IOH__INFLATED_FULL || made == room);
        assert_true(got != IOH__INFLATED_ALL || used == n);
        plain.len += made;
        in += used;
        len -= used;
    }
    for (bool more = got != IOH__INFLATED_BAD; more; more = got == IOH__INFLATED_FULL) {
        size_t made;
        got = ioh__inflate_end(z, plain.at + plain.len, room, &made);
        plain.len += made;
    }
    return got;
}

static struct ioh__ws_header header_of(const ioh_buf *frame)
{
    struct ioh__ws_header h;
    assert_true(ioh__ws_header_read(frame->data, frame->len, &h));
    assert_true(h.fin && !h.masked);
    assert_int_equal(h.len + h.payload, frame->len);
    return h;
}

/* The frame's message, inflated by a fresh zlib state with a window of bits. */
static bool holds(const ioh_buf *frame, unsigned bits, const void *data, size_t len)
{
    struct ioh__ws_header h = header_of(frame);
    z_stream s = {0};
    assert_int_equal(inflateInit2(&s, -(int)bits), Z_OK);
    uint8_t *in = malloc(h.payload + 4);
    assert_non_null(in);
    memcpy(in, frame->data + h.len, h.payload);
    memcpy(in + h.payload, "\0\0\xff\xff", 4);
    s.next_in = in;
    s.avail_in = (unsigned)h.payload + 4;
    s.next_out = plain.at;
    s.avail_out = sizeof plain.at;
    int rc = inflate(&s, Z_SYNC_FLUSH);
    plain.len = s.total_out;
    bool same =
        rc == Z_OK && s.avail_in == 0 && plain.len == len && memcmp(plain.at, data, len) == 0;
    inflateEnd(&s);
    free(in);
    return same;
}

#define INFLATES_TO(text, ...)                                                        \
    do {                                                                              \
        const uint8_t in_[] = {__VA_ARGS__};                                          \
        assert_int_equal(inflate_message(z, false, in_, sizeof in_, sizeof in_, 100), \
                         IOH__INFLATED_ALL);                                          \
        assert_int_equal(plain.len, strlen(text));                                    \
        assert_memory_equal(plain.at, text, plain.len);                               \
    } while (0)

#define IS_BAD(...)                                                                 \
    do {                                                                            \
        const uint8_t in_[] = {__VA_ARGS__};                                        \
        for (size_t cut_ = 1; cut_ <= sizeof in_; cut_++)                           \
            assert_int_equal(inflate_message(z, false, in_, sizeof in_, cut_, 100), \
                             IOH__INFLATED_BAD);                                    \
    } while (0)

/* ---- inflating */

static void the_examples_of_the_rfc_inflate(void **state)
{
    struct ioh__inflater *z = ioh__inflater_new(15);
    (void)state;
    INFLATES_TO("Hello", 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00);             /* 7.2.3.1 */
    INFLATES_TO("Hello", 0x00, 0x05, 0x00, 0xfa, 0xff, 'H', 'e', 'l', 'l', 'o', /* 7.2.3.3 */
                0x00);
    INFLATES_TO("Hello", 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00);      /* 7.2.3.4 */
    INFLATES_TO("Hello", 0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, /* 7.2.3.5 */
                0xc9, 0xc9, 0x07, 0x00);
    INFLATES_TO("", 0x00); /* 7.2.3.6 */
    ioh__inflater_free(z);
}

/* 7.2.3.2: the second Hello refers to the first. */
static void a_kept_window_is_referred_to(void **state)
{
    static const uint8_t first[] = {0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00};
    static const uint8_t second[] = {0xf2, 0x00, 0x11, 0x00, 0x00};
    struct ioh__inflater *z = ioh__inflater_new(15);
    (void)state;
    assert_int_equal(inflate_message(z, true, first, sizeof first, 1, 3), IOH__INFLATED_ALL);
    assert_int_equal(inflate_message(z, true, second, sizeof second, 2, 1), IOH__INFLATED_ALL);
    assert_int_equal(plain.len, 5);
    assert_memory_equal(plain.at, "Hello", 5);
    assert_int_equal(inflate_message(z, false, second, sizeof second, 9, 9), IOH__INFLATED_BAD);
    ioh__inflater_free(z);
}

/* A block may be marked as the last of its stream in the middle of a message, and at its end: what follows still
 * refers to the window. */
static void a_window_outlives_the_last_block_of_a_stream(void **state)
{
    static const uint8_t closed[] = {0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00};
    static const uint8_t unended[] = {0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00};
    static const uint8_t again[] = {0xf2, 0x00, 0x11, 0x00, 0x00};
    static const uint8_t both[] = {0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07,
                                   0x00, 0xf2, 0x00, 0x11, 0x00, 0x00};
    struct ioh__inflater *z = ioh__inflater_new(15);
    (void)state;
    for (size_t cut = 1; cut < 14; cut++) {
        ioh__inflater_begin(z, false);
        assert_int_equal(inflate_message(z, true, closed, sizeof closed, cut, 9),
                         IOH__INFLATED_ALL);
        assert_int_equal(inflate_message(z, true, again, sizeof again, cut, 9), IOH__INFLATED_ALL);
        assert_memory_equal(plain.at, "Hello", 5);
        assert_int_equal(inflate_message(z, true, unended, sizeof unended, cut, 9),
                         IOH__INFLATED_ALL);
        assert_int_equal(inflate_message(z, true, again, sizeof again, cut, 9), IOH__INFLATED_ALL);
        assert_int_equal(plain.len, 5);
        assert_memory_equal(plain.at, "Hello", 5);
        assert_int_equal(inflate_message(z, false, both, sizeof both, cut, 4), IOH__INFLATED_ALL);
        assert_int_equal(plain.len, 10);
        assert_memory_equal(plain.at, "HelloHello", 10);
    }
    ioh__inflater_free(z);
}

/* The last block ends with a match that does not fit in the room: its rest, and that it was the last, comes later. */
static void a_stream_may_end_with_what_there_was_no_room_for(void **state)
{
    static const uint8_t in[] = {0xf3, 0x48, 0x6c, 0x09, 0xdb, 0xf7, 0x32, 0xde, 0x00, 0x01, 0x00};
    struct ioh__inflater *z = ioh__inflater_new(15);
    (void)state;
    for (size_t room = 1; room < 20; room++)
        for (size_t cut = 1; cut < 12; cut++) {
            assert_int_equal(inflate_message(z, true, in, sizeof in, cut, room), IOH__INFLATED_ALL);
            assert_int_equal(plain.len, 18);
        }
    ioh__inflater_free(z);
}

static void what_is_no_deflate_stream_is_bad(void **state)
{
    struct ioh__inflater *z = ioh__inflater_new(15);
    (void)state;
    IS_BAD(0x06);                               /* the reserved kind of block */
    IS_BAD(0x00, 0x05, 0x00, 0xfb, 0xff, 'H');  /* a stored length that is not its complement */
    IS_BAD(0xf2, 0x00, 0x11, 0x00, 0x00);       /* refers to before the beginning */
    IS_BAD(0xff, 0xff, 0xff, 0xff, 0xff, 0xff); /* the reserved kind again */
    ioh__inflater_free(z);
}

static void a_message_that_is_cut_short_is_bad(void **state)
{
    struct ioh__inflater *z = ioh__inflater_new(15);
    static const uint8_t whole[] = {0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00};
    (void)state;
    for (size_t len = 0; len < sizeof whole; len++) {
        enum ioh__inflated got = inflate_message(z, false, whole, len, 9, 100);
        if (got != IOH__INFLATED_BAD)
            fail_msg("the first %zu bytes are taken for a message of %zu", len, plain.len);
    }
    IS_BAD(0x00, 0x05, 0x00, 0xfa, 0xff, 'H', 'e');         /* stored bytes are missing */
    IS_BAD(0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00); /* one byte too many */
    ioh__inflater_free(z);
}

static void cuts_and_room_do_not_matter(void **state)
{
    static uint8_t data[5000];
    struct ioh__inflater *z = ioh__inflater_new(15);
    struct ioh__deflater *d = ioh__deflater_new(15, 6);
    (void)state;
    fill(data, sizeof data, 1);
    ioh_buf *frame = ioh__deflate_frame(d, false, IOH_WS_TEXT, data, sizeof data);
    assert_non_null(frame);
    struct ioh__ws_header h = header_of(frame);
    for (size_t cut = 1; cut < 40; cut += 3)
        for (size_t room = 1; room < 6000; room = room * 2 + 1) {
            assert_int_equal(inflate_message(z, false, frame->data + h.len, h.payload, cut, room),
                             IOH__INFLATED_ALL);
            assert_int_equal(plain.len, sizeof data);
            assert_memory_equal(plain.at, data, sizeof data);
        }
    ioh_buf_unref(frame);
    ioh__deflater_free(d);
    ioh__inflater_free(z);
}

/* ---- deflating */

/* The input is used up and the room, too, but zlib still holds bytes, and the end of the last block. */
static void a_last_block_may_end_where_the_room_does(void **state)
{
    /* Two literals and six matches are 97 bits, so the last match shares a byte with the end of the block. */
    uint8_t text[2 + 6 * 258], packed[100];
    z_stream s = {0};
    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_FIXED), Z_OK);
    s.next_in = text;
    s.avail_in = sizeof text;
    s.next_out = packed;
    s.avail_out = sizeof packed;
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    size_t len = s.total_out;
    assert_int_equal(len, 13);
    deflateEnd(&s);
    struct ioh__inflater *z = ioh__inflater_new(15);
    for (size_t room = 1; room <= sizeof text + 1; room++) {
        for (size_t cut = 1; cut <= len; cut += len - 1) {
            assert_int_equal(inflate_message(z, false, packed, len, cut, room), IOH__INFLATED_ALL);
            assert_int_equal(plain.len, sizeof text);
            assert_memory_equal(plain.at, text, sizeof text);
        }
    }
    ioh__inflater_free(z);
}

static void frames_of_all_sizes_come_back(void **state)
{
    static const size_t sizes[] = {32,   100,   125,   126,   127,   300,    1024,
                                   4095, 16384, 33000, 65535, 65536, 200000, 262145};
    static uint8_t data[262145];
    (void)state;
    fill(data, sizeof data, 3);
    for (unsigned bits = 9; bits <= 15; bits++)
        for (int level = 1; level <= 9; level += 4) {
            struct ioh__deflater *d = ioh__deflater_new(bits, level);
            assert_non_null(d);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                ioh_buf *frame = ioh__deflate_frame(d, false, IOH_WS_BINARY, data, sizes[i]);
                if (!frame) {
                    assert_in_range(sizes[i], 0, 126);
                    continue;
                }
                struct ioh__ws_header h = header_of(frame);
                assert_int_equal(h.op, IOH_WS_BINARY);
                assert_int_equal(h.rsv, 4);
                assert_true(frame->is_frame);
                assert_true(h.payload < sizes[i]);
                if (!holds(frame, bits, data, sizes[i]))
                    fail_msg("%zu bytes, %u bits, level %d", sizes[i], bits, level);
                ioh_buf_unref(frame);
            }
            ioh__deflater_free(d);
        }
}

static void what_does_not_become_shorter_is_left_alone(void **state)
{
    static uint8_t data[100000];
    struct ioh__deflater *d = ioh__deflater_new(15, 1);
    (void)state;
    fill_random(data, sizeof data);
    for (size_t len = 0; len <= sizeof data; len = len * 3 + 1)
        assert_null(ioh__deflate_frame(d, true, IOH_WS_BINARY, data, len));
    fill(data, sizeof data, 9); /* nothing of the random bytes is referred to */
    ioh_buf *frame = ioh__deflate_frame(d, true, IOH_WS_BINARY, data, sizeof data);
    assert_non_null(frame);
    assert_true(holds(frame, 15, data, sizeof data));
    ioh_buf_unref(frame);
    ioh__deflater_free(d);
}

static void a_kept_context_makes_the_next_message_small(void **state)
{
    static uint8_t data[3000];
    struct ioh__deflater *d = ioh__deflater_new(12, 6);
    struct ioh__inflater *z = ioh__inflater_new(12);
    (void)state;
    fill(data, sizeof data, 5);
    for (int i = 0; i < 4; i++) {
        ioh_buf *frame = ioh__deflate_frame(d, true, IOH_WS_TEXT, data, sizeof data);
        assert_non_null(frame);
        struct ioh__ws_header h = header_of(frame);
        assert_true(i == 0 || h.payload < 100);
        assert_int_equal(inflate_message(z, true, frame->data + h.len, h.payload, 7, 500),
                         IOH__INFLATED_ALL);
        assert_int_equal(plain.len, sizeof data);
        assert_memory_equal(plain.at, data, sizeof data);
        ioh_buf_unref(frame);
    }
    ioh__deflater_forget(d);
    ioh_buf *frame = ioh__deflate_frame(d, true, IOH_WS_TEXT, data, sizeof data);
    assert_true(holds(frame, 15, data, sizeof data));
    ioh_buf_unref(frame);
    ioh__inflater_free(z);
    ioh__deflater_free(d);
}

/* ---- of a server */

static void short_messages_go_as_they_are(void **state)
{
    static struct ioh__deflaters all;
    uint8_t data[600];
    (void)state;
    fill(data, sizeof data, 2);
    ioh__deflaters_init(&all, 15, 1, 500);
    assert_null(ioh__deflaters_frame(&all, 15, IOH_WS_TEXT, data, 499));
    ioh_buf *frame = ioh__deflaters_frame(&all, 15, IOH_WS_TEXT, data, 500);
    assert_non_null(frame);
    ioh_buf_unref(frame);
    ioh__deflaters_destroy(&all);
}

/* A peer with a window of 512 bytes gets nothing that refers farther back, whether the state used is narrow or the
 * message short. */
static void a_narrow_window_of_the_peer_is_kept_to(void **state)
{
    static struct ioh__deflaters all;
    static uint8_t data[4000];
    (void)state;
    ioh__deflaters_init(&all, 15, 9, 1);
    fill(data, 300, 4);
    for (size_t i = 300; i < sizeof data; i++) /* repeats itself after 300 and after 2,000 bytes */
        data[i] = i < 2000 ? data[i - 300] : data[i - 2000];
    for (unsigned bits = 9; bits <= 15; bits++)
        for (size_t len = 100; len <= sizeof data; len += 97) {
            ioh_buf *frame = ioh__deflaters_frame(&all, bits, IOH_WS_TEXT, data, len);
            assert_non_null(frame);
            assert_true(holds(frame, bits, data, len));
            ioh_buf_unref(frame);
        }
    ioh__deflaters_destroy(&all);
}

static ioh_buf *form_of(struct ioh__deflaters *all, unsigned bits, int op, ioh_buf *buf)
{
    return ioh__deflaters_form(all, bits, buf, op, ioh_buf_data(buf), ioh_buf_len(buf));
}

static void a_message_for_many_is_compressed_once(void **state)
{
    static struct ioh__deflaters all;
    static uint8_t data[2000];
    (void)state;
    ioh__deflaters_init(&all, 15, 1, 256);
    fill(data, sizeof data, 6);
    ioh_buf *buf = ioh_buf_copy(data, sizeof data);
    ioh_buf *form = form_of(&all, 15, IOH_WS_TEXT, buf);
    assert_non_null(form);
    assert_true(holds(form, 15, data, sizeof data));
    assert_ptr_equal(form_of(&all, 11, IOH_WS_TEXT, buf), form); /* 2,000 bytes fit in 11 bits */
    assert_null(form_of(&all, 10, IOH_WS_TEXT, buf));
    assert_null(form_of(&all, 15, IOH_WS_BINARY, buf)); /* its header says text */
    ioh_buf_unref(buf);

    buf = ioh_buf_copy(data, 255);
    assert_null(form_of(&all, 15, IOH_WS_TEXT, buf));
    all.min = 1;
    assert_null(form_of(&all, 15, IOH_WS_PING, buf));
    ioh_buf_unref(buf);
    fill_random(data, sizeof data);
    buf = ioh_buf_copy(data, sizeof data);
    assert_null(form_of(&all, 15, IOH_WS_BINARY, buf));
    assert_null(form_of(&all, 15, IOH_WS_BINARY, buf)); /* and that is remembered */
    assert_ptr_equal(buf->form, buf);
    ioh_buf_unref(buf);
    ioh__deflaters_destroy(&all);
}

static struct ioh__deflaters shared;
static ioh_buf *broadcast;

static void *compress_much(void *arg)
{
    static const char *wrong = "";
    static _Thread_local uint8_t data[3000];
    fill(data, sizeof data, (unsigned)(uintptr_t)arg);
    for (int i = 0; i < 200; i++) {
        ioh_buf *form = form_of(&shared, 15, IOH_WS_TEXT, broadcast);
        ioh_buf *frame = ioh__deflaters_frame(&shared, 15, IOH_WS_TEXT, data, sizeof data);
        if (!form || !frame || frame->len >= sizeof data)
            return (void *)wrong;
        ioh_buf_unref(frame);
    }
    return NULL;
}

static void threads_compress_beside_each_other(void **state)
{
    enum { THREADS = 24 }; /* more than states are kept */
    pthread_t threads[THREADS];
    uint8_t data[1000];
    (void)state;
    ioh__deflaters_init(&shared, 13, 1, 1);
    fill(data, sizeof data, 8);
    broadcast = ioh_buf_copy(data, sizeof data);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compress_much, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    ioh_buf_unref(broadcast);
    ioh__deflaters_destroy(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_inflate),
        cmocka_unit_test(a_kept_window_is_referred_to),
        cmocka_unit_test(a_window_outlives_the_last_block_of_a_stream),
        cmocka_unit_test(a_stream_may_end_with_what_there_was_no_room_for),
        cmocka_unit_test(what_is_no_deflate_stream_is_bad),
        cmocka_unit_test(a_message_that_is_cut_short_is_bad),
        cmocka_unit_test(cuts_and_room_do_not_matter),
        cmocka_unit_test(a_last_block_may_end_where_the_room_does),
        cmocka_unit_test(frames_of_all_sizes_come_back),
        cmocka_unit_test(what_does_not_become_shorter_is_left_alone),
        cmocka_unit_test(a_kept_context_makes_the_next_message_small),
        cmocka_unit_test(short_messages_go_as_they_are),
        cmocka_unit_test(a_narrow_window_of_the_peer_is_kept_to),
        cmocka_unit_test(a_message_for_many_is_compressed_once),
        cmocka_unit_test(threads_compress_beside_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

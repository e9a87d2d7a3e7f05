/* The ways to look at the bytes of a request head tell the same: the masks for every byte at every place of a
 * window, and what becomes of a head for every byte at every place of it, for pieces of every length across
 * windows, and for every length of what is there. What the processor does not have is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http1_scan.h"

/* ---- masks */

#if IOH__SCAN_VECTORS
IOH__SSSE3 static struct ioh__scan by_ssse3(const char *p)
{
    return ioh__scan_by_ssse3(p, true);
}

IOH__AVX2 static struct ioh__scan by_avx2(const char *p)
{
    return ioh__scan_by_avx2(p, true);
}

static void check_masks(struct ioh__scan (*scan)(const char *))
{
    /* a block of its own: nothing behind the window is read */
    char *window = malloc(IOH__SCAN_WIDTH);
    assert_non_null(window);
    for (int filler = 0; filler < 256; filler += 15) {
        memset(window, filler, IOH__SCAN_WIDTH);
        for (size_t at = 0; at < IOH__SCAN_WIDTH; at++) {
            for (int c = 0; c < 256; c++) {
                window[at] = (char)c;
                struct ioh__scan s = scan(window);
                uint64_t bit = (uint64_t)1 << at, rest = ~bit;
                uint64_t kinds = ioh__ch[filler];
                assert_int_equal(!(s.token & bit), ioh__is_ch((char)c, IOH__CH_TOKEN));
                assert_int_equal(!(s.value & bit), ioh__is_ch((char)c, IOH__CH_VALUE));
                assert_int_equal(!(s.path & bit), ioh__is_ch((char)c, IOH__CH_PATH));
                assert_true((s.token & rest) == (kinds & IOH__CH_TOKEN ? 0 : rest));
                assert_true((s.value & rest) == (kinds & IOH__CH_VALUE ? 0 : rest));
                assert_true((s.path & rest) == (kinds & IOH__CH_PATH ? 0 : rest));
            }
            window[at] = (char)filler;
        }
    }
    free(window);
}
#endif

static void masks_tell_what_the_table_tells(void **state)
{
    (void)state;
#if IOH__SCAN_VECTORS
    if (ioh__scan_best() >= IOH__BY_SSSE3)
        check_masks(by_ssse3);
    if (ioh__scan_best() >= IOH__BY_AVX2)
        check_masks(by_avx2);
#endif
}

/* ---- heads */

#define FIELDS 12
#define ROOM 512u

struct outcome {
    enum ioh__http1_result result;
    size_t scanned;
    struct ioh__http1_head head;
    struct ioh__http1_fault fault;
    struct ioh__http1_field fields[FIELDS];
};

static void parse(enum ioh__scan_way way, const char *bytes, size_t len, size_t room,
                  struct outcome *o)
{
    static const struct ioh__http1_limits limits = {
        .max_head = ROOM, .max_uri = 300, .max_headers = FIELDS};
    memset(o, 0, sizeof *o);
    o->head.fields = o->fields;
    o->result =
        ioh__http1_parse_by(way, bytes, len, room, &o->scanned, &limits, &o->head, &o->fault);
}

static void check_same(const struct outcome *o, const struct outcome *wanted)
{
    assert_int_equal(o->result, wanted->result);
    assert_int_equal(o->scanned, wanted->scanned);
    if (o->result == IOH__HTTP1_DONE) {
        /* all up to content_length, which lies behind a gap */
        assert_memory_equal(&o->head, &wanted->head,
                            offsetof(struct ioh__http1_head, upgrade_websocket) + sizeof(bool));
        assert_int_equal(o->head.content_length, wanted->head.content_length);
        assert_int_equal(o->head.count, wanted->head.count);
        assert_memory_equal(o->fields, wanted->fields, sizeof o->fields);
    } else if (o->result == IOH__HTTP1_FAULT) {
        assert_int_equal(o->fault.status, wanted->fault.status);
        assert_int_equal(o->fault.offset, wanted->fault.offset);
        assert_string_equal(o->fault.reason, wanted->fault.reason);
    }
}

/* All ways, of bytes that lie in a block of their own; and of such with more bytes behind them, which would go
 * on with whatever it is that ends there. */
static enum ioh__http1_result check_ways(const char *bytes, size_t len)
{
    static const char *const behind[] = {"x", " ", "\r\n", ": /"};
    struct outcome wanted, o;
    char room[ROOM + IOH__SCAN_WIDTH];
    parse(IOH__BY_BYTES, bytes, len, len, &wanted);
    for (enum ioh__scan_way way = IOH__BY_SSSE3; way <= ioh__scan_best(); way++) {
        parse(way, bytes, len, len, &o);
        check_same(&o, &wanted);
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            size_t more = strlen(behind[i]);
            memcpy(room, bytes, len);
            for (size_t at = 0; at < IOH__SCAN_WIDTH; at++)
                room[len + at] = behind[i][at % more];
            parse(way, room, len, len + IOH__SCAN_WIDTH, &o);
            check_same(&o, &wanted);
        }
    }
    return wanted.result;
}

static char *block(const char *bytes, size_t len)
{
    char *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    return copy;
}

static const char *const heads[] = {
    "GET /a/path?with=a&query=in?it HTTP/1.1\r\nHost: www.example.org\r\nX-First:\tone \t\r\n"
    "Accept-Language: de, en;q=0.5\r\nX: \xc3\xbc\xff\r\nEmpty:\r\nConnection: keep-alive\r\n\r\n",
    "\r\nPOST http://example.org:8080/upload/files HTTP/1.1\r\nHost: example.org:8080\r\n"
    "Content-Length: 1234567890\r\nExpect: 100-continue\r\nConnection: close, Upgrade\r\n"
    "Upgrade: websocket\r\nA-Name-That-Is-So-Long-That-It-Reaches-Over-More-Than-One-Window-Of-64: "
    "x"
    "\r\n\r\n",
    "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\nHost: [::1]\r\n\r\n",
    "GET /p?q HTTP/1.1\r\nHost: a.b%20c:8080\r\n\r\n", /* shorter than a window */
};

static void every_byte_at_every_place_of_a_head_has_the_same_outcome(void **state)
{
    size_t done = 0, faults = 0;
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t len = strlen(heads[i]);
        char *bytes = block(heads[i], len);
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                bytes[at] = (char)c;
                enum ioh__http1_result result = check_ways(bytes, len);
                done += result == IOH__HTTP1_DONE;
                faults += result == IOH__HTTP1_FAULT;
            }
            bytes[at] = heads[i][at];
        }
        free(bytes);
    }
    assert_true(done > 10000 && faults > 10000);
}

static void every_beginning_of_a_head_has_the_same_outcome(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t whole = strlen(heads[i]);
        for (size_t len = 1; len <= whole; len++) {
            char *bytes = block(heads[i], len);
            enum ioh__http1_result result = check_ways(bytes, len);
            assert_true(len == whole || result == IOH__HTTP1_MORE);
            free(bytes);
        }
    }
}

static void pieces_of_every_length_have_the_same_outcome(void **state)
{
    char head[ROOM + 1];
    (void)state;
    for (int path = 0; path < 140; path++) {
        for (int name = 1; name < 70; name++) {
            int value = (path * 7 + name * 3) % 140;
            int len = snprintf(head, sizeof head,
                               "GET /%0*d HTTP/1.1\r\nHost: a\r\n%0*d: %.*s\r\nX: y\r\n\r\n", path,
                               0, name, 0, value,
                               "................................................................"
                               "................................................................"
                               "............");
            assert_true(len > 0 && len <= (int)ROOM);
            char *bytes = block(head, (size_t)len);
            assert_int_equal(check_ways(bytes, (size_t)len), IOH__HTTP1_DONE);
            free(bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_tell_what_the_table_tells),
        cmocka_unit_test(every_byte_at_every_place_of_a_head_has_the_same_outcome),
        cmocka_unit_test(every_beginning_of_a_head_has_the_same_outcome),
        cmocka_unit_test(pieces_of_every_length_have_the_same_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

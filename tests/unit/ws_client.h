/* A WebSocket client for tests: writes frames, good and bad ones, hands their bytes to an engine piece by
 * piece as a loop would, and notes the events as text. For programs of one thread.
 */
#ifndef IOH_TESTS_WS_CLIENT_H
#define IOH_TESTS_WS_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/handler.h>

#include "proto/ws_engine.h"

/* ---- what a client sends */

enum { FIN = 0x80, RSV1 = 0x40, RSV2 = 0x20, RSV3 = 0x10 };
enum { CONT = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };
enum { BARE = 1, LONG16 = 2, LONG64 = 4 }; /* unmasked; a longer form of the length */

struct wire {
    uint8_t bytes[200000];
    size_t len;
};

/* where the next bytes go that a test sends */
static struct wire wire;

static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};

static inline void put_length(struct wire *w, uint64_t len, int mask_bit, int flags)
{
    size_t extended = flags & LONG64 ? 8 : flags & LONG16 ? 2 : len > 65535 ? 8 : len > 125 ? 2 : 0;
    int code = extended == 8 ? 127 : extended == 2 ? 126 : (int)len;
    w->bytes[w->len++] = (uint8_t)(code | mask_bit);
    while (extended-- > 0)
        w->bytes[w->len++] = (uint8_t)(len >> (8 * extended));
}

/* A header that announces len bytes, and the key. */
static inline void put_header(struct wire *w, int b0, uint64_t len, int flags)
{
    w->bytes[w->len++] = (uint8_t)b0;
    put_length(w, len, flags & BARE ? 0 : 0x80, flags);
    if (!(flags & BARE)) {
        memcpy(w->bytes + w->len, key, sizeof key);
        w->len += sizeof key;
    }
}

static inline void put(struct wire *w, int b0, const char *payload, size_t len, int flags)
{
    put_header(w, b0, len, flags);
    for (size_t i = 0; i < len; i++)
        w->bytes[w->len++] = (uint8_t)payload[i] ^ (flags & BARE ? 0 : key[i % 4]);
}

/* ---- what comes out, as a text: one line per event */

struct log {
    char text[4096];
    size_t len;
};

static void note(struct log *log, const struct ioh__ws_event *e)
{
    static const char *const names[] = {[IOH__WS_MESSAGE] = "message",
                                        [IOH__WS_PING] = "ping",
                                        [IOH__WS_PONG] = "pong",
                                        [IOH__WS_CLOSE] = "close",
                                        [IOH__WS_FAULT] = "fault"};
    const char *name = e->kind != IOH__WS_MESSAGE ? names[e->kind]
                       : e->op == IOH_WS_TEXT     ? "text"
                                                  : "binary";
    size_t room = sizeof log->text - log->len;
    int n = e->kind == IOH__WS_FAULT   ? snprintf(log->text + log->len, room, "fault %d\n", e->code)
            : e->kind == IOH__WS_CLOSE ? snprintf(log->text + log->len, room, "close %d %.*s\n",
                                                  e->code, (int)e->len, (const char *)e->data)
            : e->len > 200 ? snprintf(log->text + log->len, room, "%s %zu bytes\n", name, e->len)
                           : snprintf(log->text + log->len, room, "%s %.*s\n", name, (int)e->len,
                                      (const char *)e->data);
    assert_true(n > 0 && (size_t)n < room);
    log->len += (size_t)n;
    assert_non_null(e->data);
    if (e->kind == IOH__WS_FAULT)
        assert_int_equal(strlen((const char *)e->data), e->len);
}

/* One connection and the bytes it has not taken yet, as the loop would keep them. */
struct client {
    struct ioh__ws_engine *engine;
    struct ioh__ws ws;
    uint64_t max_message;
    const uint8_t *bytes;
    size_t at, end; /* of what has arrived */
    struct log log;
};

/* More bytes arrive. They lie in memory of exactly their size, so that a read beyond them is seen. */
static void arrive(struct client *c, size_t n)
{
    c->end += n;
    size_t len = c->end - c->at;
    uint8_t *given = malloc(len ? len : 1);
    assert_non_null(given);
    memcpy(given, c->bytes + c->at, len);
    size_t off = 0;
    struct ioh__ws_event event;
    do {
        size_t used = SIZE_MAX;
        ioh__ws_feed(c->engine, &c->ws, given + off, len - off, c->max_message, &used, &event);
        assert_true(used <= len - off);
        off += used;
        if (event.kind != IOH__WS_MORE)
            note(&c->log, &event);
        if (event.kind == IOH__WS_CLOSE || event.kind == IOH__WS_FAULT) {
            assert_true(c->ws.ended);
            assert_null(c->ws.loan);
        }
    } while (event.kind != IOH__WS_MORE);
    assert_memory_equal(given + off, c->bytes + c->at + off, len - off); /* left as it was */
    c->at += off;
    free(given);
}

static struct client connect_client(struct ioh__ws_engine *engine, const struct wire *w)
{
    return (struct client){.engine = engine, .max_message = 1000, .bytes = w->bytes};
}

static inline void leave(struct client *c)
{
    ioh__ws_release(c->engine, &c->ws);
    assert_null(c->ws.loan);
}

#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

#endif

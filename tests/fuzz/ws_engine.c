/* The WebSocket engine against wslay alone: the same bytes, cut where the input says, must make the same
 * events with the fast path, with the fast path and no cuts, and without it. And pieces of messages, put together,
 * must be the messages.
 *
 *     input: limit(1; from c0 on compression is agreed, from e0 on with context takeover) cuts(4) bytes from the client
 *
 * Zero bytes follow, as many as a frame may have that is waited for: an engine may tell a fault before
 * the frame is whole, so the lists are compared when none is left waiting.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <iohandler/handler.h>

#include "proto/utf8.h"
#include "proto/ws_engine.h"
#include "proto/ws_frame.h"

enum { CUTS = 4, PREFIX = 1 + CUTS, FILL = IOH__WS_WAIT_MAX + IOH__WS_HEADER_MAX };

/* Events as bytes, to be compared. */
struct events {
    uint8_t *bytes;
    size_t len, cap;
};

static void append(struct events *events, const void *data, size_t len)
{
    if (events->len + len > events->cap) {
        events->cap = (events->len + len) * 2;
        events->bytes = realloc(events->bytes, events->cap);
        assert(events->bytes);
    }
    if (len > 0)
        memcpy(events->bytes + events->len, data, len);
    events->len += len;
}

static void note(struct events *events, const struct ioh__ws_event *event)
{
    size_t len = event->kind == IOH__WS_FAULT ? 0 : event->len; /* why is only for the log */
    append(events, &event->kind, sizeof event->kind);
    append(events, &event->op, sizeof event->op);
    append(events, &event->code, sizeof event->code);
    append(events, &len, sizeof len);
    append(events, event->data, len);
}

/* message: what of it has come so far. */
static void note_piece(struct events *events, struct events *message,
                       const struct ioh__ws_event *event)
{
    bool broken;
    assert(event->len > 0 || event->last);
    if (event->op == IOH_WS_TEXT) /* whole characters only */
        assert(ioh__utf8_whole(event->data, event->len, &broken) == event->len);
    append(message, event->data, event->len);
    if (!event->last)
        return;
    struct ioh__ws_event whole = {
        .kind = IOH__WS_MESSAGE, .op = event->op, .data = message->bytes, .len = message->len};
    note(events, &whole);
    message->len = 0;
}

struct peer {
    struct ioh__ws_engine engine;
    struct ioh__ws ws;
    uint64_t max_message;
    const uint8_t *bytes;
    size_t at, end; /* taken, and arrived */
    struct events events, message;
};

/* n more bytes arrive, in memory of exactly the size of what is not taken yet. */
static void arrive(struct peer *p, size_t n)
{
    p->end += n;
    size_t len = p->end - p->at, off = 0;
    uint8_t *given = malloc(len > 0 ? len : 1);
    assert(given);
    memcpy(given, p->bytes + p->at, len);
    struct ioh__ws_event event;
    do {
        size_t used;
        ioh__ws_feed(&p->engine, &p->ws, given + off, len - off, p->max_message, &used, &event);
        assert(used <= len - off);
        off += used;
        if (event.kind == IOH__WS_PIECE)
            note_piece(&p->events, &p->message, &event);
        else if (event.kind != IOH__WS_MORE)
            note(&p->events, &event);
        assert(!p->ws.ended || !p->ws.loan);
    } while (event.kind != IOH__WS_MORE);
    assert(memcmp(given + off, p->bytes + p->at + off, len - off) == 0);
    p->at += off;
    free(given);
}

enum way { FAST, WSLAY, PIECES };

struct input {
    const uint8_t *bytes;
    size_t len;
    uint64_t max_message;
    bool packed; /* compression is agreed, */
    bool keeps;  /* with context takeover */
};

/* cuts NULL: all at once. */
static struct events run(const struct input *in, const uint8_t *cuts, enum way way)
{
    struct peer p = {.max_message = in->max_message, .bytes = in->bytes};
    ioh__ws_engine_init(&p.engine);
    p.engine.no_fast_path = way == WSLAY;
    p.ws.pieces = way == PIECES;
    if (in->packed)
        p.ws.terms = (struct ioh__deflate_terms){
            15, 15, in->keeps ? IOH__DEFLATE_SERVER_KEEPS | IOH__DEFLATE_CLIENT_KEEPS : 0};
    for (size_t i = 0; cuts && p.end < in->len - FILL; i++) {
        size_t left = in->len - FILL - p.end;
        size_t cut = cuts[i % CUTS];
        cut = cut < 128 ? cut + 1 : (cut - 127) * 32;
        arrive(&p, cut < left ? cut : left);
    }
    arrive(&p, in->len - p.end);
    ioh__ws_release(&p.engine, &p.ws);
    assert(p.engine.lent == 0);
    ioh__ws_engine_destroy(&p.engine);
    free(p.message.bytes);
    return p.events;
}

/* Runs it once more, and compares. */
static void expect(const struct events *a, const struct input *in, const uint8_t *cuts,
                   enum way way)
{
    struct events b = run(in, cuts, way);
    if (a->len != b.len || (a->len > 0 && memcmp(a->bytes, b.bytes, a->len) != 0))
        abort();
    free(b.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < PREFIX)
        return 0;
    const uint8_t *cuts = data + 1;
    struct input in = {.len = len - PREFIX + FILL,
                       .max_message = data[0] < 128 ? data[0] : 1ull << (data[0] & 63),
                       .packed = data[0] >= 0xc0,
                       .keeps = data[0] >= 0xe0};
    uint8_t *wire = calloc(1, in.len);
    assert(wire);
    memcpy(wire, data + PREFIX, len - PREFIX);
    in.bytes = wire;

    struct events fast = run(&in, cuts, FAST);
    expect(&fast, &in, NULL, FAST);
    expect(&fast, &in, cuts, WSLAY);
    free(fast.bytes);

    in.max_message = UINT64_MAX; /* pieces have no limit */
    struct events messages = run(&in, cuts, FAST);
    expect(&messages, &in, cuts, PIECES);
    expect(&messages, &in, NULL, PIECES);
    free(messages.bytes);
    free(wire);
    return 0;
}

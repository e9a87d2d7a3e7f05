/* The receiving side of a WebSocket (RFC 6455 5): bytes in, events out, no I/O.
 *
 * The engine (contexts at rest) belongs to a loop, struct ioh__ws to a connection of it; all calls come
 * from the thread that holds the loop. Lent and idle contexts are owned here.
 *
 * Who does what. The engine reads the headers, so that it knows where a frame ends, and refuses what a
 * header must not look like. Whole frames are judged and unmasked where they lie (the fast path).
 * Everything else goes by a lent wslay context: it judges each header again and the order of frames.
 * wslay moves one byte at a time, so it gets the header as if the frame were empty, and the payload is
 * unmasked and checked here by whole words. With engine->no_fast_path there is no fast path, headers
 * are not judged here, and wslay unmasks and checks the payload too: that is the reference which
 * tests compare with.
 *
 *                  whole frame: event
 *                     .------.
 *                     v      |      header of a fragment or of a large frame
 *              .---> BOUNDARY --------------------------------.
 *              |      holds nothing                           v
 *              |                      payload <--header-- BETWEEN FRAMES --.
 *    next feed |                         |                    ^    |       | control frame: event
 *              |       last frame ends   |   frame ends       |    '-------'
 *           DELIVERED <------------------+--------------------'
 *              the message's bytes stay in the loan until the next call
 *
 * From every state a Close frame or a fault leads to ENDED, where the loan is freed: such a context is
 * of no more use. The contexts must never answer by themselves, so their sending is shut down.
 */
#include "proto/ws_engine.h"

#include "proto/mask.h"
#include "proto/utf8.h"
#include "proto/ws_frame.h"

#include <iohandler/handler.h>
#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

enum {
    OP_CONTINUATION = 0,
    OP_CLOSE = 8,
    CONTROL_MAX = 125,     /* RFC 6455 5.5 */
    IDLE_MAX = 16,         /* contexts at rest in one loop: 16 of 9.4 kB */
    BUFFER_MIN = 1024,     /* first size of a message's buffer */
    BUFFER_KEPT = 1 << 16, /* a larger buffer is not kept by a context at rest */
};

/* Why a connection is closed (RFC 6455 7.4.1). */
enum {
    CODE_PROTOCOL = 1002,
    CODE_NONE = 1005,
    CODE_TEXT = 1007,
    CODE_TOO_BIG = 1009,
    CODE_INTERNAL = 1011,
};

struct ioh__ws_loan {
    struct ioh__ws_loan *next; /* at rest */
    wslay_event_context_ptr context;

    uint8_t *buffer; /* the message so far */
    size_t len, cap;
    size_t checked; /* text: bytes at the start that are whole, valid characters */
    uint8_t op;     /* of the message, 0 before and after it */

    bool fin; /* of the current data frame, also below */
    uint8_t key[4];
    size_t phase;
    uint64_t left; /* payload still to come */

    const uint8_t *in, *in_end; /* what wslay may read now */
    bool started;               /* it took the current frame's header */
    uint8_t *out;               /* reference only: where it puts the payload, */
    uint64_t room;              /* how much a data frame may have */
    bool too_big;               /* and whether it had more */
};

/* One call of ioh__ws_feed(). */
struct feed {
    struct ioh__ws_engine *engine;
    struct ioh__ws *ws;
    uint8_t *data;
    size_t len, used;
    uint64_t max_message;
    struct ioh__ws_event *event;
};

static bool is_control(int op)
{
    return op & 8;
}

/* ---- wslay */

static ssize_t on_read(wslay_event_context_ptr context, uint8_t *to, size_t len, int flags,
                       void *user)
{
    struct ioh__ws_loan *loan = user;
    size_t n = (size_t)(loan->in_end - loan->in);
    (void)flags;
    if (n == 0) {
        wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    n = n < len ? n : len;
    memcpy(to, loan->in, n);
    loan->in += n;
    return (ssize_t)n;
}

static void on_start(wslay_event_context_ptr context,
                     const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
    struct ioh__ws_loan *loan = user;
    loan->started = true;
    if (!is_control(arg->opcode) && arg->payload_length > loan->room) {
        loan->too_big = true;
        wslay_event_shutdown_read(context);
    }
}

static void on_chunk(wslay_event_context_ptr context,
                     const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
    struct ioh__ws_loan *loan = user;
    (void)context;
    if (arg->data_length > 0) {
        memcpy(loan->out, arg->data, arg->data_length);
        loan->out += arg->data_length;
    }
}

/* Gives wslay bytes of one frame, never beyond its end. 0, or the code to close with. wslay refuses a
 * header before it reports the start of the frame, and afterwards nothing but bad text. */
static int judge(struct ioh__ws_loan *loan, const uint8_t *bytes, size_t len)
{
    loan->in = bytes;
    loan->in_end = bytes + len;
    int r = wslay_event_recv(loan->context);
    if (r == WSLAY_ERR_NOMEM) {
        return CODE_INTERNAL;
    }
    if (r == 0 && (wslay_event_get_read_enabled(loan->context) ||
                   wslay_event_get_close_received(loan->context))) {
        return 0;
    }
    return loan->too_big ? CODE_TOO_BIG : loan->started ? CODE_TEXT : CODE_PROTOCOL;
}

/* ---- loans */

static void free_loan(struct ioh__ws_loan *loan)
{
    wslay_event_context_free(loan->context);
    free(loan->buffer);
    free(loan);
}

static struct ioh__ws_loan *new_loan(void)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_read,
        .on_frame_recv_start_callback = on_start,
        .on_frame_recv_chunk_callback = on_chunk,
    };
    struct ioh__ws_loan *loan = calloc(1, sizeof *loan);
    if (!loan) {
        return NULL;
    }
    if (wslay_event_context_server_init(&loan->context, &callbacks, loan) != 0) {
        free(loan);
        return NULL;
    }
    wslay_event_config_set_no_buffering(loan->context, 1);
    wslay_event_config_set_max_recv_msg_length(loan->context, UINT64_MAX); /* the limit is ours */
    wslay_event_shutdown_write(loan->context); /* no Pong and no Close is ever queued */
    return loan;
}

static struct ioh__ws_loan *lend(struct ioh__ws_engine *engine, struct ioh__ws *ws)
{
    struct ioh__ws_loan *loan = engine->idle;
    if (loan) {
        engine->idle = loan->next;
        engine->idle_count--;
    } else {
        loan = new_loan();
        if (!loan) {
            return NULL;
        }
    }
    loan->next = NULL;
    loan->len = loan->checked = 0;
    ws->loan = loan;
    engine->lent++;
    return loan;
}

/* Is its message complete? Then the context is as new and may go to another connection. */
static bool at_boundary(const struct ioh__ws_loan *loan)
{
    return loan->op == 0 && loan->left == 0;
}

/* as_new: the context stands at a message boundary and has refused nothing. */
static void take_back(struct ioh__ws_engine *engine, struct ioh__ws *ws, bool as_new)
{
    struct ioh__ws_loan *loan = ws->loan;
    if (!loan) {
        return;
    }
    ws->loan = NULL;
    engine->lent--;
    if (!as_new || engine->idle_count == IDLE_MAX) {
        free_loan(loan);
        return;
    }
    if (loan->cap > BUFFER_KEPT) {
        free(loan->buffer);
        loan->buffer = NULL;
        loan->cap = 0;
    }
    loan->next = engine->idle;
    engine->idle = loan;
    engine->idle_count++;
}

/* Room for n more bytes of the message. It grows by doubling and only as bytes really arrive, and
 * never beyond what the message can still need. */
static bool reserve(struct ioh__ws_loan *loan, size_t n, uint64_t max_message)
{
    size_t want = loan->len + n;
    if (want <= loan->cap) {
        return true;
    }
    uint64_t most = loan->fin ? loan->len + loan->left : max_message;
    size_t cap = loan->cap < BUFFER_MIN / 2 ? BUFFER_MIN : loan->cap * 2;
    cap = cap > most ? (size_t)most : cap;
    cap = cap < want ? want : cap;
    uint8_t *buffer = realloc(loan->buffer, cap);
    if (!buffer) {
        return false;
    }
    loan->buffer = buffer;
    loan->cap = cap;
    return true;
}

/* ---- events */

static void end(struct feed *f, enum ioh__ws_event_kind kind, int code)
{
    f->event->kind = kind;
    f->event->code = code;
    f->ws->ended = true;
    take_back(f->engine, f->ws, false);
}

static void fault(struct feed *f, int code, const char *why)
{
    end(f, IOH__WS_FAULT, code);
    f->event->data = (uint8_t *)why;
    f->event->len = strlen(why);
    f->used = f->len;
}

/* wslay knows only the code. */
static void refused(struct feed *f, int code)
{
    fault(f, code,
          code == CODE_PROTOCOL  ? "a frame that must not stand here"
          : code == CODE_TEXT    ? "text is not UTF-8"
          : code == CODE_TOO_BIG ? "the message is too big"
                                 : "out of memory");
}

/* RFC 6455 5.5.1, 7.4: nothing, or a code and a reason in UTF-8. */
static void close_event(struct feed *f, uint8_t *payload, size_t len)
{
    if (len == 1) {
        fault(f, CODE_PROTOCOL, "a Close frame with half a code");
        return;
    }
    int code = len ? payload[0] << 8 | payload[1] : CODE_NONE;
    if (len && !ioh__ws_close_code_valid(code)) {
        fault(f, CODE_PROTOCOL, "a Close frame with an invalid code");
        return;
    }
    size_t skip = len ? 2 : 0;
    if (!ioh__utf8_valid(payload + skip, len - skip)) {
        fault(f, CODE_TEXT, "the reason in a Close frame is not UTF-8");
        return;
    }
    end(f, IOH__WS_CLOSE, code);
    f->event->data = payload + skip;
    f->event->len = len - skip;
}

/* The event for a whole, unmasked frame that is not part of a fragmented message. */
static void frame_event(struct feed *f, int op, uint8_t *payload, size_t len)
{
    f->used = (size_t)(payload + len - f->data);
    if (op == OP_CLOSE) {
        close_event(f, payload, len);
        return;
    }
    if (op == IOH_WS_TEXT && !ioh__utf8_valid(payload, len)) {
        fault(f, CODE_TEXT, "text is not UTF-8");
        return;
    }
    f->event->kind = op == IOH_WS_PING   ? IOH__WS_PING
                     : op == IOH_WS_PONG ? IOH__WS_PONG
                                         : IOH__WS_MESSAGE;
    f->event->op = op;
    f->event->data = payload;
    f->event->len = len;
}

/* The current frame's payload is complete. */
static void end_frame(struct feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    if (!loan->fin) {
        return;
    }
    if (loan->op == IOH_WS_TEXT && !f->engine->no_fast_path && loan->checked < loan->len) {
        fault(f, CODE_TEXT, "text ends inside a character");
        return;
    }
    f->event->kind = IOH__WS_MESSAGE;
    f->event->op = loan->op;
    f->event->data = loan->len ? loan->buffer : f->data;
    f->event->len = loan->len;
    loan->op = 0;
}

/* ---- reading */

/* What is wrong with a header, of which len bytes are there; whole when h is set. NULL: nothing yet. */
static const char *header_fault(const uint8_t *data, size_t len, const struct ioh__ws_header *h)
{
    if (len == 0) {
        return NULL;
    }
    int op = data[0] & 0x0f;
    if (data[0] & 0x70) { /* RFC 6455 5.2: no extension gives them a meaning */
        return "a reserved bit is set";
    }
    if ((op & 7) > 2) {
        return "a reserved opcode";
    }
    if (is_control(op) && !(data[0] & 0x80)) { /* 5.5 */
        return "a control frame in fragments";
    }
    if (len == 1) {
        return NULL;
    }
    if (!(data[1] & 0x80)) { /* 5.1 */
        return "a frame without mask";
    }
    if (is_control(op) && (data[1] & 0x7f) > CONTROL_MAX) { /* 5.5 */
        return "a control frame above 125 bytes";
    }
    if (!h) {
        return NULL;
    }
    if (h->len == 2 + 2 + 4 && h->payload < 126) { /* 5.2: the shortest form must be used */
        return "a length that is not minimal";
    }
    if (h->len == 2 + 8 + 4 && (h->payload < 0x10000 || h->payload >> 63)) {
        return "a length that is not minimal or above 2^63";
    }
    return NULL;
}

/* What a data frame may have so that the message stays within the limit. */
static uint64_t room(const struct feed *f)
{
    uint64_t have = f->ws->loan ? f->ws->loan->len : 0;
    return have < f->max_message ? f->max_message - have : 0;
}

/* A control frame that wslay has let pass by its header. The reference shows it the payload too, but
 * not that of a Close: wslay 1.1.1 knows no code above 1011 and takes a payload of one byte. */
static void lent_control(struct feed *f, const struct ioh__ws_header *h)
{
    uint8_t *payload = f->data + f->used + h->len;
    size_t len = (size_t)h->payload;
    if (f->engine->no_fast_path && h->op != OP_CLOSE) {
        f->ws->loan->out = payload;
        int code = judge(f->ws->loan, payload, len);
        if (code) {
            refused(f, code);
            return;
        }
    } else {
        ioh__mask(payload, len, h->key, 0);
    }
    frame_event(f, h->op, payload, len);
}

static void lent_data(struct feed *f, const struct ioh__ws_header *h)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    if (h->op != OP_CONTINUATION) {
        loan->op = h->op;
    }
    loan->fin = h->fin;
    memcpy(loan->key, h->key, sizeof loan->key);
    loan->phase = 0;
    loan->left = h->payload;
    f->used += h->len;
    if (loan->left == 0) {
        end_frame(f);
    }
}

/* A frame that needs a context: it judges the header, of the frame as it is or as if it were empty. */
static void lent_frame(struct feed *f, const struct ioh__ws_header *h)
{
    const uint8_t *header = f->data + f->used;
    uint8_t empty[2 + 4] = {header[0], header[1] & 0x80};
    bool as_is = f->engine->no_fast_path && (h->op != OP_CLOSE || h->len > sizeof empty);

    struct ioh__ws_loan *loan = f->ws->loan ? f->ws->loan : lend(f->engine, f->ws);
    if (!loan) {
        fault(f, CODE_INTERNAL, "out of memory");
        return;
    }
    loan->started = loan->too_big = false;
    loan->room = room(f);
    int code = judge(loan, as_is ? header : empty, as_is ? h->len : h->masked ? sizeof empty : 2);
    if (code) {
        refused(f, code);
    } else if (is_control(h->op)) {
        lent_control(f, h);
    } else {
        lent_data(f, h);
    }
}

/* At the start of a frame. false: more bytes have to come first. */
static bool begin_frame(struct feed *f)
{
    uint8_t *data = f->data + f->used;
    size_t len = f->len - f->used;
    bool reference = f->engine->no_fast_path;
    bool in_message = f->ws->loan != NULL;
    struct ioh__ws_header h;
    bool whole = ioh__ws_header_read(data, len, &h);

    const char *why = reference ? NULL : header_fault(data, len, whole ? &h : NULL);
    if (why) {
        fault(f, CODE_PROTOCOL, why);
        return true;
    }
    if (!whole) {
        return false;
    }
    bool here = h.payload <= len - h.len;
    if (is_control(h.op)) {
        if (!here && h.payload <= CONTROL_MAX) {
            return false;
        }
    } else if (!reference && (h.op == OP_CONTINUATION) == in_message && h.payload > room(f)) {
        fault(f, CODE_TOO_BIG, "the message is too big");
        return true;
    }
    if (!reference && !in_message && h.fin && h.op != OP_CONTINUATION) {
        if (here) {
            ioh__mask(data + h.len, (size_t)h.payload, h.key, 0);
            frame_event(f, h.op, data + h.len, (size_t)h.payload);
            return true;
        }
        if (h.len + h.payload <= IOH__WS_WAIT_MAX) {
            return false;
        }
    }
    lent_frame(f, &h);
    return true;
}

/* Inside a data frame on a lent context: takes what is there of its payload. */
static void take_payload(struct feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    const uint8_t *data = f->data + f->used;
    size_t n = f->len - f->used;
    n = n < loan->left ? n : (size_t)loan->left;
    if (!reserve(loan, n, f->max_message)) {
        fault(f, CODE_INTERNAL, "out of memory");
        return;
    }
    if (f->engine->no_fast_path) {
        loan->out = loan->buffer + loan->len;
        int code = judge(loan, data, n);
        if (code) {
            refused(f, code);
            return;
        }
    } else {
        ioh__mask_copy(loan->buffer + loan->len, data, n, loan->key, loan->phase);
    }
    f->used += n;
    loan->len += n;
    loan->phase = (loan->phase + n) & 3;
    loan->left -= n;
    if (loan->op == IOH_WS_TEXT && !f->engine->no_fast_path) {
        bool broken;
        loan->checked +=
            ioh__utf8_whole(loan->buffer + loan->checked, loan->len - loan->checked, &broken);
        if (broken) { /* RFC 6455 8.1 */
            fault(f, CODE_TEXT, "text is not UTF-8");
            return;
        }
    }
    if (loan->left == 0) {
        end_frame(f);
    }
}

/* ---- the public functions */

void ioh__ws_engine_init(struct ioh__ws_engine *engine)
{
    memset(engine, 0, sizeof *engine);
}

void ioh__ws_engine_destroy(struct ioh__ws_engine *engine)
{
    while (engine->idle) {
        struct ioh__ws_loan *loan = engine->idle;
        engine->idle = loan->next;
        free_loan(loan);
    }
    engine->idle_count = 0;
}

void ioh__ws_feed(struct ioh__ws_engine *engine, struct ioh__ws *ws, uint8_t *data, size_t len,
                  uint64_t max_message, size_t *used, struct ioh__ws_event *event)
{
    struct feed f = {
        .engine = engine,
        .ws = ws,
        .data = data,
        .len = len,
        /* sizes are size_t from here on and may be doubled */
        .max_message = max_message < SIZE_MAX / 2 ? max_message : SIZE_MAX / 2,
        .event = event,
    };
    *event = (struct ioh__ws_event){.kind = IOH__WS_MORE};
    if (ws->ended) {
        *used = len;
        return;
    }
    if (ws->loan && at_boundary(ws->loan)) { /* its message has been delivered */
        take_back(engine, ws, true);
    }
    while (event->kind == IOH__WS_MORE) {
        if (ws->loan && ws->loan->left > 0) {
            if (f.used == len) {
                break;
            }
            take_payload(&f);
        } else if (!begin_frame(&f)) {
            break;
        }
    }
    *used = f.used;
}

void ioh__ws_release(struct ioh__ws_engine *engine, struct ioh__ws *ws)
{
    bool whole = !ws->loan || at_boundary(ws->loan);
    ws->ended |= !whole; /* the rest of a message would have no beginning */
    take_back(engine, ws, whole);
}

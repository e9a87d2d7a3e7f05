/* The receiving side of a WebSocket (RFC 6455 5): bytes in, events out, no I/O.
 *
 * The engine (contexts at rest) belongs to a loop, struct ioh__ws to a connection of it; all calls come
 * from the thread that holds the loop. Lent and idle contexts are owned here.
 *
 * Who does what. The engine reads the headers, so that it knows where a frame ends, and refuses what a
 * header must not look like. Whole frames are judged and unmasked where they lie (the fast path).
 * Everything else goes by a lent wslay context: it judges each header again and the order of frames.
 * wslay moves one byte at a time, so it gets the header as if the frame were empty, and the payload is
 * unmasked and checked here by whole words; a compressed message is inflated as it comes, and then checked
 * (ws_unpack.h). With engine->no_fast_path there is no fast path, headers are not judged here, and wslay unmasks and
 * checks the payload too: that is the reference which tests compare with.
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
#include "proto/ws_feed.h"
#include "proto/ws_frame.h"

#include <iohandler/handler.h>
#include <string.h>

enum {
    OP_CONTINUATION = 0,
    OP_CLOSE = 8,
    CONTROL_MAX = 125, /* RFC 6455 5.5 */
};

static bool is_control(int op)
{
    return op & 8;
}

/* Is the message that comes, or that begins now, handed over in pieces? The reference does not know them. */
static bool in_pieces(const struct ioh__ws_feed *f)
{
    return f->ws->loan ? f->ws->loan->pieces : f->ws->pieces && !f->engine->no_fast_path;
}

/* ---- events */

static void end(struct ioh__ws_feed *f, enum ioh__ws_event_kind kind, int code)
{
    f->event->kind = kind;
    f->event->op = 0; /* bad text had one already */
    f->event->code = code;
    f->ws->ended = true;
    ioh__ws_take_back(f->engine, f->ws, false);
}

void ioh__ws_fault(struct ioh__ws_feed *f, int code, const char *why)
{
    end(f, IOH__WS_FAULT, code);
    f->event->data = (uint8_t *)why;
    f->event->len = strlen(why);
    f->used = f->len;
}

/* wslay knows only the code. */
static void refused(struct ioh__ws_feed *f, int code)
{
    ioh__ws_fault(f, code,
                  code == IOH__CODE_PROTOCOL  ? "a frame that must not stand here"
                  : code == IOH__CODE_TEXT    ? "text is not UTF-8"
                  : code == IOH__CODE_TOO_BIG ? "the message is too big"
                                              : "out of memory");
}

/* RFC 6455 5.5.1, 7.4: nothing, or a code and a reason in UTF-8. */
static void close_event(struct ioh__ws_feed *f, uint8_t *payload, size_t len)
{
    if (len == 1) {
        ioh__ws_fault(f, IOH__CODE_PROTOCOL, "a Close frame with half a code");
        return;
    }
    int code = len ? payload[0] << 8 | payload[1] : IOH__CODE_NONE;
    if (len && !ioh__ws_close_code_valid(code)) {
        ioh__ws_fault(f, IOH__CODE_PROTOCOL, "a Close frame with an invalid code");
        return;
    }
    size_t skip = len ? 2 : 0;
    if (!ioh__utf8_valid(payload + skip, len - skip)) {
        ioh__ws_fault(f, IOH__CODE_TEXT, "the reason in a Close frame is not UTF-8");
        return;
    }
    end(f, IOH__WS_CLOSE, code);
    f->event->data = payload + skip;
    f->event->len = len - skip;
}

/* The event for a whole, unmasked frame that is not part of a fragmented message; of its payload ascii bytes at the
 * start are known to be so. */
static void frame_event(struct ioh__ws_feed *f, int op, uint8_t *payload, size_t len, size_t ascii)
{
    f->used = (size_t)(payload + len - f->data);
    if (op == OP_CLOSE) {
        close_event(f, payload, len);
        return;
    }
    if (op == IOH_WS_TEXT && !ioh__utf8_valid(payload + ascii, len - ascii)) {
        ioh__ws_fault(f, IOH__CODE_TEXT, "text is not UTF-8");
        return;
    }
    f->event->kind = op == IOH_WS_PING   ? IOH__WS_PING
                     : op == IOH_WS_PONG ? IOH__WS_PONG
                     : in_pieces(f)      ? IOH__WS_PIECE
                                         : IOH__WS_MESSAGE;
    f->event->last = true;
    f->event->op = op;
    f->event->data = payload;
    f->event->len = len;
}

/* A compressed message begins. false: out of memory. */
static bool begin_packed(struct ioh__ws_feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    loan->packed = true;
    /* wslay refuses a first frame that stands in a message only with its first byte of payload */
    ioh__ws_return_inflater(f->engine, f->ws);
    loan->inflater = ioh__ws_lend_inflater(&f->engine->contexts, &f->ws->terms, &f->ws->own);
    if (loan->inflater) {
        return true;
    }
    ioh__ws_fault(f, IOH__CODE_INTERNAL, "out of memory"); /* which frees the loan */
    return false;
}

/* Inflates bytes of the message; last: and what then is left. false: a fault. */
static bool unpack(struct ioh__ws_feed *f, const uint8_t *bytes, size_t len, bool last)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    struct ioh__ws_unpack u = {
        .inflater = loan->inflater,
        .buffer = loan->buffer,
        .len = loan->len,
        .cap = loan->cap,
        .checked = loan->checked,
        .max = f->max_message,
        .text = loan->op == IOH_WS_TEXT,
    };
    int code = ioh__ws_unpack(&u, bytes, len, last);
    loan->buffer = u.buffer;
    loan->len = u.len;
    loan->cap = u.cap;
    loan->checked = u.checked;
    if (code) {
        ioh__ws_fault(f, code, u.why);
    } else if (last) {
        ioh__ws_return_inflater(f->engine, f->ws);
    }
    return code == 0;
}

/* The current frame's payload is complete. */
static void end_frame(struct ioh__ws_feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    if (!loan->fin || (loan->packed && !unpack(f, f->data, 0, true))) {
        return;
    }
    if (loan->op == IOH_WS_TEXT && !loan->packed && !f->engine->no_fast_path &&
        loan->checked < loan->len) {
        ioh__ws_fault(f, IOH__CODE_TEXT, "text ends inside a character");
        return;
    }
    f->event->kind = IOH__WS_MESSAGE;
    f->event->op = loan->op;
    f->event->data = loan->len ? loan->buffer : f->data;
    f->event->len = loan->len;
    loan->op = 0;
}

/* A whole compressed message in one frame, unmasked: inflated into a loan. */
static void packed_event(struct ioh__ws_feed *f, int op, const uint8_t *payload, size_t len)
{
    struct ioh__ws_loan *loan = ioh__ws_lend(f->engine, f->ws);
    if (!loan) {
        ioh__ws_fault(f, IOH__CODE_INTERNAL, "out of memory");
        return;
    }
    f->used = (size_t)(payload + len - f->data);
    loan->op = (uint8_t)op;
    loan->fin = true;
    if (begin_packed(f) && unpack(f, payload, len, false)) {
        end_frame(f);
    }
}

/* ---- reading */

static uint8_t allowed_rsv(const struct ioh__ws *ws)
{
    return ws->terms.server_bits ? IOH__WS_RSV1 : 0;
}

/* Does this data frame belong to a compressed message? */
static bool is_packed(const struct ioh__ws_feed *f, const struct ioh__ws_header *h)
{
    return h->op == OP_CONTINUATION ? f->ws->loan && f->ws->loan->packed : (h->rsv & 4) != 0;
}

/* What a data frame may have so that the message stays within the limit. */
static uint64_t room(const struct ioh__ws_feed *f)
{
    uint64_t have = f->ws->loan ? f->ws->loan->len : 0;
    if (in_pieces(f)) {
        return UINT64_MAX;
    }
    return have < f->max_message ? f->max_message - have : 0;
}

/* A control frame that wslay has let pass by its header. The reference shows it the payload too, but
 * not that of a Close: wslay 1.1.1 knows no code above 1011 and takes a payload of one byte. */
static void lent_control(struct ioh__ws_feed *f, const struct ioh__ws_header *h)
{
    uint8_t *payload = f->data + f->used + h->len;
    size_t len = (size_t)h->payload;
    if (f->engine->no_fast_path && h->op != OP_CLOSE) {
        f->ws->loan->out = payload;
        int code = ioh__ws_judge(f->ws->loan, payload, len);
        if (code) {
            refused(f, code);
            return;
        }
    } else {
        ioh__mask(payload, len, h->key, 0);
    }
    frame_event(f, h->op, payload, len, 0);
}

static void lent_data(struct ioh__ws_feed *f, const struct ioh__ws_header *h)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    if (h->op != OP_CONTINUATION) {
        loan->op = h->op;
        if (is_packed(f, h) && !begin_packed(f)) {
            return;
        }
    }
    loan->fin = h->fin;
    memcpy(loan->key, h->key, sizeof loan->key);
    loan->phase = 0;
    loan->left = h->payload;
    f->used += h->len;
    if (loan->left == 0 && loan->pieces && loan->fin) {
        ioh__ws_end_pieces(f);
    } else if (loan->left == 0 && !loan->pieces) {
        end_frame(f);
    }
}

/* A frame that needs a context: it judges the header, of the frame as it is or as if it were empty. */
static void lent_frame(struct ioh__ws_feed *f, const struct ioh__ws_header *h)
{
    const uint8_t *header = f->data + f->used;
    uint8_t empty[2 + 4] = {header[0], header[1] & 0x80};
    bool as_is = f->engine->no_fast_path && (h->op != OP_CLOSE || h->len > sizeof empty);

    bool pieces = in_pieces(f);
    struct ioh__ws_loan *loan = f->ws->loan ? f->ws->loan : ioh__ws_lend(f->engine, f->ws);
    if (!loan) {
        ioh__ws_fault(f, IOH__CODE_INTERNAL, "out of memory");
        return;
    }
    loan->pieces = pieces;
    loan->started = loan->too_big = false;
    loan->room = is_packed(f, h) ? UINT64_MAX : room(f);
    wslay_event_config_set_allowed_rsv_bits(loan->context,
                                            allowed_rsv(f->ws) ? WSLAY_RSV1_BIT : WSLAY_RSV_NONE);
    int code = ioh__ws_judge(loan, as_is ? header : empty,
                             as_is       ? h->len
                             : h->masked ? sizeof empty
                                         : 2);
    if (code) {
        refused(f, code);
    } else if (is_control(h->op)) {
        lent_control(f, h);
    } else {
        lent_data(f, h);
    }
}

/* A frame that lies here as a whole and needs no context. */
static void whole_frame(struct ioh__ws_feed *f, const struct ioh__ws_header *h)
{
    uint8_t *payload = f->data + f->used + h->len;
    size_t len = (size_t)h->payload;
    if (h->op == IOH_WS_TEXT && !h->rsv) {
        frame_event(f, h->op, payload, len, ioh__mask_text(payload, len, h->key));
        return;
    }
    ioh__mask(payload, len, h->key, 0);
    if (h->rsv) {
        packed_event(f, h->op, payload, len);
    } else {
        frame_event(f, h->op, payload, len, 0);
    }
}

/* At the start of a frame. false: more bytes have to come first. */
static bool begin_frame(struct ioh__ws_feed *f)
{
    uint8_t *data = f->data + f->used;
    size_t len = f->len - f->used;
    bool reference = f->engine->no_fast_path;
    bool in_message = f->ws->loan != NULL;
    struct ioh__ws_header h;
    bool whole = ioh__ws_header_read(data, len, &h);

    const char *why =
        reference ? NULL : ioh__ws_header_fault(data, len, whole ? &h : NULL, allowed_rsv(f->ws));
    if (why) {
        ioh__ws_fault(f, IOH__CODE_PROTOCOL, why);
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
    } else if (!reference && (h.op == OP_CONTINUATION) == in_message && !is_packed(f, &h) &&
               h.payload > room(f)) {
        ioh__ws_fault(f, IOH__CODE_TOO_BIG, "the message is too big");
        return true;
    }
    size_t needs = ioh__ws_piece_needs(f->ws->loan);
    if (needs && h.op == OP_CONTINUATION && !here && len - h.len < needs) {
        return false;
    }
    if (!reference && !in_message && h.fin && h.op != OP_CONTINUATION) {
        if (here && !(h.rsv && f->ws->pieces)) {
            whole_frame(f, &h);
            return true;
        }
        if (!here && h.len + h.payload <= IOH__WS_WAIT_MAX) {
            return false;
        }
    }
    lent_frame(f, &h);
    return true;
}

/* Part of a compressed message's payload, unmasked where it lies. */
static void take_packed(struct ioh__ws_feed *f, uint8_t *data, size_t n)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    if (f->engine->no_fast_path) {
        loan->out = data;
        int code = ioh__ws_judge(loan, data, n);
        if (code) {
            refused(f, code);
            return;
        }
    } else {
        ioh__mask(data, n, loan->key, loan->phase);
    }
    f->used += n;
    loan->phase = (loan->phase + n) & 3;
    loan->left -= n;
    if (unpack(f, data, n, false) && loan->left == 0) {
        end_frame(f);
    }
}

/* Inside a data frame on a lent context: takes what is there of its payload. */
static void take_payload(struct ioh__ws_feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    uint8_t *data = f->data + f->used;
    size_t n = f->len - f->used;
    n = n < loan->left ? n : (size_t)loan->left;
    if (loan->packed) {
        take_packed(f, data, n);
        return;
    }
    if (!ioh__ws_reserve(loan, n, f->max_message)) {
        ioh__ws_fault(f, IOH__CODE_INTERNAL, "out of memory");
        return;
    }
    if (f->engine->no_fast_path) {
        loan->out = loan->buffer + loan->len;
        int code = ioh__ws_judge(loan, data, n);
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
            ioh__ws_fault(f, IOH__CODE_TEXT, "text is not UTF-8");
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
        ioh__ws_free_loan(loan);
    }
    engine->idle_count = 0;
    ioh__ws_contexts_destroy(&engine->contexts);
}

bool ioh__ws_plain_text(uint8_t *payload, size_t len, size_t ascii, const uint8_t key[4])
{
    bool valid = ioh__utf8_valid(payload + ascii, len - ascii);
    if (!valid) {
        ioh__mask(payload, len, key, 0);
    }
    return valid;
}

void ioh__ws_feed(struct ioh__ws_engine *engine, struct ioh__ws *ws, uint8_t *data, size_t len,
                  uint64_t max_message, size_t *used, struct ioh__ws_event *event)
{
    struct ioh__ws_plain plain = ioh__ws_plain(engine, ws, data, len, max_message);
    if (plain.header) {
        *event = (struct ioh__ws_event){.kind = IOH__WS_MESSAGE,
                                        .op = data[0] & 15,
                                        .data = data + plain.header,
                                        .len = plain.len,
                                        .last = true};
        *used = plain.header + plain.len;
        return;
    }
    struct ioh__ws_feed f = {
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
    if (ws->loan && ioh__ws_at_boundary(ws->loan)) { /* its message has been delivered */
        ioh__ws_take_back(engine, ws, true);
    }
    while (event->kind == IOH__WS_MORE) {
        if (ws->loan && ws->loan->pieces && (ws->loan->left > 0 || ws->loan->ending)) {
            if ((f.used == len && !ws->loan->ending) || !ioh__ws_take_piece(&f)) {
                break;
            }
        } else if (ws->loan && ws->loan->left > 0) {
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
    bool whole = !ws->loan || ioh__ws_at_boundary(ws->loan);
    ws->ended |= !whole; /* the rest of a message would have no beginning */
    ioh__ws_take_back(engine, ws, whole);
    ioh__ws_disown(&engine->contexts, &ws->own);
}

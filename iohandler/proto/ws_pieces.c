/* Messages that are handed over as they come (ws_engine.h, ws->pieces). The thread that holds the loop.
 *
 * Nothing of them is kept: a piece lies where its bytes were received, unmasked there, or compressed in one buffer of
 * PIECE_MAX that is inflated into again and again. So a message of any length costs the same.
 *
 * A piece of text ends with a character. What is the beginning of the next one
 *     inside a frame     is left where it is, masked again, to be given again with more bytes;
 *     at a frame's end   is carried over, and laid in front of the next fragment's payload, where that one's header
 *                        was (that is why its first bytes are waited for together with the header).
 */
#include "proto/ws_feed.h"

#include "proto/mask.h"
#include "proto/utf8.h"
#include "proto/ws_frame.h"

#include <iohandler/handler.h>
#include <string.h>

enum {
    PIECE_MAX = 16384, /* of inflated bytes */
    STEP_MAX = 1024, /* compressed bytes unmasked at a time: what is not inflated is masked again */
};

static const char inside_character[] = "text ends inside a character";

static void piece(struct ioh__ws_feed *f, uint8_t *data, size_t len, bool last)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    *f->event = (struct ioh__ws_event){
        .kind = IOH__WS_PIECE, .op = loan->op, .data = data, .len = len, .last = last};
    if (last)
        loan->op = 0;
}

static void took(struct ioh__ws_feed *f, size_t n)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    f->used += n;
    loan->phase = (loan->phase + n) & 3;
    loan->left -= n;
}

/* ---- as they are */

static bool take_plain(struct ioh__ws_feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    uint8_t *data = f->data + f->used;
    size_t n = f->len - f->used;
    n = n < loan->left ? n : (size_t)loan->left;
    bool ends = n == loan->left, last = ends && loan->fin;
    uint8_t *begin = data - loan->carried;
    size_t all = loan->carried + n, whole = all;
    ioh__mask(data, n, loan->key, loan->phase);
    memcpy(begin, loan->carry, loan->carried);
    if (loan->op == IOH_WS_TEXT) {
        bool broken;
        whole = ioh__utf8_whole(begin, all, &broken);
        if (broken || (last && whole < all)) { /* RFC 6455 8.1 */
            ioh__ws_fault(f, IOH__CODE_TEXT, broken ? "text is not UTF-8" : inside_character);
            return true;
        }
    }
    size_t rest = all - whole;
    if (ends) {
        memcpy(loan->carry, begin + whole, rest);
        loan->carried = (uint8_t)rest;
    } else { /* all of the rest has just come: what was carried is part of the first character */
        n -= rest;
        ioh__mask(data + n, rest, loan->key, loan->phase + n);
        loan->carried = 0;
    }
    took(f, n);
    if (whole || last)
        piece(f, begin, whole, last);
    return n > 0;
}

/* ---- compressed (RFC 7692) */

/* The next bytes into the inflater. */
static enum ioh__inflated inflate_some(struct ioh__ws_feed *f, size_t n, size_t *made)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    uint8_t *data = f->data + f->used;
    size_t used;
    ioh__mask(data, n, loan->key, loan->phase);
    enum ioh__inflated got = ioh__inflate(loan->inflater, data, n, &used, loan->buffer + loan->len,
                                          loan->cap - loan->len, made);
    ioh__mask(data + used, n - used, loan->key, loan->phase + used);
    took(f, used);
    return got;
}

/* What has come out is looked at before what went wrong behind it. false: a fault. */
static bool check_inflated(struct ioh__ws_feed *f, enum ioh__inflated got, bool last)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    bool broken = false;
    loan->checked =
        loan->op == IOH_WS_TEXT ? ioh__utf8_whole(loan->buffer, loan->len, &broken) : loan->len;
    if (broken)
        ioh__ws_fault(f, IOH__CODE_TEXT, "text is not UTF-8");
    else if (got == IOH__INFLATED_BAD)
        ioh__ws_fault(f, IOH__CODE_TEXT, "a compressed message that cannot be inflated");
    else if (got == IOH__INFLATED_NOMEM)
        ioh__ws_fault(f, IOH__CODE_INTERNAL, "out of memory");
    else if (last && loan->checked < loan->len)
        ioh__ws_fault(f, IOH__CODE_TEXT, inside_character);
    else
        return true;
    return false;
}

static bool take_packed(struct ioh__ws_feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    size_t n = f->len - f->used, made;
    n = n < loan->left ? n : (size_t)loan->left;
    n = n < STEP_MAX ? n : STEP_MAX;
    if (n == 0 && !loan->ending)
        return false;
    if (loan->cap < PIECE_MAX && !ioh__ws_reserve(loan, PIECE_MAX - loan->len, PIECE_MAX)) {
        ioh__ws_fault(f, IOH__CODE_INTERNAL, "out of memory");
        return true;
    }
    if (loan->checked) { /* it has been handed over */
        memmove(loan->buffer, loan->buffer + loan->checked, loan->len - loan->checked);
        loan->len -= loan->checked;
        loan->checked = 0;
    }
    enum ioh__inflated got = loan->ending
                                 ? ioh__inflate_end(loan->inflater, loan->buffer + loan->len,
                                                    loan->cap - loan->len, &made)
                                 : inflate_some(f, n, &made);
    bool last = loan->ending && got == IOH__INFLATED_ALL;
    loan->len += made;
    if (!check_inflated(f, got, last))
        return true;
    if (last) {
        ioh__ws_return_inflater(f->engine, f->ws);
        loan->ending = false;
    } else if (loan->left == 0 && loan->fin) {
        loan->ending = true;
    }
    if (loan->checked || last)
        piece(f, loan->len ? loan->buffer : f->data, loan->checked, last);
    return true;
}

/* ---- both */

bool ioh__ws_take_piece(struct ioh__ws_feed *f)
{
    return f->ws->loan->packed ? take_packed(f) : take_plain(f);
}

void ioh__ws_end_pieces(struct ioh__ws_feed *f)
{
    struct ioh__ws_loan *loan = f->ws->loan;
    if (loan->packed)
        loan->ending = true;
    else if (loan->carried)
        ioh__ws_fault(f, IOH__CODE_TEXT, inside_character);
    else
        piece(f, f->data, 0, true);
}

/* Lent wslay contexts, and the messages that grow in them: an inner header of the WebSocket engine. A loan belongs
 * to the loop of its connection. */
#ifndef IOH_PROTO_WS_LOAN_H
#define IOH_PROTO_WS_LOAN_H

#include "proto/ws_engine.h"

#include <wslay/wslay.h>

struct ioh__ws_loan {
    struct ioh__ws_loan *next; /* at rest */
    wslay_event_context_ptr context;

    uint8_t *buffer; /* the message so far */
    size_t len, cap;
    size_t checked; /* text: bytes at the start that are whole, valid characters */
    uint8_t op;     /* of the message, 0 before and after it */

    bool
        pieces; /* it is handed over as it comes; buffer holds what is inflated and not yet handed over */
    uint8_t carry
        [3]; /* then, of text: the beginning of a character, whose rest is in the next fragment */
    uint8_t carried;
    bool ending; /* and compressed: all has been read, but not all has been handed over */

    bool packed; /* it is compressed: RSV1 was set in its first frame (RFC 7692 6.2) */
    struct ioh__inflater *inflater; /* then, until it is whole */

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

/* Gives wslay bytes of one frame, never beyond its end. 0, or the code to close with. wslay refuses a
 * header before it reports the start of the frame, and afterwards nothing but bad text. */
int ioh__ws_judge(struct ioh__ws_loan *loan, const uint8_t *bytes, size_t len);

/* A context at a message boundary for the connection, which has none. NULL: out of memory. */
struct ioh__ws_loan *ioh__ws_lend(struct ioh__ws_engine *engine, struct ioh__ws *ws);

/* The inflater of its message, if it has one, which is over. */
void ioh__ws_return_inflater(struct ioh__ws_engine *engine, struct ioh__ws *ws);

/* as_new: the context stands at a message boundary and has refused nothing. Without a loan: nothing. */
void ioh__ws_take_back(struct ioh__ws_engine *engine, struct ioh__ws *ws, bool as_new);

/* Is its message complete? Then the context is as new and may go to another connection. */
static inline bool ioh__ws_at_boundary(const struct ioh__ws_loan *loan)
{
    return loan->op == 0 && loan->left == 0;
}

/* Room for n more bytes of the message. It grows by doubling and only as bytes really arrive, and
 * never beyond what the message can still need. false: out of memory. */
bool ioh__ws_reserve(struct ioh__ws_loan *loan, size_t n, uint64_t max_message);

void ioh__ws_free_loan(struct ioh__ws_loan *loan);

#endif

/* One call of ioh__ws_feed(): an inner header of the WebSocket engine. The thread that holds the loop. */
#ifndef IOH_PROTO_WS_FEED_H
#define IOH_PROTO_WS_FEED_H

#include "proto/ws_loan.h"

struct ioh__ws_feed {
    struct ioh__ws_engine *engine;
    struct ioh__ws *ws;
    uint8_t *data;
    size_t len, used;
    uint64_t max_message;
    struct ioh__ws_event *event;
};

/* Ends the connection's messages: the event says why, and all bytes are used. */
void ioh__ws_fault(struct ioh__ws_feed *f, int code, const char *why);

/* ---- ws_pieces.c: messages that are handed over as they come */

/* Inside a frame of such a message, on its loan: takes what is there, up to an event. false: more bytes have to
 * come first. */
bool ioh__ws_take_piece(struct ioh__ws_feed *f);

/* Its last frame is empty. */
void ioh__ws_end_pieces(struct ioh__ws_feed *f);

/* How many bytes of a fragment's payload have to be there before its header is read, at most: with these any
 * character that has begun is whole. */
static inline size_t ioh__ws_piece_needs(const struct ioh__ws_loan *loan)
{
    return loan && loan->carried ? 3 : 0;
}

#endif

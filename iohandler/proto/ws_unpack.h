/* The receiving side of compressed messages (RFC 7692 7.2.2), and the contexts of connections that take
 * theirs over from message to message.
 *
 * All belongs to a loop. An inflater is lent for the time of one message, as a wslay context is: most of
 * the time there is only one, at rest. A connection with a context of its own has a place in `own`: an index
 * is half a pointer, and most connections have none.
 */
#ifndef IOH_PROTO_WS_UNPACK_H
#define IOH_PROTO_WS_UNPACK_H

#include "proto/deflate.h"
#include "proto/deflate_offer.h"

#define IOH__INFLATERS_KEPT 4u

struct ioh__ws_own {
    struct ioh__inflater *inflater; /* NULL: not needed yet */
    struct ioh__deflater *deflater;
    uint32_t next; /* of the free places */
};

struct ioh__ws_contexts {
    struct ioh__inflater *idle[IOH__INFLATERS_KEPT];
    unsigned idle_count;
    struct ioh__ws_own *own; /* place 0 is nobody's */
    uint32_t own_room, own_free;
    uint32_t own_count; /* places taken */
};

void ioh__ws_contexts_destroy(struct ioh__ws_contexts *all);

/* The place of a connection, *index 0: it gets one. NULL: out of memory. Valid until the next call. */
struct ioh__ws_own *ioh__ws_own(struct ioh__ws_contexts *all, uint32_t *index);

/* Frees what lies at *index, and sets it to 0. */
void ioh__ws_disown(struct ioh__ws_contexts *all, uint32_t *index);

/* An inflater for the message that begins, the connection's own where the terms say so. NULL: out of memory. */
struct ioh__inflater *ioh__ws_lend_inflater(struct ioh__ws_contexts *all,
                                            const struct ioh__deflate_terms *terms,
                                            uint32_t *index);

/* The message is over; z may be NULL. */
void ioh__ws_give_inflater(struct ioh__ws_contexts *all, const struct ioh__deflate_terms *terms,
                           struct ioh__inflater *z);

/* A message while it is inflated. The caller's buffer, of malloc's, grows with it. */
struct ioh__ws_unpack {
    struct ioh__inflater *inflater;
    uint8_t *buffer;
    size_t len, cap;
    size_t checked; /* text: bytes that are whole, valid characters */
    uint64_t max;   /* bytes inflated: one more is a fault */
    bool text;
    const char *why; /* of a fault */
};

/* Takes more of it; last: it ends here. 0, or the code to close with: 1007, 1009 or 1011. It looks at the
 * bytes in their order, so how they are cut does not matter. */
int ioh__ws_unpack(struct ioh__ws_unpack *u, const uint8_t *in, size_t len, bool last);

#endif

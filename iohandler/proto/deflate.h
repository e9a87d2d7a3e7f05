/* Compressed messages (RFC 7692 7.2): raw deflate streams that end at a byte, without the four bytes
 * 00 00 ff ff that an empty stored block leaves behind.
 *
 * Without context takeover every message begins with an empty window, so a few states serve all
 * connections: each is lent for one message. A connection that takes its context over owns one of
 * each kind.
 *
 * zlib, not libdeflate: messages of up to 1 KiB cost the same with both, 4 KiB of JSON 14 against 11 us, and
 * libdeflate can neither keep a context nor stop at a limit nor take a message piece by piece.
 */
#ifndef IOH_PROTO_DEFLATE_H
#define IOH_PROTO_DEFLATE_H

#include <iohandler/types.h>
#include <stdatomic.h>
#include <stdbool.h>

#define IOH__DEFLATE_MIN_BITS 9u
#define IOH__DEFLATE_MAX_BITS 15u

/* ---- inflating */

/* Some 7 KiB, and a window of 1 << bits bytes. One thread at a time. */
struct ioh__inflater;

struct ioh__inflater *ioh__inflater_new(unsigned bits); /* 8 to 15. NULL: out of memory */
void ioh__inflater_free(struct ioh__inflater *z);       /* NULL is allowed */

/* A message begins; keep: with the window of the one before, else alone. false: out of memory. */
bool ioh__inflater_begin(struct ioh__inflater *z, bool keep);

enum ioh__inflated {
    IOH__INFLATED_ALL,  /* the input is used up: more has to come, or the message ends */
    IOH__INFLATED_FULL, /* the room is: call again with more */
    IOH__INFLATED_BAD,  /* these bytes are not deflated */
    IOH__INFLATED_NOMEM,
};

/* Inflates from in[0..len) into out[0..room), room > 0; *used and *made tell how much of each. */
enum ioh__inflated ioh__inflate(struct ioh__inflater *z, const uint8_t *in, size_t len,
                                size_t *used, uint8_t *out, size_t room, size_t *made);

/* The message has ended: what is left comes out. Called until it is not FULL; BAD: it is cut short. */
enum ioh__inflated ioh__inflate_end(struct ioh__inflater *z, uint8_t *out, size_t room,
                                    size_t *made);

/* ---- deflating */

/* Some 260 KiB with 15 bits. One thread at a time. */
struct ioh__deflater;

struct ioh__deflater *ioh__deflater_new(unsigned bits, int level); /* 9 to 15; 1 to 9 */
void ioh__deflater_free(struct ioh__deflater *z);                  /* NULL is allowed */

/* The next message may not refer to those before it. */
void ioh__deflater_forget(struct ioh__deflater *z);

/* A whole frame with RSV1 set; keep: the next message may refer to this one. NULL: it would not be shorter
 * than the message, or out of memory; then nothing is kept. */
ioh_buf *ioh__deflate_frame(struct ioh__deflater *z, bool keep, int op, const void *data,
                            size_t len);

/* ---- deflaters for messages alone, shared by all threads of a server */

#define IOH__DEFLATERS_KEPT 16u

/* At most so many of each window are kept at rest. */
struct ioh__deflaters {
    int level;
    unsigned bits; /* of most of them: options.ws_deflate_window */
    size_t min;    /* shorter messages go as they are */
    _Atomic(struct ioh__deflater *) rest[IOH__DEFLATE_MAX_BITS + 1 - IOH__DEFLATE_MIN_BITS]
                                        [IOH__DEFLATERS_KEPT];
};

void ioh__deflaters_init(struct ioh__deflaters *all, unsigned bits, int level, size_t min);
void ioh__deflaters_destroy(struct ioh__deflaters *all);

/* A frame with this message for a peer whose window has peer_bits, or NULL as ioh__deflate_frame(). Any
 * thread. */
ioh_buf *ioh__deflaters_frame(struct ioh__deflaters *all, unsigned peer_bits, int op,
                              const void *data, size_t len);

/* The compressed form of a message that goes to many, for a peer with such a window: made at the first call, then
 * kept by buf, in which the payload lies. NULL: it goes as it is. Valid as long as buf. Any thread. */
ioh_buf *ioh__deflaters_form(struct ioh__deflaters *all, unsigned peer_bits, ioh_buf *buf, int op,
                             const uint8_t *payload, size_t len);

#endif

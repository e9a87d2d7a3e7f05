/* The receiving side of a WebSocket (RFC 6455 5): bytes in, events out, no I/O.
 *
 * wslay decides the protocol. Its context weighs 9.4 kB, so it is lent: a connection holds one only
 * inside a frame or a fragmented message and gives it back at a message boundary. Whole, unfragmented
 * and valid-looking data and control frames that lie in the bytes given take a fast path that
 * touches no context; a test proves that both paths make the same events. A short frame that is not
 * whole yet is left where it is (MORE with bytes unused): the caller gives it again with more bytes.
 *
 *     BOUNDARY --whole frame--> event, BOUNDARY
 *     BOUNDARY --anything else--> LENT --message ends--> event, BOUNDARY
 *     any --Close or fault--> ENDED: takes no more bytes
 */
#ifndef IOH_PROTO_WS_ENGINE_H
#define IOH_PROTO_WS_ENGINE_H

#include "proto/mask.h"
#include "proto/ws_unpack.h"

#include <iohandler/handler.h>
#include <stdbool.h>

/* A frame up to this size is waited for rather than streamed through a context. */
#define IOH__WS_WAIT_MAX 16384u

struct ioh__ws_loan; /* a lent context and the message that grows in it */

/* What the connections of one loop share: contexts at rest. Belongs to the loop. */
struct ioh__ws_engine {
    struct ioh__ws_loan *idle;
    size_t idle_count; /* bounded; more are freed */
    size_t lent;
    struct ioh__ws_contexts contexts;
    bool no_fast_path; /* tests only: everything goes through wslay, byte for byte */
};

/* One connection's part, zero-filled at the start. */
struct ioh__ws {
    struct ioh__ws_loan *loan;
    bool ended : 1;
    bool
        pieces : 1; /* the caller's: messages that begin from now on come in pieces, without a limit */
    struct ioh__deflate_terms terms; /* zero: RSV1 is a fault */
    uint32_t own;                    /* its place in contexts; 0: none yet */
};

enum ioh__ws_event_kind {
    IOH__WS_MORE,    /* nothing more in these bytes */
    IOH__WS_MESSAGE, /* op IOH_WS_TEXT (valid UTF-8) or IOH_WS_BINARY; data, len; inflated */
    IOH__WS_PIECE,   /* part of one (ws->pieces): the same, and last */
    IOH__WS_PING,    /* data, len: at most 125 bytes */
    IOH__WS_PONG,
    IOH__WS_CLOSE, /* the peer's Close frame, valid: code (1005 = none), data = reason, len */
    IOH__WS_FAULT, /* code is what to close with: 1002, 1007, 1009, 1011; data = why, for the log */
};

struct ioh__ws_event {
    enum ioh__ws_event_kind kind;
    int op;
    int code;
    uint8_t *data; /* valid until the next call for this connection */
    size_t len;
    bool last; /* PIECE: the message ends with it, which may be empty then */
};

void ioh__ws_engine_init(struct ioh__ws_engine *engine);
void ioh__ws_engine_destroy(struct ioh__ws_engine *engine);

/* Takes bytes from data[0..len), which it may change (unmasking in place), up to the end of one event;
 * *used tells how many. Called until MORE. max_message bounds a whole message, checked on the header
 * before anything is allocated, of a compressed one while it is inflated: 1009. Whoever gets PING answers it, whoever gets CLOSE or FAULT answers
 * with a Close frame: the engine sends nothing. */
void ioh__ws_feed(struct ioh__ws_engine *engine, struct ioh__ws *ws, uint8_t *data, size_t len,
                  uint64_t max_message, size_t *used, struct ioh__ws_event *event);

/* Gives back what the connection holds; it may be in any state. Inside a message that ends it. */
void ioh__ws_release(struct ioh__ws_engine *engine, struct ioh__ws *ws);

/* ---- the short way */

struct ioh__ws_plain {
    size_t header; /* its length; 0: there is none */
    size_t len;    /* of the payload behind it */
};

/* Text that is not all ASCII: is it valid? If not, it is masked again, so that nothing has changed. */
bool ioh__ws_plain_text(uint8_t *payload, size_t len, size_t ascii, const uint8_t key[4]);

/* What nearly all frames are: a whole message that is not compressed, in the bytes given, of a connection that holds
 * nothing. It is unmasked and, if it is text, valid; its opcode stands in the first byte. None: some other frame, or a
 * wrong one: ioh__ws_feed() says which, and nothing has changed. Here, since with small messages the calls alone
 * would cost a third. */
static inline struct ioh__ws_plain ioh__ws_plain(const struct ioh__ws_engine *engine,
                                                 const struct ioh__ws *ws, uint8_t *data,
                                                 size_t len, uint64_t max_message)
{
    const struct ioh__ws_plain none = {0, 0};
    const uint8_t text = 0x80 | IOH_WS_TEXT, binary = 0x80 | IOH_WS_BINARY;
    if (len < 6 || (data[0] != text && data[0] != binary) || ws->loan || ws->pieces || ws->ended ||
        engine->no_fast_path)
        return none;
    size_t payload = data[1] ^ 0x80u, header = 6; /* 126 and above: a longer header, or no mask */
    if (payload >= 126) {
        if (payload > 126 || len < 8)
            return none;
        payload = (size_t)data[2] << 8 | data[3];
        header = 8;
        if (payload < 126)
            return none;
    }
    if (payload > len - header || payload > max_message)
        return none;
    const uint8_t *key = data + header - 4;
    size_t ascii = ioh__mask_text(data + header, payload, key);
    if (ascii < payload && data[0] == text &&
        !ioh__ws_plain_text(data + header, payload, ascii, key))
        return none;
    return (struct ioh__ws_plain){header, payload};
}

#endif

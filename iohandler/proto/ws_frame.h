/* WebSocket frame headers (RFC 6455 5.2). */
#ifndef IOH_PROTO_WS_FRAME_H
#define IOH_PROTO_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IOH__WS_HEADER_MAX 14u        /* as received: 2 + 8 + 4 */
#define IOH__WS_SERVER_HEADER_MAX 10u /* as sent: without key */

struct ioh__ws_header {
    uint8_t op;
    bool fin, masked;
    uint8_t rsv; /* the three bits, RSV1 is 4 */
    uint8_t len; /* of the header, with the key */
    uint8_t key[4];
    uint64_t payload;
};

/* Why a connection is closed (RFC 6455 7.4.1). */
enum {
    IOH__CODE_PROTOCOL = 1002,
    IOH__CODE_NONE = 1005,
    IOH__CODE_TEXT = 1007,
    IOH__CODE_TOO_BIG = 1009,
    IOH__CODE_INTERNAL = 1011,
};

/* Reads a header: true when it is whole. No judgement: payload is taken as it stands, also when it is
 * not minimal or has its top bit set. */
bool ioh__ws_header_read(const uint8_t *data, size_t len, struct ioh__ws_header *h);

#define IOH__WS_RSV1 0x40u /* in the first byte */

/* What is wrong with a client's header, of which len bytes are there; whole when h is set. rsv: which of the
 * reserved bits of the first byte may be set on a data message. NULL: nothing yet. */
const char *ioh__ws_header_fault(const uint8_t *data, size_t len, const struct ioh__ws_header *h,
                                 uint8_t rsv);

/* The length of a server's header. */
static inline size_t ioh__ws_header_len(uint64_t payload)
{
    return payload < 126 ? 2 : payload <= 0xffff ? 4 : IOH__WS_SERVER_HEADER_MAX;
}

/* Writes a server's header (FIN, no mask) for a frame of that opcode; answers its length, at most
 * IOH__WS_SERVER_HEADER_MAX. */
size_t ioh__ws_header_write(uint8_t *out, int op, uint64_t payload);

/* May this code stand in a Close frame (RFC 6455 7.4; IANA's list up to 1014)? */
bool ioh__ws_close_code_valid(int code);

#endif

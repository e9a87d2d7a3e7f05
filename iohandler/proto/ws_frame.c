/* WebSocket frame headers (RFC 6455 5.2). It owns nothing; any thread.
 *
 *     byte 0: FIN RSV1 RSV2 RSV3 opcode(4)      byte 1: MASK length(7)
 *     length 126: two more bytes of length; 127: eight more; network byte order
 *     MASK set: four bytes of key
 */
#include "proto/ws_frame.h"

#include <string.h>

static uint64_t read_be(const uint8_t *p, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value = value << 8 | p[i];
    }
    return value;
}

bool ioh__ws_header_read(const uint8_t *data, size_t len, struct ioh__ws_header *h)
{
    if (len < 2) {
        return false;
    }
    uint8_t code = data[1] & 0x7f;
    bool masked = data[1] & 0x80;
    size_t extended = code == 126 ? 2 : code == 127 ? 8 : 0;
    size_t need = 2 + extended + (masked ? 4 : 0);
    if (len < need) {
        return false;
    }
    h->op = data[0] & 0x0f;
    h->fin = data[0] & 0x80;
    h->rsv = (data[0] >> 4) & 7;
    h->masked = masked;
    h->len = (uint8_t)need;
    h->payload = extended ? read_be(data + 2, extended) : code;
    memset(h->key, 0, sizeof h->key);
    if (masked) {
        memcpy(h->key, data + 2 + extended, sizeof h->key);
    }
    return true;
}

const char *ioh__ws_header_fault(const uint8_t *data, size_t len, const struct ioh__ws_header *h,
                                 uint8_t rsv)
{
    if (len == 0) {
        return NULL;
    }
    int op = data[0] & 0x0f;
    /* RFC 6455 5.2: only what an extension gives a meaning, and (RFC 7692 6.1) only where a data
     * message begins */
    if (data[0] & 0x70 & ~(op == 1 || op == 2 ? rsv : 0)) {
        return "a reserved bit is set";
    }
    if ((op & 7) > 2) {
        return "a reserved opcode";
    }
    if ((op & 8) && !(data[0] & 0x80)) { /* 5.5 */
        return "a control frame in fragments";
    }
    if (len == 1) {
        return NULL;
    }
    if (!(data[1] & 0x80)) { /* 5.1 */
        return "a frame without mask";
    }
    if ((op & 8) && (data[1] & 0x7f) > 125) { /* 5.5 */
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

size_t ioh__ws_header_write(uint8_t *out, int op, uint64_t payload)
{
    out[0] = (uint8_t)(0x80 | op);
    if (payload < 126) {
        out[1] = (uint8_t)payload;
        return 2;
    }
    size_t extended = payload <= 0xffff ? 2 : 8;
    out[1] = extended == 2 ? 126 : 127;
    for (size_t i = 0; i < extended; i++) {
        out[2 + i] = (uint8_t)(payload >> (8 * (extended - 1 - i)));
    }
    return 2 + extended;
}

bool ioh__ws_close_code_valid(int code)
{
    /* 1004 has no meaning; 1005, 1006 and 1015 are never sent (RFC 6455 7.4.1); 1012 to 1014 were
     * registered later; 3000 to 4999 belong to libraries and applications (7.4.2). */
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

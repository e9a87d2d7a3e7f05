/* WebSocket masking (RFC 6455 5.3), by whole words where the compiler can. */
#ifndef IOH_PROTO_MASK_H
#define IOH_PROTO_MASK_H

#include <stddef.h>
#include <stdint.h>

/* XORs data with the key as it stands in the frame; phase is the position of data[0] in the payload,
 * modulo 4. */
void ioh__mask(uint8_t *data, size_t len, const uint8_t key[4], size_t phase);

/* The same from src to dst, which are equal or do not overlap. */
void ioh__mask_copy(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t key[4],
                    size_t phase);

#endif

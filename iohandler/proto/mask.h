/* WebSocket masking (RFC 6455 5.3), by whole words or vectors. */
#ifndef IOH_PROTO_MASK_H
#define IOH_PROTO_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* XORs data with the key as it stands in the frame; phase is the position of data[0] in the payload,
 * modulo 4. */
void ioh__mask(uint8_t *data, size_t len, const uint8_t key[4], size_t phase);

/* The same from src to dst, which are equal or do not overlap. */
void ioh__mask_copy(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t key[4],
                    size_t phase);

/* Like ioh__mask() from the start of a payload, and answers how many bytes there are ASCII; it may be up to 127 too few.
 * So all unmasked text needs only be looked at again from there on. */
size_t ioh__mask_text(uint8_t *data, size_t len, const uint8_t key[4]);

/* All of these do the same by words of 8 bytes where the processor has no AVX2, and for what is left. */
#if defined(__x86_64__)
#define IOH__MASK_VECTORS 1
#else
#define IOH__MASK_VECTORS 0
#endif
size_t ioh__mask_by_words(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t key[4],
                          size_t phase);

#endif

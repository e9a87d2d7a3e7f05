/* WebSocket masking (RFC 6455 5.3). It owns nothing; any thread.
 *
 * The key is turned so that it begins at the phase of the first byte and is laid out twice in a 64-bit
 * word; since 8 is a multiple of 4, every further word takes the same key. Words are loaded by memcpy,
 * so no alignment is asked for. 32 bytes a turn, all loaded before any is stored: compilers make two
 * vector operations of them, and dst may be src.
 */
#include "proto/mask.h"

#include <string.h>

enum { BLOCK = 32 };

static void mask_block(uint8_t *dst, const uint8_t *src, uint64_t key)
{
    uint64_t w[BLOCK / 8];
    memcpy(w, src, BLOCK);
    w[0] ^= key;
    w[1] ^= key;
    w[2] ^= key;
    w[3] ^= key;
    memcpy(dst, w, BLOCK);
}

static void mask_word(uint8_t *dst, const uint8_t *src, uint64_t key)
{
    uint64_t w;
    memcpy(&w, src, sizeof w);
    w ^= key;
    memcpy(dst, &w, sizeof w);
}

void ioh__mask_copy(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t key[4],
                    size_t phase)
{
    uint8_t turned[4];
    for (size_t i = 0; i < sizeof turned; i++) {
        turned[i] = key[(phase + i) & 3];
    }
    uint32_t half;
    memcpy(&half, phase & 3 ? turned : key, sizeof half);
    uint64_t word = (uint64_t)half << 32 | half;

    size_t at = 0;
    for (; len - at >= BLOCK; at += BLOCK) {
        mask_block(dst + at, src + at, word);
    }
    for (; len - at >= sizeof word; at += sizeof word) {
        mask_word(dst + at, src + at, word);
    }
    for (size_t i = 0; at < len; i++, at++) {
        dst[at] = src[at] ^ turned[i & 3];
    }
}

void ioh__mask(uint8_t *data, size_t len, const uint8_t key[4], size_t phase)
{
    ioh__mask_copy(data, data, len, key, phase);
}

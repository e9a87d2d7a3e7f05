/* UTF-8 validation (RFC 3629). It owns nothing; any thread.
 *
 * ASCII runs are skipped 32 bytes, then 8 bytes at a time: a word is ASCII when no byte has its top bit.
 * Other characters are checked one by one after the table of RFC 3629 4, where only the second byte has
 * a range of its own:
 *
 *     C2..DF  80..BF                      E1..EC, EE, EF  80..BF  +1      F1..F3  80..BF  +2
 *                                         E0              A0..BF  +1      F0      90..BF  +2
 *                                         ED              80..9F  +1      F4      80..8F  +2
 */
#include "proto/utf8.h"

#include <stdint.h>
#include <string.h>

#define TOP_BITS 0x8080808080808080u

/* Where the ASCII run that begins at at ends, at the latest at len; it may stop up to 7 bytes early. */
static size_t skip_ascii(const uint8_t *s, size_t at, size_t len)
{
    uint64_t w[4];
    for (; len - at >= sizeof w; at += sizeof w) {
        memcpy(w, s + at, sizeof w);
        if ((w[0] | w[1] | w[2] | w[3]) & TOP_BITS) {
            break;
        }
    }
    for (; len - at >= sizeof w[0]; at += sizeof w[0]) {
        memcpy(w, s + at, sizeof w[0]);
        if (w[0] & TOP_BITS) {
            break;
        }
    }
    return at;
}

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

static bool within(uint8_t byte, uint8_t low, uint8_t high)
{
    return byte >= low && byte <= high;
}

/* The length of the character at s, which is not ASCII; 0 when it is none, or -1 when the bytes there
 * begin one. */
static int character(const uint8_t *s, size_t len)
{
    uint8_t lead = s[0];
    if (lead < 0xe0) {
        if (lead < 0xc2) { /* a continuation byte, or an overlong form of ASCII */
            return 0;
        }
        return len < 2 ? -1 : continues(s[1]) ? 2 : 0;
    }
    if (lead > 0xf4) {
        return 0;
    }
    if (len < 2) {
        return -1;
    }
    if (lead < 0xf0) {
        if (!within(s[1], lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf)) {
            return 0;
        }
        return len < 3 ? -1 : continues(s[2]) ? 3 : 0;
    }
    if (!within(s[1], lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf)) {
        return 0;
    }
    if (len < 4) {
        return len < 3 || continues(s[2]) ? -1 : 0;
    }
    return continues(s[2]) && continues(s[3]) ? 4 : 0;
}

size_t ioh__utf8_whole(const void *data, size_t len, bool *broken)
{
    const uint8_t *s = data;
    size_t at = 0;
    *broken = false;
    while (at < len) {
        if (s[at] < 0x80) {
            at = skip_ascii(s, at, len);
            while (at < len && s[at] < 0x80) {
                at++;
            }
            continue;
        }
        int size = character(s + at, len - at);
        if (size <= 0) {
            *broken = size == 0;
            break;
        }
        at += (size_t)size;
    }
    return at;
}

bool ioh__utf8_valid(const void *data, size_t len)
{
    bool broken;
    return ioh__utf8_whole(data, len, &broken) == len;
}

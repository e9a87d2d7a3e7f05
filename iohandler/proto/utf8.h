/* UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef IOH_PROTO_UTF8_H
#define IOH_PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Is the whole text valid? Eight ASCII bytes at a time. */
bool ioh__utf8_valid(const void *data, size_t len);

/* For text that comes in pieces: how many bytes at the start are whole, valid characters. *broken
 * tells whether what follows them can never become a character, however the text goes on; if not, the
 * rest (at most 3 bytes) is the beginning of one. */
size_t ioh__utf8_whole(const void *data, size_t len, bool *broken);

#endif

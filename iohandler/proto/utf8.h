/* UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef IOH_PROTO_UTF8_H
#define IOH_PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Is the whole text valid? */
bool ioh__utf8_valid(const void *data, size_t len);

/* For text that comes in pieces: how many bytes at the start are whole, valid characters. *broken
 * tells whether what follows them can never become a character, however the text goes on; if not, the
 * rest (at most 3 bytes) is the beginning of one. */
size_t ioh__utf8_whole(const void *data, size_t len, bool *broken);

/* The ways it is done, which all answer the same; AVX2 only where the processor has it. */
#if defined(__x86_64__)
#define IOH__UTF8_VECTORS 1
size_t ioh__utf8_whole_by_avx2(const void *data, size_t len, bool *broken);
#else
#define IOH__UTF8_VECTORS 0
#endif
size_t ioh__utf8_whole_by_bytes(const void *data, size_t len, bool *broken);

#endif

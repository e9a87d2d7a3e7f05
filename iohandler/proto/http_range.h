/* Byte ranges (RFC 9110 14). */
#ifndef IOH_PROTO_HTTP_RANGE_H
#define IOH_PROTO_HTTP_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* Beyond this the whole is sent: who asks for more pieces means harm, or would get more heads of parts than
 * bytes (RFC 9110 14.2 lets a server ignore it). */
#define IOH__RANGES_MAX 16

#define IOH__CONTENT_RANGE_MAX 68u /* "bytes A-B/C" with 20 digits each */

/* Bytes [first, end), never empty. */
struct ioh__range {
    uint64_t first, end;
};

/* The ranges that a Range field asks for of `size` bytes, into out (room for IOH__RANGES_MAX), in the order
 * asked for. Ranges that overlap, or stand closer than the head of a part is long, become one (RFC 9110
 * 15.3.7.2): so together they are never more than the whole. Answers how many; 0: the field is to be ignored
 * (another unit, bad syntax, too many, or nothing to take a range of); -1: none of them is there (416). */
int ioh__http_ranges(const char *text, size_t len, uint64_t size, struct ioh__range *out);

/* "bytes 0-499/1234", or without a range a star in its place (RFC 9110 14.4); answers the end. */
char *ioh__write_content_range(char *out, const struct ioh__range *range, uint64_t size);

#endif

/* HTTP/1 answer heads: what they are made of (RFC 9112 4, 6; RFC 9110 15). No allocation: callers give
 * the room. */
#ifndef IOH_PROTO_HTTP1_HEAD_H
#define IOH_PROTO_HTTP1_HEAD_H

#include <iohandler/types.h>
#include <stdbool.h>

#define IOH__STATUS_LINE_MAX 64u /* "HTTP/1.1 431 Request Header Fields Too Large\r\n" is 46 */

/* "HTTP/1.1 200 OK\r\n" into out; answers its length. status is 100 to 599. Known statuses are copied
 * from a table. */
size_t ioh__http1_status_line(int status, char *out);

/* 0, IOH_EINVAL (NULL where there must be something) or IOH_EHEADER: a name that is no token, a value
 * with control bytes (RFC 9110 5.5), or a name that the library writes itself: Content-Length,
 * Transfer-Encoding, Connection, Date, Keep-Alive, Upgrade. *bytes is what
 * ioh__http1_write_fields() will need. */
int ioh__http1_check_fields(const struct ioh_header *headers, size_t count, size_t *bytes);

/* "Name: value\r\n" for each; answers the end. */
char *ioh__http1_write_fields(char *out, const struct ioh_header *headers, size_t count);

/* value in decimal, at most 20 digits; answers the end. */
char *ioh__write_decimal(char *out, uint64_t value);

/* value in lower-case hex without leading zeros, at most 16 digits; answers the end. */
char *ioh__write_hex(char *out, uint64_t value);

/* Does a status never have a body (1xx, 204, 304: RFC 9110 6.4.1)? */
static inline bool ioh__status_bodyless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

#endif

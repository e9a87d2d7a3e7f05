/* Paths of requests as names of files. */
#ifndef IOH_PROTO_HTTP_PATH_H
#define IOH_PROTO_HTTP_PATH_H

#include <iohandler/types.h>
#include <stdbool.h>

/* What follows the prefix in a path, decoded (RFC 3986 2.1), into out with a NUL. The prefix ends where a
 * segment does: "/a" is one of "/a" and "/a/b", not of "/ab"; "" is one of every path. Answers the length, or
 *   IOH_EINVAL   another prefix; a '%' without two hex digits; a NUL or '/' in encoded form, which no name of
 *                a file has
 *   IOH_ETOOBIG  size bytes are not enough */
int ioh__path_decode(struct ioh_str path, const char *prefix, char *out, size_t size);

/* May a file of that name be shown? No segment is "." or ".."; and, unless dot_files, none begins with a dot
 * but a leading ".well-known" (RFC 8615). */
bool ioh__path_is_public(const char *path, bool dot_files);

#endif

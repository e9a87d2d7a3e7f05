/* HTTP/1 request bodies: by length or chunked (RFC 9112 6, 7.1), decoded in place: pieces point into
 * the bytes given. Trailer fields are checked like header fields and handed over as they stand; chunk
 * extensions are checked and dropped. Strict: CRLF only, sizes are 1*HEXDIG without overflow, no white
 * space.
 */
#ifndef IOH_PROTO_HTTP1_BODY_H
#define IOH_PROTO_HTTP1_BODY_H

#include "proto/http1_parse.h"

#define IOH__CHUNK_LINE_MAX 4096u /* size and extensions of one chunk: nobody needs more */
#define IOH__TRAILER_MAX 8192u    /* all trailer fields together */

struct ioh__http1_body {
    uint64_t left;  /* bytes of the body, or of the current chunk, still to come */
    uint64_t total; /* bytes of body so far */
    uint32_t line;  /* bytes of the current chunk line, or of all trailers */
    uint8_t state;
    bool chunked;
};

enum ioh__http1_body_result {
    IOH__BODY_MORE,    /* all bytes are used, more have to come */
    IOH__BODY_PIECE,   /* *piece is set, at least one byte */
    IOH__BODY_TRAILER, /* *piece is part of the trailer fields: lines with their CRLF, cut anywhere */
    IOH__BODY_END,     /* the body is whole; bytes behind *used belong to the next request */
    IOH__BODY_FAULT,
};

/* Begins the body of head. A head without length and not chunked has an empty one. */
void ioh__http1_body_init(struct ioh__http1_body *body, const struct ioh__http1_head *head);

/* Takes bytes from data[0..len), *used tells how many. Called until MORE, END or FAULT. Beyond
 * max_body bytes: 413. fault->offset counts from data. */
enum ioh__http1_body_result ioh__http1_body_next(struct ioh__http1_body *body, const char *data,
                                                 size_t len, uint64_t max_body, size_t *used,
                                                 struct ioh_str *piece,
                                                 struct ioh__http1_fault *fault);

/* The next line of trailer fields as TRAILER gave them, from *p on: name and value without the white space
 * around it; *p is moved behind it. false: there is none left. */
bool ioh__http1_trailer_next(const char **p, const char *end, struct ioh_str *name,
                             struct ioh_str *value);

/* May a field of that name stand in trailers? Not what frames, routes, authenticates or controls a message, or
 * says how its content is to be read (RFC 9110 6.5.1): a recipient that merges trailers into the head must
 * not be told such things behind the body. */
bool ioh__http1_trailer_allowed(const char *name, size_t len);

#endif

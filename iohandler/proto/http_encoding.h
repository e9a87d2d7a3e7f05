/* Content codings that a client takes (RFC 9110 12.5.3). */
#ifndef IOH_PROTO_HTTP_ENCODING_H
#define IOH_PROTO_HTTP_ENCODING_H

#include <stddef.h>
#include <stdint.h>

#include "proto/http1_parse.h"

/* In the order in which they are tried when the client likes them equally: the smallest result first. */
enum ioh__coding {
    IOH__CODING_BR,
    IOH__CODING_ZSTD,
    IOH__CODING_GZIP,
    IOH__CODING_DEFLATE,
    IOH__CODING_IDENTITY,
    IOH__CODINGS,
};

/* How much the client likes each, in thousandths; 0: it does not take it. Only what it names, or covers by
 * "*", counts as liked, and identity (not named) as just bearable. */
struct ioh__codings {
    uint16_t q[IOH__CODINGS];
};

/* Without any Accept-Encoding: identity alone. */
void ioh__http_codings(const char *data, const struct ioh__http1_head *head,
                       struct ioh__codings *codings);

/* The one that the client likes best among `have` (bits 1 << coding); identity when there is none, whatever
 * the client says of it: an answer that it may not understand is better than none. */
enum ioh__coding ioh__coding_choose(const struct ioh__codings *codings, unsigned have);

/* "br", "gzip", ... */
const char *ioh__coding_name(enum ioh__coding coding);

#endif

/* Conditional requests (RFC 9110 13): what a request asks of the state of what it is about. */
#ifndef IOH_PROTO_HTTP_VALIDATORS_H
#define IOH_PROTO_HTTP_VALIDATORS_H

#include "proto/http1_parse.h"

/* What is known of the representation that would be sent. */
struct ioh__validators {
    const char *etag; /* with its quotes, and W/ when it is weak */
    size_t etag_len;
    int64_t modified; /* seconds since 1970 */
};

/* Where the fields stand in the head: index, or -1. Those that may stand once only: -1 also when they are
 * there twice, but for if_range, which then is IOH__REPEATED. */
struct ioh__conditions {
    int if_match, if_none_match, if_modified_since, if_unmodified_since;
    int range, if_range;
};

#define IOH__REPEATED (-2)

/* One pass over the fields. */
void ioh__http_conditions(const char *data, const struct ioh__http1_head *head,
                          struct ioh__conditions *conditions);

/* What the preconditions say of a GET or HEAD, in the order of RFC 9110 13.2.2: 200 (go on), 304 or 412.
 * now: seconds since 1970. */
int ioh__http_evaluate(const char *data, const struct ioh__http1_head *head,
                       const struct ioh__conditions *conditions,
                       const struct ioh__validators *validators, int64_t now);

/* May the Range field be followed (RFC 9110 13.1.5)? */
bool ioh__http_range_holds(const char *data, const struct ioh__http1_head *head,
                           const struct ioh__conditions *conditions,
                           const struct ioh__validators *validators, int64_t now);

#endif

/* Does a browser's WebSocket come from a page of this server (RFC 6455 10.2)? */
#ifndef IOH_PROTO_WS_ORIGIN_H
#define IOH_PROTO_WS_ORIGIN_H

#include "proto/http1_parse.h"

/* true: there is no Origin field, so it is no browser's, or there is one, of http or https, whose host and port
 * are those of the Host field. */
bool ioh__ws_same_origin(const char *data, const struct ioh__http1_head *head);

#endif

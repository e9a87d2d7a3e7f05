/* The server's side of the WebSocket handshake (RFC 6455 4.2). */
#ifndef IOH_PROTO_WS_SHAKE_H
#define IOH_PROTO_WS_SHAKE_H

#include "proto/http1_parse.h"

#define IOH__WS_ACCEPT_LEN 28u

/* Checks a request whose head has upgrade_websocket: GET, no body, exactly one Sec-WebSocket-Key that
 * decodes to 16 bytes, version 13. true: *key is the key. false: fault->status is 400, or 426 for
 * another version (the answer then carries Sec-WebSocket-Version: 13, RFC 6455 4.4). */
bool ioh__ws_shake_check(const char *data, const struct ioh__http1_head *head, struct ioh_str *key,
                         struct ioh__http1_fault *fault);

/* Sec-WebSocket-Accept for a key (RFC 6455 4.2.2); writes IOH__WS_ACCEPT_LEN bytes, no NUL. 0,
 * IOH_ENOMEM, or IOH_EINVAL for what is no key. */
int ioh__ws_accept_key(struct ioh_str key, char *out);

/* Was the subprotocol offered, in any Sec-WebSocket-Protocol field (case-sensitive)? */
bool ioh__ws_protocol_offered(const char *data, const struct ioh__http1_head *head,
                              const char *protocol);

#endif

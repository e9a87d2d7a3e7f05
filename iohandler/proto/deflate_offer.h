/* What a client and this server agree on about permessage-deflate (RFC 7692 7.1): the field
 * Sec-WebSocket-Extensions. It owns nothing; any thread. */
#ifndef IOH_PROTO_DEFLATE_OFFER_H
#define IOH_PROTO_DEFLATE_OFFER_H

#include "proto/http1_parse.h"

/* options.ws_deflate, as options.h names them */
enum ioh__deflate_mode { IOH__DEFLATE_OFF, IOH__DEFLATE_SHARED, IOH__DEFLATE_TAKEOVER };

#define IOH__DEFLATE_SERVER_KEEPS 1u /* the server's window goes on from message to message, */
#define IOH__DEFLATE_CLIENT_KEEPS 2u /* the client's */
#define IOH__DEFLATE_SAYS_BITS 4u /* the answer must name the server's window, also when it is 15 */

/* All zero: nothing was agreed on. */
struct ioh__deflate_terms {
    uint8_t server_bits; /* window of what the server sends: 9 to 15 */
    uint8_t client_bits; /* of what the client sends: 8 to 15 */
    uint8_t flags;
};

/* "permessage-deflate; ..." with all four parameters */
#define IOH__DEFLATE_ANSWER_MAX 128u

/* Takes the first offer that is acceptable, with windows of at most `window` (9 to 15) bits; none, or mode
 * OFF: *terms is all zero. false: a field is no list of extensions (RFC 6455 9.1), *at is where it stands. */
bool ioh__deflate_agree(const char *data, const struct ioh__http1_head *head,
                        enum ioh__deflate_mode mode, unsigned window,
                        struct ioh__deflate_terms *terms, size_t *at);

/* Writes the value of the answer's Sec-WebSocket-Extensions, no NUL; answers its length. */
size_t ioh__deflate_answer(const struct ioh__deflate_terms *terms,
                           char out[IOH__DEFLATE_ANSWER_MAX]);

#endif

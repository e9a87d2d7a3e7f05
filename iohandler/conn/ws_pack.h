/* In which form a WebSocket message leaves: as it is, or compressed (RFC 7692), alone or by the connection's own
 * context. */
#ifndef IOH_CONN_WS_PACK_H
#define IOH_CONN_WS_PACK_H

#include "conn/conn.h"

/* Has permessage-deflate been agreed on? From on_ws_open on, any thread that runs a callback of it. */
static inline bool ioh__ws_packs(const ioh_conn *conn)
{
    return conn->as.ws.engine.terms.server_bits != 0;
}

/* The message as a compressed frame, made on the thread that calls, for a connection without a context of its own.
 * NULL: it goes otherwise. Before ioh__reach(): under AUTO the loop can be taken from a long one. */
ioh_buf *ioh__ws_pack_alone(const ioh_conn *conn, int op, const void *data, size_t len);

/* The same by the connection's own context: the thread that holds the loop. What it answers must be sent, since
 * the next message refers to it. */
ioh_buf *ioh__ws_pack_own(ioh_conn *conn, int op, const void *data, size_t len);

/* The compressed form of what goes to many, of which the payload lies in buf; or NULL: it goes as it is. It must be
 * sent. The thread that holds the loop. */
ioh_buf *ioh__ws_form_ref(ioh_conn *conn, ioh_buf *buf, int op, const uint8_t *payload, size_t len);

/* The same of a whole frame, which may also be one that ioh_ws_send() posted to its connection. */
ioh_buf *ioh__ws_frame_form_ref(ioh_conn *conn, ioh_buf *frame);

#endif

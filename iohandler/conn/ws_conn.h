/* What the two sides of a WebSocket on a connection share: ws_conn.c (in) and ws_send.c (out). The thread that
 * holds the loop. */
#ifndef IOH_CONN_WS_CONN_H
#define IOH_CONN_WS_CONN_H

#include "conn/conn.h"

/* Of conn->as.ws.step; drawn in ws_conn.c. */
enum ioh__ws_step {
    IOH__WS_STEP_OPENING,
    IOH__WS_STEP_OPEN,
    IOH__WS_STEP_CLOSING,
    IOH__WS_STEP_OVER
};

/* A frame's header and a copy of its payload, in one piece: one iovec less. Answers as the public functions do. */
int ioh__ws_queue_frame(ioh_conn *conn, int op, const void *data, size_t len);

/* A Close frame (RFC 6455 5.5.1); code 0: without one. */
void ioh__ws_queue_close(ioh_conn *conn, int code, const void *reason, size_t len);

#endif

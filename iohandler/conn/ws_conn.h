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

/* Is a message on its way out in pieces? */
enum ioh__ws_sending {
    IOH__WS_SENDING_NOT,
    IOH__WS_SENDING,
    IOH__WS_SENDING_HOLDS, /* and messages of others wait for its end */
};

/* Where messages of others go: the out queue, or what waits. NULL: out of memory. */
struct ioh__outq *ioh__ws_queue(ioh_conn *conn);

/* How much waits. */
size_t ioh__ws_held_bytes(ioh_conn *conn);

/* The connection is over: what waits is forgotten. */
void ioh__ws_drop_held(ioh_conn *conn);

/* A piece that was posted; its frame is consumed. */
int ioh__ws_piece_now(ioh_conn *conn, ioh_buf *frame);

/* What ioh_ws_receive_pieces() says. */
void ioh__ws_pieces_now(ioh_conn *conn, bool on);

/* A frame's header and a copy of its payload, in one piece: one iovec less. Answers as the public functions do. */
int ioh__ws_queue_frame(ioh_conn *conn, int op, const void *data, size_t len);

/* A Close frame (RFC 6455 5.5.1); code 0: without one. */
void ioh__ws_queue_close(ioh_conn *conn, int code, const void *reason, size_t len);

#endif

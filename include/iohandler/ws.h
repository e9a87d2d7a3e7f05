/* WebSocket (RFC 6455).
 *
 * Sending functions answer 0, IOH_QUEUED, or:
 *   IOH_EINVAL   op is not one of IOH_WS_..., a control message above 125 bytes, a bad close code
 *   IOH_ESTATE   no WebSocket (yet), or its Close frame has been sent
 *   IOH_EGONE    the connection is closing or gone
 *   IOH_EFULL    options.send_max; the connection is aborted
 *   IOH_ENOMEM   the connection is aborted
 * Text is not checked: the host must send valid UTF-8.
 *
 * Where permessage-deflate was agreed on (options.ws_deflate), messages that are long enough and become shorter by it
 * leave compressed, and the host never sees that those that came were. Do not mix secrets with what a
 * peer may choose in one compressed message: its length tells of them.
 */
#ifndef IOHANDLER_WS_H
#define IOHANDLER_WS_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1 if the client offers that subprotocol (RFC 6455 4.1, case-sensitive), else 0: for on_ws_upgrade.
 * [in a callback] */
IOH_API int ioh_ws_offers(const ioh_req *req, const char *protocol);

/* 1 if the request has no Origin field (then it is no browser's page that asks), or one of http or https whose
 * host and port are those of the Host field; else 0, also for "null". A host whose WebSockets rely on cookies
 * or on being inside a network refuses what is not: if (!ioh_ws_same_origin(req)) return 403; (RFC 6455 10.2)
 * [in a callback] */
IOH_API int ioh_ws_same_origin(const ioh_req *req);

/* Adds a field to the 101 that on_ws_upgrade's 0 will be answered with; both strings are copied. When the
 * upgrade is refused the field is dropped. IOH_EHEADER (a bad name or value, or a field of the library's own:
 * Connection, Upgrade, Date, Content-Length, Transfer-Encoding, Keep-Alive, Sec-WebSocket-...), IOH_EINVAL (NULL),
 * IOH_ESTATE (not in on_ws_upgrade), IOH_ENOMEM. [in on_ws_upgrade] */
IOH_API int ioh_ws_add_header(ioh_req *req, const char *name, const char *value);

/* Sends one message in one frame; the bytes are copied. All messages that a connection gets in one
 * turn of its thread leave in one write. [in a callback] */
IOH_API int ioh_ws_send(ioh_conn *conn, int op, const void *data, size_t len);

/* The same from a buf, which is consumed, also on an error; not copied when large. [in a callback] */
IOH_API int ioh_ws_send_buf(ioh_conn *conn, int op, ioh_buf *payload);

/* Sends a message in pieces, of which only the last is known to be the last: each is a fragment on the wire
 * (RFC 6455 5.4), copied. The first piece begins the message; its op, IOH_WS_TEXT or IOH_WS_BINARY, is the
 * message's, that of the others is not looked at. last: 1 with the last one, which may be empty. The message is
 * not compressed. A piece of text may end inside a character. In between the connection may send pings and pongs and
 * may be closed; another message of its own is IOH_ESTATE, and what comes from elsewhere (ioh_ws_post, ioh_publish)
 * waits for the last piece. After IOH_QUEUED the host waits for on_drain. options.send_full does not drop pieces:
 * the connection is reset, since the message would have a hole. [in a callback] */
IOH_API int ioh_ws_send_piece(ioh_conn *conn, int op, const void *data, size_t len, int last);

/* 1: messages come in pieces (on_ws_piece), 0: whole (on_ws_message), from the next message that begins on; a
 * host with one of the two callbacks gets all by that. IOH_ESTATE: no WebSocket (yet), or the callback for it is
 * absent. IOH_EGONE, IOH_ENOMEM. [in a callback] */
IOH_API int ioh_ws_receive_pieces(ioh_conn *conn, int on);

/* A frame made once, to be sent to many by ioh_ws_send_frame() and ioh_ws_post(). Up to 256 KiB it is also compressed
 * once, when the first connection has a use for that. NULL: out of memory
 * or a bad op or length. [any thread] */
IOH_API ioh_buf *ioh_ws_frame(int op, const void *data, size_t len);

/* Sends a frame of ioh_ws_frame(), which is consumed, also on an error. [in a callback] */
IOH_API int ioh_ws_send_frame(ioh_conn *conn, ioh_buf *frame);

/* ioh_wait_sent() (conn.h), then ioh_ws_send_frame(); the frame is consumed, also on an error. Answers as
 * both. [in a callback] */
IOH_API int ioh_ws_send_wait(ioh_conn *conn, ioh_buf *frame, uint32_t timeout_ms);

/* Hands a frame of ioh_ws_frame() to the connection named id, to be sent on its own thread. The
 * frame is consumed, also on an error. 0 means handed over: a connection that leaves in the
 * meantime does not get it. IOH_EINVAL (not such a frame), IOH_EGONE, IOH_ENOMEM. [any thread] */
IOH_API int ioh_ws_post(ioh_server *server, ioh_conn_id id, ioh_buf *frame);

/* Starts the close handshake (RFC 6455 7.1.2): code 1000 to 1003, 1007 to 1014, 3000 to 4999, or 0
 * for a Close frame without one; the reason is UTF-8 of at most 123 bytes. Messages that still arrive
 * are dropped. The connection ends when the peer answers, or after options.close_timeout_ms.
 * [in a callback] */
IOH_API int ioh_ws_close(ioh_conn *conn, int code, const char *reason, size_t len);

/* ioh_ws_closed_by(): who sent the first Close frame */
#define IOH_WS_BY_NOBODY 0 /* the connection broke, or was dead (options.ws_dead_ms) */
#define IOH_WS_BY_PEER 1
#define IOH_WS_BY_US \
    2 /* the host, the server's stop, or the library since the peer broke the protocol */

/* Who ended the WebSocket, whatever the code says. [in on_ws_close] */
IOH_API int ioh_ws_closed_by(const ioh_conn *conn);

#ifdef __cplusplus
}
#endif
#endif

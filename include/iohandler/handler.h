/* The handler: a host's table of callbacks.
 *
 * A host fills the callbacks it needs; what an absent one means is said beside it. The last argument
 * of each is the state given to ioh_server_create().
 *
 * Order, per connection: on_open is the first callback and on_close the last, each exactly once;
 * on_close comes only for connections whose on_open said 0. Callbacks of one connection never
 * overlap. Different connections may be called back at the same time from different threads.
 *
 * Per request: on_request, then on_body for every piece of the body, then on_request_end, then
 * on_complete, which is called exactly once for every on_request. When the host answers before the
 * body is whole, the rest of the body is read and dropped: no on_body, no on_request_end follow.
 *
 * Per WebSocket: on_ws_upgrade, on_ws_open, messages, pings and pongs, on_ws_close exactly once after
 * every on_ws_open; then on_close.
 *
 * Bytes and requests given to a callback are valid until it returns, unless its comment says more.
 */
#ifndef IOHANDLER_HANDLER_H
#define IOHANDLER_HANDLER_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* on_log levels */
#define IOH_LOG_ERROR 0 /* the server cannot do what it was asked to */
#define IOH_LOG_WARN 1  /* something ran out, and is coped with */
#define IOH_LOG_INFO 2  /* limits and deadlines that peers ran into: each kind once a second */
#define IOH_LOG_DEBUG 3 /* a peer's fault: refused requests, with reason and offset */

/* on_ws_message opcodes (RFC 6455 5.2), also for ioh_ws_send() */
#define IOH_WS_TEXT 1
#define IOH_WS_BINARY 2
#define IOH_WS_PING 9
#define IOH_WS_PONG 10

/* What on_ws_upgrade may say besides yes or no. Zero-filled when it is called. */
struct ioh_ws_accept {
    size_t size;          /* set by the library: what it knows of */
    const char *protocol; /* the subprotocol chosen among those offered, or NULL; must stay valid
                             until on_ws_open */
};

/* Where the callbacks of a request, or of a WebSocket from its upgrade on, run. Filled with the
 * server's choice when on_classify is called. */
struct ioh_route {
    size_t size;    /* set by the library: what it knows of */
    int32_t exec;   /* IOH_EXEC_... of options.h; AFFINE needs work threads, POOL a pool */
    ioh_pool *pool; /* with IOH_EXEC_POOL: of ioh_pool_create(); NULL = the server's own */
};

struct ioh_handler {
    size_t size; /* set by IOH_HANDLER_INIT */

    /* ---- any protocol */

    /* Runs in each thread that will call the host, before and after all its other callbacks. */
    void (*on_thread_start)(void *state);
    void (*on_thread_stop)(void *state);

    /* A connection was accepted. Other than 0: it is reset, and no other callback follows. */
    int (*on_open)(ioh_conn *conn, void *state);

    /* The send queue has fallen to options.send_low after a send that answered IOH_QUEUED, or after
     * a streamed answer asked for it (ioh_respond_data). */
    void (*on_drain)(ioh_conn *conn, void *state);

    /* The peer has left or closed its sending side while a request of its was under way or a WebSocket was
     * open. An answer may
     * still reach a client that only half-closed. Never inside another callback of the connection:
     * a callback that runs for long can ask ioh_conn_gone() instead. At most once. */
    void (*on_peer_gone)(ioh_conn *conn, void *state);

    /* The connection is over; conn is invalid once this returns. */
    void (*on_close)(ioh_conn *conn, void *state);

    /* A line for the log, without newline. Absent: not logged. */
    void (*on_log)(int level, const char *text, void *state);

    /* ---- HTTP */

    /* A request's head is whole: where are its callbacks to run? Runs on the epoll thread before
     * on_request and on_ws_upgrade, and must be quick. Absent: as options.exec says. */
    void (*on_classify)(ioh_req *req, struct ioh_route *route, void *state);

    /* A request's head is whole. The host may answer here, in a later callback of this request, or
     * from anywhere after ioh_defer(). Absent: 404. */
    void (*on_request)(ioh_req *req, void *state);

    /* len > 0 bytes of the body, dechunked. Absent: dropped. */
    void (*on_body)(ioh_req *req, const void *data, size_t len, void *state);

    /* The request is whole. A host that has neither begun to answer nor called ioh_defer() when this
     * returns (or when on_request of a request without body returns and this is absent) has failed:
     * 500 is sent. */
    void (*on_request_end)(ioh_req *req, void *state);

    /* The answer is whole in the send queue, or the connection broke (status 0: nothing was answered).
     * The last callback for req. */
    void (*on_complete)(ioh_req *req, int status, uint64_t body_bytes_sent, void *state);

    /* ---- WebSocket */

    /* A valid upgrade request. 0 accepts; 400 to 599 refuses with that status; a host may also
     * answer by ioh_respond(), which refuses with that answer. Absent: accepted when on_ws_message or
     * on_ws_piece is there, otherwise upgrades are ignored and handled as plain requests. */
    int (*on_ws_upgrade)(ioh_req *req, struct ioh_ws_accept *accept, void *state);

    /* The handshake is done: messages may be sent. The peer learns of it once this has returned. */
    void (*on_ws_open)(ioh_conn *conn, void *state);

    /* A whole message; op is IOH_WS_TEXT (valid UTF-8) or IOH_WS_BINARY. data may be changed. */
    void (*on_ws_message)(ioh_conn *conn, int op, void *data, size_t len, void *state);

    /* A piece of a message, for hosts that take messages of any length with little memory: instead of
     * on_ws_message when that is absent, or after ioh_ws_receive_pieces(). Pieces come in order, as the peer's
     * bytes come in; last is 1 with the last one, which may have len 0. Text is checked piece by piece (RFC 6455
     * 8.1): no piece ends inside a character. options.ws_max_message does not apply. A message that is cut
     * off has no last piece: on_ws_close follows. data may be changed. */
    void (*on_ws_piece)(ioh_conn *conn, int op, void *data, size_t len, int last, void *state);

    /* A ping came (the pong has been queued already, unless our Close frame had been), a pong came. */
    void (*on_ws_ping)(ioh_conn *conn, const void *data, size_t len, void *state);
    void (*on_ws_pong)(ioh_conn *conn, const void *data, size_t len, void *state);

    /* The WebSocket is over. code: the peer's, 1005 when its Close had none, 1006 when the
     * connection broke without one (RFC 6455 7.1.5), or the library's own when the peer broke the
     * protocol (1002, 1007, 1009, 1011). */
    void (*on_ws_close)(ioh_conn *conn, int code, const char *reason, size_t len, void *state);
};

#define IOH_HANDLER_INIT                   \
    {                                      \
        .size = sizeof(struct ioh_handler) \
    }

#ifdef __cplusplus
}
#endif
#endif

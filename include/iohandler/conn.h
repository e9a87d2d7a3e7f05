/* Connections.
 *
 * A conn is valid from its on_open until its on_close returns, and is touched only inside its own
 * callbacks. Everyone else keeps its id and uses ioh_run_on() (server.h) or ioh_ws_post() (ws.h).
 */
#ifndef IOHANDLER_CONN_H
#define IOHANDLER_CONN_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name that outlives the connection. [in a callback] */
IOH_API ioh_conn_id ioh_conn_get_id(const ioh_conn *conn);

/* The host's own pointer, NULL at first. [in a callback] */
IOH_API void *ioh_conn_user(const ioh_conn *conn);
IOH_API void ioh_conn_set_user(ioh_conn *conn, void *user);

/* The server that conn belongs to. [in a callback] */
IOH_API ioh_server *ioh_conn_server(const ioh_conn *conn);

/* The number of the listener that accepted it (ioh_server_listen). [in a callback] */
IOH_API int ioh_conn_listener(const ioh_conn *conn);

/* The peer's address as text: "192.0.2.1:4711", "[2001:db8::1]:4711", "unix:". Always
 * NUL-terminated, cut if size is too small; 64 is enough. [in a callback] */
IOH_API void ioh_conn_peer(const ioh_conn *conn, char *text, size_t size);

/* Bytes queued for the peer and not yet taken by the kernel; a moment old when the callback does not run
 * on the epoll thread. [in a callback] */
IOH_API size_t ioh_conn_queued(const ioh_conn *conn);

/* Closes once everything queued has been written: shuts the sending side, waits until the peer
 * closes too (at most options.close_timeout_ms), so that the last bytes are not lost. Nothing that
 * arrives from now on is delivered. A WebSocket should be ended by ioh_ws_close(). on_close follows
 * later, never inside this call. [in a callback] */
IOH_API void ioh_close(ioh_conn *conn);

/* Ends the connection at once with a reset; what is queued is lost. on_close follows later.
 * [in a callback] */
IOH_API void ioh_abort(ioh_conn *conn);

/* 1 once the peer has left or closed its sending side, or the connection has ended; else 0. For
 * callbacks that run for long, on a thread other than the epoll thread. [in a callback] */
IOH_API int ioh_conn_gone(const ioh_conn *conn);

/* Stops reading from the peer, goes on with it. What has been read already may still be delivered
 * once. A new connection reads. [in a callback] */
IOH_API void ioh_pause(ioh_conn *conn);
IOH_API void ioh_resume(ioh_conn *conn);

/* Waits until the send queue is at or below options.send_low, for hosts that must wait inside a callback:
 * 0, IOH_ETIMEOUT after timeout_ms, IOH_EGONE at once when the connection ends, IOH_ESTATE on an epoll
 * thread that would wait for itself (IOH_EXEC_INLINE). [in a callback] */
IOH_API int ioh_wait_sent(ioh_conn *conn, uint32_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif

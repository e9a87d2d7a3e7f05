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

/* Bytes queued for the peer and not yet taken by the kernel. [in a callback] */
IOH_API size_t ioh_conn_queued(const ioh_conn *conn);

/* Closes once everything queued has been written: shuts the sending side, waits until the peer
 * closes too (at most options.close_timeout_ms), so that the last bytes are not lost. Nothing that
 * arrives from now on is delivered. A WebSocket should be ended by ioh_ws_close(). on_close follows
 * later, never inside this call. [in a callback] */
IOH_API void ioh_close(ioh_conn *conn);

/* Ends the connection at once with a reset; what is queued is lost. on_close follows later.
 * [in a callback] */
IOH_API void ioh_abort(ioh_conn *conn);

#ifdef __cplusplus
}
#endif
#endif

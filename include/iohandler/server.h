/* The server: options, handler, listeners and threads.
 *
 *     created --start--> running --stop--> stopped --destroy
 *
 * A server is started once. Several servers may run in one process. The library installs no signal
 * handler, keeps no global state, and marks its descriptors close-on-exec.
 */
#ifndef IOHANDLER_SERVER_H
#define IOHANDLER_SERVER_H

#include <iohandler/handler.h>
#include <iohandler/options.h>
#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a server in *server. handler and options are copied; options may be NULL (all defaults).
 * state is handed to every callback.
 * IOH_EINVAL (an option is out of range), IOH_EVERSION, IOH_ENOMEM, IOH_ESYS. On an error *server is
 * NULL, unless only an option is at fault: then *server answers ioh_server_error() and must be
 * destroyed. [any thread] */
IOH_API IOH_MUST_CHECK int ioh_server_create(ioh_server **server, const struct ioh_handler *handler,
                                             const struct ioh_options *options, void *state);

/* How a listener is opened; NULL or all zero means the defaults. */
struct ioh_listen_options {
    size_t size;        /* set by IOH_LISTEN_OPTIONS_INIT */
    uint32_t backlog;   /* connections the kernel keeps until they are accepted. 0 = 4,096 */
    uint32_t unix_mode; /* permission bits of a unix socket's file, as for chmod(2). 0 = what the
                           process's umask leaves */
};

#define IOH_LISTEN_OPTIONS_INIT                       \
    {                                                 \
        .size = sizeof(struct ioh_listen_options)     \
    }

/* Opens a listening socket: "127.0.0.1:8080", "[::1]:8080" (IPv6 only), "0.0.0.0:0" (the system
 * picks the port), "unix:/run/x.sock" (a stale socket file is replaced, one in use refused; the
 * file goes when the server stops). Answers the listener's number, counted from 0.
 * IOH_EADDR, IOH_EADDRINUSE, IOH_EVERSION, IOH_ESYS, IOH_ENOMEM, IOH_ESTATE; ioh_server_error() tells
 * more.
 * [before start] */
IOH_API IOH_MUST_CHECK int ioh_server_listen(ioh_server *server, const char *address,
                                             const struct ioh_listen_options *options);

/* Writes the bound address of a listener, as text with its port, into text (NUL-terminated).
 * IOH_EINVAL (no such listener), IOH_ETOOBIG (size is too small; 128 is enough). [any thread] */
IOH_API int ioh_server_address(ioh_server *server, int listener, char *text, size_t size);

/* Starts the threads and answers once all run.
 * IOH_ESTATE, IOH_ESYS, IOH_ENOMEM. [before start] */
IOH_API IOH_MUST_CHECK int ioh_server_start(ioh_server *server);

/* Stops: listeners close, idle HTTP connections close, requests under way are finished and answered
 * with Connection: close, WebSockets get a Close frame with 1001 (RFC 6455 7.4.1). What is left
 * after drain_ms is aborted. When this returns, every on_close has run and all threads have ended.
 * IOH_ETIMEOUT (stopped, but something had to be aborted), IOH_ESTATE (not running, or called inside
 * a callback). [any thread] */
IOH_API int ioh_server_stop(ioh_server *server, uint32_t drain_ms);

/* Stops with drain_ms 0 if it still runs, and frees. NULL is allowed. [any thread, outside callbacks] */
IOH_API void ioh_server_destroy(ioh_server *server);

/* The text of the last failed create, listen or start; "" when there was none. Valid until the next
 * call for this server. [before start] */
IOH_API const char *ioh_server_error(const ioh_server *server);

/* The number of threads that the running server has made. [any thread] */
IOH_API int ioh_server_threads(const ioh_server *server);

/* Runs fn(conn, user) as a callback of the connection named id, on the thread that runs its
 * callbacks; if the connection is gone by then, gone(user) instead, there too. Exactly one of both
 * runs if the answer is 0. gone may be NULL.
 * IOH_EGONE (the id never was one of this server's, or the server does not run), IOH_EINVAL (no fn),
 * IOH_ENOMEM: neither runs. [any thread] */
IOH_API int ioh_run_on(ioh_server *server, ioh_conn_id id, void (*fn)(ioh_conn *conn, void *user),
                       void *user, void (*gone)(void *user));

#ifdef __cplusplus
}
#endif
#endif

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
    const char *
        proxy_from; /* proxies that tell whose connections they pass on, by a PROXY header (versions 1
                           and 2 of HAProxy's protocol) before anything else: addresses, prefixes and
                           "unix:", as "127.0.0.1, 10.0.0.0/8, ::1, unix:". Then ioh_conn_peer() tells the
                           client's address from on_open on. Who is not listed, begins with anything else
                           or has sent no whole header by head_timeout_ms, is reset. NULL = no PROXY
                           protocol. Read at once, not kept */
};

#define IOH_LISTEN_OPTIONS_INIT                   \
    {                                             \
        .size = sizeof(struct ioh_listen_options) \
    }

/* Opens a listening socket: "127.0.0.1:8080", "[::1]:8080" (IPv6 only), "0.0.0.0:0" (the system
 * picks the port), "unix:/run/x.sock" (a stale socket file is replaced, one in use refused; the
 * file goes when the server stops). Answers the listener's number, counted from 0.
 * IOH_EINVAL (no address), IOH_EADDR (also of proxy_from), IOH_EADDRINUSE, IOH_EVERSION, IOH_ESYS, IOH_ENOMEM, IOH_ESTATE; ioh_server_error() tells
 * more.
 * [before start] */
IOH_API IOH_MUST_CHECK int ioh_server_listen(ioh_server *server, const char *address,
                                             const struct ioh_listen_options *options);

/* Writes the bound address of a listener, as text with its port, into text (NUL-terminated).
 * IOH_EINVAL (no such listener), IOH_ETOOBIG (size is too small; 128 is enough). [any thread] */
IOH_API int ioh_server_address(ioh_server *server, int listener, char *text, size_t size);

/* Makes a pool of threads of its own, for on_classify to name: the slow routes' queue is then not the
 * others'. (With IOH_THREADS nothing runs there, and it has no threads.) name (at most 10 bytes) is part of its threads' names; threads is at least 1; queue is how
 * many callbacks may wait, 0 = 1,024. NULL: out of memory, a bad argument, or started already. It
 * belongs to the server. [before start] */
IOH_API ioh_pool *ioh_pool_create(ioh_server *server, const char *name, unsigned threads,
                                  unsigned queue);

/* The host drives the loop itself: answers a descriptor that is readable whenever
 * ioh_server_step() has something to do, except for deadlines: a host that waits for nothing but the
 * descriptor steps at least once a second, too. Called before start, it makes a server with one loop and
 * no epoll thread; pool and work threads are made as the options say. Under AUTO, callbacks run as
 * under INLINE. IOH_ESTATE (after start, or with IOH_THREADS), IOH_ENOMEM, IOH_ESYS. [before start] */
IOH_API int ioh_server_fd(ioh_server *server);

/* One turn of the loop: waits at most timeout_ms (-1: until something happens), then does what there
 * is to do. Answers 1, or 0 when the server has been stopped and nothing is left. From one thread at a
 * time. IOH_ESTATE (the host does not drive this server, or it was not started). [any thread] */
IOH_API int ioh_server_step(ioh_server *server, int timeout_ms);

/* Starts the threads and answers once all run.
 * IOH_ESTATE, IOH_ESYS, IOH_ENOMEM. [before start] */
IOH_API IOH_MUST_CHECK int ioh_server_start(ioh_server *server);

/* Stops: listeners close, idle HTTP connections close, requests under way are finished and answered
 * with Connection: close, WebSockets get a Close frame with 1001 (RFC 6455 7.4.1). What is left
 * after drain_ms is aborted. When this returns, every on_close has run and all threads have ended,
 * but for callbacks that still have not returned: they are reported to on_log, and nothing they use
 * is freed before ioh_server_destroy(), which waits for them. A host that drives the loop itself
 * steps on until ioh_server_step() answers 0.
 * IOH_ETIMEOUT (stopped, but something had to be aborted or does not return), IOH_ESTATE (not running,
 * or called inside a callback). [any thread] */
IOH_API int ioh_server_stop(ioh_server *server, uint32_t drain_ms);

/* Stops with drain_ms 0 if it still runs, waits for callbacks that have not returned, and frees. NULL is allowed. [any thread, outside callbacks] */
IOH_API void ioh_server_destroy(ioh_server *server);

/* The text of the last failed create, listen or start; "" when there was none. Valid until the next
 * call for this server. [before start] */
IOH_API const char *ioh_server_error(const ioh_server *server);

/* The number of threads that the running server has made: epoll, pool, work and the watcher of AUTO;
 * with IOH_THREADS the acceptor's and one for each connection. [any thread] */
IOH_API int ioh_server_threads(const ioh_server *server);

/* Runs fn(conn, user) as a callback of the connection named id, where its callbacks run, after the one
 * that may be running; if the connection is gone by then, gone(user) instead, on any thread of the
 * library. Exactly one of both runs if the answer is 0. gone may be NULL.
 * IOH_EGONE (the connection is known to be gone, the id cannot be one of this server's, or the server does
 * not run), IOH_EINVAL (no fn),
 * IOH_ENOMEM: neither runs. [any thread] */
IOH_API int ioh_run_on(ioh_server *server, ioh_conn_id id, void (*fn)(ioh_conn *conn, void *user),
                       void *user, void (*gone)(void *user));

/* ioh_close() and ioh_abort() of the connection named id. IOH_EGONE, IOH_ENOMEM. [any thread] */
IOH_API int ioh_post_close(ioh_server *server, ioh_conn_id id);
IOH_API int ioh_post_abort(ioh_server *server, ioh_conn_id id);

#ifdef __cplusplus
}
#endif
#endif

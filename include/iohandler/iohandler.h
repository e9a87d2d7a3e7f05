/* iohandler: takes over the sockets of an existing C server.
 *
 * A *host* fills a table of callbacks (handler.h), sets *options* (options.h), creates a *server*
 * (server.h), gives it addresses to listen on and starts it. From then on a fixed set of threads
 * accepts, reads, parses, calls back and writes; the host answers requests (req.h), sends WebSocket
 * messages (ws.h) and closes connections (conn.h).
 *
 * Every function's comment bears one tag:
 *   [any thread]     may be called from everywhere, at any time between create and destroy
 *   [in a callback]  only inside a callback of that very connection
 *   [before start]   only between ioh_server_create() and ioh_server_start()
 * Errors are the negative numbers of error.h; each comment lists its function's own.
 */
#ifndef IOHANDLER_IOHANDLER_H
#define IOHANDLER_IOHANDLER_H

#include <iohandler/types.h>
#include <iohandler/error.h>
#include <iohandler/buf.h>
#include <iohandler/options.h>
#include <iohandler/handler.h>
#include <iohandler/server.h>
#include <iohandler/conn.h>
#include <iohandler/req.h>
#include <iohandler/sse.h>
#include <iohandler/form.h>
#include <iohandler/file.h>
#include <iohandler/ws.h>
#include <iohandler/topic.h>
#include <iohandler/stats.h>
#include <iohandler/access_log.h>

#endif

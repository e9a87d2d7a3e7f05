/* Server-sent events (WHATWG HTML 9.2): an answer that does not end, of which the client makes events.
 *
 *     on_request:   ioh_sse_start(req, NULL);
 *                   id = ioh_defer(req);                  for whoever has news, with the connection's id
 *     any thread:   ioh_reply_data_buf(server, id, ioh_sse_event("price", "17", text, len));
 *     to many:      one ioh_sse_event(), one ioh_buf_ref() for each client
 *
 * A client that lost its connection comes again by itself, after `retry_ms`, and says in its field Last-Event-ID
 * which event it saw last. A client that should not come again is answered 204.
 *
 * The stream ends with ioh_respond_end(). The library ends it when the client leaves or closes its sending side, and
 * when the server stops, since nothing else would; what the host still sends is answered IOH_EDONE. A client that reads too slowly is cut at options.send_max. on_complete tells of every
 * end. HEAD gets the head alone.
 */
#ifndef IOHANDLER_SSE_H
#define IOHANDLER_SSE_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ioh_sse_options {
    size_t size;       /* set by IOH_SSE_OPTIONS_INIT */
    uint32_t retry_ms; /* the client is to come again after this; 0: as it likes */
    uint32_t
        keepalive_ms; /* a comment after so much silence, so that nobody on the way takes the connection
                              for dead. 0 = 15,000 */
    const struct ioh_header
        *headers; /* more fields, say Access-Control-Allow-Origin, or X-Accel-Buffering */
    size_t header_count;
};

#define IOH_SSE_OPTIONS_INIT                   \
    {                                          \
        .size = sizeof(struct ioh_sse_options) \
    }

/* Begins the stream: 200, text/event-stream, never cached. options may be NULL. As ioh_respond_start(), and
 * IOH_EVERSION when options has no size. [in a callback] */
IOH_API int ioh_sse_start(ioh_req *req, const struct ioh_sse_options *options);

/* An event as it is sent. event: its type, NULL for "message"; id: what Last-Event-ID will say, NULL: as before;
 * data: len bytes of UTF-8, of any number of lines (CR, LF and CRLF end one; the client sees LF); NULL with len 0:
 * no data, so that only the id is taken. NULL: a CR or LF in event or id, no argument at all, or out of memory.
 * [any thread] */
IOH_API ioh_buf *ioh_sse_event(const char *event, const char *id, const void *data, size_t len);

/* Sends an event, which is consumed, also on an error. As ioh_respond_data_buf(); IOH_EINVAL when event is NULL.
 * Elsewhere: ioh_reply_data_buf(). [in a callback] */
IOH_API int ioh_sse_send(ioh_req *req, ioh_buf *event);

#ifdef __cplusplus
}
#endif
#endif

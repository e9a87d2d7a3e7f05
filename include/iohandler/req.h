/* Requests and answers (RFC 9110, RFC 9112).
 *
 * A req is valid from on_request until its on_complete returns. The strings it gives live until the
 * callback returns in which they were asked for. The library frames the answer: it writes Date,
 * Content-Length, Transfer-Encoding and Connection itself and refuses them from the host; it sends no
 * body for HEAD, 204 and 304.
 */
#ifndef IOHANDLER_REQ_H
#define IOHANDLER_REQ_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading; all [in a callback] */

IOH_API ioh_conn *ioh_req_conn(const ioh_req *req);

/* "GET"; case-sensitive (RFC 9110 9.1). */
IOH_API struct ioh_str ioh_req_method(const ioh_req *req);

/* The target as sent. */
IOH_API struct ioh_str ioh_req_target(const ioh_req *req);

/* The path of the target, not decoded: of origin and absolute form; "/" for an absolute form without
 * path, "*" for the asterisk form. */
IOH_API struct ioh_str ioh_req_path(const ioh_req *req);

/* What stands behind the first '?'; ptr is NULL when there is none. */
IOH_API struct ioh_str ioh_req_query(const ioh_req *req);

/* 0 or 1, for HTTP/1.0 and HTTP/1.1. */
IOH_API int ioh_req_minor_version(const ioh_req *req);

/* The value of the first field of that name, any case; ptr is NULL when there is none. */
IOH_API struct ioh_str ioh_req_header(const ioh_req *req, const char *name);

/* The fields in order: 0 and both strings, or IOH_EINVAL when index is not below the count. */
IOH_API size_t ioh_req_header_count(const ioh_req *req);
IOH_API int ioh_req_header_at(const ioh_req *req, size_t index, struct ioh_str *name,
                              struct ioh_str *value);

/* The length of the body: as announced; 0 without a body; -1 when it is chunked. */
IOH_API int64_t ioh_req_content_length(const ioh_req *req);

/* 1: the client waits for 100 (Continue) before it sends its body (RFC 9110 10.1.1); else 0. Any answer
 * given now comes instead: 413, 417, 401. The 100 goes out once on_request has returned without one; but
 * ioh_pause() in on_request holds it back until ioh_resume(), for a host that has to look something up. */
IOH_API int ioh_req_expects_continue(const ioh_req *req);

/* The library gathers the body: on_body is not called, and ioh_req_body() is all of it from on_request_end
 * on. More than max bytes (or than options.max_body_bytes): 413, at once when the length is announced. Only in
 * on_request: 0, or IOH_ESTATE elsewhere. */
IOH_API int ioh_req_gather(ioh_req *req, size_t max);

/* The gathered body; ptr is NULL before on_request_end and when it was not gathered. Not copied when it came
 * in one piece. */
IOH_API struct ioh_str ioh_req_body(const ioh_req *req);

/* The fields behind a chunked body, from on_request_end on, as those of the head (RFC 9110 6.5). They are no
 * part of the head, and those that could only mislead are left out: what frames, routes, authenticates or
 * controls a message, or says how its content is to be read (RFC 9110 6.5.1). */
IOH_API struct ioh_str ioh_req_trailer(const ioh_req *req, const char *name);
IOH_API size_t ioh_req_trailer_count(const ioh_req *req);
IOH_API int ioh_req_trailer_at(const ioh_req *req, size_t index, struct ioh_str *name,
                               struct ioh_str *value);

/* What a request took. Times of CLOCK_MONOTONIC; "us" are microseconds, those at which something happened count
 * from begin_ns, and are 0 when it did not happen. */
struct ioh_timing {
    size_t size; /* set by IOH_TIMING_INIT */
    uint64_t
        begin_ns; /* the first byte of the head had been read; of a head that came in pieces, to some
                               milliseconds. Of pipelined requests: the answer before had been given */
    uint64_t queued_us;     /* on_request was called */
    uint64_t handler_us;    /* how long its callbacks took, all together; on_complete not counted */
    uint64_t first_byte_us; /* the answer's first byte was in the send queue, */
    uint64_t last_byte_us;  /* and its last */
};

#define IOH_TIMING_INIT                   \
    {                                     \
        .size = sizeof(struct ioh_timing) \
    }

/* For an access log: in on_complete. 0, IOH_ESTATE (elsewhere, or options.timings is off) or IOH_EVERSION (no
 * size). */
IOH_API int ioh_req_timing(const ioh_req *req, struct ioh_timing *timing);

/* The host's own pointer for this request, NULL at first. */
IOH_API void *ioh_req_user(const ioh_req *req);
IOH_API void ioh_req_set_user(ioh_req *req, void *user);

/* ---- answering
 *
 * All [in a callback] of the same connection. They answer 0, IOH_QUEUED, or:
 *   IOH_EINVAL   status is not 200 to 599 (informational: 102 to 199), or data is NULL with a length
 *   IOH_EHEADER  a field that must not be sent: bad name or value, or one of the library's own
 *   IOH_EDONE    answered already
 *   IOH_EGONE    the connection is closing
 *   IOH_EFULL    options.send_max; the connection is aborted
 *   IOH_ENOMEM   the connection is aborted
 * After IOH_EINVAL and IOH_EHEADER nothing was sent and another answer may be given. */

/* A whole answer; headers and body are copied. */
IOH_API int ioh_respond(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                        const void *body, size_t len);

/* The same with the body in a buf, which is consumed, also on an error; not copied when large. */
IOH_API int ioh_respond_buf(ioh_req *req, int status, const struct ioh_header *headers,
                            size_t count, ioh_buf *body);

/* An answer that never changes, serialised once. Only Date and Connection are added per request. */
IOH_API int ioh_respond_shared(ioh_req *req, const ioh_response *response);

/* A streamed answer: start, any number of data, end. length is the length of the body in bytes, or
 * -1 when it is not known: then HTTP/1.1 gets chunks (RFC 9112 7.1) and HTTP/1.0 a body that ends
 * with the connection. When data answers IOH_QUEUED the host waits for on_drain before it sends
 * more. data copies; ioh_respond_data_buf consumes its buf and does not copy when it is large.
 * Also: IOH_ESTATE (data or end without start), IOH_ELENGTH (data: more than length; end: less, and
 * the connection is aborted, since the peer must not take the answer for whole). */
IOH_API int ioh_respond_start(ioh_req *req, int status, const struct ioh_header *headers,
                              size_t count, int64_t length);
IOH_API int ioh_respond_data(ioh_req *req, const void *data, size_t len);
IOH_API int ioh_respond_data_buf(ioh_req *req, ioh_buf *buf);
IOH_API int ioh_respond_end(ioh_req *req);

/* The end with fields behind a chunked body (RFC 9110 6.5), copied; where there are no chunks they are dropped.
 * Who reads the answer may never see them: nothing may depend on it. IOH_EHEADER also for fields that may
 * not stand there (RFC 9110 6.5.1): what frames, routes, authenticates or controls, Content-Type, -Encoding
 * and -Range. */
IOH_API int ioh_respond_end_trailers(ioh_req *req, const struct ioh_header *headers, size_t count);

/* The other way round: after ioh_respond_start() the library asks for data. fn runs as a callback of the
 * connection, soon, and again whenever at most options.send_low bytes are queued, until the answer has ended.
 * It sends by ioh_respond_data(), best up to room bytes, and ends by ioh_respond_end(). When it does neither
 * it has nothing now: it is asked again after ioh_respond_more() or ioh_reply_more(). Where no body is sent
 * (HEAD, 204, 304) the answer ends at once and fn is not called. 0, IOH_EINVAL (fn is NULL), IOH_ESTATE,
 * IOH_EDONE, IOH_EGONE, IOH_ENOMEM. */
typedef void (*ioh_more_fn)(ioh_req *req, size_t room, void *user);
IOH_API int ioh_respond_pull(ioh_req *req, ioh_more_fn fn, void *user);

/* There is something to ask for again. 0, or as ioh_respond_pull(). */
IOH_API int ioh_respond_more(ioh_req *req);

/* A head before the answer's own: 103 (Early Hints), 102, 104 and others from 102 to 199 (RFC 9110 15.2), any
 * number of them, before the answer begins. HTTP/1.0 knows none: nothing is sent, and 0 answered. */
IOH_API int ioh_respond_informational(ioh_req *req, int status, const struct ioh_header *headers,
                                      size_t count);

/* The connection closes after this answer. Before the answer begins. [in a callback] */
IOH_API void ioh_respond_close(ioh_req *req);

/* ---- answering later, from any thread
 *
 * ioh_defer() takes a request out of its callbacks: it stays open until one of the functions below has
 * answered it, or its connection ends. They are as those above, but nothing is said of the send queue:
 * 0, IOH_EINVAL, IOH_EHEADER, IOH_EGONE (the server does not run), IOH_ENOMEM. An answer for a request
 * that is gone or answered is dropped and counted (ioh_stats.late_answers). [any thread], except: */

/* The request's name. May be called in on_request, on_body and on_request_end. [in a callback] */
IOH_API struct ioh_req_id ioh_defer(ioh_req *req);

IOH_API int ioh_reply(ioh_server *server, struct ioh_req_id id, int status,
                      const struct ioh_header *headers, size_t count, const void *body, size_t len);
IOH_API int ioh_reply_start(ioh_server *server, struct ioh_req_id id, int status,
                            const struct ioh_header *headers, size_t count, int64_t length);
IOH_API int ioh_reply_data(ioh_server *server, struct ioh_req_id id, const void *data, size_t len);
IOH_API int ioh_reply_data_buf(ioh_server *server, struct ioh_req_id id, ioh_buf *buf);
IOH_API int ioh_reply_end(ioh_server *server, struct ioh_req_id id);
IOH_API int ioh_reply_end_trailers(ioh_server *server, struct ioh_req_id id,
                                   const struct ioh_header *headers, size_t count);
IOH_API int ioh_reply_informational(ioh_server *server, struct ioh_req_id id, int status,
                                    const struct ioh_header *headers, size_t count);

/* As ioh_respond_more(), for whoever makes the data. */
IOH_API int ioh_reply_more(ioh_server *server, struct ioh_req_id id);

/* ---- shared answers */

/* Builds one; everything is copied. NULL: out of memory, or what ioh_respond() would answer
 * IOH_EINVAL or IOH_EHEADER to. [any thread] */
IOH_API ioh_response *ioh_response_create(int status, const struct ioh_header *headers,
                                          size_t count, const void *body, size_t len);

/* Gives it back; NULL is allowed. Answers already given with it are not touched. [any thread] */
IOH_API void ioh_response_destroy(ioh_response *response);

/* The reason phrase for a status, "" when it has none (RFC 9110 15). [any thread] */
IOH_API const char *ioh_reason(int status);

#ifdef __cplusplus
}
#endif
#endif

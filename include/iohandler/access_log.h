/* The access log: a line for each request, written by a thread of its own.
 *
 * on_complete hands each request over by ioh_access_log_add(); that formats the line and copies it into a buffer,
 * which the log's thread writes out. So no callback ever waits for a disk. Lines that find the buffer full are
 * dropped and counted.
 *
 *     ioh_access_log_open() -- ioh_access_log_add() from any callbacks -- ioh_access_log_close()
 *
 * What the library itself answers before on_request (malformed requests, 404 without on_request, refused
 * WebSockets) has no on_complete; on_log tells of it. What a client says is escaped: a line is a line.
 */
#ifndef IOHANDLER_ACCESS_LOG_H
#define IOHANDLER_ACCESS_LOG_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The formats. Times are UTC; an absent field is "-", in JSON it is left out. */
#define IOH_ACCESS_COMMON \
    0 /* 192.0.2.1 - - [30/Nov/2026:16:20:05 +0000] "GET /a?b HTTP/1.1" 200 4 */
#define IOH_ACCESS_COMBINED 1 /* and: "Referer" "User-Agent" */
/* An object: time (RFC 3339, when the answer was whole), peer, method, target, version, status, bytes (of the
 * body), with options.timings queued_us, handler_us, first_byte_us, last_byte_us (struct ioh_timing); referer,
 * user_agent. */
#define IOH_ACCESS_JSON 2

struct ioh_access_log_options {
    size_t size;      /* set by IOH_ACCESS_LOG_OPTIONS_INIT */
    const char *path; /* appended to, made with mode 0644 when it is not there. Copied */
    int32_t format;   /* IOH_ACCESS_... */
    uint32_t
        buffer_bytes;  /* lines that wait to be written; twice that is allocated. 0 = 1,048,576; at
                              least 16,384 */
    uint32_t flush_ms; /* a line waits at most this long. 0 = 500 */
};

#define IOH_ACCESS_LOG_OPTIONS_INIT                   \
    {                                                 \
        .size = sizeof(struct ioh_access_log_options) \
    }

typedef struct ioh_access_log ioh_access_log;

/* Opens the file and starts the thread ("ioh-log"), which is not one of the server's. 0, or with *log NULL:
 * IOH_EINVAL (no path, a bad format or size), IOH_EVERSION, IOH_ESYS (errno tells why), IOH_ENOMEM. [any thread] */
IOH_API IOH_MUST_CHECK int ioh_access_log_open(ioh_access_log **log,
                                               const struct ioh_access_log_options *options);

/* Adds the line of a request; status and bytes as on_complete got them (status 0: nothing was answered). It never
 * waits for the file. [in a callback: on_complete] */
IOH_API void ioh_access_log_add(ioh_access_log *log, const ioh_req *req, int status,
                                uint64_t bytes);

/* Formats the line into text, without a newline and with a NUL: for hosts that log by themselves. What does not
 * fit is cut in the client's fields, never the rest: IOH_EINVAL for a bad format or a size below 1,024. Else
 * the line's length. [in a callback: on_complete] */
IOH_API int ioh_access_log_format(const ioh_req *req, int status, uint64_t bytes, int32_t format,
                                  char *text, size_t size);

/* Opens the path anew before the next line is written, for log rotation. If that fails, the old file is written on
 * and it is tried again with each flush. [any thread; not in a signal handler] */
IOH_API void ioh_access_log_reopen(ioh_access_log *log);

/* Lines dropped since the beginning: the buffer was full, or the file could not be written to. [any thread] */
IOH_API uint64_t ioh_access_log_dropped(ioh_access_log *log);

/* Writes what waits, ends the thread and frees. After the server has stopped. NULL is allowed. [any thread,
 * outside callbacks] */
IOH_API void ioh_access_log_close(ioh_access_log *log);

#ifdef __cplusplus
}
#endif
#endif

/* Names that all the other headers share. */
#ifndef IOHANDLER_TYPES_H
#define IOHANDLER_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IOH_VERSION_MAJOR 0
#define IOH_VERSION_MINOR 1
#define IOH_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define IOH_API __attribute__((visibility("default")))
#define IOH_MUST_CHECK __attribute__((warn_unused_result))
#else
#define IOH_API
#define IOH_MUST_CHECK
#endif

typedef struct ioh_server ioh_server;     /* options + handler + listeners + threads */
typedef struct ioh_conn ioh_conn;         /* one connection; never outlives on_close */
typedef struct ioh_req ioh_req;           /* one HTTP request and its answer */
typedef struct ioh_buf ioh_buf;           /* immutable, counted bytes (buf.h) */
typedef struct ioh_pool ioh_pool;         /* a named pool of threads (server.h) */
typedef struct ioh_response ioh_response; /* an answer built once, sent many times (req.h) */

/* A connection's name, valid for ever: once the connection is gone, functions that take the id
 * answer IOH_EGONE. 0 names no connection. */
typedef uint64_t ioh_conn_id;

/* A request's name, valid for ever like its connection's (ioh_defer, req.h). */
struct ioh_req_id {
    ioh_conn_id conn;
    uint32_t number;
};

/* Bytes that belong to somebody else; not NUL-terminated. ptr is NULL when there is no such thing
 * (an absent field), and not NULL with len 0 when it is there and empty. */
struct ioh_str {
    const char *ptr;
    size_t len;
};

/* A field to send. Both strings end with NUL; the name is a token, the value has no CR or LF
 * (RFC 9110 5.5). */
struct ioh_header {
    const char *name;
    const char *value;
};

#ifdef __cplusplus
}
#endif
#endif

/* Options: how a server runs. All zero means the default of every field; the server copies the
 * struct at create.
 *
 * `size` lets a host compiled against an older library run with a newer one: fields that the host
 * does not know count as zero.
 */
#ifndef IOHANDLER_OPTIONS_H
#define IOHANDLER_OPTIONS_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* options.type: who waits for the sockets */
#define IOH_EPOLL 0 /* a fixed set of epoll threads */

/* options.exec: who runs the callbacks */
#define IOH_EXEC_DEFAULT 0 /* the library's choice; today IOH_EXEC_INLINE */
/* The epoll thread itself, always. Quickest, and right for callbacks that never wait: a callback
 * that takes 100 ms delays every other connection of its thread by 100 ms. */
#define IOH_EXEC_INLINE 1

struct ioh_options {
    size_t size; /* set by IOH_OPTIONS_INIT */

    /* threads */
    int32_t type;           /* IOH_EPOLL */
    int32_t exec;           /* IOH_EXEC_... */
    uint32_t epoll_threads; /* 0 = the cores this process may use (affinity and cgroup quota) */

    /* HTTP: what a request may measure */
    uint32_t max_head_bytes; /* request line and fields; beyond: 431. 0 = 16,384; at most 65,535 */
    uint32_t max_uri_bytes;  /* request target; beyond: 414. 0 = 8,192 */
    uint32_t max_headers;    /* fields; beyond: 431. 0 = 100; at most 1,000 */
    uint64_t max_body_bytes; /* body after dechunking; beyond: 413. 0 = 67,108,864 */

    /* deadlines, in milliseconds. None is renewed by bytes that merely trickle in. */
    uint32_t head_timeout_ms;  /* first byte of a head to its end; beyond: 408. 0 = 10,000 */
    uint32_t idle_timeout_ms;  /* HTTP between requests, and before the first. 0 = 60,000 */
    uint32_t body_timeout_ms;  /* a body may take this, and what min_rate allows. 0 = 30,000 */
    uint32_t write_timeout_ms; /* the peer may read nothing for this long, likewise. 0 = 30,000 */
    uint32_t close_timeout_ms; /* WebSocket close handshake, and lingering. 0 = 5,000 */
    uint32_t min_rate;         /* bytes per second that prolong the body and write deadlines:
                                  n bytes moved add n / min_rate seconds. 0 = 1,024 */

    /* WebSocket */
    uint64_t ws_max_message; /* a whole message, all fragments; beyond: 1009. 0 = 16,777,216 */

    /* the send queue of one connection, in bytes */
    uint64_t send_high; /* above: sends answer IOH_QUEUED, reading stops. 0 = 262,144 */
    uint64_t send_low;  /* fallen to: on_drain, reading goes on. 0 = send_high / 4 */
    uint64_t send_max;  /* beyond: the send answers IOH_EFULL and the connection is aborted.
                           0 = 16,777,216 */

    /* descriptors */
    uint32_t keep_fd_limit; /* 1: leave RLIMIT_NOFILE alone; 0: raise it to the hard limit */
};

#define IOH_OPTIONS_INIT                       \
    {                                          \
        .size = sizeof(struct ioh_options)     \
    }

#ifdef __cplusplus
}
#endif
#endif

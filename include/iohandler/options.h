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
#define IOH_THREADS \
    1 /* a thread for each connection, which also runs its callbacks, whatever exec says:
                         as before a swap, and right below a hundred clients */

/* options.exec: who runs the callbacks under IOH_EPOLL */
/* The default. Callbacks run on the epoll thread; when one takes longer than handoff_us, a pool thread
 * takes over the loop and serves the others, and the late callback goes on undisturbed where it is. What
 * was late lately (by path, by connection) goes to the pool at once. Needs pool threads. */
#define IOH_EXEC_AUTO 0
/* The epoll thread itself, always. Right for callbacks that never wait: one that takes 100 ms delays
 * every other connection of its thread by 100 ms, also those that were answered just before: answers of
 * several connections leave together. */
#define IOH_EXEC_INLINE 1
/* Any thread of the pool. Callbacks may wait as long as pool threads are left. */
#define IOH_EXEC_POOL 2
/* One work thread for all callbacks of a connection, from on_open to on_close: for hosts with
 * thread-local state. */
#define IOH_EXEC_AFFINE 3

/* options.pool_full: what happens to a callback that finds the queue of its pool full */
#define IOH_FULL_DEFAULT 0 /* a request: IOH_FULL_REFUSE; WebSocket: IOH_FULL_WAIT */
#define IOH_FULL_REFUSE 1  /* 503 with Retry-After, and close; a WebSocket: 1013 */
#define IOH_FULL_WAIT 2    /* its connection is not read until there is room */
#define IOH_FULL_CLOSE 3   /* its connection is reset */

/* options.send_full: what happens at send_max */
#define IOH_SEND_FULL_CLOSE 0 /* the connection is reset */
#define IOH_SEND_FULL_DROP \
    1 /* a WebSocket message is not sent; an HTTP answer still resets, since it
                                 would have a hole */

/* options.ws_deflate: permessage-deflate (RFC 7692), with clients that offer it */
#define IOH_DEFLATE_OFF 0
/* Every message is compressed by itself: the state is a thread's and lent for the message, a connection has
 * none. */
#define IOH_DEFLATE_SHARED 1
/* A message may refer to those before it, which pays for many small ones that are alike. A connection that has sent
 * and received has two states of its own: at 15 bits some 260 and 40 KiB, at 11 bits some 140 and 10 KiB. The
 * epoll thread compresses, also what a callback on another thread sends. A client that asks for it, or whose
 * window is too large, gets the other way. */
#define IOH_DEFLATE_TAKEOVER 2

struct ioh_options {
    size_t size; /* set by IOH_OPTIONS_INIT */

    /* threads */
    int32_t type;             /* IOH_EPOLL or IOH_THREADS */
    int32_t exec;             /* IOH_EXEC_... */
    uint32_t epoll_threads;   /* 0 = the cores this process may use (affinity and cgroup quota) */
    uint32_t work_op_threads; /* the connection-affine threads; > 0 with exec 0 selects AFFINE.
                                 0 = none, with AFFINE as many as epoll_threads */
    uint32_t pool_threads;    /* 0 = 8 times epoll_threads with AUTO and POOL, else none */
    uint32_t pool_queue;      /* callbacks that may wait for a pool thread. 0 = 1,024 */
    int32_t pool_full;        /* IOH_FULL_... */
    uint32_t handoff_us;      /* AUTO: a callback is late after this, in microseconds. 0 = 500 */
    /* So much is added to the nice value of pool threads while they run callbacks, so that those that burn CPU leave
     * the cores to the others; 19 is as nice as can be, and leaves them a tenth of a core that the others would fill,
     * eight of them together. 20 leaves them what nobody else wants, the other processes included (SCHED_IDLE), and
     * hardly more: 2 %. Whoever wants a lock that such a callback has waits as long as it does. Not of the server's
     * own pool under POOL, which runs all callbacks. Under AUTO only for a process that may lower it again
     * (CAP_SYS_NICE, RLIMIT_NICE), else left alone, and logged. 0 = nothing */
    uint32_t pool_nice;
    uint32_t no_environment; /* 0: IOH_TYPE, IOH_EXEC, IOH_EPOLL_THREADS, IOH_WORK_OP_THREADS,
                                 IOH_POOL_THREADS, IOH_POOL_QUEUE override what is said here */

    /* HTTP: what a request may measure */
    uint32_t max_head_bytes; /* request line and fields; beyond: 431. 0 = 16,384; at most 65,535 */
    uint32_t max_uri_bytes;  /* request target; beyond: 414. 0 = 8,192 */
    uint32_t max_headers;    /* fields; beyond: 431. 0 = 100; at most 1,000 */
    uint64_t max_body_bytes; /* body after dechunking; beyond: 413. 0 = 67,108,864 */
    uint32_t
        max_requests; /* of one connection: the last one's answer says Connection: close, so that
                                clients come anew and find the loop with the least to do. 0 = no limit */
    uint32_t timings; /* 1: ioh_req_timing() tells what a request took, for five looks at the
                                clock (some 40 ns each); only with on_complete. 0 = off */

    /* connections; beyond: reset as soon as they are accepted. The host never hears of them */
    uint32_t max_connections; /* of the whole server. 0 = as many as there are descriptors: without
                                 one, clients wait in the kernel's queue */
    uint32_t max_per_address; /* of one peer's address; of a /64 for IPv6. Behind a proxy: of the
                                 address that its PROXY header tells. Unix sockets have none. 0 = no
                                 limit */

    /* HTTP: compressed answers, with gzip for clients that take it. Of a type that is named they get Vary;
     * a compressed one loses Accept-Ranges, and its ETag becomes weak (If-None-Match compares weakly anyway:
     * RFC 9110 13.1.2). A whole body is compressed by the thread that answers, within the call; a streamed
     * one by its epoll thread, and flushed with every piece. At most 120 streamed answers at a time are, the
     * others go plain. Left alone are shared answers and files, and what has Content-Encoding,
     * Content-Range, a digest, or Cache-Control: no-transform. The last is right for an answer that holds
     * both a secret and what the client chose: the length of such an answer, compressed, gives the secret
     * away bit by bit (BREACH). */
    const char *compress;  /* types, parted by commas: "text/html, application/json"; one that ends
                                with a star stands for all that begin so. Copied. NULL = none */
    uint32_t compress_min; /* bytes; what is known to be shorter stays plain. 0 = 1,024 */
    uint32_t
        compress_level; /* 1, the fastest, to 9. 0 = 4: less by a seventh than with 1, for 1.7 times its
                                CPU; 9 takes 6 times as much for another tenth */

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
    uint32_t ws_ping_ms; /* after so much silence of the peer it is pinged, the first time up to a
                                quarter earlier, so that not all are pinged at once. Proxies mostly end
                                what is silent for 60 s. 0 = 25,000; UINT32_MAX = never */
    uint32_t ws_dead_ms; /* after so much silence it is dead: reset, on_ws_close gets 1006. Silence
                                does not count while the host does not read (ioh_pause, a callback
                                that runs for long). More than ws_ping_ms, unless that is never.
                                0 = twice ws_ping_ms; UINT32_MAX = never */
    int32_t ws_deflate;  /* IOH_DEFLATE_... */
    uint32_t ws_deflate_min; /* bytes; shorter messages are sent as they are. 0 = 256 */
    uint32_t
        ws_deflate_level; /* 1 (quick) to 9 (small): 4 costs 1.4 times what 1 costs at 4 KiB and
                                   3 times at 64 KiB, and saves a tenth more. 0 = 1 */
    uint32_t ws_deflate_window; /* bits, 9 to 15: 1 << bits bytes can be referred to. 0 = 15 */

    /* the send queue of one connection, in bytes */
    uint64_t send_high; /* above: sends answer IOH_QUEUED, reading stops. 0 = 262,144 */
    uint64_t send_low;  /* fallen to: on_drain, reading goes on. 0 = send_high / 4 */
    uint64_t send_max;  /* beyond: the send answers IOH_EFULL, and send_full. 0 = 16,777,216 */
    int32_t send_full;  /* IOH_SEND_FULL_... */

    /* descriptors */
    uint32_t keep_fd_limit; /* 1: leave RLIMIT_NOFILE alone; 0: raise it to the hard limit */
};

#define IOH_OPTIONS_INIT                   \
    {                                      \
        .size = sizeof(struct ioh_options) \
    }

#ifdef __cplusplus
}
#endif
#endif

/* Counters of a running server. */
#ifndef IOHANDLER_STATS_H
#define IOHANDLER_STATS_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sums over all threads; each value is exact, but they are not all of the same instant. */
struct ioh_stats {
    size_t size; /* set by IOH_STATS_INIT */

    uint64_t threads;            /* made by this server */
    uint64_t connections;        /* open now */
    uint64_t websockets;         /* of these, WebSockets */
    uint64_t accepted;           /* since the start */
    uint64_t accept_pauses;      /* accepting stopped for a while: out of descriptors or memory */
    uint64_t closed_by_peer;     /* the peer ended it first */
    uint64_t closed_by_deadline; /* a deadline of options.h passed (each kind: below) */
    uint64_t requests;           /* heads that were whole and valid */
    uint64_t
        requests_refused; /* answered by the library with 4xx or 5xx, also as on_ws_upgrade said */
    uint64_t ws_messages_received; /* whole data messages */
    uint64_t ws_messages_sent;
    uint64_t ws_failed; /* WebSockets ended by the library with an error code */
    uint64_t bytes_received;
    uint64_t bytes_sent;
    uint64_t send_full;           /* sends refused at options.send_max */
    uint64_t late_answers;        /* ioh_reply for a request that was gone or answered */
    uint64_t topic_subscriptions; /* topic.h: now, */
    uint64_t topic_published;     /* messages that had subscribers, */
    uint64_t topic_delivered;     /* and what became of them for each */
    uint64_t topic_skipped;
    uint64_t topic_coalesced;
    uint64_t topic_closed;
    uint64_t pool_jobs;       /* callbacks handed to pool and work threads */
    uint64_t pool_waiting;    /* of these, waiting for a thread now */
    uint64_t pool_full;       /* of these, that found the queue full (options.pool_full) */
    uint64_t auto_late;       /* AUTO: loops taken over from a late callback */
    uint64_t auto_stalled;    /* AUTO: late callbacks with no pool thread left to take over */
    uint64_t turns;           /* of all loops */
    uint64_t turn_events_p50; /* events per turn: median and 99th percentile, within 1/16 */
    uint64_t turn_events_p99;
    uint64_t fd_limit; /* RLIMIT_NOFILE, soft, after the start */
    uint64_t
        nr_throttled; /* of this process's cgroup: periods in which its CPU quota was used up */
    uint64_t throttled_us; /* and for how long its threads then had to wait */

    /* How often a limit or deadline of options.h was hit, also by what ended anyway. Each kind has a line in
     * the log once a second. (send_max: send_full, pool_queue: pool_full, above.) */
    uint64_t hit_max_connections; /* closed as soon as they were accepted */
    uint64_t hit_max_per_address; /* likewise */
    uint64_t hit_max_requests;    /* connections that had made so many: Connection: close */
    uint64_t hit_max_head;        /* 431: max_head_bytes or max_headers; also of trailers */
    uint64_t hit_max_uri;         /* 414 */
    uint64_t hit_max_body;        /* 413 */
    uint64_t hit_ws_max_message;  /* 1009 */
    uint64_t hit_head_timeout;    /* 408 */
    uint64_t hit_idle_timeout;
    uint64_t hit_body_timeout;  /* 408; min_rate, too */
    uint64_t hit_write_timeout; /* likewise, of peers that read too little */
    uint64_t
        hit_close_timeout;  /* the peer did not answer a Close frame, or did not close its end */
    uint64_t hit_ws_dead;   /* WebSockets given up as dead */
    uint64_t proxy_refused; /* no PROXY header, a bad one, or from a peer not listed (proxy_from) */
};

#define IOH_STATS_INIT                   \
    {                                    \
        .size = sizeof(struct ioh_stats) \
    }

/* Fills stats (as much as its size says). IOH_EVERSION, IOH_ENOMEM. [any thread] */
IOH_API int ioh_server_stats(ioh_server *server, struct ioh_stats *stats);

/* Open connections of each loop: writes at most count numbers, answers how many loops there are.
 * [any thread] */
IOH_API int ioh_server_loop_connections(ioh_server *server, uint64_t *connections, int count);

#ifdef __cplusplus
}
#endif
#endif

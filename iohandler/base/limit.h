/* What a peer can run into: the limits and deadlines of options.h, as kinds that are counted and logged.
 *
 * A flood of hits must not become a flood of lines: each kind is logged once a second, with the number
 * of hits that were not. One struct ioh__limits serves a whole server, however many loops and
 * connections' threads it has. It calls nobody and has no lock; any thread. */
#ifndef IOH_BASE_LIMIT_H
#define IOH_BASE_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/* X(NAME, option, level). What happens to every server all day long is for debugging only. */
#define IOH__LIMITS(X)                                  \
    X(MAX_CONNECTIONS, "max_connections", IOH_LOG_WARN) \
    X(MAX_PER_ADDRESS, "max_per_address", IOH_LOG_WARN) \
    X(PROXY, "proxy_from", IOH_LOG_WARN)                \
    X(HEAD, "max_head_bytes", IOH_LOG_INFO)             \
    X(URI, "max_uri_bytes", IOH_LOG_INFO)               \
    X(BODY, "max_body_bytes", IOH_LOG_INFO)             \
    X(WS_MESSAGE, "ws_max_message", IOH_LOG_INFO)       \
    X(HEAD_TIME, "head_timeout_ms", IOH_LOG_INFO)       \
    X(BODY_TIME, "body_timeout_ms", IOH_LOG_INFO)       \
    X(WRITE_TIME, "write_timeout_ms", IOH_LOG_INFO)     \
    X(IDLE_TIME, "idle_timeout_ms", IOH_LOG_DEBUG)      \
    X(CLOSE_TIME, "close_timeout_ms", IOH_LOG_DEBUG)    \
    X(MAX_REQUESTS, "max_requests", IOH_LOG_DEBUG)      \
    X(WS_DEAD, "ws_dead_ms", IOH_LOG_DEBUG)             \
    X(SEND_MAX, "send_max", IOH_LOG_WARN)               \
    X(POOL_QUEUE, "pool_queue", IOH_LOG_WARN)

#define IOH__LIMIT_ENUM_(name, option, level) IOH__LIMIT_##name,
enum ioh__limit { IOH__LIMITS(IOH__LIMIT_ENUM_) IOH__LIMIT_KINDS };
#undef IOH__LIMIT_ENUM_

#define IOH__LIMIT_LINE_MS 1000u

struct ioh__limits {
    _Atomic uint64_t tail_at; /* ms; when what was not logged may be due, 0: nothing */
    struct ioh__limit_kind {
        _Atomic uint64_t next_at; /* ms; the next line may come then */
        _Atomic uint64_t untold;  /* hits since the last line */
    } kind[IOH__LIMIT_KINDS];
};

/* The option's name. */
const char *ioh__limit_name(enum ioh__limit kind);
int ioh__limit_level(enum ioh__limit kind);

/* A hit: true: its line is due, and *untold tells how many had none; false: it is one of those. */
bool ioh__limit_pass(struct ioh__limits *limits, enum ioh__limit kind, uint64_t now,
                     uint64_t *untold);

/* A hit on a thread that has no log at hand. */
void ioh__limit_untold(struct ioh__limits *limits, enum ioh__limit kind, uint64_t now);

/* Logs how many hits had no line, of each kind whose second is over; of all with UINT64_MAX. The holder of a loop, each
 * turn. */
void ioh__limit_tails(struct ioh__limits *limits, struct ioh__log *log, uint64_t now);

#endif

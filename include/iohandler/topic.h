/* Topics: one message to many WebSockets.
 *
 * A connection subscribes to a topic; what anyone publishes there is framed once and its bytes are
 * shared by all subscribers. A topic exists as long as somebody is subscribed to it.
 *
 * A topic is a name of 1 to IOH_TOPIC_MAX bytes in levels that '/' separates: "chat", "prices/eur/usd";
 * levels may be empty. Who subscribes may leave levels open, as in MQTT (OASIS MQTT 3.1.1, 4.7): '+' stands
 * for one whole level, '#' as the last level for all that follow and for none ("a/#" is also told of "a").
 * Names are bytes and compared as such.
 *
 * Order: what one thread publishes arrives in that order, and all subscribers see what different threads
 * publish in the same order. A connection whose subscriptions overlap gets a message once, by the
 * rule of the subscription that says most exactly what it wants.
 *
 * The library never waits for a subscriber. Each has a rule for the messages it has no room for, that is while
 * its send queue stands above options.send_high.
 */
#ifndef IOHANDLER_TOPIC_H
#define IOHANDLER_TOPIC_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IOH_TOPIC_MAX 255 /* bytes of a name */

/* ioh_topic_options.full: what happens to messages for a subscriber who reads too slowly */
#define IOH_TOPIC_SKIP 0  /* they are not sent to it */
#define IOH_TOPIC_CLOSE 1 /* its WebSocket is closed with 1013 */
/* Of each topic the latest is kept for it, and sent once its queue has fallen to options.send_low: for
 * states, such as prices and positions. At most 256 topics and options.send_max bytes are kept. */
#define IOH_TOPIC_LATEST 2

struct ioh_topic_options {
    size_t size;  /* set by IOH_TOPIC_OPTIONS_INIT */
    int32_t full; /* IOH_TOPIC_... */
};

#define IOH_TOPIC_OPTIONS_INIT                   \
    {                                            \
        .size = sizeof(struct ioh_topic_options) \
    }

/* Subscribes a WebSocket: it gets what is published from now on. options may be NULL. A topic subscribed to
 * already gets the new options. All subscriptions end with the WebSocket: at the latest before
 * on_ws_close.
 * IOH_EINVAL (a bad name or option), IOH_EVERSION, IOH_ESTATE (no WebSocket, or its Close frame has been sent),
 * IOH_EGONE, IOH_ENOMEM. [in a callback, from on_ws_open on] */
IOH_API int ioh_subscribe(ioh_conn *conn, const char *topic,
                          const struct ioh_topic_options *options);

/* Ends the subscription that was made with the same text; 0 also when there is none. Nothing that is published
 * from now on is sent for it. IOH_EINVAL, IOH_ESTATE, IOH_EGONE, IOH_ENOMEM. [in a callback] */
IOH_API int ioh_unsubscribe(ioh_conn *conn, const char *topic);

struct ioh_publish_options {
    size_t size;        /* set by IOH_PUBLISH_OPTIONS_INIT */
    ioh_conn_id except; /* does not get it: who sent it, as a rule. 0 = everybody does */
};

#define IOH_PUBLISH_OPTIONS_INIT                   \
    {                                              \
        .size = sizeof(struct ioh_publish_options) \
    }

/* Sends a message, op IOH_WS_TEXT (valid UTF-8; not checked) or IOH_WS_BINARY, to all subscribers of a topic,
 * which must be without '+' and '#'. The payload is consumed, also on an error. options may be NULL. It only
 * hands over to the loops that have subscribers, and does not wait. 0 also when there are none.
 * IOH_EINVAL (a bad name or op, no payload or a whole frame), IOH_EVERSION, IOH_ETOOBIG (above options.send_max),
 * IOH_EFULL (the loops are still busy with options.send_max bytes published before: nobody gets it), IOH_ESTATE (the
 * server does not run), IOH_ENOMEM. [any thread] */
IOH_API int ioh_publish(ioh_server *server, const char *topic, int op, ioh_buf *payload,
                        const struct ioh_publish_options *options);

/* Of one subscribed text, say "a/b" or "a/+", since somebody subscribed to it first; all zero when nobody is. Every
 * message published is for each subscriber either delivered, skipped, coalesced, or kept for now, unless it leaves. */
struct ioh_topic_stats {
    size_t size;          /* set by IOH_TOPIC_STATS_INIT */
    uint64_t subscribers; /* now */
    uint64_t published;   /* messages that it matched */
    uint64_t delivered;   /* put into a subscriber's send queue */
    uint64_t skipped;     /* not sent: IOH_TOPIC_SKIP, or too much for IOH_TOPIC_LATEST to keep */
    uint64_t coalesced;   /* IOH_TOPIC_LATEST: not sent, since a later one was kept */
    uint64_t closed;      /* subscribers closed by IOH_TOPIC_CLOSE */
};

#define IOH_TOPIC_STATS_INIT                   \
    {                                          \
        .size = sizeof(struct ioh_topic_stats) \
    }

/* Fills stats. IOH_EINVAL (a bad name), IOH_EVERSION. [any thread] */
IOH_API int ioh_topic_stats(ioh_server *server, const char *topic, struct ioh_topic_stats *stats);

#ifdef __cplusplus
}
#endif
#endif

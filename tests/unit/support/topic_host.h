/* A host that does what a WebSocket message says: "+a/b" subscribes, "-a/b" unsubscribes, "a/b text" publishes to
 * all others, "*a/b text" to all. Each is answered by "ok" or the error's text. */
#ifndef IOH_TESTS_TOPIC_HOST_H
#define IOH_TESTS_TOPIC_HOST_H

#include "common.h"

static int32_t rule; /* for what is subscribed to from now on */

static inline int publish(struct host *h, const char *topic, const char *text, ioh_conn_id except)
{
    struct ioh_publish_options o = IOH_PUBLISH_OPTIONS_INIT;
    o.except = except;
    return ioh_publish(h->server, topic, IOH_WS_TEXT, ioh_buf_copy(text, strlen(text)),
                       except ? &o : NULL);
}

static inline void obey(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct ioh_topic_options o = IOH_TOPIC_OPTIONS_INIT;
    char order[400];
    int rc;
    (void)op;
    snprintf(order, sizeof order, "%.*s", (int)len, (const char *)data);
    o.full = rule;
    if (*order == '+') {
        rc = ioh_subscribe(conn, order + 1, rule ? &o : NULL);
    } else if (*order == '-') {
        rc = ioh_unsubscribe(conn, order + 1);
    } else {
        bool all = *order == '*';
        char *text = strchr(order, ' ');
        *text++ = 0;
        rc = publish(state, order + all, text, all ? 0 : ioh_conn_get_id(conn));
    }
    const char *said = rc ? ioh_strerror(rc) : "ok";
    CHECK((struct host *)state, ioh_ws_send(conn, IOH_WS_BINARY, said, strlen(said)) == 0);
}

static inline struct host *topic_host(void **state)
{
    struct host *h = host_new(state);
    rule = IOH_TOPIC_SKIP;
    h->on.on_ws_message = obey;
    return h;
}

static inline const char *tell(struct client *c, const char *order)
{
    client_ws_send(c, IOH_WS_TEXT, order);
    assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    return (const char *)c->body;
}

static inline struct client *subscriber(struct host *h, const char *order)
{
    struct client *c = client_ws_open(h, "/");
    assert_string_equal(tell(c, order), "ok");
    return c;
}

/* The next message is that. */
#define assert_told(c, text)                              \
    do {                                                  \
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT); \
        assert_body(c, text);                             \
    } while (0)

static inline struct ioh_topic_stats stats_of(struct host *h, const char *topic)
{
    struct ioh_topic_stats stats = IOH_TOPIC_STATS_INIT;
    if (ioh_topic_stats(h->server, topic, &stats))
        memset(&stats, 0xff, sizeof stats);
    return stats;
}

#endif

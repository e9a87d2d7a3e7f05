/* The WebSockets that share what they say: /topic/NAME, and /chat and /live, which are topics, too.
 *
 *     /topic/a/b                subscribes to a/b; what it sends is published there, also to itself
 *     /topic/a/%2B, /topic/%23  wildcards; such a WebSocket only listens
 *     ?full=latest              skip (default), close, latest: when it reads too slowly
 *     ?others=1                 what it sends does not come back to it
 */
#ifndef DEMO_TOPICS_H
#define DEMO_TOPICS_H

#include "demo.h"

#define PREFIX "topic/" /* so that nobody's topic is the demo's own */

/* [any thread] */
static void publish(struct demo *demo, const char *topic, int op, ioh_buf *payload,
                    ioh_conn_id except)
{
    struct ioh_publish_options o = IOH_PUBLISH_OPTIONS_INIT;
    o.except = except;
    check(demo, "publish",
          payload ? ioh_publish(demo->server, topic, op, payload, &o) : IOH_ENOMEM);
}

/* Is there anybody to publish to? [any thread] */
static bool has_subscribers(struct demo *demo, const char *topic)
{
    struct ioh_topic_stats stats = IOH_TOPIC_STATS_INIT;
    check(demo, "topic", ioh_topic_stats(demo->server, topic, &stats));
    return stats.subscribers > 0;
}

/* on_ws_upgrade for a path below /topic/: what it is to be, from malloc; NULL: *status tells why not. */
static struct work *topic_work(struct demo *demo, ioh_req *req, struct ioh_str path, int *status)
{
    struct ioh_str query = ioh_req_query(req);
    struct ioh_topic_stats stats = IOH_TOPIC_STATS_INIT;
    struct work *work = calloc(1, sizeof *work);
    char full[8] = "", others[8] = "";
    *status = 500;
    if (work == NULL)
        return NULL;
    ioh_pair_get(query, "full", 0, full, sizeof full);
    ioh_pair_get(query, "others", 0, others, sizeof others);
    work->kind = TOPIC;
    work->u.topic.others = strcmp(others, "1") == 0;
    if (strcmp(full, "close") == 0)
        work->u.topic.full = IOH_TOPIC_CLOSE;
    if (strcmp(full, "latest") == 0)
        work->u.topic.full = IOH_TOPIC_LATEST;
    char *name = work->u.topic.name;
    const size_t before = strlen(PREFIX);
    memcpy(name, PREFIX, before);
    int64_t len = ioh_url_decode(name + before, sizeof work->u.topic.name - before, path, 0);
    if (len > 0 && strlen(name) == before + (size_t)len &&
        ioh_topic_stats(demo->server, name, &stats) == 0)
        return work;
    *status = 400; /* it is no name */
    free(work);
    return NULL;
}

static void topic_open(struct demo *demo, ioh_conn *conn, const struct work *work)
{
    struct ioh_topic_options o = IOH_TOPIC_OPTIONS_INIT;
    o.full = work->u.topic.full;
    check(demo, "subscribe", ioh_subscribe(conn, work->u.topic.name, &o));
}

static void topic_message(struct demo *demo, ioh_conn *conn, const struct work *work, int op,
                          const void *data, size_t len)
{
    static const char only_listens[] = "nobody can publish to a wildcard";
    const char *name = work->u.topic.name;
    if (work->u.topic.mute)
        return;
    if (strpbrk(name, "+#"))
        check(demo, "close", ioh_ws_close(conn, 1008, only_listens, sizeof only_listens - 1));
    else
        publish(demo, name, op, ioh_buf_copy(data, len),
                work->u.topic.others ? ioh_conn_get_id(conn) : 0);
}

#endif

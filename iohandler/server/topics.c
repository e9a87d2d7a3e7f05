/* Publishing, and what became of it (include/iohandler/topic.h). Any thread. */
#include <iohandler/error.h>
#include <iohandler/topic.h>
#include <string.h>

#include "base/buf.h"
#include "server/server.h"

/* The payload is looked at only after its reference. */
static int check(ioh_server *s, const char *topic, int op, const ioh_buf *payload,
                 const struct ioh_publish_options *o)
{
    if (o && o->size < sizeof *o)
        return IOH_EVERSION;
    if (!payload || payload->is_frame || (op != IOH_WS_TEXT && op != IOH_WS_BINARY) ||
        !ioh__topic_valid(topic, false))
        return IOH_EINVAL;
    uint64_t most = s->options.send_max;
    if (payload->len > most || payload->len + IOH__WS_SERVER_HEADER_MAX > most)
        return IOH_ETOOBIG;
    return ioh__server_phase(s) == IOH__SERVER_RUNNING ? 0 : IOH_ESTATE;
}

int ioh_publish(ioh_server *s, const char *topic, int op, ioh_buf *payload,
                const struct ioh_publish_options *options)
{
    struct ioh__topics *topics = &s->crew.topics;
    int rc = check(s, topic, op, payload, options);
    bool any = atomic_load_explicit(&topics->subscriptions, memory_order_relaxed) != 0;
    if (rc || !any) {
        ioh_buf_unref(payload);
        return rc;
    }
    struct ioh__publication *pub =
        ioh__publication_new(topic, op, payload, options ? options->except : 0, s->hub_count);
    if (!pub)
        return IOH_ENOMEM;
    return ioh__topics_publish(topics, s->hubs, s->hub_count, pub);
}

int ioh_topic_stats(ioh_server *s, const char *topic, struct ioh_topic_stats *stats)
{
    struct ioh__topics *topics = &s->crew.topics;
    struct ioh_topic_stats sum = IOH_TOPIC_STATS_INIT;
    if (!stats || stats->size < sizeof sum)
        return IOH_EVERSION;
    if (!ioh__topic_valid(topic, true))
        return IOH_EINVAL;
    pthread_mutex_lock(&topics->lock);
    const struct ioh__topic *t = ioh__topic_find(&topics->root, topic);
    if (t && t->subscribers) {
        sum.subscribers = t->subscribers;
        sum.published = t->published;
        sum.delivered = atomic_load_explicit(&t->fates[IOH__FATE_DELIVERED], memory_order_relaxed);
        sum.skipped = atomic_load_explicit(&t->fates[IOH__FATE_SKIPPED], memory_order_relaxed);
        sum.coalesced = atomic_load_explicit(&t->fates[IOH__FATE_COALESCED], memory_order_relaxed);
        sum.closed = atomic_load_explicit(&t->fates[IOH__FATE_CLOSED], memory_order_relaxed);
    }
    pthread_mutex_unlock(&topics->lock);
    sum.size = stats->size;
    memcpy(stats, &sum, sizeof sum);
    return 0;
}

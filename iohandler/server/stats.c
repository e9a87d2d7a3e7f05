/* Counters of a running server (see include/iohandler/stats.h). */
#include <iohandler/error.h>
#include <iohandler/stats.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "conn/single.h"
#include "server/server.h"

#define VERSION_1_SIZE (offsetof(struct ioh_stats, throttled_us) + sizeof(uint64_t))

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_hub(void *to, const struct ioh__counters *c)
{
    struct ioh_stats *sum = to;
    sum->connections += get(&c->connections);
    sum->websockets += get(&c->websockets);
    sum->accepted += get(&c->accepted);
    sum->accept_pauses += get(&c->accept_pauses);
    sum->closed_by_peer += get(&c->closed_by_peer);
    sum->closed_by_deadline += get(&c->closed_by_deadline);
    sum->requests += get(&c->requests);
    sum->requests_refused += get(&c->requests_refused);
    sum->ws_messages_received += get(&c->ws_messages_received);
    sum->ws_messages_sent += get(&c->ws_messages_sent);
    sum->ws_failed += get(&c->ws_failed);
    sum->bytes_received += get(&c->bytes_received);
    sum->bytes_sent += get(&c->bytes_sent);
    sum->turns += get(&c->turns);
    sum->late_answers += get(&c->late_answers);
    sum->pool_jobs += get(&c->pool_jobs);
    sum->send_full += get(&c->limits[IOH__LIMIT_SEND_MAX]);
    sum->pool_full += get(&c->limits[IOH__LIMIT_POOL_QUEUE]);
    sum->hit_max_connections += get(&c->limits[IOH__LIMIT_MAX_CONNECTIONS]);
    sum->hit_max_per_address += get(&c->limits[IOH__LIMIT_MAX_PER_ADDRESS]);
    sum->hit_max_requests += get(&c->limits[IOH__LIMIT_MAX_REQUESTS]);
    sum->hit_max_head += get(&c->limits[IOH__LIMIT_HEAD]);
    sum->hit_max_uri += get(&c->limits[IOH__LIMIT_URI]);
    sum->hit_max_body += get(&c->limits[IOH__LIMIT_BODY]);
    sum->hit_ws_max_message += get(&c->limits[IOH__LIMIT_WS_MESSAGE]);
    sum->hit_head_timeout += get(&c->limits[IOH__LIMIT_HEAD_TIME]);
    sum->hit_idle_timeout += get(&c->limits[IOH__LIMIT_IDLE_TIME]);
    sum->hit_body_timeout += get(&c->limits[IOH__LIMIT_BODY_TIME]);
    sum->hit_write_timeout += get(&c->limits[IOH__LIMIT_WRITE_TIME]);
    sum->hit_close_timeout += get(&c->limits[IOH__LIMIT_CLOSE_TIME]);
    sum->hit_ws_dead += get(&c->limits[IOH__LIMIT_WS_DEAD]);
    sum->proxy_refused += get(&c->limits[IOH__LIMIT_PROXY]);
}

static void add_crew(struct ioh_stats *sum, const struct ioh__crew *crew)
{
    if (crew->pool)
        sum->pool_waiting += atomic_load_explicit(&crew->pool->queue.count, memory_order_relaxed);
    for (const ioh_pool *p = crew->named; p; p = p->next)
        sum->pool_waiting += atomic_load_explicit(&p->queue.count, memory_order_relaxed);
    for (unsigned i = 0; i < crew->worker_count; i++)
        sum->pool_waiting +=
            atomic_load_explicit(&crew->workers[i].queue.count, memory_order_relaxed);
    sum->send_full += get(&crew->refused);
    sum->topic_subscriptions = get(&crew->topics.subscriptions);
    sum->topic_published = get(&crew->topics.published);
    sum->topic_delivered = get(&crew->topics.fates[IOH__FATE_DELIVERED]);
    sum->topic_skipped = get(&crew->topics.fates[IOH__FATE_SKIPPED]);
    sum->topic_coalesced = get(&crew->topics.fates[IOH__FATE_COALESCED]);
    sum->topic_closed = get(&crew->topics.fates[IOH__FATE_CLOSED]);
    sum->auto_late = get(&crew->taken);
    sum->auto_stalled = get(&crew->stalled);
}

int ioh_server_stats(ioh_server *s, struct ioh_stats *stats)
{
    struct ioh_stats sum = IOH_STATS_INIT;
    struct ioh__hist *events;
    size_t size = stats->size;
    if (size < VERSION_1_SIZE)
        return IOH_EVERSION;
    events = calloc(1, sizeof *events);
    if (!events)
        return IOH_ENOMEM;
    for (unsigned i = 0; i < s->hub_count; i++) {
        add_hub(&sum, &s->hubs[i]->loop.count);
        ioh__hist_merge(events, &s->hubs[i]->loop.turn_events);
    }
    ioh__singles_count(&s->crew, add_hub, &sum);
    add_crew(&sum, &s->crew);
    ioh__cpu_throttled(&sum.nr_throttled, &sum.throttled_us);
    sum.threads = (uint64_t)ioh_server_threads(s);
    sum.turn_events_p50 = ioh__hist_quantile(events, 0.5);
    sum.turn_events_p99 = ioh__hist_quantile(events, 0.99);
    sum.fd_limit = s->fd_limit;
    free(events);
    memcpy(stats, &sum, size < sizeof sum ? size : sizeof sum);
    stats->size = size;
    return 0;
}

int ioh_server_loop_connections(ioh_server *s, uint64_t *connections, int count)
{
    for (unsigned i = 0; i < s->hub_count && (int)i < count; i++)
        connections[i] = get(&s->hubs[i]->loop.count.connections);
    return (int)s->hub_count;
}

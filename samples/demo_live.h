/* The statistics, as /stats tells them and as those on /live get them. */
#ifndef DEMO_LIVE_H
#define DEMO_LIVE_H

#include "demo.h"
#include "demo_topics.h"

#include <unistd.h>

/* ---- statistics */

#define COUNTER(name) #name, offsetof(struct ioh_stats, name)

static const struct {
    const char *name;
    size_t offset;
} counters[] = {{COUNTER(connections)},
                {COUNTER(websockets)},
                {COUNTER(accepted)},
                {COUNTER(accept_pauses)},
                {COUNTER(closed_by_peer)},
                {COUNTER(closed_by_deadline)},
                {COUNTER(requests)},
                {COUNTER(requests_refused)},
                {COUNTER(ws_messages_received)},
                {COUNTER(ws_messages_sent)},
                {COUNTER(ws_failed)},
                {COUNTER(bytes_received)},
                {COUNTER(bytes_sent)},
                {COUNTER(send_full)},
                {COUNTER(turns)},
                {COUNTER(turn_events_p50)},
                {COUNTER(turn_events_p99)},
                {COUNTER(fd_limit)},
                {COUNTER(late_answers)},
                {COUNTER(pool_jobs)},
                {COUNTER(pool_waiting)},
                {COUNTER(pool_full)},
                {COUNTER(auto_late)},
                {COUNTER(auto_stalled)},
                {COUNTER(topic_subscriptions)},
                {COUNTER(topic_published)},
                {COUNTER(topic_delivered)},
                {COUNTER(topic_skipped)},
                {COUNTER(topic_coalesced)},
                {COUNTER(topic_closed)},
                {COUNTER(nr_throttled)},
                {COUNTER(throttled_us)},
                {COUNTER(hit_max_connections)},
                {COUNTER(hit_max_per_address)},
                {COUNTER(hit_max_requests)},
                {COUNTER(hit_max_head)},
                {COUNTER(hit_max_uri)},
                {COUNTER(hit_max_body)},
                {COUNTER(hit_ws_max_message)},
                {COUNTER(hit_head_timeout)},
                {COUNTER(hit_idle_timeout)},
                {COUNTER(hit_body_timeout)},
                {COUNTER(hit_write_timeout)},
                {COUNTER(hit_close_timeout)},
                {COUNTER(hit_ws_dead)},
                {COUNTER(proxy_refused)}};

/* Resident memory of the process, as the kernel tells it; 0 when it does not. */
static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The statistics as text from malloc, NULL when out of memory. [any thread] */
static char *stats_json(struct demo *demo, size_t *len)
{
    struct ioh_stats stats = IOH_STATS_INIT;
    uint64_t loops[MAX_LOOPS];
    char *text = NULL;
    FILE *out = open_memstream(&text, len);
    if (out == NULL)
        return NULL;

    check(demo, "stats", ioh_server_stats(demo->server, &stats));
    fprintf(out, "{\"uptime_ms\":%" PRIu64 ",\"rss_bytes\":%" PRIu64 ",\"threads\":%d",
            now_ms() - demo->started_ms, resident_bytes(), ioh_server_threads(demo->server) + 1);
    fprintf(out, ",\"requests_per_s\":%" PRIu64 ",\"messages_per_s\":%" PRIu64,
            atomic_load_explicit(&demo->requests_per_s, memory_order_relaxed),
            atomic_load_explicit(&demo->messages_per_s, memory_order_relaxed));
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&stats + counters[i].offset, sizeof value);
        fprintf(out, ",\"%s\":%" PRIu64, counters[i].name, value);
    }
    int count = ioh_server_loop_connections(demo->server, loops, MAX_LOOPS);
    fputs(",\"loop_connections\":[", out);
    for (int i = 0; i < count && i < MAX_LOOPS; i++)
        fprintf(out, "%s%" PRIu64, i ? "," : "", loops[i]);
    fputs("]}\n", out);

    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static uint64_t per_second(uint64_t count, uint64_t elapsed_ms)
{
    return (count * 1000 + elapsed_ms / 2) / elapsed_ms;
}

/* The rates since the last call, then a sample for everyone who watches. [main thread] */
static void tick(struct demo *demo)
{
    static uint64_t last_ms, last_requests, last_messages;
    struct ioh_stats stats = IOH_STATS_INIT;
    uint64_t now = now_ms(), elapsed = last_ms ? now - last_ms : 0;

    check(demo, "stats", ioh_server_stats(demo->server, &stats));
    uint64_t messages = stats.ws_messages_received + stats.ws_messages_sent;
    if (elapsed > 0) {
        atomic_store_explicit(&demo->requests_per_s,
                              per_second(stats.requests - last_requests, elapsed),
                              memory_order_relaxed);
        atomic_store_explicit(&demo->messages_per_s, per_second(messages - last_messages, elapsed),
                              memory_order_relaxed);
    }
    last_ms = now;
    last_requests = stats.requests;
    last_messages = messages;

    if (!has_subscribers(demo, "live"))
        return;
    size_t len;
    char *json = stats_json(demo, &len);
    if (json == NULL) {
        check(demo, "sample", IOH_ENOMEM);
        return;
    }
    publish(demo, "live", IOH_WS_TEXT, ioh_buf_wrap(json, len, release_bytes, NULL), 0);
}

#endif

/* Who chats and who watches, and the statistics that the watchers get.
 *
 * Owns: the lists of members. The server's threads add and remove; any thread posts.
 */
#ifndef DEMO_LIVE_H
#define DEMO_LIVE_H

#include "demo.h"

#include <unistd.h>

/* ---- groups: chat and live */

static void group_add(struct group *group, struct work *member)
{
    pthread_mutex_lock(&group->lock);
    member->u.member.next = group->members;
    group->members = member;
    pthread_mutex_unlock(&group->lock);
}

static void group_remove(struct group *group, struct work *member)
{
    pthread_mutex_lock(&group->lock);
    struct work **at = &group->members;
    while (*at != member)
        at = &(*at)->u.member.next;
    *at = member->u.member.next;
    pthread_mutex_unlock(&group->lock);
}

static bool group_is_empty(struct group *group)
{
    pthread_mutex_lock(&group->lock);
    bool empty = group->members == NULL;
    pthread_mutex_unlock(&group->lock);
    return empty;
}

/* One frame, made once, whose bytes all members share. [any thread] */
static void group_post(struct demo *demo, struct group *group, int op, const void *data, size_t len)
{
    ioh_buf *frame = ioh_ws_frame(op, data, len);
    if (frame == NULL) {
        check(demo, "frame", IOH_ENOMEM);
        return;
    }
    pthread_mutex_lock(&group->lock);
    for (const struct work *member = group->members; member; member = member->u.member.next)
        check(demo, "post", ioh_ws_post(demo->server, member->u.member.id, ioh_buf_ref(frame)));
    pthread_mutex_unlock(&group->lock);
    ioh_buf_unref(frame);
}

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
                {COUNTER(nr_throttled)},
                {COUNTER(throttled_us)},
                {COUNTER(hit_max_connections)},
                {COUNTER(hit_max_per_address)},
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

    if (group_is_empty(&demo->live))
        return;
    size_t len;
    char *json = stats_json(demo, &len);
    if (json == NULL) {
        check(demo, "sample", IOH_ENOMEM);
        return;
    }
    group_post(demo, &demo->live, IOH_WS_TEXT, json, len);
    free(json);
}

#endif

/* Answers of the demo that take a while: /stream, and /events: server-sent events, one a second, which says its
 * number.
 *
 *     /events?count=N       the stream ends after N events
 *     /events?keepalive=MS  a comment after so much silence
 *
 * A client that comes again goes on behind its Last-Event-ID. The main thread sends; on_request, on_complete and it
 * share the list under a lock.
 */
#ifndef DEMO_STREAM_H
#define DEMO_STREAM_H

#include "demo.h"

#define RETRY_MS 1000 /* of /events */

/* ---- /stream */

static void stream_end(struct demo *demo, struct work *work)
{
    char number[24];
    struct ioh_header trailer = {"X-Bytes", number};
    snprintf(number, sizeof number, "%" PRIu64, work->u.stream.bytes);
    check(demo, "stream",
          ioh_respond_end_trailers(work->u.stream.req, &trailer, work->u.stream.trailers));
}

/* pull=1: the library asks. */
static void stream_pulled(ioh_req *req, size_t room, void *user)
{
    struct work *work = ioh_req_user(req);
    size_t len = room < PATTERN_LEN ? room : PATTERN_LEN;
    size_t skip = (size_t)((work->u.stream.bytes - work->u.stream.left) % 16);
    if (len > work->u.stream.left)
        len = (size_t)work->u.stream.left;
    if (len > PATTERN_LEN - skip)
        len = PATTERN_LEN - skip;
    const char *pattern = ioh_buf_data(((struct demo *)user)->pattern);
    work->u.stream.left -= len;
    check(user, "stream", ioh_respond_data(req, pattern + skip, len));
    if (work->u.stream.left == 0)
        stream_end(user, work);
}

/* Sends until the queue is full; on_drain goes on. After an error the connection ends, and
 * on_complete frees the work. */
static void stream_more(struct demo *demo, struct work *work)
{
    ioh_req *req = work->u.stream.req;
    while (work->u.stream.left > 0) {
        int rc;
        if (work->u.stream.left >= PATTERN_LEN) {
            work->u.stream.left -= PATTERN_LEN;
            rc = ioh_respond_data_buf(req, ioh_buf_ref(demo->pattern));
        } else {
            size_t len = (size_t)work->u.stream.left;
            work->u.stream.left = 0;
            rc = ioh_respond_data(req, ioh_buf_data(demo->pattern), len);
        }
        if (rc < 0)
            check(demo, "stream", rc);
        if (rc < 0 || (rc == IOH_QUEUED && work->u.stream.left > 0))
            return;
    }
    ioh_conn_set_user(ioh_req_conn(req), NULL);
    stream_end(demo, work);
}

static void stream_begin(struct demo *demo, ioh_req *req)
{
    static const struct ioh_header hint = {"Link", "</>; rel=preload; as=document"};
    struct ioh_str query = ioh_req_query(req);
    bool chunked = str_is(query_value(query, "chunked"), "1", 1);
    int64_t bytes;
    if (!parse_length(query_value(query, "bytes"), &bytes)) {
        answer(demo, req, demo->bad);
        return;
    }
    struct work *work = work_begin(demo, req, STREAM);
    if (work == NULL)
        return;
    if (str_is(query_value(query, "hints"), "1", 1))
        check(demo, "hints", ioh_respond_informational(req, 103, &hint, 1));
    int rc = ioh_respond_start(req, 200, text_fields, 2, chunked ? -1 : bytes);
    if (rc < 0) {
        check(demo, "stream", rc);
        return;
    }
    work->u.stream.req = req;
    work->u.stream.left = work->u.stream.bytes = (uint64_t)bytes;
    work->u.stream.trailers = str_is(query_value(query, "trailers"), "1", 1);
    if (str_is(query_value(query, "pull"), "1", 1)) {
        check(demo, "stream", ioh_respond_pull(req, stream_pulled, demo));
        return;
    }
    if (str_is(ioh_req_method(req), "HEAD", 4))
        work->u.stream.left = 0;
    ioh_conn_set_user(ioh_req_conn(req), work);
    stream_more(demo, work);
}

/* ---- /events */

static struct {
    pthread_mutex_t lock;
    struct work *first;
} watchers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The next event of one client, which the caller owns; NULL: no memory. */
static ioh_buf *next_event(struct work *work)
{
    char number[24], text[64];
    work->u.events.number++;
    if (work->u.events.left > 0)
        work->u.events.left--;
    snprintf(number, sizeof number, "%" PRId64, work->u.events.number);
    int len = snprintf(text, sizeof text, "event %s\nof this stream", number);
    return ioh_sse_event("tick", number, text, (size_t)len);
}

/* A stream that the library has ended, as the client left, is everyday life. */
static void check_event(struct demo *demo, int rc)
{
    if (rc != IOH_EDONE)
        check(demo, "event", rc);
}

/* Twice a second; the main thread. */
static void send_events(struct demo *demo)
{
    uint64_t now = now_ms();
    pthread_mutex_lock(&watchers.lock);
    for (struct work *w = watchers.first; w; w = w->u.events.next) {
        if (w->u.events.left == 0 || now < w->u.events.next_ms)
            continue;
        w->u.events.next_ms += 1000;
        check(demo, "event", ioh_reply_data_buf(demo->server, w->u.events.id, next_event(w)));
        if (w->u.events.left == 0)
            check(demo, "events", ioh_reply_end(demo->server, w->u.events.id));
    }
    pthread_mutex_unlock(&watchers.lock);
}

static void events_free(struct work *work)
{
    pthread_mutex_lock(&watchers.lock);
    for (struct work **at = &watchers.first; *at; at = &(*at)->u.events.next) {
        if (*at == work) {
            *at = work->u.events.next;
            break;
        }
    }
    pthread_mutex_unlock(&watchers.lock);
}

/* HEAD: the stream has ended before anything could be sent, and nothing is. */
static void events_begin(struct demo *demo, ioh_req *req)
{
    struct ioh_sse_options options = IOH_SSE_OPTIONS_INIT;
    struct ioh_str query = ioh_req_query(req);
    int64_t last, count, silence;
    if (!parse_length(ioh_req_header(req, "Last-Event-ID"), &last))
        last = 0;
    if (!parse_length(query_value(query, "count"), &count) || count == 0)
        count = -1;
    if (parse_length(query_value(query, "keepalive"), &silence) && silence <= 60000)
        options.keepalive_ms = (uint32_t)silence;
    options.retry_ms = RETRY_MS;
    options.headers = &text_fields[1]; /* nosniff */
    options.header_count = 1;

    bool head = str_is(ioh_req_method(req), "HEAD", 4);
    struct work *work = head ? NULL : work_begin(demo, req, EVENTS);
    if (!work && !head)
        return;
    int rc = ioh_sse_start(req, &options);
    if (rc < 0)
        check(demo, "events", rc);
    if (!work || rc < 0)
        return;
    work->u.events.id = ioh_defer(req);
    work->u.events.number = last;
    work->u.events.left = count;
    work->u.events.next_ms = now_ms() + 1000;
    check_event(demo, ioh_sse_send(req, next_event(work)));
    if (work->u.events.left == 0) {
        check_event(demo, ioh_respond_end(req));
        return;
    }
    pthread_mutex_lock(&watchers.lock);
    work->u.events.next = watchers.first;
    watchers.first = work;
    pthread_mutex_unlock(&watchers.lock);
}

#endif

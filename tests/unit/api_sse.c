/* Server-sent events: their bytes, streams of them, comments while nothing happens, and their ends. */
#include "support/common.h"

#include <iohandler/error.h>

/* ---- the bytes of an event (WHATWG HTML 9.2.5, 9.2.6) */

static void assert_event(const char *event, const char *id, const char *data, const char *want)
{
    ioh_buf *buf = ioh_sse_event(event, id, data, data ? strlen(data) : 0);
    assert_non_null(buf);
    assert_int_equal(ioh_buf_len(buf), strlen(want));
    assert_memory_equal(ioh_buf_data(buf), want, strlen(want));
    ioh_buf_unref(buf);
}

static void events_are_written_as_clients_read_them(void **state)
{
    (void)state;
    assert_event(NULL, NULL, "hello", "data: hello\n\n");
    assert_event("price", "17", "1.5", "id: 17\nevent: price\ndata: 1.5\n\n");
    assert_event(NULL, NULL, "", "data: \n\n"); /* an event with empty data, not none */
    assert_event(NULL, "9", NULL, "id: 9\n\n");
    assert_event(NULL, "", "x", "id: \ndata: x\n\n"); /* forget the last id */
    assert_event("a", NULL, " lead", "event: a\ndata:  lead\n\n");
    assert_event(NULL, NULL, "one\ntwo", "data: one\ndata: two\n\n");
    assert_event(NULL, NULL, "one\r\ntwo\rthree\n",
                 "data: one\ndata: two\ndata: three\ndata: \n\n");
    assert_event(NULL, NULL, "\n\r\r\n", "data: \ndata: \ndata: \ndata: \n\n");
    assert_event(NULL, NULL, "id: 5\nretry: 1", "data: id: 5\ndata: retry: 1\n\n");
    assert_event(NULL, NULL, "\xc3\xa4", "data: \xc3\xa4\n\n");
}

static void event_or_id_of_several_lines_is_refused(void **state)
{
    (void)state;
    assert_null(ioh_sse_event("a\nb", NULL, "x", 1));
    assert_null(ioh_sse_event("a\r", NULL, "x", 1));
    assert_null(ioh_sse_event(NULL, "1\n\ndata: y", "x", 1));
    assert_null(ioh_sse_event(NULL, "1\r", "x", 1));
    assert_null(ioh_sse_event(NULL, NULL, NULL, 1));
    assert_null(ioh_sse_event(NULL, NULL, NULL, 0));
}

/* ---- streams */

struct streams {
    struct parked parked;
    struct ioh_sse_options options;
    atomic_int started;
};

static void start_events(ioh_req *req, void *state)
{
    struct host *h = state;
    struct streams *s = h->data;
    if (path_is(req, "/plain")) {
        answer_ok(req, state);
        return;
    }
    CHECK(h, ioh_sse_send(req, ioh_sse_event(NULL, NULL, "early", 5)) == IOH_ESTATE);
    pthread_mutex_lock(&h->lock);
    s->parked.ids[s->parked.count] = ioh_defer(req);
    pthread_mutex_unlock(&h->lock);
    CHECK(h, ioh_sse_start(req, s->options.size ? &s->options : NULL) == 0);
    CHECK(h, ioh_sse_start(req, NULL) == IOH_EDONE);
    CHECK(h, ioh_sse_send(req, NULL) == IOH_EINVAL);
    if (!str_is(ioh_req_method(req), "HEAD"))
        CHECK(h, ioh_sse_send(req, ioh_sse_event("hello", "1", "first", 5)) >= 0);
    s->parked.count++;
}

static struct host *streaming_host(void **state, struct streams *s)
{
    struct host *h = host_new(state);
    memset(s, 0, sizeof *s);
    h->data = s;
    h->on.on_request = start_events;
    return h;
}

/* The head, and then what has been sent so far must follow as chunks. */
static void read_head(struct client *c)
{
    client_request(c, "GET", "/", "Last-Event-ID: 5\r\n");
    client_forget(c);
    size_t head = client_find(c, "\r\n\r\n");
    assert_true(head > 0);
    c->head = calloc(1, head + 1);
    memcpy(c->head, c->in, head);
    client_drop(c, head);
    assert_memory_equal(c->head, "HTTP/1.1 200 ", 13);
}

/* The next chunk is this. */
static void assert_chunk(struct client *c, const char *want)
{
    char raw[1000];
    size_t n = (size_t)snprintf(raw, sizeof raw, "%zx\r\n%s\r\n", strlen(want), want);
    while (c->len < n)
        if (!client_fill(c))
            break;
    if (c->len < n || memcmp(c->in, raw, n) != 0)
        fail_msg("wanted %s, got %.*s", want, (int)c->len, (char *)c->in);
    client_drop(c, n);
}

static int reply_event(struct host *h, struct ioh_req_id id, const char *text)
{
    return ioh_reply_data_buf(h->server, id, ioh_sse_event(NULL, NULL, text, strlen(text)));
}

static void events_arrive_one_by_one_until_the_end(void **state)
{
    struct streams s;
    struct host *h = streaming_host(state, &s);
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        read_head(c);
        assert_field(c, "Content-Type", "text/event-stream");
        assert_field(c, "Cache-Control", "no-store");
        assert_field(c, "Transfer-Encoding", "chunked");
        assert_chunk(c, "id: 1\nevent: hello\ndata: first\n\n");
        WAIT(h, s.parked.count == i + 1);
        struct ioh_req_id id = s.parked.ids[i];
        for (int n = 0; n < 20; n++) {
            assert_int_equal(reply_event(h, id, "news"), 0);
            assert_chunk(c, "data: news\n\n");
        }
        assert_int_equal(ioh_reply_end(h->server, id), 0);
        assert_chunk(c, "");
        WAIT(h, h->completes == 2 * i + 1);
        assert_int_equal(client_get(c, "/plain"), 200);
        WAIT(h, h->completes == 2 * i + 2);
    }
    client_close(c);
    host_end(h);
}

static void options_of_a_stream(void **state)
{
    static const struct ioh_header fields[] = {{"Access-Control-Allow-Origin", "*"}};
    struct streams s;
    struct host *h = streaming_host(state, &s);
    s.options = (struct ioh_sse_options)IOH_SSE_OPTIONS_INIT;
    s.options.retry_ms = 2500;
    s.options.headers = fields;
    s.options.header_count = 1;
    host_start(h);
    struct client *c = client_open(h);
    read_head(c);
    assert_field(c, "Access-Control-Allow-Origin", "*");
    assert_chunk(c, "retry: 2500\n\n");
    assert_chunk(c, "id: 1\nevent: hello\ndata: first\n\n");
    client_close(c);
    WAIT(h, h->completes == 1);
    host_end(h);
}

static void bad_options(ioh_req *req, void *state)
{
    struct host *h = state;
    static const struct ioh_header bad[] = {{"Connection", "close"}};
    struct ioh_sse_options o = IOH_SSE_OPTIONS_INIT;
    o.size = 0;
    CHECK(h, ioh_sse_start(req, &o) == IOH_EVERSION);
    o.size = sizeof o;
    o.header_count = 1;
    CHECK(h, ioh_sse_start(req, &o) == IOH_EINVAL);
    o.headers = bad;
    CHECK(h, ioh_sse_start(req, &o) == IOH_EHEADER);
    answer_ok(req, state);
}

static void stream_with_bad_options_does_not_begin(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = bad_options;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_body(c, "ok");
    client_close(c);
    host_end(h);
}

static void silence_is_broken_by_comments(void **state)
{
    struct streams s;
    struct host *h = streaming_host(state, &s);
    s.options = (struct ioh_sse_options)IOH_SSE_OPTIONS_INIT;
    s.options.keepalive_ms = 50;
    h->options.body_timeout_ms = h->options.idle_timeout_ms = h->options.head_timeout_ms = 20;
    host_start(h);
    struct client *c = client_open(h);
    read_head(c);
    assert_chunk(c, "id: 1\nevent: hello\ndata: first\n\n");
    for (int i = 0; i < 3; i++)
        assert_chunk(c, ":\n");
    WAIT(h, s.parked.count == 1);
    assert_int_equal(ioh_reply_end(h->server, s.parked.ids[0]), 0);
    for (;;) { /* one may be on its way */
        while (c->len < 5)
            assert_true(client_fill(c));
        if (c->in[0] == '0')
            break;
        assert_chunk(c, ":\n");
    }
    assert_chunk(c, "");
    WAIT(h, h->completes == 1);
    poll(NULL, 0, 150);
    client_wait_end(c); /* idle now: no comment follows, and the idle deadline is back */
    client_close(c);
    host_end(h);
}

/* A new stream is silent first. */
static void comments_come_in_http_1_0_too_and_head_ends_at_once(void **state)
{
    struct streams s;
    struct host *h = streaming_host(state, &s);
    s.options = (struct ioh_sse_options)IOH_SSE_OPTIONS_INIT;
    s.options.keepalive_ms = 50;
    s.options.retry_ms = 1;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "HEAD", "/", "");
    assert_int_equal(client_read(c, true), 200);
    assert_field(c, "Content-Type", "text/event-stream");
    WAIT(h, h->completes == 1);
    client_send(c, "GET / HTTP/1.0\r\n\r\n");
    assert_true(client_find(c, "\r\n\r\nretry: 1\n\nid: 1\nevent: hello\ndata: first\n\n:\n:\n") >
                0);
    client_close(c);
    host_end(h);
}

static void client_that_closes_its_side_ends_the_stream(void **state)
{
    struct streams s;
    struct host *h = streaming_host(state, &s);
    host_start(h);
    struct client *c = client_open(h);
    read_head(c);
    assert_chunk(c, "id: 1\nevent: hello\ndata: first\n\n");
    client_finish(c);
    assert_chunk(c, "");
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    host_end(h);
}

static void stop_ends_streams_in_order(void **state)
{
    struct streams s;
    struct host *h = streaming_host(state, &s);
    host_start(h);
    struct client *clients[5];
    for (int i = 0; i < 5; i++) {
        clients[i] = client_open(h);
        read_head(clients[i]);
        assert_chunk(clients[i], "id: 1\nevent: hello\ndata: first\n\n");
        WAIT(h, s.parked.count == i + 1);
    }
    host_begin_stop(h, LONG_DRAIN_MS);
    for (int i = 0; i < 5; i++) {
        assert_chunk(clients[i], "");
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    assert_int_equal(host_end_stop(h), 0);
    assert_int_equal(h->completes, 5);
    host_end(h);
}

/* One event, many clients, some of them leaving: each reference is consumed. */
static void one_event_goes_to_many_from_any_thread(void **state)
{
    enum { MANY = 20 };
    struct streams s;
    struct host *h = streaming_host(state, &s);
    host_start(h);
    struct client *clients[MANY];
    for (int i = 0; i < MANY; i++) {
        clients[i] = client_open(h);
        read_head(clients[i]);
        WAIT(h, s.parked.count == i + 1);
    }
    for (int i = 0; i < MANY; i += 4)
        client_abort(clients[i]);
    char big[9000];
    memset(big, 'x', sizeof big);
    for (int round = 0; round < 10; round++) {
        ioh_buf *event = ioh_sse_event(NULL, NULL, big, sizeof big);
        for (int i = 0; i < MANY; i++) {
            int rc = ioh_reply_data_buf(h->server, s.parked.ids[i], ioh_buf_ref(event));
            assert_true(rc == 0 || rc == IOH_EGONE);
        }
        ioh_buf_unref(event);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 4 == 0)
            continue;
        assert_chunk(clients[i], "id: 1\nevent: hello\ndata: first\n\n");
        for (int round = 0; round < 10; round++) {
            size_t n = client_find(clients[i], "\n\n\r\n");
            assert_int_equal(n, strlen("2330\r\ndata: ") + sizeof big + 4);
            client_drop(clients[i], n);
        }
        client_close(clients[i]);
    }
    WAIT(h, h->completes == MANY);
    host_end(h);
}

/* It is reset at send_max, not grown for ever. */
static void client_that_does_not_read_is_cut(void **state)
{
    struct streams s;
    struct host *h = streaming_host(state, &s);
    h->options.send_high = 50000;
    h->options.send_max = 200000;
    host_start(h);
    struct client *c = client_open(h);
    read_head(c);
    WAIT(h, s.parked.count == 1);
    uint8_t *bytes = pattern(100000);
    for (int i = 0; i < 1000 && h->completes == 0; i++) {
        ioh_reply_data_buf(h->server, s.parked.ids[0], ioh_sse_event(NULL, NULL, bytes, 100000));
        poll(NULL, 0, 1);
    }
    WAIT(h, h->completes == 1);
    assert_true(host_stats(h).send_full > 0);
    client_close(c);
    free(bytes);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_ONCE(events_are_written_as_clients_read_them),
    HOST_TEST_ONCE(event_or_id_of_several_lines_is_refused),
    HOST_TEST(events_arrive_one_by_one_until_the_end),
    HOST_TEST_IN(options_of_a_stream, IN_TCP),
    HOST_TEST_IN(stream_with_bad_options_does_not_begin, IN_TCP),
    HOST_TEST(silence_is_broken_by_comments),
    HOST_TEST_IN(comments_come_in_http_1_0_too_and_head_ends_at_once, IN_TCP),
    HOST_TEST(client_that_closes_its_side_ends_the_stream),
    HOST_TEST(stop_ends_streams_in_order),
    HOST_TEST_IN(one_event_goes_to_many_from_any_thread, IN_TCP),
    HOST_TEST_IN(client_that_does_not_read_is_cut, IN_TCP),
};

HOST_MAIN(tests)

/* Compressed answers that are streamed, asked for, made of events, or given from another thread. */
#include "support/gzip.h"

/* ---- streamed answers */

static void stream_begin(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_str query = ioh_req_query(req);
    int64_t length = query.ptr ? atoll(query.ptr) : -1;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, length) == 0);
}

static void stream_back(ioh_req *req, const void *data, size_t len, void *state)
{
    CHECK((struct host *)state, ioh_respond_data(req, data, len) >= 0);
}

static void stream_end(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond_end(req) >= 0);
}

static struct host *stream_host(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_begin;
    h->on.on_body = stream_back;
    h->on.on_request_end = stream_end;
    host_start(h);
    return h;
}

static size_t read_chunk(struct client *c)
{
    char *end;
    size_t line = client_find(c, "\r\n");
    assert_true(line > 0);
    size_t size = strtoul((char *)c->in, &end, 16);
    client_drop(c, line);
    c->body_len = 0;
    assert_true(client_take_all(c, size + 2));
    c->body_len -= 2;
    return size;
}

/* What a peer sends comes back before it sends more: each piece is flushed. */
static void each_piece_can_be_read_when_it_comes(void **state)
{
    struct host *h = stream_host(state);
    struct client *c = client_open(h);
    z_stream z;
    bool ended;
    char text[80], out[200];
    begin_inflate(&z);
    client_send(c, "POST / HTTP/1.1\r\nHost: h\r\n" GZIP "Transfer-Encoding: chunked\r\n\r\n");
    client_forget(c);
    size_t head = client_find(c, "\r\n\r\n");
    assert_true(head > 0);
    client_drop(c, head);
    for (int i = 0; i < 20; i++) {
        int len = snprintf(text, sizeof text, "event number %d of many\n", i);
        char chunk[100];
        snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", (unsigned)len, text);
        client_send(c, chunk);
        size_t got = 0;
        while (got < (size_t)len) {
            size_t size = read_chunk(c);
            assert_true(size > 0);
            got += inflate_some(&z, c->body, size, out + got, sizeof out - got, &ended);
            assert_false(ended);
        }
        assert_int_equal(got, len);
        assert_memory_equal(out, text, got);
    }
    client_send(c, "0\r\n\r\n");
    size_t size = read_chunk(c);
    assert_int_equal(inflate_some(&z, c->body, size, out, sizeof out, &ended), 0);
    assert_true(ended);
    assert_int_equal(read_chunk(c), 0);
    inflateEnd(&z);
    client_close(c);
    host_end(h);
}

/* With a length known to the host, without, and for HTTP/1.0. */
static void a_stream_is_compressed_whatever_was_said_of_its_length(void **state)
{
    enum { STREAM = 300000 };
    static const char *const versions[] = {"1.1", "1.1", "1.0", "1.0"};
    struct host *h = stream_host(state);
    uint8_t *bytes = pattern(STREAM);
    for (size_t i = 0; i < 4; i++) {
        struct client *c = client_open(h);
        char head[300];
        snprintf(head, sizeof head,
                 "POST /%s HTTP/%s\r\nHost: h\r\n" GZIP "Content-Length: %d\r\n\r\n",
                 i % 2 ? "?300000" : "", versions[i], STREAM);
        client_send(c, head);
        client_write(c, bytes, STREAM);
        assert_int_equal(client_answer(c), 200);
        expect_inflated(c, NULL, STREAM);
        assert_field(c, "ETag", "W/\"v1\"");
        assert_int_equal(c->chunked, i < 2);
        assert_null(client_field(c, "Content-Length"));
        client_close(c);
    }
    free(bytes);
    WAIT(h, h->completes == 4);
    host_end(h);
}

static void stream_too_little(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 1, 2000) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    if (path_is(req, "/more")) {
        static const char rest[1998];
        CHECK(h, ioh_respond_data(req, rest, 1998) == IOH_ELENGTH);
        CHECK(h, ioh_respond_data(req, rest, 1997) >= 0);
        CHECK(h, ioh_respond_end(req) >= 0);
    } else if (path_is(req, "/less")) {
        CHECK(h, ioh_respond_end(req) == IOH_ELENGTH);
    }
}

static void the_announced_length_is_held_to_before_compression(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_too_little;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/more", GZIP);
    char want[2000] = "abc";
    expect_inflated(c, want, 2000);
    client_request(c, "GET", "/less", GZIP);
    client_read(c, false);
    assert_false(c->whole);
    client_close(c);
    host_end(h);
}

static void stream_small(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, 3) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void a_short_stream_of_known_length_stays_plain(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_small;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/", GZIP);
    assert_null(client_field(c, "Content-Encoding"));
    assert_field(c, "Content-Length", "3");
    assert_body(c, "abc");
    client_close(c);
    host_end(h);
}

static void stream_of_head(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, -1) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void a_streamed_answer_to_head_has_the_fields_and_no_body(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_of_head;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        client_request(c, "HEAD", "/", GZIP);
        assert_int_equal(client_read(c, true), 200);
        assert_field(c, "Content-Encoding", "gzip");
        assert_field(c, "Transfer-Encoding", "chunked");
        get(c, "/", GZIP);
        expect_inflated(c, "abc", 3);
    }
    client_close(c);
    host_end(h);
}

/* ---- events, answers that are asked for, trailers */

static void events_begin(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_sse_options o = IOH_SSE_OPTIONS_INIT;
    o.keepalive_ms = 50;
    CHECK(h, ioh_sse_start(req, &o) == 0);
    park(req, state);
}

/* Reads chunks until the text has come out of them; other text in front of it is passed over. */
static void wait_inflated(struct client *c, z_stream *z, const char *text)
{
    char out[2000] = "";
    size_t len = 0;
    bool ended;
    while (!strstr(out, text)) {
        size_t size = read_chunk(c);
        assert_true(size > 0 && len < 1000);
        len += inflate_some(z, c->body, size, out + len, 1000, &ended);
        out[len] = '\0';
        assert_false(ended);
    }
}

static void events_and_comments_are_read_when_they_come(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = compressing_host(state);
    h->on.on_request = events_begin;
    h->data = &parked;
    host_start(h);
    struct client *c = client_open(h);
    z_stream z;
    begin_inflate(&z);
    client_request(c, "GET", "/", GZIP);
    client_forget(c);
    size_t head = client_find(c, "\r\n\r\n");
    assert_non_null(memmem(c->in, head, "Content-Encoding: gzip\r\n", 24));
    client_drop(c, head);
    WAIT(h, parked.count == 1);
    struct ioh_req_id id = parked.ids[0];
    for (int i = 0; i < 3; i++) {
        char data[20], event[60];
        int n = snprintf(data, sizeof data, "news %d", i);
        snprintf(event, sizeof event, "data: %s\n\n", data);
        ioh_buf *buf = ioh_sse_event(NULL, NULL, data, (size_t)n);
        assert_int_equal(ioh_reply_data_buf(h->server, id, buf), 0);
        wait_inflated(c, &z, event);
        wait_inflated(c, &z, ":\n");
    }
    assert_int_equal(ioh_reply_end(h->server, id), 0);
    assert_true(client_find(c, "0\r\n\r\n") > 0);
    inflateEnd(&z);
    client_close(c);
    host_end(h);
}

static atomic_size_t pulled;

static void give_some(ioh_req *req, size_t room, void *user)
{
    struct host *h = user;
    struct seen *seen = host_enter_req(h, req);
    uint8_t piece[7000];
    size_t n = 0, at = pulled;
    while (n < sizeof piece && n < room && at + n < 1000000) {
        piece[n] = pattern_at(at + n);
        n++;
    }
    pulled = at + n;
    CHECK(h, ioh_respond_data(req, piece, n) >= 0);
    if (at + n == 1000000)
        CHECK(h, ioh_respond_end(req) >= 0);
    host_leave(h, seen, &h->runs);
}

static void pull_begin(ioh_req *req, void *state)
{
    struct host *h = state;
    pulled = 0;
    CHECK(h,
          ioh_respond_start(req, 200, plain_fields, 4, path_is(req, "/known") ? 1000000 : -1) == 0);
    CHECK(h, ioh_respond_pull(req, give_some, h) == 0);
}

static void an_answer_that_is_asked_for_is_compressed(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = pull_begin;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/known", GZIP);
    expect_inflated(c, NULL, 1000000);
    get(c, "/unknown", GZIP);
    expect_inflated(c, NULL, 1000000);
    client_close(c);
    host_end(h);
}

static void stream_with_trailers(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_header trailer = {"X-Sum", "17"};
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, -1) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    CHECK(h, ioh_respond_end_trailers(req, &trailer, 1) >= 0);
}

static void trailers_stand_behind_a_compressed_answer(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_with_trailers;
    host_start(h);
    struct client *c = client_open(h);
    z_stream z;
    char out[10];
    bool ended = false;
    size_t len = 0;
    begin_inflate(&z);
    client_request(c, "GET", "/", GZIP);
    client_forget(c);
    client_drop(c, client_find(c, "\r\n\r\n"));
    while (!ended) {
        size_t size = read_chunk(c);
        len += inflate_some(&z, c->body, size, out + len, sizeof out - len, &ended);
    }
    assert_int_equal(len, 3);
    assert_memory_equal(out, "abc", 3);
    size_t last = client_find(c, "\r\n\r\n");
    assert_int_equal(last, strlen("0\r\nX-Sum: 17\r\n\r\n"));
    assert_memory_equal(c->in, "0\r\nX-Sum: 17\r\n\r\n", last);
    inflateEnd(&z);
    client_close(c);
    host_end(h);
}

/* ---- answers from elsewhere */

enum { LEN = 20000 };

static void deferred_answers_are_compressed_too(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = compressing_host(state);
    uint8_t *bytes = pattern(LEN);
    h->on.on_request = park;
    h->data = &parked;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 4; i++) {
        bool gzip = i % 2 == 0;
        client_request(c, "GET", "/", gzip ? GZIP : "");
        WAIT(h, parked.count == i + 1);
        struct ioh_req_id id = parked.ids[i];
        if (i < 2) {
            assert_int_equal(ioh_reply(h->server, id, 200, plain_fields, 4, bytes, LEN), 0);
        } else {
            assert_int_equal(ioh_reply_start(h->server, id, 200, plain_fields, 4, -1), 0);
            assert_int_equal(ioh_reply_data(h->server, id, bytes, 100), 0);
            assert_int_equal(ioh_reply_data(h->server, id, bytes + 100, LEN - 100), 0);
            assert_int_equal(ioh_reply_end(h->server, id), 0);
        }
        assert_int_equal(client_answer(c), 200);
        assert_field(c, "Vary", "Accept-Encoding");
        if (gzip) {
            expect_inflated(c, NULL, LEN);
        } else {
            assert_null(client_field(c, "Content-Encoding"));
            assert_true(c->body_len == LEN && is_pattern(c->body, LEN));
        }
    }
    free(bytes);
    client_close(c);
    host_end(h);
}

/* A stream that came too late, or whose peer has left, is given back: the server's end checks it. */
static void what_is_not_sent_is_given_back(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = compressing_host(state);
    h->on.on_request = park;
    h->data = &parked;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", GZIP);
    WAIT(h, parked.count == 1);
    struct ioh_req_id id = parked.ids[0];
    assert_int_equal(ioh_reply_start(h->server, id, 200, plain_fields, 4, -1), 0);
    assert_int_equal(ioh_reply_start(h->server, id, 200, plain_fields, 4, -1), 0); /* dropped */
    assert_int_equal(ioh_reply_data(h->server, id, "abc", 3), 0);
    client_forget(c);
    assert_true(client_find(c, "\r\n\r\n") > 0);
    client_abort(c);
    WAIT(h, h->closes == 1);
    /* A thread per connection: its loop ends a moment later. */
    WAIT(h, ioh_reply_start(h->server, id, 200, plain_fields, 4, -1) == gone_answer(h));
    host_end(h);
}

static void stream_and_wait(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 1, -1) == 0);
    CHECK(h, ioh_respond_data(req, "first", 5) >= 0);
    park(req, state);
}

/* Streams of zlib's are large, so there is a limit; beyond it answers stay plain, and they come back. */
static void so_many_streams_at_a_time_are_compressed(void **state)
{
    enum { CLIENTS = 130, PACKED = 120 };
    struct parked parked = {.count = 0};
    struct client *clients[CLIENTS];
    struct host *h = compressing_host(state);
    h->on.on_request = stream_and_wait;
    h->data = &parked;
    host_start(h);
    for (int round = 0; round < 2; round++) {
        int packed = 0;
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_open(h);
            client_request(clients[i], "GET", "/", GZIP);
            client_forget(clients[i]);
            WAIT(h, parked.count == round * CLIENTS + i + 1);
        }
        for (int i = 0; i < CLIENTS; i++)
            assert_int_equal(ioh_reply_end(h->server, parked.ids[round * CLIENTS + i]), 0);
        for (int i = 0; i < CLIENTS; i++) {
            assert_int_equal(client_answer(clients[i]), 200);
            if (client_field(clients[i], "Content-Encoding")) {
                expect_inflated(clients[i], "first", 5);
                packed++;
            } else {
                assert_body(clients[i], "first");
                assert_field(clients[i], "Vary", "Accept-Encoding");
            }
            client_close(clients[i]);
        }
        assert_int_equal(packed, PACKED);
        WAIT(h, h->closes == (round + 1) * CLIENTS);
    }
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(each_piece_can_be_read_when_it_comes),
    HOST_TEST(a_stream_is_compressed_whatever_was_said_of_its_length),
    HOST_TEST(the_announced_length_is_held_to_before_compression),
    HOST_TEST_IN(a_short_stream_of_known_length_stays_plain, IN_INLINE | IN_POOL),
    HOST_TEST(a_streamed_answer_to_head_has_the_fields_and_no_body),
    HOST_TEST(events_and_comments_are_read_when_they_come),
    HOST_TEST(an_answer_that_is_asked_for_is_compressed),
    HOST_TEST(trailers_stand_behind_a_compressed_answer),
    HOST_TEST(deferred_answers_are_compressed_too),
    HOST_TEST(what_is_not_sent_is_given_back),
    HOST_TEST_IN(so_many_streams_at_a_time_are_compressed, IN_INLINE | IN_POOL | IN_THREADS),
};

HOST_MAIN(tests)

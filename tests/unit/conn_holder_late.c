/* What a late callback says and does: it arrives, in order, and as if the callback still held its loop. And what happens to
 * its connection meanwhile: data behind it, the peer's end, deadlines, a stop.
 */
#include "support/late.h"

static struct host *late_host(void **state, void (*on_request)(ioh_req *req, void *state))
{
    struct host *h = host_new(state);
    h->on.on_request = on_request;
    host_start(h);
    shut_gate();
    return h;
}

/* ---- in the middle of a batch */

enum { BATCH = 30, LATE_ONE = 7, LONG_BODY = 40000 };

struct upload {
    uint8_t *bytes;
    size_t len;
};

static void take_request(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/ping")) {
        answer_ok(req, h);
        return;
    }
    struct upload *up = calloc(1, sizeof *up);
    up->bytes = malloc(LONG_BODY);
    ioh_req_set_user(req, up);
    if (path_is(req, "/7/head"))
        be_late(h);
}

static void take_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct host *h = state;
    struct upload *up = ioh_req_user(req);
    bool late = up->len == 0 && path_is(req, "/7/body");
    CHECK(h, up->len + len <= LONG_BODY);
    if (late) {
        be_late(h); /* the bytes are in a buffer that others would be read into */
        CHECK(h, path_is(req, "/7/body") && str_is(ioh_req_header(req, "host"), "test"));
    }
    memcpy(up->bytes + up->len, data, len);
    up->len += len;
}

static void answer_upload(ioh_req *req, void *state)
{
    struct host *h = state;
    struct upload *up = ioh_req_user(req);
    if (path_is(req, "/7/end"))
        be_late(h);
    struct ioh_str path = ioh_req_path(req);
    char text[40];
    struct ioh_header field = {"X-Path", text};
    snprintf(text, sizeof text, "%.*s", (int)path.len, path.ptr);
    CHECK(h, is_pattern(up->bytes, up->len));
    CHECK(h, ioh_respond(req, 200, &field, 1, up->bytes, up->len) >= 0);
    free(up->bytes);
    free(up);
}

static size_t upload_len(int i)
{
    return i == LATE_ONE || i % 10 == 3 ? LONG_BODY : (size_t)i * 31 + 1;
}

static void send_batch(struct client *c, const char *where)
{
    uint8_t *bytes = pattern(LONG_BODY), *batch = malloc(BATCH * (LONG_BODY + 200));
    size_t len = 0;
    assert_non_null(batch);
    for (int i = 0; i < BATCH; i++) {
        len += (size_t)sprintf((char *)batch + len,
                               "POST /%d/%s HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n\r\n",
                               i, where, upload_len(i));
        memcpy(batch + len, bytes, upload_len(i));
        len += upload_len(i);
    }
    client_write(c, batch, len);
    free(batch);
    free(bytes);
}

static void a_batch_with_a_late_callback_in_it_is_answered_whole_and_in_order(void **state)
{
    static const char *const places[] = {"head", "body", "end"};
    for (size_t k = 0; k < 3; k++) {
        struct host *h = host_new(state);
        h->on.on_request = take_request;
        h->on.on_body = take_body;
        h->on.on_request_end = answer_upload;
        host_start(h);
        shut_gate();
        struct client *c = client_open(h);
        send_batch(c, places[k]);
        WAIT(h, gate.inside == 1);
        for (int i = 0; i < 20; i++)
            others_are_served(h);
        open_gate();
        for (int i = 0; i < BATCH; i++) {
            char path[20];
            snprintf(path, sizeof path, "/%d/%s", i, places[k]);
            assert_int_equal(client_answer(c), 200);
            assert_field(c, "X-Path", path);
            assert_int_equal(c->body_len, upload_len(i));
            assert_true(is_pattern(c->body, c->body_len));
        }
        client_close(c);
        host_end(h);
    }
}

/* ---- what was said before and what is said after */

enum { PIECE = 30000 };

static void stream_around(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/ping")) {
        answer_ok(req, h);
        return;
    }
    uint8_t *bytes = pattern(4 * PIECE);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) >= 0);
    CHECK(h, ioh_respond_data(req, bytes, PIECE) >= 0);
    lose_the_loop(h);
    CHECK(h, ioh_respond_data(req, bytes + PIECE, PIECE) >= 0);
    wait_at_gate(h);
    CHECK(h, ioh_respond_data_buf(req, ioh_buf_copy(bytes + 2 * PIECE, PIECE)) >= 0);
    CHECK(h, ioh_respond_data(req, bytes + 3 * PIECE, PIECE) >= 0);
    CHECK(h, ioh_respond_end(req) >= 0);
    CHECK(h, ioh_respond_end(req) == IOH_EDONE);
    free(bytes);
}

static void a_stream_goes_on_behind_what_was_queued_before(void **state)
{
    struct host *h = late_host(state, stream_around);
    struct client *c = client_open(h);
    client_request(c, "GET", "/stream", "");
    client_request(c, "GET", "/ping", "");
    WAIT(h, gate.inside == 1);
    others_are_served(h);
    open_gate();
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, 4 * PIECE);
    assert_true(is_pattern(c->body, 4 * PIECE));
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "ok");
    client_close(c);
    host_end(h);
}

static void send_around(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    if (len == 4 && memcmp(data, "late", 4) == 0) {
        CHECK(h, ioh_ws_send(conn, op, "1", 1) == 0);
        lose_the_loop(h);
        CHECK(h, ioh_ws_send(conn, op, "2", 1) == 0);
        wait_at_gate(h);
        CHECK(h, ioh_ws_send_buf(conn, op, ioh_buf_copy("3", 1)) == 0);
        CHECK(h, ioh_ws_send_frame(conn, ioh_ws_frame(op, "4", 1)) == 0);
        CHECK(h, memcmp(data, "late", 4) == 0);
    }
    CHECK(h, ioh_ws_send(conn, op, data, len) == 0);
}

static void messages_of_a_late_callback_stay_in_order(void **state)
{
    static const char *const texts[] = {"before", "1", "2", "3", "4", "late", "after"};
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    h->on.on_ws_message = send_around;
    host_start(h);
    shut_gate();
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "before");
    client_ws_send(c, IOH_WS_TEXT, "late");
    client_ws_send(c, IOH_WS_TEXT, "after");
    WAIT(h, gate.inside == 1);
    others_are_served(h);
    open_gate();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_body(c, texts[i]);
    }
    client_ws_leave(c);
    host_end(h);
}

/* ---- every call still does what it says */

static struct ioh_req_id deferred;

static void call_late(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    if (path_is(req, "/ping")) {
        answer_ok(req, h);
        return;
    }
    lose_the_loop(h);
    if (path_is(req, "/last")) {
        ioh_respond_close(req);
        answer_ok(req, h);
    } else if (path_is(req, "/close")) {
        answer_ok(req, h);
        ioh_close(conn);
        CHECK(h, ioh_respond(req, 200, NULL, 0, NULL, 0) < 0);
    } else if (path_is(req, "/abort")) {
        ioh_abort(conn);
        CHECK(h, ioh_respond(req, 200, NULL, 0, NULL, 0) == IOH_EGONE);
    } else if (path_is(req, "/pause")) {
        ioh_pause(conn);
        answer_ok(req, h);
    } else if (path_is(req, "/defer")) {
        deferred = ioh_defer(req);
    } else if (path_is(req, "/bad")) {
        static const struct ioh_header bad = {"X", "a\nb"};
        CHECK(h, ioh_respond(req, 200, &bad, 1, NULL, 0) == IOH_EHEADER);
        CHECK(h, ioh_respond(req, 99, NULL, 0, NULL, 0) == IOH_EINVAL);
        CHECK(h, ioh_respond_data(req, "x", 1) == IOH_ESTATE);
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, 2) == 0);
        CHECK(h, ioh_respond_data(req, "abc", 3) == IOH_ELENGTH);
        CHECK(h, ioh_respond_data(req, "ok", 2) == 0);
        CHECK(h, ioh_respond_end(req) == 0);
    } else if (path_is(req, "/queued")) {
        uint8_t *bytes = pattern(PIECE);
        size_t before = ioh_conn_queued(conn);
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, PIECE) == 0);
        CHECK(h, ioh_respond_data(req, bytes, PIECE) == 0);
        CHECK(h, before == 0 && ioh_conn_queued(conn) <= PIECE + 500);
        CHECK(h, ioh_respond_end(req) == 0);
        free(bytes);
    }
}

static void resume(ioh_conn *conn, void *user)
{
    (void)user;
    ioh_resume(conn);
}

static void calls_of_a_late_callback_do_what_they_say(void **state)
{
    static const char *const paths[] = {"/last",  "/close", "/abort", "/pause",
                                        "/defer", "/bad",   "/queued"};
    struct host *h = late_host(state, call_late);
    int asked = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *path = paths[i];
        struct client *c = client_open(h);
        int runs = h->runs;
        client_request(c, "GET", path, "");
        asked++;
        WAIT(h, h->requests == asked);
        if (strcmp(path, "/abort") == 0) {
            assert_int_equal(client_read(c, false), 0);
            assert_int_equal(c->len, 0);
            client_close(c);
            WAIT(h, h->completes == asked);
            continue;
        }
        if (strcmp(path, "/defer") == 0)
            assert_int_equal(ioh_reply(h->server, deferred, 200, NULL, 0, "ok", 2), 0);
        assert_int_equal(client_answer(c), 200);
        if (strcmp(path, "/queued") == 0)
            assert_true(c->body_len == PIECE && is_pattern(c->body, PIECE));
        else
            assert_body(c, "ok");
        if (strcmp(path, "/pause") != 0)
            WAIT(h, h->completes == asked);
        if (strcmp(path, "/last") == 0)
            assert_field(c, "Connection", "close");
        if (strcmp(path, "/last") == 0 || strcmp(path, "/close") == 0) {
            client_expect_end(c);
        } else {
            client_request(c, "GET", "/ping", "");
            asked++;
            if (strcmp(path, "/pause") == 0) {
                others_are_served(h);
                asked++;
                assert_true(client_is_quiet(c));
                ioh_conn_id id = ((struct seen *)h->seen)->next->id;
                assert_int_equal(host_run_on(h, id, resume, NULL, NULL), 0);
                WAIT(h, h->runs == runs + 1);
            }
            assert_int_equal(client_answer(c), 200);
        }
        client_close(c);
        WAIT(h,
             h->completes ==
                 asked); /* an answer from another thread may be there before its callback ends */
    }
    host_end(h);
}

static void close_late(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    lose_the_loop(h);
    CHECK(h, ioh_ws_send(conn, op, data, len) == 0);
    CHECK(h, ioh_ws_close(conn, 4001, "enough", 6) == 0);
    CHECK(h, ioh_ws_send(conn, op, data, len) == IOH_ESTATE);
    CHECK(h, ioh_ws_close(conn, 4001, "enough", 6) == IOH_ESTATE);
}

static void a_late_callback_may_close_its_websocket(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = close_late;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "x");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_int_equal(client_ws_read(c), 8);
    assert_int_equal(client_ws_code(c), 4001);
    client_ws_close(c, 4001, "");
    client_expect_end(c);
    WAIT(h, h->last_ws_code == 4001);
    client_close(c);
    host_end(h);
}

/* ---- the connection ends meanwhile */

static _Atomic int late_answer; /* what ioh_respond() said */

static void answer_when_it_is_gone(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    uint64_t until = host_now_ms() + PATIENCE_MS;
    if (path_is(req, "/ping")) {
        answer_ok(req, h);
        return;
    }
    CHECK(h, ioh_conn_gone(conn) == 0);
    be_late(h);
    while (!ioh_conn_gone(conn) && host_now_ms() < until)
        usleep(100);
    CHECK(h, ioh_conn_gone(conn) == 1);
    CHECK(h, path_is(req, "/gone"));
    late_answer = ioh_respond(req, 200, NULL, 0, "ok", 2);
    CHECK(h, ioh_conn_get_id(conn) == host_seen(conn)->id);
}

static void a_connection_that_dies_under_a_late_callback_waits_for_it(void **state)
{
    for (int how = 0; how < 3; how++) {
        struct host *h = late_host(state, answer_when_it_is_gone);
        struct client *c = client_open(h);
        client_request(c, "GET", "/gone", "");
        WAIT(h, gate.inside == 1);
        late_answer = 1;
        if (how == 0)
            client_abort(c);
        else if (how == 1)
            assert_int_equal(ioh_post_abort(h->server, h->last_id), 0);
        else
            client_finish(c); /* half: the answer may still come */
        others_are_served(h);
        WAIT(h, h->opens == 2 && h->closes == 1);
        open_gate();
        if (how == 2)
            assert_int_equal(client_answer(c), 200);
        WAIT(h, h->closes == 2);
        assert_int_equal(h->completes, 2);
        assert_int_equal(h->last_status, how == 2 ? 200 : 0);
        if (how == 1)
            assert_int_equal(late_answer, IOH_EGONE);
        client_close_all();
        host_end(h);
    }
}

/* ---- deadlines are the peer's, not the host's */

static void take_long(ioh_req *req, void *state)
{
    (void)req;
    (void)state;
    usleep(500000);
}

static void take_long_and_answer(ioh_req *req, void *state)
{
    take_long(req, state);
    answer_ok(req, state);
}

static void body_takes_long(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    take_long(req, state);
}

static void take_long_to_route(ioh_req *req, struct ioh_route *route, void *state)
{
    (void)route;
    take_long(req, state);
}

static int take_long_to_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)accept;
    take_long(req, state);
    return 0;
}

static void a_callback_may_take_longer_than_the_peer_may(void **state)
{
    static const int32_t execs[] = {IOH_EXEC_AUTO, IOH_EXEC_POOL};
    for (size_t i = 0; i < 2; i++) {
        struct host *h = host_new(state);
        struct host_config config = *h->config;
        config.exec = h->options.exec = execs[i];
        h->config = &config;
        h->on.on_classify = i == 0 ? take_long_to_route : NULL; /* under POOL it must be quick */
        h->on.on_request = answer_nothing;
        h->on.on_body = body_takes_long;
        h->on.on_request_end = take_long_and_answer;
        h->on.on_ws_upgrade = take_long_to_upgrade;
        h->on.on_ws_message = echo;
        h->options.head_timeout_ms = h->options.body_timeout_ms = 200;
        h->options.idle_timeout_ms = 5000;
        host_start(h);
        struct client *c = client_open(h);
        client_send(c, "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nbytes");
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "ok");
        client_request(c, "GET", "/x", "");
        assert_int_equal(client_answer(c), 200);
        client_close(c);
        c = client_ws_open(h, "/ws");
        client_ws_leave(c);
        assert_int_equal(host_stats(h).closed_by_deadline, 0);
        host_end(h);
    }
}

/* The other way round: what the callback took is not the peer's to take. */
static void after_a_long_callback_the_peers_deadline_still_holds(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = take_long;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_ok;
    h->options.body_timeout_ms = 300;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nby");
    assert_int_equal(client_answer(c), 408);
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

/* ---- a stop */

static void late_ok(ioh_req *req, void *state)
{
    if (path_is(req, "/late"))
        be_late(state);
    answer_ok(req, state);
}

static void a_stop_waits_for_a_late_callback_and_its_answer(void **state)
{
    struct host *h = late_host(state, late_ok);
    struct client *c = client_open(h);
    client_request(c, "GET", "/late", "");
    WAIT(h, gate.inside == 1);
    host_begin_stop(h, LONG_DRAIN_MS);
    WAIT(h, atomic_load(&h->server->hubs[0]->stopping)); /* by whoever took the loop */
    open_gate();
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "close");
    client_expect_end(c);
    assert_int_equal(host_end_stop(h), 0);
    host_free(h);
}

/* ---- waiting for a slow reader */

enum { RIVER = 533 * PIECE }; /* more than a socket takes */

static void wait_for_the_reader(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/ping")) {
        answer_ok(req, h);
        return;
    }
    uint8_t *bytes = pattern(RIVER);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, RIVER) >= 0);
    for (size_t at = 0; at < RIVER; at += PIECE) {
        if (ioh_respond_data(req, bytes + at, PIECE) != IOH_QUEUED)
            continue;
        atomic_store(&gate.inside, 1);
        CHECK(h, ioh_wait_sent(ioh_req_conn(req), PATIENCE_MS) == 0);
        CHECK(h, ioh_conn_queued(ioh_req_conn(req)) <= 65536 / 4);
    }
    CHECK(h, ioh_respond_end(req) >= 0);
    free(bytes);
}

static void a_callback_that_waits_for_its_reader_gives_its_loop_away(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = wait_for_the_reader;
    h->options.send_high = 65536;
    host_start(h);
    shut_gate();
    struct client *c = client_open(h);
    client_request(c, "GET", "/river", "");
    WAIT(h, gate.inside == 1);
    for (int i = 0; i < 5; i++)
        others_are_served(h);
    assert_int_equal(client_answer(c), 200);
    assert_true(c->body_len == RIVER && is_pattern(c->body, RIVER));
    client_close(c);
    host_end(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LATE_TEST(a_batch_with_a_late_callback_in_it_is_answered_whole_and_in_order),
        LATE_TEST(a_stream_goes_on_behind_what_was_queued_before),
        LATE_TEST(messages_of_a_late_callback_stay_in_order),
        LATE_TEST(calls_of_a_late_callback_do_what_they_say),
        LATE_TEST(a_late_callback_may_close_its_websocket),
        LATE_TEST(a_connection_that_dies_under_a_late_callback_waits_for_it),
        LATE_TEST(a_callback_may_take_longer_than_the_peer_may),
        LATE_TEST(after_a_long_callback_the_peers_deadline_still_holds),
        LATE_TEST(a_stop_waits_for_a_late_callback_and_its_answer),
        LATE_TEST(a_callback_that_waits_for_its_reader_gives_its_loop_away),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

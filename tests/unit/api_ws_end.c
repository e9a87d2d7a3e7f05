/* WebSockets: how they end, the send queue, frames shared by many. */
#include "support/common.h"

/* ---- the end */

static struct {
    pthread_mutex_t lock;
    int code;
    char reason[130];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)conn;
    (void)state;
    pthread_mutex_lock(&told.lock);
    told.code = code;
    snprintf(told.reason, sizeof told.reason, "%.*s", (int)len, len ? reason : "");
    pthread_mutex_unlock(&told.lock);
}

static void close_as_told(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)op;
    int code = 0, at = 0;
    char text[150];
    snprintf(text, sizeof text, "%.*s", (int)len, (char *)data);
    CHECK(h, host_seen(conn)->number == 0); /* dropped once our Close is out */
    if (sscanf(text, "close %d %n", &code, &at) >= 1) {
        CHECK(h, ioh_ws_close(conn, code, text + at, strlen(text + at)) == 0);
        host_seen(conn)->number = 1;
    }
}

static struct host *closing_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = close_as_told;
    h->on.on_ws_close = note_close;
    host_start(h);
    return h;
}

#define REASON123                                                                                 \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890" \
    "12345678901234567890123456789012"

static void the_peers_close_is_answered_and_told_with_code_and_reason(void **state)
{
    static const struct {
        int code;
        const char *reason;
    } cases[] = {{1000, "bye"},     {1001, ""}, {1003, "\xe2\x82\xac"}, {1011, "x"}, {3000, ""},
                 {4999, REASON123}, {0, ""}};
    struct host *h = closing_host(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client *c = client_ws_open(h, "/");
        client_ws_close(c, cases[i].code, cases[i].reason);
        assert_int_equal(client_ws_read(c), 8);
        assert_int_equal(client_ws_code(c), cases[i].code);
        client_expect_end(c);
        assert_false(c->reset);
        client_close(c);
        WAIT(h, h->closes == (int)i + 1);
        assert_int_equal(told.code, cases[i].code ? cases[i].code : 1005);
        assert_string_equal(told.reason, cases[i].reason);
    }
    assert_int_equal(host_stats(h).ws_failed, 0);
    host_end(h);
}

static void the_hosts_close_is_sent_and_the_peers_answer_is_told(void **state)
{
    static const char *const orders[] = {"close 0 ", "close 1000 ", "close 1001 going",
                                         "close 4000 \xe2\x82\xac", ("close 3333 " REASON123)};
    struct host *h = closing_host(state);
    for (int i = 0; i < 5; i++) {
        struct client *c = client_ws_open(h, "/");
        int code = atoi(orders[i] + 6);
        client_ws_send(c, IOH_WS_TEXT, orders[i]);
        assert_int_equal(client_ws_read(c), 8);
        assert_int_equal(client_ws_code(c), code);
        assert_string_equal((char *)c->body + (code ? 2 : 0), strchr(orders[i] + 6, ' ') + 1);
        client_ws_send(c, IOH_WS_TEXT, "too late: dropped");
        client_ws_close(c, 1000, "yes");
        client_expect_end(c);
        client_close(c);
        WAIT(h, h->closes == i + 1);
        assert_int_equal(told.code, 1000);
        assert_string_equal(told.reason, "yes");
    }
    host_end(h);
}

static void broken_connection_is_told_as_1006(void **state)
{
    struct host *h = closing_host(state);
    for (int i = 1; i <= 3; i++) {
        struct client *c = client_ws_open(h, "/");
        if (i == 1)
            client_ws_frame(c, IOH_WS_TEXT, "half", 4); /* and a context is on loan */
        if (i == 2)
            client_abort(c);
        else
            client_close(c);
        WAIT(h, h->closes == i);
        assert_int_equal(told.code, 1006);
        assert_string_equal(told.reason, "");
        told.code = 0;
    }
    host_end(h);
}

static void protocol_errors_end_the_websocket_with_their_code(void **state)
{
    struct host *h = closing_host(state);
    struct client *c = client_ws_open(h, "/");
    client_ws_frame(c, 0x83, "x", 1); /* no such opcode */
    assert_int_equal(client_ws_read(c), 8);
    assert_int_equal(client_ws_code(c), 1002);
    client_wait_end(c);
    client_close(c);
    c = client_ws_open(h, "/");
    client_ws_frame(c, 0x81, "\xff\xff", 2);
    assert_int_equal(client_ws_read(c), 8);
    assert_int_equal(client_ws_code(c), 1007);
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 2);
    assert_int_equal(host_stats(h).ws_failed, 2);
    assert_int_equal(h->ws_messages, 0);
    host_end(h);
}

/* ---- the queue */

static uint8_t *bytes;

static void flood(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    int rc = 0, sent = 0;
    (void)data;
    if (len == 0) { /* to be answered behind all */
        CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "end", 3) >= 0);
        return;
    }
    while (rc == 0) {
        rc = ioh_ws_send(conn, op, bytes, 20000);
        sent++;
    }
    CHECK(h, rc == IOH_QUEUED && (sent == 5 || (sent > 5 && !host_is_direct(h))));
    rc = ioh_ws_send(conn, op, bytes, 20000);
    CHECK(h, rc == IOH_QUEUED || (rc == 0 && !host_is_direct(h)));
}

static void queued_messages_are_followed_by_one_drain(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(20000);
    h->options.send_high = 100000;
    h->on.on_ws_message = flood;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (int round = 1; round <= 3; round++) {
        client_ws_send(c, IOH_WS_BINARY, "go");
        client_ws_send(c, IOH_WS_BINARY, "");
        int frames = 0;
        for (; client_ws_read(c) == IOH_WS_BINARY; frames++)
            assert_true(c->body_len == 20000 && is_pattern(c->body, 20000));
        assert_true(frames == 6 || (frames > 6 && !host_is_direct(h)));
        assert_int_equal(c->op, IOH_WS_TEXT);
        WAIT(h, h->drains >= round);
    }
    client_ws_leave(c);
    assert_in_range(h->drains, 3, host_is_direct(h) ? 3 : 6);
    host_end(h);
    free(bytes);
}

static void echo_and_watch_queue(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    echo(conn, op, data, len, state);
    CHECK(h, ioh_conn_queued(conn) <= 100000 + 50100);
}

static void *write_much(void *arg)
{
    for (int i = 0; i < 200; i++)
        client_ws_frame(arg, 0x82, bytes, 50000);
    return NULL;
}

/* 10 MB are on their way through a queue of 150,000 bytes: reading stops when it is full. */
static void peer_that_reads_late_is_not_read_from_meanwhile(void **state)
{
    struct host *h = host_new(state);
    pthread_t writer;
    bytes = pattern(50000);
    h->options.send_high = 100000;
    h->on.on_ws_message = echo_and_watch_queue;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    assert_int_equal(pthread_create(&writer, NULL, write_much, c), 0);
    WAIT(h, h->ws_messages >= 2);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, 50000);
        assert_true(is_pattern(c->body, 50000));
    }
    pthread_join(writer, NULL);
    client_ws_leave(c);
    assert_int_equal(h->ws_messages, 200);
    host_end(h);
    free(bytes);
}

static void overfill(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    int rc = 0;
    (void)data;
    (void)len;
    int most = host_is_direct(h) ? 100 : 3000; /* the kernel may take some before it is full */
    for (int i = 0; i < most && rc >= 0; i++)
        rc = i % 2 ? ioh_ws_send(conn, op, bytes, 20000)
                   : ioh_ws_send_buf(conn, op, ioh_buf_copy(bytes, 20000));
    CHECK(h, rc == IOH_EFULL);
    rc = ioh_ws_send(conn, op, bytes, 1);
    CHECK(h, rc == IOH_EGONE || (rc == IOH_EFULL && !host_is_direct(h)));
}

static void queue_above_send_max_aborts_the_websocket(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(20000);
    h->options.send_high = 100000;
    h->options.send_max = 400000;
    h->on.on_ws_message = overfill;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_BINARY, "go");
    WAIT(h, h->closes == 1);
    client_wait_end(c);
    client_close(c);
    assert_int_equal(h->last_ws_code, 1006);
    assert_int_equal(host_stats(h).send_full, 1);
    host_end(h);
    free(bytes);
}

/* ---- sharing */

#define MANY 100

static atomic_int releases;

static void send_shared(ioh_conn *conn, void *user)
{
    struct host *h = ioh_conn_user(conn) ? host_of_thread : NULL;
    CHECK(h, ioh_ws_send_buf(conn, IOH_WS_BINARY, user) >= 0);
}

static void drop_shared(void *user)
{
    ioh_buf_unref(user);
}

static void connect_many(struct host *h, struct client **c, ioh_conn_id *ids)
{
    for (int i = 0; i < MANY; i++) {
        c[i] = client_ws_open(h, "/");
        WAIT(h, h->ws_opens == i + 1);
        ids[i] = h->last_id;
    }
}

static void one_buf_goes_to_many_and_is_released_once(void **state)
{
    struct host *h = host_new(state);
    struct client *c[MANY];
    ioh_conn_id ids[MANY];
    bytes = pattern(20000);
    releases = 0;
    h->on.on_ws_message = echo;
    host_start(h);
    connect_many(h, c, ids);
    ioh_buf *buf = counted_buf(bytes, 20000, &releases);
    assert_ptr_equal(ioh_buf_data(buf), bytes);
    assert_int_equal(ioh_buf_len(buf), 20000);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(host_run_on(h, ids[i], send_shared, ioh_buf_ref(buf), drop_shared), 0);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(releases, 0); /* ours is still there */
        assert_int_equal(client_ws_read(c[i]), IOH_WS_BINARY);
        assert_int_equal(c[i]->body_len, 20000);
        assert_true(is_pattern(c[i]->body, 20000));
    }
    ioh_buf_unref(buf);
    WAIT(h, releases == 1);
    client_close_all();
    host_end(h);
    assert_int_equal(releases, 1);
    free(bytes);
}

static void one_frame_goes_to_many(void **state)
{
    struct host *h = host_new(state);
    struct client *c[MANY];
    ioh_conn_id ids[MANY];
    bytes = pattern(20000);
    h->on.on_ws_message = echo;
    host_start(h);
    connect_many(h, c, ids);
    ioh_buf *small = ioh_ws_frame(IOH_WS_TEXT, "to all", 6);
    ioh_buf *big = ioh_ws_frame(IOH_WS_BINARY, bytes, 20000);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ioh_ws_post(h->server, ids[i], ioh_buf_ref(small)), 0);
        assert_int_equal(ioh_ws_post(h->server, ids[i], ioh_buf_ref(big)), 0);
    }
    ioh_buf_unref(small);
    ioh_buf_unref(big);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(client_ws_read(c[i]), IOH_WS_TEXT);
        assert_body(c[i], "to all");
        assert_int_equal(client_ws_read(c[i]), IOH_WS_BINARY);
        assert_true(c[i]->body_len == 20000 && is_pattern(c[i]->body, 20000));
    }
    WAIT(h, host_stats(h).ws_messages_sent == 2 * MANY);
    client_close_all();
    host_end(h);
    free(bytes);
}

static void buf_is_counted_and_may_be_empty_or_static(void **state)
{
    (void)state;
    releases = 0;
    char text[] = "text";
    ioh_buf *buf = counted_buf(text, 4, &releases);
    assert_ptr_equal(ioh_buf_ref(buf), buf);
    ioh_buf_unref(buf);
    assert_int_equal(releases, 0);
    ioh_buf_unref(buf);
    assert_int_equal(releases, 1);
    ioh_buf_unref(NULL);
    buf = ioh_buf_copy(NULL, 0);
    assert_int_equal(ioh_buf_len(buf), 0);
    ioh_buf_unref(buf);
    buf = ioh_buf_wrap(text, 4, NULL, NULL);
    assert_memory_equal(ioh_buf_data(buf), "text", 4);
    ioh_buf_unref(buf);
}

static const struct host_test tests[] = {
    HOST_TEST(the_peers_close_is_answered_and_told_with_code_and_reason),
    HOST_TEST(the_hosts_close_is_sent_and_the_peers_answer_is_told),
    HOST_TEST(broken_connection_is_told_as_1006),
    HOST_TEST(protocol_errors_end_the_websocket_with_their_code),
    HOST_TEST(queued_messages_are_followed_by_one_drain),
    HOST_TEST(peer_that_reads_late_is_not_read_from_meanwhile),
    HOST_TEST(queue_above_send_max_aborts_the_websocket),
    HOST_TEST(one_buf_goes_to_many_and_is_released_once),
    HOST_TEST(one_frame_goes_to_many),
    HOST_TEST_ONCE(buf_is_counted_and_may_be_empty_or_static),
};

HOST_MAIN(tests)

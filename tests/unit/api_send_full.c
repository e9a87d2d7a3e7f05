/* options.send_full = IOH_SEND_FULL_DROP: what finds a WebSocket's queue full is not sent, and the rest of
 * the connection goes on. (IOH_SEND_FULL_CLOSE: api_stream.c, api_ws_end.c.)
 */
#include "support/common.h"

#define PIECE 20000
#define MAX 400000

static uint8_t *bytes;

/* Numbered messages; which of them were accepted. */
enum { MOST = 3000 };
static atomic_bool accepted[MOST];
static atomic_int refused;
static atomic_int sent;

static int send_one(ioh_conn *conn, int op, int way, const void *data, size_t len)
{
    if (way == 0)
        return ioh_ws_send(conn, op, data, len);
    if (way == 1)
        return ioh_ws_send_buf(conn, op, ioh_buf_copy(data, len));
    return ioh_ws_send_frame(conn, ioh_ws_frame(op, data, len));
}

static void send_numbers(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    int drops = 0;
    char *message = malloc(PIECE);
    (void)len;
    (void)data;
    memset(message, 'x', PIECE);
    /* Some more after the first refusals, since each is by itself. */
    for (int i = 0; i < MOST && drops < 10; i++) {
        snprintf(message, 16, "%6d", i);
        int rc = send_one(conn, op, i % 3, message, PIECE);
        CHECK(h, rc == 0 || rc == IOH_QUEUED || rc == IOH_EFULL);
        drops += rc == IOH_EFULL;
        atomic_store(&accepted[i], rc >= 0);
        atomic_store(&sent, i + 1);
    }
    atomic_store(&refused, drops);
    free(message);
}

static struct host *dropping_host(void **state)
{
    struct host *h = host_new(state);
    refused = sent = 0;
    h->options.send_high = 100000;
    h->options.send_max = MAX;
    h->options.send_full = IOH_SEND_FULL_DROP;
    return h;
}

static void what_is_too_much_is_not_sent_and_all_else_arrives_in_order(void **state)
{
    struct host *h = dropping_host(state);
    h->on.on_ws_message = send_numbers;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_BINARY, "go");
    WAIT(h, refused == 10);
    uint64_t dropped = host_stats(h).send_full;
    for (int i = 0; i < sent; i++) {
        if (!accepted[i])
            continue;
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, PIECE);
        assert_int_equal(atoi((char *)c->body), i);
    }
    assert_int_equal(dropped, 10);
    assert_int_equal(ioh_ws_post(h->server, h->last_id, ioh_ws_frame(IOH_WS_TEXT, "on", 2)), 0);
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT); /* nothing more came in between */
    assert_body(c, "on");
    WAIT(h, h->drains >= 1);
    client_ws_leave(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).ws_failed, 0);
    assert_int_equal(h->last_ws_code, 1000);
    host_end(h);
}

/* A message that would never fit: each time, and at once. */
static void send_giant(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    for (int way = 0; way < 3; way++)
        CHECK(h, send_one(conn, op, way, bytes, MAX + 1) == IOH_EFULL);
    echo(conn, op, data, len, state);
}

static void message_above_send_max_is_dropped_even_when_nothing_is_queued(void **state)
{
    struct host *h = dropping_host(state);
    bytes = pattern(MAX + 1);
    h->on.on_ws_message = send_giant;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (int i = 1; i <= 3; i++) {
        client_ws_send(c, IOH_WS_TEXT, "go");
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_body(c, "go");
        assert_int_equal(host_stats(h).send_full, 3 * i);
    }
    client_ws_leave(c);
    host_end(h);
    free(bytes);
}

static atomic_int releases;

static void refused_bufs_are_consumed(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_ws_send_buf(conn, op, counted_buf(bytes, MAX + 1, &releases)) == IOH_EFULL);
    CHECK(h, releases == 1);
    echo(conn, op, data, len, state);
}

static void what_is_dropped_is_given_back(void **state)
{
    struct host *h = dropping_host(state);
    bytes = pattern(MAX + 1);
    releases = 0;
    h->on.on_ws_message = refused_bufs_are_consumed;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "go");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
    free(bytes);
}

/* Posted ones are dropped too, and counted; nobody can be told. */
static void posted_frames_are_dropped_and_counted(void **state)
{
    struct host *h = dropping_host(state);
    bytes = pattern(PIECE);
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 1);
    ioh_buf *frame = ioh_ws_frame(IOH_WS_BINARY, bytes, PIECE);
    int posted = 0;
    while (host_stats(h).send_full < 5 && posted < MOST) {
        assert_int_equal(ioh_ws_post(h->server, h->last_id, ioh_buf_ref(frame)), 0);
        posted++;
        if (posted % 10 == 0) { /* so that they are handled before more are posted */
            int before = h->runs;
            assert_int_equal(host_run_on(h, h->last_id, NULL, NULL, NULL), 0);
            WAIT(h, h->runs > before);
        }
    }
    ioh_buf_unref(frame);
    int before = h->runs;
    assert_int_equal(host_run_on(h, h->last_id, NULL, NULL, NULL), 0);
    WAIT(h, h->runs > before);
    int dropped = (int)host_stats(h).send_full;
    assert_true(dropped >= 5);
    for (int i = 0; i < posted - dropped; i++)
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    client_ws_send(c, IOH_WS_TEXT, "still here");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
    free(bytes);
}

/* An HTTP answer with a hole would be a lie. */
static void answer_too_much(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/whole")) {
        CHECK(h, ioh_respond(req, 200, NULL, 0, bytes, MAX + 1000) == IOH_EFULL);
        return;
    }
    int rc = ioh_respond_start(req, 200, NULL, 0, -1);
    for (int i = 0; i < MOST && rc >= 0; i++)
        rc = ioh_respond_data(req, bytes, PIECE);
    CHECK(h, rc == IOH_EFULL);
}

static void http_answers_still_reset(void **state)
{
    struct host *h = dropping_host(state);
    bytes = pattern(MAX + 1000);
    h->on.on_request = answer_too_much;
    host_start(h);
    for (int i = 1; i <= 2; i++) {
        struct client *c = client_open(h);
        client_request(c, "GET", i == 1 ? "/whole" : "/stream", "");
        WAIT(h, h->closes == i);
        client_read(c, false);
        assert_false(c->whole);
        client_close(c);
        assert_int_equal(host_stats(h).send_full, i);
    }
    host_end(h);
    free(bytes);
}

static const struct host_test tests[] = {
    HOST_TEST(what_is_too_much_is_not_sent_and_all_else_arrives_in_order),
    HOST_TEST(message_above_send_max_is_dropped_even_when_nothing_is_queued),
    HOST_TEST(what_is_dropped_is_given_back),
    HOST_TEST(posted_frames_are_dropped_and_counted),
    HOST_TEST(http_answers_still_reset),
};

HOST_MAIN(tests)

/* The deadlines of options.h: each one comes, and bytes that trickle in do not put it off. Small values,
 * and waiting for the event; nothing asserts how soon it comes.
 */
#include "support/common.h"

/* Sends text again and again until the server says something or ends; answers whether it did. */
static bool dribble(struct client *c, const char *text, size_t len)
{
    for (uint64_t until = host_now_ms() + PATIENCE_MS; host_now_ms() < until;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, 20) == 1)
            return true;
        if (!client_try_write(c, text, len))
            return true;
    }
    return false;
}

static void begin_stream(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/stream"))
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
    else if (!path_is(req, "/later"))
        answer_ok(req, state);
}

static void end_stream(ioh_conn *conn, void *user)
{
    CHECK((struct host *)user, ioh_respond_end(host_seen(conn)->req) == 0);
}

/* ---- head */

static void head_that_does_not_end_is_408(void **state)
{
    struct host *h = host_new(state);
    h->options.head_timeout_ms = 150;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET / HTTP/1.1\r\nHos");
    assert_int_equal(client_answer(c), 408);
    assert_field(c, "Connection", "close");
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_head_timeout, 1);
    assert_int_equal(host_stats(h).requests_refused, 1);
    assert_int_equal(h->requests, 0);
    host_end(h);
}

static void dribbling_does_not_renew_the_head_deadline(void **state)
{
    struct host *h = host_new(state);
    h->options.head_timeout_ms = 150;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200); /* also not on a connection that is kept */
    client_send(c, "GET / HTTP/1.1\r\nX: ");
    assert_true(dribble(c, "x", 1));
    assert_int_equal(client_read(c, false), 408);
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_head_timeout, 1);
    assert_int_equal(host_stats(h).hit_idle_timeout, 0);
    host_end(h);
}

/* ---- idle */

static void idle_connections_are_closed_without_a_word(void **state)
{
    struct host *h = host_new(state);
    h->options.idle_timeout_ms = 150;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *fresh = client_open(h), *used = client_open(h);
    assert_int_equal(client_get(used, "/"), 200);
    client_expect_end(fresh);
    client_expect_end(used);
    assert_false(used->reset);
    WAIT(h, h->closes == 2);
    assert_int_equal(host_stats(h).closed_by_deadline, 2);
    assert_int_equal(host_stats(h).hit_idle_timeout, 2);
    assert_int_equal(host_stats(h).hit_head_timeout, 0);
    assert_int_equal(host_stats(h).requests_refused, 0);
    client_close_all();
    host_end(h);
}

/* Another connection's idle deadline, begun later, shows that the time has passed. */
static void wait_for_an_idle_end(struct host *h)
{
    struct client *idle = client_open(h);
    client_expect_end(idle);
    client_close(idle);
}

static void host_that_thinks_and_websockets_are_not_idle(void **state)
{
    struct host *h = host_new(state);
    h->options.idle_timeout_ms = 100;
    h->options.head_timeout_ms = 100;
    h->options.body_timeout_ms = 100;
    h->options.write_timeout_ms = 100;
    h->options.close_timeout_ms = 100;
    h->on.on_request = begin_stream;
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/stream", "");
    WAIT(h, h->requests == 1);
    ioh_conn_id id = h->last_id;
    struct client *ws = client_ws_open(h, "/");
    for (int i = 0; i < 3; i++)
        wait_for_an_idle_end(h);
    assert_int_equal(host_run_on(h, id, end_stream, h, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    client_send(ws, "\x81\x81\x01\x01\x01\x01\x60");
    assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    client_ws_leave(ws);
    client_close_all();
    host_end(h);
}

/* ---- body */

static struct host *host_for_bodies(void **state, uint32_t body_timeout_ms, uint32_t min_rate)
{
    struct host *h = host_new(state);
    h->options.body_timeout_ms = body_timeout_ms;
    h->options.min_rate = min_rate;
    h->on.on_request = answer_nothing;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_ok;
    host_start(h);
    return h;
}

static void expect_late_body(struct host *h, bool dribbling)
{
    struct client *c = client_open(h);
    client_request(c, "POST", "/", "Content-Length: 100000\r\n");
    client_send(c, "0123456789");
    if (dribbling)
        assert_true(dribble(c, "x", 1));
    assert_int_equal(client_read(c, false), 408);
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_status, 408);
    assert_int_equal(h->completes, 1);
    assert_int_equal(h->request_ends, 0);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_body_timeout, 1);
    host_end(h);
}

static void body_that_stops_is_408(void **state)
{
    expect_late_body(host_for_bodies(state, 150, 1), false);
}

static void body_below_min_rate_is_408(void **state)
{
    expect_late_body(host_for_bodies(state, 150, 1000000), true);
}

/* ---- write */

static uint8_t *large;
#define LARGE 12000000

static void answer_large(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, large, LARGE) == IOH_QUEUED);
}

static struct host *host_for_readers(void **state, uint32_t write_timeout_ms, uint32_t min_rate)
{
    struct host *h = host_new(state);
    large = pattern(LARGE);
    h->options.write_timeout_ms = write_timeout_ms;
    h->options.min_rate = min_rate;
    h->on.on_request = answer_large;
    host_start(h);
    return h;
}

static void peer_that_reads_nothing_is_cut(void **state)
{
    struct host *h = host_for_readers(state, 150, 1);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_write_timeout, 1);
    client_read(c, false);
    assert_false(c->whole);
    client_close(c);
    host_end(h);
    free(large);
}

static void peer_that_reads_below_min_rate_is_cut(void **state)
{
    struct host *h = host_for_readers(state, 150, 100000000);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    char bytes[4000];
    while (recv(c->fd, bytes, sizeof bytes, 0) > 0 && h->closes == 0)
        poll(NULL, 0, 20);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_write_timeout, 1);
    client_close(c);
    host_end(h);
    free(large);
}

static void answer_large_or_wait(ioh_req *req, void *state)
{
    if (ioh_req_content_length(req) == 0)
        answer_large(req, state);
}

static void answer_body(ioh_req *req, void *state)
{
    if (ioh_req_content_length(req) != 0)
        answer_ok(req, state);
}

/* One byte buys a second here: both take more than twice their deadline. */
static void transfers_above_min_rate_may_take_long(void **state)
{
    struct host *h = host_new(state);
    static char bytes[20000];
    large = pattern(LARGE);
    h->options.body_timeout_ms = h->options.write_timeout_ms = 1500;
    h->options.min_rate = 1;
    h->on.on_request = answer_large_or_wait;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_body;
    host_start(h);
    struct client *reader = client_open(h), *writer = client_open(h);
    client_request(reader, "GET", "/", "");
    client_request(writer, "POST", "/", "Transfer-Encoding: chunked\r\n");
    int sent = 0;
    for (uint64_t begin = host_now_ms(); host_now_ms() - begin < 3200; poll(NULL, 0, 40)) {
        client_send(writer, "2\r\nab\r\n");
        sent++;
        WAIT(h, h->bodies == sent);
        assert_true(recv(reader->fd, bytes, sizeof bytes, 0) > 0);
    }
    client_send(writer, "0\r\n\r\n");
    assert_int_equal(client_answer(writer), 200);
    client_close_all();
    WAIT(h, h->closes == 2);
    assert_int_equal(host_stats(h).closed_by_deadline, 0);
    host_end(h);
    free(large);
}

/* ---- close */

static void close_on_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)op;
    (void)data;
    (void)len;
    CHECK((struct host *)state, ioh_ws_close(conn, 1000, "enough", 6) == 0);
}

static void expect_unanswered_close(void **state, bool dribbling)
{
    struct host *h = host_new(state);
    h->options.close_timeout_ms = 150;
    h->on.on_ws_message = close_on_message;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "x");
    assert_int_equal(client_ws_read(c), 8);
    if (dribbling)
        assert_true(dribble(c, "\x81\x81\x01\x01\x01\x01\x60", 7));
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_ws_code, 1006);
    assert_int_equal(h->ws_messages, 1);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_close_timeout, 1);
    host_end(h);
}

static void websocket_close_that_nobody_answers_ends_with_1006(void **state)
{
    expect_unanswered_close(state, false);
}

static void messages_do_not_renew_the_close_deadline(void **state)
{
    expect_unanswered_close(state, true);
}

static void close_at_once(ioh_req *req, void *state)
{
    answer_ok(req, state);
    ioh_close(ioh_req_conn(req));
}

/* The client has read the server's end and neither closes nor stops sending. */
static void lingering_ends_although_the_peer_goes_on(void **state)
{
    struct host *h = host_new(state);
    h->options.close_timeout_ms = 150;
    h->on.on_request = close_at_once;
    host_start(h);
    for (int i = 1; i <= 2; i++) {
        struct client *c = client_open(h);
        assert_int_equal(client_get(c, "/"), 200);
        client_expect_end(c);
        for (uint64_t until = host_now_ms() + PATIENCE_MS;
             h->closes < i && host_now_ms() < until;) {
            if (i == 2)
                client_try_write(c, "more", 4);
            poll(NULL, 0, 10);
        }
        assert_int_equal(h->closes, i);
        assert_int_equal(host_stats(h).hit_close_timeout, i);
        assert_int_equal(host_stats(h).closed_by_deadline, 0);
        client_close(c);
    }
    host_end(h);
}

/* ---- behind a callback that took long */

#define SLOW_MS 400
#define SHORT_MS 250

static void answer_slowly(ioh_req *req, void *state)
{
    if (path_is(req, "/slow"))
        poll(NULL, 0, SLOW_MS);
    if (ioh_req_content_length(req) == 0)
        answer_ok(req, state);
}

/* What lay behind the slow request begins its deadline when that is over, whatever it is. */
static void deadlines_begin_when_the_callback_before_them_is_over(void **state)
{
    static const char *const pieces[][2] = {
        {"", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"GET / HT", "TP/1.1\r\nHost: h\r\n\r\n"},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n", "ab"},
    };
    struct host *h = host_new(state);
    h->options.idle_timeout_ms = h->options.head_timeout_ms = SHORT_MS;
    h->options.body_timeout_ms = SHORT_MS;
    h->on.on_request = answer_slowly;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_body;
    host_start(h);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct client *c = client_open(h);
        char bytes[256];
        snprintf(bytes, sizeof bytes, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n%s", pieces[i][0]);
        client_send(c, bytes);
        assert_int_equal(client_answer(c), 200);
        client_send(c, pieces[i][1]);
        assert_int_equal(client_answer(c), 200);
        client_close(c);
    }
    WAIT(h, h->closes == 3);
    assert_int_equal(host_stats(h).closed_by_deadline, 0);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(head_that_does_not_end_is_408),
    HOST_TEST(dribbling_does_not_renew_the_head_deadline),
    HOST_TEST(idle_connections_are_closed_without_a_word),
    HOST_TEST(host_that_thinks_and_websockets_are_not_idle),
    HOST_TEST(body_that_stops_is_408),
    HOST_TEST(body_below_min_rate_is_408),
    HOST_TEST(peer_that_reads_nothing_is_cut),
    HOST_TEST(peer_that_reads_below_min_rate_is_cut),
    HOST_TEST_IN(transfers_above_min_rate_may_take_long, IN_INLINE | IN_POOL | IN_THREADS),
    HOST_TEST(websocket_close_that_nobody_answers_ends_with_1006),
    HOST_TEST(messages_do_not_renew_the_close_deadline),
    HOST_TEST(lingering_ends_although_the_peer_goes_on),
    HOST_TEST_IN(deadlines_begin_when_the_callback_before_them_is_over, IN_INLINE),
};

HOST_MAIN(tests)

/* A pool whose threads are all busy and whose queue is full: options.pool_full. One thread, a queue of
 * one: a callback that waits on a latch takes the thread, the next one the queue, the third finds it full.
 */
#include "support/common.h"

static struct latch latch;
static ioh_pool *narrow;

static void block_first(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/block"))
        latch_wait(h, &latch);
    answer_ok(req, state);
}

/* Where the server's own threads are others, only these requests go to the narrow pool. */
static void classify_narrow(ioh_req *req, struct ioh_route *route, void *state)
{
    (void)state;
    if (!path_is(req, "/elsewhere")) {
        route->exec = IOH_EXEC_POOL;
        route->pool = narrow;
    }
}

static void slow_echo(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    if (len == 5 && memcmp(data, "block", 5) == 0)
        latch_wait(state, &latch);
    echo(conn, op, data, len, state);
}

static bool own_pool(const struct host *h)
{
    return h->config->exec == IOH_EXEC_POOL;
}

static struct host *narrow_host(void **state, int policy)
{
    struct host *h = host_new(state);
    latch.open = false;
    h->options.pool_full = policy;
    h->on.on_request = block_first;
    h->on.on_ws_message = slow_echo;
    if (own_pool(h)) {
        h->options.pool_threads = 1;
        h->options.pool_queue = 1;
        host_start(h);
    } else {
        h->on.on_classify = classify_narrow;
        host_create(h);
        narrow = host_pool(h, "narrow", 1, 1);
        host_start(h);
    }
    return h;
}

/* Clients whose on_open is through. */
static void open_clients(struct host *h, struct client **c, int count)
{
    for (int i = 0; i < count; i++) {
        int opens = h->opens;
        c[i] = client_open(h);
        WAIT(h, h->opens == opens + 1);
    }
}

/* c[0] takes the thread, c[1] the queue. */
static void fill_pool(struct host *h, struct client **c)
{
    client_request(c[0], "GET", "/block", "");
    WAIT(h, latch.waiting == 1);
    client_request(c[1], "GET", "/queued", "");
    WAIT(h, host_stats(h).pool_waiting == 1);
    assert_int_equal(host_stats(h).pool_full, 0);
}

static void empty_pool(struct client **c)
{
    latch_open(&latch);
    assert_int_equal(client_answer(c[0]), 200);
    assert_int_equal(client_answer(c[1]), 200);
}

/* ---- requests */

static void expect_503(struct client *c)
{
    assert_int_equal(client_answer(c), 503);
    assert_field(c, "Retry-After", "1");
    assert_field(c, "Connection", "close");
}

static void request_is_refused(void **state, int policy)
{
    struct host *h = narrow_host(state, policy);
    struct client *c[3];
    open_clients(h, c, 3);
    fill_pool(h, c);
    client_request(c[2], "GET", "/refused", "");
    expect_503(c[2]); /* while the others still wait */
    client_wait_end(c[2]);
    assert_int_equal(host_stats(h).pool_full, 1);
    assert_int_equal(host_stats(h).requests_refused, 1);
    empty_pool(c);
    client_close_all();
    WAIT(h, h->closes == 3);
    assert_int_equal(h->requests, 2);
    assert_int_equal(h->completes, 2);
    host_end(h);
}

static void request_is_refused_by_default(void **state)
{
    request_is_refused(state, IOH_FULL_DEFAULT);
}

static void request_is_refused_with_503_under_refuse(void **state)
{
    request_is_refused(state, IOH_FULL_REFUSE);
}

static void request_waits_under_wait(void **state)
{
    struct host *h = narrow_host(state, IOH_FULL_WAIT);
    struct client *c[8];
    open_clients(h, c, 8);
    fill_pool(h, c);
    for (int i = 2; i < 8; i++) {
        client_request(c[i], "GET", "/waits", "");
        client_request(c[i], "GET", "/waits-too", "");
    }
    WAIT(h, host_stats(h).pool_full >= 6);
    for (int i = 2; i < 8; i++)
        assert_true(client_is_quiet(c[i]));
    empty_pool(c);
    for (int i = 2; i < 8; i++) {
        assert_int_equal(client_answer(c[i]), 200);
        assert_int_equal(client_answer(c[i]), 200);
    }
    client_close_all();
    WAIT(h, h->closes == 8);
    assert_int_equal(h->requests, 14);
    assert_int_equal(host_stats(h).requests_refused, 0);
    host_end(h);
}

static void connection_is_reset_under_close(void **state)
{
    struct host *h = narrow_host(state, IOH_FULL_CLOSE);
    struct client *c[3];
    open_clients(h, c, 3);
    fill_pool(h, c);
    client_request(c[2], "GET", "/reset", "");
    client_expect_end(c[2]);
    assert_true(c[2]->reset || h->config->unix_socket);
    assert_true(host_stats(h).pool_full >= 1); /* its on_close finds no room either, and waits */
    empty_pool(c);
    client_close_all();
    WAIT(h, h->closes == 3);
    assert_int_equal(h->requests, 2);
    host_end(h);
}

static void block_unless_body(ioh_req *req, void *state)
{
    if (ioh_req_content_length(req) == 0)
        block_first(req, state);
}

static void answer_body(ioh_req *req, void *state)
{
    if (ioh_req_content_length(req) != 0)
        answer_ok(req, state);
}

/* What has begun is not refused: its next callbacks wait for room. */
static void rest_of_a_request_that_has_begun_waits(void **state)
{
    struct host *h = host_new(state);
    struct client *c[3];
    latch.open = false;
    h->options.pool_full = IOH_FULL_REFUSE;
    h->options.pool_threads = 1;
    h->options.pool_queue = 1;
    h->on.on_request = block_unless_body;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_body;
    host_start(h);
    open_clients(h, c, 3);
    client_request(c[2], "POST", "/", "Content-Length: 6\r\n");
    client_send(c[2], "abc");
    WAIT(h, h->bodies == 1);
    fill_pool(h, c);
    client_send(c[2], "def");
    WAIT(h, host_stats(h).pool_full == 1);
    assert_true(client_is_quiet(c[2]));
    empty_pool(c);
    assert_int_equal(client_answer(c[2]), 200);
    assert_int_equal(h->bodies, 2);
    assert_int_equal(host_stats(h).requests_refused, 0);
    client_close_all();
    host_end(h);
}

/* ---- WebSockets */

/* ws[0] takes the thread, ws[1] the queue. */
static void fill_pool_by_messages(struct host *h, struct client **ws)
{
    client_ws_send(ws[0], IOH_WS_TEXT, "block");
    WAIT(h, latch.waiting == 1);
    client_ws_send(ws[1], IOH_WS_TEXT, "queued");
    WAIT(h, host_stats(h).pool_waiting == 1);
}

static void open_websockets(struct host *h, struct client **ws, int count)
{
    for (int i = 0; i < count; i++) {
        int opens = h->ws_opens;
        ws[i] = client_ws_open(h, "/");
        WAIT(h, h->ws_opens == opens + 1);
    }
}

static void expect_echo(struct client *ws, const char *text)
{
    assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    assert_body(ws, text);
}

static void messages_wait(void **state, int policy)
{
    struct host *h = narrow_host(state, policy);
    struct client *ws[6];
    char text[40];
    open_websockets(h, ws, 6);
    fill_pool_by_messages(h, ws);
    for (int i = 2; i < 6; i++) {
        for (int k = 0; k < 20; k++) {
            snprintf(text, sizeof text, "%d of %d", k, i);
            client_ws_send(ws[i], IOH_WS_TEXT, text);
        }
    }
    WAIT(h, host_stats(h).pool_full >= 4);
    for (int i = 2; i < 6; i++)
        assert_true(client_is_quiet(ws[i]));
    latch_open(&latch);
    expect_echo(ws[0], "block");
    expect_echo(ws[1], "queued");
    for (int i = 2; i < 6; i++) { /* nothing is lost, nothing is out of order */
        for (int k = 0; k < 20; k++) {
            snprintf(text, sizeof text, "%d of %d", k, i);
            expect_echo(ws[i], text);
        }
    }
    for (int i = 0; i < 6; i++)
        client_ws_leave(ws[i]);
    assert_int_equal(host_stats(h).ws_failed, 0);
    host_end(h);
}

static void messages_wait_by_default(void **state)
{
    messages_wait(state, IOH_FULL_DEFAULT);
}

static void messages_wait_under_wait(void **state)
{
    messages_wait(state, IOH_FULL_WAIT);
}

static void message_under_refuse_closes_with_1013(void **state)
{
    struct host *h = narrow_host(state, IOH_FULL_REFUSE);
    struct client *ws[3];
    open_websockets(h, ws, 3);
    fill_pool_by_messages(h, ws);
    client_ws_send(ws[2], IOH_WS_TEXT, "refused");
    assert_int_equal(client_ws_read(ws[2]), 8);
    assert_int_equal(client_ws_code(ws[2]), 1013);
    assert_int_equal(host_stats(h).pool_full, 1);
    client_ws_close(ws[2], 1013, "");
    latch_open(&latch);
    client_expect_end(ws[2]);
    expect_echo(ws[0], "block");
    expect_echo(ws[1], "queued");
    client_ws_leave(ws[0]);
    client_ws_leave(ws[1]);
    WAIT(h, h->ws_closes == 3);
    assert_int_equal(h->ws_messages, 2);
    client_close_all();
    host_end(h);
}

static void message_under_close_resets(void **state)
{
    struct host *h = narrow_host(state, IOH_FULL_CLOSE);
    struct client *ws[3];
    open_websockets(h, ws, 3);
    fill_pool_by_messages(h, ws);
    client_ws_send(ws[2], IOH_WS_TEXT, "reset");
    client_expect_end(ws[2]);
    assert_true(ws[2]->reset || h->config->unix_socket);
    assert_true(host_stats(h).pool_full >= 1);
    latch_open(&latch);
    expect_echo(ws[0], "block");
    expect_echo(ws[1], "queued");
    WAIT(h, h->ws_closes == 1);
    assert_int_equal(h->last_ws_code, 1006);
    client_ws_leave(ws[0]);
    client_ws_leave(ws[1]);
    client_close_all();
    host_end(h);
}

/* An upgrade begins something, so it is refused like a request. */
static int say_yes(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)req;
    (void)accept;
    (void)state;
    return 0;
}

static void upgrade_is_refused_by_default(void **state)
{
    struct host *h = host_new(state);
    struct client *c[3];
    latch.open = false;
    h->options.pool_threads = 1;
    h->options.pool_queue = 1;
    h->on.on_request = block_first;
    h->on.on_ws_upgrade = say_yes;
    h->on.on_ws_message = slow_echo;
    host_start(h);
    open_clients(h, c, 3);
    fill_pool(h, c);
    client_request(c[2], "GET", "/ws", WS_UPGRADE);
    expect_503(c[2]);
    empty_pool(c);
    assert_int_equal(h->upgrades, 0);
    client_close_all();
    WAIT(h, h->closes == 3);
    host_end(h);
}

/* ---- stop */

static void stop_with_a_full_pool_answers_everybody_who_was_let_in(void **state)
{
    struct host *h = narrow_host(state, IOH_FULL_WAIT);
    struct client *c[6];
    open_clients(h, c, 6);
    fill_pool(h, c);
    for (int i = 2; i < 6; i++)
        client_request(c[i], "GET", "/waits", "");
    WAIT(h, host_stats(h).pool_full >= 4);
    host_begin_stop(h, LONG_DRAIN_MS);
    poll(NULL, 0, 20);
    empty_pool(c);
    for (int i = 2; i < 6; i++)
        assert_int_equal(client_answer(c[i]), 200);
    client_close_all();
    assert_int_equal(host_end_stop(h), 0);
    host_end(h);
}

#define IN_NARROW (IN_INLINE | IN_AUTO | IN_POOL | IN_AFFINE | IN_ONE_LOOP | IN_UNIX)
static const struct host_test tests[] = {
    HOST_TEST_IN(request_is_refused_by_default, IN_NARROW),
    HOST_TEST_IN(request_is_refused_with_503_under_refuse, IN_NARROW),
    HOST_TEST_IN(request_waits_under_wait, IN_NARROW),
    HOST_TEST_IN(connection_is_reset_under_close, IN_NARROW),
    HOST_TEST_IN(rest_of_a_request_that_has_begun_waits, IN_POOL),
    HOST_TEST_IN(messages_wait_by_default, IN_NARROW),
    HOST_TEST_IN(messages_wait_under_wait, IN_NARROW),
    HOST_TEST_IN(message_under_refuse_closes_with_1013, IN_NARROW),
    HOST_TEST_IN(message_under_close_resets, IN_NARROW),
    HOST_TEST_IN(upgrade_is_refused_by_default, IN_POOL),
    HOST_TEST_IN(stop_with_a_full_pool_answers_everybody_who_was_let_in, IN_NARROW),
};

HOST_MAIN(tests)

/* Handlers that block past the stop: it returns within its bound and says so, and nothing that they use is
 * freed before they have come back.
 */
#include "support/common.h"

static struct latch latch;
static atomic_int reported;

/* What a host may still do when its callback comes back after the stop. */
static void use_everything(struct host *h, ioh_conn *conn)
{
    char text[64];
    ioh_conn_peer(conn, text, sizeof text);
    CHECK(h, *text);
    CHECK(h, ioh_conn_get_id(conn) == host_seen(conn)->id);
    CHECK(h, ioh_conn_server(conn) == h->server);
    CHECK(h, ioh_conn_listener(conn) == 0);
    CHECK(h, ioh_conn_queued(conn) < 1000000);
    ioh_pause(conn);
    ioh_resume(conn);
    CHECK(h, ioh_post_close(h->server, host_seen(conn)->id) == IOH_EGONE);
    CHECK(h, ioh_server_threads(h->server) == 0);
    CHECK(h, ioh_server_stop(h->server, 0) == IOH_ESTATE);
}

static void outlast(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/quick")) {
        answer_ok(req, state);
        return;
    }
    latch_wait(h, &latch);
    use_everything(h, ioh_req_conn(req));
    CHECK(h, path_is(req, "/stuck/in/the/handler"));
    CHECK(h, str_is(ioh_req_header(req, "host"), "test"));
    if (h->config->exec != IOH_EXEC_INLINE && !host_has_threads_for_each(h)) {
        /* The loop has aborted it meanwhile; a thread that is its own loop learns it now. */
        CHECK(h, ioh_conn_gone(ioh_req_conn(req)) == 1);
        CHECK(h, ioh_respond(req, 200, NULL, 0, "late", 4) == IOH_EGONE);
    } else {
        int rc = ioh_respond(req, 200, NULL, 0, "late", 4);
        CHECK(h, rc == 0 || rc == IOH_EGONE);
    }
}

static void outlast_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    latch_wait(h, &latch);
    use_everything(h, conn);
    CHECK(h, op == IOH_WS_TEXT && len == 5 && memcmp(data, "stuck", 5) == 0);
    int rc = ioh_ws_send(conn, IOH_WS_TEXT, "late", 4);
    CHECK(h, rc == IOH_EGONE || rc == IOH_ESTATE || host_is_direct(h));
}

static void see_report(int level, const char *text, void *state)
{
    (void)state;
    if (level == IOH_LOG_WARN && strstr(text, "not returned"))
        atomic_fetch_add(&reported, 1);
}

static struct host *outlasting_host(void **state)
{
    struct host *h = host_new(state);
    latch.open = false;
    reported = 0;
    h->on.on_request = outlast;
    h->on.on_ws_message = outlast_message;
    h->on.on_log = see_report;
    host_start(h);
    return h;
}

static void *open_latch(void *arg)
{
    poll(NULL, 0, 100);
    (void)arg;
    latch_open(&latch);
    return NULL;
}

/* Stops with 100 ms of drain while somebody is stuck. */
static void stop_in_spite(struct host *h)
{
    uint64_t begin = host_now_ms();
    assert_int_equal(ioh_server_stop(h->server, 100), IOH_ETIMEOUT);
    h->running = false;
    assert_true(host_now_ms() - begin >= 100);
    assert_true(host_now_ms() - begin < PATIENCE_MS / 2); /* the latch is still shut */
    assert_true(latch.waiting > 0);
    assert_int_equal(ioh_server_threads(h->server), 0);
    assert_int_equal(ioh_server_stop(h->server, 0), IOH_ESTATE);
    struct ioh_stats stats = host_stats(h);
    assert_true(stats.accepted > 0);
}

/* Destroys while it is stuck: it waits, and then everything has had its end. */
static void destroy_and_check(struct host *h)
{
    pthread_t opener;
    assert_int_equal(pthread_create(&opener, NULL, open_latch, NULL), 0);
    ioh_server_destroy(h->server);
    h->server = NULL;
    assert_true(latch.open); /* not before */
    pthread_join(opener, NULL);
    if (h->faults)
        fail_msg("%d faults, the first: %s", h->faults, h->fault);
    assert_int_equal(h->opens, h->closes);
    assert_int_equal(h->requests, h->completes);
    assert_int_equal(h->ws_opens, h->ws_closes);
    assert_int_equal(h->thread_starts, h->thread_stops);
}

/* Whose loop is not stuck itself says who is. */
static void expect_report(struct host *h)
{
    if (h->config->exec != IOH_EXEC_INLINE && !host_has_threads_for_each(h))
        assert_true(reported > 0);
}

static void stop_returns_within_its_bound_and_destroy_waits(void **state)
{
    struct host *h = outlasting_host(state);
    struct client *c = client_open(h), *other;
    WAIT(h, h->opens == 1); /* two at once, on two loops, may get the same work thread */
    other = client_open(h);
    client_request(c, "GET", "/stuck/in/the/handler", "");
    WAIT(h, latch.waiting == 1);
    if (h->config->epoll_threads != 1 && h->config->exec != IOH_EXEC_INLINE)
        assert_int_equal(client_get(other, "/quick"), 200);
    stop_in_spite(h);
    expect_report(h);
    if (h->config->exec != IOH_EXEC_INLINE && !host_has_threads_for_each(h)) {
        client_expect_end(c); /* aborted, although its handler is still at it */
        assert_true(c->reset || h->config->unix_socket);
    }
    destroy_and_check(h);
    client_close_all();
    host_end(h);
}

static void several_may_be_stuck(void **state)
{
    struct host *h = outlasting_host(state);
    for (int i = 0; i < 2; i++) { /* one after the other: on two loops, and two work threads */
        client_request(client_open(h), "GET", "/stuck/in/the/handler", "");
        WAIT(h, latch.waiting == i + 1);
    }
    stop_in_spite(h);
    expect_report(h);
    destroy_and_check(h);
    client_close_all();
    host_end(h);
}

static void message_handler_may_be_stuck(void **state)
{
    struct host *h = outlasting_host(state);
    client_ws_send(client_ws_open(h, "/"), IOH_WS_TEXT, "stuck");
    WAIT(h, latch.waiting == 1);
    stop_in_spite(h);
    expect_report(h);
    destroy_and_check(h);
    assert_int_equal(h->last_ws_code, 1006);
    client_close_all();
    host_end(h);
}

static void stuck_close(ioh_conn *conn, void *state)
{
    struct host *h = state;
    latch_wait(h, &latch);
    CHECK(h, ioh_conn_get_id(conn) == host_seen(conn)->id);
}

static void even_on_close_may_be_stuck(void **state)
{
    struct host *h = host_new(state);
    latch.open = false;
    h->on.on_close = stuck_close;
    host_start(h);
    struct client *c = client_open(h);
    WAIT(h, h->opens == 1);
    client_close(c);
    WAIT(h, latch.waiting == 1);
    stop_in_spite(h);
    destroy_and_check(h);
    host_end(h);
}

static void run_stuck(ioh_conn *conn, void *user)
{
    struct host *h = user;
    latch_wait(h, &latch);
    use_everything(h, conn);
}

static void run_on_may_be_stuck(void **state)
{
    struct host *h = outlasting_host(state);
    client_open(h);
    WAIT(h, h->opens == 1);
    assert_int_equal(host_run_on(h, h->last_id, run_stuck, h, NULL), 0);
    WAIT(h, latch.waiting == 1);
    /* These wait for it, and end as gone. */
    for (int i = 0; i < 5; i++)
        assert_int_equal(host_run_on(h, h->last_id, NULL, NULL, NULL), 0);
    stop_in_spite(h);
    destroy_and_check(h);
    assert_int_equal(h->runs + h->gones, 6);
    client_close_all();
    host_end(h);
}

/* The callback comes back after stop() has given up, and long before destroy(). */
static void late_callback_may_come_back_between_stop_and_destroy(void **state)
{
    struct host *h = outlasting_host(state);
    client_request(client_open(h), "GET", "/stuck/in/the/handler", "");
    WAIT(h, latch.waiting == 1);
    stop_in_spite(h);
    latch_open(&latch);
    WAIT(h, h->closes == 1 && h->completes == 1);
    destroy_and_check(h);
    client_close_all();
    host_end(h);
}

static void wait_and_answer(ioh_req *req, void *state)
{
    latch_wait(state, &latch);
    answer_ok(req, state);
}

static void handler_that_ends_within_the_drain_is_waited_for(void **state)
{
    struct host *h = host_new(state);
    pthread_t opener;
    latch.open = false;
    h->on.on_request = wait_and_answer;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, latch.waiting == 1);
    host_begin_stop(h, LONG_DRAIN_MS);
    assert_int_equal(pthread_create(&opener, NULL, open_latch, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    client_expect_end(c);
    pthread_join(opener, NULL);
    assert_int_equal(host_end_stop(h), 0);
    client_close_all();
    host_end(h);
}

/* On a unix socket, where a shutdown tells them nothing. */
static void who_waits_to_be_accepted_is_let_go_when_the_stop_times_out(void **state)
{
    static const struct host_config unix_inline = {
        "inline, unix", true, IOH_EPOLL, IOH_EXEC_INLINE, 1, 0, 0};
    void *config = (void *)(uintptr_t)&unix_inline;
    (void)state;
    struct host *h = outlasting_host(&config);
    struct client *c = client_open(h), *waiting[3];
    client_request(c, "GET", "/stuck/in/the/handler", "");
    WAIT(h, latch.waiting == 1);
    for (int i = 0; i < 3; i++)
        waiting[i] = client_open(h);
    client_request(waiting[1], "GET", "/quick", "");
    stop_in_spite(h);
    for (int i = 0; i < 3; i++)
        client_expect_end(waiting[i]);
    destroy_and_check(h);
    assert_int_equal(h->opens, 1);
    client_close_all();
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(stop_returns_within_its_bound_and_destroy_waits, IN_TCP),
    HOST_TEST_IN(several_may_be_stuck, IN_WAITING | IN_THREADS),
    HOST_TEST_IN(message_handler_may_be_stuck, IN_TCP),
    HOST_TEST_IN(even_on_close_may_be_stuck, IN_TCP),
    HOST_TEST_IN(run_on_may_be_stuck, IN_TCP),
    HOST_TEST_IN(late_callback_may_come_back_between_stop_and_destroy, IN_TCP),
    HOST_TEST(handler_that_ends_within_the_drain_is_waited_for),
    HOST_TEST_ONCE(who_waits_to_be_accepted_is_let_go_when_the_stop_times_out),
};

HOST_MAIN(tests)

/* on_classify: the host chooses per request, and per WebSocket, which threads run its callbacks. Their
 * names tell where they ran.
 */
#include "support/common.h"

static ioh_pool *slow, *other; /* named pools */

/* Where the callbacks of a connection are to run, as its last path says; in seen->data. Never freed. */
static const struct where {
    const char *path, *threads;
    int32_t exec;
    ioh_pool **pool;
} wheres[] = {
    {"/inline", "ioh-epoll", IOH_EXEC_INLINE, NULL}, {"/pool", "ioh-pool", IOH_EXEC_POOL, NULL},
    {"/affine", "ioh-work", IOH_EXEC_AFFINE, NULL},  {"/slow", "ioh-slow", IOH_EXEC_POOL, &slow},
    {"/other", "ioh-other", IOH_EXEC_POOL, &other},
};
enum { WHERES = sizeof wheres / sizeof *wheres };

static const struct where *where_of(const ioh_req *req)
{
    for (int i = 0; i < WHERES; i++)
        if (path_is(req, wheres[i].path))
            return &wheres[i];
    return NULL;
}

/* Under AUTO the loop may be with a pool thread. */
static void check_thread(struct host *h, const struct seen *s)
{
    const struct where *w = s->data;
    if (!w || host_has_threads_for_each(h))
        return;
    bool anywhere = h->config->exec == IOH_EXEC_AUTO && w->exec == IOH_EXEC_INLINE;
    CHECK(h, thread_is(w->threads) || (anywhere && thread_is("ioh-pool")));
}

static void classify(ioh_req *req, struct ioh_route *route, void *state)
{
    struct host *h = state;
    const struct where *w = where_of(req);
    int32_t configured = host_has_threads_for_each(h) ? 0 : h->config->exec;
    CHECK(h, route->exec == configured);
    if (host_is_direct(h) || h->config->exec != IOH_EXEC_AUTO)
        CHECK(h, host_has_threads_for_each(h) || thread_is("ioh-epoll"));
    host_seen(ioh_req_conn(req))->data = (void *)(uintptr_t)w;
    if (!w)
        return;
    route->exec = w->exec;
    if (w->pool)
        route->pool = *w->pool;
}

static void on_request_where(ioh_req *req, void *state)
{
    check_thread(state, host_seen(ioh_req_conn(req)));
    if (ioh_req_content_length(req) == 0)
        answer_ok(req, state);
}

static void on_body_where(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    check_thread(state, host_seen(ioh_req_conn(req)));
}

static void on_end_where(ioh_req *req, void *state)
{
    check_thread(state, host_seen(ioh_req_conn(req)));
    if (ioh_req_content_length(req) != 0)
        answer_ok(req, state);
}

static void on_complete_where(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct seen *s = host_seen(ioh_req_conn(req));
    (void)bytes;
    CHECK((struct host *)state, status == 200);
    check_thread(state, s);
    s->data = NULL; /* what comes after it is the server's choice again */
}

static int on_upgrade_where(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)accept;
    check_thread(state, host_seen(ioh_req_conn(req)));
    return 0;
}

static void on_ws_where(ioh_conn *conn, void *state)
{
    check_thread(state, host_seen(conn));
}

static void on_message_where(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    check_thread(state, host_seen(conn));
    echo(conn, op, data, len, state);
}

static void on_control_where(ioh_conn *conn, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    check_thread(state, host_seen(conn));
}

static void on_ws_close_where(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)code;
    (void)reason;
    (void)len;
    check_thread(state, host_seen(conn));
}

/* With every kind of thread, as far as the configuration can have them. */
static struct host *classifying_host(void **state)
{
    struct host *h = host_new(state);
    if (!host_has_threads_for_each(h)) {
        h->options.pool_threads = 2;
        if (h->config->exec != IOH_EXEC_AUTO)
            h->options.work_op_threads = 2; /* beside 0 they would select AFFINE */
    }
    h->on.on_classify = classify;
    h->on.on_request = on_request_where;
    h->on.on_body = on_body_where;
    h->on.on_request_end = on_end_where;
    h->on.on_complete = on_complete_where;
    h->on.on_ws_upgrade = on_upgrade_where;
    h->on.on_ws_open = on_ws_where;
    h->on.on_ws_message = on_message_where;
    h->on.on_ws_ping = on_control_where;
    h->on.on_ws_pong = on_control_where;
    h->on.on_ws_close = on_ws_close_where;
    host_create(h);
    slow = host_pool(h, "slow", 2, 0);
    other = host_pool(h, "other", 1, 16);
    host_start(h);
    return h;
}

static bool possible(const struct host *h, const struct where *w)
{
    return w->exec != IOH_EXEC_AFFINE || h->options.work_op_threads || host_has_threads_for_each(h);
}

static void all_callbacks_of_a_request_run_where_it_was_sent(void **state)
{
    struct host *h = classifying_host(state);
    struct client *c = client_open(h);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WHERES; i++) {
            if (!possible(h, &wheres[i]))
                continue;
            assert_int_equal(client_get(c, wheres[i].path), 200);
            client_request(c, "POST", wheres[i].path, "Content-Length: 6\r\n");
            client_send(c, "abc");
            client_send(c, "def");
            assert_int_equal(client_answer(c), 200);
            assert_int_equal(client_get(c, "/default"), 200);
        }
    }
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->classifies, h->requests);
    assert_int_equal(h->logs, 0);
    host_end(h);
}

static void pipelined_requests_go_their_own_ways_in_order(void **state)
{
    struct host *h = classifying_host(state);
    struct client *c = client_open(h);
    int sent = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < WHERES; i++) {
            if (possible(h, &wheres[i])) {
                client_request(c, "GET", wheres[i].path, "");
                sent++;
            }
        }
    }
    for (int i = 0; i < sent; i++)
        assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static void all_callbacks_of_a_websocket_run_where_its_upgrade_was_sent(void **state)
{
    struct host *h = classifying_host(state);
    for (int i = 0; i < WHERES; i++) {
        if (!possible(h, &wheres[i]))
            continue;
        struct client *c = client_ws_open(h, wheres[i].path);
        for (int k = 0; k < 10; k++) {
            client_ws_send(c, IOH_WS_TEXT, "text");
            client_ws_send(c, IOH_WS_PONG, "pong");
            assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        }
        client_ws_send(c, IOH_WS_PING, "ping");
        assert_int_equal(client_ws_read(c), IOH_WS_PONG);
        client_ws_leave(c);
    }
    WAIT(h, h->closes == h->opens);
    assert_int_equal(h->classifies, h->upgrades);
    assert_int_equal(h->ws_pings, h->upgrades);
    assert_int_equal(h->ws_pongs, 10 * h->upgrades);
    host_end(h);
}

/* ---- what it is for */

static struct latch latch;

static void block_slow_ones(ioh_req *req, void *state)
{
    if (path_is(req, "/slow"))
        latch_wait(state, &latch);
    answer_ok(req, state);
}

/* With a named pool for the slow route, all of its threads may be stuck, and more wait: nobody else does. */
static void slow_route_in_a_pool_of_its_own_holds_up_nobody_else(void **state)
{
    struct host *h = host_new(state);
    struct client *c[6], *quick;
    latch.open = false;
    h->on.on_classify = classify;
    h->on.on_request = block_slow_ones;
    host_create(h);
    slow = host_pool(h, "slow", 2, 0);
    host_start(h);
    for (int i = 0; i < 6; i++) {
        c[i] = client_open(h);
        client_request(c[i], "GET", "/slow", "");
    }
    WAIT(h, latch.waiting == (host_has_threads_for_each(h) ? 6 : 2));
    quick = client_open(h);
    for (int i = 0; i < 20; i++)
        assert_int_equal(client_get(quick, "/quick"), 200);
    for (int i = 0; i < 6; i++)
        assert_true(client_is_quiet(c[i]));
    latch_open(&latch);
    for (int i = 0; i < 6; i++)
        assert_int_equal(client_answer(c[i]), 200);
    client_close_all();
    host_end(h);
}

/* ---- choices that cannot be had */

static void classify_badly(ioh_req *req, struct ioh_route *route, void *state)
{
    (void)state;
    if (path_is(req, "/pool"))
        route->exec = IOH_EXEC_POOL;
    else if (path_is(req, "/affine"))
        route->exec = IOH_EXEC_AFFINE;
    else if (path_is(req, "/auto"))
        route->exec = IOH_EXEC_AUTO;
    else if (path_is(req, "/77"))
        route->exec = 77;
    else if (path_is(req, "/-1"))
        route->exec = -1;
}

static void on_the_default_thread(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, thread_is(h->config->exec == IOH_EXEC_INLINE ? "ioh-epoll" : "ioh-work"));
    answer_ok(req, state);
}

static void no_choice_that_can_be_had(int level, const char *text, void *state)
{
    CHECK((struct host *)state, level == IOH_LOG_WARN);
    CHECK((struct host *)state, strstr(text, "on_classify") != NULL);
}

static void choices_without_threads_are_logged_and_fall_back(void **state)
{
    static const char *const paths[] = {"/pool", "/affine", "/auto", "/77", "/-1", "/none"};
    struct host *h = host_new(state);
    int bad = 0;
    h->on.on_classify = classify_badly;
    h->on.on_request = on_the_default_thread;
    h->on.on_log = no_choice_that_can_be_had;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 6; i++) {
        bool good = i == 5 || (i == 1 && h->config->exec == IOH_EXEC_AFFINE);
        bad += !good;
        assert_int_equal(client_get(c, paths[i]), 200);
        WAIT(h, h->logs == bad);
    }
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(all_callbacks_of_a_request_run_where_it_was_sent),
    HOST_TEST(pipelined_requests_go_their_own_ways_in_order),
    HOST_TEST(all_callbacks_of_a_websocket_run_where_its_upgrade_was_sent),
    HOST_TEST(slow_route_in_a_pool_of_its_own_holds_up_nobody_else),
    HOST_TEST_IN(choices_without_threads_are_logged_and_fall_back,
                 IN_INLINE | IN_ONE_LOOP | IN_AFFINE),
};

HOST_MAIN(tests)

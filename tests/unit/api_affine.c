/* One thread for all callbacks of a connection: a work thread's under AFFINE, its own under
 * IOH_THREADS. And which work thread a connection gets.
 */
#include "support/common.h"

/* This thread's number, from 1, in the order of their start. */
static _Thread_local int my_number;
static atomic_int numbers;

/* How many connections each thread has. */
enum { MOST = 64 };
static atomic_int loads[MOST];

static void number_thread(void *state)
{
    (void)state;
    my_number = atomic_fetch_add(&numbers, 1) + 1;
}

static void same_thread(struct host *h, const ioh_conn *conn)
{
    struct seen *s = host_seen(conn);
    if (s->number == 0)
        s->number = my_number;
    CHECK(h, my_number != 0 && s->number == my_number);
    CHECK(h, host_has_threads_for_each(h) || thread_is("ioh-work"));
}

static int on_open_same(ioh_conn *conn, void *state)
{
    same_thread(state, conn);
    if (my_number < MOST)
        atomic_fetch_add(&loads[my_number], 1);
    return 0;
}

static void on_close_same(ioh_conn *conn, void *state)
{
    same_thread(state, conn);
    if (my_number < MOST)
        atomic_fetch_sub(&loads[my_number], 1);
}

static void on_drain_same(ioh_conn *conn, void *state)
{
    same_thread(state, conn);
}

static void on_request_same(ioh_req *req, void *state)
{
    struct host *h = state;
    same_thread(h, ioh_req_conn(req));
    if (ioh_req_content_length(req) == 0)
        answer_ok(req, state);
}

static void on_body_same(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    same_thread(state, ioh_req_conn(req));
}

static uint8_t *large;

static void on_end_same(ioh_req *req, void *state)
{
    struct host *h = state;
    same_thread(h, ioh_req_conn(req));
    if (ioh_req_content_length(req) != 0)
        CHECK(h, ioh_respond(req, 200, NULL, 0, large, 1000000) == IOH_QUEUED);
}

static void on_complete_same(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)status;
    (void)bytes;
    same_thread(state, ioh_req_conn(req));
}

static int on_upgrade_same(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)accept;
    same_thread(state, ioh_req_conn(req));
    return 0;
}

static void on_message_same(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    same_thread(state, conn);
    echo(conn, op, data, len, state);
}

static void on_control_same(ioh_conn *conn, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    same_thread(state, conn);
}

static void on_ws_close_same(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)code;
    (void)reason;
    (void)len;
    same_thread(state, conn);
}

static void run_same(ioh_conn *conn, void *user)
{
    same_thread(user, conn);
}

static struct host *same_host(void **state, uint32_t workers)
{
    struct host *h = host_new(state);
    numbers = 0;
    memset(loads, 0, sizeof loads);
    if (!host_has_threads_for_each(h))
        h->options.work_op_threads = workers;
    h->on.on_thread_start = number_thread;
    h->on.on_open = on_open_same;
    h->on.on_drain = on_drain_same;
    h->on.on_peer_gone = on_drain_same;
    h->on.on_close = on_close_same;
    h->on.on_request = on_request_same;
    h->on.on_body = on_body_same;
    h->on.on_request_end = on_end_same;
    h->on.on_complete = on_complete_same;
    h->on.on_ws_upgrade = on_upgrade_same;
    h->on.on_ws_open = on_drain_same;
    h->on.on_ws_message = on_message_same;
    h->on.on_ws_ping = on_control_same;
    h->on.on_ws_pong = on_control_same;
    h->on.on_ws_close = on_ws_close_same;
    host_start(h);
    return h;
}

enum { CONNS = 15 };

static void every_callback_of_a_connection_runs_on_one_thread(void **state)
{
    struct host *h = same_host(state, 3);
    struct client *c[CONNS];
    large = pattern(1000000);
    for (int i = 0; i < CONNS; i++) {
        c[i] = client_open(h);
        WAIT(h, h->opens == i + 1);
        assert_int_equal(host_run_on(h, h->last_id, run_same, h, NULL), 0);
    }
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < CONNS; i++)
            assert_int_equal(client_get(c[i], "/"), 200);
    for (int i = 0; i < CONNS; i++) {
        client_request(c[i], "POST", "/", "Content-Length: 6\r\n");
        client_send(c[i], "abc");
        client_send(c[i], "def");
        assert_int_equal(client_answer(c[i]), 200);
    }
    for (int i = 0; i < CONNS; i++) {
        client_request(c[i], "GET", "/", WS_UPGRADE);
        assert_int_equal(client_read(c[i], true), 101);
        for (int k = 0; k < 10; k++)
            client_ws_send(c[i], IOH_WS_TEXT, "message");
        client_ws_send(c[i], IOH_WS_PONG, "pong");
        client_ws_send(c[i], IOH_WS_PING, "ping");
    }
    for (int i = 0; i < CONNS; i++) {
        for (int k = 0; k < 10; k++)
            assert_int_equal(client_ws_read(c[i]), IOH_WS_TEXT);
        assert_int_equal(client_ws_read(c[i]), IOH_WS_PONG);
        if (i % 3 == 0)
            client_ws_leave(c[i]);
        else if (i % 3 == 1)
            client_close(c[i]);
        else
            client_abort(c[i]);
    }
    WAIT(h, h->closes == CONNS);
    assert_int_equal(h->runs, CONNS);
    assert_int_equal(h->drains, CONNS);
    host_end(h);
    free(large);
}

/* Thread-local state of a host stays with its connection. */
static _Thread_local int requests_of_this_thread;

static void count_here(ioh_req *req, void *state)
{
    char text[20];
    int n = snprintf(text, sizeof text, "%d", ++requests_of_this_thread);
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, text, (size_t)n) == 0);
}

static void reset_here(void *state)
{
    (void)state;
    requests_of_this_thread = 0;
}

static void thread_local_state_is_found_again(void **state)
{
    struct host *h = host_new(state);
    char want[20];
    h->on.on_thread_start = reset_here;
    h->on.on_request = count_here;
    host_start(h);
    struct client *c = client_open(h); /* the others have none, so it has its thread alone */
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        snprintf(want, sizeof want, "%d", i);
        assert_body(c, want);
    }
    client_close(c);
    host_end(h);
}

/* ---- the least loaded one */

static int most_loaded(void)
{
    int best = 0;
    for (int i = 1; i < MOST; i++)
        if (loads[i] > loads[best])
            best = i;
    return best;
}

static int threads_with(int load)
{
    int count = 0;
    for (int i = 1; i < MOST; i++)
        count += loads[i] == load;
    return count;
}

/* The slack: a connection's load is taken when it is freed, a moment after its on_close. */
static void a_connection_gets_the_work_thread_with_the_fewest(void **state)
{
    struct host *h = same_host(state, 3);
    struct client *c[30];
    bool mine[30];
    for (int i = 0; i < 30; i++) {
        c[i] = client_open(h);
        WAIT(h, h->opens == i + 1);
    }
    assert_int_equal(threads_with(10), 3);
    int busiest = most_loaded(), left = 0, opens = 30;
    struct seen *s = h->seen; /* the youngest first */
    for (int i = 29; i >= 0; i--, s = s->next)
        mine[i] = s->number == busiest;
    for (int i = 0; i < 30; i++) {
        if (mine[i]) {
            client_close(c[i]);
            left++;
        }
    }
    assert_int_equal(left, 10);
    WAIT(h, h->closes == 10 && host_stats(h).connections == 20);
    assert_int_equal(loads[busiest], 0);
    for (int i = 1; i <= 10; i++) {
        client_open(h);
        WAIT(h, h->opens == opens + i);
        assert_int_equal(loads[busiest], i);
    }
    assert_int_equal(threads_with(10), 3);
    client_close_all();
    host_end(h);
}

/* A busy work thread delays its own connections only. */
static struct latch latch;

static void block_or_answer(ioh_req *req, void *state)
{
    if (path_is(req, "/block"))
        latch_wait(state, &latch);
    answer_ok(req, state);
}

static void blocked_thread_holds_up_only_its_own_connections(void **state)
{
    struct host *h = host_new(state);
    struct client *c[8];
    latch.open = false;
    if (!host_has_threads_for_each(h))
        h->options.work_op_threads = 4;
    h->on.on_request = block_or_answer;
    host_start(h);
    for (int i = 0; i < 8; i++) { /* two on each work thread, four apart */
        c[i] = client_open(h);
        WAIT(h, h->opens == i + 1);
    }
    client_request(c[0], "GET", "/block", "");
    WAIT(h, latch.waiting == 1);
    client_request(c[4], "GET", "/", ""); /* of the same thread */
    for (int round = 0; round < 10; round++)
        for (int i = 1; i < 8; i++)
            if (i != 4)
                assert_int_equal(client_get(c[i], "/"), 200);
    assert_true(client_is_quiet(c[4]) || host_has_threads_for_each(h));
    latch_open(&latch);
    assert_int_equal(client_answer(c[0]), 200);
    assert_int_equal(client_answer(c[4]), 200);
    client_close_all();
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(every_callback_of_a_connection_runs_on_one_thread, IN_AFFINE | IN_THREADS),
    HOST_TEST_IN(thread_local_state_is_found_again, IN_AFFINE | IN_THREADS),
    HOST_TEST_IN(a_connection_gets_the_work_thread_with_the_fewest, IN_AFFINE),
    HOST_TEST_IN(blocked_thread_holds_up_only_its_own_connections, IN_AFFINE | IN_THREADS),
};

HOST_MAIN(tests)

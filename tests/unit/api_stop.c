/* Stopping: what ioh_server_stop() lets finish, what it cuts, and what it leaves behind. */
#include "support/common.h"

#include <dirent.h>

/* Begins to stop, and answers once every loop knows: the idle connections of each have been closed, and
 * the others have had a message behind it. */
static void begin_stop(struct host *h, uint32_t drain_ms)
{
    struct client *idle[8];
    int count = 2 * host_loops(h), opens = h->opens, errands = 0, before = h->runs + h->gones;
    for (int i = 0; i < count; i++)
        idle[i] = client_open(h);
    WAIT(h, h->opens == opens + count);
    host_begin_stop(h, drain_ms);
    for (int i = 0; i < count; i++) {
        client_expect_end(idle[i]);
        client_close(idle[i]);
    }
    pthread_mutex_lock(&h->lock);
    struct seen *s = h->seen;
    pthread_mutex_unlock(&h->lock);
    for (; s; s = s->next) /* a loop that is through already knows nobody any more */
        errands += host_run_on(h, s->id, NULL, NULL, NULL) == 0;
    WAIT(h, h->runs + h->gones == before + errands);
}

/* ---- with time to finish */

static void begin_stream(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/stream"))
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
    else
        answer_ok(req, state);
}

static void end_stream(ioh_conn *conn, void *user)
{
    struct host *h = user;
    CHECK(h, ioh_respond_data(host_seen(conn)->req, "done", 4) == 0);
    CHECK(h, ioh_respond_end(host_seen(conn)->req) == 0);
}

static struct host *stopping_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = begin_stream;
    h->on.on_ws_message = echo;
    host_start(h);
    return h;
}

static void idle_connections_do_not_hold_up_a_stop(void **state)
{
    struct host *h = stopping_host(state);
    struct client *used = client_open(h), *fresh = client_open(h);
    assert_int_equal(client_get(used, "/"), 200);
    WAIT(h, h->opens == 2);
    begin_stop(h, LONG_DRAIN_MS);
    client_expect_end(used);
    client_expect_end(fresh);
    client_close_all();
    assert_int_equal(host_end_stop(h), 0);
    host_end(h);
}

/* They would linger for ten minutes if they did. */
static void idle_clients_that_do_not_close_do_not_hold_up_a_stop(void **state)
{
    struct host *h = host_new(state);
    h->options.close_timeout_ms = 600000;
    h->on.on_request = answer_ok;
    host_start(h);
    for (int i = 0; i < 5; i++)
        assert_int_equal(client_get(client_open(h), "/"), 200);
    assert_int_equal(host_stop(h, LONG_DRAIN_MS), 0);
    client_close_all();
    host_end(h);
}

static void half_read_request_is_finished_and_answered_with_close(void **state)
{
    struct host *h = stopping_host(state);
    struct client *head = client_open(h), *body;
    client_send(head, "GET / HTTP/1.1\r\nHo");
    WAIT(h, h->opens == 1);
    body = client_open(h);
    client_send(body, "POST /stream HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
    WAIT(h, h->requests == 1 && host_stats(h).bytes_received >= 18 + 55);
    ioh_conn_id id = h->last_id;
    begin_stop(h, LONG_DRAIN_MS);
    client_send(head, "st: t\r\n\r\n");
    assert_int_equal(client_answer(head), 200);
    assert_field(head, "Connection", "close");
    client_expect_end(head);
    client_close(head);
    client_send(body, "cd");
    assert_int_equal(host_run_on(h, id, end_stream, h, NULL), 0);
    assert_int_equal(client_answer(body), 200);
    assert_body(body, "done");
    client_expect_end(body);
    client_close(body);
    assert_int_equal(host_end_stop(h), 0);
    assert_int_equal(h->completes, 2);
    host_end(h);
}

static void streamed_answer_under_way_is_finished(void **state)
{
    struct host *h = stopping_host(state);
    struct client *c = client_open(h);
    client_request(c, "GET", "/stream", "");
    WAIT(h, h->requests == 1);
    ioh_conn_id id = h->last_id;
    begin_stop(h, LONG_DRAIN_MS);
    assert_int_equal(host_run_on(h, id, end_stream, h, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "done");
    client_expect_end(c);
    client_close(c);
    assert_int_equal(host_end_stop(h), 0);
    host_end(h);
}

static void each_websocket_gets_1001(void **state)
{
    struct host *h = stopping_host(state);
    struct client *c[10];
    for (int i = 0; i < 10; i++)
        c[i] = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 10);
    begin_stop(h, LONG_DRAIN_MS);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(client_ws_read(c[i]), 8);
        assert_int_equal(client_ws_code(c[i]), 1001);
        client_ws_close(c[i], 1001, "");
        client_expect_end(c[i]);
        client_close(c[i]);
    }
    assert_int_equal(host_end_stop(h), 0);
    assert_int_equal(h->last_ws_code, 1001);
    assert_int_equal(h->ws_closes, 10);
    host_end(h);
}

/* ---- without */

/* One of each kind that can be open. */
static void open_all_kinds(struct host *h)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200); /* idle */
    c = client_open(h);
    client_send(c, "GET / HTTP/1.1\r\nHo"); /* half a head */
    c = client_open(h);
    client_send(c, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab"); /* half a body */
    c = client_open(h);
    client_request(c, "GET", "/stream", "");
    client_ws_open(h, "/");
    c = client_ws_open(h, "/");
    client_ws_frame(c, IOH_WS_TEXT, "half", 4); /* a fragmented message */
    WAIT(h, h->opens == 6 && h->ws_opens == 2 && h->requests == 3 &&
                host_stats(h).bytes_received > 6 * 18);
}

static void stop_without_drain_cuts_everything_and_says_so(void **state)
{
    struct host *h = stopping_host(state);
    open_all_kinds(h);
    assert_int_equal(host_stop(h, 0), IOH_ETIMEOUT);
    assert_int_equal(h->closes, 6);
    assert_int_equal(h->ws_closes, 2);
    client_close_all();
    host_end(h);
}

static void short_drain_ends_although_nobody_answers(void **state)
{
    struct host *h = stopping_host(state);
    open_all_kinds(h);
    uint64_t begin = host_now_ms();
    assert_int_equal(host_stop(h, 100), IOH_ETIMEOUT);
    assert_true(host_now_ms() - begin >= 100);
    assert_int_equal(h->closes, 6);
    client_close_all();
    host_end(h);
}

static void stop_of_a_server_without_connections_is_clean(void **state)
{
    struct host *h = stopping_host(state);
    assert_int_equal(host_stop(h, 0), 0);
    host_end(h);
}

static void destroy_stops_a_running_server(void **state)
{
    struct host *h = stopping_host(state);
    open_all_kinds(h);
    h->running = false;
    ioh_server_destroy(h->server);
    h->server = NULL;
    assert_int_equal(h->closes, 6);
    assert_int_equal(h->completes, h->requests);
    assert_int_equal(h->thread_starts, h->thread_stops);
    assert_int_equal(h->faults, 0);
    client_close_all();
    host_end(h);
}

/* ---- inside callbacks */

static void stop_here(struct host *h)
{
    CHECK(h, ioh_server_stop(h->server, 0) == IOH_ESTATE);
    CHECK(h, ioh_server_start(h->server) == IOH_ESTATE);
    CHECK(h, ioh_server_listen(h->server, "127.0.0.1:0", NULL) == IOH_ESTATE);
}

static void stop_in_thread_start(void *state)
{
    CHECK((struct host *)state, ioh_server_stop(((struct host *)state)->server, 0) == IOH_ESTATE);
}

static void stop_in_thread_stop(void *state)
{
    stop_here(state);
}

static int stop_in_open(ioh_conn *conn, void *state)
{
    (void)conn;
    stop_here(state);
    return 0;
}

static void stop_in_request(ioh_req *req, void *state)
{
    stop_here(state);
    answer_ok(req, state);
}

static void stop_in_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)req;
    (void)status;
    (void)bytes;
    stop_here(state);
}

static void stop_in_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    stop_here(state);
    echo(conn, op, data, len, state);
}

static void stop_in_close(ioh_conn *conn, void *state)
{
    (void)conn;
    stop_here(state);
}

static void stop_in_run(ioh_conn *conn, void *user)
{
    (void)conn;
    stop_here(user);
}

static void stop_in_gone(void *user)
{
    stop_here(user);
}

static void stop_inside_a_callback_is_refused(void **state)
{
    struct host *h = host_new(state);
    h->on.on_thread_start = stop_in_thread_start;
    h->on.on_thread_stop = stop_in_thread_stop;
    h->on.on_open = stop_in_open;
    h->on.on_request = stop_in_request;
    h->on.on_complete = stop_in_complete;
    h->on.on_ws_message = stop_in_message;
    h->on.on_close = stop_in_close;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_int_equal(host_run_on(h, h->last_id, stop_in_run, h, NULL), 0);
    WAIT(h, h->runs == 1);
    client_close(c);
    WAIT(h, h->closes == 1);
    if (!host_has_threads_for_each(h)) { /* there it is known at once, and nothing is called back */
        assert_int_equal(host_run_on(h, h->last_id, NULL, h, stop_in_gone), 0);
        WAIT(h, h->gones == 1);
    }
    c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "x");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
}

static void a_second_stop_is_refused(void **state)
{
    struct host *h = stopping_host(state);
    struct client *c = client_open(h);
    client_request(c, "GET", "/stream", "");
    WAIT(h, h->requests == 1);
    ioh_conn_id id = h->last_id;
    begin_stop(h, LONG_DRAIN_MS);
    assert_int_equal(ioh_server_stop(h->server, 0),
                     IOH_ESTATE); /* and does not shorten the first */
    assert_int_equal(host_run_on(h, id, end_stream, h, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    assert_int_equal(host_end_stop(h), 0);
    host_end(h);
}

/* ---- again and again */

static int open_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static int threads_now(void)
{
    int count = 0;
    char line[200];
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %d", &count) == 1)
            break;
    fclose(f);
    return count;
}

/* A thread that has been joined may be counted by the kernel for a moment. */
static void wait_for_threads(int count)
{
    uint64_t until = host_now_ms() + PATIENCE_MS;
    while (threads_now() != count && host_now_ms() < until)
        sched_yield();
    assert_int_equal(threads_now(), count);
}

static void cycles_of_start_load_and_stop_leave_nothing(void **state)
{
    int descriptors = open_descriptors(), threads = threads_now();
    for (int cycle = 0; cycle < 50; cycle++) {
        struct host *h = stopping_host(state);
        wait_for_threads(threads + host_threads(h));
        for (int i = 0; i < 4; i++) {
            struct client *c = client_open(h);
            assert_int_equal(client_get(c, "/"), 200);
            if (i % 2)
                client_close(c);
        }
        struct client *ws = client_ws_open(h, "/");
        client_ws_send(ws, IOH_WS_TEXT, "x");
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
        host_stop(h, 0);
        client_close_all();
        host_end(h);
        wait_for_threads(threads);
        assert_int_equal(open_descriptors(), descriptors);
    }
}

static const struct host_test tests[] = {
    HOST_TEST(idle_connections_do_not_hold_up_a_stop),
    HOST_TEST(idle_clients_that_do_not_close_do_not_hold_up_a_stop),
    HOST_TEST(half_read_request_is_finished_and_answered_with_close),
    HOST_TEST(streamed_answer_under_way_is_finished),
    HOST_TEST(each_websocket_gets_1001),
    HOST_TEST(stop_without_drain_cuts_everything_and_says_so),
    HOST_TEST(short_drain_ends_although_nobody_answers),
    HOST_TEST(stop_of_a_server_without_connections_is_clean),
    HOST_TEST(destroy_stops_a_running_server),
    HOST_TEST(stop_inside_a_callback_is_refused),
    HOST_TEST(a_second_stop_is_refused),
    HOST_TEST(cycles_of_start_load_and_stop_leave_nothing),
};

HOST_MAIN(tests)

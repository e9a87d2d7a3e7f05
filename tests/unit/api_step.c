/* A host that drives the loop itself: ioh_server_fd() and ioh_server_step(). The host's thread here waits
 * on nothing but the descriptor, as a host with a loop of its own would.
 */
#include "support/common.h"

struct driver {
    struct host *host;
    pthread_t thread;
    int fd;
    atomic_int steps;
    atomic_bool over;
};

/* Its callbacks, as far as they run inline, come here. */
static void *drive(void *arg)
{
    struct driver *d = arg;
    struct host *h = d->host;
    int rc = 1;
    host_of_thread = h; /* on_thread_start is for the library's threads */
    while (rc == 1) {
        struct pollfd p = {.fd = d->fd, .events = POLLIN};
        CHECK(h, poll(&p, 1, PATIENCE_MS) == 1);
        rc = ioh_server_step(h->server, 0);
        atomic_fetch_add(&d->steps, 1);
    }
    CHECK(h, rc == 0);
    CHECK(h, ioh_server_step(h->server, 0) == 0);
    host_of_thread = NULL;
    atomic_store(&d->over, true);
    return NULL;
}

static struct host *driven_host(void **state, struct driver *d)
{
    struct host *h = host_new(state);
    *d = (struct driver){.host = h};
    h->on.on_request = answer_ok;
    h->on.on_ws_message = echo;
    return h;
}

static void start_driven(struct driver *d)
{
    struct host *h = d->host;
    host_create(h);
    assert_int_equal(ioh_server_step(h->server, 0), IOH_ESTATE); /* before start */
    d->fd = ioh_server_fd(h->server);
    assert_true(d->fd >= 0);
    assert_int_equal(ioh_server_fd(h->server), d->fd);
    assert_int_equal(ioh_server_start(h->server), 0);
    assert_int_equal(ioh_server_fd(h->server), d->fd);
    h->running = true;
    int others = (int)(h->options.pool_threads + h->options.work_op_threads);
    assert_int_equal(ioh_server_threads(h->server), others); /* no epoll thread, no watcher */
    assert_int_equal(h->thread_starts, others);
    assert_int_equal(ioh_server_loop_connections(h->server, NULL, 0), 1);
    assert_int_equal(pthread_create(&d->thread, NULL, drive, d), 0);
}

/* The driver goes on until nothing is left; only then has everything ended. */
static void stop_driven(struct driver *d)
{
    struct host *h = d->host;
    assert_int_equal(ioh_server_stop(h->server, LONG_DRAIN_MS), 0);
    pthread_join(d->thread, NULL);
    h->running = false;
    if (h->faults)
        fail_msg("%d faults, the first: %s", h->faults, h->fault);
    assert_int_equal(h->opens, h->closes);
    assert_int_equal(h->requests, h->completes);
    assert_int_equal(h->ws_opens, h->ws_closes);
    assert_int_equal(host_stats(h).connections, 0);
    ioh_server_destroy(h->server);
    h->server = NULL;
    assert_int_equal(h->thread_starts, h->thread_stops);
    host_end(h);
}

static void requests_and_messages_are_served_by_steps(void **state)
{
    struct driver d;
    struct host *h = driven_host(state, &d);
    start_driven(&d);
    struct client *c[4];
    for (int i = 0; i < 4; i++)
        c[i] = client_open(h);
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 4; i++)
            assert_int_equal(client_get(c[i], "/"), 200);
    struct client *ws = client_ws_open(h, "/");
    for (int i = 0; i < 50; i++) {
        client_ws_send(ws, IOH_WS_TEXT, "text");
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    }
    client_ws_leave(ws);
    client_close_all();
    WAIT(h, h->closes == 5);
    assert_true(d.steps > 0);
    stop_driven(&d);
}

/* The descriptor tells of what other threads want, too. */
static void other_threads_wake_the_host_by_its_descriptor(void **state)
{
    struct driver d;
    struct parked parked = {.count = 0};
    struct host *h = driven_host(state, &d);
    h->data = &parked;
    h->on.on_request = park;
    start_driven(&d);
    struct client *c = client_open(h);
    WAIT(h, h->opens == 1); /* so that the last id is the WebSocket's */
    struct client *ws = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 1);
    ioh_conn_id id = h->last_id;
    for (int i = 0; i < 20; i++) {
        client_request(c, "GET", "/", "");
        WAIT(h, parked.count == i + 1);
        poll(NULL, 0, 2); /* the host is back in its poll() */
        assert_int_equal(ioh_reply(h->server, parked.ids[i], 200, NULL, 0, "ok", 2), 0);
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(host_run_on(h, id, NULL, NULL, NULL), 0);
        WAIT(h, h->runs == i + 1);
        assert_int_equal(ioh_ws_post(h->server, id, ioh_ws_frame(IOH_WS_TEXT, "x", 1)), 0);
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    }
    client_close(c);
    client_ws_leave(ws);
    stop_driven(&d);
}

static uint8_t *large;

static void answer_large(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, large, 8000000) == IOH_QUEUED);
}

static void large_answers_go_out_step_by_step(void **state)
{
    struct driver d;
    struct host *h = driven_host(state, &d);
    large = pattern(8000000);
    h->on.on_request = answer_large;
    start_driven(&d);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        assert_true(c->body_len == 8000000 && is_pattern(c->body, 8000000));
    }
    client_close(c);
    stop_driven(&d);
    free(large);
}

static void stop_lets_requests_under_way_finish(void **state)
{
    struct driver d;
    struct parked parked = {.count = 0};
    struct host *h = driven_host(state, &d);
    h->data = &parked;
    h->on.on_request = park;
    start_driven(&d);
    struct client *c = client_open(h), *idle = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, parked.count == 1 && h->opens == 2);
    assert_int_equal(ioh_server_stop(h->server, LONG_DRAIN_MS), 0); /* it only says so */
    client_expect_end(idle);
    assert_false(d.over);
    assert_int_equal(ioh_reply(h->server, parked.ids[0], 200, NULL, 0, "ok", 2), 0);
    assert_int_equal(client_answer(c), 200);
    client_close_all();
    pthread_join(d.thread, NULL);
    h->running = false;
    assert_int_equal(h->faults, 0);
    assert_int_equal(h->closes, 2);
    host_end(h);
}

/* ---- without a poll() of the host's */

static void step_waits_as_long_as_it_is_told(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_create(h);
    assert_true(ioh_server_fd(h->server) >= 0);
    assert_int_equal(ioh_server_start(h->server), 0);
    host_of_thread = h;
    uint64_t begin = host_now_ms();
    assert_int_equal(ioh_server_step(h->server, 100), 1);
    assert_true(host_now_ms() - begin >= 95);
    struct client *c = client_open(h); /* by the kernel */
    client_request(c, "GET", "/", "");
    for (uint64_t until = host_now_ms() + PATIENCE_MS; h->completes == 0;) {
        assert_true(host_now_ms() < until);
        assert_int_equal(ioh_server_step(h->server, 1000), 1);
    }
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    assert_int_equal(ioh_server_stop(h->server, LONG_DRAIN_MS), 0);
    int rc;
    while ((rc = ioh_server_step(h->server, 1000)) == 1)
        ;
    assert_int_equal(rc, 0);
    assert_int_equal(h->closes, h->opens);
    assert_int_equal(h->faults, 0);
    ioh_server_destroy(h->server);
    h->server = NULL;
    host_of_thread = NULL;
    host_end(h);
}

static void deadlines_pass_in_steps(void **state)
{
    struct host *h = host_new(state);
    h->options.idle_timeout_ms = 100;
    host_create(h);
    assert_true(ioh_server_fd(h->server) >= 0);
    assert_int_equal(ioh_server_start(h->server), 0);
    host_of_thread = h;
    struct client *c = client_open(h);
    for (uint64_t until = host_now_ms() + PATIENCE_MS; h->closes == 0;) {
        assert_true(host_now_ms() < until);
        assert_int_equal(ioh_server_step(h->server, -1), 1);
    }
    client_expect_end(c);
    client_close(c);
    ioh_server_destroy(h->server); /* stops, and steps to the end by itself */
    h->server = NULL;
    host_of_thread = NULL;
    assert_int_equal(h->faults, 0);
    host_end(h);
}

static void destroy_steps_what_is_left(void **state)
{
    struct driver d;
    struct host *h = driven_host(state, &d);
    host_create(h);
    assert_true(ioh_server_fd(h->server) >= 0);
    assert_int_equal(ioh_server_start(h->server), 0);
    host_of_thread = h;
    for (int i = 0; i < 3; i++)
        client_request(client_open(h), "GET", "/", "");
    while (h->completes < 3)
        assert_int_equal(ioh_server_step(h->server, 1000), 1);
    ioh_server_destroy(h->server);
    h->server = NULL;
    host_of_thread = NULL;
    assert_int_equal(h->closes, 3);
    assert_int_equal(h->faults, 0);
    client_close_all();
    host_end(h);
}

/* ---- states */

static void only_a_server_that_the_host_drives_is_stepped(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_create(h);
    if (host_has_threads_for_each(h))
        assert_int_equal(ioh_server_fd(h->server), IOH_ESTATE);
    assert_int_equal(ioh_server_step(h->server, 0), IOH_ESTATE);
    host_start(h);
    assert_int_equal(ioh_server_fd(h->server), IOH_ESTATE);
    assert_int_equal(ioh_server_step(h->server, 0), IOH_ESTATE);
    host_stop(h, 0);
    assert_int_equal(ioh_server_fd(h->server), IOH_ESTATE);
    assert_int_equal(ioh_server_step(h->server, 0), IOH_ESTATE);
    host_end(h);
}

static void server_that_never_started_can_be_destroyed(void **state)
{
    struct host *h = host_new(state);
    host_create(h);
    assert_true(ioh_server_fd(h->server) >= 0);
    host_end(h);
}

#define IN_LOOPS (IN_ALL & ~IN_THREADS)
static const struct host_test tests[] = {
    HOST_TEST_IN(requests_and_messages_are_served_by_steps, IN_LOOPS),
    HOST_TEST_IN(other_threads_wake_the_host_by_its_descriptor, IN_LOOPS),
    HOST_TEST_IN(large_answers_go_out_step_by_step, IN_LOOPS),
    HOST_TEST_IN(stop_lets_requests_under_way_finish, IN_LOOPS),
    HOST_TEST_IN(step_waits_as_long_as_it_is_told, IN_LOOPS),
    HOST_TEST_IN(deadlines_pass_in_steps, IN_LOOPS),
    HOST_TEST_IN(destroy_steps_what_is_left, IN_LOOPS),
    HOST_TEST(only_a_server_that_the_host_drives_is_stepped),
    HOST_TEST_IN(server_that_never_started_can_be_destroyed, IN_LOOPS),
};

HOST_MAIN(tests)

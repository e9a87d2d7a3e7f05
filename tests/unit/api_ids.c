/* Ending connections by their id, from any thread: ioh_post_close() and ioh_post_abort(). */
#include "support/common.h"

static uint8_t *large;

static void answer_by_path(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/large"))
        CHECK(h, ioh_respond(req, 200, NULL, 0, large, 1000000) >= 0);
    else
        answer_ok(req, state);
}

static struct host *plain_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_by_path;
    h->on.on_ws_message = echo;
    host_start(h);
    return h;
}

static struct client *used_client(struct host *h)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    return c;
}

static void post_close_ends_without_a_reset(void **state)
{
    struct host *h = plain_host(state);
    struct client *c = used_client(h);
    assert_int_equal(ioh_post_close(h->server, h->last_id), 0);
    client_expect_end(c);
    assert_false(c->reset);
    client_close(c);
    WAIT(h, h->closes == 1);
    host_end(h);
}

static void post_close_lets_out_what_is_queued(void **state)
{
    struct host *h = plain_host(state);
    large = pattern(1000000);
    struct client *c = client_open(h);
    client_request(c, "GET", "/large", "");
    WAIT(h, h->requests == 1);
    assert_int_equal(ioh_post_close(h->server, h->last_id), 0);
    assert_int_equal(client_answer(c), 200);
    assert_true(c->body_len == 1000000 && is_pattern(c->body, 1000000));
    client_expect_end(c);
    assert_false(c->reset);
    client_close(c);
    host_end(h);
    free(large);
}

static void post_abort_resets(void **state)
{
    struct host *h = plain_host(state);
    struct client *c = used_client(h);
    assert_int_equal(ioh_post_abort(h->server, h->last_id), 0);
    client_expect_end(c);
    assert_true(c->reset || h->config->unix_socket);
    client_close(c);
    WAIT(h, h->closes == 1);
    host_end(h);
}

static void websockets_end_as_broken(void **state)
{
    struct host *h = plain_host(state);
    for (int i = 0; i < 2; i++) {
        struct client *c = client_ws_open(h, "/");
        WAIT(h, h->ws_opens == i + 1);
        int rc = i ? ioh_post_abort(h->server, h->last_id) : ioh_post_close(h->server, h->last_id);
        assert_int_equal(rc, 0);
        client_expect_end(c);
        client_close(c);
        WAIT(h, h->closes == i + 1);
        assert_int_equal(h->last_ws_code, 1006);
    }
    host_end(h);
}

static void names_of_nobody_are_refused_and_gone_ones_do_nothing(void **state)
{
    static const ioh_conn_id never[] = {0, 1, UINT32_MAX, 0x100ff000000u};
    struct host *h = plain_host(state);
    struct client *c = used_client(h);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        assert_int_equal(ioh_post_close(h->server, never[i]), IOH_EGONE);
        assert_int_equal(ioh_post_abort(h->server, never[i]), IOH_EGONE);
    }
    ioh_conn_id old = h->last_id;
    client_close(c);
    WAIT(h, h->closes == 1 && host_stats(h).connections == 0);
    c = used_client(h); /* probably in the same place */
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ioh_post_close(h->server, old), gone_answer(h));
        assert_int_equal(ioh_post_abort(h->server, old), gone_answer(h));
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    WAIT(h, h->closes == 2);
    host_stop(h, LONG_DRAIN_MS);
    assert_int_equal(ioh_post_close(h->server, old), IOH_EGONE);
    assert_int_equal(ioh_post_abort(h->server, old), IOH_EGONE);
    host_end(h);
}

/* ---- while a callback runs */

static struct latch started;

static void wait_for_the_end(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    latch_open(&started);
    for (uint64_t until = host_now_ms() + PATIENCE_MS;
         !ioh_conn_gone(conn) && host_now_ms() < until;)
        poll(NULL, 0, 1);
    CHECK(h, ioh_conn_gone(conn));
    CHECK(h, ioh_respond(req, 200, NULL, 0, "x", 1) == IOH_EGONE);
    CHECK(h, ioh_conn_get_id(conn) == host_seen(conn)->id);
    CHECK(h, path_is(req, "/running"));
}

static void abort_is_seen_by_a_running_callback(void **state)
{
    struct host *h = host_new(state);
    started.open = false;
    h->on.on_request = wait_for_the_end;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/running", "");
    WAIT(h, started.open);
    assert_int_equal(ioh_post_abort(h->server, h->last_id), 0);
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_status, 0);
    assert_int_equal(h->completes, 1);
    assert_int_equal(h->peers_gone, 0); /* it was not the peer */
    host_end(h);
}

/* ---- many */

enum { ENDERS = 3, ROUNDS = 120 };

struct ender {
    struct host *host;
    pthread_t thread;
    atomic_bool *over;
};

static void *end_at_random(void *arg)
{
    struct ender *e = arg;
    struct host *h = e->host;
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!atomic_load(e->over)) {
        ioh_conn_id id = h->last_id;
        seed = seed * 1103515245u + 12345u;
        if (id && seed >> 16 & 1)
            ioh_post_abort(h->server, id);
        else if (id)
            ioh_post_close(h->server, id);
        sched_yield();
    }
    return NULL;
}

static void answer_unless_gone(ioh_req *req, void *state)
{
    int rc = ioh_respond(req, 200, NULL, 0, "ok", 2);
    CHECK((struct host *)state, rc == 0 || rc == IOH_EGONE);
}

/* The checks are those of the watch: each connection still ends once and in order. */
static void connections_ended_at_any_moment_end_once(void **state)
{
    struct host *h = host_new(state);
    struct ender enders[ENDERS];
    atomic_bool over = false;
    h->on.on_request = answer_unless_gone;
    h->on.on_ws_message = NULL;
    host_start(h);
    for (int i = 0; i < ENDERS; i++) {
        enders[i] = (struct ender){.host = h, .over = &over};
        assert_int_equal(pthread_create(&enders[i].thread, NULL, end_at_random, &enders[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct client *c = client_open(h);
        client_try_write(c, "GET / HTTP/1.1\r\nHost: t\r\n\r\n", 27);
        client_wait_end(c);
        client_close(c);
    }
    over = true;
    for (int i = 0; i < ENDERS; i++)
        pthread_join(enders[i].thread, NULL);
    WAIT(h, host_stats(h).connections == 0);
    assert_int_equal(host_stats(h).accepted, ROUNDS);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(post_close_ends_without_a_reset),
    HOST_TEST(post_close_lets_out_what_is_queued),
    HOST_TEST(post_abort_resets),
    HOST_TEST(websockets_end_as_broken),
    HOST_TEST(names_of_nobody_are_refused_and_gone_ones_do_nothing),
    HOST_TEST_IN(abort_is_seen_by_a_running_callback, IN_WAITING | IN_UNIX),
    HOST_TEST(connections_ended_at_any_moment_end_once),
};

HOST_MAIN(tests)

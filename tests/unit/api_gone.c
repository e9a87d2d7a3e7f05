/* Peers that leave while a request of theirs is under way: ioh_conn_gone() and on_peer_gone. */
#include "support/common.h"

/* ---- while a callback runs */

static struct latch started;

static void wait_until_gone(struct host *h, const ioh_conn *conn)
{
    CHECK(h, ioh_conn_gone(conn) == 0);
    latch_open(&started);
    for (uint64_t until = host_now_ms() + PATIENCE_MS; !ioh_conn_gone(conn);) {
        poll(NULL, 0, 1);
        if (host_now_ms() > until) {
            CHECK(h, host_now_ms() <= until); /* never told */
            break;
        }
    }
    CHECK(h, !host_seen(conn)->peer_gone); /* "never inside another callback" */
}

static void notice(ioh_req *req, void *state)
{
    struct host *h = state;
    wait_until_gone(h, ioh_req_conn(req));
    int rc = ioh_respond(req, 200, NULL, 0, "noticed", 7);
    CHECK(h, rc == 0 || rc == IOH_EGONE);
}

/* How a client leaves. */
enum leave { BY_CLOSE, BY_RESET, BY_HALF, LEAVES };

static void leave(struct client *c, int how)
{
    if (how == BY_CLOSE)
        client_close(c);
    else if (how == BY_RESET)
        client_abort(c);
    else
        client_finish(c);
}

/* on_peer_gone may follow, unless the request's end is there first. */
static void running_handler_sees_that_its_client_has_left(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = notice;
    host_start(h);
    for (int how = 0; how < LEAVES; how++) {
        struct client *c = client_open(h);
        atomic_store(&started.open, false);
        client_request(c, "GET", "/", "");
        WAIT(h, started.open);
        leave(c, how);
        if (how == BY_HALF) { /* it still reads */
            assert_int_equal(client_answer(c), 200);
            assert_body(c, "noticed");
            client_expect_end(c);
            client_close(c);
        }
        WAIT(h, h->closes == how + 1);
        assert_true(h->peers_gone <= how + 1);
    }
    host_end(h);
}

static void notice_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)op;
    (void)data;
    (void)len;
    wait_until_gone(state, conn);
}

static void running_message_handler_sees_it_too(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = notice_message;
    host_start(h);
    for (int how = 0; how < BY_HALF; how++) {
        struct client *c = client_ws_open(h, "/");
        atomic_store(&started.open, false);
        client_ws_send(c, IOH_WS_TEXT, "x");
        WAIT(h, started.open);
        leave(c, how);
        WAIT(h, h->closes == how + 1);
        assert_int_equal(h->last_ws_code, 1006);
        assert_int_equal(h->ws_messages, how + 1);
    }
    host_end(h);
}

/* ---- while an answer is due */

static void was_told_before(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)status;
    (void)bytes;
    CHECK((struct host *)state, host_seen(ioh_req_conn(req))->peer_gone);
}

static void request_that_was_parked_is_told_once_when_its_client_leaves(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = park;
    h->on.on_complete = was_told_before;
    host_start(h);
    for (int how = 0; how < LEAVES; how++) {
        struct client *c = client_open(h);
        client_request(c, "GET", "/", "");
        WAIT(h, parked.count == how + 1);
        assert_int_equal(h->peers_gone, how);
        leave(c, how);
        WAIT(h, h->peers_gone == how + 1);
        if (how == BY_RESET && !h->config->unix_socket) {
            WAIT(h, h->closes == how + 1); /* nobody has to answer any more */
            assert_int_equal(h->last_status, 0);
        }
        ioh_reply(h->server, parked.ids[how], 200, NULL, 0, "all the same", 12);
        if (how == BY_HALF) {
            assert_int_equal(client_answer(c), 200);
            assert_body(c, "all the same");
            client_expect_end(c);
            client_close(c);
        }
        WAIT(h, h->closes == how + 1);
        assert_int_equal(h->peers_gone, how + 1);
        assert_int_equal(h->completes, how + 1);
    }
    host_end(h);
}

static void begin_only(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
}

static void end_stream(ioh_conn *conn, void *user)
{
    struct host *h = user;
    if (host_seen(conn)->req) {
        int rc = ioh_respond_end(host_seen(conn)->req);
        CHECK(h, rc == 0 || rc == IOH_EGONE);
    }
}

static void stream_that_others_go_on_with_is_told_too(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = begin_only;
    host_start(h);
    for (int how = 0; how < LEAVES; how++) {
        struct client *c = client_open(h);
        client_request(c, "GET", "/", "");
        WAIT(h, h->requests == how + 1);
        ioh_conn_id id = h->last_id;
        leave(c, how);
        WAIT(h, h->peers_gone == how + 1);
        host_run_on(h, id, end_stream, h, NULL);
        if (how == BY_HALF) {
            assert_int_equal(client_answer(c), 200);
            client_expect_end(c);
            client_close(c);
        }
        WAIT(h, h->closes == how + 1);
        assert_int_equal(h->peers_gone, how + 1);
    }
    host_end(h);
}

/* The request is whole, its answer is due: what it does in on_peer_gone is the host's. */
static void give_up(ioh_conn *conn, void *state)
{
    struct host *h = state;
    ioh_req *req = host_seen(conn)->req;
    if (path_is(req, "/abort"))
        ioh_abort(conn);
    else
        CHECK(h, ioh_respond(req, 503, NULL, 0, "gave up", 7) == 0);
}

static void on_peer_gone_may_answer_or_end_the_connection(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = park;
    h->on.on_peer_gone = give_up;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/answer", "");
    WAIT(h, parked.count == 1);
    client_finish(c);
    assert_int_equal(client_answer(c), 503);
    assert_body(c, "gave up");
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_status, 503);
    c = client_open(h);
    client_request(c, "GET", "/abort", "");
    WAIT(h, parked.count == 2);
    client_finish(c);
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 2);
    assert_int_equal(h->last_status, 0);
    assert_int_equal(h->peers_gone, 2);
    host_end(h);
}

/* ---- otherwise */

static void peers_that_leave_between_requests_are_not_told(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_start(h);
    for (int how = 0; how < LEAVES; how++) {
        struct client *c = client_open(h), *fresh = client_open(h), *half = client_open(h);
        assert_int_equal(client_get(c, "/"), 200);
        assert_int_equal(client_get(c, "/"), 200);
        client_send(half, "GET / HTT");
        WAIT(h, h->opens == 3 * how + 3 && h->completes == 2 * how + 2);
        leave(c, how);
        leave(fresh, how);
        leave(half, how);
        WAIT(h, h->closes == 3 * how + 3);
        assert_int_equal(h->peers_gone, 0);
        client_close_all();
    }
    host_end(h);
}

/* A client may send all it has to say, shut its side, and read (RFC 9112 9.6): nothing of it is lost. */
static void requests_before_a_half_close_are_all_answered(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = park;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n"
                   "GET /3 HTTP/1.1\r\nHost: t\r\n\r\n");
    client_finish(c);
    for (int i = 0; i < 3; i++) {
        WAIT(h, parked.count == i + 1);
        if (i == 0)
            WAIT(h, h->peers_gone == 1);
        assert_int_equal(ioh_reply(h->server, parked.ids[i], 200, NULL, 0, "ok", 2), 0);
        assert_int_equal(client_answer(c), 200);
    }
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->completes, 3);
    host_end(h);
}

static void wait_a_little(ioh_req *req, void *state)
{
    poll(NULL, 0, 3);
    int rc = ioh_respond(req, 200, NULL, 0, "ok", 2);
    CHECK((struct host *)state, rc == 0 || rc == IOH_EGONE);
}

static void so_are_those_of_slow_handlers(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = wait_a_little;
    host_start(h);
    for (int i = 0; i < 10; i++) {
        struct client *c = client_open(h);
        client_send(c, "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n");
        client_finish(c);
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(client_answer(c), 200);
        client_expect_end(c);
        client_close(c);
    }
    WAIT(h, h->closes == 10);
    host_end(h);
}

/* Many clients that leave at every moment: the watch's checks are what this is for. */
static void clients_that_leave_at_any_moment_are_told_at_most_once_and_in_order(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = wait_a_little;
    host_start(h);
    for (int i = 0; i < 60; i++) {
        struct client *c = client_open(h);
        client_request(c, "GET", "/", "");
        if (i % 3 == 0)
            WAIT(h, h->requests > 0);
        if (i % 4)
            poll(NULL, 0, i % 5);
        leave(c, i % 2);
    }
    WAIT(h, h->closes == h->opens && host_stats(h).connections == 0);
    assert_true(h->peers_gone <= h->requests);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(running_handler_sees_that_its_client_has_left, IN_WAITING | IN_UNIX),
    HOST_TEST_IN(running_message_handler_sees_it_too, IN_WAITING | IN_UNIX),
    HOST_TEST(request_that_was_parked_is_told_once_when_its_client_leaves),
    HOST_TEST(stream_that_others_go_on_with_is_told_too),
    HOST_TEST(on_peer_gone_may_answer_or_end_the_connection),
    HOST_TEST(peers_that_leave_between_requests_are_not_told),
    HOST_TEST(requests_before_a_half_close_are_all_answered),
    HOST_TEST(so_are_those_of_slow_handlers),
    HOST_TEST(clients_that_leave_at_any_moment_are_told_at_most_once_and_in_order),
};

HOST_MAIN(tests)

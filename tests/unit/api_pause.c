/* ioh_pause() and ioh_resume(): a peer that is not read from, and goes on where it was. */
#include "support/common.h"

static void pause_by_path(ioh_req *req, void *state)
{
    if (path_is(req, "/pause"))
        ioh_pause(ioh_req_conn(req));
    answer_ok(req, state);
}

static void resume(ioh_conn *conn, void *user)
{
    (void)user;
    ioh_resume(conn);
}

static void pause_conn(ioh_conn *conn, void *user)
{
    (void)user;
    ioh_pause(conn);
}

/* Others are served meanwhile: time has passed, and nothing came of the paused one. */
static void let_others_pass(struct host *h)
{
    struct client *c = client_open(h);
    for (int i = 0; i < 20; i++)
        assert_int_equal(client_get(c, "/other"), 200);
    client_close(c);
}

static void paused_connection_is_not_read_until_it_is_resumed(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = pause_by_path;
    host_start(h);
    struct client *c = client_open(h);
    WAIT(h, h->opens == 1);
    ioh_conn_id id = h->last_id;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(client_get(c, "/pause"), 200);
        client_request(c, "GET", "/1", "");
        client_request(c, "GET", "/2", "");
        let_others_pass(h);
        assert_true(client_is_quiet(c));
        assert_int_equal(host_run_on(h, id, resume, NULL, NULL), 0);
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(client_get(c, "/3"), 200);
    }
    client_close(c);
    host_end(h);
}

/* What was in the receive buffer may still come; nothing that is sent from now on does. */
static void requests_that_were_read_already_are_answered_at_the_latest_after_resume(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = pause_by_path;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET /pause HTTP/1.1\r\nHost: t\r\n\r\nGET /1 HTTP/1.1\r\nHost: t\r\n\r\n"
                   "GET /2 HTTP/1.1\r\nHost: t\r\n\r\n");
    WAIT(h, h->requests >= 1);
    ioh_conn_id id = h->last_id;
    assert_int_equal(client_answer(c), 200);
    client_request(c, "GET", "/3", "");
    let_others_pass(h);
    assert_in_range(h->requests, 21, 23);
    assert_int_equal(host_run_on(h, id, resume, NULL, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

/* A pause is about reading: the request that is through is told so. */
static void pause_does_not_hold_back_on_complete(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = pause_by_path;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/pause"), 200);
    WAIT(h, h->completes == 1);
    client_close(c);
    host_run_on(h, h->last_id, resume, NULL, NULL);
    host_end(h);
}

static int pause_at_once(ioh_conn *conn, void *state)
{
    struct host *h = state;
    if (h->opens == 0)
        ioh_pause(conn);
    return 0;
}

static void connection_may_be_paused_from_its_beginning(void **state)
{
    struct host *h = host_new(state);
    h->on.on_open = pause_at_once;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, h->opens == 1);
    ioh_conn_id id = h->last_id;
    let_others_pass(h);
    assert_true(client_is_quiet(c));
    assert_int_equal(host_run_on(h, id, resume, NULL, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

/* ---- bodies and messages */

static void pause_and_count(ioh_req *req, const void *data, size_t len, void *state)
{
    struct seen *s = host_seen(ioh_req_conn(req));
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        CHECK((struct host *)state, bytes[i] == pattern_at((size_t)s->number + i));
    s->number += (int)len;
    ioh_pause(ioh_req_conn(req));
}

static void tell_count(ioh_req *req, void *state)
{
    char text[20];
    int n = snprintf(text, sizeof text, "%d", host_seen(ioh_req_conn(req))->number);
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, text, (size_t)n) == 0);
}

static void *write_body(void *arg)
{
    uint8_t *bytes = pattern(3000000);
    client_request(arg, "POST", "/", "Content-Length: 3000000\r\n");
    client_write(arg, bytes, 3000000);
    free(bytes);
    return NULL;
}

/* Paused after each piece: at most one more piece comes until it is resumed. */
static void body_comes_piece_by_piece_as_the_host_wants_it(void **state)
{
    struct host *h = host_new(state);
    pthread_t writer;
    h->on.on_request = answer_nothing;
    h->on.on_body = pause_and_count;
    h->on.on_request_end = tell_count;
    host_start(h);
    struct client *c = client_open(h);
    WAIT(h, h->opens == 1);
    ioh_conn_id id = h->last_id;
    assert_int_equal(pthread_create(&writer, NULL, write_body, c), 0);
    WAIT(h, h->bodies >= 1);
    for (int resumes = 1; h->request_ends == 0; resumes++) {
        int bodies = h->bodies;
        assert_true(bodies <= 2 * resumes);
        assert_int_equal(host_run_on(h, id, resume, NULL, NULL), 0);
        WAIT(h, h->bodies > bodies || h->request_ends == 1);
    }
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "3000000");
    pthread_join(writer, NULL);
    client_close(c);
    host_end(h);
}

static void pause_and_echo(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    if (len == 5 && memcmp(data, "pause", 5) == 0)
        ioh_pause(conn);
    echo(conn, op, data, len, state);
}

static void messages_wait_and_come_in_order(void **state)
{
    struct host *h = host_new(state);
    char text[20];
    h->on.on_request = answer_ok;
    h->on.on_ws_message = pause_and_echo;
    host_start(h);
    struct client *ws = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 1);
    ioh_conn_id id = h->last_id;
    for (int round = 0; round < 3; round++) {
        int before = h->ws_messages;
        client_ws_send(ws, IOH_WS_TEXT, "pause");
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
        for (int i = 0; i < 50; i++) {
            snprintf(text, sizeof text, "message %d", i);
            client_ws_send(ws, IOH_WS_TEXT, text);
        }
        let_others_pass(h);
        assert_int_equal(h->ws_messages, before + 1);
        assert_int_equal(host_run_on(h, id, resume, NULL, NULL), 0);
        for (int i = 0; i < 50; i++) {
            snprintf(text, sizeof text, "message %d", i);
            assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
            assert_body(ws, text);
        }
    }
    client_ws_leave(ws);
    host_end(h);
}

/* What it sends is not held back. */
static void paused_websocket_still_sends(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = pause_and_echo;
    host_start(h);
    struct client *ws = client_ws_open(h, "/");
    client_ws_send(ws, IOH_WS_TEXT, "pause");
    assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ioh_ws_post(h->server, h->last_id, ioh_ws_frame(IOH_WS_TEXT, "out", 3)),
                         0);
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
        assert_body(ws, "out");
    }
    assert_int_equal(host_run_on(h, h->last_id, resume, NULL, NULL), 0);
    client_ws_leave(ws);
    host_end(h);
}

/* ---- the end of a paused connection */

static void paused_connections_end_when_the_client_resets(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = pause_by_path;
    h->on.on_ws_message = pause_and_echo;
    host_start(h);
    struct client *c = client_open(h), *ws = client_ws_open(h, "/");
    assert_int_equal(client_get(c, "/pause"), 200);
    client_ws_send(ws, IOH_WS_TEXT, "pause");
    assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    client_abort(c);
    client_abort(ws);
    WAIT(h, h->closes == 2);
    assert_int_equal(h->last_ws_code, 1006);
    host_end(h);
}

static void client_that_left_while_paused_is_noticed_after_resume_at_the_latest(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = pause_by_path;
    host_start(h);
    struct client *c = client_open(h);
    WAIT(h, h->opens == 1);
    ioh_conn_id id = h->last_id;
    assert_int_equal(client_get(c, "/pause"), 200);
    client_close(c);
    let_others_pass(h);
    host_run_on(h, id, resume, NULL, NULL);
    WAIT(h, h->closes == 2);
    host_end(h);
}

static void paused_connections_do_not_hold_up_a_stop(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = pause_by_path;
    h->on.on_ws_message = pause_and_echo;
    host_start(h);
    struct client *c = client_open(h), *ws = client_ws_open(h, "/");
    assert_int_equal(client_get(c, "/pause"), 200);
    client_ws_send(ws, IOH_WS_TEXT, "pause");
    assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    host_begin_stop(h, 200);
    client_expect_end(c); /* idle: at once */
    assert_int_equal(client_ws_read(ws), 8);
    assert_int_equal(client_ws_code(ws), 1001);
    client_wait_end(ws); /* its answer is not read; so it ends by the drain time, or its own */
    client_close_all();
    host_end_stop(h);
    host_end(h);
}

/* Again and again while messages come (no more than a socket takes): nothing gets stuck, lost or out of
 * order. */
static void pausing_and_resuming_at_random_loses_nothing(void **state)
{
    struct host *h = host_new(state);
    char text[20];
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *ws = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 1);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "message %d", i);
        host_run_on(h, h->last_id, pause_conn, NULL, NULL);
        client_ws_send(ws, IOH_WS_TEXT, text);
        host_run_on(h, h->last_id, resume, NULL, NULL);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "message %d", i);
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
        assert_body(ws, text);
    }
    client_ws_leave(ws);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(paused_connection_is_not_read_until_it_is_resumed),
    HOST_TEST(requests_that_were_read_already_are_answered_at_the_latest_after_resume),
    HOST_TEST(pause_does_not_hold_back_on_complete),
    HOST_TEST(connection_may_be_paused_from_its_beginning),
    HOST_TEST(body_comes_piece_by_piece_as_the_host_wants_it),
    HOST_TEST(messages_wait_and_come_in_order),
    HOST_TEST(paused_websocket_still_sends),
    HOST_TEST(paused_connections_end_when_the_client_resets),
    HOST_TEST(client_that_left_while_paused_is_noticed_after_resume_at_the_latest),
    HOST_TEST(paused_connections_do_not_hold_up_a_stop),
    HOST_TEST(pausing_and_resuming_at_random_loses_nothing),
};

HOST_MAIN(tests)

/* Requests as a host sees them: their strings, the order of callbacks, what absent callbacks mean. */
#include "support/common.h"

/* ---- reading */

static void look(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_str name, value;
    CHECK(h, str_is(ioh_req_method(req), "POST"));
    CHECK(h, str_is(ioh_req_target(req), "/a%20b/c?x=1&y"));
    CHECK(h, str_is(ioh_req_path(req), "/a%20b/c"));
    CHECK(h, str_is(ioh_req_query(req), "x=1&y"));
    CHECK(h, ioh_req_minor_version(req) == 1);
    CHECK(h, ioh_req_content_length(req) == 3);
    CHECK(h, ioh_req_header_count(req) == 5);
    CHECK(h, str_is(ioh_req_header(req, "x-two"), "first"));
    CHECK(h, str_is(ioh_req_header(req, "HOST"), "h"));
    CHECK(h, str_is(ioh_req_header(req, "X-Empty"), ""));
    CHECK(h, ioh_req_header(req, "X-Absent").ptr == NULL);
    CHECK(h, ioh_req_header(req, "X").ptr == NULL);
    CHECK(h, ioh_req_header_at(req, 2, &name, &value) == 0);
    CHECK(h, str_is(name, "x-TWO") && str_is(value, "first"));
    CHECK(h, ioh_req_header_at(req, 3, &name, &value) == 0);
    CHECK(h, str_is(name, "X-Two") && str_is(value, "second  third"));
    CHECK(h, ioh_req_header_at(req, 5, &name, &value) == IOH_EINVAL);
    CHECK(h, ioh_req_header_at(req, SIZE_MAX, &name, &value) == IOH_EINVAL);
    CHECK(h, ioh_req_user(req) == NULL);
    ioh_req_set_user(req, h);
}

static void look_again(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_req_user(req) == h);
    CHECK(h, ioh_respond(req, 200, NULL, 0, NULL, 0) == 0);
}

static void request_is_told_as_it_was_sent(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = look;
    h->on.on_request_end = look_again;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "POST /a%20b/c?x=1&y HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nx-TWO:first\r\n"
                   "X-Two: \tsecond  third\t \r\nContent-Length: 3\r\n\r\nabc");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static const struct {
    const char *line, *path, *query;
    int64_t length;
    const char *fields;
} targets[] = {
    {"GET / HTTP/1.1", "/", NULL, 0, ""},
    {"GET /? HTTP/1.1", "/", "", 0, ""},
    {"GET /a?b?c HTTP/1.1", "/a", "b?c", 0, ""},
    {"GET http://test/p/q?r HTTP/1.1", "/p/q", "r", 0, ""},
    {"GET http://test HTTP/1.1", "/", NULL, 0, ""},
    {"GET http://test?s HTTP/1.1", "/", "s", 0, ""},
    {"OPTIONS * HTTP/1.1", "*", NULL, 0, ""},
    {"POST /n HTTP/1.1", "/n", NULL, 0, "Content-Length: 0\r\n"},
};

static void look_at_target(ioh_req *req, void *state)
{
    struct host *h = state;
    struct seen *s = host_seen(ioh_req_conn(req));
    int i = s->number++;
    struct ioh_str query = ioh_req_query(req);
    CHECK(h, path_is(req, targets[i].path));
    CHECK(h, targets[i].query ? str_is(query, targets[i].query) : !query.ptr);
    CHECK(h, ioh_req_content_length(req) == targets[i].length);
    answer_ok(req, state);
}

static void path_and_query_of_every_form_of_target(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = look_at_target;
    host_start(h);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        client_send(c, targets[i].line);
        client_send(c, "\r\nHost: test\r\n");
        client_send(c, targets[i].fields);
        client_send(c, "\r\n");
        assert_int_equal(client_answer(c), 200);
    }
    client_close(c);
    host_end(h);
}

static void tell_length(ioh_req *req, void *state)
{
    char text[30];
    int n = snprintf(text, sizeof text, "%lld 1.%d", (long long)ioh_req_content_length(req),
                     ioh_req_minor_version(req));
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, text, (size_t)n) == 0);
}

static void content_length_is_minus_one_when_chunked(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    h->on.on_request_end = tell_length;
    host_start(h);
    struct client *c = client_open(h);
    client_send(
        c, "PUT / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "-1 1.1");
    client_send(c, "PUT / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "2 1.0");
    client_close(c);
    host_end(h);
}

/* ---- bodies */

static void see_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct seen *s = host_seen(ioh_req_conn(req));
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        CHECK((struct host *)state, bytes[i] == pattern_at((size_t)s->number + i));
    s->number += (int)len;
}

static void tell_body(ioh_req *req, void *state)
{
    struct seen *s = host_seen(ioh_req_conn(req));
    char text[30];
    int n = snprintf(text, sizeof text, "%d bytes", s->number);
    s->number = 0;
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, text, (size_t)n) == 0);
}

static void body_comes_whole_and_in_order(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    h->on.on_body = see_body;
    h->on.on_request_end = tell_body;
    host_start(h);
    struct client *c = client_open(h);
    uint8_t *bytes = pattern(1000000);
    client_request(c, "POST", "/", "Content-Length: 1000000\r\n");
    client_write(c, bytes, 1000000);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "1000000 bytes");
    client_request(c, "POST", "/", "Transfer-Encoding: chunked\r\n");
    for (size_t at = 0; at < 100000; at += 1000) {
        client_send(c, "3E8\r\n");
        client_write(c, bytes + at, 1000);
        client_send(c, "\r\n");
    }
    client_send(c, "0\r\nX-Trailer: t\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "100000 bytes");
    free(bytes);
    client_close(c);
    host_end(h);
}

#define KEPT_FIELDS 60

static void check_kept(struct host *h, ioh_req *req)
{
    char name[20], value[40];
    if (!host_seen(ioh_req_conn(req))->data)
        return; /* one of the others */
    CHECK(h, path_is(req, "/kept/until/complete"));
    CHECK(h, str_is(ioh_req_query(req), "and=this"));
    CHECK(h, str_is(ioh_req_method(req), "POST"));
    for (int i = 0; i < KEPT_FIELDS; i++) {
        snprintf(name, sizeof name, "x-field-%d", i);
        snprintf(value, sizeof value, "the value of field %d", i);
        CHECK(h, str_is(ioh_req_header(req, name), value));
    }
}

static void kept_on_request(ioh_req *req, void *state)
{
    if (ioh_req_content_length(req))
        host_seen(ioh_req_conn(req))->data = state;
    check_kept(state, req);
    if (ioh_req_content_length(req) == 0)
        answer_ok(req, state);
}

static void kept_on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    see_body(req, data, len, state);
    check_kept(state, req);
}

static void kept_on_request_end(ioh_req *req, void *state)
{
    check_kept(state, req);
    if (ioh_req_content_length(req))
        tell_body(req, state);
}

static void kept_on_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)status;
    (void)bytes;
    check_kept(state, req);
}

/* Others use the thread's receive buffer while the body trickles in. */
static void request_strings_stay_valid_until_on_complete(void **state)
{
    struct host *h = host_new(state);
    struct client *others[4], *c;
    uint8_t *bytes = pattern(40);
    char field[80];
    h->on.on_request = kept_on_request;
    h->on.on_body = kept_on_body;
    h->on.on_request_end = kept_on_request_end;
    h->on.on_complete = kept_on_complete;
    host_start(h);
    c = client_open(h);
    for (int i = 0; i < 4; i++)
        others[i] = client_open(h);
    client_send(c,
                "POST /kept/until/complete?and=this HTTP/1.1\r\nHost: t\r\nContent-Length: 40\r\n");
    for (int i = 0; i < KEPT_FIELDS; i++) {
        snprintf(field, sizeof field, "X-Field-%d: the value of field %d\r\n", i, i);
        client_send(c, field);
    }
    client_send(c, "\r\n");
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 4; k++)
            assert_int_equal(client_get(others[k], "/another/one?that=overwrites"), 200);
        client_write(c, bytes + i, 1);
        WAIT(h, h->bodies == i + 1);
    }
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "40 bytes");
    free(bytes);
    client_close_all();
    host_end(h);
}

/* ---- pipelining */

static ioh_response *shared_answer;

static void mixed(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/whole"))
        CHECK(h, ioh_respond(req, 200, NULL, 0, "first", 5) == 0);
    else if (path_is(req, "/stream"))
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0 &&
                     ioh_respond_data(req, "sec", 3) == 0);
    else
        CHECK(h, ioh_respond_shared(req, shared_answer) == 0);
}

static void go_on(ioh_conn *conn, void *user)
{
    struct host *h = user;
    ioh_req *req = host_seen(conn)->req;
    CHECK(h, req && path_is(req, "/stream"));
    CHECK(h, ioh_respond_data(req, "ond", 3) == 0);
    CHECK(h, ioh_respond_end(req) == 0);
}

static void pipelined_requests_are_answered_in_order_one_at_a_time(void **state)
{
    struct host *h = host_new(state);
    shared_answer = ioh_response_create(203, NULL, 0, "third", 5);
    assert_non_null(shared_answer);
    h->on.on_request = mixed;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET /whole HTTP/1.1\r\nHost: t\r\n\r\nGET /stream HTTP/1.1\r\nHost: t\r\n\r\n"
                   "GET /shared HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "first");
    WAIT(h, h->requests == 2);
    assert_int_equal(host_run_on(h, h->last_id, go_on, h, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "second");
    assert_int_equal(c->chunks, 2);
    assert_int_equal(client_answer(c), 203);
    assert_body(c, "third");
    client_close(c);
    host_end(h);
    ioh_response_destroy(shared_answer);
}

/* ---- hosts that answer nothing, absent callbacks */

static void expect_500(struct host *h, const char *request)
{
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, request);
    assert_int_equal(client_answer(c), 500);
    assert_field(c, "Connection", "close");
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_status, 500);
    assert_int_equal(host_stats(h).requests_refused, 1);
    assert_true(h->logs > 0);
    host_end(h);
}

#define GET_REQUEST "GET / HTTP/1.1\r\nHost: t\r\n\r\n"
#define POST_REQUEST "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab"

static void no_answer_to_a_request_without_body_is_500(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    expect_500(h, GET_REQUEST);
}

static void no_answer_after_on_request_end_is_500(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    h->on.on_request_end = answer_nothing;
    expect_500(h, POST_REQUEST);
}

static void no_answer_to_a_body_that_nobody_wants_is_500(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    expect_500(h, POST_REQUEST);
}

static void without_on_request_everything_is_404_and_the_connection_stays(void **state)
{
    struct host *h = host_new(state);
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 404);
    client_send(c, POST_REQUEST);
    assert_int_equal(client_answer(c), 404);
    assert_int_equal(client_get(c, "/again"), 404);
    assert_null(client_field(c, "Connection"));
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->completes, 0);
    assert_int_equal(host_stats(h).requests, 3);
    host_end(h);
}

static void without_on_body_the_body_is_dropped(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    h->on.on_request_end = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, POST_REQUEST POST_REQUEST);
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static void without_websocket_callbacks_an_upgrade_is_a_plain_request(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", WS_UPGRADE);
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_end(h);
}

static void a_host_without_any_callback_answers_404(void **state)
{
    (void)state;
    struct ioh_handler nothing = IOH_HANDLER_INIT;
    ioh_server *s;
    char address[64];
    assert_int_equal(ioh_server_create(&s, &nothing, NULL, NULL), 0);
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), 0);
    assert_int_equal(ioh_server_start(s), 0);
    assert_int_equal(ioh_server_address(s, 0, address, sizeof address), 0);
    struct client *c = client_open_at(address);
    assert_int_equal(client_get(c, "/"), 404);
    client_send(c, "bad\r\n\r\n");
    assert_int_equal(client_answer(c), 400);
    client_expect_end(c);
    client_close(c);
    assert_int_equal(ioh_server_stop(s, LONG_DRAIN_MS), 0);
    ioh_server_destroy(s);
}

/* ---- connections */

static void look_at_conn(ioh_req *req, void *state)
{
    struct host *h = state;
    const ioh_conn *conn = ioh_req_conn(req);
    char text[64], tiny[4];
    int port = 0;
    ioh_conn_peer(conn, text, sizeof text);
    if (h->config->unix_socket)
        CHECK(h, strcmp(text, "unix:") == 0);
    else
        CHECK(h, sscanf(text, "127.0.0.1:%d", &port) == 1 && port > 0);
    ioh_conn_peer(conn, tiny, sizeof tiny);
    CHECK(h, strlen(tiny) == 3 && strncmp(tiny, text, 3) == 0);
    CHECK(h, ioh_conn_server(conn) == h->server);
    CHECK(h, ioh_conn_listener(conn) == 0);
    CHECK(h, ioh_conn_get_id(conn) == h->last_id);
    CHECK(h, ioh_conn_queued(conn) == 0);
    answer_ok(req, state);
    if (host_is_direct(h)) /* else it may be out already */
        CHECK(h, ioh_conn_queued(conn) > 2);
}

static void connection_tells_peer_server_listener_and_queue(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = look_at_conn;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_end(h);
}

static int refuse_odd(ioh_conn *conn, void *state)
{
    struct host *h = state;
    (void)conn;
    return (h->opens + h->refusals) % 2 == 0 ? -1 : 0;
}

static void connection_refused_by_on_open_is_reset_and_never_told_again(void **state)
{
    struct host *h = host_new(state);
    h->on.on_open = refuse_odd;
    h->on.on_request = answer_ok;
    host_start(h);
    for (int i = 1; i <= 4; i++) {
        struct client *c = client_open(h);
        client_try_write(c, GET_REQUEST, sizeof GET_REQUEST - 1);
        client_expect_end(c);
        assert_true(c->reset || h->config->unix_socket);
        client_close(c);
        WAIT(h, h->refusals == i);
        c = client_open(h);
        assert_int_equal(client_get(c, "/"), 200);
        client_close(c);
        WAIT(h, h->closes == i);
    }
    assert_int_equal(h->opens, 4);
    WAIT(h, host_stats(h).connections == 0);
    assert_int_equal(host_stats(h).accepted, 8);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(request_is_told_as_it_was_sent),
    HOST_TEST(path_and_query_of_every_form_of_target),
    HOST_TEST(content_length_is_minus_one_when_chunked),
    HOST_TEST(body_comes_whole_and_in_order),
    HOST_TEST(request_strings_stay_valid_until_on_complete),
    HOST_TEST(pipelined_requests_are_answered_in_order_one_at_a_time),
    HOST_TEST(no_answer_to_a_request_without_body_is_500),
    HOST_TEST(no_answer_after_on_request_end_is_500),
    HOST_TEST(no_answer_to_a_body_that_nobody_wants_is_500),
    HOST_TEST(without_on_request_everything_is_404_and_the_connection_stays),
    HOST_TEST(without_on_body_the_body_is_dropped),
    HOST_TEST(without_websocket_callbacks_an_upgrade_is_a_plain_request),
    HOST_TEST_ONCE(a_host_without_any_callback_answers_404),
    HOST_TEST(connection_tells_peer_server_listener_and_queue),
    HOST_TEST(connection_refused_by_on_open_is_reset_and_never_told_again),
};

HOST_MAIN(tests)

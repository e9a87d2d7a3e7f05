/* WebSockets: the handshake as the host decides it, messages both ways, the end. */
#include "support/common.h"

/* ---- handshake */

static void accepted_by_default_when_on_ws_message_is_there(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_open(h);
    /* The key and the answer of RFC 6455 1.3. */
    client_send(c,
                "GET /chat HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    assert_int_equal(client_read(c, true), 101);
    assert_field(c, "Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_field(c, "Upgrade", "websocket");
    assert_field(c, "Connection", "Upgrade");
    assert_null(client_field(c, "Sec-WebSocket-Protocol"));
    WAIT(h, host_stats(h).websockets == 1);
    client_ws_send(c, IOH_WS_TEXT, "hello");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "hello");
    client_ws_leave(c);
    host_end(h);
}

/* The status stands in the path; /respond answers by itself. */
static int decide(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    struct host *h = state;
    struct ioh_str path = ioh_req_path(req);
    int result = 0;
    char text[30];
    snprintf(text, sizeof text, "%.*s", (int)path.len, path.ptr);
    CHECK(h, str_is(ioh_req_method(req), "GET"));
    CHECK(h, ioh_ws_send(ioh_req_conn(req), IOH_WS_TEXT, "early", 5) == IOH_ESTATE);
    if (strcmp(text, "/respond") == 0) {
        const struct ioh_header field = {"X-Why", "because"};
        CHECK(h, ioh_respond(req, 401, &field, 1, "who?", 4) == 0);
    } else if (strcmp(text, "/chat") == 0) {
        CHECK(h, ioh_ws_offers(req, "chat.v1") == 1);
        CHECK(h, ioh_ws_offers(req, "CHAT.v1") == 0);
        CHECK(h, ioh_ws_offers(req, "chat") == 0);
        CHECK(h, ioh_ws_offers(req, "") == 0);
        accept->protocol = "chat.v2";
    } else {
        CHECK(h, sscanf(text, "/%d", &result) == 1);
    }
    return result;
}

static struct host *deciding_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    h->on.on_ws_upgrade = decide;
    h->on.on_ws_message = echo;
    host_start(h);
    return h;
}

static void refused_by_status_or_by_an_answer_of_the_host(void **state)
{
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/400", 400}, {"/403", 403}, {"/503", 503}, {"/599", 599}, {"/-1", 500},
                 {"/1", 500},   {"/101", 500}, {"/200", 500}, {"/399", 500}, {"/600", 500}};
    struct host *h = deciding_host(state);
    struct client *c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c = client_open(h);
        client_request(c, "GET", cases[i].path, WS_UPGRADE);
        assert_int_equal(client_answer(c), cases[i].status);
        client_expect_end(c);
        client_close(c);
    }
    c = client_open(h);
    client_request(c, "GET", "/respond", WS_UPGRADE);
    assert_int_equal(client_answer(c), 401);
    assert_field(c, "X-Why", "because");
    assert_body(c, "who?");
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == h->opens);
    assert_int_equal(h->ws_opens, 0);
    assert_int_equal(h->requests, 0);
    host_end(h);
}

static void subprotocol_is_one_that_was_offered(void **state)
{
    struct host *h = deciding_host(state);
    struct client *c = client_open(h);
    client_request(c, "GET", "/chat", WS_UPGRADE "Sec-WebSocket-Protocol: chat.v1, chat.v2\r\n");
    assert_int_equal(client_read(c, true), 101);
    assert_field(c, "Sec-WebSocket-Protocol", "chat.v2");
    client_ws_leave(c);
    c = client_open(h);
    client_request(c, "GET", "/chat", WS_UPGRADE "Sec-WebSocket-Protocol: chat.v1\r\n");
    assert_int_equal(client_answer(c), 500);
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

static void bad_handshakes_never_reach_the_host(void **state)
{
    struct host *h = deciding_host(state);
    struct client *c = client_open(h);
    client_request(c, "GET", "/0",
                   "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Version: 8\r\n"
                   "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n");
    assert_int_equal(client_answer(c), 426);
    assert_field(c, "Sec-WebSocket-Version", "13");
    client_close(c);
    c = client_open(h);
    client_request(c, "GET", "/0",
                   "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n");
    assert_int_equal(client_answer(c), 400);
    client_close(c);
    WAIT(h, h->closes == 2);
    assert_int_equal(h->upgrades, 0);
    assert_int_equal(host_stats(h).requests_refused, 2);
    host_end(h);
}

static void greet(ioh_conn *conn, void *state)
{
    CHECK((struct host *)state, ioh_ws_send(conn, IOH_WS_TEXT, "welcome", 7) == 0);
}

static void frames_that_come_with_the_handshake_are_not_lost(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_open = greet;
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c,
                "GET / HTTP/1.1\r\nHost: t\r\n" WS_UPGRADE "\r\n\x81\x82\x01\x01\x01\x01\x69\x68");
    assert_int_equal(client_read(c, true), 101);
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "welcome");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "hi");
    client_ws_leave(c);
    host_end(h);
}

static void connection_that_spoke_http_becomes_a_websocket(void **state)
{
    struct host *h = deciding_host(state);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_int_equal(client_get(c, "/"), 200);
    client_request(c, "GET", "/0", WS_UPGRADE);
    assert_int_equal(client_read(c, true), 101);
    client_ws_send(c, IOH_WS_TEXT, "x");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    assert_int_equal(h->opens, 1);
    assert_int_equal(h->completes, 2);
    host_end(h);
}

/* ---- messages */

static atomic_int releases;

/* Answers by each sending function in turn. */
static void echo_by_turns(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    int turn = host_seen(conn)->number++;
    uint8_t *bytes = data;
    if (turn % 3 == 0) {
        if (len) { /* "data may be changed" */
            bytes[0] ^= 1;
            bytes[0] ^= 1;
        }
        CHECK(h, ioh_ws_send(conn, op, data, len) >= 0);
    } else if (turn % 3 == 1) {
        uint8_t *copy = malloc(len + 1);
        memcpy(copy, data, len);
        CHECK(h, ioh_ws_send_buf(conn, op, ioh_buf_copy(copy, len)) >= 0);
        free(copy);
    } else {
        CHECK(h, ioh_ws_send_frame(conn, ioh_ws_frame(op, data, len)) >= 0);
    }
}

static void messages_of_every_size_come_and_go_whole(void **state)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 4096, 4097, 65535, 65536, 1000000};
    struct host *h = host_new(state);
    uint8_t *bytes = pattern(1000000);
    int count = 0;
    h->on.on_ws_message = echo_by_turns;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int k = 0; k < 3; k++, count++) {
            client_ws_frame(c, 0x80 | (k == 1 ? IOH_WS_BINARY : IOH_WS_TEXT), bytes, sizes[i]);
            assert_int_equal(client_ws_read(c), k == 1 ? IOH_WS_BINARY : IOH_WS_TEXT);
            assert_true(c->fin);
            assert_int_equal(c->body_len, sizes[i]);
            assert_true(is_pattern(c->body, sizes[i]));
        }
    }
    client_ws_leave(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).ws_messages_received, count);
    assert_int_equal(host_stats(h).ws_messages_sent, count);
    host_end(h);
    free(bytes);
}

static void fragments_make_one_message_and_pings_may_come_between(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_frame(c, IOH_WS_TEXT, "one ", 4);
    client_ws_frame(c, 0, "two ", 4);
    client_ws_send(c, IOH_WS_PING, "ping");
    client_ws_frame(c, 0x80, "three", 5);
    assert_int_equal(client_ws_read(c), IOH_WS_PONG);
    assert_body(c, "ping");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "one two three");
    client_ws_leave(c);
    assert_int_equal(h->ws_messages, 1);
    assert_int_equal(h->ws_pings, 1);
    host_end(h);
}

static void see_control(ioh_conn *conn, const void *data, size_t len, void *state)
{
    struct host *h = state;
    CHECK(h, len == 4 && memcmp(data, "data", 4) == 0);
    CHECK(h, ioh_ws_send(conn, IOH_WS_PING, "mine", 4) == 0);
}

static void pings_and_pongs_are_told_and_may_be_sent(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = echo;
    h->on.on_ws_ping = see_control;
    h->on.on_ws_pong = see_control;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_PING, "data");
    assert_int_equal(client_ws_read(c), IOH_WS_PONG); /* had been queued before on_ws_ping */
    assert_body(c, "data");
    assert_int_equal(client_ws_read(c), IOH_WS_PING);
    assert_body(c, "mine");
    client_ws_send(c, IOH_WS_PONG, "data");
    assert_int_equal(client_ws_read(c), IOH_WS_PING);
    client_ws_leave(c);
    assert_int_equal(host_stats(h).ws_messages_sent, 0); /* data messages only */
    host_end(h);
}

static void messages_of_a_turn_leave_together_and_in_order(void **state)
{
    struct host *h = host_new(state);
    char text[20];
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "message %d", i);
        client_ws_send(c, IOH_WS_TEXT, text);
    }
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "message %d", i);
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_body(c, text);
    }
    client_ws_leave(c);
    host_end(h);
}

/* ---- errors of sending */

static char payload[200];

static void send_badly(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    static const int bad_ops[] = {-1, 0, 3, 7, 8, 11, 15, 16, 129};
    static const int bad_codes[] = {-1, 1, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65536};
    struct host *h = state;
    atomic_store(&releases, 0);
    int bufs = 0;
    for (size_t i = 0; i < sizeof bad_ops / sizeof *bad_ops; i++, bufs++) {
        CHECK(h, ioh_ws_send(conn, bad_ops[i], "x", 1) == IOH_EINVAL);
        CHECK(h,
              ioh_ws_send_buf(conn, bad_ops[i], counted_buf(payload, 1, &releases)) == IOH_EINVAL);
        CHECK(h, ioh_ws_frame(bad_ops[i], "x", 1) == NULL);
    }
    for (int control = IOH_WS_PING; control <= IOH_WS_PONG; control++, bufs++) {
        CHECK(h, ioh_ws_send(conn, control, payload, 126) == IOH_EINVAL);
        CHECK(h,
              ioh_ws_send_buf(conn, control, counted_buf(payload, 126, &releases)) == IOH_EINVAL);
        CHECK(h, ioh_ws_frame(control, payload, 126) == NULL);
    }
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, NULL, 1) == IOH_EINVAL);
    CHECK(h, ioh_ws_send_buf(conn, IOH_WS_TEXT, NULL) == IOH_EINVAL);
    CHECK(h, ioh_ws_frame(IOH_WS_TEXT, NULL, 1) == NULL);
    CHECK(h, ioh_ws_send_frame(conn, NULL) == IOH_EINVAL);
    CHECK(h, ioh_ws_send_frame(conn, counted_buf(payload, 1, &releases)) == IOH_EINVAL);
    bufs++;
    for (size_t i = 0; i < sizeof bad_codes / sizeof *bad_codes; i++)
        CHECK(h, ioh_ws_close(conn, bad_codes[i], NULL, 0) == IOH_EINVAL);
    CHECK(h, ioh_ws_close(conn, 0, "x", 1) == IOH_EINVAL);
    CHECK(h, ioh_ws_close(conn, 1000, payload, 124) == IOH_EINVAL);
    CHECK(h, ioh_ws_close(conn, 1000, "\xff", 1) == IOH_EINVAL);
    CHECK(h, releases == bufs);
    echo(conn, op, data, len, state); /* none of it did anything */
}

static void bad_sends_are_refused_and_send_nothing(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = send_badly;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "still here");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "still here");
    client_ws_leave(c);
    host_end(h);
}

static void expect_no_sending(struct host *h, ioh_conn *conn, int rc)
{
    atomic_store(&releases, 0);
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "x", 1) == rc);
    CHECK(h, ioh_ws_send_buf(conn, IOH_WS_TEXT, counted_buf(payload, 1, &releases)) == rc);
    CHECK(h, releases == 1);
    CHECK(h, ioh_ws_send_frame(conn, ioh_ws_frame(IOH_WS_TEXT, "x", 1)) == rc);
    CHECK(h, ioh_ws_close(conn, 1000, NULL, 0) == rc);
}

static void no_websocket_yet(ioh_req *req, void *state)
{
    expect_no_sending(state, ioh_req_conn(req), IOH_ESTATE);
    answer_ok(req, state);
}

static void end_as_told(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)op;
    if (len == 5 && memcmp(data, "close", 5) == 0) {
        CHECK(h, ioh_ws_close(conn, 1000, NULL, 0) == 0);
        expect_no_sending(h, conn, IOH_ESTATE);
    } else {
        if (len == 5)
            ioh_abort(conn);
        else
            ioh_close(conn);
        expect_no_sending(h, conn, IOH_EGONE);
    }
}

static void sending_outside_an_open_websocket_is_refused(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = no_websocket_yet;
    h->on.on_ws_message = end_as_told;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "close");
    assert_int_equal(client_ws_read(c), 8);
    client_ws_close(c, 1000, "");
    client_expect_end(c);
    client_close(c);
    for (int i = 0; i < 2; i++) {
        c = client_ws_open(h, "/");
        client_ws_send(c, IOH_WS_TEXT, i ? "abort" : "ioh_close");
        client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == 3 + i);
        assert_int_equal(h->last_ws_code, 1006);
    }
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(accepted_by_default_when_on_ws_message_is_there),
    HOST_TEST(refused_by_status_or_by_an_answer_of_the_host),
    HOST_TEST(subprotocol_is_one_that_was_offered),
    HOST_TEST(bad_handshakes_never_reach_the_host),
    HOST_TEST(frames_that_come_with_the_handshake_are_not_lost),
    HOST_TEST(connection_that_spoke_http_becomes_a_websocket),
    HOST_TEST(messages_of_every_size_come_and_go_whole),
    HOST_TEST(fragments_make_one_message_and_pings_may_come_between),
    HOST_TEST(pings_and_pongs_are_told_and_may_be_sent),
    HOST_TEST(messages_of_a_turn_leave_together_and_in_order),
    HOST_TEST(bad_sends_are_refused_and_send_nothing),
    HOST_TEST(sending_outside_an_open_websocket_is_refused),
};

HOST_MAIN(tests)

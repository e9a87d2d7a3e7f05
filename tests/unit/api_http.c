/* Early answers, Expect: 100-continue, and closing inside every kind of callback. */
#include "support/common.h"

/* ---- answers before the body has come */

static void early_host(struct host *h)
{
    h->on.on_request = answer_ok;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_nothing;
    host_start(h);
}

static void small_body_after_an_early_answer_is_drained_and_the_connection_goes_on(void **state)
{
    struct host *h = host_new(state);
    early_host(h);
    struct client *c = client_open(h);
    char rest[1000];
    memset(rest, 'r', sizeof rest);
    client_request(c, "POST", "/", "Content-Length: 1000\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_null(client_field(c, "Connection"));
    client_write(c, rest, sizeof rest);
    client_request(c, "POST", "/", "Transfer-Encoding: chunked\r\n");
    assert_int_equal(client_answer(c), 200);
    client_send(c, "3\r\nabc\r\n5;x=y\r\nabcde\r\n0\r\nTrailer: t\r\n\r\n");
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->bodies, 0);
    /* Only the one without a body was told to be whole. */
    assert_int_equal(h->request_ends, 0);
    assert_int_equal(h->completes, 3);
    host_end(h);
}

/* The client sends everything before it reads: a reset would take the answer from it. */
static void send_all_then_read(struct client *c, size_t len, bool chunked)
{
    uint8_t *rest = pattern(len);
    bool open = true;
    for (size_t at = 0; at < len && open; at += 10000) {
        open = (!chunked || client_try_write(c, "2710\r\n", 6)) &&
               client_try_write(c, rest + at, 10000) &&
               (!chunked || client_try_write(c, "\r\n", 2));
    }
    free(rest);
    assert_true(open);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "ok");
}

static void large_body_after_an_early_answer_closes_but_the_answer_can_be_read(void **state)
{
    struct host *h = host_new(state);
    early_host(h);
    struct client *c = client_open(h);
    client_request(c, "POST", "/", "Content-Length: 4000000\r\n");
    send_all_then_read(c, 4000000, false);
    assert_field(c, "Connection", "close");
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    c = client_open(h);
    client_request(c, "POST", "/", "Transfer-Encoding: chunked\r\n");
    send_all_then_read(c, 1000000, true);
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 2);
    assert_int_equal(h->bodies, 0);
    assert_int_equal(h->request_ends, 0);
    assert_int_equal(h->completes, 2);
    host_end(h);
}

static void answer_on_first_piece(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    answer_ok(req, state);
}

static void answer_in_the_midst_of_the_body_ends_its_callbacks(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_nothing;
    h->on.on_body = answer_on_first_piece;
    h->on.on_request_end = answer_nothing;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 1; i <= 2; i++) {
        client_request(c, "POST", "/", "Content-Length: 6\r\n");
        client_send(c, "abc");
        assert_int_equal(client_answer(c), 200);
        client_send(c, "def");
        WAIT(h, h->completes == i);
        assert_int_equal(h->bodies, i);
    }
    client_close(c);
    host_end(h);
}

/* ---- Expect: 100-continue */

#define EXPECT "Expect: 100-continue\r\n"

static void expectant_host(struct host *h, bool early)
{
    h->on.on_request = early ? answer_ok : answer_nothing;
    h->on.on_body = drop_body;
    h->on.on_request_end = early ? answer_nothing : answer_ok;
    host_start(h);
}

static void continue_is_sent_once_when_the_host_wants_the_body(void **state)
{
    struct host *h = host_new(state);
    expectant_host(h, false);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        client_request(c, "POST", "/", EXPECT "Content-Length: 6\r\n");
        assert_int_equal(client_read(c, false), 100);
        client_send(c, "abc");
        WAIT(h, h->bodies == 1 + 2 * i);
        client_send(c, "def");
        assert_int_equal(client_answer(c), 200); /* no other 100 before it */
        WAIT(h, h->bodies == 2 + 2 * i);
    }
    client_request(c, "POST", "/", EXPECT "Transfer-Encoding: chunked\r\n");
    assert_int_equal(client_read(c, false), 100);
    client_send(c, "1\r\na\r\n0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static void continue_is_not_sent_when_the_body_is_there_or_empty(void **state)
{
    struct host *h = host_new(state);
    expectant_host(h, false);
    struct client *c = client_open(h);
    client_send(c, "POST / HTTP/1.1\r\nHost: t\r\n" EXPECT "Content-Length: 3\r\n\r\nabc");
    assert_int_equal(client_answer(c), 200);
    client_send(c, "POST / HTTP/1.1\r\nHost: t\r\n" EXPECT "Content-Length: 3\r\n\r\na");
    client_send(c, "bc");
    assert_int_equal(client_answer(c), 200);
    client_request(c, "POST", "/", EXPECT "Content-Length: 0\r\n");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static void continue_is_not_sent_after_a_final_answer(void **state)
{
    struct host *h = host_new(state);
    expectant_host(h, true);
    struct client *c = client_open(h);
    client_request(c, "POST", "/", EXPECT "Content-Length: 6\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "close"); /* nobody waits for that body */
    client_finish(c);
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

static void continue_is_not_sent_to_http_1_0(void **state)
{
    struct host *h = host_new(state);
    expectant_host(h, false);
    struct client *c = client_open(h);
    client_send(c, "POST / HTTP/1.0\r\n" EXPECT "Content-Length: 3\r\n\r\n");
    WAIT(h, h->requests == 1);
    client_send(c, "abc");
    assert_int_equal(client_answer(c), 200);
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

/* ---- ioh_close() and ioh_abort() inside each kind of callback */

enum where {
    IN_OPEN,
    IN_REQUEST,
    IN_BODY,
    IN_REQUEST_END,
    IN_COMPLETE,
    IN_DRAIN,
    IN_RUN,
    IN_UPGRADE,
    IN_WS_OPEN,
    IN_MESSAGE,
    IN_PING,
    IN_PONG,
    IN_WS_CLOSE,
    IN_CLOSE,
    EVERYWHERE
};

static atomic_int end_in;
static atomic_bool end_hard;
static uint8_t *large;

static void end_if(enum where here, ioh_conn *conn)
{
    struct seen *s = host_seen(conn);
    if (end_in != (int)here)
        return;
    for (int twice = 0; twice < 2; twice++) { /* the second is without effect */
        if (end_hard)
            ioh_abort(conn);
        else
            ioh_close(conn);
    }
    s->number = 1;
}

/* For what must not come once the connection has been closed. */
static void alive(struct host *h, ioh_conn *conn)
{
    CHECK(h, host_seen(conn)->number == 0);
}

static int ending_open(ioh_conn *conn, void *state)
{
    (void)state;
    end_if(IN_OPEN, conn);
    return 0;
}

static void ending_request(ioh_req *req, void *state)
{
    alive(state, ioh_req_conn(req));
    end_if(IN_REQUEST, ioh_req_conn(req));
}

static void ending_body(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    alive(state, ioh_req_conn(req));
    end_if(IN_BODY, ioh_req_conn(req));
}

static void ending_request_end(ioh_req *req, void *state)
{
    struct host *h = state;
    alive(h, ioh_req_conn(req));
    int rc = ioh_respond(req, 200, NULL, 0, large, 1000000);
    CHECK(h, rc == IOH_QUEUED || (rc == IOH_EGONE && h->config->exec != IOH_EXEC_INLINE));
    end_if(IN_REQUEST_END, ioh_req_conn(req));
}

static void ending_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)status;
    (void)bytes;
    (void)state;
    end_if(IN_COMPLETE, ioh_req_conn(req));
}

static void ending_drain(ioh_conn *conn, void *state)
{
    alive(state, conn);
    end_if(IN_DRAIN, conn);
}

static void ending_run(ioh_conn *conn, void *user)
{
    (void)user;
    end_if(IN_RUN, conn);
}

static int ending_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)accept;
    alive(state, ioh_req_conn(req));
    end_if(IN_UPGRADE, ioh_req_conn(req));
    return 0;
}

static void ending_ws_open(ioh_conn *conn, void *state)
{
    alive(state, conn);
    end_if(IN_WS_OPEN, conn);
}

static void ending_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    alive(state, conn);
    echo(conn, op, data, len, state);
    end_if(IN_MESSAGE, conn);
}

static void ending_ping(ioh_conn *conn, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    alive(state, conn);
    end_if(IN_PING, conn);
}

static void ending_pong(ioh_conn *conn, const void *data, size_t len, void *state)
{
    (void)data;
    (void)len;
    alive(state, conn);
    end_if(IN_PONG, conn);
}

static void ending_ws_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)code;
    (void)reason;
    (void)len;
    (void)state;
    end_if(IN_WS_CLOSE, conn);
}

static void ending_close(ioh_conn *conn, void *state)
{
    (void)state;
    end_if(IN_CLOSE, conn);
}

static struct host *ending_host(void **state)
{
    struct host *h = host_new(state);
    large = pattern(1000000);
    end_in = -1;
    h->options.send_high = 50000;
    h->on.on_open = ending_open;
    h->on.on_request = ending_request;
    h->on.on_body = ending_body;
    h->on.on_request_end = ending_request_end;
    h->on.on_complete = ending_complete;
    h->on.on_drain = ending_drain;
    h->on.on_ws_upgrade = ending_upgrade;
    h->on.on_ws_open = ending_ws_open;
    h->on.on_ws_message = ending_message;
    h->on.on_ws_ping = ending_ping;
    h->on.on_ws_pong = ending_pong;
    h->on.on_ws_close = ending_ws_close;
    h->on.on_close = ending_close;
    host_start(h);
    return h;
}

static const char two_posts[] = "POST /1 HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc"
                                "POST /2 HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\ndef";

static void http_part(struct host *h)
{
    struct client *c = client_open(h);
    int opens = h->opens;
    bool open = client_try_write(c, two_posts, sizeof two_posts - 1);
    if (end_in == IN_RUN) {
        WAIT(h, h->opens > opens || h->last_id != 0);
        host_run_on(h, h->last_id, ending_run, NULL, NULL);
    }
    client_read(c, false);
    if (!end_hard && (end_in == IN_REQUEST_END || end_in == IN_COMPLETE || end_in == IN_DRAIN)) {
        /* What had been queued is not lost. */
        assert_true(open && c->whole);
        assert_int_equal(c->status, 200);
        assert_int_equal(c->body_len, 1000000);
    }
    if (end_in <= IN_DRAIN)
        client_wait_end(c);
    client_close(c);
}

static void ws_part(struct host *h)
{
    struct client *c = client_open(h);
    char text[1000];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: t\r\n%s\r\n", WS_UPGRADE);
    client_try_write(c, text, strlen(text));
    client_ws_send(c, IOH_WS_TEXT, "message");
    client_ws_send(c, IOH_WS_PING, "ping");
    client_ws_send(c, IOH_WS_PONG, "pong");
    client_ws_send(c, IOH_WS_TEXT, "another");
    client_ws_close(c, 1000, "");
    client_wait_end(c);
    client_close(c);
}

static void connection_may_be_ended_inside_every_callback(void **state)
{
    struct host *h = ending_host(state);
    int count = 0;
    for (int hard = 0; hard < 2; hard++) {
        for (int where = IN_OPEN; where < EVERYWHERE; where++) {
            end_in = where;
            end_hard = hard;
            if (where < IN_UPGRADE || where == IN_CLOSE) {
                http_part(h);
                count++;
                WAIT(h, h->closes == count);
            }
            if (where >= IN_UPGRADE || where == IN_OPEN) {
                ws_part(h);
                count++;
                WAIT(h, h->closes == count);
            }
        }
    }
    assert_true(h->requests > 0 && h->ws_messages > 0 && h->drains > 0 && h->runs + h->gones > 0);
    host_end(h);
    free(large);
}

static void close_in_callback_lets_the_answer_out_and_then_ends_without_reset(void **state)
{
    struct host *h = ending_host(state);
    end_in = IN_REQUEST_END;
    end_hard = false;
    struct client *c = client_open(h);
    client_send(c, two_posts);
    assert_int_equal(client_answer(c), 200);
    assert_true(is_pattern(c->body, 1000000));
    client_expect_end(c);
    assert_false(c->reset);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->requests, 1);
    host_end(h);
    free(large);
}

static void abort_in_callback_resets(void **state)
{
    struct host *h = ending_host(state);
    end_in = IN_REQUEST_END;
    end_hard = true;
    struct client *c = client_open(h);
    client_send(c, two_posts);
    if (host_is_direct(h)) /* else a part of the answer may have been on its way */
        client_expect_end(c);
    client_wait_end(c);
    assert_true(c->reset || h->config->unix_socket);
    client_close(c);
    WAIT(h, h->closes == 1);
    host_end(h);
    free(large);
}

/* ---- closing is not to cost the client the end of its answer */

static void answer_large_and_close(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_respond_close(req);
    CHECK(h, ioh_respond(req, 200, NULL, 0, large, 200000) >= 0);
}

/* The last answer lies in the kernel when another request comes. A close without lingering would make a
 * reset of it, and what the kernel had not sent yet would be lost (RFC 9112 9.6). */
static void last_answer_is_not_lost_when_the_client_goes_on_sending(void **state)
{
    struct host *h = host_new(state);
    large = pattern(200000);
    h->on.on_request = answer_large_and_close;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, h->completes == 1 && host_stats(h).bytes_sent > 200000);
    client_try_write(c, two_posts, sizeof two_posts - 1);
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, 200000);
    client_wait_end(c);
    client_close(c);
    host_end(h);
    free(large);
}

static const struct host_test tests[] = {
    HOST_TEST(small_body_after_an_early_answer_is_drained_and_the_connection_goes_on),
    HOST_TEST(large_body_after_an_early_answer_closes_but_the_answer_can_be_read),
    HOST_TEST(answer_in_the_midst_of_the_body_ends_its_callbacks),
    HOST_TEST(continue_is_sent_once_when_the_host_wants_the_body),
    HOST_TEST(continue_is_not_sent_when_the_body_is_there_or_empty),
    HOST_TEST(continue_is_not_sent_after_a_final_answer),
    HOST_TEST(continue_is_not_sent_to_http_1_0),
    HOST_TEST(connection_may_be_ended_inside_every_callback),
    HOST_TEST(close_in_callback_lets_the_answer_out_and_then_ends_without_reset),
    HOST_TEST(abort_in_callback_resets),
    HOST_TEST(last_answer_is_not_lost_when_the_client_goes_on_sending),
};

HOST_MAIN(tests)

/* Limits of options.h, and whether the counters add up. */
#include "support/common.h"

#include <sys/resource.h>

/* ---- requests */

static void expect_refusal(struct client *c, int status)
{
    assert_int_equal(client_answer(c), status);
    assert_field(c, "Connection", "close");
    client_wait_end(c);
    client_close(c);
}

static char *repeat(char byte, size_t len)
{
    static char text[70000];
    assert_true(len < sizeof text);
    memset(text, byte, len);
    text[len] = 0;
    return text;
}

/* A request whose head has exactly that many bytes. */
static void send_head_of(struct client *c, size_t len)
{
    static const char begin[] = "GET / HTTP/1.1\r\nHost: t\r\nX: ", end[] = "\r\n\r\n";
    client_send(c, begin);
    client_send(c, repeat('x', len - (sizeof begin - 1) - (sizeof end - 1)));
    client_send(c, end);
}

static void head_above_max_head_bytes_is_431(void **state)
{
    struct host *h = host_new(state);
    h->options.max_head_bytes = 1000;
    h->options.max_uri_bytes = 100;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    send_head_of(c, 1000);
    assert_int_equal(client_answer(c), 200);
    send_head_of(c, 1001);
    expect_refusal(c, 431);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->requests, 1);
    assert_int_equal(host_stats(h).requests, 1);
    assert_int_equal(host_stats(h).requests_refused, 1);
    assert_int_equal(host_stats(h).hit_max_head, 1);
    host_end(h);
}

static void send_target_of(struct client *c, size_t len)
{
    client_send(c, "GET /");
    client_send(c, repeat('a', len - 1));
    client_send(c, " HTTP/1.1\r\nHost: t\r\n\r\n");
}

static void target_above_max_uri_bytes_is_414(void **state)
{
    struct host *h = host_new(state);
    h->options.max_uri_bytes = 500;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    send_target_of(c, 500);
    assert_int_equal(client_answer(c), 200);
    send_target_of(c, 501);
    expect_refusal(c, 414);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).hit_max_uri, 1);
    host_end(h);
}

static void send_fields(struct client *c, int count)
{
    client_send(c, "GET / HTTP/1.1\r\nHost: t\r\n");
    for (int i = 1; i < count; i++)
        client_send(c, "X: y\r\n");
    client_send(c, "\r\n");
}

static void more_than_max_headers_is_431(void **state)
{
    struct host *h = host_new(state);
    h->options.max_headers = 10;
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    send_fields(c, 10);
    assert_int_equal(client_answer(c), 200);
    send_fields(c, 11);
    expect_refusal(c, 431);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).hit_max_head, 1);
    host_end(h);
}

static void body_above_max_body_bytes_is_413(void **state)
{
    struct host *h = host_new(state);
    h->options.max_body_bytes = 1000;
    h->on.on_request = answer_nothing;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "POST", "/", "Content-Length: 1000\r\n");
    client_send(c, repeat('b', 1000));
    assert_int_equal(client_answer(c), 200);
    client_request(c, "POST", "/", "Transfer-Encoding: chunked\r\n");
    client_send(c, "3e8\r\n");
    client_send(c, repeat('b', 1000));
    client_send(c, "\r\n0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    client_request(c, "POST", "/", "Content-Length: 1001\r\n");
    expect_refusal(c, 413);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->requests, 2); /* refused by its head: never told */
    c = client_open(h);
    client_request(c, "POST", "/", "Transfer-Encoding: chunked\r\n");
    client_send(c, "3e7\r\n");
    client_send(c, repeat('b', 999));
    client_send(c, "\r\n2\r\nbb\r\n0\r\n\r\n");
    expect_refusal(c, 413);
    WAIT(h, h->closes == 2);
    assert_int_equal(h->last_status, 413);
    assert_int_equal(h->completes, 3);
    assert_int_equal(h->request_ends, 2);
    assert_int_equal(host_stats(h).hit_max_body, 2);
    host_end(h);
}

static void message_above_ws_max_message_is_1009(void **state)
{
    struct host *h = host_new(state);
    h->options.ws_max_message = 1000;
    h->on.on_ws_message = echo;
    host_start(h);
    for (int fragmented = 0; fragmented < 2; fragmented++) {
        struct client *c = client_ws_open(h, "/");
        client_ws_send(c, IOH_WS_TEXT, repeat('m', 1000));
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_int_equal(c->body_len, 1000);
        if (fragmented) {
            client_ws_frame(c, IOH_WS_TEXT, repeat('m', 600), 600);
            client_ws_frame(c, 0x80, repeat('m', 401), 401);
        } else {
            client_ws_send(c, IOH_WS_TEXT, repeat('m', 1001));
        }
        assert_int_equal(client_ws_read(c), 8);
        assert_int_equal(client_ws_code(c), 1009);
        client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == fragmented + 1);
        assert_int_equal(host_stats(h).ws_failed, fragmented + 1);
        assert_int_equal(host_stats(h).hit_ws_max_message, fragmented + 1);
    }
    assert_int_equal(h->ws_messages, 2);
    host_end(h);
}

/* ---- counters */

static void counters_add_up(void **state)
{
    struct host *h = host_new(state);
    uint64_t sent = 0, received = 0;
    h->on.on_request = answer_ok;
    h->on.on_ws_message = echo;
    host_start(h);
    struct ioh_stats s = host_stats(h);
    assert_int_equal(s.size, sizeof s);
    assert_int_equal(s.threads, host_threads(h));
    assert_int_equal(s.accepted + s.connections + s.requests + s.bytes_sent, 0);
    struct client *c = client_open(h);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        sent += strlen("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        received += strlen(c->head) + c->body_len;
    }
    WAIT(h, host_stats(h).bytes_sent == received);
    s = host_stats(h);
    assert_int_equal(s.bytes_received, sent);
    assert_int_equal(s.requests, 10);
    assert_int_equal(s.requests_refused, 0);
    assert_int_equal(s.connections, 1);
    assert_int_equal(s.accepted, 1);
    assert_true(s.turns > 0 && s.turn_events_p99 >= s.turn_events_p50);
    client_send(c, "nonsense\r\n\r\n");
    assert_int_equal(client_answer(c), 400);
    client_wait_end(c);
    client_close(c);
    struct client *ws = client_ws_open(h, "/");
    for (int i = 0; i < 5; i++) {
        client_ws_send(ws, IOH_WS_TEXT, "text");
        assert_int_equal(client_ws_read(ws), IOH_WS_TEXT);
    }
    client_ws_send(ws, IOH_WS_PING, "not counted");
    assert_int_equal(client_ws_read(ws), IOH_WS_PONG);
    WAIT(h, host_stats(h).websockets == 1 && h->closes == 1);
    s = host_stats(h);
    assert_int_equal(s.requests, 11);
    assert_int_equal(s.requests_refused, 1);
    assert_int_equal(s.ws_messages_received, 5);
    assert_int_equal(s.ws_messages_sent, 5);
    assert_int_equal(s.ws_failed, 0);
    client_ws_leave(ws);
    WAIT(h, host_stats(h).connections == 0);
    s = host_stats(h);
    assert_int_equal(s.websockets, 0);
    assert_int_equal(s.accepted, 2);
    assert_int_equal(s.closed_by_deadline, 0);
    assert_int_equal(s.send_full, 0);
    host_stop(h, 0);
    assert_int_equal(host_stats(h).requests, 11); /* still told after the stop */
    host_end(h);
}

static void closed_by_peer_counts_what_the_peer_ended(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c); /* idle */
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).closed_by_peer, 1);
    c = client_open(h);
    client_send(c, "GET / HT");
    client_abort(c); /* with a reset */
    WAIT(h, h->closes == 2);
    assert_int_equal(host_stats(h).closed_by_peer, 2);
    c = client_ws_open(h, "/");
    client_close(c);
    WAIT(h, h->closes == 3);
    assert_int_equal(host_stats(h).closed_by_peer, 3);
    c = client_open(h);
    client_request(c, "GET", "/", "Connection: close\r\n");
    assert_int_equal(client_answer(c), 200);
    client_wait_end(c);
    client_close(c); /* here the server was first */
    WAIT(h, h->closes == 4);
    assert_int_equal(host_stats(h).closed_by_peer, 3);
    host_end(h);
}

/* "answered by the library with 4xx or 5xx" */
static void requests_refused_counts_every_answer_of_the_library(void **state)
{
    struct host *h = host_new(state);
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 404);
    assert_int_equal(client_get(c, "/"), 404);
    client_send(c, "nonsense\r\n\r\n");
    assert_int_equal(client_answer(c), 400);
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).requests_refused, 3);
    host_end(h);
}

static void rest_of_a_body_that_turns_bad_after_the_answer_is_no_second_answer(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "POST", "/", "Transfer-Encoding: chunked\r\n");
    assert_int_equal(client_answer(c), 200);
    client_send(c, "no chunk\r\n");
    client_expect_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_status, 200);
    assert_int_equal(host_stats(h).requests_refused, 0);
    host_end(h);
}

/* ---- the log of what was hit */

static _Atomic int hit_lines, hits_told;

static void read_hits(int level, const char *text, void *state)
{
    struct host *h = state;
    const char *more = strstr(text, " (and "), *again = strstr(text, ": hit ");
    if (strncmp(text, "max_uri_bytes: ", 15) != 0)
        return;
    CHECK(h, level == IOH_LOG_INFO);
    hit_lines++;
    if (again) {
        hits_told += atoi(again + 6);
        return;
    }
    hits_told += 1 + (more ? atoi(more + 6) : 0);
    CHECK(h, strstr(text, h->config->unix_socket ? "unix:: 414: " : "127.0.0.1:"));
    CHECK(h, strstr(text, ": 414: the target is too long, at byte "));
}

static void a_limit_that_is_hit_is_logged_once_a_second_with_the_number(void **state)
{
    enum { HITS = 30 };
    struct host *h = host_new(state);
    h->options.max_uri_bytes = 500;
    h->on.on_request = answer_ok;
    h->on.on_log = read_hits;
    hit_lines = hits_told = 0;
    host_start(h);
    uint64_t begin = host_now_ms();
    for (int i = 0; i < HITS; i++) {
        struct client *c = client_open(h);
        send_target_of(c, 501);
        expect_refusal(c, 414);
    }
    WAIT(h, host_stats(h).hit_max_uri == HITS && h->closes == HITS);
    int seconds = (int)((host_now_ms() - begin) / 1000);
    assert_in_range(hit_lines, 1, seconds + 2);
    if (!host_has_threads_for_each(h)) /* the rest is told when its second is over, */
        WAIT(h, hits_told == HITS);
    assert_int_equal(host_stop(h, 0), 0); /* or at the end */
    assert_int_equal(hits_told, HITS);
    assert_in_range(hit_lines, 1, (int)((host_now_ms() - begin) / 1000) + 3);
    host_end(h);
}

/* ---- descriptors */

static void descriptor_limit_is_raised_unless_the_host_keeps_it(void **state)
{
    struct rlimit before, now, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    if (low.rlim_max <= 256)
        skip();
    low.rlim_cur = 256;
    for (uint32_t keep = 0; keep < 2; keep++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        struct host *h = host_new(state);
        h->options.keep_fd_limit = keep;
        host_start(h);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
        assert_int_equal(now.rlim_cur, keep ? 256 : low.rlim_max);
        assert_int_equal(host_stats(h).fd_limit, now.rlim_cur);
        host_end(h);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static const struct host_test tests[] = {
    HOST_TEST(head_above_max_head_bytes_is_431),
    HOST_TEST(target_above_max_uri_bytes_is_414),
    HOST_TEST(more_than_max_headers_is_431),
    HOST_TEST(body_above_max_body_bytes_is_413),
    HOST_TEST(message_above_ws_max_message_is_1009),
    HOST_TEST(counters_add_up),
    HOST_TEST(closed_by_peer_counts_what_the_peer_ended),
    HOST_TEST(requests_refused_counts_every_answer_of_the_library),
    HOST_TEST(rest_of_a_body_that_turns_bad_after_the_answer_is_no_second_answer),
    HOST_TEST(a_limit_that_is_hit_is_logged_once_a_second_with_the_number),
    HOST_TEST_ONCE(descriptor_limit_is_raised_unless_the_host_keeps_it),
};

HOST_MAIN(tests)

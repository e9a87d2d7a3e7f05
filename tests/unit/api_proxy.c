/* Listeners behind proxies (proxy_from of ioh_listen_options): whose connection it is, and who is turned away.
 */
#include "support/common.h"

#define V1 "PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\r\n"
#define V1_PEER "203.0.113.7:4711"
#define GET "GET /peer HTTP/1.1\r\nHost: test\r\n\r\n"

static const uint8_t v2_start[12] = {'\r', '\n', '\r', '\n', 0,   '\r',
                                     '\n', 'Q',  'U',  'I',  'T', '\n'};

/* A header of version 2 with a block of zeros but for its address; answers its length. */
static size_t binary(uint8_t *to, uint8_t command, uint8_t family, const char *address, size_t rest)
{
    memset(to, 0, 16 + rest);
    memcpy(to, v2_start, sizeof v2_start);
    to[12] = command;
    to[13] = family;
    to[14] = (uint8_t)(rest >> 8);
    to[15] = (uint8_t)rest;
    if (address)
        assert_int_equal(inet_pton(family >> 4 == 2 ? AF_INET6 : AF_INET, address, to + 16), 1);
    return 16 + rest;
}

/* ---- the host */

static void check_peer(struct host *h, ioh_conn *conn)
{
    char text[64];
    const char *wanted = h->data;
    ioh_conn_peer(conn, text, sizeof text);
    if (wanted)
        CHECK(h, strncmp(text, wanted, strlen(wanted)) == 0);
}

static int see_open(ioh_conn *conn, void *state)
{
    check_peer(state, conn);
    return 0;
}

static void see_close(ioh_conn *conn, void *state)
{
    check_peer(state, conn);
}

static void tell_peer(ioh_req *req, void *state)
{
    char text[64];
    ioh_conn_peer(ioh_req_conn(req), text, sizeof text);
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, text, strlen(text)) == 0);
}

static struct host *proxied_host(void **state)
{
    struct host *h = host_new(state);
    h->proxy_from = h->config->unix_socket ? "unix:" : "127.0.0.0/8, ::1";
    h->on.on_open = see_open;
    h->on.on_close = see_close;
    h->on.on_request = tell_peer;
    client_from = NULL;
    return h;
}

/* What a connection of the proxy's own is told to be. */
static const char *proxy_itself(const struct host *h)
{
    return h->config->unix_socket ? "unix:" : "127.0.0.1:";
}

static void expect_peer(struct client *c, const char *peer)
{
    assert_int_equal(client_answer(c), 200);
    if (strncmp((char *)c->body, peer, strlen(peer)) != 0)
        fail_msg("%s wanted, came %s", peer, (char *)c->body);
}

/* Sends a header, a space of time maybe, and a request. */
static void expect_taken(struct host *h, const void *header, size_t len, const char *peer)
{
    h->data = (void *)(uintptr_t)peer;
    struct client *c = client_open(h);
    int closes = h->closes;
    client_write(c, header, len);
    client_send(c, GET);
    expect_peer(c, peer);
    client_send(c, GET);
    expect_peer(c, peer);
    client_close(c);
    WAIT(h, h->closes == closes + 1);
}

static void expect_refused(struct host *h, const void *header, size_t len)
{
    uint64_t before = host_stats(h).proxy_refused;
    int opens = h->opens;
    struct client *c = client_open(h);
    if (client_try_write(c, header, len))
        client_try_write(c, GET, sizeof GET - 1);
    client_wait_end(c);
    assert_int_equal(c->len, 0);
    client_close(c);
    WAIT(h, host_stats(h).proxy_refused == before + 1);
    WAIT(h, host_stats(h).connections == 0);
    assert_int_equal(h->opens, opens);
}

/* ---- whose it is */

static void the_address_told_is_the_peer_from_on_open_to_on_close(void **state)
{
    struct host *h = proxied_host(state);
    uint8_t header[400];
    host_start(h);
    expect_taken(h, V1, strlen(V1), V1_PEER);
    const char v6[] = "PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n";
    expect_taken(h, v6, strlen(v6), "[2001:db8::7]:4711");
    size_t len = binary(header, 0x21, 0x11, "203.0.113.9", 12);
    header[24] = 0x12;
    header[25] = 0x67;
    expect_taken(h, header, len, "203.0.113.9:4711");
    len = binary(header, 0x21, 0x21, "2001:db8::9", 36 + 99);
    expect_taken(h, header, len, "[2001:db8::9]:0");
    len = binary(header, 0x21, 0x31, NULL, 216);
    expect_taken(h, header, len, "unix:");
    assert_int_equal(h->opens, 5);
    assert_int_equal(h->requests, 10);
    assert_int_equal(host_stats(h).accepted, 5);
    assert_int_equal(host_stats(h).proxy_refused, 0);
    host_end(h);
}

static void a_connection_of_the_proxy_itself_keeps_its_address(void **state)
{
    struct host *h = proxied_host(state);
    uint8_t header[400];
    host_start(h);
    expect_taken(h, "PROXY UNKNOWN\r\n", 15, proxy_itself(h));
    size_t len = binary(header, 0x20, 0, NULL, 0);
    expect_taken(h, header, len, proxy_itself(h));
    len = binary(header, 0x20, 0x11, "203.0.113.9", 12);
    expect_taken(h, header, len, proxy_itself(h));
    len = binary(header, 0x21, 0, NULL, 100);
    expect_taken(h, header, len, proxy_itself(h));
    host_end(h);
}

static void a_header_may_come_in_any_two_pieces(void **state)
{
    struct host *h = proxied_host(state);
    uint8_t bytes[28 + sizeof GET];
    size_t len = binary(bytes, 0x21, 0x11, "203.0.113.9", 12);
    memcpy(bytes + len, GET, sizeof GET - 1);
    host_start(h);
    for (size_t cut = 1; cut < len + 20; cut++) {
        struct client *c = client_open(h);
        client_write(c, bytes, cut);
        poll(NULL, 0, 1);
        client_write(c, bytes + cut, len + sizeof GET - 1 - cut);
        expect_peer(c, "203.0.113.9:0");
        client_close(c);
    }
    for (size_t cut = 1; cut < sizeof V1 + 20; cut += 3) {
        struct client *c = client_open(h);
        client_write(c, V1 GET, cut);
        poll(NULL, 0, 1);
        client_write(c, &(V1 GET)[cut], sizeof V1 GET - 1 - cut);
        expect_peer(c, V1_PEER);
        client_close(c);
    }
    host_end(h);
}

static void requests_right_behind_the_header_are_all_answered(void **state)
{
    enum { MANY = 20 };
    struct host *h = proxied_host(state);
    char text[sizeof V1 + MANY * sizeof GET] = V1;
    for (int i = 0; i < MANY; i++)
        strcat(text, GET);
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, text);
    for (int i = 0; i < MANY; i++)
        expect_peer(c, V1_PEER);
    client_close(c);
    host_end(h);
}

static int open_slowly(ioh_conn *conn, void *state)
{
    check_peer(state, conn);
    poll(NULL, 0, 10); /* the client has left meanwhile */
    return 0;
}

static void answer_if_possible(ioh_req *req, void *state)
{
    (void)state;
    ioh_respond(req, 200, NULL, 0, "ok", 2); /* nobody may be there any more */
}

static void a_client_that_sends_all_and_leaves_is_heard(void **state)
{
    struct host *h = proxied_host(state);
    h->data = V1_PEER;
    h->on.on_open = open_slowly;
    h->on.on_request = answer_if_possible;
    host_start(h);
    for (int i = 1; i <= 10; i++) {
        struct client *c = client_open(h);
        client_send(c, V1 GET);
        client_close(c);
        WAIT(h, h->closes == i);
        assert_int_equal(h->opens, i);
        if (host_is_direct(h)) /* else its end may be noticed before the request's turn comes */
            assert_int_equal(h->requests, i);
    }
    host_end(h);
}

static void a_header_is_looked_for_only_once(void **state)
{
    struct host *h = proxied_host(state);
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, V1 GET);
    expect_peer(c, V1_PEER);
    client_send(c, "PROXY TCP4 203.0.113.99 198.51.100.1 1 2\r\n" GET); /* no request line */
    assert_int_equal(client_answer(c), 400);
    client_wait_end(c);
    client_close(c);
    c = client_open(h);
    client_send(c, V1 V1 GET);
    assert_int_equal(client_answer(c), 400);
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 2);
    assert_int_equal(host_stats(h).proxy_refused, 0);
    host_end(h);
}

static void websockets_work_behind_a_proxy(void **state)
{
    struct host *h = proxied_host(state);
    h->data = V1_PEER;
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, V1 "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                      "Sec-WebSocket-Version: 13\r\n\r\n");
    assert_int_equal(client_answer(c), 101);
    client_ws_send(c, IOH_WS_TEXT, "hello");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
}

/* ---- who is turned away */

static void what_is_no_good_header_is_reset_unheard(void **state)
{
    struct host *h = proxied_host(state);
    uint8_t header[400];
    size_t len;
    host_start(h);
    expect_refused(h, "", 0);
    expect_refused(h, "PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\n", 44);
    expect_refused(h, "PROXY TCP4 203.0.113.7 198.51.100.1 4711 65536\r\n", 48);
    expect_refused(h, "\x16\x03\x01\x02", 4);
    len = binary(header, 0x11, 0x11, "203.0.113.9", 12);
    expect_refused(h, header, len);
    len = binary(header, 0x22, 0x11, "203.0.113.9", 12);
    expect_refused(h, header, len);
    len = binary(header, 0x21, 0x11, "203.0.113.9", 11);
    expect_refused(h, header, len);
    assert_int_equal(h->opens, 0);
    host_end(h);
}

static void who_is_not_listed_is_reset_unheard(void **state)
{
    struct host *h = proxied_host(state);
    h->proxy_from = h->config->unix_socket ? "127.0.0.1" : "127.0.0.2, 10.0.0.0/8, unix:";
    host_start(h);
    expect_refused(h, V1, strlen(V1));
    if (!h->config->unix_socket) {
        client_from = "127.0.0.2";
        expect_taken(h, V1, strlen(V1), V1_PEER);
        client_from = NULL;
        expect_refused(h, V1, strlen(V1));
    }
    host_end(h);
}

static atomic_int said;

static void look_for_reason(int level, const char *text, void *state)
{
    (void)state;
    if (level == IOH_LOG_WARN && strncmp(text, "proxy_from: ", 12) == 0 &&
        (strstr(text, ": no PROXY header") || strstr(text, ": the PROXY header is cut off")))
        said++;
}

static void who_leaves_within_the_header_is_counted_and_who_says_nothing_is_not(void **state)
{
    struct host *h = proxied_host(state);
    h->on.on_log = look_for_reason;
    said = 0;
    host_start(h);
    struct client *c = client_open(h);
    WAIT(h, host_stats(h).accepted == 1);
    client_close(c);
    WAIT(h, host_stats(h).connections == 0);
    assert_int_equal(host_stats(h).proxy_refused, 0);
    c = client_open(h);
    client_send(c, "PROXY TCP4 203.0.1");
    client_finish(c);
    client_wait_end(c);
    client_close(c);
    WAIT(h, host_stats(h).proxy_refused == 1);
    WAIT(h, said == 1);
    host_end(h);
}

static void the_head_deadline_holds_for_the_header(void **state)
{
    struct host *h = proxied_host(state);
    h->options.head_timeout_ms = 150;
    host_start(h);
    struct client *silent = client_open(h), *slow = client_open(h);
    client_send(slow, "PROXY TCP4 2");
    client_wait_end(silent);
    client_wait_end(slow);
    assert_int_equal(silent->len + slow->len, 0);
    WAIT(h, host_stats(h).connections == 0);
    assert_int_equal(host_stats(h).hit_head_timeout, 2);
    assert_int_equal(host_stats(h).closed_by_deadline, 2);
    assert_int_equal(h->opens, 0);
    client_close_all();
    host_end(h);
}

static void afterwards_the_deadlines_are_those_of_http(void **state)
{
    struct host *h = proxied_host(state);
    h->options.head_timeout_ms = 60000;
    h->options.idle_timeout_ms = 150;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, V1);
    client_wait_end(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).hit_idle_timeout, 1);
    client_close(c);
    host_end(h);
}

static int refuse_open(ioh_conn *conn, void *state)
{
    check_peer(state, conn);
    return -1;
}

static void a_host_may_refuse_by_the_real_address(void **state)
{
    struct host *h = proxied_host(state);
    h->on.on_open = refuse_open;
    h->data = V1_PEER;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, V1 GET);
    client_wait_end(c);
    assert_int_equal(c->len, 0);
    client_close(c);
    WAIT(h, host_stats(h).connections == 0);
    assert_int_equal(h->refusals, 1);
    host_end(h);
}

/* ---- limits and the end */

static void max_per_address_counts_the_real_address(void **state)
{
    struct host *h = proxied_host(state);
    h->options.max_per_address = 2;
    host_start(h);
    struct client *c[6];
    for (int i = 0; i < 2; i++) {
        c[i] = client_open(h);
        client_send(c[i], V1 GET);
        expect_peer(c[i], V1_PEER);
    }
    struct client *more = client_open(h);
    client_send(more, V1 GET);
    client_wait_end(more);
    assert_int_equal(more->len, 0);
    client_close(more);
    WAIT(h, host_stats(h).hit_max_per_address == 1);
    for (int i = 2; i < 6; i++) { /* the proxy's own are not counted */
        c[i] = client_open(h);
        client_send(c[i], "PROXY UNKNOWN\r\n" GET);
        expect_peer(c[i], proxy_itself(h));
    }
    more = client_open(h);
    client_send(more, "PROXY TCP4 203.0.113.8 198.51.100.1 4711 80\r\n" GET);
    expect_peer(more, "203.0.113.8:4711");
    client_close(c[1]);
    WAIT(h, host_stats(h).connections == 6);
    c[1] = client_open(h);
    client_send(c[1], V1 GET);
    expect_peer(c[1], V1_PEER);
    client_close_all();
    host_end(h);
}

static void who_waits_for_a_header_takes_part_in_max_connections(void **state)
{
    struct host *h = proxied_host(state);
    h->options.max_connections = 2;
    host_start(h);
    struct client *a = client_open(h), *b = client_open(h);
    WAIT(h, host_stats(h).connections == 2);
    struct client *c = client_open(h);
    client_wait_end(c);
    WAIT(h, host_stats(h).hit_max_connections == 1);
    client_close(b);
    WAIT(h, host_stats(h).connections == 1);
    client_send(a, V1 GET);
    expect_peer(a, V1_PEER);
    client_close_all();
    host_end(h);
}

static void a_stop_does_not_wait_for_headers(void **state)
{
    struct host *h = proxied_host(state);
    host_start(h);
    struct client *silent = client_open(h), *begun = client_open(h);
    client_send(begun, "PROXY ");
    WAIT(h, host_stats(h).bytes_received == 6 && host_stats(h).connections == 2);
    assert_int_equal(host_stop(h, LONG_DRAIN_MS), 0);
    client_wait_end(silent);
    client_wait_end(begun);
    assert_int_equal(h->opens, 0);
    client_close_all();
    host_end(h);
}

/* ---- the list */

static void a_list_that_cannot_be_read_is_refused_by_listen(void **state)
{
    struct host *h = host_new(state);
    struct ioh_handler handler = IOH_HANDLER_INIT;
    struct ioh_listen_options how = IOH_LISTEN_OPTIONS_INIT;
    char list[] = "127.0.0.1, 10.0.0.1/8";
    assert_int_equal(ioh_server_create(&h->server, &handler, &h->options, h), 0);
    how.proxy_from = list;
    assert_int_equal(ioh_server_listen(h->server, "127.0.0.1:0", &how), IOH_EADDR);
    assert_non_null(strstr(ioh_server_error(h->server), "\"10.0.0.1/8\""));
    how.proxy_from = "";
    assert_int_equal(ioh_server_listen(h->server, "127.0.0.1:0", &how), IOH_EADDR);
    how.proxy_from = "127.0.0.1";
    assert_int_equal(ioh_server_listen(h->server, "nowhere", &how), IOH_EADDR);
    assert_int_equal(ioh_server_listen(h->server, "127.0.0.1:0", &how), 0);
    how.size = offsetof(struct ioh_listen_options, proxy_from); /* of a host that knows it not */
    how.proxy_from = "nonsense";
    assert_int_equal(ioh_server_listen(h->server, "127.0.0.1:0", &how), 1);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(the_address_told_is_the_peer_from_on_open_to_on_close),
    HOST_TEST(a_connection_of_the_proxy_itself_keeps_its_address),
    HOST_TEST(a_header_may_come_in_any_two_pieces),
    HOST_TEST(requests_right_behind_the_header_are_all_answered),
    HOST_TEST(a_client_that_sends_all_and_leaves_is_heard),
    HOST_TEST(a_header_is_looked_for_only_once),
    HOST_TEST(websockets_work_behind_a_proxy),
    HOST_TEST(what_is_no_good_header_is_reset_unheard),
    HOST_TEST(who_is_not_listed_is_reset_unheard),
    HOST_TEST(who_leaves_within_the_header_is_counted_and_who_says_nothing_is_not),
    HOST_TEST(the_head_deadline_holds_for_the_header),
    HOST_TEST(afterwards_the_deadlines_are_those_of_http),
    HOST_TEST(a_host_may_refuse_by_the_real_address),
    HOST_TEST(max_per_address_counts_the_real_address),
    HOST_TEST(who_waits_for_a_header_takes_part_in_max_connections),
    HOST_TEST(a_stop_does_not_wait_for_headers),
    HOST_TEST_ONCE(a_list_that_cannot_be_read_is_refused_by_listen),
};

HOST_MAIN(tests)

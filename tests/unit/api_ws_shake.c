/* WebSockets: what a host may say and ask in on_ws_upgrade besides yes, no and a subprotocol. */
#include "support/common.h"

static int add_fields(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    static const char *const ours[] = {"Upgrade",
                                       "connection",
                                       "Content-Length",
                                       "Date",
                                       "Transfer-Encoding",
                                       "Sec-WebSocket-Accept",
                                       "sec-websocket-EXTENSIONS",
                                       "Sec-WebSocket-",
                                       ""};
    struct host *h = state;
    char value[20] = "first";
    (void)accept;
    CHECK(h, ioh_ws_add_header(req, "X-One", value) == 0);
    strcpy(value, "gone"); /* it was copied */
    CHECK(h, ioh_ws_add_header(req, "Set-Cookie", "a=1") == 0);
    CHECK(h, ioh_ws_add_header(req, "Set-Cookie", "b=2") == 0);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        CHECK(h, ioh_ws_add_header(req, ours[i], "x") == IOH_EHEADER);
    CHECK(h, ioh_ws_add_header(req, "X-Bad", "a\r\nb: c") == IOH_EHEADER);
    CHECK(h, ioh_ws_add_header(req, "X Bad", "x") == IOH_EHEADER);
    CHECK(h, ioh_ws_add_header(req, NULL, "x") == IOH_EINVAL);
    CHECK(h, ioh_ws_add_header(req, "X-Bad", NULL) == IOH_EINVAL);
    CHECK(h, ioh_ws_add_header(req, "Sec-Web", "") == 0);
    return path_is(req, "/no") ? 403 : 0;
}

static void too_late(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_ws_add_header(req, "X-One", "x") == IOH_ESTATE);
    answer_ok(req, state);
}

static void fields_of_the_host_stand_in_the_101_and_only_there(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_upgrade = add_fields;
    h->on.on_ws_message = echo;
    h->on.on_request = too_late;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_null(client_field(c, "X-One"));
    client_request(c, "GET", "/", WS_UPGRADE);
    assert_int_equal(client_read(c, true), 101);
    assert_field(c, "X-One", "first");
    assert_field(c, "Set-Cookie", "a=1");
    assert_field(c, "Sec-Web", "");
    assert_null(client_field(c, "X-Bad"));
    client_ws_send(c, IOH_WS_TEXT, "the head has ended where it should");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    c = client_open(h);
    client_request(c, "GET", "/no", WS_UPGRADE);
    assert_int_equal(client_answer(c), 403);
    assert_null(client_field(c, "X-One"));
    client_close(c);
    host_end(h);
}

/* The client resets while on_ws_upgrade runs: nothing of the fields is left. */
static struct latch upgrading;

static int add_and_wait(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)accept;
    CHECK((struct host *)state, ioh_ws_add_header(req, "X-One", "x") == 0);
    latch_wait(state, &upgrading);
    return 0;
}

static void fields_for_a_client_that_left_are_forgotten(void **state)
{
    struct host *h = host_new(state);
    upgrading = (struct latch){0};
    h->on.on_ws_upgrade = add_and_wait;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", WS_UPGRADE);
    WAIT(h, upgrading.waiting == 1);
    client_abort(c);
    atomic_store(&upgrading.open, true);
    WAIT(h, h->closes == 1);
    host_end(h);
}

static int same_origin_only(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)accept;
    (void)state;
    return ioh_ws_same_origin(req) ? 0 : 403;
}

static void pages_of_others_can_be_refused(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_upgrade = same_origin_only;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", WS_UPGRADE "Origin: http://evil.example\r\n");
    assert_int_equal(client_answer(c), 403);
    client_close(c);
    c = client_open(h);
    client_request(c, "GET", "/", WS_UPGRADE "Origin: https://TEST\r\n"); /* Host: test */
    assert_int_equal(client_read(c, true), 101);
    client_ws_leave(c);
    c = client_open(h);
    client_request(c, "GET", "/", WS_UPGRADE);
    assert_int_equal(client_read(c, true), 101);
    client_ws_leave(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(fields_of_the_host_stand_in_the_101_and_only_there),
    HOST_TEST_IN(fields_for_a_client_that_left_are_forgotten, IN_WAITING | IN_THREADS),
    HOST_TEST(pages_of_others_can_be_refused),
};

HOST_MAIN(tests)

/* Bodies gathered by the library, trailers of requests, and Expect: 100-continue in the host's hands. */
#include "support/common.h"

#include <iohandler/error.h>

/* ---- gathered bodies */

static void gather_a_million(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_req_body(req).ptr == NULL);
    CHECK(h, ioh_req_gather(req, 1000000) == 0);
    CHECK(h, ioh_req_body(req).ptr == NULL);
}

static void never_a_piece(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)req;
    (void)data;
    (void)len;
    host_fault(state, __FILE__, __LINE__, "on_body");
}

static void give_back(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_str body = ioh_req_body(req);
    CHECK(h, body.ptr != NULL);
    CHECK(h, ioh_req_gather(req, 1) == IOH_ESTATE);
    CHECK(h, ioh_respond(req, 200, NULL, 0, body.ptr, body.len) >= 0);
    struct ioh_str again = ioh_req_body(req);
    CHECK(h, again.ptr == body.ptr && again.len == body.len);
}

static struct host *gathering_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = gather_a_million;
    h->on.on_body = never_a_piece;
    h->on.on_request_end = give_back;
    host_start(h);
    return h;
}

/* n bytes of the pattern, announced or in chunks of at most `chunk`, sent in writes of at most `cut`. */
static void post(struct client *c, size_t n, size_t chunk, size_t cut)
{
    uint8_t *bytes = pattern(n);
    size_t room = 200 + n + (chunk ? (n / chunk + 2) * 12 : 0), len;
    char *text = malloc(room);
    if (chunk)
        len = (size_t)sprintf(text,
                              "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    else
        len = (size_t)sprintf(text, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", n);
    for (size_t at = 0; at < n;) {
        size_t part = chunk && chunk < n - at ? chunk : n - at;
        if (chunk)
            len += (size_t)sprintf(text + len, "%zx\r\n", part);
        memcpy(text + len, bytes + at, part);
        len += part;
        at += part;
        if (chunk)
            len += (size_t)sprintf(text + len, "\r\n");
    }
    if (chunk)
        len += (size_t)sprintf(text + len, "0\r\n\r\n");
    assert_true(len <= room);
    for (size_t at = 0; at < len; at += cut)
        client_write(c, text + at, cut < len - at ? cut : len - at);
    free(text);
    free(bytes);
}

static void assert_given_back(struct client *c, size_t n)
{
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, n);
    assert_true(is_pattern(c->body, n));
}

static void gathered_body_is_whole_however_it_arrives(void **state)
{
    static const size_t sizes[] = {0, 1, 5, 127, 128, 4096, 4097, 70000, 300000, 1000000};
    struct host *h = gathering_host(state);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        post(c, n, 0, SIZE_MAX);
        assert_given_back(c, n);
        post(c, n, 1000000, SIZE_MAX);
        assert_given_back(c, n);
        post(c, n, n < 1000 ? 1 : 999, n < 1000 ? 7 : 10007);
        assert_given_back(c, n);
        post(c, n, 0, n < 1000 ? 1 : 10007);
        assert_given_back(c, n);
    }
    assert_int_equal(client_get(c, "/"), 200); /* no body is an empty one */
    assert_body(c, "");
    client_close(c);
    host_end(h);
}

static void pipelined_bodies_are_gathered_one_by_one(void **state)
{
    struct host *h = gathering_host(state);
    struct client *c = client_open(h);
    for (int i = 0; i < 20; i++)
        client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
                       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nwor\r\n2\r\nld\r\n0\r\n\r\n");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "hello");
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "world");
    }
    client_close(c);
    host_end(h);
}

static void more_than_was_to_be_gathered_is_refused(void **state)
{
    struct host *h = gathering_host(state);
    struct client *c = client_open(h);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000001\r\n\r\n");
    assert_int_equal(client_answer(c), 413); /* before a byte of it came */
    assert_field(c, "Connection", "close");
    client_close(c);
    c = client_open(h);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "f4240\r\n"); /* a million */
    uint8_t *bytes = pattern(1000000);
    client_write(c, bytes, 1000000);
    assert_true(client_is_quiet(c));
    client_send(c, "\r\n1\r\n");
    assert_int_equal(client_answer(c), 413);
    assert_field(c, "Connection", "close");
    client_close(c);
    free(bytes);
    WAIT(h, h->completes == 2);
    assert_int_equal(h->last_status, 413);
    assert_int_equal(h->request_ends, 0);
    host_end(h);
}

static void the_server_s_own_limit_stays(void **state)
{
    struct host *h = host_new(state);
    h->options.max_body_bytes = 10;
    h->on.on_request = gather_a_million;
    h->on.on_request_end = give_back;
    host_start(h);
    struct client *c = client_open(h);
    post(c, 10, 3, SIZE_MAX);
    assert_given_back(c, 10);
    post(c, 11, 3, SIZE_MAX);
    assert_int_equal(client_answer(c), 413);
    client_close(c);
    host_end(h);
}

static void gather_and_answer(ioh_req *req, void *state)
{
    gather_a_million(req, state);
    answer_ok(req, state);
}

static void early_answer_drops_what_would_have_been_gathered(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = gather_and_answer;
    h->on.on_request_end = give_back;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        post(c, 5000, i ? 100 : 0, 999);
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "ok");
    }
    client_close(c);
    WAIT(h, h->completes == 3);
    assert_int_equal(h->request_ends, 0);
    host_end(h);
}

static void client_may_leave_in_the_middle_of_a_gathered_body(void **state)
{
    struct host *h = gathering_host(state);
    for (int i = 0; i < 6; i++) {
        struct client *c = client_open(h);
        client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\nsome");
        WAIT(h, h->requests == i + 1);
        if (i % 3 == 1)
            client_send(c, "more");
        if (i % 3 == 2)
            client_abort(c);
        else
            client_close(c);
        WAIT(h, h->closes == i + 1);
        assert_int_equal(h->completes, i + 1);
    }
    host_end(h);
}

/* One callback waits, in it and in on_complete the body is looked at, while others fill the receive buffer. */
static struct latch latch;
static atomic_int waited;

static void check_pattern(ioh_req *req, struct host *h)
{
    struct ioh_str body = ioh_req_body(req);
    CHECK(h, body.len > 0 && is_pattern((const uint8_t *)body.ptr, body.len));
}

static void wait_with_body(ioh_req *req, void *state)
{
    struct host *h = state;
    check_pattern(req, h);
    if (atomic_fetch_add(&waited, 1) == 0)
        latch_wait(h, &latch);
    check_pattern(req, h);
    CHECK(h, ioh_respond(req, 200, NULL, 0, "ok", 2) == 0);
}

static void body_is_still_there(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)status;
    (void)bytes;
    check_pattern(req, state);
}

static void gathered_body_stays_while_a_callback_waits(void **state)
{
    struct host *h = host_new(state);
    h->options.epoll_threads = 1;
    h->on.on_request = gather_a_million;
    h->on.on_request_end = wait_with_body;
    h->on.on_complete = body_is_still_there;
    latch = (struct latch){.open = false};
    waited = 0;
    host_start(h);
    for (size_t n = 100; n <= 100000; n *= 1000) { /* in one piece, and in several */
        struct client *slow = client_open(h);
        latch.open = false;
        waited = 0;
        post(slow, n, 0, SIZE_MAX);
        WAIT(h, latch.waiting == 1);
        struct client *c = client_open(h);
        bool same_thread = h->config->exec == IOH_EXEC_AFFINE; /* it waits for that one */
        for (int i = 0; i < 5 && !same_thread; i++) {
            post(c, n + (size_t)i, 0, SIZE_MAX);
            assert_int_equal(client_answer(c), 200);
        }
        latch_open(&latch);
        assert_int_equal(client_answer(slow), 200);
        client_close(c);
        client_close(slow);
    }
    host_end(h);
}

/* ---- trailers */

#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

static void no_trailers_yet(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_req_trailer_count(req) == 0);
    CHECK(h, ioh_req_trailer(req, "X-Sum").ptr == NULL);
}

/* "name=value;" for each */
static void list_trailers(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_str name, value;
    char text[9000];
    size_t count = ioh_req_trailer_count(req);
    int len = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(h, ioh_req_trailer_at(req, i, &name, &value) == 0);
        len +=
            sprintf(text + len, "%.*s=%.*s;", (int)name.len, name.ptr, (int)value.len, value.ptr);
    }
    CHECK(h, ioh_req_trailer_at(req, count, &name, &value) == IOH_EINVAL);
    struct ioh_str sum = ioh_req_trailer(req, "x-SUM");
    len += sprintf(text + len, "%.*s", (int)sum.len, sum.ptr ? sum.ptr : "");
    CHECK(h, ioh_respond(req, 200, NULL, 0, text, (size_t)len) == 0);
}

static struct host *trailing_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = no_trailers_yet;
    h->on.on_body = drop_body;
    h->on.on_request_end = list_trailers;
    host_start(h);
    return h;
}

static void trailers_are_told_at_the_end_of_the_request(void **state)
{
    static const char request[] =
        CHUNKED "5\r\nhello\r\n0\r\nX-Sum: \t abc \r\nEmpty:\r\nX-Two:a b\r\nx-sum: second\r\n\r\n";
    static const char want[] = "X-Sum=abc;Empty=;X-Two=a b;x-sum=second;abc";
    struct host *h = trailing_host(state);
    struct client *c = client_open(h);
    client_send(c, request);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, want);
    for (size_t i = 0; request[i]; i++)
        client_write(c, request + i, 1);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, want);
    client_send(c, CHUNKED "0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "");
    assert_int_equal(client_get(c, "/"), 200);
    assert_body(c, "");
    client_close(c);
    host_end(h);
}

/* RFC 9110 6.5.1: a host that merges them into the head must not be told how to frame or route. */
static void trailers_that_could_mislead_are_left_out(void **state)
{
    struct host *h = trailing_host(state);
    struct client *c = client_open(h);
    client_send(c, CHUNKED
                "0\r\nContent-Length: 5\r\nA: 1\r\nTRANSFER-ENCODING: chunked\r\nhost: b\r\n"
                "Authorization: x\r\nCookie: y\r\nB: 2\r\nContent-Type: z\r\n"
                "Content-Digest: sha\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "A=1;B=2;Content-Digest=sha;");
    client_send(c, CHUNKED "0\r\nHost: b\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "");
    client_close(c);
    host_end(h);
}

static void many_trailers_are_kept_up_to_the_limit(void **state)
{
    struct host *h = trailing_host(state);
    struct client *c = client_open(h);
    char text[9000], want[9000];
    int len = sprintf(text, CHUNKED "0\r\n"), n = 0;
    for (int i = 0; i < 800; i++) {
        len += sprintf(text + len, "t%03d: v\r\n", i);
        n += sprintf(want + n, "t%03d=v;", i);
    }
    sprintf(text + len, "\r\n");
    client_send(c, text);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, want);
    client_close(c);
    host_end(h);
}

/* ---- Expect */

static void ask_and_wait(ioh_req *req, void *state)
{
    struct host *h = state;
    bool asks = path_is(req, "/asks");
    CHECK(h, ioh_req_expects_continue(req) == asks);
    CHECK(h, ioh_req_gather(req, 100) == 0);
    if (asks)
        ioh_pause(ioh_req_conn(req));
    park(req, state);
}

static void answer_gathered(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_str body = ioh_req_body(req);
    CHECK(h, !ioh_req_expects_continue(req));
    CHECK(h, ioh_respond(req, 200, NULL, 0, body.ptr, body.len) == 0);
}

static void go_on(ioh_conn *conn, void *user)
{
    (void)user;
    ioh_resume(conn);
}

#define ASK                                                      \
    "POST /asks HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" \
    "Content-Length: 5\r\n\r\n"

static void continue_waits_for_the_host_s_decision(void **state)
{
    static struct parked parked;
    struct host *h = host_new(state);
    memset(&parked, 0, sizeof parked);
    h->data = &parked;
    h->on.on_request = ask_and_wait;
    h->on.on_request_end = answer_gathered;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        client_send(c, ASK);
        WAIT(h, parked.count == 2 * i + 1);
        poll(NULL, 0, 20);
        assert_true(client_is_quiet(c)); /* neither 100 nor an answer */
        assert_int_equal(host_run_on(h, h->last_id, go_on, NULL, NULL), 0);
        assert_int_equal(client_answer(c), 100);
        client_send(c, "hello");
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "hello");
        client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        assert_int_equal(client_answer(c), 200); /* nobody asked */
        assert_body(c, "hi");
    }
    client_close(c);
    host_end(h);
}

static void answer_instead_of_continue_closes_and_nothing_is_read(void **state)
{
    static const int statuses[] = {413, 417, 401, 200};
    static struct parked parked;
    struct host *h = host_new(state);
    memset(&parked, 0, sizeof parked);
    h->data = &parked;
    h->on.on_request = ask_and_wait;
    h->on.on_request_end = answer_gathered;
    host_start(h);
    for (int i = 0; i < 4; i++) {
        struct client *c = client_open(h);
        client_send(c, ASK);
        WAIT(h, parked.count == i + 1);
        assert_int_equal(ioh_reply(h->server, parked.ids[i], statuses[i], NULL, 0, "no", 2), 0);
        assert_int_equal(client_answer(c), statuses[i]);
        assert_field(c, "Connection", "close");
        assert_body(c, "no");
        client_wait_end(c);
        client_close(c);
    }
    assert_int_equal(h->request_ends, 0);
    host_end(h);
}

/* A length above what is to be gathered is told to a client that waits, before it sends. */
static void gather_limit_answers_who_expects_continue(void **state)
{
    struct host *h = gathering_host(state);
    struct client *c = client_open(h);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                   "Content-Length: 1000001\r\n\r\n");
    assert_int_equal(client_answer(c), 413);
    client_close(c);
    c = client_open(h);
    client_send(c,
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_int_equal(client_answer(c), 100);
    client_send(c, "hi");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(gathered_body_is_whole_however_it_arrives),
    HOST_TEST(pipelined_bodies_are_gathered_one_by_one),
    HOST_TEST(more_than_was_to_be_gathered_is_refused),
    HOST_TEST_IN(the_server_s_own_limit_stays, IN_TCP),
    HOST_TEST_IN(early_answer_drops_what_would_have_been_gathered, IN_TCP),
    HOST_TEST_IN(client_may_leave_in_the_middle_of_a_gathered_body, IN_TCP),
    HOST_TEST_IN(gathered_body_stays_while_a_callback_waits, IN_WAITING),
    HOST_TEST(trailers_are_told_at_the_end_of_the_request),
    HOST_TEST_IN(trailers_that_could_mislead_are_left_out, IN_TCP),
    HOST_TEST_IN(many_trailers_are_kept_up_to_the_limit, IN_TCP),
    HOST_TEST(continue_waits_for_the_host_s_decision),
    HOST_TEST(answer_instead_of_continue_closes_and_nothing_is_read),
    HOST_TEST_IN(gather_limit_answers_who_expects_continue, IN_TCP),
};

HOST_MAIN(tests)

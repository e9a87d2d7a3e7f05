/* Whole answers: what ioh_respond(), _buf() and _shared() refuse, and what arrives. */
#include "support/common.h"

/* ---- what is refused */

static atomic_int releases;
static char three[] = "abc";

/* Every way to begin an answer; shared ones are refused when they are made. */
static int begin(struct host *h, ioh_req *req, int status, const struct ioh_header *fields,
                 size_t count, int way)
{
    int before = releases, rc;
    switch (way) {
    case 0:
        return ioh_respond(req, status, fields, count, "abc", 3);
    case 1:
        rc = ioh_respond_buf(req, status, fields, count, counted_buf(three, 3, &releases));
        CHECK(h, releases == before + 1); /* consumed, although refused */
        return rc;
    default:
        return ioh_respond_start(req, status, fields, count, 3);
    }
}

static const struct ioh_header bad_fields[] = {
    {"", "empty name"},
    {"a b", "v"},
    {"a:", "v"},
    {" a", "v"},
    {"a\r\nb", "v"},
    {"a\n", "v"},
    {"\xc3\xa4", "v"},
    {"a", "v\r\nInjected: yes"},
    {"a", "v\n"},
    {"a", "\r"},
    {"a", "v\x01"},
    {"a", "\x7f"},
    {"Connection", "close"},
    {"connection", "keep-alive"},
    {"Content-Length", "3"},
    {"CONTENT-LENGTH", "0"},
    {"Transfer-Encoding", "chunked"},
    {"transfer-encoding", "gzip"},
    {"Date", "Thu, 01 Jan 1970 00:00:00 GMT"},
    {"Keep-Alive", "timeout=5"},
    {"Upgrade", "h2c"},
};
static const int bad_status[] = {-200, -1, 0, 1, 99, 100, 101, 199, 600, 999, 2000};

static void refuse_all(ioh_req *req, void *state)
{
    struct host *h = state;
    const struct ioh_header nameless[] = {{NULL, "v"}}, valueless[] = {{"a", NULL}};
    for (int way = 0; way < 3; way++) {
        for (size_t i = 0; i < sizeof bad_status / sizeof *bad_status; i++)
            CHECK(h, begin(h, req, bad_status[i], NULL, 0, way) == IOH_EINVAL);
        for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++) {
            const struct ioh_header fields[] = {{"Good", "one"}, bad_fields[i]};
            CHECK(h, begin(h, req, 200, &bad_fields[i], 1, way) == IOH_EHEADER);
            CHECK(h, begin(h, req, 200, fields, 2, way) == IOH_EHEADER);
        }
        CHECK(h, begin(h, req, 200, NULL, 1, way) == IOH_EINVAL);
        CHECK(h, begin(h, req, 200, nameless, 1, way) < 0);
        CHECK(h, begin(h, req, 200, valueless, 1, way) < 0);
    }
    CHECK(h, ioh_respond(req, 200, NULL, 0, NULL, 1) == IOH_EINVAL);
    CHECK(h, ioh_respond_buf(req, 200, NULL, 0, NULL) == IOH_EINVAL);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -2) == IOH_EINVAL);
    CHECK(h, ioh_respond_data(req, "x", 1) == IOH_ESTATE);
    CHECK(h, ioh_respond_data(req, NULL, 1) == IOH_EINVAL);
    CHECK(h, ioh_respond_data_buf(req, NULL) == IOH_EINVAL);
    CHECK(h, ioh_respond_data_buf(req, counted_buf(three, 3, &releases)) == IOH_ESTATE);
    CHECK(h, ioh_respond_end(req) == IOH_ESTATE);
    answer_ok(req, state);
}

/* "After IOH_EINVAL and IOH_EHEADER nothing was sent and another answer may be given." */
static void bad_answers_are_refused_and_a_good_one_may_follow(void **state)
{
    struct host *h = host_new(state);
    int made = 3;
    releases = 0;
    h->on.on_request = refuse_all;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        assert_body(c, "ok");
        assert_null(client_field(c, "Good"));
        assert_null(client_field(c, "Injected"));
    }
    client_close(c);
    host_end(h);
    made += (int)(sizeof bad_status / sizeof *bad_status) +
            2 * (int)(sizeof bad_fields / sizeof *bad_fields);
    assert_int_equal(releases, 2 * (made + 1));
}

static void bad_shared_answers_are_not_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_status / sizeof *bad_status; i++)
        assert_null(ioh_response_create(bad_status[i], NULL, 0, "abc", 3));
    for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++)
        assert_null(ioh_response_create(200, &bad_fields[i], 1, "abc", 3));
    assert_null(ioh_response_create(200, NULL, 0, NULL, 3));
    assert_null(ioh_response_create(200, NULL, 1, NULL, 0));
    ioh_response_destroy(NULL);
}

/* ---- when no answer may be given any more */

static ioh_response *shared;

static void expect_all(struct host *h, ioh_req *req, int rc)
{
    int before = releases;
    CHECK(h, ioh_respond(req, 200, NULL, 0, "again", 5) == rc);
    CHECK(h, ioh_respond_buf(req, 200, NULL, 0, counted_buf(three, 3, &releases)) == rc);
    CHECK(h, ioh_respond_shared(req, shared) == rc);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == rc);
    CHECK(h, releases == before + 1);
}

static void answer_twice(ioh_req *req, void *state)
{
    struct host *h = state;
    int before = releases;
    if (path_is(req, "/start")) {
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, 2) == 0);
        expect_all(h, req, IOH_EDONE);
        CHECK(h, ioh_respond_data(req, "ok", 2) == 0);
        CHECK(h, ioh_respond_end(req) == 0);
    } else {
        answer_ok(req, state);
    }
    expect_all(h, req, IOH_EDONE);
    before = releases;
    CHECK(h, ioh_respond_data(req, "x", 1) == IOH_EDONE);
    CHECK(h, ioh_respond_data_buf(req, counted_buf(three, 3, &releases)) == IOH_EDONE);
    CHECK(h, ioh_respond_end(req) == IOH_EDONE);
    CHECK(h, releases == before + 1);
    ioh_respond_close(req); /* too late: "before the answer begins" */
}

static void answering_twice_is_refused(void **state)
{
    struct host *h = host_new(state);
    shared = ioh_response_create(200, NULL, 0, "s", 1);
    h->on.on_request = answer_twice;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(client_get(c, i % 2 ? "/start" : "/whole"), 200);
        assert_body(c, "ok");
        assert_null(client_field(c, "Connection"));
    }
    client_close(c);
    host_end(h);
    ioh_response_destroy(shared);
}

static void answer_when_closing(ioh_req *req, void *state)
{
    struct host *h = state;
    bool streaming = path_is(req, "/abort-stream") || path_is(req, "/close-stream");
    if (streaming)
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, 100) == 0);
    if (path_is(req, "/abort") || path_is(req, "/abort-stream"))
        ioh_abort(ioh_req_conn(req));
    else
        ioh_close(ioh_req_conn(req));
    if (streaming) {
        int before = releases;
        CHECK(h, ioh_respond_data(req, "x", 1) == IOH_EGONE);
        CHECK(h, ioh_respond_data_buf(req, counted_buf(three, 3, &releases)) == IOH_EGONE);
        CHECK(h, ioh_respond_end(req) == IOH_EGONE);
        CHECK(h, releases == before + 1);
    } else {
        expect_all(h, req, IOH_EGONE);
    }
}

static void answering_on_a_closing_connection_is_gone(void **state)
{
    static const char *const paths[] = {"/abort", "/close", "/abort-stream", "/close-stream"};
    struct host *h = host_new(state);
    shared = ioh_response_create(200, NULL, 0, "s", 1);
    h->on.on_request = answer_when_closing;
    host_start(h);
    for (int i = 0; i < 4; i++) {
        struct client *c = client_open(h);
        client_request(c, "GET", paths[i], "");
        client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == i + 1);
        assert_int_equal(h->last_status, i < 2 ? 0 : 200);
    }
    host_end(h);
    ioh_response_destroy(shared);
}

/* ---- what arrives */

static const size_t sizes[] = {0, 1, 100, 4095, 4096, 4097, 16384, 65535, 65536, 65537, 1000000};
enum { SIZES = sizeof sizes / sizeof *sizes, WAYS = 4 };
static uint8_t *bytes;
static ioh_response *shared_of[SIZES];

static const struct ioh_header some_fields[] = {
    {"Content-Type", "text/plain; charset=utf-8"},
    {"X-Empty", ""},
    {"X-Odd", "a\tb \xc3\xa4 \"c\""},
    {"Set-Cookie", "a=1"},
    {"Set-Cookie", "b=2"},
};
#define SOME_FIELDS some_fields, sizeof some_fields / sizeof *some_fields
#define SOME_FIELDS_TEXT                                                                     \
    "Content-Type: text/plain; charset=utf-8\r\nX-Empty: \r\nX-Odd: a\tb \xc3\xa4 \"c\"\r\n" \
    "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n"

/* /WAY/SIZE-INDEX/STATUS */
static void answer_as_asked(ioh_req *req, void *state)
{
    struct host *h = state;
    int way = 0, size = 0, status = 0, rc = 0;
    char path[60];
    struct ioh_str s = ioh_req_path(req);
    snprintf(path, sizeof path, "%.*s", (int)s.len, s.ptr);
    CHECK(h, sscanf(path, "/%d/%d/%d", &way, &size, &status) == 3);
    size_t len = sizes[size];
    if (way == 0) {
        rc = ioh_respond(req, status, SOME_FIELDS, bytes, len);
    } else if (way == 1) {
        rc = ioh_respond_buf(req, status, SOME_FIELDS, counted_buf(bytes, len, &releases));
    } else if (way == 2) {
        ioh_response *once = ioh_response_create(status, SOME_FIELDS, bytes, len);
        rc = ioh_respond_shared(req, status == 200 ? shared_of[size] : once);
        ioh_response_destroy(once); /* what was answered with it is not touched */
    } else {
        CHECK(h, ioh_respond_start(req, status, SOME_FIELDS, (int64_t)len) == 0);
        CHECK(h, ioh_respond_data(req, bytes, len / 2) >= 0);
        CHECK(h, ioh_respond_data(req, bytes + len / 2, len - len / 2) >= 0);
        rc = ioh_respond_end(req);
    }
    if (host_is_direct(h))
        CHECK(h, rc == (ioh_conn_queued(ioh_req_conn(req)) > 262144 ? IOH_QUEUED : 0));
    else
        CHECK(h, rc == 0 || (rc == IOH_QUEUED && len > 262144));
}

static struct host *host_with_answers(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(1000000);
    for (int i = 0; i < SIZES; i++)
        shared_of[i] = ioh_response_create(200, SOME_FIELDS, bytes, sizes[i]);
    h->on.on_request = answer_as_asked;
    releases = 0;
    host_start(h);
    return h;
}

static void end_host_with_answers(struct host *h)
{
    host_end(h);
    for (int i = 0; i < SIZES; i++)
        ioh_response_destroy(shared_of[i]);
    free(bytes);
}

static void ask(struct client *c, const char *method, int way, int size, int status)
{
    char path[60];
    snprintf(path, sizeof path, "/%d/%d/%d", way, size, status);
    client_request(c, method, path, "");
}

static void answers_of_every_kind_and_size_arrive_whole(void **state)
{
    struct host *h = host_with_answers(state);
    struct client *c = client_open(h);
    int completes = 0;
    for (int way = 0; way < WAYS; way++) {
        for (int size = 0; size < SIZES; size++) {
            ask(c, "GET", way, size, 200);
            assert_int_equal(client_answer(c), 200);
            assert_int_equal(c->body_len, sizes[size]);
            assert_true(is_pattern(c->body, c->body_len));
            assert_non_null(strstr(c->head, SOME_FIELDS_TEXT));
            assert_memory_equal(c->head, "HTTP/1.1 200 OK\r\n", 17);
            assert_int_equal(strlen(client_field(c, "Date")), 29);
            assert_int_equal(atoi(client_field(c, "Content-Length")), sizes[size]);
            assert_null(client_field(c, "Transfer-Encoding"));
            assert_null(client_field(c, "Connection"));
            WAIT(h, h->completes == completes + 1);
            completes++;
            assert_int_equal(h->last_status, 200);
            assert_int_equal(h->last_bytes, sizes[size]);
        }
    }
    client_close(c);
    end_host_with_answers(h);
    assert_int_equal(releases, SIZES);
}

/* The next answer would begin inside a body that must not be there. */
static void head_204_and_304_never_have_a_body(void **state)
{
    static const int empty[] = {204, 304};
    struct host *h = host_with_answers(state);
    struct client *c = client_open(h);
    char length[20];
    int completes = 0;
    for (int way = 0; way < WAYS; way++) {
        for (int size = 0; size < SIZES; size += 5) {
            for (int i = 0; i < 2; i++) {
                ask(c, "GET", way, size, empty[i]);
                assert_int_equal(client_answer(c), empty[i]);
                assert_null(client_field(c, "Transfer-Encoding"));
                assert_null(empty[i] == 204 ? client_field(c, "Content-Length") : NULL);
                WAIT(h, h->completes == completes + 1);
                completes++;
                assert_int_equal(h->last_bytes, 0);
            }
            ask(c, "HEAD", way, size, 200);
            assert_int_equal(client_read(c, true), 200);
            snprintf(length, sizeof length, "%zu", sizes[size]);
            assert_field(c, "Content-Length", length);
            assert_non_null(strstr(c->head, SOME_FIELDS_TEXT));
            WAIT(h, h->completes == completes + 1);
            completes++;
            assert_int_equal(h->last_bytes, 0);
        }
    }
    ask(c, "GET", 0, 1, 200);
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    end_host_with_answers(h);
}

static void every_status_from_200_to_599_may_be_sent(void **state)
{
    struct host *h = host_with_answers(state);
    struct client *c = client_open(h);
    char line[100];
    for (int status = 200; status < 600; status += status < 432 ? 1 : 20) {
        ask(c, "GET", status % 4, 2, status);
        assert_int_equal(client_answer(c), status);
        int n = snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, ioh_reason(status));
        assert_memory_equal(c->head, line, (size_t)n);
    }
    client_close(c);
    end_host_with_answers(h);
}

static void reason_phrases_are_those_of_the_rfc(void **state)
{
    (void)state;
    assert_string_equal(ioh_reason(200), "OK");
    assert_string_equal(ioh_reason(101), "Switching Protocols");
    assert_string_equal(ioh_reason(404), "Not Found");
    assert_string_equal(ioh_reason(413), "Content Too Large");
    assert_string_equal(ioh_reason(505), "HTTP Version Not Supported");
    assert_string_equal(ioh_reason(299), "");
    assert_string_equal(ioh_reason(0), "");
    assert_string_equal(ioh_reason(-200), "");
    assert_string_equal(ioh_reason(100000), "");
}

/* ---- the connection after the answer */

static void close_after(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_respond_close(req);
    if (path_is(req, "/shared"))
        CHECK(h, ioh_respond_shared(req, shared) == 0);
    else
        answer_ok(req, state);
}

static void respond_close_says_so_and_ends_the_connection(void **state)
{
    static const char *const paths[] = {"/whole", "/shared"};
    struct host *h = host_new(state);
    shared = ioh_response_create(200, NULL, 0, "ok", 2);
    h->on.on_request = close_after;
    host_start(h);
    for (int i = 0; i < 2; i++) {
        struct client *c = client_open(h);
        char both[200];
        snprintf(both, sizeof both, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n%s", paths[i],
                 "GET /pipelined HTTP/1.1\r\nHost: t\r\n\r\n");
        client_send(c, both);
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "ok");
        assert_field(c, "Connection", "close");
        client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == i + 1);
        assert_int_equal(h->requests, i + 1);
    }
    host_end(h);
    ioh_response_destroy(shared);
}

static void connection_close_from_the_client_ends_the_connection(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "Connection: close\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "close");
    client_expect_end(c);
    assert_false(c->reset);
    client_close(c);
    host_end(h);
}

static void http_1_0_keeps_the_connection_only_when_asked(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        client_send(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_int_equal(client_answer(c), 200);
        assert_field(c, "Connection", "keep-alive");
    }
    client_send(c, "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "close");
    assert_body(c, "ok");
    client_expect_end(c);
    assert_false(c->reset);
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(bad_answers_are_refused_and_a_good_one_may_follow),
    HOST_TEST_ONCE(bad_shared_answers_are_not_made),
    HOST_TEST(answering_twice_is_refused),
    HOST_TEST(answering_on_a_closing_connection_is_gone),
    HOST_TEST(answers_of_every_kind_and_size_arrive_whole),
    HOST_TEST(head_204_and_304_never_have_a_body),
    HOST_TEST(every_status_from_200_to_599_may_be_sent),
    HOST_TEST_ONCE(reason_phrases_are_those_of_the_rfc),
    HOST_TEST(respond_close_says_so_and_ends_the_connection),
    HOST_TEST(connection_close_from_the_client_ends_the_connection),
    HOST_TEST(http_1_0_keeps_the_connection_only_when_asked),
};

HOST_MAIN(tests)

/* Answers that the library asks for (ioh_respond_pull), heads before the answer (1xx), trailers behind it. */
#include "support/common.h"

#include <iohandler/error.h>

/* ---- pull */

/* What a pulled answer is made from; one at a time in most tests. */
struct source {
    struct host *host;
    _Atomic size_t left, at;
    size_t piece;            /* at most so much a time; 0: the room it is given */
    atomic_int calls, empty; /* empty: so often it has nothing */
    atomic_bool slow;        /* each time takes long enough for its loop to be taken over */
    atomic_bool shy;         /* every other time it has nothing, */
    atomic_int shied;        /* so often */
    _Atomic size_t most_room;
    struct ioh_req_id id;
};

static uint8_t *bytes; /* the pattern */

static void give_more(ioh_req *req, size_t room, void *user)
{
    struct source *s = user;
    struct host *h = s->host;
    struct seen *seen = host_enter_req(h, req);
    s->calls++;
    if (s->slow)
        poll(NULL, 0, 3);
    if (room > s->most_room)
        s->most_room = room;
    if (s->empty > 0 || (s->shy && s->calls % 2)) {
        s->empty -= s->empty > 0;
        s->shied++;
        host_leave(h, seen, &h->runs);
        return;
    }
    size_t n = s->piece ? s->piece : room;
    if (n > s->left)
        n = s->left;
    int rc = ioh_respond_data(req, bytes + s->at, n);
    CHECK(h, rc >= 0 || rc == IOH_EGONE); /* the client may have left a moment ago */
    s->at += n;
    s->left -= n;
    if (s->left == 0 && rc >= 0) {
        rc = ioh_respond_end(req);
        CHECK(h, rc >= 0 || rc == IOH_EGONE);
    }
    host_leave(h, seen, &h->runs);
}

static void pull(ioh_req *req, void *state)
{
    struct host *h = state;
    struct source *s = h->data;
    int64_t length = path_is(req, "/known") ? (int64_t)s->left : -1;
    CHECK(h, ioh_respond_pull(req, give_more, s) == IOH_ESTATE);
    s->id = ioh_defer(req);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, length) == 0);
    CHECK(h, ioh_respond_pull(req, NULL, s) == IOH_EINVAL);
    CHECK(h, ioh_respond_pull(req, give_more, s) == 0);
}

static struct host *pulling_host(void **state, struct source *s)
{
    struct host *h = host_new(state);
    *s = (struct source){.host = h};
    h->data = s;
    h->on.on_request = pull;
    return h;
}

static void pulled_answer_is_whole_whatever_is_sent_at_a_time(void **state)
{
    static const size_t pieces[] = {0, 1000, 65536, 300000, 3000000};
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(3000000);
    h->options.send_high = 100000;
    h->options.send_low = 20000;
    host_start(h);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (int known = 0; known < 2; known++) {
            size_t n = pieces[i] == 1000 ? 100000 : 3000000;
            s.left = n;
            s.at = s.most_room = 0;
            s.calls = 0;
            s.piece = pieces[i];
            assert_int_equal(client_get(c, known ? "/known" : "/unknown"), 200);
            assert_int_equal(c->body_len, n);
            assert_true(is_pattern(c->body, n));
            assert_int_equal(c->chunked, !known);
            WAIT(h, h->completes == (int)i * 2 + known + 1);
            assert_int_equal(h->last_bytes, n);
            assert_true(s.calls >= (int)(s.piece ? n / s.piece : n / 100000));
            assert_true(s.most_room <= 100000 && s.most_room >= 80000);
        }
    }
    client_close(c);
    host_end(h);
    free(bytes);
}

static void nobody_is_asked_while_the_peer_does_not_read(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(20000000);
    s.left = 20000000;
    h->options.send_high = 100000;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    /* until the kernel takes no more */
    int before = -1;
    while (before != s.calls) {
        before = s.calls;
        poll(NULL, 0, 100);
    }
    assert_true(s.left > 0);
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, 20000000);
    assert_true(is_pattern(c->body, c->body_len));
    client_close(c);
    host_end(h);
    free(bytes);
}

static void who_has_nothing_is_asked_again_when_told(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(100);
    s.left = 100;
    s.piece = 50;
    s.empty = 1;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    for (int i = 1; i <= 3; i++) {
        WAIT(h, s.calls == i && h->runs == i);
        poll(NULL, 0, 20);
        assert_int_equal(s.calls, i);
        if (i < 3)
            s.empty = 1;
        assert_int_equal(ioh_reply_more(h->server, s.id), 0);
    }
    assert_int_equal(client_answer(c), 200);
    assert_true(is_pattern(c->body, 100));
    assert_int_equal(c->body_len, 100);
    client_close(c);
    host_end(h);
    free(bytes);
}

/* Whoever makes the data says so while the callback that found nothing may not even have returned: no such call may be
 * lost, or the answer never ends. */
static void no_call_for_more_is_lost(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(5000);
    host_start(h);
    struct client *c = client_open(h);
    for (int round = 0; round < 3; round++) {
        s.left = 5000;
        s.at = 0;
        s.piece = 100;
        s.shy = true;
        s.calls = s.shied = 0;
        client_request(c, "GET", "/", "");
        for (int i = 1; i <= 50; i++) {
            uint64_t until = host_now_ms() + PATIENCE_MS;
            while (s.shied < i && host_now_ms() < until)
                sched_yield();
            assert_true(s.shied >= i);
            assert_int_equal(ioh_reply_more(h->server, s.id), 0);
        }
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(c->body_len, 5000);
        WAIT(h, h->completes == round + 1);
    }
    client_close(c);
    host_end(h);
    free(bytes);
}

static void who_is_slow_to_give_more_is_waited_for(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(500000);
    h->options.send_high = 60000;
    s.slow = true;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        s.left = 500000;
        s.at = 0;
        assert_int_equal(client_get(c, "/"), 200);
        assert_int_equal(c->body_len, 500000);
        assert_true(is_pattern(c->body, 500000));
    }
    client_close(c);
    host_end(h);
    free(bytes);
}

static void head_request_is_pulled_by_nobody(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(100);
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        s.left = 100;
        s.at = 0;
        client_request(c, "HEAD", i ? "/known" : "/", "");
        assert_int_equal(client_read(c, true), 200);
        assert_int_equal(s.calls, 0);
    }
    assert_int_equal(client_get(c, "/"), 200);
    assert_int_equal(c->body_len, 100);
    client_close(c);
    host_end(h);
    free(bytes);
}

static void client_that_leaves_ends_the_pulling(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(20000000);
    h->options.send_high = 100000;
    host_start(h);
    for (int i = 0; i < 4; i++) {
        s.left = 20000000;
        s.at = 0;
        s.empty = i % 2;
        struct client *c = client_open(h);
        client_request(c, "GET", "/", "");
        if (i % 2) /* it has said that it has nothing */
            WAIT(h, s.empty == 0);
        else
            assert_true(client_find(c, "\r\n\r\n") > 0);
        client_abort(c);
        WAIT(h, h->completes == i + 1);
    }
    host_end(h);
    free(bytes);
}

/* Asked while the body of the request still arrives: both ways at once. */
static void pulled_answer_may_begin_before_the_request_has_ended(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(1000);
    h->on.on_body = drop_body;
    s.left = 1000;
    s.piece = 500;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, 1000);
    client_send(c, "world");
    s.left = 1000;
    s.at = 0;
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_end(h);
    free(bytes);
}

static void more_without_pull(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_more(req) == IOH_ESTATE);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, 0) == 0);
    int rc = ioh_respond_more(req);
    CHECK(h, rc == IOH_ESTATE || (!host_is_direct(h) && rc == 0));
    CHECK(h, ioh_respond_end(req) == 0);
    CHECK(h, ioh_respond_more(req) == IOH_EDONE);
    CHECK(h, ioh_respond_pull(req, give_more, NULL) == IOH_EDONE);
}

static void nothing_is_asked_for_without_pull(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = more_without_pull;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_end(h);
}

/* In a callback of the connection itself. */
static void wake(ioh_conn *conn, void *user)
{
    (void)conn;
    CHECK(((struct source *)user)->host, ioh_respond_more(host_seen(conn)->req) == 0);
}

static void more_may_be_said_in_another_callback(void **state)
{
    struct source s;
    struct host *h = pulling_host(state, &s);
    bytes = pattern(100);
    s.left = 100;
    s.empty = 1;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, s.empty == 0);
    assert_int_equal(host_run_on(h, h->last_id, wake, &s, NULL), 0);
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, 100);
    client_close(c);
    host_end(h);
    free(bytes);
}

/* ---- 1xx */

static const struct ioh_header hints[] = {{"Link", "</a.css>; rel=preload; as=style"},
                                          {"X-Hint", "1"}};

static void hint(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_header bad[] = {{"Content-Length", "1"}};
    static const int wrong[] = {100, 101, 99, 200, 0, -1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(h, ioh_respond_informational(req, wrong[i], NULL, 0) == IOH_EINVAL);
    CHECK(h, ioh_respond_informational(req, 103, bad, 1) == IOH_EHEADER);
    CHECK(h, ioh_respond_informational(req, 102, NULL, 0) == 0);
    CHECK(h, ioh_respond_informational(req, 103, hints, 2) == 0);
    CHECK(h, ioh_respond_informational(req, 199, NULL, 0) == 0);
    if (path_is(req, "/later")) {
        park(req, state);
        return;
    }
    CHECK(h, ioh_respond(req, 200, NULL, 0, "ok", 2) == 0);
    CHECK(h, ioh_respond_informational(req, 103, hints, 2) == IOH_EDONE);
}

static void assert_hinted(struct client *c)
{
    assert_int_equal(client_answer(c), 102);
    assert_int_equal(client_answer(c), 103);
    assert_field(c, "Link", "</a.css>; rel=preload; as=style");
    assert_field(c, "X-Hint", "1");
    assert_null(client_field(c, "Content-Length"));
    assert_null(client_field(c, "Transfer-Encoding"));
    assert_int_equal(client_answer(c), 199);
}

static void informational_heads_come_before_the_answer(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = hint;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        client_request(c, "GET", "/", "");
        assert_hinted(c);
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "ok");
        WAIT(h, h->completes == 2 * i + 1);
        assert_int_equal(h->last_bytes, 2);
        client_request(c, "GET", "/later", "");
        assert_hinted(c); /* they do not wait for it */
        WAIT(h, parked.count == i + 1);
        assert_int_equal(ioh_reply_informational(h->server, parked.ids[i], 101, NULL, 0),
                         IOH_EINVAL);
        assert_int_equal(ioh_reply_informational(h->server, parked.ids[i], 103, hints, 2), 0);
        assert_int_equal(client_answer(c), 103);
        assert_field(c, "X-Hint", "1");
        assert_int_equal(ioh_reply(h->server, parked.ids[i], 200, NULL, 0, "late", 4), 0);
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "late");
    }
    client_close(c);
    host_end(h);
}

static void http_1_0_gets_no_informational_head(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = hint;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "ok");
    client_wait_end(c);
    client_close(c);
    host_end(h);
}

/* ---- trailers */

static const struct ioh_header sums[] = {{"X-Sum", "abc"}, {"Content-Digest", "sha-256=:x:"}};

static void end_with_trailers(ioh_req *req, void *state)
{
    struct host *h = state;
    static const char *const never[] = {
        "Content-Length", "Transfer-Encoding", "Content-Type", "Set-Cookie", "Host", "trailer"};
    CHECK(h, ioh_respond_end_trailers(req, sums, 2) == IOH_ESTATE);
    int64_t length = path_is(req, "/known") ? 4 : -1;
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, length) == 0);
    CHECK(h, ioh_respond_data(req, "body", 4) == 0);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        struct ioh_header bad = {never[i], "1"};
        CHECK(h, ioh_respond_end_trailers(req, &bad, 1) == IOH_EHEADER);
    }
    CHECK(h, ioh_respond_end_trailers(req, NULL, 1) == IOH_EINVAL);
    CHECK(h, ioh_respond_end_trailers(req, sums, 2) == 0);
    CHECK(h, ioh_respond_end_trailers(req, sums, 2) == IOH_EDONE);
}

/* What stands behind the last chunk up to the empty line. */
static void assert_raw_end(struct client *c, const char *want)
{
    size_t n = client_find(c, want);
    assert_true(n > 0);
    client_drop(c, n);
}

static void trailers_stand_behind_the_last_chunk(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = end_with_trailers;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        client_request(c, "GET", "/", "");
        assert_raw_end(
            c, "\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: abc\r\nContent-Digest: sha-256=:x:\r\n\r\n");
        assert_int_equal(client_get(c, "/known"), 200); /* no chunks, no trailers */
        assert_body(c, "body");
        client_request(c, "HEAD", "/", "");
        assert_int_equal(client_read(c, true), 200);
    }
    client_send(c, "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "body");
    client_close(c);
    host_end(h);
}

static void deferred_answer_may_end_with_trailers(void **state)
{
    struct parked parked = {.count = 0};
    atomic_int released = 0;
    struct ioh_header bad = {"Host", "a"};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = park;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, parked.count == 1);
    struct ioh_req_id id = parked.ids[0];
    static char text[] = "body";
    assert_int_equal(ioh_reply_start(h->server, id, 200, NULL, 0, -1), 0);
    assert_int_equal(ioh_reply_data_buf(h->server, id, NULL), IOH_EINVAL);
    assert_int_equal(ioh_reply_data_buf(h->server, id, counted_buf(text, 4, &released)), 0);
    assert_int_equal(ioh_reply_end_trailers(h->server, id, &bad, 1), IOH_EHEADER);
    assert_int_equal(ioh_reply_end_trailers(h->server, id, sums, 2), 0);
    assert_raw_end(c,
                   "\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: abc\r\nContent-Digest: sha-256=:x:\r\n\r\n");
    assert_int_equal(ioh_reply_data_buf(h->server, id, counted_buf(text, 4, &released)), 0);
    WAIT(h, host_stats(h).late_answers == 1 && released == 2);
    client_close(c);
    host_end(h);
}

/* ---- 205 */

static void reset_content(ioh_req *req, void *state)
{
    struct host *h = state;
    static ioh_response *shared;
    if (path_is(req, "/start")) {
        CHECK(h, ioh_respond_start(req, 205, NULL, 0, -1) == 0);
        CHECK(h, ioh_respond_data(req, "body", 4) == 0);
        CHECK(h, ioh_respond_end(req) == 0);
    } else if (path_is(req, "/shared")) {
        shared = ioh_response_create(205, NULL, 0, "body", 4);
        CHECK(h, ioh_respond_shared(req, shared) == 0);
        ioh_response_destroy(shared);
    } else {
        CHECK(h, ioh_respond(req, 205, NULL, 0, "body", 4) == 0);
    }
}

/* RFC 9110 15.3.6 */
static void reset_content_has_no_body_and_says_so(void **state)
{
    static const char *const paths[] = {"/", "/start", "/shared"};
    struct host *h = host_new(state);
    h->on.on_request = reset_content;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(client_get(c, paths[i % 3]), 205);
        assert_field(c, "Content-Length", "0");
        assert_body(c, "");
    }
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(pulled_answer_is_whole_whatever_is_sent_at_a_time),
    HOST_TEST_IN(nobody_is_asked_while_the_peer_does_not_read, IN_TCP),
    HOST_TEST(who_has_nothing_is_asked_again_when_told),
    HOST_TEST_IN(no_call_for_more_is_lost, IN_TCP),
    HOST_TEST(who_is_slow_to_give_more_is_waited_for),
    HOST_TEST(head_request_is_pulled_by_nobody),
    HOST_TEST_IN(client_that_leaves_ends_the_pulling, IN_TCP),
    HOST_TEST_IN(pulled_answer_may_begin_before_the_request_has_ended, IN_TCP),
    HOST_TEST(nothing_is_asked_for_without_pull),
    HOST_TEST(more_may_be_said_in_another_callback),
    HOST_TEST(informational_heads_come_before_the_answer),
    HOST_TEST_IN(http_1_0_gets_no_informational_head, IN_TCP),
    HOST_TEST(trailers_stand_behind_the_last_chunk),
    HOST_TEST(deferred_answer_may_end_with_trailers),
    HOST_TEST_IN(reset_content_has_no_body_and_says_so, IN_TCP),
};

HOST_MAIN(tests)

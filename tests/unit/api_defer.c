/* Deferred answers: ioh_defer() in a callback, ioh_reply() and its parts from any thread. */
#include "support/common.h"

static struct host *parking_host(void **state, struct parked *parked)
{
    struct host *h = host_new(state);
    memset(parked, 0, sizeof *parked);
    h->data = parked;
    h->on.on_request = park;
    host_start(h);
    return h;
}

static void reply_word(struct host *h, struct ioh_req_id id, const char *word)
{
    int rc = ioh_reply(h->server, id, 200, NULL, 0, word, strlen(word));
    assert_int_equal(rc, 0);
}

/* ---- one request */

static void
deferred_request_is_answered_from_a_foreign_thread_and_the_connection_goes_on(void **state)
{
    static const struct ioh_header fields[] = {{"X-One", "1"}, {"X-Two", "2"}};
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    char body[] = "later";
    for (int i = 0; i < 5; i++) {
        client_request(c, "GET", "/", "");
        WAIT(h, parked.count == i + 1);
        assert_true(client_is_quiet(c));
        assert_int_equal(ioh_reply(h->server, parked.ids[i], 201 + i, fields, 2, body, 5), 0);
        memcpy(body, "xxxxx", 5); /* copied */
        assert_int_equal(client_answer(c), 201 + i);
        assert_body(c, i >= 3 ? "" : "later"); /* 204, 205 */
        assert_field(c, "X-One", "1");
        assert_field(c, "X-Two", "2");
        assert_null(client_field(c, "Connection"));
        WAIT(h, h->completes == i + 1);
        assert_int_equal(h->last_status, 201 + i);
        assert_int_equal(h->last_bytes, i >= 3 ? 0 : 5);
        memcpy(body, "later", 5);
    }
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).late_answers, 0);
    assert_int_equal(h->peers_gone, 0);
    host_end(h);
}

static void deferred_answer_may_be_streamed(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    uint8_t *bytes = pattern(1000000);
    for (int i = 0; i < 4; i++) {
        int64_t length = i % 2 ? 1000009 : -1;
        char piece[] = "part one ";
        client_request(c, "GET", "/", "");
        WAIT(h, parked.count == i + 1);
        struct ioh_req_id id = parked.ids[i];
        assert_int_equal(ioh_reply_start(h->server, id, 200, NULL, 0, length), 0);
        assert_int_equal(ioh_reply_data(h->server, id, piece, 9), 0);
        memset(piece, 'x', 9);
        assert_int_equal(ioh_reply_data(h->server, id, NULL, 0), 0);
        assert_true(client_find(c, "part one ") > 0); /* it does not wait for the end */
        assert_int_equal(ioh_reply_data(h->server, id, bytes, 1000000), 0);
        assert_int_equal(ioh_reply_end(h->server, id), 0);
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(c->body_len, 1000009);
        assert_true(is_pattern(c->body + 9, 1000000));
        assert_int_equal(c->chunked, length < 0);
        WAIT(h, h->completes == i + 1);
        assert_int_equal(h->last_bytes, 1000009);
    }
    client_close(c);
    host_end(h);
    free(bytes);
}

static void head_and_http_1_0_are_framed_as_always(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    client_request(c, "HEAD", "/", "");
    WAIT(h, parked.count == 1);
    reply_word(h, parked.ids[0], "not sent");
    assert_int_equal(client_read(c, true), 200);
    assert_field(c, "Content-Length", "8");
    client_send(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    WAIT(h, parked.count == 2);
    reply_word(h, parked.ids[1], "whole");
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "keep-alive");
    client_send(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    WAIT(h, parked.count == 3);
    assert_int_equal(ioh_reply_start(h->server, parked.ids[2], 200, NULL, 0, -1), 0);
    assert_int_equal(ioh_reply_data(h->server, parked.ids[2], "until the end", 13), 0);
    assert_int_equal(ioh_reply_end(h->server, parked.ids[2]), 0);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "until the end");
    assert_null(client_field(c, "Transfer-Encoding"));
    client_close(c);
    host_end(h);
}

static void close_is_still_obeyed(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "Connection: close\r\n");
    WAIT(h, parked.count == 1);
    reply_word(h, parked.ids[0], "last");
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "close");
    assert_body(c, "last");
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

/* ---- while the callback runs */

struct helper {
    struct host *host;
    struct ioh_req_id id;
};

static void *reply_for(void *arg)
{
    struct helper *helper = arg;
    CHECK(helper->host, ioh_reply(helper->host->server, helper->id, 200, NULL, 0, "quick", 5) == 0);
    return NULL;
}

static void defer_and_wait_for_the_reply(ioh_req *req, void *state)
{
    struct helper helper = {state, ioh_defer(req)};
    pthread_t thread;
    CHECK(helper.host, pthread_create(&thread, NULL, reply_for, &helper) == 0);
    pthread_join(thread, NULL);
    if (path_is(req, "/itself")) /* too late, and counted */
        CHECK(helper.host, ioh_reply(helper.host->server, helper.id, 404, NULL, 0, "no", 2) == 0);
}

static void reply_may_come_before_the_callback_has_returned(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = defer_and_wait_for_the_reply;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(client_get(c, i % 4 ? "/" : "/itself"), 200);
        assert_body(c, "quick");
    }
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->completes, 20);
    assert_int_equal(host_stats(h).late_answers, 5);
    host_end(h);
}

static void defer_and_answer(ioh_req *req, void *state)
{
    struct host *h = state;
    park(req, state);
    CHECK(h, ioh_respond(req, 200, NULL, 0, "here", 4) == 0);
}

static void who_deferred_may_change_their_mind(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = defer_and_answer;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_body(c, "here");
    assert_int_equal(ioh_reply(h->server, parked.ids[0], 500, NULL, 0, "there", 5), 0);
    WAIT(h, host_stats(h).late_answers == 1);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_end(h);
}

/* ---- bodies */

static void park_at_the_end(ioh_req *req, void *state)
{
    park(req, state);
}

static void in_whichever_callback_it_is_called(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = answer_nothing;
    h->on.on_body = drop_body;
    h->on.on_request_end = park_at_the_end;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 3; i++) {
        client_request(c, "POST", "/", "Content-Length: 6\r\n");
        client_send(c, "abcdef");
        WAIT(h, parked.count == i + 1);
        reply_word(h, parked.ids[i], "got it");
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "got it");
    }
    client_close(c);
    host_end(h);
}

static void the_body_of_a_deferred_request_still_comes(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = host_new(state);
    h->data = &parked;
    h->on.on_request = park;
    h->on.on_body = drop_body;
    h->on.on_request_end = answer_nothing; /* no 500: the answer comes later */
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "POST", "/", "Content-Length: 6\r\n");
    WAIT(h, parked.count == 1);
    client_send(c, "abc");
    WAIT(h, h->bodies == 1);
    client_send(c, "def");
    WAIT(h, h->request_ends == 1);
    reply_word(h, parked.ids[0], "read it");
    assert_int_equal(client_answer(c), 200);
    client_request(c, "POST", "/", "Content-Length: 6\r\n");
    WAIT(h, parked.count == 2);
    client_send(c, "abc");
    WAIT(h, h->bodies >= 3);
    reply_word(h, parked.ids[1], "enough"); /* before the body is whole: the rest is dropped */
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "enough");
    client_send(c, "def");
    WAIT(h, h->completes == 2);
    assert_int_equal(h->request_ends, 1);
    client_request(c, "POST", "/", "Content-Length: 0\r\n");
    WAIT(h, parked.count == 3);
    reply_word(h, parked.ids[2], "on");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

/* ---- many */

enum { CONNS = 24, REPLIERS = 4 };

struct replier {
    struct host *host;
    int first;
    pthread_t thread;
};

static void *reply_to_every_fourth(void *arg)
{
    struct replier *r = arg;
    struct parked *p = r->host->data;
    for (int i = CONNS - 1 - r->first; i >= 0; i -= REPLIERS) {
        char text[40];
        int n = snprintf(text, sizeof text, "%llu", (unsigned long long)p->ids[i].conn);
        CHECK(r->host, ioh_reply(r->host->server, p->ids[i], 200, NULL, 0, text, (size_t)n) == 0);
    }
    return NULL;
}

/* Each gets its own answer, whichever thread gives it and in whatever order. */
static void several_on_several_connections_are_answered_by_several_threads(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c[CONNS];
    struct replier repliers[REPLIERS];
    char want[40];
    for (int i = 0; i < CONNS; i++) {
        c[i] = client_open(h);
        client_request(c[i], "GET", "/", "");
        WAIT(h, parked.count == i + 1);
    }
    for (int i = 0; i < REPLIERS; i++) {
        repliers[i] = (struct replier){.host = h, .first = i};
        assert_int_equal(
            pthread_create(&repliers[i].thread, NULL, reply_to_every_fourth, &repliers[i]), 0);
    }
    for (int i = 0; i < REPLIERS; i++)
        pthread_join(repliers[i].thread, NULL);
    for (int i = 0; i < CONNS; i++) {
        assert_int_equal(client_answer(c[i]), 200);
        snprintf(want, sizeof want, "%llu", (unsigned long long)parked.ids[i].conn);
        assert_body(c[i], want);
    }
    client_close_all();
    WAIT(h, h->closes == CONNS);
    assert_int_equal(host_stats(h).late_answers, 0);
    host_end(h);
}

static void pipelined_requests_wait_for_the_deferred_one(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h), *other = client_open(h);
    client_send(c, "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n"
                   "GET /3 HTTP/1.1\r\nHost: t\r\n\r\n");
    WAIT(h, parked.count == 1);
    for (int i = 0; i < 3; i++) { /* meanwhile others come and go */
        client_request(other, "GET", "/", "");
        WAIT(h, parked.count == 2 * i + 2);
        reply_word(h, parked.ids[2 * i + 1], "other");
        assert_int_equal(client_answer(other), 200);
        assert_true(client_is_quiet(c));
        reply_word(h, parked.ids[2 * i], i == 0 ? "first" : i == 1 ? "second" : "third");
        assert_int_equal(client_answer(c), 200);
        assert_body(c, i == 0 ? "first" : i == 1 ? "second" : "third");
        if (i < 2)
            WAIT(h, parked.count == 2 * i + 3);
    }
    client_close_all();
    host_end(h);
}

/* ---- too late, twice, wrong */

static void second_answer_is_dropped_and_counted(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    client_send(c, "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n");
    WAIT(h, parked.count == 1);
    struct ioh_req_id first = parked.ids[0];
    reply_word(h, first, "first");
    reply_word(h, first, "again");
    assert_int_equal(ioh_reply_start(h->server, first, 200, NULL, 0, -1), 0);
    assert_int_equal(ioh_reply_data(h->server, first, "more", 4), 0);
    assert_int_equal(ioh_reply_end(h->server, first), 0);
    WAIT(h, host_stats(h).late_answers == 4);
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "first");
    WAIT(h, parked.count == 2);
    assert_true(
        client_is_quiet(c)); /* the second request is not answered by the first one's name */
    reply_word(h, first, "still the first");
    WAIT(h, host_stats(h).late_answers == 5);
    reply_word(h, parked.ids[1], "second");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "second");
    client_close(c);
    host_end(h);
}

static void answer_for_a_client_that_has_left_is_dropped_and_counted(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    for (int i = 0; i < 4; i++) {
        struct client *c = client_open(h);
        client_request(c, "GET", "/", "");
        WAIT(h, parked.count == i + 1);
        if (h->config->unix_socket)
            client_close(c); /* there is no reset, but nothing can be written either */
        else
            client_abort(c);
        WAIT(h, h->closes == i + 1 && host_stats(h).connections == 0);
        assert_int_equal(h->last_status, 0);
        int rc = ioh_reply(h->server, parked.ids[i], 200, NULL, 0, "late", 4);
        assert_int_equal(rc, gone_answer(h));
        if (rc == 0)
            WAIT(h, host_stats(h).late_answers == (uint64_t)i + 1);
    }
    assert_int_equal(h->completes, 4);
    host_end(h);
}

static void bad_answers_are_refused_and_a_good_one_may_follow(void **state)
{
    static const struct ioh_header bad = {"a b", "v"}, own = {"Content-Length", "3"};
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, parked.count == 1);
    struct ioh_req_id id = parked.ids[0], never = {.conn = 0, .number = 1};
    assert_int_equal(ioh_reply(h->server, id, 199, NULL, 0, "x", 1), IOH_EINVAL);
    assert_int_equal(ioh_reply(h->server, id, 600, NULL, 0, "x", 1), IOH_EINVAL);
    assert_int_equal(ioh_reply(h->server, id, 200, NULL, 0, NULL, 1), IOH_EINVAL);
    assert_int_equal(ioh_reply(h->server, id, 200, NULL, 1, "x", 1), IOH_EINVAL);
    assert_int_equal(ioh_reply(h->server, id, 200, &bad, 1, "x", 1), IOH_EHEADER);
    assert_int_equal(ioh_reply(h->server, id, 200, &own, 1, "x", 1), IOH_EHEADER);
    assert_int_equal(ioh_reply_start(h->server, id, 200, &own, 1, 1), IOH_EHEADER);
    assert_int_equal(ioh_reply_start(h->server, id, 200, NULL, 0, -2), IOH_EINVAL);
    assert_int_equal(ioh_reply_data(h->server, id, NULL, 1), IOH_EINVAL);
    assert_int_equal(ioh_reply(h->server, never, 200, NULL, 0, "x", 1), IOH_EGONE);
    assert_true(client_is_quiet(c));
    reply_word(h, id, "good");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "good");
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(host_stats(h).late_answers, 0);
    host_end(h);
}

/* Data or an end without a start answer nothing; the request waits on. */
static void parts_without_a_start_are_dropped_and_counted(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, parked.count == 1);
    assert_int_equal(ioh_reply_data(h->server, parked.ids[0], "x", 1), 0);
    assert_int_equal(ioh_reply_end(h->server, parked.ids[0]), 0);
    WAIT(h, host_stats(h).late_answers == 2);
    reply_word(h, parked.ids[0], "good");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

/* ---- stopping */

static void stop_waits_for_parked_requests(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = client_open(h);
        client_request(c[i], "GET", "/", "");
        WAIT(h, parked.count == i + 1);
    }
    host_begin_stop(h, LONG_DRAIN_MS);
    /* Who comes now is refused: then they all know. */
    int refused = 0;
    for (uint64_t until = host_now_ms() + PATIENCE_MS; !refused && host_now_ms() < until;) {
        int fd = client_socket(h->address);
        refused = fd < 0;
        if (fd >= 0)
            close(fd);
    }
    assert_true(refused);
    for (int i = 0; i < 3; i++) {
        reply_word(h, parked.ids[i], "in time");
        assert_int_equal(client_answer(c[i]), 200);
        assert_body(c[i], "in time");
        client_expect_end(c[i]);
        client_close(c[i]);
    }
    assert_int_equal(host_end_stop(h), 0);
    host_end(h);
}

static void stop_without_drain_ends_parked_requests_unanswered(void **state)
{
    struct parked parked;
    struct host *h = parking_host(state, &parked);
    struct client *c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = client_open(h);
        client_request(c[i], "GET", "/", "");
        WAIT(h, parked.count == i + 1);
    }
    assert_int_equal(host_stop(h, 0), IOH_ETIMEOUT);
    assert_int_equal(h->completes, 3);
    assert_int_equal(h->last_status, 0);
    for (int i = 0; i < 3; i++) {
        client_expect_end(c[i]);
        assert_int_equal(ioh_reply(h->server, parked.ids[i], 200, NULL, 0, "x", 1), IOH_EGONE);
    }
    client_close_all();
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(deferred_request_is_answered_from_a_foreign_thread_and_the_connection_goes_on),
    HOST_TEST(deferred_answer_may_be_streamed),
    HOST_TEST(head_and_http_1_0_are_framed_as_always),
    HOST_TEST(close_is_still_obeyed),
    HOST_TEST(reply_may_come_before_the_callback_has_returned),
    HOST_TEST(who_deferred_may_change_their_mind),
    HOST_TEST(in_whichever_callback_it_is_called),
    HOST_TEST(the_body_of_a_deferred_request_still_comes),
    HOST_TEST(several_on_several_connections_are_answered_by_several_threads),
    HOST_TEST(pipelined_requests_wait_for_the_deferred_one),
    HOST_TEST(second_answer_is_dropped_and_counted),
    HOST_TEST(answer_for_a_client_that_has_left_is_dropped_and_counted),
    HOST_TEST(bad_answers_are_refused_and_a_good_one_may_follow),
    HOST_TEST(parts_without_a_start_are_dropped_and_counted),
    HOST_TEST(stop_waits_for_parked_requests),
    HOST_TEST(stop_without_drain_ends_parked_requests_unanswered),
};

HOST_MAIN(tests)

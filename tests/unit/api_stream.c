/* Streamed answers and the send queue: chunks, lengths, IOH_QUEUED and on_drain, slow readers. */
#include "support/common.h"

/* ---- what arrives */

static char wrapped[] = "wrap ";

static void stream(ioh_req *req, void *state)
{
    struct host *h = state;
    atomic_int *released = h->data;
    int64_t length = path_is(req, "/known") ? 15 : -1;
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, length) == 0);
    CHECK(h, ioh_respond_data(req, "one ", 4) == 0);
    CHECK(h, ioh_respond_data(req, "", 0) == 0); /* must not end the body */
    CHECK(h, ioh_respond_data(req, NULL, 0) == 0);
    CHECK(h, ioh_respond_data_buf(req, counted_buf(wrapped, 0, released)) == 0);
    CHECK(h, ioh_respond_data_buf(req, counted_buf(wrapped, 5, released)) == 0);
    CHECK(h, ioh_respond_data(req, "two", 3) == 0);
    CHECK(h, ioh_respond_data_buf(req, ioh_buf_copy(" \r\n", 3)) == 0);
    CHECK(h, ioh_respond_end(req) == 0);
}

static void streamed_answer_is_chunked_or_has_its_length(void **state)
{
    struct host *h = host_new(state);
    atomic_int released = 0;
    h->data = &released;
    h->on.on_request = stream;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_get(c, "/known"), 200);
        assert_body(c, "one wrap two \r\n");
        assert_false(c->chunked);
        assert_field(c, "Content-Length", "15");
        assert_int_equal(client_get(c, "/unknown"), 200);
        assert_body(c, "one wrap two \r\n");
        assert_int_equal(c->chunks, 4);
        assert_null(client_field(c, "Content-Length"));
        WAIT(h, h->completes == 2 * i + 2);
        assert_int_equal(h->last_bytes, 15);
    }
    client_request(c, "HEAD", "/unknown", "");
    assert_int_equal(client_read(c, true), 200);
    assert_int_equal(client_get(c, "/known"), 200);
    client_close(c);
    WAIT(h, released == 2 * 6);
    host_end(h);
}

static void http_1_0_stream_has_no_chunks_and_ends_with_the_connection(void **state)
{
    struct host *h = host_new(state);
    atomic_int released = 0;
    h->data = &released;
    h->on.on_request = stream;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET /known HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_field(c, "Connection", "keep-alive");
    client_send(c, "GET /unknown HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "one wrap two \r\n");
    assert_false(c->chunked);
    assert_null(client_field(c, "Transfer-Encoding"));
    assert_null(client_field(c, "Content-Length"));
    assert_field(c, "Connection", "close");
    client_close(c);
    host_end(h);
}

/* ---- lengths */

static void too_much(ioh_req *req, void *state)
{
    struct host *h = state;
    atomic_int *released = h->data;
    char word[4] = "word";
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, 5) == 0);
    CHECK(h, ioh_respond_data(req, "toolong", 7) == IOH_ELENGTH);
    CHECK(h, ioh_respond_data(req, "he", 2) == 0);
    CHECK(h, ioh_respond_data_buf(req, counted_buf(word, 4, released)) == IOH_ELENGTH);
    CHECK(h, *released == 1);
    CHECK(h, ioh_respond_data(req, "llo", 3) == 0);
    CHECK(h, ioh_respond_data(req, "!", 1) == IOH_ELENGTH);
    CHECK(h, ioh_respond_end(req) == 0);
}

static void more_than_the_announced_length_is_refused_and_not_sent(void **state)
{
    struct host *h = host_new(state);
    atomic_int released = 0;
    h->data = &released;
    h->on.on_request = too_much;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_body(c, "hello");
    released = 0;
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_end(h);
}

static void too_little(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, 5) == 0);
    CHECK(h, ioh_respond_data(req, "hell", 4) == 0);
    CHECK(h, ioh_respond_end(req) == IOH_ELENGTH);
    int again = ioh_respond_end(req), more = ioh_respond_data(req, "o", 1);
    CHECK(h, again == IOH_EGONE || (!host_is_direct(h) && again == IOH_EDONE));
    CHECK(h, more == IOH_EGONE || (!host_is_direct(h) && more == IOH_EDONE));
}

static void less_than_the_announced_length_aborts_so_that_nobody_takes_it_for_whole(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = too_little;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    client_read(c, false);
    assert_false(c->whole);
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_status, 200);
    host_end(h);
}

/* ---- the queue */

static uint8_t *bytes;

static void answer_much(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
    CHECK(h, ioh_respond_data(req, bytes, 1000) == 0);
    CHECK(h, ioh_respond_data(req, bytes + 1000, 999000) == IOH_QUEUED);
    if (host_is_direct(h))
        CHECK(h, ioh_conn_queued(conn) > 999000);
    int rc = ioh_respond_end(req);
    CHECK(h, rc == IOH_QUEUED || (!host_is_direct(h) && rc == 0));
}

static void queued_is_followed_by_one_drain(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(1000000);
    h->options.send_high = 100000;
    h->on.on_request = answer_much;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        assert_int_equal(c->body_len, 1000000);
        assert_true(is_pattern(c->body, c->body_len));
        WAIT(h, h->drains == i);
    }
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->drains, 3);
    host_end(h);
    free(bytes);
}

static void answer_eight_times(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
    for (int i = 0; i < 8; i++) {
        int rc = ioh_respond_data(req, bytes, 1000000);
        CHECK(h, rc == (i < 4 ? 0 : IOH_QUEUED) || (!host_is_direct(h) && rc == 0));
        host_seen(ioh_req_conn(req))->number += rc == IOH_QUEUED;
    }
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void count_queued(ioh_conn *conn, void *state)
{
    struct host *h = state;
    atomic_fetch_add((atomic_int *)h->data, host_seen(conn)->number);
}

/* It comes when megabytes are still queued; what drains from then on is not told again. Where the queue
 * falls while the callback runs, it may come before every send that answered IOH_QUEUED, or not at all. */
static void drain_comes_once_although_the_queue_goes_on_falling(void **state)
{
    struct host *h = host_new(state);
    atomic_int queued = 0;
    bytes = pattern(1000000);
    h->options.send_high = 4500000;
    h->options.send_low = 4000000;
    h->data = &queued;
    h->on.on_request = answer_eight_times;
    h->on.on_close = count_queued;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_int_equal(c->body_len, 8000000);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_in_range(h->drains, queued > 0, host_is_direct(h) ? 2 : queued);
    host_end(h);
    free(bytes);
}

/* A stream that goes on in on_drain, until s->number bytes have been sent. */
#define LONG_BODY 6000000
#define PIECE 10000

static void pour(struct host *h, ioh_req *req)
{
    struct seen *s = host_seen(ioh_req_conn(req));
    /* On its way to the loop a piece is counted twice for a moment. */
    size_t most = h->options.send_high + (host_is_direct(h) ? 2u : 3u) * PIECE;
    int rc = 0;
    while (rc == 0 && s->number < LONG_BODY) {
        rc = ioh_respond_data(req, bytes + s->number, PIECE);
        CHECK(h, rc >= 0 || (rc == IOH_EGONE && h->config->exec != IOH_EXEC_INLINE));
        if (rc < 0)
            return;
        s->number += PIECE;
        CHECK(h, ioh_conn_queued(ioh_req_conn(req)) < most);
    }
    if (rc == 0)
        CHECK(h, ioh_respond_end(req) >= 0);
}

static void begin_to_pour(ioh_req *req, void *state)
{
    struct host *h = state;
    int64_t length = path_is(req, "/known") ? LONG_BODY : -1;
    host_seen(ioh_req_conn(req))->number = 0;
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, length) == 0);
    pour(h, req);
}

static void pour_on(ioh_conn *conn, void *state)
{
    struct seen *s = host_seen(conn);
    if (s->req && !host_answered(s->req))
        pour(state, s->req);
}

static void stream_of_any_length_to_slow_readers_keeps_a_short_queue(void **state)
{
    struct host *h = host_new(state);
    struct client *c[3];
    bytes = pattern(LONG_BODY);
    h->options.send_high = 60000;
    h->options.send_low = 20000;
    h->on.on_request = begin_to_pour;
    h->on.on_drain = pour_on;
    host_start(h);
    for (int i = 0; i < 3; i++)
        c[i] = client_open(h);
    client_request(c[0], "GET", "/known", "");
    client_request(c[1], "GET", "/chunked", "");
    client_send(c[2], "GET /until-close HTTP/1.0\r\n\r\n");
    WAIT(h, h->requests == 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_answer(c[i]), 200);
        assert_int_equal(c[i]->body_len, LONG_BODY);
        assert_true(is_pattern(c[i]->body, LONG_BODY));
    }
    assert_true(h->drains > 3);
    client_request(c[0], "GET", "/chunked", ""); /* and the connection goes on */
    assert_int_equal(client_answer(c[0]), 200);
    assert_int_equal(c[0]->body_len, LONG_BODY);
    client_close_all();
    host_end(h);
    free(bytes);
}

static void reader_that_leaves_ends_the_stream(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(LONG_BODY);
    h->options.send_high = 60000;
    h->on.on_request = begin_to_pour;
    h->on.on_drain = pour_on;
    host_start(h);
    for (int i = 1; i <= 4; i++) {
        struct client *c = client_open(h);
        client_request(c, "GET", i % 2 ? "/known" : "/chunked", "");
        assert_true(client_fill(c));
        if (i <= 2)
            client_close(c);
        else
            client_abort(c);
        WAIT(h, h->closes == i);
        assert_int_equal(h->last_status, 200);
        assert_true(h->last_bytes < LONG_BODY);
    }
    host_end(h);
    free(bytes);
}

/* A stream that others go on with: nothing is in the queue, so no on_drain comes. */
static void begin_only(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
}

static void send_word(ioh_conn *conn, void *user)
{
    struct host *h = user;
    CHECK(h, ioh_respond_data(host_seen(conn)->req, "word ", 5) == 0);
}

static void send_end(ioh_conn *conn, void *user)
{
    struct host *h = user;
    CHECK(h, ioh_respond_end(host_seen(conn)->req) == 0);
}

static void stream_goes_on_from_another_thread(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = begin_only;
    host_start(h);
    struct client *c = client_open(h);
    for (int round = 1; round <= 2; round++) {
        client_request(c, "GET", "/", "");
        WAIT(h, h->requests == round);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(host_run_on(h, h->last_id, send_word, h, NULL), 0);
            assert_true(client_find(c, "word ") > 0);
        }
        assert_int_equal(host_run_on(h, h->last_id, send_end, h, NULL), 0);
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "word word word ");
        assert_int_equal(c->chunks, 3);
    }
    client_close(c);
    host_end(h);
}

/* Answers in the rhythm of the request: both bodies are under way at once. */
static void begin_mirror(ioh_req *req, void *state)
{
    begin_only(req, state);
}

static void mirror(ioh_req *req, const void *data, size_t len, void *state)
{
    CHECK((struct host *)state, ioh_respond_data(req, data, len) == 0);
}

static void end_mirror(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond_end(req) == 0);
}

static void answer_may_stream_while_the_body_still_comes(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = begin_mirror;
    h->on.on_body = mirror;
    h->on.on_request_end = end_mirror;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "POST", "/", "Content-Length: 15\r\n");
    client_send(c, "alpha");
    assert_true(client_find(c, "alpha") > 0);
    client_send(c, "gamma");
    assert_true(client_find(c, "gamma") > 0);
    client_send(c, "omega");
    assert_int_equal(client_answer(c), 200);
    assert_body(c, "alphagammaomega");
    assert_int_equal(h->bodies, 3);
    client_close(c);
    host_end(h);
}

/* ---- send_max */

static void overfill(ioh_req *req, void *state)
{
    struct host *h = state;
    int rc = 0;
    uint8_t *piece = calloc(1, PIECE);
    if (path_is(req, "/whole")) {
        uint8_t *all = calloc(1, 600000);
        CHECK(h, ioh_respond(req, 200, NULL, 0, all, 600000) == IOH_EFULL);
        free(all);
    } else {
        /* The kernel may take some before it is full. */
        int most = host_is_direct(h) ? 60 : 6000;
        CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
        for (int i = 0; i < most && rc >= 0; i++)
            rc = ioh_respond_data(req, piece, PIECE);
        CHECK(h, rc == IOH_EFULL);
        rc = ioh_respond_data(req, piece, 1);
        CHECK(h, rc == IOH_EGONE || (rc == IOH_EFULL && !host_is_direct(h)));
        rc = ioh_respond_end(req);
        CHECK(h, rc == IOH_EGONE || (rc >= 0 && !host_is_direct(h)));
    }
    free(piece);
}

static void queue_above_send_max_aborts_the_connection(void **state)
{
    struct host *h = host_new(state);
    h->options.send_high = 100000;
    h->options.send_max = 500000;
    h->on.on_request = overfill;
    host_start(h);
    for (int i = 1; i <= 2; i++) {
        struct client *c = client_open(h);
        client_request(c, "GET", i == 1 ? "/stream" : "/whole", "");
        WAIT(h, h->closes == i);
        client_wait_end(c);
        client_close(c);
        assert_int_equal(host_stats(h).send_full, i);
    }
    assert_true(h->logs > 0);
    host_end(h);
}

static void pause_then_read_much(ioh_req *req, void *state)
{
    struct host *h = state;
    int rc = ioh_respond(req, 200, NULL, 0, bytes, 200000);
    CHECK(h, rc >= 0);
    CHECK(h, ioh_conn_queued(ioh_req_conn(req)) <= 2 * 200000 + 1000);
}

/* 40 answers of 200,000 bytes are due, but never more than what is above send_high by one answer. */
static void pipelining_client_that_reads_nothing_is_not_read_from(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(200000);
    h->options.send_high = 150000;
    h->on.on_request = pause_then_read_much;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 40; i++)
        client_request(c, "GET", "/", "");
    WAIT(h, h->requests > 0);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(client_answer(c), 200);
        assert_int_equal(c->body_len, 200000);
    }
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->completes, 40);
    host_end(h);
    free(bytes);
}

/* on_complete: "the answer is whole in the send queue"; it does not wait for the peer to read. */
static void note_queue(ioh_req *req, int status, uint64_t sent, void *state)
{
    struct host *h = state;
    CHECK(h, status == 200 && sent == LONG_BODY);
    /* Elsewhere the kernel may have taken some of it already. */
    CHECK(h, ioh_conn_queued(ioh_req_conn(req)) >= (host_is_direct(h) ? LONG_BODY : 1));
}

static void long_whole_answer(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, bytes, LONG_BODY) == IOH_QUEUED);
}

static void on_complete_comes_when_the_answer_is_whole_in_the_queue(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(LONG_BODY);
    h->on.on_request = long_whole_answer;
    h->on.on_complete = note_queue;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    WAIT(h, h->completes == 1); /* before anything has been read */
    assert_int_equal(client_answer(c), 200);
    assert_int_equal(c->body_len, LONG_BODY);
    client_close(c);
    host_end(h);
    free(bytes);
}

static const struct host_test tests[] = {
    HOST_TEST(streamed_answer_is_chunked_or_has_its_length),
    HOST_TEST(http_1_0_stream_has_no_chunks_and_ends_with_the_connection),
    HOST_TEST(more_than_the_announced_length_is_refused_and_not_sent),
    HOST_TEST(less_than_the_announced_length_aborts_so_that_nobody_takes_it_for_whole),
    HOST_TEST(queued_is_followed_by_one_drain),
    HOST_TEST(drain_comes_once_although_the_queue_goes_on_falling),
    HOST_TEST(stream_of_any_length_to_slow_readers_keeps_a_short_queue),
    HOST_TEST(reader_that_leaves_ends_the_stream),
    HOST_TEST(stream_goes_on_from_another_thread),
    HOST_TEST(answer_may_stream_while_the_body_still_comes),
    HOST_TEST(queue_above_send_max_aborts_the_connection),
    HOST_TEST(pipelining_client_that_reads_nothing_is_not_read_from),
    HOST_TEST(on_complete_comes_when_the_answer_is_whole_in_the_queue),
};

HOST_MAIN(tests)

/* What a request took (ioh_req_timing), and how many a connection may make (options.max_requests). */
#include "support/common.h"

#include <iohandler/error.h>

#define NAP_US 30000u

struct noted {
    struct ioh_timing timing;
    int rc;
};

static void nap(void)
{
    poll(NULL, 0, NAP_US / 1000);
}

static void take_a_while(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_timing t = IOH_TIMING_INIT;
    CHECK(h, ioh_req_timing(req, &t) == IOH_ESTATE); /* not yet */
    if (path_is(req, "/quick")) {
        answer_ok(req, state);
        return;
    }
    nap();
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) >= 0);
    nap();
    CHECK(h, ioh_respond_data(req, "ok", 2) >= 0);
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void note_timing(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct noted *n = ((struct host *)state)->data;
    (void)status;
    (void)bytes;
    n->timing = (struct ioh_timing)IOH_TIMING_INIT;
    n->rc = ioh_req_timing(req, &n->timing);
    struct ioh_timing none = {.size = sizeof none.size};
    CHECK((struct host *)state, n->rc || ioh_req_timing(req, &none) == IOH_EVERSION);
}

static struct host *timed_host(void **state, struct noted *n, uint32_t timings)
{
    struct host *h = host_new(state);
    memset(n, 0, sizeof *n);
    h->data = n;
    h->options.timings = timings;
    h->on.on_request = take_a_while;
    h->on.on_complete = note_timing;
    host_start(h);
    return h;
}

static void what_a_request_took_is_told_at_its_end(void **state)
{
    struct noted n;
    struct host *h = timed_host(state, &n, 1);
    struct client *c = client_open(h);
    for (int i = 0; i < 4; i++) {
        uint64_t before = host_now_ms();
        assert_int_equal(client_get(c, i % 2 ? "/slow" : "/quick"), 200);
        WAIT(h, h->completes == i + 1);
        uint64_t took_us = (host_now_ms() - before + 1) * 1000u;
        const struct ioh_timing *t = &n.timing;
        assert_int_equal(n.rc, 0);
        assert_true(t->begin_ns / 1000000u >= before);
        assert_true(t->queued_us <= took_us && t->handler_us <= took_us);
        assert_true(t->last_byte_us <= took_us && t->first_byte_us <= t->last_byte_us);
        assert_true(t->first_byte_us >= t->queued_us);
        if (i % 2) {
            assert_true(t->handler_us >= 2 * NAP_US - 2000u);
            assert_true(t->first_byte_us >= NAP_US - 1000u);
            if (host_is_direct(h)) /* elsewhere the loop may hear of both ends at once */
                assert_true(t->last_byte_us - t->first_byte_us >= NAP_US - 1000u);
        } else {
            assert_int_equal(t->first_byte_us, t->last_byte_us);
        }
    }
    client_close(c);
    host_end(h);
}

/* Pieces of a head count from the first on. */
static void slow_head_counts_as_queued(void **state)
{
    struct noted n;
    struct host *h = timed_host(state, &n, 1);
    struct client *c = client_open(h);
    client_send(c, "GET /quick HTTP/1.1\r\n");
    nap();
    nap();
    client_send(c, "Host: a\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    WAIT(h, h->completes == 1);
    assert_true(n.timing.queued_us >= NAP_US); /* to a tick or two */
    client_close(c);
    host_end(h);
}

static void nothing_is_told_when_nobody_asked(void **state)
{
    struct noted n;
    struct host *h = timed_host(state, &n, 0);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/quick"), 200);
    WAIT(h, h->completes == 1);
    assert_int_equal(n.rc, IOH_ESTATE);
    client_close(c);
    host_end(h);
}

static void request_that_is_cut_off_has_no_last_byte(void **state)
{
    struct noted n;
    struct host *h = timed_host(state, &n, 1);
    struct client *c = client_open(h);
    client_send(c, "POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    client_abort(c);
    WAIT(h, h->completes == 1);
    assert_int_equal(n.rc, 0);
    client_close_all();
    host_end(h);
}

/* ---- requests of a connection */

static void the_last_request_of_a_connection_closes_it(void **state)
{
    struct host *h = host_new(state);
    h->options.max_requests = 3;
    h->on.on_request = answer_ok;
    host_start(h);
    for (int i = 0; i < 3; i++) {
        struct client *c = client_open(h);
        if (i == 2) /* pipelined: what is behind the last is not answered */
            for (int n = 0; n < 5; n++)
                client_request(c, "GET", "/", "");
        for (int n = 1; n <= 3; n++) {
            if (i < 2)
                client_request(c, "GET", "/", "");
            assert_int_equal(client_answer(c), 200);
            assert_int_equal(client_field(c, "Connection") != NULL, n == 3);
        }
        assert_field(c, "Connection", "close");
        client_wait_end(c);
        client_close(c);
    }
    assert_int_equal(h->requests, 9);
    assert_int_equal(host_stats(h).hit_max_requests, 3);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(what_a_request_took_is_told_at_its_end),
    HOST_TEST_IN(slow_head_counts_as_queued, IN_TCP),
    HOST_TEST_IN(nothing_is_told_when_nobody_asked, IN_TCP),
    HOST_TEST_IN(request_that_is_cut_off_has_no_last_byte, IN_TCP),
    HOST_TEST(the_last_request_of_a_connection_closes_it),
};

HOST_MAIN(tests)

/* Gathered bodies, trailers, pulled answers and event streams while memory runs out: each request for memory of the
 * server's threads fails once. Whoever is hit is cut; nothing leaks, callbacks keep their order, others are served.
 */
#include "support/common.h"

/* ---- memory that fails when told */

static _Atomic long memory_left = -1; /* so many requests before one fails; < 0: all work */
static _Atomic long failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool no_memory(void)
{
    if (!host_of_thread || memory_left < 0)
        return false;
    bool now = memory_left-- == 0;
    failed += now;
    return now;
}

void *__wrap_malloc(size_t size)
{
    return no_memory() ? NULL : __real_malloc(size);
}

/* That of the harness, in on_open, must not fail. */
void *__wrap_calloc(size_t count, size_t size)
{
    return size != sizeof(struct seen) && no_memory() ? NULL : __real_calloc(count, size);
}

/* ---- the host: what fails fails */

static void give_more(ioh_req *req, size_t room, void *user)
{
    struct host *h = user;
    struct seen *s = host_enter_req(h, req);
    uint8_t piece[3000];
    memset(piece, 'x', sizeof piece);
    if (++s->number < 20)
        ioh_respond_data(req, piece, room < sizeof piece ? room : sizeof piece);
    else
        ioh_respond_end(req);
    host_leave(h, s, &h->runs);
}

static void begin(ioh_req *req, void *state)
{
    static const struct ioh_header hint = {"Link", "</>"};
    ioh_respond_informational(req, 103, &hint, 1);
    if (path_is(req, "/events")) {
        if (ioh_sse_start(req, NULL) != 0)
            return;
        ioh_sse_send(req, ioh_sse_event("a", "1", "two\nlines", 9));
        ioh_respond_end(req);
    } else if (path_is(req, "/pull")) {
        host_seen(ioh_req_conn(req))->number = 0;
        if (ioh_respond_start(req, 200, NULL, 0, -1) == 0)
            ioh_respond_pull(req, give_more, state);
    } else {
        CHECK((struct host *)state, ioh_req_gather(req, 100000) == 0);
    }
}

static void end(ioh_req *req, void *state)
{
    static const struct ioh_header sum = {"X-Sum", "1"};
    struct ioh_str body = ioh_req_body(req), name, value;
    (void)state;
    if (ioh_req_trailer_at(req, 0, &name, &value) == 0 && name.len != 5)
        return;
    if (!body.ptr || ioh_respond_start(req, 200, NULL, 0, -1) != 0)
        return;
    ioh_respond_data(req, body.ptr, body.len);
    ioh_respond_end_trailers(req, &sum, 1);
}

/* Everything may be asked for on the way out, too. */
static void look_again(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct ioh_str name, value;
    (void)status;
    (void)bytes;
    (void)state;
    ioh_req_path(req);
    ioh_req_header(req, "Host");
    ioh_req_header_at(req, 0, &name, &value);
    ioh_req_body(req);
    ioh_req_trailer(req, "X-Sum");
}

/* ---- the clients */

/* Says it and takes what comes until the answer is whole or the connection has ended. */
static void try_request(const struct host *h, const char *text, size_t cut)
{
    struct client *c = client_open(h);
    size_t len = strlen(text);
    bool ok = true;
    for (size_t at = 0; ok && at < len; at += cut) {
        ok = client_try_write(c, text + at, cut < len - at ? cut : len - at);
        if (at + cut < len)
            poll(NULL, 0, 1);
    }
    while (ok && client_read(c, false) < 200 && c->whole)
        ;
    client_close(c);
}

static void try_everything(const struct host *h)
{
    static char chunked[40000];
    int len = sprintf(chunked, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 30; i++)
        len += sprintf(chunked + len, "400\r\n%01024d\r\n", i);
    sprintf(chunked + len, "0\r\nX-Sum: 1\r\nX-Two: 2\r\n\r\n");
    try_request(h, chunked, 9000);
    try_request(h, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 60);
    try_request(h, "GET /pull HTTP/1.1\r\nHost: a\r\n\r\n", 60);
    try_request(h, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n", 60);
}

static void each_request_for_memory_may_fail(void **state)
{
    bool all_worked = false;
    for (long n = 0; !all_worked; n++) {
        struct host *h = host_new(state);
        assert_true(n < 1000);
        h->on.on_request = begin;
        h->on.on_request_end = end;
        h->on.on_complete = look_again;
        host_start(h);
        failed = 0;
        memory_left = n;
        try_everything(h);
        memory_left = -1;
        all_worked = failed == 0;
        WAIT(h, h->completes == h->requests);
        struct client *c = client_open(h);
        client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_int_equal(client_answer(c), 103);
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "hello");
        client_close(c);
        host_end(h);
    }
}

static const struct host_test tests[] = {
    HOST_TEST_IN(each_request_for_memory_may_fail, IN_ONE_LOOP | IN_POOL | IN_THREADS),
};

HOST_MAIN(tests)

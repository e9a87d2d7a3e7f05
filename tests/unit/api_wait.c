/* Callbacks that wait until their peer has read: ioh_wait_sent() and ioh_ws_send_wait(). */
#include "support/common.h"

#define MUCH 12000000 /* more than kernels keep for one connection */

static uint8_t *bytes;
static atomic_int step; /* how far a callback has come */
static atomic_int answer;

/* ---- time-out and success */

static void wait_twice(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)data;
    (void)len;
    CHECK(h, ioh_wait_sent(conn, 0) == 0); /* nothing is queued */
    CHECK(h, ioh_ws_send(conn, op, bytes, MUCH) == IOH_QUEUED);
    uint64_t begin = host_now_ms();
    CHECK(h, ioh_wait_sent(conn, 0) == IOH_ETIMEOUT);
    CHECK(h, ioh_wait_sent(conn, 100) == IOH_ETIMEOUT);
    CHECK(h, host_now_ms() - begin >= 100);
    step = 1; /* now the client reads */
    CHECK(h, ioh_wait_sent(conn, PATIENCE_MS) == 0);
    CHECK(h, ioh_conn_queued(conn) <= 65536); /* send_low */
    CHECK(h, ioh_wait_sent(conn, 0) == 0);
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "end", 3) >= 0);
}

static void waits_until_the_peer_has_read_or_time_is_up(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(MUCH);
    step = 0;
    h->on.on_ws_message = wait_twice;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_BINARY, "go");
    WAIT(h, step == 1);
    assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    assert_true(c->body_len == MUCH && is_pattern(c->body, MUCH));
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
    free(bytes);
}

static void wait_on_the_loop(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_wait_sent(conn, 1000) == IOH_ESTATE);
    CHECK(h, ioh_ws_send_wait(conn, ioh_ws_frame(IOH_WS_TEXT, "x", 1), 1000) == IOH_ESTATE);
    echo(conn, op, data, len, state);
}

static void loop_that_would_wait_for_itself_refuses(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = wait_on_the_loop;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "go");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "go");
    client_ws_leave(c);
    host_end(h);
}

/* ---- sending at the pace of the peer */

enum { FRAMES = 150, FRAME = 100000 };

static void send_at_its_pace(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)op;
    (void)data;
    (void)len;
    for (int i = 0; i < FRAMES; i++) {
        ioh_buf *frame = ioh_ws_frame(IOH_WS_BINARY, bytes + i, FRAME);
        int rc = ioh_ws_send_wait(conn, frame, PATIENCE_MS);
        CHECK(h, rc == 0 || rc == IOH_QUEUED);
        CHECK(h, ioh_conn_queued(conn) <= 65536 + FRAME + 100);
        if (rc < 0)
            break;
    }
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "end", 3) >= 0);
}

static void sends_wait_so_that_the_queue_stays_short(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(FRAME + FRAMES);
    h->on.on_ws_message = send_at_its_pace;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "go");
    for (int i = 0; i < FRAMES; i++) {
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, FRAME);
        assert_memory_equal(c->body, bytes + i, FRAME);
    }
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
    free(bytes);
}

static atomic_int releases;

static void bad_waiting_sends(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    static char word[] = "word";
    CHECK(h, ioh_ws_send_wait(conn, NULL, 0) == IOH_EINVAL);
    CHECK(h, ioh_ws_send_wait(conn, counted_buf(word, 4, &releases), 0) == IOH_EINVAL);
    CHECK(h, releases == 1);
    echo(conn, op, data, len, state);
    CHECK(h, ioh_ws_close(conn, 1000, NULL, 0) == 0);
    int rc = ioh_ws_send_wait(conn, ioh_ws_frame(IOH_WS_TEXT, "x", 1), 1000);
    CHECK(h, rc == IOH_ESTATE || rc == IOH_EGONE);
}

static void waiting_sends_are_refused_as_others_are(void **state)
{
    struct host *h = host_new(state);
    releases = 0;
    h->on.on_ws_message = bad_waiting_sends;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "go");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_int_equal(client_ws_read(c), 8);
    client_ws_close(c, 1000, "");
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

/* A streamed answer at the client's pace, written as a blocking host would write it. */
static void stream_at_its_pace(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    CHECK(h, ioh_respond_start(req, 200, NULL, 0, -1) == 0);
    for (int i = 0; i < FRAMES; i++) {
        int rc = ioh_respond_data(req, bytes, FRAME);
        CHECK(h, rc >= 0);
        CHECK(h, ioh_wait_sent(conn, PATIENCE_MS) == 0);
    }
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void streams_may_wait_too(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(FRAME);
    h->on.on_request = stream_at_its_pace;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        assert_int_equal(c->body_len, FRAMES * FRAME);
        assert_int_equal(c->chunks, FRAMES);
    }
    client_close(c);
    host_end(h);
    free(bytes);
}

/* ---- the end of the wait when the connection ends */

static void wait_for_the_end(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)data;
    (void)len;
    CHECK(h, ioh_ws_send(conn, op, bytes, MUCH) == IOH_QUEUED);
    step = 1;
    uint64_t begin = host_now_ms();
    answer = ioh_wait_sent(conn, 4 * PATIENCE_MS);
    CHECK(h, host_now_ms() - begin < PATIENCE_MS); /* not by the time-out */
    CHECK(h, ioh_wait_sent(conn, 4 * PATIENCE_MS) == IOH_EGONE);
    CHECK(h, ioh_ws_send_wait(conn, ioh_ws_frame(op, "x", 1), 4 * PATIENCE_MS) == IOH_EGONE);
    step = 2;
}

static struct client *waiting_client(struct host *h)
{
    step = answer = 0;
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_BINARY, "go");
    WAIT(h, step == 1);
    poll(NULL, 0, 30); /* it probably waits now; if not, the answer is the same */
    return c;
}

static struct host *host_with_waiters(void **state)
{
    struct host *h = host_new(state);
    bytes = pattern(MUCH);
    h->on.on_ws_message = wait_for_the_end;
    host_start(h);
    return h;
}

static void wait_ends_at_once_when_the_peer_leaves(void **state)
{
    struct host *h = host_with_waiters(state);
    for (int i = 0; i < 2; i++) {
        struct client *c = waiting_client(h);
        if (i)
            client_abort(c);
        else
            client_close(c); /* with unread bytes: a reset, too */
        WAIT(h, step == 2);
        assert_int_equal(answer, IOH_EGONE);
        WAIT(h, h->closes == i + 1);
    }
    host_end(h);
    free(bytes);
}

static void wait_ends_at_once_when_the_server_aborts_or_stops(void **state)
{
    struct host *h = host_with_waiters(state);
    waiting_client(h);
    if (!host_has_threads_for_each(h)) { /* its own loop is the one that waits */
        assert_int_equal(ioh_post_abort(h->server, h->last_id), 0);
        WAIT(h, step == 2);
        assert_int_equal(answer, IOH_EGONE);
        WAIT(h, h->closes == 1);
        waiting_client(h);
    }
    assert_int_equal(host_stop(h, 0), IOH_ETIMEOUT);
    assert_int_equal(step, 2);
    assert_int_equal(answer, IOH_EGONE);
    client_close_all();
    host_end(h);
    free(bytes);
}

/* ---- many at once */

enum { MANY = 300 };
static atomic_int waiting, ended;
static ioh_buf *shared;

static void wait_among_many(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)op;
    (void)data;
    (void)len;
    CHECK(h, ioh_ws_send_frame(conn, ioh_buf_ref(shared)) == IOH_QUEUED);
    atomic_fetch_add(&waiting, 1);
    CHECK(h, ioh_ws_send_wait(conn, ioh_buf_ref(shared), 4 * PATIENCE_MS) == IOH_EGONE);
    atomic_fetch_add(&ended, 1);
}

/* All of them wait at the same time, each on a thread, and none is forgotten. On unix sockets, whose kernel
 * buffers are small. */
static void hundreds_of_waiting_sends_all_end_when_their_clients_leave(void **state)
{
    struct host *h = host_new(state);
    uint8_t *much = pattern(1000000);
    waiting = ended = 0;
    shared = ioh_ws_frame(IOH_WS_BINARY, much, 1000000);
    h->options.pool_threads = MANY + 4;
    h->options.send_high = 1000;
    h->on.on_ws_message = wait_among_many;
    host_start(h);
    static struct client *c[MANY];
    for (int i = 0; i < MANY; i++) {
        c[i] = client_ws_open(h, "/");
        client_ws_send(c[i], IOH_WS_TEXT, "go");
    }
    WAIT(h, waiting == MANY);
    assert_int_equal(ended, 0);
    for (int i = 0; i < MANY; i++)
        client_close(c[i]);
    WAIT(h, ended == MANY && h->closes == MANY);
    ioh_buf_unref(shared);
    host_end(h);
    free(much);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(waits_until_the_peer_has_read_or_time_is_up, IN_WAITING | IN_THREADS | IN_UNIX),
    HOST_TEST_IN(loop_that_would_wait_for_itself_refuses, IN_INLINE | IN_ONE_LOOP),
    HOST_TEST_IN(sends_wait_so_that_the_queue_stays_short, IN_WAITING | IN_THREADS | IN_UNIX),
    HOST_TEST_IN(waiting_sends_are_refused_as_others_are, IN_WAITING | IN_THREADS | IN_UNIX),
    HOST_TEST_IN(streams_may_wait_too, IN_WAITING | IN_THREADS | IN_UNIX),
    HOST_TEST_IN(wait_ends_at_once_when_the_peer_leaves, IN_WAITING | IN_THREADS | IN_UNIX),
    HOST_TEST_IN(wait_ends_at_once_when_the_server_aborts_or_stops,
                 IN_WAITING | IN_THREADS | IN_UNIX),
    HOST_TEST_IN(hundreds_of_waiting_sends_all_end_when_their_clients_leave, IN_UNIX),
};

HOST_MAIN(tests)

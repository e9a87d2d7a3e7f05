/* Topics: what becomes of subscribers who read too slowly, and of loops that are busy. */
#include "support/topic_host.h"

/* ---- slow subscribers */

enum { PIECE = 60000 };

static const size_t high = 300000;

static int publish_piece(struct host *h, const char *topic, uint8_t number, atomic_int *releases)
{
    static uint8_t pieces[256][PIECE];
    pieces[number][0] = number;
    return ioh_publish(h->server, topic, IOH_WS_BINARY,
                       counted_buf(pieces[number], PIECE, releases), NULL);
}

static struct host *slow_host(void **state, int32_t what)
{
    struct host *h = topic_host(state);
    rule = what;
    h->options.send_high = high;
    host_start(h);
    return h;
}

/* Publishes to one who reads nothing until something else than delivering happens, and more. Answers how many. */
static int publish_until_full(struct host *h, atomic_int *releases)
{
    int n = 0;
    for (int more = 20; more > 0;) {
        assert_int_equal(publish_piece(h, "slow", (uint8_t)n, releases), 0);
        n++;
        WAIT(h, atomic_load(releases) == n); /* a piece of that size is copied at once */
        struct ioh_topic_stats s = stats_of(h, "slow");
        if (s.skipped + s.coalesced + s.closed || s.subscribers == 0)
            more--;
        poll(NULL, 0, 2);
    }
    return n;
}

static void skip_leaves_messages_out_and_others_undisturbed(void **state)
{
    struct host *h = slow_host(state, IOH_TOPIC_SKIP);
    atomic_int releases = 0;
    struct client *slow = subscriber(h, "+slow"), *quick = subscriber(h, "+quick");
    int n = publish_until_full(h, &releases);
    assert_int_equal(publish(h, "quick", "hello", 0), 0);
    assert_told(quick, "hello");
    WAIT(h, stats_of(h, "slow").delivered + stats_of(h, "slow").skipped == (uint64_t)n);
    struct ioh_topic_stats s = stats_of(h, "slow");
    assert_true(s.delivered > 0 && s.skipped > 0 && s.coalesced + s.closed == 0);
    for (uint64_t i = 0; i < s.delivered; i++) {
        assert_int_equal(client_ws_read(slow), IOH_WS_BINARY);
        assert_int_equal(slow->body_len, PIECE);
        assert_true(i >= 5 || slow->body[0] == i);
    }
    assert_int_equal(publish(h, "slow", "again", 0), 0); /* it has caught up */
    assert_told(slow, "again");
    client_ws_leave(slow);
    client_ws_leave(quick);
    host_end(h);
}

static void close_ends_who_reads_too_slowly(void **state)
{
    struct host *h = slow_host(state, IOH_TOPIC_CLOSE);
    atomic_int releases = 0;
    struct client *slow = subscriber(h, "+slow");
    publish_until_full(h, &releases);
    assert_int_equal(stats_of(h, "slow").subscribers, 0);
    struct ioh_stats sums = host_stats(h);
    assert_int_equal(sums.topic_closed, 1);
    assert_int_equal(sums.topic_subscriptions, 0);
    uint64_t got = 0;
    while (client_ws_read(slow) == IOH_WS_BINARY)
        assert_int_equal(slow->body[0], got++);
    assert_int_equal(slow->op, 8);
    assert_int_equal(client_ws_code(slow), 1013);
    assert_int_equal(got, sums.topic_delivered);
    client_ws_close(slow, 1013, "");
    client_expect_end(slow);
    client_close(slow);
    host_end(h);
}

static void latest_is_sent_when_there_is_room_again(void **state)
{
    struct host *h = slow_host(state, IOH_TOPIC_LATEST);
    atomic_int releases = 0;
    struct client *slow = subscriber(h, "+#");
    rule = IOH_TOPIC_SKIP;
    struct client *watcher = subscriber(h, "+slow"); /* that there are figures of its own */
    uint64_t n = 0;
    for (int more = 10; more > 0; n++) {
        assert_int_equal(publish_piece(h, "slow", (uint8_t)n, &releases), 0);
        do
            assert_int_equal(client_ws_read(watcher), IOH_WS_BINARY);
        while (watcher->body[0] != (uint8_t)n);
        more -= stats_of(h, "#").coalesced > 0;
    }
    assert_int_equal(publish(h, "x/1", "old", 0), 0);
    assert_int_equal(publish(h, "x/2", "beside", 0), 0);
    assert_int_equal(publish(h, "x/1", "new", 0), 0);
    WAIT(h, stats_of(h, "#").published == n + 3);
    uint64_t got = 0;
    int last = -1;
    assert_int_equal(client_ws_read(slow), IOH_WS_BINARY);
    for (; slow->op == IOH_WS_BINARY; got++) {
        assert_int_equal(slow->body_len, PIECE);
        assert_true(slow->body[0] > last); /* in order, and of the end only the last */
        last = slow->body[0];
        assert_true(client_ws_read(slow) > 0);
    }
    assert_int_equal(last, n - 1);
    if (strcmp((char *)slow->body, "old") == 0) /* it came before there was anything to keep */
        assert_int_equal(client_ws_read(slow), IOH_WS_TEXT);
    assert_body(slow, "beside");
    assert_told(slow, "new");
    struct ioh_topic_stats s = stats_of(h, "#");
    assert_true(s.coalesced > 0 && s.skipped + s.closed == 0);
    assert_int_equal(s.delivered + s.coalesced, n + 3);
    assert_int_equal(publish(h, "x/1", "again", 0), 0);
    assert_told(slow, "again");
    client_ws_leave(slow);
    client_ws_leave(watcher);
    WAIT(h, atomic_load(&releases) == (int)n);
    host_end(h);
}

static void unsubscribe_slow(ioh_conn *conn, void *user)
{
    CHECK((struct host *)user, ioh_unsubscribe(conn, "slow") == 0);
}

/* What is kept goes with the subscription, the connection, the server. */
static void what_is_kept_is_given_back(void **state)
{
    for (int way = 0; way < 4; way++) {
        struct host *h = slow_host(state, IOH_TOPIC_LATEST);
        atomic_int releases = 0;
        struct client *other = subscriber(h, "+other"), *slow = subscriber(h, "+else");
        assert_string_equal(tell(slow, "+slow"), "ok");
        publish_until_full(h, &releases);
        if (way == 0)
            client_abort(slow);
        else if (way == 1)
            assert_int_equal(ioh_post_abort(h->server, h->last_id), 0);
        else if (way == 2)
            assert_int_equal(ioh_run_on(h->server, h->last_id, unsubscribe_slow, h, NULL), 0);
        WAIT(h, stats_of(h, "slow").subscribers == (way == 3));
        client_ws_leave(other);
        if (way >= 2)
            assert_int_equal(host_stop(h, 0), IOH_ETIMEOUT);
        if (way)
            client_close(slow);
        host_end(h);
    }
}

/* ---- a loop that does not get round to it */

static struct latch busy;

static void wait_or_obey(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    if (len == 4 && memcmp(data, "wait", 4) == 0)
        latch_wait(state, &busy);
    else
        obey(conn, op, data, len, state);
}

static void a_busy_loop_refuses_more_than_its_limit(void **state)
{
    struct host *h = topic_host(state);
    atomic_int releases = 0;
    busy.open = false;
    h->on.on_ws_message = wait_or_obey;
    h->options.send_high = 200000;
    h->options.send_max = 1000000;
    host_start(h);
    struct client *c = subscriber(h, "+slow");
    client_ws_send(c, IOH_WS_TEXT, "wait");
    WAIT(h, busy.waiting == 1);
    int n = 0, rc = 0;
    while (n < 100 && (rc = publish_piece(h, "slow", (uint8_t)n, &releases)) == 0)
        n++;
    assert_int_equal(rc, IOH_EFULL);
    assert_true(n > 10 && n < 20);
    latch_open(&busy);
    for (int i = 0; i < 4; i++) { /* what is above send_high may be skipped */
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body[0], i);
    }
    WAIT(h, stats_of(h, "slow").delivered + stats_of(h, "slow").skipped == (uint64_t)n);
    assert_int_equal(publish(h, "slow", "again", 0), 0);
    while (client_ws_read(c) == IOH_WS_BINARY)
        ;
    assert_body(c, "again");
    client_ws_leave(c);
    host_end(h);
}

/* What was published while the loop was busy goes out together: in order, and nothing to whom it was not for. */
static void a_batch_comes_in_order_and_its_exceptions_hold(void **state)
{
    struct host *h = topic_host(state);
    busy.open = false;
    h->on.on_ws_message = wait_or_obey;
    host_start(h);
    struct client *c = subscriber(h, "+t/+"), *other = subscriber(h, "+t/a");
    ioh_conn_id id = h->last_id;
    client_ws_send(other, IOH_WS_TEXT, "wait");
    WAIT(h, busy.waiting == 1);
    for (int i = 0; i < 30; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(publish(h, i < 20 ? "t/a" : "t/b", text, i == 7 ? id : 0), 0);
    }
    latch_open(&busy);
    for (int i = 0; i < 30; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        assert_told(c, text);
        if (i != 7 && i < 20)
            assert_told(other, text);
    }
    assert_string_equal(tell(other, "-t/a"), "ok");
    assert_string_equal(tell(c, "-t/+"), "ok");
    assert_int_equal(host_stats(h).topic_delivered, 49);
    client_ws_leave(c);
    client_ws_leave(other);
    host_end(h);
}

/* A thread per connection: only the one that waits is behind, and no more than send_high is laid up for it. */
static void a_thread_that_waits_is_behind_alone(void **state)
{
    struct host *h = topic_host(state);
    atomic_int releases = 0;
    busy.open = false;
    rule = IOH_TOPIC_LATEST;
    h->on.on_ws_message = wait_or_obey;
    h->options.send_high = high;
    host_start(h);
    struct client *late = subscriber(h, "+slow"), *quick = subscriber(h, "+slow");
    rule = IOH_TOPIC_CLOSE;
    struct client *ended = subscriber(h, "+slow");
    client_ws_send(late, IOH_WS_TEXT, "wait");
    client_ws_send(ended, IOH_WS_TEXT, "wait");
    WAIT(h, busy.waiting == 2);
    for (int n = 0; n < 30; n++) {
        assert_int_equal(publish_piece(h, "slow", (uint8_t)n, &releases), 0);
        assert_int_equal(client_ws_read(quick), IOH_WS_BINARY);
        assert_int_equal(quick->body[0], n);
    }
    WAIT(h, stats_of(h, "slow").closed == 1 && stats_of(h, "slow").coalesced > 20);
    latch_open(&busy);
    int last = -1;
    while (last < 29) {
        assert_int_equal(client_ws_read(late), IOH_WS_BINARY);
        assert_true(late->body[0] > last);
        last = late->body[0];
    }
    while (client_ws_read(ended) == IOH_WS_BINARY)
        ;
    assert_int_equal(client_ws_code(ended), 1013);
    client_ws_leave(late);
    client_ws_leave(quick);
    client_ws_close(ended, 1013, "");
    client_expect_end(ended);
    client_close(ended);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(skip_leaves_messages_out_and_others_undisturbed, IN_TCP),
    HOST_TEST_IN(close_ends_who_reads_too_slowly, IN_TCP),
    HOST_TEST_IN(latest_is_sent_when_there_is_room_again, IN_TCP),
    HOST_TEST_IN(what_is_kept_is_given_back, IN_TCP),
    HOST_TEST_IN(a_busy_loop_refuses_more_than_its_limit, IN_INLINE),
    HOST_TEST_IN(a_batch_comes_in_order_and_its_exceptions_hold, IN_INLINE | IN_ONE_LOOP),
    HOST_TEST_IN(a_thread_that_waits_is_behind_alone, IN_THREADS),
};

HOST_MAIN(tests)

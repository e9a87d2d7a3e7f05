/* Topics: who gets what is published, and in which order; what is refused. */
#include "support/topic_host.h"

/* ---- who gets it */

static void subscribers_get_what_any_thread_publishes(void **state)
{
    struct host *h = topic_host(state);
    host_start(h);
    struct client *a = subscriber(h, "+news"), *b = subscriber(h, "+news"),
                  *other = subscriber(h, "+other");
    assert_int_equal(publish(h, "news", "one", 0), 0);
    assert_int_equal(publish(h, "nobody/is/here", "lost", 0), 0);
    assert_told(a, "one");
    assert_told(b, "one");
    assert_string_equal(tell(other, "news two"), "ok");
    assert_told(a, "two");
    assert_told(b, "two");
    assert_int_equal(publish(h, "other", "three", 0), 0);
    assert_told(other, "three");
    assert_true(client_is_quiet(a) && client_is_quiet(b));
    struct ioh_topic_stats s = stats_of(h, "news");
    assert_int_equal(s.subscribers, 2);
    assert_int_equal(s.published, 2);
    assert_int_equal(s.delivered, 4);
    assert_int_equal(s.skipped + s.coalesced + s.closed, 0);
    assert_int_equal(stats_of(h, "nobody/is/here").published, 0);
    client_ws_leave(a);
    client_ws_leave(b);
    client_ws_leave(other);
    host_end(h);
}

static void the_sender_is_left_out_on_request(void **state)
{
    struct host *h = topic_host(state);
    host_start(h);
    struct client *a = subscriber(h, "+t"), *b = subscriber(h, "+t");
    assert_string_equal(tell(a, "t from a"), "ok");
    assert_told(b, "from a");
    client_ws_send(a, IOH_WS_TEXT, "*t to all");
    bool ok = false, told = false; /* the answer and the message come in any order */
    for (int i = 0; i < 2; i++) {
        int op = client_ws_read(a);
        ok = ok || (op == IOH_WS_BINARY && strcmp((char *)a->body, "ok") == 0);
        told = told || (op == IOH_WS_TEXT && strcmp((char *)a->body, "to all") == 0);
    }
    assert_true(ok && told);
    assert_told(b, "to all");
    client_ws_leave(a);
    client_ws_leave(b);
    host_end(h);
}

static void wildcards_and_overlaps_give_each_message_once(void **state)
{
    struct host *h = topic_host(state);
    host_start(h);
    struct client *one = subscriber(h, "+a/+/c"), *rest = subscriber(h, "+a/#"),
                  *all = subscriber(h, "+#"), *many = subscriber(h, "+a/b/c");
    static const char *const more[] = {"+a/b/+", "+a/#", "+#", "++/b/c", "+a/+/c", "+a/b/c"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        assert_string_equal(tell(many, more[i]), "ok");
    static const char *const names[] = {"a/b/c", "a", "x", "a/x/c", "a/b/c/d", "a/b/c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(publish(h, names[i], names[i], 0), 0);
    assert_int_equal(publish(h, "a/z/c", "end", 0), 0);
    assert_told(one, "a/b/c");
    assert_told(one, "a/x/c");
    assert_told(one, "a/b/c");
    assert_told(one, "end");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_told(all, names[i]);
        assert_told(many, names[i]);
        if (*names[i] == 'a')
            assert_told(rest, names[i]);
    }
    assert_told(rest, "end");
    assert_told(all, "end");
    assert_told(many, "end");
    client_ws_leave(one);
    client_ws_leave(rest);
    client_ws_leave(all);
    client_ws_leave(many);
    host_end(h);
}

static void unsubscribed_gets_no_more(void **state)
{
    struct host *h = topic_host(state);
    host_start(h);
    struct client *c = subscriber(h, "+a"), *other = subscriber(h, "+a");
    assert_string_equal(tell(c, "+b"), "ok");
    assert_string_equal(tell(c, "-a"), "ok");
    assert_string_equal(tell(c, "-a"), "ok"); /* there is none any more */
    assert_string_equal(tell(c, "-never"), "ok");
    assert_int_equal(publish(h, "a", "one", 0), 0);
    assert_int_equal(publish(h, "b", "two", 0), 0);
    assert_told(c, "two");
    assert_told(other, "one");
    assert_string_equal(tell(c, "-b"), "ok");
    WAIT(h, stats_of(h, "b").subscribers == 0);
    assert_int_equal(stats_of(h, "b").delivered, 0); /* it begins anew with the next one */
    assert_string_equal(tell(c, "+a"), "ok");
    assert_int_equal(publish(h, "b", "three", 0), 0);
    assert_int_equal(publish(h, "a", "four", 0), 0);
    assert_told(c, "four");
    client_ws_leave(c);
    client_ws_leave(other);
    host_end(h);
}

/* By the client, the host, a break, a reset: in each case the topic is without subscribers afterwards. */
static void the_end_of_a_websocket_ends_its_subscriptions(void **state)
{
    struct host *h = topic_host(state);
    host_start(h);
    for (int way = 0; way < 5; way++) {
        struct client *c = subscriber(h, "+a/b");
        assert_string_equal(tell(c, "+a/+"), "ok");
        WAIT(h, stats_of(h, "a/b").subscribers == 1);
        ioh_conn_id id = h->last_id;
        if (way == 0)
            client_ws_leave(c);
        else if (way == 1)
            client_close(c);
        else if (way == 2)
            client_abort(c);
        else if (way == 3)
            assert_int_equal(ioh_post_close(h->server, id), 0);
        else
            assert_int_equal(ioh_post_abort(h->server, id), 0);
        WAIT(h, stats_of(h, "a/b").subscribers == 0 && stats_of(h, "a/+").subscribers == 0);
        assert_int_equal(publish(h, "a/b", "to nobody", 0), 0);
        if (way >= 3) {
            client_wait_end(c);
            client_close(c);
        }
        WAIT(h, h->ws_closes == way + 1);
    }
    host_end(h);
}

/* ---- order */

enum { PUBLISHERS = 4, EACH = 200 };

static struct host *order_host;

static void *publish_many(void *arg)
{
    char text[32];
    for (int i = 0; i < EACH; i++) {
        snprintf(text, sizeof text, "%d %d", (int)(intptr_t)arg, i);
        while (publish(order_host, i % 2 ? "odd" : "even", text, 0) == IOH_EFULL)
            sched_yield();
    }
    return NULL;
}

static void all_see_the_same_order_and_each_thread_its_own(void **state)
{
    static char first[PUBLISHERS * EACH][32];
    struct host *h = topic_host(state);
    struct client *clients[6];
    pthread_t threads[PUBLISHERS];
    host_start(h);
    order_host = h;
    for (int i = 0; i < 6; i++) {
        clients[i] = subscriber(h, "+odd");
        assert_string_equal(tell(clients[i], i % 2 ? "+even" : "+#"), "ok");
    }
    for (int i = 0; i < PUBLISHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, publish_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < 6; i++) {
        int next[PUBLISHERS] = {0};
        for (int k = 0; k < PUBLISHERS * EACH; k++) {
            int who, number;
            assert_int_equal(client_ws_read(clients[i]), IOH_WS_TEXT);
            if (i == 0)
                snprintf(first[k], sizeof first[k], "%s", (char *)clients[i]->body);
            assert_body(clients[i], first[k]);
            assert_int_equal(sscanf(first[k], "%d %d", &who, &number), 2);
            assert_int_equal(number, next[who]++);
        }
    }
    for (int i = 0; i < PUBLISHERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 6; i++)
        client_ws_leave(clients[i]);
    assert_int_equal(host_stats(h).ws_messages_sent, 6 * PUBLISHERS * EACH + 12);
    host_end(h);
}

static void what_was_published_before_subscribing_is_not_sent(void **state)
{
    struct host *h = topic_host(state);
    host_start(h);
    struct client *old = subscriber(h, "+t");
    for (int i = 0; i < 50; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(publish(h, "t", text, 0), 0);
        struct client *late = subscriber(h, "+t");
        assert_int_equal(publish(h, "t", "after", 0), 0);
        assert_told(late, "after");
        assert_told(old, text);
        assert_told(old, "after");
        client_ws_leave(late);
    }
    client_ws_leave(old);
    host_end(h);
}

static void published_before_the_stop_arrives_before_its_close(void **state)
{
    struct host *h = topic_host(state);
    struct client *clients[20];
    host_start(h);
    for (int i = 0; i < 20; i++)
        clients[i] = subscriber(h, "+t");
    assert_int_equal(publish(h, "t", "good", 0), 0);
    assert_int_equal(publish(h, "t", "bye", 0), 0);
    host_begin_stop(h, LONG_DRAIN_MS);
    for (int i = 0; i < 20; i++) {
        assert_told(clients[i], "good");
        assert_told(clients[i], "bye");
        assert_int_equal(client_ws_read(clients[i]), 8);
        assert_int_equal(client_ws_code(clients[i]), 1001);
        client_ws_close(clients[i], 1001, "");
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    assert_int_equal(host_end_stop(h), 0);
    assert_int_equal(publish(h, "t", "too late", 0), IOH_ESTATE);
    assert_int_equal(stats_of(h, "t").subscribers, 0);
    host_end(h);
}

/* ---- payloads */

static void payloads_of_every_size_come_whole_and_are_given_back(void **state)
{
    static const size_t sizes[] = {0, 1, 125, 126, 4096, 4097, 65535, 65536, 65537, 1000000};
    struct host *h = topic_host(state);
    atomic_int releases = 0;
    h->options.send_high = 4 << 20;
    host_start(h);
    uint8_t *bytes = pattern(1000000);
    struct client *clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = subscriber(h, "+t");
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        ioh_buf *buf = counted_buf(bytes, sizes[k], &releases);
        assert_int_equal(ioh_publish(h->server, "t", IOH_WS_BINARY, buf, NULL), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(client_ws_read(clients[i]), IOH_WS_BINARY);
            assert_true(clients[i]->fin && clients[i]->body_len == sizes[k]);
            assert_true(is_pattern(clients[i]->body, sizes[k]));
        }
        WAIT(h, atomic_load(&releases) == (int)k + 1);
    }
    for (int i = 0; i < 3; i++)
        client_ws_leave(clients[i]);
    host_end(h);
    free(bytes);
}

/* ---- what is refused */

static void try_badly(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    struct ioh_topic_options o = IOH_TOPIC_OPTIONS_INIT;
    char longest[IOH_TOPIC_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    CHECK(h, ioh_subscribe(conn, NULL, NULL) == IOH_EINVAL);
    CHECK(h, ioh_subscribe(conn, "", NULL) == IOH_EINVAL);
    CHECK(h, ioh_subscribe(conn, "a/#/b", NULL) == IOH_EINVAL);
    CHECK(h, ioh_subscribe(conn, longest, NULL) == IOH_EINVAL);
    CHECK(h, ioh_unsubscribe(conn, "a#") == IOH_EINVAL);
    o.full = 3;
    CHECK(h, ioh_subscribe(conn, "a", &o) == IOH_EINVAL);
    o.full = -1;
    CHECK(h, ioh_subscribe(conn, "a", &o) == IOH_EINVAL);
    o.full = 0;
    o.size = sizeof(size_t);
    CHECK(h, ioh_subscribe(conn, "a", &o) == IOH_EVERSION);
    if (len == 5) {
        CHECK(h, ioh_ws_close(conn, 1000, NULL, 0) == 0);
        CHECK(h, ioh_subscribe(conn, "a", NULL) == IOH_ESTATE);
        CHECK(h, ioh_unsubscribe(conn, "a") == IOH_ESTATE);
        return;
    }
    echo(conn, op, data, len, state);
}

static void subscribe_without_websocket(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_subscribe(ioh_req_conn(req), "a", NULL) == IOH_ESTATE);
    CHECK((struct host *)state, ioh_unsubscribe(ioh_req_conn(req), "a") == IOH_ESTATE);
    answer_ok(req, state);
}

static void subscribe_at_the_end(ioh_conn *conn, void *state)
{
    CHECK((struct host *)state, ioh_subscribe(conn, "a", NULL) == IOH_EGONE);
    CHECK((struct host *)state, ioh_unsubscribe(conn, "a") == IOH_EGONE);
}

static void bad_subscriptions_are_refused(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = subscribe_without_websocket;
    h->on.on_ws_message = try_badly;
    h->on.on_close = subscribe_at_the_end;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "x");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_send(c, IOH_WS_TEXT, "close");
    assert_int_equal(client_ws_read(c), 8);
    client_ws_close(c, 1000, "");
    client_expect_end(c);
    client_close(c);
    assert_int_equal(host_stats(h).topic_subscriptions, 0);
    host_end(h);
}

static void bad_publications_are_refused_and_given_back(void **state)
{
    static uint8_t bytes[2000];
    struct host *h = topic_host(state);
    struct ioh_publish_options o = IOH_PUBLISH_OPTIONS_INIT;
    struct ioh_topic_stats s = IOH_TOPIC_STATS_INIT;
    atomic_int releases = 0;
    h->options.send_high = 100;
    h->options.send_max = 1000;
    host_create(h);
    assert_int_equal(
        ioh_publish(h->server, "a", IOH_WS_TEXT, counted_buf(bytes, 1, &releases), NULL),
        IOH_ESTATE);
    host_start(h);
    struct client *c = subscriber(h, "+#");
    static const char *const bad[] = {"", "+", "a/#", "a+", NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(
            ioh_publish(h->server, bad[i], IOH_WS_TEXT, counted_buf(bytes, 1, &releases), NULL),
            IOH_EINVAL);
    static const int ops[] = {0, 3, 8, IOH_WS_PING, IOH_WS_PONG, 16, -1};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        assert_int_equal(
            ioh_publish(h->server, "a", ops[i], counted_buf(bytes, 1, &releases), NULL),
            IOH_EINVAL);
    assert_int_equal(ioh_publish(h->server, "a", IOH_WS_TEXT, NULL, NULL), IOH_EINVAL);
    assert_int_equal(
        ioh_publish(h->server, "a", IOH_WS_TEXT, ioh_ws_frame(IOH_WS_TEXT, "x", 1), NULL),
        IOH_EINVAL);
    o.size = sizeof(size_t);
    assert_int_equal(ioh_publish(h->server, "a", IOH_WS_TEXT, counted_buf(bytes, 1, &releases), &o),
                     IOH_EVERSION);
    assert_int_equal(
        ioh_publish(h->server, "a", IOH_WS_TEXT, counted_buf(bytes, 1001, &releases), NULL),
        IOH_ETOOBIG);
    assert_int_equal(releases, 15);
    assert_int_equal(ioh_topic_stats(h->server, "a#", &s), IOH_EINVAL);
    assert_int_equal(ioh_topic_stats(h->server, NULL, &s), IOH_EINVAL);
    s.size = sizeof(size_t);
    assert_int_equal(ioh_topic_stats(h->server, "a", &s), IOH_EVERSION);
    assert_int_equal(
        ioh_publish(h->server, "a", IOH_WS_BINARY, counted_buf(bytes, 900, &releases), NULL), 0);
    assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    assert_int_equal(c->body_len, 900);
    client_ws_leave(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(subscribers_get_what_any_thread_publishes),
    HOST_TEST(the_sender_is_left_out_on_request),
    HOST_TEST(wildcards_and_overlaps_give_each_message_once),
    HOST_TEST(unsubscribed_gets_no_more),
    HOST_TEST(the_end_of_a_websocket_ends_its_subscriptions),
    HOST_TEST(all_see_the_same_order_and_each_thread_its_own),
    HOST_TEST(what_was_published_before_subscribing_is_not_sent),
    HOST_TEST(published_before_the_stop_arrives_before_its_close),
    HOST_TEST(payloads_of_every_size_come_whole_and_are_given_back),
    HOST_TEST(bad_subscriptions_are_refused),
    HOST_TEST(bad_publications_are_refused_and_given_back),
};

HOST_MAIN(tests)

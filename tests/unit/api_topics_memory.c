/* Topics while memory runs out: who subscribes or publishes is told, or the connection ends; nothing leaks, and
 * afterwards all is well.
 */
#include "support/common.h"

static _Thread_local bool in_server,
    here;                      /* a thread of the library's; or it is the test's own turn */
static _Atomic long left = -1; /* so many requests for memory before one fails; < 0: none does */
static _Atomic long one_in;    /* likewise, again and again */
static _Atomic long asked, refused;

static bool no_memory(void)
{
    if (!in_server && !here)
        return false;
    long n = one_in;
    if (n && atomic_fetch_add(&asked, 1) % n == 0) {
        refused++;
        return true;
    }
    if (left < 0 || atomic_fetch_sub(&left, 1) > 0)
        return false;
    refused++;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return no_memory() ? NULL : __real_realloc(old, size);
}

static void this_thread_may_fail(void *state)
{
    (void)state;
    in_server = true;
}

static void subscribe(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct ioh_topic_options o = IOH_TOPIC_OPTIONS_INIT;
    char name[100];
    (void)op;
    snprintf(name, sizeof name, "%.*s", (int)len, (const char *)data);
    o.full = *name == 'l' ? IOH_TOPIC_LATEST : IOH_TOPIC_SKIP;
    int rc = ioh_subscribe(conn, name, &o);
    CHECK((struct host *)state, rc == 0 || rc == IOH_ENOMEM || rc == IOH_EGONE);
    rc = ioh_ws_send(conn, IOH_WS_BINARY, rc ? "no" : "ok", 2);
    CHECK((struct host *)state, rc == 0 || rc == IOH_ENOMEM || rc == IOH_EGONE);
    if (rc == IOH_ENOMEM)
        ioh_abort(conn); /* or its client would wait for the answer */
}

static struct host *memory_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_thread_start = this_thread_may_fail;
    h->on.on_ws_message = subscribe;
    h->options.send_high = 100000;
    host_start(h);
    return h;
}

static int publish(struct host *h, const char *topic, void *data, size_t len, atomic_int *releases)
{
    ioh_buf *buf = counted_buf(data, len, releases);
    here = true;
    int rc = ioh_publish(h->server, topic, IOH_WS_TEXT, buf, NULL);
    here = false;
    return rc;
}

static uint64_t subscribers(struct host *h, const char *topic)
{
    struct ioh_topic_stats stats = IOH_TOPIC_STATS_INIT;
    return ioh_topic_stats(h->server, topic, &stats) ? UINT64_MAX : stats.subscribers;
}

static void each_request_for_memory_may_fail(void **state)
{
    static char text[] = "hello";
    struct host *h = memory_host(state);
    atomic_int releases = 0;
    int published = 0, failed = 0;
    for (long n = 0; n < 40; n++) {
        struct client *c = client_ws_open(h, "/");
        WAIT(h, h->ws_opens == n + 1);
        refused = 0;
        left = n;
        client_ws_send(c, IOH_WS_TEXT, "some/deep/topic");
        bool subscribed = client_ws_read(c) == IOH_WS_BINARY && memcmp(c->body, "ok", 2) == 0;
        int rc = publish(h, "some/deep/topic", text, 5, &releases);
        published++;
        assert_true(rc == 0 || rc == IOH_ENOMEM);
        if (subscribed && rc == 0 && !c->ended && client_ws_read(c) >= 0)
            assert_body(c, "hello");
        left = -1;
        failed += refused > 0;
        client_close(c);
        WAIT(h, h->ws_closes == n + 1 && subscribers(h, "some/deep/topic") == 0);
    }
    assert_true(failed >= 8);
    assert_int_equal(releases, published);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "some/deep/topic");
    assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    assert_body(c, "ok");
    assert_int_equal(publish(h, "some/deep/topic", text, 5, &releases), 0);
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
}

/* Many topics match, so that more has to be noted than fits. */
static void publishing_without_memory_is_refused_and_nothing_is_sent(void **state)
{
    static const char *const names[] = {"a/b/c", "a/b/+", "a/+/c", "a/b/#", "a/#", "#", "+/b/c"};
    static char text[] = "hello";
    struct host *h = memory_host(state);
    struct client *c = client_ws_open(h, "/");
    atomic_int releases = 0;
    int sent = 0, published = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        client_ws_send(c, IOH_WS_TEXT, names[i]);
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    }
    for (int n = 0; n < 6; n++) {
        left = n;
        int rc = publish(h, "a/b/c", text, 5, &releases);
        left = -1;
        published++;
        assert_true(rc == IOH_ENOMEM || rc == 0);
        sent += rc == 0;
        if (rc == 0 && client_ws_read(c) < 0) { /* the loop had none, either */
            assert_true(c->ended);
            break;
        }
    }
    assert_true(published > 3 && sent < published);
    assert_int_equal(releases, published);
    client_close(c);
    host_end(h);
}

static void what_cannot_be_kept_is_skipped(void **state)
{
    static char piece[30000];
    struct host *h = memory_host(state);
    struct client *c = client_ws_open(h, "/");
    atomic_int releases = 0;
    uint64_t published = 0;
    struct ioh_topic_stats s = IOH_TOPIC_STATS_INIT;
    memset(piece, 'x', sizeof piece);
    client_ws_send(c, IOH_WS_TEXT, "latest");
    assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
    for (int more = 30; more > 0;) {
        one_in =
            s.coalesced ? 2 : 0; /* in the loop, to keep it; out queues are long enough by then */
        ioh_buf *buf = counted_buf(piece, sizeof piece, &releases);
        int rc = ioh_publish(h->server, "latest", IOH_WS_TEXT, buf, NULL);
        assert_int_equal(rc, 0);
        published++;
        uint64_t done = 0;
        WAIT(h, (assert_int_equal(ioh_topic_stats(h->server, "latest", &s), 0),
                 done = s.delivered + s.coalesced + s.skipped, done + 1 >= published));
        one_in = 0;
        more -= s.coalesced > 0;
    }
    assert_int_equal(ioh_topic_stats(h->server, "latest", &s), 0);
    assert_true(s.skipped > 0 && s.coalesced > 0);
    for (uint64_t i = 0; i < s.delivered; i++)
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_close(c);
    WAIT(h, h->ws_closes == 1);
    assert_int_equal(releases, published);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(each_request_for_memory_may_fail, IN_ONE_LOOP | IN_POOL | IN_AFFINE | IN_AUTO),
    HOST_TEST_IN(publishing_without_memory_is_refused_and_nothing_is_sent, IN_ONE_LOOP),
    HOST_TEST_IN(what_cannot_be_kept_is_skipped, IN_INLINE | IN_POOL),
};

HOST_MAIN(tests)

/* A broadcast to many does not keep the loop: it goes out in parts, and others are served in between. The test drives
 * the loop itself, so it sees every turn.
 */
#include "support/common.h"

enum { SUBSCRIBERS = 1000, A_TURN = 256 };

static struct {
    ioh_server *server;
    atomic_int opens, answers;
} my;

static void on_ws_open(ioh_conn *conn, void *state)
{
    (void)state;
    my.opens++;
    assert_int_equal(ioh_subscribe(conn, "all", NULL), 0);
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)conn;
    (void)op;
    (void)data;
    (void)len;
    (void)state;
}

static void on_request(ioh_req *req, void *state)
{
    (void)state;
    my.answers++;
    assert_int_equal(ioh_respond(req, 200, NULL, 0, "ok", 2), 0);
}

static void start(char *address, size_t size)
{
    struct ioh_handler h = IOH_HANDLER_INIT;
    struct ioh_options o = IOH_OPTIONS_INIT;
    memset(&my, 0, sizeof my);
    h.on_ws_open = on_ws_open;
    h.on_ws_message = on_ws_message;
    h.on_request = on_request;
    o.exec = IOH_EXEC_INLINE;
    o.no_environment = 1;
    snprintf(address, size, "unix:/tmp/ioh-step-%d.sock", (int)getpid());
    assert_int_equal(ioh_server_create(&my.server, &h, &o, NULL), 0);
    assert_int_equal(ioh_server_listen(my.server, address, NULL), 0);
    assert_true(ioh_server_fd(my.server) >= 0);
    assert_int_equal(ioh_server_start(my.server), 0);
}

static void step_until(const atomic_int *counter, int wanted)
{
    uint64_t until = host_now_ms() + PATIENCE_MS;
    while (atomic_load(counter) < wanted && host_now_ms() < until)
        assert_int_equal(ioh_server_step(my.server, 10), 1);
    assert_int_equal(atomic_load(counter), wanted);
}

static uint64_t delivered(void)
{
    struct ioh_topic_stats s = IOH_TOPIC_STATS_INIT;
    assert_int_equal(ioh_topic_stats(my.server, "all", &s), 0);
    return s.delivered;
}

static int publish(const char *text)
{
    return ioh_publish(my.server, "all", IOH_WS_TEXT, ioh_buf_copy(text, strlen(text)), NULL);
}

static void a_turn_is_short_and_others_have_theirs(void **state)
{
    static struct client *clients[SUBSCRIBERS];
    char address[100];
    (void)state;
    start(address, sizeof address);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        clients[i] = client_open_at(address);
        client_request(clients[i], "GET", "/", WS_UPGRADE);
        step_until(&my.opens, i + 1);
    }
    struct client *other = client_open_at(address);
    assert_int_equal(publish("one"), 0);
    client_request(other, "GET", "/", "");
    uint64_t before = 0, now = 0;
    while (now < SUBSCRIBERS) {
        assert_int_equal(ioh_server_step(my.server, 0), 1);
        now = delivered();
        assert_true(now - before <= A_TURN);
        before = now;
        if (now < SUBSCRIBERS / 2 && my.answers == 0)
            continue;
        assert_int_equal(my.answers, 1); /* at the latest when half of them have it */
    }
    assert_int_equal(client_answer(other), 200);

    /* Those who leave or come while it goes out change nothing for the others. */
    assert_int_equal(publish("two"), 0);
    assert_int_equal(ioh_server_step(my.server, 0), 1);
    for (int i = 0; i < SUBSCRIBERS; i += 100) {
        client_abort(clients[i]);
        clients[i] = NULL;
    }
    assert_int_equal(publish("three"), 0);
    while (delivered() + 25 < 3 * SUBSCRIBERS)
        assert_int_equal(ioh_server_step(my.server, 0), 1);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        static const char *const texts[] = {"one", "two", "three"};
        if (!clients[i])
            continue;
        assert_int_equal(client_read(clients[i], true), 101);
        for (int k = 0; k < 3; k++) {
            while (clients[i]->len < 2 + strlen(texts[k]) &&
                   recv(clients[i]->fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
                assert_int_equal(ioh_server_step(my.server, 0), 1);
            assert_int_equal(client_ws_read(clients[i]), IOH_WS_TEXT);
            assert_body(clients[i], texts[k]);
        }
    }
    client_close_all();
    assert_int_equal(ioh_server_stop(my.server, LONG_DRAIN_MS), 0);
    while (ioh_server_step(my.server, 10) == 1)
        ;
    ioh_server_destroy(my.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_turn_is_short_and_others_have_theirs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* WebSockets: the heartbeat, and who ended it. Deadlines are short, and nothing is asserted about how short:
 * a test waits for what must come, and what must not come would come while it waits for something later. */
#include "support/common.h"

enum { PING_MS = 60, DEAD_MS = 400 };

static atomic_int ended_by;

static void note_by(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)code;
    (void)reason;
    (void)len;
    (void)state;
    atomic_store(&ended_by, ioh_ws_closed_by(conn));
}

static struct host *beating_host(void **state, uint32_t ping_ms, uint32_t dead_ms)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = echo;
    h->on.on_ws_close = note_by;
    h->options.ws_ping_ms = ping_ms;
    h->options.ws_dead_ms = dead_ms;
    host_start(h);
    atomic_store(&ended_by, -1);
    return h;
}

static void silent_peer_is_pinged_again_and_again_and_lives_by_its_pongs(void **state)
{
    struct host *h = beating_host(state, PING_MS, DEAD_MS);
    struct client *c = client_ws_open(h, "/");
    for (int i = 0; i < 10; i++) { /* longer than DEAD_MS in all */
        assert_int_equal(client_ws_read(c), IOH_WS_PING);
        assert_int_equal(c->body_len, 0);
        client_ws_send(c, IOH_WS_PONG, "");
    }
    client_ws_send(c, IOH_WS_TEXT, "alive");
    while (client_ws_read(c) == IOH_WS_PING)
        client_ws_send(c, IOH_WS_PONG, "");
    assert_body(c, "alive");
    client_ws_leave(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(ended_by, IOH_WS_BY_PEER);
    assert_int_equal(host_stats(h).closed_by_deadline, 0);
    host_end(h);
}

static void peer_that_does_not_answer_its_ping_is_dead(void **state)
{
    struct host *h = beating_host(state, PING_MS, DEAD_MS);
    struct client *c = client_ws_open(h, "/");
    assert_int_equal(client_ws_read(c), IOH_WS_PING);
    client_wait_end(c); /* one ping only */
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_ws_code, 1006);
    assert_int_equal(ended_by, IOH_WS_BY_NOBODY);
    assert_int_equal(host_stats(h).closed_by_deadline, 1);
    assert_int_equal(host_stats(h).hit_ws_dead, 1);
    host_end(h);
}

static void any_byte_is_a_sign_of_life(void **state)
{
    struct host *h = beating_host(state, PING_MS, DEAD_MS);
    struct client *c = client_ws_open(h, "/");
    uint8_t frame[6 + 120] = {0x81, 0x80 | 120};
    memset(frame + 6, 'x', 120);
    for (size_t i = 0; i < sizeof frame;
         i++) { /* a frame that dribbles in for longer than DEAD_MS */
        client_write(c, frame + i, 1);
        poll(NULL, 0, 5);
    }
    while (client_ws_read(c) == IOH_WS_PING)
        ;
    assert_int_equal(c->body_len, 120);
    client_ws_leave(c);
    host_end(h);
}

static void pings_only_keep_what_is_silent_open_for_ever(void **state)
{
    struct host *h = beating_host(state, PING_MS, UINT32_MAX);
    struct client *c = client_ws_open(h, "/");
    for (int i = 0; i < 6; i++)
        assert_int_equal(client_ws_read(c), IOH_WS_PING);
    client_ws_send(c, IOH_WS_TEXT, "still here");
    while (client_ws_read(c) == IOH_WS_PING)
        ;
    assert_body(c, "still here");
    client_ws_leave(c);
    host_end(h);
}

static void death_without_pings(void **state)
{
    struct host *h = beating_host(state, UINT32_MAX, 100);
    struct client *c = client_ws_open(h, "/");
    client_wait_end(c); /* and nothing came before */
    assert_int_equal(c->len, 0);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_ws_code, 1006);
    host_end(h);
}

static void no_heartbeat_at_all(void **state)
{
    struct host *h = beating_host(state, UINT32_MAX, 0);
    struct client *c = client_ws_open(h, "/");
    poll(NULL, 0, 300);
    client_ws_send(c, IOH_WS_TEXT, "x");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    client_ws_leave(c);
    host_end(h);
}

/* ---- silence that is ours */

static void pause_me(ioh_conn *conn, void *state)
{
    (void)state;
    ioh_pause(conn);
}

static void resume_it(ioh_conn *conn, void *user)
{
    (void)user;
    ioh_resume(conn);
}

static void peer_is_not_dead_while_the_host_does_not_read(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_open = pause_me;
    h->on.on_ws_message = echo;
    h->options.ws_ping_ms = PING_MS;
    h->options.ws_dead_ms = DEAD_MS;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "kept");
    uint64_t until = host_now_ms() + 2 * DEAD_MS;
    while (host_now_ms() < until)
        assert_int_equal(client_ws_read(c), IOH_WS_PING); /* what lies between must not forget it */
    assert_int_equal(ioh_run_on(h->server, h->last_id, resume_it, NULL, NULL), 0);
    int op;
    while ((op = client_ws_read(c)) == IOH_WS_PING)
        ;
    assert_int_equal(op, IOH_WS_TEXT);
    assert_body(c, "kept");
    client_ws_leave(c);
    host_end(h);
}

static struct latch slow;

static void wait_then_echo(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    latch_wait(state, &slow);
    echo(conn, op, data, len, state);
}

static void peer_is_not_dead_while_a_callback_runs(void **state)
{
    struct host *h = host_new(state);
    slow = (struct latch){0};
    h->on.on_ws_message = wait_then_echo;
    h->options.ws_ping_ms = PING_MS;
    h->options.ws_dead_ms = DEAD_MS;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "slow");
    WAIT(h, slow.waiting == 1);
    poll(NULL, 0, 2 * DEAD_MS);
    atomic_store(&slow.open, true);
    while (client_ws_read(c) == IOH_WS_PING)
        ;
    assert_body(c, "slow");
    client_ws_leave(c);
    host_end(h);
}

/* ---- who ended it */

static void end_as_asked(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)op;
    (void)len;
    CHECK((struct host *)state, ioh_ws_closed_by(conn) == IOH_WS_BY_NOBODY);
    switch (*(char *)data) {
    case 'c':
        CHECK((struct host *)state, ioh_ws_close(conn, 1000, NULL, 0) == 0);
        break;
    case 'a':
        ioh_abort(conn);
        break;
    default:
        ioh_close(conn);
        break;
    }
}

static void on_ws_close_can_ask_who_it_was(void **state)
{
    static const struct {
        const char *what;
        int by;
    } cases[] = {{"close", IOH_WS_BY_US},         {"abort", IOH_WS_BY_NOBODY},
                 {"ioh_close", IOH_WS_BY_NOBODY}, {"peer", IOH_WS_BY_PEER},
                 {"fault", IOH_WS_BY_US},         {"break", IOH_WS_BY_NOBODY}};
    struct host *h = host_new(state);
    h->on.on_ws_message = end_as_asked;
    h->on.on_ws_close = note_by;
    host_start(h);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client *c = client_ws_open(h, "/");
        if (i == 3)
            client_ws_close(c, 1000, "");
        else if (i == 4)
            client_ws_frame(c, 0x83, "x", 1);
        else if (i < 3)
            client_ws_send(c, IOH_WS_TEXT, cases[i].what);
        if (i == 0) {
            assert_int_equal(client_ws_read(c), 8);
            client_ws_close(c, 1000, "");
        }
        if (i < 5)
            client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == (int)i + 1);
        assert_int_equal(ended_by, cases[i].by);
    }
    host_end(h);
}

static void our_close_that_nobody_answers_is_still_ours(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = end_as_asked;
    h->on.on_ws_close = note_by;
    h->options.close_timeout_ms = 100;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "close");
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_ws_code, 1006);
    assert_int_equal(ended_by, IOH_WS_BY_US);
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(silent_peer_is_pinged_again_and_again_and_lives_by_its_pongs),
    HOST_TEST(peer_that_does_not_answer_its_ping_is_dead),
    HOST_TEST(any_byte_is_a_sign_of_life),
    HOST_TEST(pings_only_keep_what_is_silent_open_for_ever),
    HOST_TEST(death_without_pings),
    HOST_TEST(no_heartbeat_at_all),
    HOST_TEST(peer_is_not_dead_while_the_host_does_not_read),
    HOST_TEST_IN(peer_is_not_dead_while_a_callback_runs, IN_WAITING | IN_THREADS),
    HOST_TEST(on_ws_close_can_ask_who_it_was),
    HOST_TEST(our_close_that_nobody_answers_is_still_ours),
};

HOST_MAIN(tests)

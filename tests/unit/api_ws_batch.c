/* Messages that came in one read: what the callback of one does holds for those behind it, and in all modes. */
#include "support/common.h"

enum { BEFORE = 3, BEHIND = 4, LARGE = 60000 };

/* The first letter says what to do. */
static void obey(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    switch (len ? *(const char *)data : 0) {
    case 'p':
        ioh_pause(conn);
        break;
    case 'c':
        CHECK(h, ioh_ws_close(conn, 4000, "enough", 6) == 0);
        CHECK(h, ioh_ws_send(conn, op, data, len) == IOH_ESTATE);
        return;
    case 'x':
        ioh_abort(conn);
        return;
    case 'f': {
        uint8_t *bytes = pattern(LARGE);
        CHECK(h, ioh_ws_send(conn, IOH_WS_BINARY, bytes, LARGE) >= 0);
        free(bytes);
        return;
    }
    default:
        break;
    }
    echo(conn, op, data, len, state);
}

/* In one write: some messages, those of `middle`, and some more. */
static void send_batch(struct client *c, const char *middle, size_t len)
{
    uint8_t wire[512];
    size_t n = 0;
    for (int i = 0; i < BEFORE + BEHIND; i++) {
        if (i == BEFORE) {
            memcpy(wire + n, middle, len);
            n += len;
        }
        size_t payload = (size_t)i * 7; /* every size of step in unmasking */
        wire[n] = 0x82;
        wire[n + 1] = (uint8_t)(0x80 | payload);
        memset(wire + n + 2, 5, 4);
        memset(wire + n + 6, 'A' ^ 5, payload);
        n += 6 + payload;
    }
    client_write(c, wire, n);
}

static void expect_echoes(struct client *c, int from, int to)
{
    for (int i = from; i < to; i++) {
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, i * 7);
        for (size_t k = 0; k < c->body_len; k++)
            assert_int_equal(c->body[k], 'A');
    }
}

static struct host *obeying_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = obey;
    host_start(h);
    return h;
}

static void frames_of_all_kinds_between_them_are_each_in_their_place(void **state)
{
    struct host *h = obeying_host(state);
    struct client *c = client_ws_open(h, "/");
    for (int round = 0; round < 3; round++) {
        /* a ping, a message in two fragments, text beyond ASCII, an empty one, one of the longer header */
        static const char middle[] = "\x89\x81\1\1\1\1q"
                                     "\x01\x82\1\1\1\1``\x80\x81\1\1\1\1`"
                                     "\x81\x82\0\0\0\0\xc3\xa9"
                                     "\x81\x80\1\1\1\1"
                                     "\x81\xfe\0\x80\1\1\1\1";
        char with_long[sizeof middle - 1 + 128];
        memcpy(with_long, middle, sizeof middle - 1);
        memset(with_long + sizeof middle - 1, '`', 128);
        send_batch(c, with_long, sizeof with_long);
        expect_echoes(c, 0, BEFORE);
        assert_int_equal(client_ws_read(c), IOH_WS_PONG);
        assert_body(c, "p");
        static const char *const bodies[] = {"aaa", "\xc3\xa9", ""};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
            assert_body(c, bodies[i]);
        }
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_int_equal(c->body_len, 128);
        expect_echoes(c, BEFORE, BEFORE + BEHIND);
    }
    assert_int_equal(host_stats(h).ws_messages_received, 3 * (BEFORE + 4 + BEHIND));
    client_ws_leave(c);
    host_end(h);
}

static void resume(ioh_conn *conn, void *user)
{
    (void)user;
    ioh_resume(conn);
}

static void those_behind_a_pause_wait(void **state)
{
    struct host *h = obeying_host(state);
    struct client *c = client_ws_open(h, "/");
    for (int round = 1; round <= 3; round++) {
        send_batch(c, "\x81\x81\0\0\0\0p", 7);
        expect_echoes(c, 0, BEFORE);
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_int_equal(h->ws_messages, round * (BEFORE + 1) + (round - 1) * BEHIND);
        assert_int_equal(host_run_on(h, h->last_id, resume, NULL, NULL), 0);
        expect_echoes(c, BEFORE, BEFORE + BEHIND);
    }
    client_ws_leave(c);
    host_end(h);
}

static void those_behind_a_close_are_not_delivered(void **state)
{
    struct host *h = obeying_host(state);
    struct client *c = client_ws_open(h, "/");
    send_batch(c, "\x81\x81\0\0\0\0c", 7);
    expect_echoes(c, 0, BEFORE);
    assert_int_equal(client_ws_read(c), 8);
    assert_int_equal(client_ws_code(c), 4000);
    client_ws_close(c, 4000, "");
    client_wait_end(c);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->ws_messages, BEFORE + 1);
    host_end(h);
}

static void those_behind_an_abort_are_not_delivered(void **state)
{
    struct host *h = obeying_host(state);
    struct client *c = client_ws_open(h, "/");
    send_batch(c, "\x81\x81\0\0\0\0x", 7);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->ws_messages, BEFORE + 1);
    client_close(c);
    host_end(h);
}

/* Half a character, and bytes that no text has. */
static void those_behind_bad_text_are_not_delivered(void **state)
{
    static const char bad[][9] = {"\x81\x82\0\0\0\0a\xc3", "\x81\x82\0\0\0\0\xff\xff"};
    struct host *h = obeying_host(state);
    for (int i = 0; i < 2; i++) {
        int before = h->ws_messages;
        struct client *c = client_ws_open(h, "/");
        send_batch(c, bad[i], 8);
        expect_echoes(c, 0, BEFORE);
        assert_int_equal(client_ws_read(c), 8);
        assert_int_equal(client_ws_code(c), 1007);
        client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == i + 1);
        assert_int_equal(h->ws_messages, before + BEFORE);
        assert_int_equal(h->last_ws_code, 1007);
    }
    host_end(h);
}

/* Each answer alone is above the mark, so none is given before the one before it has left. */
static void those_behind_a_full_queue_wait(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = obey;
    h->options.send_high = LARGE / 2;
    h->options.send_low = LARGE / 4;
    h->options.send_max = LARGE + LARGE / 2; /* two do not fit: a reset */
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    send_batch(c, "\x81\x81\0\0\0\0f\x81\x81\0\0\0\0f\x81\x81\0\0\0\0f", 21);
    expect_echoes(c, 0, BEFORE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, LARGE);
    }
    expect_echoes(c, BEFORE, BEFORE + BEHIND);
    client_ws_leave(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(frames_of_all_kinds_between_them_are_each_in_their_place),
    HOST_TEST(those_behind_a_pause_wait),
    HOST_TEST(those_behind_a_close_are_not_delivered),
    HOST_TEST(those_behind_an_abort_are_not_delivered),
    HOST_TEST(those_behind_bad_text_are_not_delivered),
    HOST_TEST(those_behind_a_full_queue_wait),
};

HOST_MAIN(tests)

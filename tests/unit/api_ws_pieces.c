/* WebSockets: messages in pieces, received and sent. */
#include "support/common.h"

/* ---- receiving */

struct gathered {
    uint8_t *bytes;
    size_t len, pieces;
};

/* Puts pieces together and gives the whole back; the client knows what it must be. */
static void gather(ioh_conn *conn, int op, void *data, size_t len, int last, void *state)
{
    struct host *h = state;
    struct seen *s = host_seen(conn);
    struct gathered *g = s->data;
    if (!g)
        s->data = g = calloc(1, sizeof *g);
    g->bytes = realloc(g->bytes, g->len + len + 1);
    if (len) {
        memcpy(g->bytes + g->len, data, len);
        ((uint8_t *)data)[0] ^= 0xff; /* "data may be changed" */
    }
    g->len += len;
    g->pieces++;
    if (!last)
        return;
    CHECK(h, ioh_ws_send(conn, op, g->bytes, g->len) >= 0);
    free(g->bytes);
    *g = (struct gathered){0};
}

static void forget(ioh_conn *conn, void *state)
{
    struct gathered *g = host_seen(conn)->data;
    (void)state;
    if (g)
        free(g->bytes);
    free(g);
    host_seen(conn)->data = NULL;
}

static struct host *gathering_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_piece = gather;
    h->on.on_close = forget;
    return h;
}

static void messages_of_every_size_come_in_pieces(void **state)
{
    static const size_t sizes[] = {0, 1, 125, 126, 4096, 16384, 65535, 65536, 200000, 1000000};
    struct host *h = gathering_host(state);
    h->options.ws_max_message = 1000; /* does not apply */
    host_start(h);
    uint8_t *bytes = pattern(1000000);
    struct client *c = client_ws_open(h, "/");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        client_ws_frame(c, 0x82, bytes, sizes[i]);
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, sizes[i]);
        assert_true(is_pattern(c->body, sizes[i]));
        size_t half = sizes[i] / 2; /* and in fragments, with a ping between */
        client_ws_frame(c, 0x02, bytes, half);
        client_ws_send(c, IOH_WS_PING, "p");
        client_ws_frame(c, 0x80, bytes + half, sizes[i] - half);
        assert_int_equal(client_ws_read(c), IOH_WS_PONG);
        assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
        assert_int_equal(c->body_len, sizes[i]);
        assert_true(is_pattern(c->body, sizes[i]));
    }
    client_ws_leave(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->ws_messages, 20);
    assert_true(h->ws_pieces > 9);
    assert_int_equal(host_stats(h).ws_messages_received, 20);
    host_end(h);
    free(bytes);
}

static void pieces_of_text_end_with_a_character(void **state)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82z";
    struct host *h = gathering_host(state);
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (size_t i = 0; i < sizeof text - 1; i++) /* a fragment a byte; host.h looks at each piece */
        client_ws_frame(c, i == 0 ? 0x01 : i == sizeof text - 2 ? 0x80 : 0x00, text + i, 1);
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, text);
    client_ws_frame(c, 0x01, "\xe2\x82", 2);
    client_ws_frame(c, 0x80, "", 0);
    assert_int_equal(client_ws_read(c), 8);
    assert_int_equal(client_ws_code(c), 1007);
    client_wait_end(c);
    client_close(c);
    host_end(h);
}

/* The bytes that lie behind "switch" are of the next message already. */
static void whole_or_pieces(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    if (len == 6 && memcmp(data, "pieces", 6) == 0)
        CHECK(h, ioh_ws_receive_pieces(conn, 1) == 0);
    else
        CHECK(h, ioh_ws_send(conn, op, "whole", 5) >= 0);
}

static void pieces_or_whole(ioh_conn *conn, int op, void *data, size_t len, int last, void *state)
{
    struct host *h = state;
    (void)data;
    if (!last)
        CHECK(h, ioh_ws_receive_pieces(conn, 1) == 0); /* nothing changes */
    else if (len == 5)
        CHECK(h, ioh_ws_receive_pieces(conn, 0) == 0);
    else
        CHECK(h, ioh_ws_send(conn, op, "piece", 5) >= 0);
}

static void a_host_chooses_from_message_to_message(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = whole_or_pieces;
    h->on.on_ws_piece = pieces_or_whole;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (int i = 0; i < 3; i++) {
        client_send(c, "\x81\x82\1\1\1\1\1\1"
                       "\x81\x86\1\1\1\1qhdbdr" /* pieces */
                       "\x81\x82\1\1\1\1\1\1"
                       "\x81\x85\1\1\1\1\1\1\1\1\1" /* five bytes */
                       "\x81\x82\1\1\1\1\1\1");
        for (int k = 0; k < 3; k++) {
            assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
            assert_body(c, k == 1 ? "piece" : "whole");
        }
    }
    client_ws_leave(c);
    host_end(h);
}

static void other_way(ioh_conn *conn, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_ws_receive_pieces(conn, 0) == (h->on.on_ws_message ? 0 : IOH_ESTATE));
    CHECK(h, ioh_ws_receive_pieces(conn, 1) == (h->on.on_ws_piece ? 0 : IOH_ESTATE));
}

static void other_way_too_early(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_ws_receive_pieces(ioh_req_conn(req), 1) == IOH_ESTATE);
    answer_ok(req, state);
}

static void a_callback_that_is_absent_cannot_be_chosen(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct host *h = i ? gathering_host(state) : host_new(state);
        if (i == 0)
            h->on.on_ws_message = echo;
        h->on.on_ws_open = other_way;
        h->on.on_request = other_way_too_early;
        host_start(h);
        struct client *c = client_open(h);
        assert_int_equal(client_get(c, "/"), 200);
        client_close(c);
        c = client_ws_open(h, "/");
        client_ws_send(c, IOH_WS_TEXT, "x");
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        client_ws_leave(c);
        host_end(h);
    }
}

/* One that leaves in the middle: no last piece, and nothing is left. */
static void a_message_that_is_cut_off_has_no_last_piece(void **state)
{
    struct host *h = gathering_host(state);
    uint8_t *bytes = pattern(100000);
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    client_ws_frame(c, 0x02, bytes, 100000);
    WAIT(h, h->ws_pieces > 0);
    client_close(c);
    WAIT(h, h->closes == 1);
    assert_int_equal(h->last_ws_code, 1006);
    assert_int_equal(h->ws_messages, 0);
    host_end(h);
    free(bytes);
}

/* ---- sending */

enum { PIECES = 50, PIECE = 3000 };

static uint8_t *out_bytes;

static void send_in_pieces(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)data;
    (void)len;
    for (int i = 0; i < PIECES; i++) {
        bool last = i == PIECES - 1;
        CHECK(h, ioh_ws_send_piece(conn, op, out_bytes + i * PIECE, PIECE, last) >= 0);
        if (last)
            break;
        CHECK(h, ioh_ws_send(conn, op, "x", 1) == IOH_ESTATE);
        CHECK(h, ioh_ws_send_buf(conn, op, ioh_buf_copy("x", 1)) == IOH_ESTATE);
        CHECK(h, ioh_ws_send_frame(conn, ioh_ws_frame(op, "x", 1)) == IOH_ESTATE);
        if (i % 10 == 5)
            CHECK(h, ioh_ws_send(conn, IOH_WS_PING, "between", 7) >= 0);
    }
    CHECK(h, ioh_ws_send(conn, op, "behind", 6) >= 0);
    CHECK(h, ioh_ws_send_piece(conn, op, "alone", 5, 1) >= 0);
    CHECK(h, ioh_ws_send_piece(conn, op, "", 0, 0) >= 0);
    CHECK(h, ioh_ws_send_piece(conn, 0, "", 0, 1) >= 0); /* op is not looked at */
}

/* Reads fragments until the last. */
static size_t read_message(struct client *c, uint8_t *to, int op)
{
    size_t len = 0;
    for (bool first = true;; first = false) {
        int got = client_ws_read(c);
        while (got == IOH_WS_PING)
            got = client_ws_read(c);
        assert_int_equal(got, first ? op : 0);
        memcpy(to + len, c->body, c->body_len);
        len += c->body_len;
        if (c->fin)
            return len;
    }
}

static void pieces_are_fragments_of_one_message(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = send_in_pieces;
    h->options.send_high = 1 << 20;
    out_bytes = pattern((size_t)PIECES * PIECE);
    host_start(h);
    uint8_t *got = malloc((size_t)PIECES * PIECE);
    for (int op = IOH_WS_TEXT; op <= IOH_WS_BINARY; op++) {
        struct client *c = client_ws_open(h, "/");
        client_ws_frame(c, 0x80 | op, "go", 2);
        assert_int_equal(read_message(c, got, op), PIECES * PIECE);
        assert_memory_equal(got, out_bytes, PIECES * PIECE);
        assert_int_equal(read_message(c, got, op), 6);
        assert_int_equal(read_message(c, got, op), 5);
        assert_int_equal(read_message(c, got, op), 0);
        client_ws_leave(c);
    }
    WAIT(h, h->closes == 2);
    assert_int_equal(host_stats(h).ws_messages_sent, 8);
    host_end(h);
    free(out_bytes);
    free(got);
}

static void send_pieces_badly(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    static const int bad_ops[] = {-1, 0, 3, 8, 9, 10, 129};
    struct host *h = state;
    for (size_t i = 0; i < sizeof bad_ops / sizeof *bad_ops; i++)
        CHECK(h, ioh_ws_send_piece(conn, bad_ops[i], "x", 1, 0) == IOH_EINVAL);
    CHECK(h, ioh_ws_send_piece(conn, op, NULL, 1, 0) == IOH_EINVAL);
    CHECK(h, ioh_ws_send_piece(conn, op, "x", 1, 2) == IOH_EINVAL);
    CHECK(h, ioh_ws_send_piece(conn, op, "x", 1, -1) == IOH_EINVAL);
    echo(conn, op, data, len, state); /* none of it did anything */
    CHECK(h, ioh_ws_send_piece(conn, op, "cut off", 7, 0) >= 0);
    CHECK(h, ioh_ws_close(conn, 1000, NULL, 0) == 0);
    CHECK(h, ioh_ws_send_piece(conn, op, "x", 1, 1) == IOH_ESTATE);
}

static void no_pieces_yet(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_ws_send_piece(ioh_req_conn(req), IOH_WS_TEXT, "x", 1, 0) == IOH_ESTATE);
    answer_ok(req, state);
}

static void bad_pieces_are_refused_and_a_close_may_cut_a_message_off(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = send_pieces_badly;
    h->on.on_request = no_pieces_yet;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    c = client_ws_open(h, "/");
    client_ws_send(c, IOH_WS_TEXT, "hello");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "hello");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_false(c->fin);
    assert_int_equal(client_ws_read(c), 8);
    client_ws_close(c, 1000, "");
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

/* ---- what others send meanwhile */

static void begin_or_end(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    int last = len == 3 && memcmp(data, "end", 3) == 0;
    CHECK(h, ioh_ws_send_piece(conn, op, data, len, last) >= 0);
    CHECK(h, ioh_ws_send(conn, IOH_WS_PING, "", 0) >= 0); /* tells the client that it is done */
}

static void send_piece(struct client *c, const char *text, int op)
{
    client_ws_send(c, IOH_WS_TEXT, text);
    assert_int_equal(client_ws_read(c), op);
    assert_body(c, text);
}

static void messages_of_others_wait_for_the_last_piece(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = begin_or_end;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    char text[40];
    for (int round = 0; round < 3; round++) {
        send_piece(c, "begin", IOH_WS_TEXT);
        assert_int_equal(client_ws_read(c), IOH_WS_PING);
        for (int i = 0; i < 20; i++) {
            int n = snprintf(text, sizeof text, "post %d", i);
            ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, text, (size_t)n);
            assert_int_equal(ioh_ws_post(h->server, h->last_id, frame), 0);
        }
        ioh_buf *ping = ioh_ws_frame(IOH_WS_PING, "quick", 5);
        assert_int_equal(ioh_ws_post(h->server, h->last_id, ping), 0);
        assert_int_equal(client_ws_read(c), IOH_WS_PING); /* it overtakes the messages */
        assert_body(c, "quick");
        send_piece(c, "middle", 0);
        assert_false(c->fin);
        assert_int_equal(client_ws_read(c), IOH_WS_PING);
        send_piece(c, "end", 0);
        assert_true(c->fin);
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "post %d", i);
            assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
            assert_body(c, text);
        }
        assert_int_equal(client_ws_read(c), IOH_WS_PING);
    }
    client_ws_leave(c);
    host_end(h);
}

/* A topic's publications wait, too, and what waits for a connection that leaves is forgotten. */
static void subscribe_and_begin(ioh_conn *conn, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_subscribe(conn, "news", NULL) == 0);
    CHECK(h, ioh_ws_send_piece(conn, IOH_WS_TEXT, "never ends", 10, 0) >= 0);
}

static void what_waits_for_a_connection_that_leaves_is_forgotten(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_open = subscribe_and_begin;
    h->on.on_ws_message = begin_or_end;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    for (int i = 0; i < 10; i++)
        assert_int_equal(
            ioh_publish(h->server, "news", IOH_WS_TEXT, ioh_buf_copy("held back", 9), NULL), 0);
    assert_int_equal(ioh_ws_post(h->server, h->last_id, ioh_ws_frame(IOH_WS_TEXT, "held back", 9)),
                     0);
    send_piece(c, "middle", 0); /* which nothing came before */
    assert_int_equal(client_ws_read(c), IOH_WS_PING);
    client_close(c);
    WAIT(h, h->closes == 1);
    c = client_ws_open(h, "/");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ioh_publish(h->server, "news", IOH_WS_TEXT, ioh_buf_copy("kept", 4), NULL),
                         0);
    send_piece(c, "middle", 0);
    assert_int_equal(client_ws_read(c), IOH_WS_PING);
    send_piece(c, "end", 0);
    for (int i = 0; i < 11; i++) { /* the ping is before them, or behind those that had come */
        int op = client_ws_read(c);
        if (op != IOH_WS_PING)
            assert_body(c, "kept");
    }
    client_ws_leave(c);
    host_end(h);
}

/* Held back messages count: beyond send_max the connection is reset, or they are dropped. */
static void too_much_that_waits_follows_the_rule_for_full_queues(void **state)
{
    for (int drop = 0; drop < 2; drop++) {
        struct host *h = host_new(state);
        h->on.on_ws_message = begin_or_end;
        h->options.send_high = 20000;
        h->options.send_max = 50000;
        h->options.send_full = drop ? IOH_SEND_FULL_DROP : IOH_SEND_FULL_CLOSE;
        host_start(h);
        uint8_t *bytes = pattern(9000);
        struct client *c = client_ws_open(h, "/");
        send_piece(c, "begin", IOH_WS_TEXT);
        assert_int_equal(client_ws_read(c), IOH_WS_PING);
        for (int i = 0; i < 20; i++)
            ioh_ws_post(h->server, h->last_id, ioh_ws_frame(IOH_WS_BINARY, bytes, 9000));
        WAIT(h, host_stats(h).send_full > 0);
        if (drop) {
            send_piece(c, "end", 0);
            for (int i = 0; i < 5; i++) {
                assert_int_equal(client_ws_read(c), IOH_WS_BINARY);
                assert_int_equal(c->body_len, 9000);
            }
            client_ws_leave(c);
        } else {
            client_wait_end(c);
            client_close(c);
        }
        WAIT(h, h->closes == 1);
        host_end(h);
        free(bytes);
    }
}

static const struct host_test tests[] = {
    HOST_TEST(messages_of_every_size_come_in_pieces),
    HOST_TEST(pieces_of_text_end_with_a_character),
    HOST_TEST(a_host_chooses_from_message_to_message),
    HOST_TEST(a_callback_that_is_absent_cannot_be_chosen),
    HOST_TEST(a_message_that_is_cut_off_has_no_last_piece),
    HOST_TEST(pieces_are_fragments_of_one_message),
    HOST_TEST(bad_pieces_are_refused_and_a_close_may_cut_a_message_off),
    HOST_TEST(messages_of_others_wait_for_the_last_piece),
    HOST_TEST(what_waits_for_a_connection_that_leaves_is_forgotten),
    HOST_TEST(too_much_that_waits_follows_the_rule_for_full_queues),
};

HOST_MAIN(tests)

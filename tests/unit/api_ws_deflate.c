/* Compressed messages (options.ws_deflate) by every function that sends, from callbacks and from other threads. */
#include "support/common.h"

#include <zlib.h>

#define LEN 3000

static char text[LEN + 1];
static z_stream inflater; /* the client's; the tests of a program come one after the other */
static bool keeps, packed;
static char plain[LEN + 100];
static size_t plain_len;

static void fill_text(void)
{
    for (size_t i = 0; i < LEN; i++)
        text[i] = (char)('a' + i * i % 23);
}

/* Reads a message, inflated; its opcode. */
static int read_message(struct client *c)
{
    static uint8_t in[LEN + 100];
    client_forget(c);
    assert_true(client_has(c, 2));
    packed = c->in[0] & 0x40;
    c->in[0] = (uint8_t)(c->in[0] & ~0x40);
    int op = client_ws_read(c);
    assert_true(c->fin && c->body_len + 4 <= sizeof in);
    memcpy(in, c->body, c->body_len);
    memcpy(in + c->body_len, "\0\0\xff\xff", 4);
    inflater.next_out = (Bytef *)plain;
    inflater.avail_out = sizeof plain;
    if (packed) {
        inflater.next_in = in;
        inflater.avail_in = (unsigned)c->body_len + 4;
        assert_int_equal(inflate(&inflater, Z_SYNC_FLUSH), Z_OK);
        assert_int_equal(inflater.avail_in, 0);
        if (!keeps)
            inflateReset(&inflater);
    } else {
        memcpy(plain, c->body, c->body_len);
        inflater.avail_out -= (unsigned)c->body_len;
    }
    plain_len = sizeof plain - inflater.avail_out;
    return op;
}

static struct client *open_packed(struct host *h)
{
    struct client *c = client_open(h);
    client_request(c, "GET", "/", WS_UPGRADE "Sec-WebSocket-Extensions: permessage-deflate\r\n");
    assert_int_equal(client_read(c, true), 101);
    const char *answer = client_field(c, "Sec-WebSocket-Extensions");
    assert_non_null(answer);
    keeps = !strstr(answer, "server_no_context_takeover");
    assert_int_equal(keeps, h->options.ws_deflate == IOH_DEFLATE_TAKEOVER);
    assert_int_equal(inflateInit2(&inflater, -15), Z_OK);
    return c;
}

static void leave(struct client *c)
{
    inflateEnd(&inflater);
    client_ws_leave(c);
}

static void answer_by_all(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    CHECK(h, len == 3);
    (void)data;
    CHECK(h, ioh_ws_send(conn, op, text, LEN) >= 0);
    CHECK(h, ioh_ws_send_buf(conn, op, ioh_buf_copy(text, LEN)) >= 0);
    CHECK(h, ioh_ws_send_frame(conn, ioh_ws_frame(op, text, LEN)) >= 0);
    CHECK(h, ioh_ws_send(conn, op, text, LEN) >= 0);
    CHECK(h, ioh_ws_send_buf(conn, op, ioh_buf_copy(text, 100)) >= 0); /* below the threshold */
    CHECK(h, ioh_ws_send(conn, IOH_WS_PING, text, 120) >= 0);
}

static void sent_in_every_way(void **state, int32_t mode)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = answer_by_all;
    h->options.ws_deflate = mode;
    fill_text();
    host_start(h);
    struct client *c = open_packed(h);
    for (int round = 0; round < 3; round++) {
        client_ws_send(c, IOH_WS_BINARY, "go!");
        for (int i = 0; i < 4; i++) {
            assert_int_equal(read_message(c), IOH_WS_BINARY);
            assert_true(packed);
            assert_int_equal(plain_len, LEN);
            assert_memory_equal(plain, text, LEN);
        }
        assert_int_equal(read_message(c), IOH_WS_BINARY);
        assert_true(!packed && plain_len == 100);
        assert_int_equal(read_message(c), IOH_WS_PING);
        assert_true(!packed && plain_len == 120);
    }
    leave(c);
    host_end(h);
}

static void messages_sent_in_every_way_are_compressed(void **state)
{
    sent_in_every_way(state, IOH_DEFLATE_SHARED);
}

static void with_a_context_of_the_connections_own_too(void **state)
{
    sent_in_every_way(state, IOH_DEFLATE_TAKEOVER);
}

/* ---- from threads of the host's own */

enum { SENDERS = 4, EACH = 100 };

static struct host *host_of_senders;
static _Atomic uint64_t receiver;

static void remember(ioh_conn *conn, void *state)
{
    (void)state;
    atomic_store(&receiver, ioh_conn_get_id(conn));
}

static void *send_many(void *arg)
{
    int number = (int)(intptr_t)arg;
    for (int i = 0; i < EACH; i++) {
        char own[LEN];
        size_t all = 500 + (size_t)i;
        size_t len = (size_t)snprintf(own, sizeof own, "%d %d ", number, i);
        memcpy(own + len, text, all - len);
        ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, own, all);
        CHECK(host_of_senders,
              ioh_ws_post(host_of_senders->server, atomic_load(&receiver), frame) == 0);
    }
    return NULL;
}

static void posted_by_many(void **state, int32_t mode)
{
    struct host *h = host_of_senders = host_new(state);
    pthread_t threads[SENDERS];
    int next[SENDERS] = {0};
    h->on.on_ws_message = echo;
    h->on.on_ws_open = remember;
    h->options.ws_deflate = mode;
    fill_text();
    host_start(h);
    struct client *c = open_packed(h);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < SENDERS * EACH; i++) {
        int number = -1, serial = -1, len = 0;
        assert_int_equal(read_message(c), IOH_WS_TEXT);
        assert_true(packed);
        plain[plain_len] = '\0';
        assert_int_equal(sscanf(plain, "%d %d %n", &number, &serial, &len), 2);
        assert_in_range(number, 0, SENDERS - 1);
        assert_int_equal(serial, next[number]++);
        assert_int_equal(plain_len, 500 + serial);
        assert_memory_equal(plain + len, text, plain_len - (size_t)len);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    leave(c);
    host_end(h);
}

static void messages_of_many_threads_are_each_whole_and_in_order(void **state)
{
    posted_by_many(state, IOH_DEFLATE_SHARED);
    posted_by_many(state, IOH_DEFLATE_TAKEOVER);
}

static const struct host_test tests[] = {
    HOST_TEST(messages_sent_in_every_way_are_compressed),
    HOST_TEST(with_a_context_of_the_connections_own_too),
    HOST_TEST(messages_of_many_threads_are_each_whole_and_in_order),
};

HOST_MAIN(tests)

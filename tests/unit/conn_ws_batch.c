/* How many system calls WebSocket messages cost: what comes in one read is answered in one write. */
#include "support/common.h"

#include <sys/socket.h>

enum { MESSAGES = 16 };

static atomic_int reads, writes;

ssize_t __real_recv(int fd, void *data, size_t len, int flags);
ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
    ssize_t n = __real_recv(fd, data, len, flags);
    atomic_fetch_add(&reads, host_of_thread != NULL);
    return n;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    atomic_fetch_add(&writes, host_of_thread != NULL);
    return __real_send(fd, data, len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    atomic_fetch_add(&writes, host_of_thread != NULL);
    return __real_sendmsg(fd, message, flags);
}

/* MESSAGES frames in one write of the client's. */
static void send_together(struct client *c, size_t len)
{
    size_t frame = 2 + 4 + len;
    uint8_t *wire = calloc(MESSAGES, frame);
    assert_non_null(wire);
    assert_true(len < 126);
    for (size_t i = 0; i < MESSAGES; i++) {
        wire[i * frame] = 0x81;
        wire[i * frame + 1] = (uint8_t)(0x80 | len); /* a key of zeros */
        memset(wire + i * frame + 6, 'a' + (int)i, len);
    }
    client_write(c, wire, MESSAGES * frame);
    free(wire);
}

static void expect_all(struct client *c, size_t len)
{
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
        assert_int_equal(c->body_len, len);
        assert_int_equal(c->body[0], 'a' + i);
    }
}

static void sixteen_pipelined_messages_are_one_read_and_one_write(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = echo;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    for (int round = 0; round < 5; round++) {
        WAIT(h, h->ws_messages == round * MESSAGES);
        atomic_store(&reads, 0);
        atomic_store(&writes, 0);
        send_together(c, 64);
        expect_all(c, 64);
        assert_int_equal(reads, 1);
        assert_int_equal(writes, 1);
    }
    client_ws_leave(c);
    host_end(h);
}

static void answer_by_every_way(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_ws_send(conn, op, data, len) == 0);
    CHECK(h, ioh_ws_send(conn, IOH_WS_PING, "p", 1) == 0);
    CHECK(h, ioh_ws_send_buf(conn, op, ioh_buf_copy(data, len)) == 0);
    CHECK(h, ioh_ws_send_frame(conn, ioh_ws_frame(op, data, len)) == 0);
}

/* Whatever they were sent by, and a large buf that is not copied among them. */
static void all_that_a_turn_sends_is_one_write(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = answer_by_every_way;
    host_start(h);
    struct client *c = client_ws_open(h, "/");
    uint8_t *bytes = pattern(6000);
    for (int round = 0; round < 2; round++) {
        size_t len = round ? 6000 : 10;
        WAIT(h, h->ws_messages == round);
        atomic_store(&writes, 0);
        client_ws_frame(c, 0x82, bytes, len);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(client_ws_read(c), i == 1 ? IOH_WS_PING : IOH_WS_BINARY);
            assert_int_equal(c->body_len, i == 1 ? 1 : len);
        }
        assert_int_equal(writes, 1);
    }
    client_ws_leave(c);
    host_end(h);
    free(bytes);
}

/* Where callbacks run on the thread that reads. Under AUTO they do, too, unless one is late, which a slow machine may
 * bring about. */
static const struct host_test tests[] = {
    HOST_TEST_IN(sixteen_pipelined_messages_are_one_read_and_one_write,
                 IN_INLINE | IN_THREADS | IN_ONE_LOOP),
    HOST_TEST_IN(all_that_a_turn_sends_is_one_write, IN_INLINE | IN_THREADS | IN_ONE_LOOP),
};

HOST_MAIN(tests)

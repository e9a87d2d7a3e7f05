/* WebSockets: no memory for what a callback on another thread wants to be sent. The connection is aborted, as on the
 * loop, and does not stay open with a hole in it.
 */
#include "support/common.h"

static _Thread_local bool failing;

void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return failing ? NULL : __real_malloc(size);
}

static int send_one(ioh_conn *conn)
{
    return ioh_ws_send(conn, IOH_WS_TEXT, "x", 1);
}

static int send_buf(ioh_conn *conn)
{
    static const char bytes[] = "x";
    failing = false;
    ioh_buf *buf = ioh_buf_copy(bytes, 1);
    failing = true;
    return ioh_ws_send_buf(conn, IOH_WS_TEXT, buf);
}

static int send_frame(ioh_conn *conn)
{
    failing = false;
    ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, "x", 1);
    failing = true;
    return ioh_ws_send_frame(conn, frame);
}

static int send_first_piece(ioh_conn *conn)
{
    return ioh_ws_send_piece(conn, IOH_WS_TEXT, "x", 1, 0);
}

static int send_last_piece(ioh_conn *conn)
{
    failing = false;
    ioh_ws_send_piece(conn, IOH_WS_TEXT, "x", 1, 0);
    failing = true;
    return ioh_ws_send_piece(conn, 0, "x", 1, 1);
}

static int choose_pieces(ioh_conn *conn)
{
    return ioh_ws_receive_pieces(conn, 0);
}

static int close_it(ioh_conn *conn)
{
    return ioh_ws_close(conn, 1000, NULL, 0);
}

static int abort_it(ioh_conn *conn)
{
    ioh_abort(conn);
    return IOH_ENOMEM;
}

static int close_at_once(ioh_conn *conn)
{
    ioh_close(conn);
    return IOH_ENOMEM;
}

static int (*const ways[])(ioh_conn *) = {send_one,         send_buf,        send_frame,
                                          send_first_piece, send_last_piece, choose_pieces,
                                          close_it,         abort_it,        close_at_once};
enum { WAYS = sizeof ways / sizeof *ways };

static void say_without_memory(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)op;
    (void)len;
    failing = true;
    int rc = ways[*(char *)data - 'a'](conn);
    failing = false;
    CHECK(h, rc == IOH_ENOMEM);
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "behind", 6) == IOH_EGONE);
}

static void what_cannot_be_posted_aborts_the_connection(void **state)
{
    struct host *h = host_new(state);
    h->on.on_ws_message = say_without_memory;
    host_start(h);
    for (int way = 0; way < WAYS; way++) {
        struct client *c = client_ws_open(h, "/");
        char text[] = {(char)('a' + way), '\0'};
        client_ws_send(c, IOH_WS_TEXT, text);
        client_wait_end(c);
        client_close(c);
        WAIT(h, h->closes == way + 1);
        assert_int_equal(h->last_ws_code, 1006);
    }
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(what_cannot_be_posted_aborts_the_connection, IN_AWAY),
};

HOST_MAIN(tests)

/* Whole servers while the system calls of their threads fail or do less than they might: nothing is lost,
 * nothing hangs, every on_open has its on_close, and afterwards all is well.
 */
#include "support/live_workers.h"

#include <sys/epoll.h>

/* ---- faults */

/* The next `times` calls of a kind, in the server's threads, do something else. */
struct fault {
    _Atomic int times;
    _Atomic int error; /* 0: the call is cut short, to one byte */
    _Atomic int last;  /* the errno of the last of them, 0: like the others */
};

static struct fault recv_fault, send_fault, change_fault;
static _Atomic unsigned one_in; /* by chance: so seldom a call fails or is cut; 0: never */
static _Atomic unsigned sends, changes;

ssize_t __real_recv(int fd, void *data, size_t len, int flags);
ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

enum outcome { WORKS, FAILS, SHORT };

static enum outcome outcome_of(struct fault *f)
{
    if (!in_server)
        return WORKS;
    unsigned n = one_in;
    if (n && chance(n) == 0) {
        static const int errors[] = {EINTR, EAGAIN};
        unsigned which = chance(3);
        errno = errors[which % 2];
        return which == 2 ? SHORT : FAILS;
    }
    int left = f->times <= 0 ? 0 : atomic_fetch_sub(&f->times, 1);
    if (left <= 0)
        return WORKS;
    errno = left == 1 && f->last ? f->last : f->error;
    return errno ? FAILS : SHORT;
}

static void inject(struct fault *f, int error, int times)
{
    f->error = error;
    f->last = 0;
    f->times = times;
}

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
    enum outcome o = outcome_of(&recv_fault);
    return o == FAILS ? -1 : __real_recv(fd, data, o == SHORT ? 1 : len, flags);
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    sends += in_server;
    enum outcome o = outcome_of(&send_fault);
    return o == FAILS ? -1 : __real_send(fd, data, o == SHORT ? 1 : len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    sends += in_server;
    enum outcome o = outcome_of(&send_fault);
    if (o == SHORT)
        return __real_send(fd, message->msg_iov[0].iov_base, 1, flags);
    return o == FAILS ? -1 : __real_sendmsg(fd, message, flags);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    changes += in_server && op == EPOLL_CTL_MOD;
    if (op == EPOLL_CTL_MOD && in_server && change_fault.times > 0 &&
        atomic_fetch_sub(&change_fault.times, 1) > 0) {
        errno = change_fault.error;
        return -1;
    }
    return __real_epoll_ctl(epfd, op, fd, event);
}

static int no_faults(void **state)
{
    recv_fault.times = send_fault.times = change_fault.times = 0;
    one_in = 0;
    return end_server(state);
}

/* ---- reading */

static const int passing[] = {EINTR, EAGAIN};

static void a_read_that_is_interrupted_or_finds_nothing_is_tried_again(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    for (size_t i = 0; i < 2; i++) {
        int fd = connect_client();
        inject(&recv_fault, passing[i], 5);
        ping(fd);
        assert_int_equal(recv_fault.times, 0);
        inject(&recv_fault, passing[i], 5);
        assert_int_equal(post(fd, big, BIG, BIG / 2), 200);
        assert_memory_equal(answer_body, big, BIG);
        close(fd);
    }
    stop_server();
}

static void bytes_that_come_one_by_one_are_a_request_all_the_same(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    inject(&recv_fault, 0, 1000);
    assert_int_equal(post(fd, big, 500, 100), 200);
    assert_int_equal(answer_len, 500);
    assert_memory_equal(answer_body, big, 500);
    assert_true(ws_connect(fd));
    ws_echo(fd, big, 200);
    assert_true(recv_fault.times < 200);
    close(fd);
    stop_server();
}

static void a_read_that_breaks_ends_the_connection_and_no_other(void **state)
{
    (void)state;
    static const int errors[] = {ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOMEM};
    start_server("127.0.0.1:0", 1);
    int other = connect_client();
    ping(other);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        int fd = connect_client();
        ping(fd);
        inject(&recv_fault, errors[i], 1);
        say_text(fd, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n");
        hear_the_end(fd);
        close(fd);
        wait_until(get_stats().connections == 1);
        assert_int_equal(get_stats().closed_by_peer, i + 1);
        ping(other);
    }
    close(other);
    stop_server();
}

static void a_read_that_breaks_in_a_body_completes_the_request_with_status_0(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    say_text(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    wait_until(live.record[0].requests == 1);
    inject(&recv_fault, ECONNRESET, 1);
    say_text(fd, "6");
    hear_the_end(fd);
    wait_until(live.record[0].closes == 1);
    assert_int_equal(live.record[0].completes, 1);
    assert_int_equal(live.last_status, 0);
    close(fd);
    stop_server();
}

static void a_read_that_breaks_a_websocket_tells_its_end(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    assert_true(ws_connect(fd));
    ws_echo(fd, "x", 1);
    assert_true(ws_say(fd, 0x02, big, 30000, 20000)); /* a fragment is under way */
    wait_until(get_stats().bytes_received > 30000);
    inject(&recv_fault, ECONNRESET, 1);
    ws_say(fd, 0x80, big, 10, 0);
    hear_the_end(fd);
    close(fd);
    wait_until(live.record[0].closes == 1);
    assert_int_equal(live.record[0].ws_closes, 1);
    stop_server();
}

/* ---- writing */

static void answers_that_leave_byte_by_byte_arrive_whole(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    for (size_t i = 0; i < 3; i++) {
        unsigned before = sends;
        inject(&send_fault, 0, 300);
        ask_big(fd, big_paths[i]);
        assert_int_equal(send_fault.times, 0);
        assert_true(sends - before > 300);
    }
    inject(&send_fault, 0, 1000);
    ping(fd);
    inject(&send_fault, 0, 300);
    assert_true(ws_connect(fd));
    inject(&send_fault, 0, 300);
    ws_echo(fd, big, 70000);
    close(fd);
    stop_server();
}

static void a_write_that_finds_no_room_goes_on_when_there_is_some(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 3; i++) {
            inject(&send_fault, passing[k], 3);
            unsigned before = changes;
            ask_big(fd, big_paths[i]);
            assert_int_equal(send_fault.times, 0);
            assert_true(changes - before >= 1); /* EPOLLOUT was asked for */
            ping(fd);
        }
    }
    assert_true(ws_connect(fd));
    inject(&send_fault, EAGAIN, 3);
    ws_echo(fd, big, BIG);
    close(fd);
    stop_server();
}

static void pipelined_answers_keep_their_order_through_short_writes(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    char requests[COUNT * 64 + 1] = "";
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    for (int i = 0; i < COUNT; i++)
        strcat(requests, i % 2 ? "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"
                               : "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    one_in = 3;
    assert_true(say_text(fd, requests));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(hear_answer(fd), 200);
        assert_int_equal(answer_len, i % 2 ? 4 : BIG);
        assert_memory_equal(answer_body, i % 2 ? "pong" : big, answer_len);
    }
    close(fd);
    stop_server();
}

static void a_write_that_breaks_ends_the_connection_and_no_other(void **state)
{
    (void)state;
    static const int errors[] = {EPIPE, ECONNRESET, ENOBUFS};
    start_server("127.0.0.1:0", 1);
    int other = connect_client();
    ping(other);
    unsigned closed = 0;
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++) {
            int fd = connect_client();
            inject(&send_fault, errors[i], 1);
            assert_int_equal(ask(fd, big_paths[k]), 0);
            close(fd);
            wait_until(get_stats().connections == 1);
            assert_int_equal(get_stats().closed_by_peer, ++closed);
            ping(other);
        }
    }
    close(other);
    stop_server();
}

static void a_write_that_breaks_in_the_middle_completes_the_request(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    for (unsigned i = 0; i < 3; i++) {
        int fd = connect_client();
        inject(&send_fault, 0, 0);
        send_fault.last = EPIPE;
        send_fault.times = 11; /* ten bytes leave before it breaks */
        assert_int_equal(ask(fd, big_paths[i]), 0);
        close(fd);
        wait_until(live.record[i].closes == 1);
        assert_int_equal(send_fault.times, 0);
        assert_int_equal(live.record[i].completes, 1);
    }
    ping_anew();
    stop_server();
}

static void a_write_that_breaks_a_websocket_tells_its_end(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    for (unsigned i = 0; i < 2; i++) {
        int fd = connect_client();
        if (i == 1)
            assert_true(ws_connect(fd));
        inject(&send_fault, EPIPE, 1); /* the answer to the handshake, or to a message */
        if (i == 0)
            assert_false(ws_connect(fd));
        else
            assert_true(ws_say(fd, 0x82, big, 1000, 0));
        hear_the_end(fd);
        close(fd);
        wait_until(live.record[i].closes == 1);
    }
    stop_server();
}

/* ---- the poller */

static void a_change_that_the_poller_refuses_resets_the_connection(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int fd = connect_client();
    inject(&change_fault, ENOMEM, 1);
    inject(&send_fault, EAGAIN, 1);
    assert_int_equal(ask(fd, "/big"), 0);
    close(fd);
    wait_until(live.record[0].closes == 1);
    assert_true(logged("epoll refuses a connection"));
    assert_int_equal(live.record[0].completes, 1);
    ping_anew();
    stop_server();
}

/* ---- by chance, all at once */

static void many_clients_are_served_while_calls_fail_by_chance(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 2);
    one_in = 4;
    assert_int_equal(serve_many(4), WORKERS * 4);
    stop_server();
    assert_int_equal(live.records, WORKERS * 4);
}

#define test_of(test) cmocka_unit_test_teardown(test, no_faults)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of(a_read_that_is_interrupted_or_finds_nothing_is_tried_again),
        test_of(bytes_that_come_one_by_one_are_a_request_all_the_same),
        test_of(a_read_that_breaks_ends_the_connection_and_no_other),
        test_of(a_read_that_breaks_in_a_body_completes_the_request_with_status_0),
        test_of(a_read_that_breaks_a_websocket_tells_its_end),
        test_of(answers_that_leave_byte_by_byte_arrive_whole),
        test_of(a_write_that_finds_no_room_goes_on_when_there_is_some),
        test_of(pipelined_answers_keep_their_order_through_short_writes),
        test_of(a_write_that_breaks_ends_the_connection_and_no_other),
        test_of(a_write_that_breaks_in_the_middle_completes_the_request),
        test_of(a_write_that_breaks_a_websocket_tells_its_end),
        test_of(a_change_that_the_poller_refuses_resets_the_connection),
        test_of(many_clients_are_served_while_calls_fail_by_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

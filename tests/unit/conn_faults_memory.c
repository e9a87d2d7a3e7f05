/* Whole servers while memory runs out: nothing leaks, nothing hangs, every on_open has its on_close, and
 * afterwards all is well.
 */
#include "support/live_workers.h"

/* ---- memory that fails when told, in the server's threads */

static _Atomic long memory_left; /* so many requests for memory before they fail; < 0: all work */
static _Atomic bool once;        /* only that one fails */
static _Atomic unsigned memory_one_in; /* by chance: one in so many fails; 0: none */
static _Atomic long memory_count;      /* requests of the server's threads */
static _Atomic long refused;           /* of them */
static _Atomic bool everywhere;        /* not only in the server's threads */

static _Atomic unsigned full_one_in; /* by chance: a write finds no room once in so many */

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);

static bool no_memory(void)
{
    if (!in_server && !everywhere)
        return false;
    memory_count++;
    unsigned n = memory_one_in;
    if (n && chance(n) == 0) {
        refused++;
        return true;
    }
    long left = memory_left;
    if (left < 0)
        return false;
    if (left > 0) {
        memory_left = left - 1;
        return false;
    }
    if (once)
        memory_left = -1;
    refused++;
    return true;
}

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

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return no_memory() ? NULL : __real_aligned_alloc(alignment, size);
}

/* What cannot be written takes memory. */
static bool no_room(void)
{
    unsigned n = full_one_in;
    errno = EAGAIN;
    return in_server && n && chance(n) == 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    return no_room() ? -1 : __real_send(fd, data, len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return no_room() ? -1 : __real_sendmsg(fd, message, flags);
}

static int no_faults(void **state)
{
    full_one_in = memory_one_in = 0;
    memory_left = -1;
    everywhere = false;
    return end_server(state);
}

/* ---- one after the other */

static bool has_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* A bit of everything, with pauses where the server has to keep what it has. Whatever a connection
 * suffers, it is either served or ended. */
static void try_everything(void)
{
    int fd = connect_client();
    if (say_text(fd, "GET /ping HTTP/1.1\r\nHo")) {
        wait_until(get_stats().bytes_received > 0 || has_ended(fd));
        if (say_text(fd, "st: a\r\n\r\n"))
            hear_answer(fd);
    }
    for (size_t i = 0; i < 3; i++)
        ask(fd, big_paths[i]);
    post(fd, big, 5000, 100);
    close(fd);

    fd = connect_client();
    if (say_text(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /chunks HTTP/1.1\r\nHost: a\r\n\r\n"))
        for (int i = 0; i < 2 && hear_answer(fd); i++)
            ;
    say_text(fd, "BAD\r\n\r\n");
    hear_the_end(fd);
    close(fd);

    fd = connect_client();
    if (ws_connect(fd)) {
        (void)(ws_say(fd, 0x81, "hello", 5, 0) && ws_hear(fd));
        (void)(ws_say(fd, 0x89, "ping", 4, 0) && ws_hear(fd));
        (void)(ws_say(fd, 0x02, big, 20000, 10000) && ws_say(fd, 0x80, big, 50000, 3) &&
               ws_hear(fd));
        (void)(ws_say(fd, 0x82, big, BIG, 50000) && ws_hear(fd));
        ws_say(fd, 0x88,
               "\x03\xe8"
               "bye",
               5, 0);
    }
    hear_the_end(fd);
    close(fd);
}

static void survive(long n, bool just_once)
{
    start_server("127.0.0.1:0", 1);
    refused = memory_count = 0;
    once = just_once;
    memory_left = n;
    try_everything();
    memory_left = -1;
    ping_anew();
    int fd = connect_client();
    assert_true(ws_connect(fd));
    ws_echo(fd, big, 30000);
    close(fd);
    stop_server();
}

/* The server of each round has never allocated before, so that every request for memory is among those
 * that fail. */
static void when_the_nth_request_for_memory_fails_the_server_lives_on(void **state)
{
    (void)state;
    long n = 0;
    do {
        survive(n++, true);
    } while (refused && n < 300);
    assert_int_equal(refused, 0); /* the last round: all of them were tried */
    assert_true(n > 20);
}

static void when_all_memory_is_gone_for_a_while_the_server_lives_on(void **state)
{
    (void)state;
    for (long n = 0; n < 60; n += n < 20 ? 1 : 5) {
        survive(n, false);
        if (n == 0)
            assert_true(refused > 1);
        if (!refused)
            break;
    }
}

static void a_server_that_cannot_begin_leaves_nothing_and_says_why(void **state)
{
    (void)state;
    struct ioh_handler h = host_handler();
    forget_all();
    long n = 0, rc;
    do {
        everywhere = once = true;
        memory_left = n++;
        rc = try_start("127.0.0.1:0", 3, &h);
        memory_left = -1;
        assert_true(rc == 0 || rc == IOH_ENOMEM);
    } while (rc && n < 100);
    everywhere = false;
    assert_int_equal(rc, 0);
    assert_true(n > 10);
    ping_anew();
    stop_server();
}

static void a_start_that_failed_for_memory_says_so(void **state)
{
    (void)state;
    struct ioh_handler h = host_handler();
    struct ioh_options o = IOH_OPTIONS_INIT;
    o.epoll_threads = 1;
    forget_all();
    assert_int_equal(ioh_server_create(&live.server, &h, &o, NULL), 0);
    everywhere = once = true;
    memory_left = 0;
    assert_int_equal(ioh_server_listen(live.server, "127.0.0.1:0", NULL), IOH_ENOMEM);
    assert_string_not_equal(ioh_server_error(live.server), "");
    assert_int_equal(ioh_server_listen(live.server, "127.0.0.1:0", NULL), 0);
    memory_left = 3;
    assert_int_equal(ioh_server_start(live.server), IOH_ENOMEM);
    assert_non_null(strstr(ioh_server_error(live.server), strerror(ENOMEM)));
}

/* ---- to a connection, from another thread, without memory */

static _Atomic ioh_conn_id last_id;
static _Atomic int ran, gone;

static int open_and_tell(ioh_conn *conn, void *state)
{
    last_id = ioh_conn_get_id(conn);
    return host_open(conn, state);
}

static void count_run(ioh_conn *conn, void *user)
{
    (void)conn;
    (void)user;
    ran++;
}

static void count_gone(void *user)
{
    (void)user;
    gone++;
}

static unsigned released;

static void count_release(void *data, size_t len, void *user)
{
    (void)data;
    (void)len;
    (void)user;
    released++;
}

static void without_memory_nothing_is_handed_over_and_nothing_kept(void **state)
{
    (void)state;
    struct ioh_handler h = host_handler();
    h.on_open = open_and_tell;
    forget_all();
    ran = gone = 0;
    assert_int_equal(try_start("127.0.0.1:0", 1, &h), 0);
    int fd = connect_client();
    assert_true(ws_connect(fd));
    ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, "hello", 5);
    assert_non_null(frame);
    everywhere = once = true;
    memory_left = 0;
    assert_int_equal(ioh_run_on(live.server, last_id, count_run, NULL, count_gone), IOH_ENOMEM);
    memory_left = 0;
    assert_int_equal(ioh_ws_post(live.server, last_id, ioh_buf_ref(frame)), IOH_ENOMEM);
    everywhere = false;
    memory_left = -1;
    assert_int_equal(ioh_run_on(live.server, last_id, count_run, NULL, count_gone), 0);
    assert_int_equal(ioh_ws_post(live.server, last_id, frame), 0);
    assert_int_equal(ws_hear(fd), 0x81);
    assert_int_equal(answer_len, 5);
    close(fd);
    stop_server();
    assert_int_equal(ran, 1);
    assert_int_equal(gone, 0);
}

static void a_buf_without_memory_for_its_frame_is_released(void **state)
{
    (void)state;
    released = 0;
    everywhere = once = true;
    memory_left = 0;
    assert_null(ioh_buf_wrap(big, BIG, count_release, NULL));
    memory_left = 0;
    assert_null(ioh_buf_copy(big, BIG));
    memory_left = 0;
    assert_null(ioh_ws_frame(IOH_WS_TEXT, big, BIG));
    memory_left = 0;
    assert_null(ioh_response_create(200, NULL, 0, big, BIG));
    assert_int_equal(released, 0);
}

/* ---- by chance */

static void many_clients_are_served_or_ended_while_memory_fails_by_chance(void **state)
{
    (void)state;
    unsigned served = 0;
    for (unsigned round = 0; round < 8; round++) {
        start_server("127.0.0.1:0", 2);
        refused = 0;
        full_one_in = 5;
        memory_one_in = 2 + round;
        served += serve_many(3);
        memory_one_in = full_one_in = 0;
        assert_true(refused > 0);
        ping_anew();
        stop_server();
    }
    assert_true(served > 0);
}

#define test_of(test) cmocka_unit_test_teardown(test, no_faults)

int main(void)
{
    memory_left = -1;
    const struct CMUnitTest tests[] = {
        test_of(many_clients_are_served_or_ended_while_memory_fails_by_chance),
        test_of(when_the_nth_request_for_memory_fails_the_server_lives_on),
        test_of(when_all_memory_is_gone_for_a_while_the_server_lives_on),
        test_of(a_server_that_cannot_begin_leaves_nothing_and_says_why),
        test_of(a_start_that_failed_for_memory_says_so),
        test_of(without_memory_nothing_is_handed_over_and_nothing_kept),
        test_of(a_buf_without_memory_for_its_frame_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The plain transport on a pair of sockets: what its answers mean, and that nobody is sent a signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn/conn.h"

#define FILE_LEN 4000000u

static struct ioh__hub *hub;
static ioh_conn conn;
static int peer, file;
static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static int set_up(void **state)
{
    int pair[2];
    (void)state;
    hub = aligned_alloc(_Alignof(struct ioh__hub), sizeof *hub);
    assert_non_null(hub);
    memset(hub, 0, sizeof *hub);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    memset(&conn, 0, sizeof conn);
    conn.hub = hub;
    conn.chan.fd = pair[0];
    peer = pair[1];
    file = memfd_create("ioh-test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, FILE_LEN), 0);
    assert_int_equal(pwrite(file, "the end", 7, FILE_LEN - 7), 7);
    signals = 0;
    signal(SIGPIPE, count_signal);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    close(conn.chan.fd);
    if (peer >= 0)
        close(peer);
    close(file);
    free(hub);
    return 0;
}

static void peer_leaves(void)
{
    close(peer);
    peer = -1;
}

static ssize_t write_text(const char *text, bool more)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)text, 1},
                           {(void *)(uintptr_t)(text + 1), strlen(text) - 1}};
    return ioh__xport_plain.write(&conn, iov, 2, more);
}

static void bytes_go_in_and_out(void **state)
{
    char data[100];
    struct iovec one = {(void *)(uintptr_t) "third", 5};
    (void)state;
    assert_int_equal(ioh__xport_plain.read(&conn, data, sizeof data), IOH__XPORT_AGAIN);
    assert_int_equal(write_text("first ", true), 6);
    assert_int_equal(write_text("second ", false), 7);
    assert_int_equal(ioh__xport_plain.write(&conn, &one, 1, false), 5);
    assert_int_equal(read(peer, data, sizeof data), 18);
    assert_memory_equal(data, "first second third", 18);
    assert_int_equal(write(peer, "back", 4), 4);
    assert_int_equal(ioh__xport_plain.read(&conn, data, sizeof data), 4);
    ioh__xport_plain.finish(&conn);
    assert_int_equal(read(peer, data, sizeof data), 0);
    shutdown(peer, SHUT_WR);
    assert_int_equal(ioh__xport_plain.read(&conn, data, sizeof data), 0);
}

static void a_file_goes_as_far_as_there_is_room(void **state)
{
    static char data[FILE_LEN];
    size_t sent = 0, got = 0;
    (void)state;
    while (got < FILE_LEN) {
        ssize_t n = ioh__xport_plain.send_file(&conn, file, sent, FILE_LEN - sent);
        if (n == IOH__XPORT_AGAIN) {
            assert_true(sent > got);
            ssize_t r = read(peer, data + got, sizeof data - got);
            assert_true(r > 0);
            got += (size_t)r;
            continue;
        }
        assert_true(n > 0 || sent == FILE_LEN);
        sent += n > 0 ? (size_t)n : 0;
        if (sent == FILE_LEN) {
            ssize_t r = read(peer, data + got, sizeof data - got);
            assert_true(r > 0);
            got += (size_t)r;
        }
    }
    assert_memory_equal(data + FILE_LEN - 7, "the end", 7);
}

static void behind_its_end_a_file_gives_nothing(void **state)
{
    (void)state;
    assert_int_equal(ioh__xport_plain.send_file(&conn, file, FILE_LEN, 10), 0);
    assert_int_equal(ioh__xport_plain.send_file(&conn, file, FILE_LEN - 7, 10), 7);
}

static void what_is_no_file_has_to_be_read(void **state)
{
    (void)state;
    int folder = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(ioh__xport_plain.send_file(&conn, folder, 0, 10), IOH__XPORT_UNABLE);
    close(folder);
}

static void writing_to_a_peer_that_has_left_raises_no_signal(void **state)
{
    (void)state;
    peer_leaves();
    assert_int_equal(write_text("text", false), IOH__XPORT_BROKEN);
    assert_int_equal(signals, 0);
}

static bool pipe_is_pending(void)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, SIGPIPE);
}

/* sendfile(2) cannot be told to raise none: a thread of the host's that drives the loop is spared it. */
static void a_driven_loop_sends_files_without_a_signal(void **state)
{
    (void)state;
    hub->stepping = true;
    assert_int_equal(ioh__xport_plain.send_file(&conn, file, 0, 10), 10);
    peer_leaves();
    assert_int_equal(ioh__xport_plain.send_file(&conn, file, 0, 10), IOH__XPORT_BROKEN);
    assert_int_equal(signals, 0);
    assert_false(pipe_is_pending());
    raise(SIGPIPE); /* not blocked afterwards */
    assert_int_equal(signals, 1);
}

/* One of the host's own that was pending before is not ours to take. */
static void the_hosts_own_signal_stays_pending(void **state)
{
    sigset_t set, before;
    (void)state;
    hub->stepping = true;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    raise(SIGPIPE);
    peer_leaves();
    assert_int_equal(ioh__xport_plain.send_file(&conn, file, 0, 10), IOH__XPORT_BROKEN);
    assert_true(pipe_is_pending());
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(signals, 1);
}

#define with_pair(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_pair(bytes_go_in_and_out),
        with_pair(a_file_goes_as_far_as_there_is_room),
        with_pair(behind_its_end_a_file_gives_nothing),
        with_pair(what_is_no_file_has_to_be_read),
        with_pair(writing_to_a_peer_that_has_left_raises_no_signal),
        with_pair(a_driven_loop_sends_files_without_a_signal),
        with_pair(the_hosts_own_signal_stays_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

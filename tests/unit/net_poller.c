/* The poller: interest, tags, waiting; each test with both kinds, epoll(7) and poll(2). */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include <iohandler/error.h>

#include "net/poller.h"

static struct ioh__poller poller;
static struct epoll_event events[4];
static int ends[2]; /* of a pipe */

static bool create_fails;

int __real_epoll_create1(int flags);

int __wrap_epoll_create1(int flags)
{
    errno = EMFILE;
    return create_fails ? -1 : __real_epoll_create1(flags);
}

/* state: not NULL for poll(2) */
static int set_up(void **state)
{
    create_fails = false;
    return pipe(ends) ? -1 : ioh__poller_init(&poller, *state != NULL);
}

static int tear_down(void **state)
{
    (void)state;
    ioh__poller_destroy(&poller);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void a_ready_descriptor_is_told_with_its_tag_until_it_is_read(void **state)
{
    (void)state;
    char byte;
    assert_int_equal(ioh__poller_add(&poller, ends[0], EPOLLIN, 0xfedcba9876543210u), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    for (int i = 0; i < 2; i++) { /* level triggered */
        memset(events, 0, sizeof events);
        assert_int_equal(ioh__poller_wait(&poller, events, 4, -1), 1);
        assert_int_equal(events[0].events, EPOLLIN);
        assert_true(events[0].data.u64 == 0xfedcba9876543210u);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
}

static void a_changed_interest_replaces_the_old_one(void **state)
{
    (void)state;
    assert_int_equal(ioh__poller_add(&poller, ends[1], 0, 7), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
    assert_int_equal(ioh__poller_change(&poller, ends[1], EPOLLOUT, 7), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 1);
    assert_int_equal(events[0].events, EPOLLOUT);
    assert_int_equal(events[0].data.u64, 7);
    assert_int_equal(ioh__poller_change(&poller, ends[1], 0, 7), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
}

static void the_end_of_the_other_side_comes_unasked(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(ioh__poller_add(&poller, pair[0], EPOLLRDHUP, 1), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
    shutdown(pair[1], SHUT_WR);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, -1), 1);
    assert_int_equal(events[0].events, EPOLLRDHUP);
    assert_int_equal(ioh__poller_change(&poller, pair[0], 0, 1), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
    close(pair[1]);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, -1), 1);
    assert_int_equal(events[0].events & EPOLLHUP, EPOLLHUP);
    ioh__poller_remove(&poller, pair[0]);
    close(pair[0]);
}

static void a_removed_descriptor_is_silent_although_a_copy_of_it_lives(void **state)
{
    (void)state;
    assert_int_equal(ioh__poller_add(&poller, ends[0], EPOLLIN, 1), 0);
    int copy = dup(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), 1);
    ioh__poller_remove(&poller, ends[0]);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
    close(copy);
}

static void what_the_kernel_refuses_is_told_with_errno(void **state)
{
    (void)state;
    assert_int_equal(ioh__poller_add(&poller, ends[0], EPOLLIN, 1), 0);
    assert_int_equal(ioh__poller_add(&poller, ends[0], EPOLLIN, 1), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(ioh__poller_change(&poller, ends[1], EPOLLIN, 1), -1);
    assert_int_equal(errno, ENOENT);
}

static void a_poller_over_poll_has_room_for_two_and_costs_no_descriptor(void **state)
{
    (void)state;
    int other[2];
    assert_int_equal(pipe(other), 0);
    assert_int_equal(poller.fd, -1);
    assert_int_equal(ioh__poller_change(&poller, ends[0], EPOLLIN, 1), -1);
    assert_int_equal(errno, ENOENT);
    ioh__poller_remove(&poller, ends[0]); /* harmless */
    assert_int_equal(ioh__poller_add(&poller, ends[0], EPOLLIN, 1), 0);
    assert_int_equal(ioh__poller_add(&poller, other[0], EPOLLIN, 2), 0);
    assert_int_equal(ioh__poller_add(&poller, ends[1], EPOLLOUT, 3), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(write(ends[1], "x", 1) + write(other[1], "x", 1), 2);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, -1), 2);
    assert_int_equal(events[0].data.u64 + events[1].data.u64, 3);
    ioh__poller_remove(&poller, ends[0]); /* the other one stays, with its tag */
    assert_int_equal(ioh__poller_wait(&poller, events, 4, -1), 1);
    assert_int_equal(events[0].data.u64, 2);
    assert_int_equal(ioh__poller_add(&poller, ends[1], EPOLLOUT, 3), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, -1), 2);
    assert_int_equal(ioh__poller_wait(&poller, events, 1, -1), 1);
    close(other[0]);
    close(other[1]);
}

/* Nothing to look at: only time passes. */
static void a_wait_for_nothing_ends_in_time(void **state)
{
    (void)state;
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 0), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 4, 10), 0);
}

static void no_more_events_are_told_than_there_is_room_for(void **state)
{
    (void)state;
    int copy = dup(ends[1]);
    assert_int_equal(ioh__poller_add(&poller, ends[1], EPOLLOUT, 1), 0);
    assert_int_equal(ioh__poller_add(&poller, copy, EPOLLOUT, 2), 0);
    assert_int_equal(ioh__poller_wait(&poller, events, 1, 0), 1);
    uint64_t first = events[0].data.u64;
    assert_int_equal(ioh__poller_wait(&poller, events, 1, 0), 1);
    assert_int_equal(first + events[0].data.u64, 3); /* both get their turn */
    close(copy);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void a_signal_ends_the_wait_without_events(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}, before;
    struct itimerval soon = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000};
    struct itimerval never = {0};
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    int n = ioh__poller_wait(&poller, events, 4, 20000);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(n, 0);
    assert_true(alarms > 0);
}

static void the_descriptor_is_close_on_exec_and_gone_after_destroy(void **state)
{
    (void)state;
    int fd = poller.fd;
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ioh__poller_destroy(&poller);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    ioh__poller_destroy(&poller); /* harmless */
}

static void without_a_descriptor_init_says_so(void **state)
{
    (void)state;
    struct ioh__poller none;
    create_fails = true;
    assert_int_equal(ioh__poller_init(&none, false), IOH_ESYS);
    ioh__poller_destroy(&none);
}

#define with_epoll(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define with_poll(test)                                   \
    {                                                     \
#test " (poll)", test, set_up, tear_down, &poller \
    }
#define with_both(test) with_epoll(test), with_poll(test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_both(a_ready_descriptor_is_told_with_its_tag_until_it_is_read),
        with_both(a_changed_interest_replaces_the_old_one),
        with_both(the_end_of_the_other_side_comes_unasked),
        with_both(a_removed_descriptor_is_silent_although_a_copy_of_it_lives),
        with_both(a_signal_ends_the_wait_without_events),
        with_both(a_wait_for_nothing_ends_in_time),
        with_epoll(what_the_kernel_refuses_is_told_with_errno),
        with_epoll(no_more_events_are_told_than_there_is_room_for),
        with_epoll(the_descriptor_is_close_on_exec_and_gone_after_destroy),
        with_epoll(without_a_descriptor_init_says_so),
        with_poll(a_poller_over_poll_has_room_for_two_and_costs_no_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The loop: channels in slots, stale events, interest, mail, timers. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <iohandler/error.h>

#include "base/clock.h"
#include "support/tube.h"

/* ---- system calls and memory: counted, and failing when told */

static int ctl_calls, last_op, ctl_fails; /* ctl_fails: errno, 0: works */
static uint32_t last_events;
static int waits_interrupted; /* so many waits answer EINTR */
static int last_timeout;
static bool realloc_fails;
static int malloc_fails_at; /* the n-th from now, 0: none */

int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int __real_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout);
int __real_eventfd(unsigned count, int flags);
void *__real_realloc(void *old, size_t size);
void *__real_malloc(size_t size);

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    ctl_calls++;
    last_op = op;
    last_events = event ? event->events : 0;
    errno = ctl_fails;
    return ctl_fails ? -1 : __real_epoll_ctl(epfd, op, fd, event);
}

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
    last_timeout = timeout;
    if (waits_interrupted > 0) {
        waits_interrupted--;
        errno = EINTR;
        return -1;
    }
    return __real_epoll_wait(epfd, events, max, timeout);
}

static bool eventfd_fails;

int __wrap_eventfd(unsigned count, int flags)
{
    errno = EMFILE;
    return eventfd_fails ? -1 : __real_eventfd(count, flags);
}

void *__wrap_realloc(void *old, size_t size)
{
    return realloc_fails ? NULL : __real_realloc(old, size);
}

void *__wrap_malloc(size_t size)
{
    return malloc_fails_at > 0 && --malloc_fails_at == 0 ? NULL : __real_malloc(size);
}

static int set_up(void **state)
{
    (void)state;
    return ioh__loop_init(&loop, 3, false);
}

static int tear_down(void **state)
{
    (void)state;
    ctl_fails = waits_interrupted = malloc_fails_at = 0;
    realloc_fails = eventfd_fails = false;
    ioh__loop_destroy(&loop);
    return 0;
}

/* ---- slots */

static void a_loop_begins_with_its_mailbox_watched(void **state)
{
    (void)state;
    assert_int_equal(loop.index, 3);
    assert_true(fcntl(loop.poller.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(loop.mailbox.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(loop.mailbox.fd, F_GETFL) & O_NONBLOCK);
    assert_ptr_equal(ioh__loop_find(&loop, loop.mail_chan.slot, loop.mail_chan.generation),
                     &loop.mail_chan);
    assert_int_equal(loop.mail_chan.kind, IOH__CHAN_MAILBOX);
    assert_true(loop.mail_chan.polled);
}

static void a_channel_is_found_by_slot_and_generation_only(void **state)
{
    (void)state;
    struct tube t;
    open_tube(&t);
    uint32_t slot = t.chan.slot, generation = t.chan.generation;
    assert_ptr_equal(ioh__loop_find(&loop, slot, generation), &t.chan);
    assert_null(ioh__loop_find(&loop, slot, generation + 1));
    assert_null(ioh__loop_find(&loop, slot, 0));
    assert_null(ioh__loop_find(&loop, slot + 1, generation));
    assert_null(ioh__loop_find(&loop, UINT32_MAX, generation));
    close_tube(&t);
    assert_null(ioh__loop_find(&loop, slot, generation));
}

static void slots_grow_and_are_used_again_with_another_generation(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct ioh__chan chans[COUNT];
    static uint32_t generations[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            chans[i] = (struct ioh__chan){.fd = -1, .kind = IOH__CHAN_CONN};
            assert_int_equal(ioh__loop_enter(&loop, &chans[i]), 0);
        }
        assert_int_equal(loop.slot_count, COUNT + 1); /* and the mailbox */
        for (int i = 0; i < COUNT; i++)
            assert_ptr_equal(ioh__loop_find(&loop, chans[i].slot, chans[i].generation), &chans[i]);
        for (int i = 0; i < COUNT; i++) {
            assert_int_not_equal(chans[i].generation, generations[chans[i].slot - 1]);
            generations[chans[i].slot - 1] = chans[i].generation;
            ioh__loop_leave(&loop, &chans[i]);
        }
    }
    assert_ptr_equal(ioh__loop_find(&loop, loop.mail_chan.slot, loop.mail_chan.generation),
                     &loop.mail_chan);
}

static void a_generation_is_never_0_even_after_4_billion_uses(void **state)
{
    (void)state;
    struct ioh__chan chan = {.fd = -1, .kind = IOH__CHAN_CONN};
    assert_int_equal(ioh__loop_enter(&loop, &chan), 0);
    assert_int_not_equal(chan.generation, 0);
    ioh__loop_leave(&loop, &chan);
    loop.slots[chan.slot].generation = UINT32_MAX - 1;
    static const uint32_t want[] = {UINT32_MAX, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ioh__loop_enter(&loop, &chan), 0);
        assert_true(chan.generation == want[i]);
        ioh__loop_leave(&loop, &chan);
    }
}

static void a_loop_that_cannot_grow_refuses_and_goes_on_with_what_it_has(void **state)
{
    (void)state;
    static struct ioh__chan chans[200];
    int count = 0, rc = 0;
    realloc_fails = true;
    while (rc == 0 && count < 200) {
        chans[count] = (struct ioh__chan){.fd = -1};
        rc = ioh__loop_enter(&loop, &chans[count++]);
    }
    assert_int_equal(rc, IOH_ENOMEM);
    count--; /* the last is not in */
    assert_int_equal(count + 1, loop.slot_count);
    for (int i = 0; i < count; i++)
        assert_ptr_equal(ioh__loop_find(&loop, chans[i].slot, chans[i].generation), &chans[i]);
    ioh__loop_leave(&loop, &chans[5]);
    assert_int_equal(ioh__loop_enter(&loop, &chans[count]), 0); /* a free slot needs no memory */
    assert_int_equal(chans[count].slot, chans[5].slot);
    realloc_fails = false;
    assert_int_equal(ioh__loop_enter(&loop, &chans[5]), 0);
}

static void more_channels_than_an_id_can_name_are_refused(void **state)
{
    (void)state;
    struct ioh__chan chan = {.fd = -1};
    uint32_t count = loop.slot_count, room = loop.slot_room;
    loop.slot_count = loop.slot_room = IOH__MAX_SLOTS;
    int rc = ioh__loop_enter(&loop, &chan);
    loop.slot_count = count;
    loop.slot_room = room;
    assert_int_equal(rc, IOH_ENOMEM);
}

/* ---- events */

static void a_ready_channel_comes_with_its_events_once_per_batch(void **state)
{
    (void)state;
    struct tube t;
    uint32_t events = 0;
    open_tube(&t);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    ioh__loop_poll(&loop, 0);
    assert_null(ioh__loop_next(&loop, &events));
    fill_tube(&t);
    for (int i = 0; i < 2; i++) {
        events = 0;
        ioh__loop_poll(&loop, -1);
        assert_ptr_equal(ioh__loop_next(&loop, &events), &t.chan);
        assert_int_equal(events, EPOLLIN);
        assert_null(ioh__loop_next(&loop, &events));
    }
    close_tube(&t);
}

/* Two are ready in one batch; whoever comes first ends the other. */
static void an_event_of_a_channel_that_left_is_dropped(void **state)
{
    (void)state;
    struct tube t[2];
    uint32_t events;
    for (int i = 0; i < 2; i++) {
        open_tube(&t[i]);
        assert_int_equal(ioh__loop_watch(&loop, &t[i].chan, EPOLLIN), 0);
        fill_tube(&t[i]);
    }
    ioh__loop_poll(&loop, -1);
    assert_int_equal(loop.event_count, 2);
    struct ioh__chan *first = ioh__loop_next(&loop, &events);
    int other = first == &t[0].chan ? 1 : 0;
    close_tube(&t[other]);
    assert_null(ioh__loop_next(&loop, &events));
    close_tube(&t[!other]);
}

static void a_stale_event_does_not_reach_whoever_has_the_number_and_the_slot_now(void **state)
{
    (void)state;
    struct tube t[2], heir;
    uint32_t events;
    for (int i = 0; i < 2; i++) {
        open_tube(&t[i]);
        assert_int_equal(ioh__loop_watch(&loop, &t[i].chan, EPOLLIN), 0);
        fill_tube(&t[i]);
    }
    ioh__loop_poll(&loop, -1);
    assert_int_equal(loop.event_count, 2);
    struct ioh__chan *first = ioh__loop_next(&loop, &events);
    struct tube *gone = first == &t[0].chan ? &t[1] : &t[0];
    close_tube(gone);
    open_tube(&heir);
    assert_int_equal(heir.chan.fd, gone->chan.fd);
    assert_int_equal(heir.chan.slot, gone->chan.slot);
    assert_int_not_equal(heir.chan.generation, gone->chan.generation);
    assert_int_equal(ioh__loop_watch(&loop, &heir.chan, EPOLLIN), 0);
    assert_null(ioh__loop_next(&loop, &events));
    fill_tube(&heir);
    close_tube(first == &t[0].chan ? &t[0] : &t[1]);
    ioh__loop_poll(&loop, -1);
    assert_ptr_equal(ioh__loop_next(&loop, &events), &heir.chan);
    close_tube(&heir);
}

/* ---- interest */

static void the_poller_is_only_asked_when_the_interest_changes(void **state)
{
    (void)state;
    struct tube t;
    open_tube(&t);
    static const struct {
        uint32_t events;
        int calls, op;
    } steps[] = {{EPOLLIN, 1, EPOLL_CTL_ADD},
                 {EPOLLIN, 0, 0},
                 {EPOLLIN, 0, 0},
                 {EPOLLIN | EPOLLRDHUP, 1, EPOLL_CTL_MOD},
                 {EPOLLIN | EPOLLRDHUP, 0, 0},
                 {0, 1, EPOLL_CTL_MOD},
                 {0, 0, 0},
                 {EPOLLIN, 1, EPOLL_CTL_MOD}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        ctl_calls = 0;
        assert_int_equal(ioh__loop_watch(&loop, &t.chan, steps[i].events), 0);
        assert_int_equal(ctl_calls, steps[i].calls);
        if (steps[i].calls) {
            assert_int_equal(last_op, steps[i].op);
            assert_int_equal(last_events, steps[i].events);
        }
    }
    ctl_calls = 0;
    ioh__loop_unwatch(&loop, &t.chan);
    assert_int_equal(ctl_calls, 1);
    assert_int_equal(last_op, EPOLL_CTL_DEL);
    ioh__loop_unwatch(&loop, &t.chan);
    assert_int_equal(ctl_calls, 1);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    assert_int_equal(last_op, EPOLL_CTL_ADD);
    close_tube(&t);
}

static void an_exclusive_interest_is_not_asked_for_again(void **state)
{
    (void)state;
    struct tube t;
    open_tube(&t);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN | EPOLLEXCLUSIVE), 0);
    ctl_calls = 0; /* MOD is not allowed with it */
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN | EPOLLEXCLUSIVE), 0);
    assert_int_equal(ctl_calls, 0);
    close_tube(&t);
}

static void a_refused_interest_is_told_and_asked_for_again_next_time(void **state)
{
    (void)state;
    struct tube t;
    open_tube(&t);
    ctl_fails = ENOSPC;
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), -1);
    assert_int_equal(errno, ENOSPC);
    assert_false(t.chan.polled);
    ctl_calls = 0;
    ioh__loop_unwatch(&loop, &t.chan);
    assert_int_equal(ctl_calls, 0);
    ctl_fails = 0;
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    assert_int_equal(last_op, EPOLL_CTL_ADD);
    ctl_fails = ENOMEM;
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLRDHUP), -1);
    ctl_fails = 0;
    assert_int_equal(t.chan.events, EPOLLIN);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLRDHUP), 0);
    assert_int_equal(last_op, EPOLL_CTL_MOD);
    close_tube(&t);
}

static void a_channel_that_leaves_is_out_of_the_poller(void **state)
{
    (void)state;
    struct tube t;
    open_tube(&t);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    fill_tube(&t);
    ioh__loop_leave(&loop, &t.chan);
    assert_int_equal(last_op, EPOLL_CTL_DEL);
    ioh__loop_poll(&loop, 0);
    assert_int_equal(loop.event_count, 0);
    close(t.chan.fd);
    close(t.write_fd);
}

/* ---- waiting */

static void an_interrupted_wait_is_an_empty_batch(void **state)
{
    (void)state;
    struct tube t;
    uint32_t events;
    open_tube(&t);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    fill_tube(&t);
    waits_interrupted = 2;
    for (int i = 0; i < 2; i++) {
        ioh__loop_poll(&loop, -1);
        assert_int_equal(loop.event_count, 0);
        assert_null(ioh__loop_next(&loop, &events));
    }
    ioh__loop_poll(&loop, -1);
    assert_ptr_equal(ioh__loop_next(&loop, &events), &t.chan);
    close_tube(&t);
}

static void turns_and_events_are_counted(void **state)
{
    (void)state;
    struct tube t;
    open_tube(&t);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    ioh__loop_poll(&loop, 0);
    fill_tube(&t);
    for (int i = 0; i < 3; i++)
        ioh__loop_poll(&loop, 0);
    assert_int_equal(atomic_load(&loop.count.turns), 4);
    assert_int_equal(ioh__hist_quantile(&loop.turn_events, 0.2), 0);
    assert_int_equal(ioh__hist_quantile(&loop.turn_events, 1.0), 1);
    close_tube(&t);
}

static void a_wait_ends_at_the_next_timer(void **state)
{
    (void)state;
    struct ioh__timer timer;
    ioh__timer_init(&timer);
    uint64_t begin = ioh__now_ms();
    ioh__timer_set(&loop.wheel, &timer, begin + 60);
    int polls = 0;
    while (!ioh__wheel_expired(&loop.wheel, loop.now)) {
        ioh__loop_poll(&loop, polls % 2 ? 20000 : -1);
        polls++;
        assert_true(last_timeout >= 0 && last_timeout <= 60 + 2 * (int)IOH__WHEEL_TICK_MS);
    }
    uint64_t waited = loop.now - begin;
    assert_true(waited >= 60);
    assert_true(waited < 10000); /* a busy machine is slow, but not that slow */
    assert_true(polls <= 10);    /* and the loop slept */
}

static void a_shorter_wait_is_not_prolonged_by_a_timer(void **state)
{
    (void)state;
    struct ioh__timer timer;
    ioh__timer_init(&timer);
    ioh__timer_set(&loop.wheel, &timer, ioh__now_ms() + 3600000);
    ioh__loop_poll(&loop, 5);
    assert_int_equal(last_timeout, 5);
    ioh__loop_poll(&loop, 0);
    assert_int_equal(last_timeout, 0);
    ioh__timer_cancel(&timer);
}

static void mail_that_came_before_keeps_the_loop_awake(void **state)
{
    (void)state;
    struct ioh__mail mail;
    assert_true(ioh__mailbox_post(&loop.mailbox, &mail));
    ioh__loop_poll(&loop, -1);
    assert_int_equal(last_timeout, 0);
    assert_ptr_equal(ioh__mailbox_take(&loop.mailbox), &mail);
}

static void mail_wakes_a_sleeping_loop(void **state)
{
    (void)state;
    pthread_t sender;
    uint32_t events;
    assert_int_equal(pthread_create(&sender, NULL, post_when_it_sleeps, NULL), 0);
    alarm(30); /* ends the test program if the wake-up is lost */
    ioh__loop_poll(&loop, -1);
    alarm(0);
    assert_ptr_equal(ioh__loop_next(&loop, &events), &loop.mail_chan);
    assert_int_equal(events, EPOLLIN);
    ioh__mailbox_clear(&loop.mailbox);
    assert_ptr_equal(ioh__mailbox_take(&loop.mailbox), &letter);
    pthread_join(sender, NULL);
    ioh__loop_poll(&loop, 0);
    assert_int_equal(loop.event_count, 0); /* cleared */
}

/* Edge-triggered: nobody has to read the eventfd, and every wake-up is told all the same. */
static void every_wake_up_is_told_although_nobody_reads_the_eventfd(void **state)
{
    (void)state;
    static struct ioh__mail mails[5];
    uint32_t events;
    for (int i = 0; i < 5; i++) {
        assert_true(ioh__mailbox_sleep(&loop.mailbox)); /* as before a wait */
        assert_true(ioh__mailbox_post(&loop.mailbox, &mails[i]));
        ioh__mailbox_wake(&loop.mailbox);
        ioh__loop_poll(&loop, 20000);
        assert_ptr_equal(ioh__loop_next(&loop, &events), &loop.mail_chan);
        assert_ptr_equal(ioh__mailbox_take(&loop.mailbox), &mails[i]);
        ioh__loop_poll(&loop, 0);
        assert_int_equal(loop.event_count, 0);
    }
}

/* ---- beginning with too little */

static void a_loop_that_cannot_begin_says_why_and_can_be_destroyed(void **state)
{
    (void)state;
    static struct ioh__loop poor;
    malloc_fails_at = 1; /* the receive buffer */
    assert_int_equal(ioh__loop_init(&poor, 0, false), IOH_ENOMEM);
    ioh__loop_destroy(&poor);
    realloc_fails = true; /* the slots */
    assert_int_equal(ioh__loop_init(&poor, 0, false), IOH_ENOMEM);
    ioh__loop_destroy(&poor);
    realloc_fails = false;
    eventfd_fails = true;
    assert_int_equal(ioh__loop_init(&poor, 0, false), IOH_ESYS);
    ioh__loop_destroy(&poor);
    eventfd_fails = false;
    ctl_fails = ENOSPC;
    assert_int_equal(ioh__loop_init(&poor, 0, false), IOH_ESYS);
    ioh__loop_destroy(&poor);
    assert_int_equal(fcntl(poor.poller.fd, F_GETFD), -1);
}

#define with_loop(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_loop(a_loop_begins_with_its_mailbox_watched),
        with_loop(a_channel_is_found_by_slot_and_generation_only),
        with_loop(slots_grow_and_are_used_again_with_another_generation),
        with_loop(a_generation_is_never_0_even_after_4_billion_uses),
        with_loop(a_loop_that_cannot_grow_refuses_and_goes_on_with_what_it_has),
        with_loop(more_channels_than_an_id_can_name_are_refused),
        with_loop(a_ready_channel_comes_with_its_events_once_per_batch),
        with_loop(an_event_of_a_channel_that_left_is_dropped),
        with_loop(a_stale_event_does_not_reach_whoever_has_the_number_and_the_slot_now),
        with_loop(the_poller_is_only_asked_when_the_interest_changes),
        with_loop(an_exclusive_interest_is_not_asked_for_again),
        with_loop(a_refused_interest_is_told_and_asked_for_again_next_time),
        with_loop(a_channel_that_leaves_is_out_of_the_poller),
        with_loop(an_interrupted_wait_is_an_empty_batch),
        with_loop(turns_and_events_are_counted),
        with_loop(a_wait_ends_at_the_next_timer),
        with_loop(a_shorter_wait_is_not_prolonged_by_a_timer),
        with_loop(mail_that_came_before_keeps_the_loop_awake),
        with_loop(mail_wakes_a_sleeping_loop),
        with_loop(every_wake_up_is_told_although_nobody_reads_the_eventfd),
        with_loop(a_loop_that_cannot_begin_says_why_and_can_be_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

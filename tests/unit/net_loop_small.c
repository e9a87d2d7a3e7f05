/* The small loop of a single connection, over poll(2): what differs from net_loop.c. */
#include <errno.h>

#include "base/clock.h"
#include "support/tube.h"

static int set_up_small(void **state)
{
    (void)state;
    return ioh__loop_init(&loop, 0, true);
}

static int tear_down(void **state)
{
    (void)state;
    ioh__loop_destroy(&loop);
    return 0;
}

static void a_small_loop_watches_one_channel_beside_its_mailbox(void **state)
{
    (void)state;
    struct tube t, more;
    uint32_t events;
    assert_int_equal(loop.poller.fd, -1); /* it costs no descriptor */
    open_tube(&t);
    open_tube(&more);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    assert_int_equal(ioh__loop_watch(&loop, &more.chan, EPOLLIN), -1);
    assert_int_equal(errno, ENOSPC);
    close_tube(&more);
    fill_tube(&t);
    for (int i = 0; i < 2; i++) {
        ioh__loop_poll(&loop, -1);
        assert_ptr_equal(ioh__loop_next(&loop, &events), &t.chan);
        assert_int_equal(events, EPOLLIN);
        assert_null(ioh__loop_next(&loop, &events));
    }
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, 0), 0);
    ioh__loop_poll(&loop, 0);
    assert_int_equal(loop.event_count, 0);
    assert_int_equal(ioh__loop_watch(&loop, &t.chan, EPOLLIN), 0);
    ioh__loop_poll(&loop, 0);
    assert_int_equal(loop.event_count, 1);
    close_tube(&t);
    assert_null(ioh__loop_next(&loop, &events)); /* it has left */
    ioh__loop_poll(&loop, 0);
    assert_int_equal(loop.event_count, 0);
}

static void a_small_loop_ends_its_wait_at_its_timer(void **state)
{
    (void)state;
    struct ioh__timer timer;
    ioh__timer_init(&timer);
    uint64_t begin = ioh__now_ms();
    ioh__timer_set(&loop.wheel, &timer, begin + 40);
    int polls = 0;
    for (; !ioh__wheel_expired(&loop.wheel, loop.now) && polls < 100; polls++)
        ioh__loop_poll(&loop, -1);
    assert_true(loop.now - begin >= 40);
    assert_true(polls <= 10); /* it slept */
}

/* poll(2) has no edges: whoever sees the mailbox has to empty the eventfd. */
static void mail_wakes_a_small_loop_until_its_mailbox_is_cleared(void **state)
{
    (void)state;
    pthread_t sender;
    uint32_t events;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&sender, NULL, post_when_it_sleeps, NULL), 0);
        alarm(30); /* ends the test program if the wake-up is lost */
        ioh__loop_poll(&loop, -1);
        alarm(0);
        assert_ptr_equal(ioh__loop_next(&loop, &events), &loop.mail_chan);
        assert_int_equal(events, EPOLLIN);
        pthread_join(sender, NULL);
        assert_ptr_equal(ioh__mailbox_take(&loop.mailbox), &letter);
        ioh__mailbox_clear(&loop.mailbox);
        ioh__loop_poll(&loop, 0);
        assert_int_equal(loop.event_count, 0);
    }
}

#define with_loop(test) cmocka_unit_test_setup_teardown(test, set_up_small, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_loop(a_small_loop_watches_one_channel_beside_its_mailbox),
        with_loop(a_small_loop_ends_its_wait_at_its_timer),
        with_loop(mail_wakes_a_small_loop_until_its_mailbox_is_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

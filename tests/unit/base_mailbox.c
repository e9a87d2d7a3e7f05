/* The mailbox: state by state, and with many threads. Workers only count; the main thread asserts. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <iohandler/error.h>

#include "base/mailbox.h"

#define DEADLINE_MS 20000 /* a wait this long is a lost wake-up */

struct letter {
    struct ioh__mail mail;
    unsigned sender, number;
};

static struct ioh__mailbox box;

static int open_box(void **state)
{
    (void)state;
    return ioh__mailbox_init(&box);
}

static int destroy_box(void **state)
{
    (void)state;
    ioh__mailbox_destroy(&box);
    return 0;
}

static bool readable(const struct ioh__mailbox *b, int timeout_ms)
{
    struct pollfd pollfd = {.fd = b->fd, .events = POLLIN};
    int n;
    while ((n = poll(&pollfd, 1, timeout_ms)) < 0 && errno == EINTR)
        ;
    return n == 1;
}

/* As a loop does it: false when nobody wakes us. Counts the true sleeps. */
static bool wait_for_something(struct ioh__mailbox *b, unsigned *sleeps)
{
    if (!ioh__mailbox_sleep(b))
        return true;
    bool woken = readable(b, DEADLINE_MS);
    ioh__mailbox_wake(b);
    ioh__mailbox_clear(b);
    ++*sleeps;
    return woken;
}

/* ---- one thread */

static void mail_comes_out_in_order(void **state)
{
    (void)state;
    struct ioh__mail mail[3];
    assert_null(ioh__mailbox_take(&box));
    for (unsigned i = 0; i < 3; i++)
        assert_true(ioh__mailbox_post(&box, &mail[i]));
    struct ioh__mail *got = ioh__mailbox_take(&box);
    for (unsigned i = 0; i < 3; i++, got = got->next)
        assert_ptr_equal(got, &mail[i]);
    assert_null(got);
    assert_null(ioh__mailbox_take(&box));
}

static void an_awake_owner_is_not_written_to(void **state)
{
    (void)state;
    struct ioh__mail mail;
    ioh__mailbox_post(&box, &mail);
    assert_false(readable(&box, 0));
}

static void a_sleeping_owner_is_written_to_once(void **state)
{
    (void)state;
    struct ioh__mail mail[3];
    uint64_t count = 0;
    assert_true(ioh__mailbox_sleep(&box));
    for (unsigned i = 0; i < 3; i++)
        ioh__mailbox_post(&box, &mail[i]);
    assert_true(readable(&box, 0));
    assert_int_equal(read(box.fd, &count, sizeof(count)), sizeof(count));
    assert_int_equal(count, 1);
}

static void clearing_empties_the_eventfd_and_never_waits(void **state)
{
    (void)state;
    ioh__mailbox_clear(&box);
    ioh__mailbox_ring(&box);
    assert_true(readable(&box, 0));
    ioh__mailbox_clear(&box);
    assert_false(readable(&box, 0));
    assert_true(ioh__mailbox_sleep(&box));
}

static void sleep_is_refused_while_mail_is_there(void **state)
{
    (void)state;
    struct ioh__mail mail;
    ioh__mailbox_post(&box, &mail);
    assert_false(ioh__mailbox_sleep(&box));
    assert_false(ioh__mailbox_sleep(&box));
    assert_ptr_equal(ioh__mailbox_take(&box), &mail);
    assert_true(ioh__mailbox_sleep(&box));
}

static void after_waking_nobody_writes(void **state)
{
    (void)state;
    struct ioh__mail mail;
    assert_true(ioh__mailbox_sleep(&box));
    ioh__mailbox_wake(&box); /* a socket woke us */
    ioh__mailbox_post(&box, &mail);
    assert_false(readable(&box, 0));
}

static void closing_takes_what_is_left_and_refuses_the_rest(void **state)
{
    (void)state;
    struct ioh__mail mail[3];
    ioh__mailbox_post(&box, &mail[0]);
    ioh__mailbox_post(&box, &mail[1]);
    assert_ptr_equal(ioh__mailbox_close(&box), &mail[0]);
    assert_ptr_equal(mail[0].next, &mail[1]);
    assert_null(mail[1].next);
    assert_false(ioh__mailbox_post(&box, &mail[2]));
    assert_null(ioh__mailbox_take(&box));
    assert_false(ioh__mailbox_post(&box, &mail[2])); /* taking did not open it again */
    assert_null(ioh__mailbox_close(&box));
    assert_true(ioh__mailbox_sleep(&box));
    assert_false(ioh__mailbox_post(&box, &mail[2]));
    assert_false(readable(&box, 0));
}

static void without_a_descriptor_init_answers_esys(void **state)
{
    (void)state;
    struct rlimit old, none;
    struct ioh__mailbox b;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = ioh__mailbox_init(&b);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(rc, IOH_ESYS);
    ioh__mailbox_destroy(&b); /* harmless */
}

/* ---- many senders, one sleeper */

enum { SENDERS = 4, LETTERS = 50000, BURST = 100 };

struct sender {
    pthread_t thread;
    unsigned id;
    struct letter *letters;
    _Atomic unsigned read;  /* how many the owner has seen */
    unsigned sent, refused; /* once the thread has ended */
};

/* Waits after every burst until it was read, so that the owner falls asleep over and over. */
static void *send_letters(void *arg)
{
    struct sender *me = arg;
    for (unsigned i = 0; i < LETTERS; i++) {
        me->letters[i].sender = me->id;
        me->letters[i].number = i;
        if (!ioh__mailbox_post(&box, &me->letters[i].mail)) {
            me->refused = LETTERS - i;
            break;
        }
        me->sent++;
        if (me->sent % BURST == 0)
            while (atomic_load(&me->read) < me->sent && atomic_load(&me->read) != UINT32_MAX)
                sched_yield();
    }
    return NULL;
}

static void start_senders(struct sender *sender)
{
    for (unsigned i = 0; i < SENDERS; i++) {
        sender[i] = (struct sender){.id = i, .letters = calloc(LETTERS, sizeof(struct letter))};
        assert_non_null(sender[i].letters);
        assert_int_equal(pthread_create(&sender[i].thread, NULL, send_letters, &sender[i]), 0);
    }
}

/* No sender waits any more, even if its mail was lost. */
static void let_go(struct sender *sender)
{
    for (unsigned i = 0; i < SENDERS; i++)
        atomic_store(&sender[i].read, UINT32_MAX);
}

static void join_senders(struct sender *sender)
{
    for (unsigned i = 0; i < SENDERS; i++) {
        pthread_join(sender[i].thread, NULL);
        free(sender[i].letters);
    }
}

/* Reads a list of letters: how many, or counts an order that was not kept. */
static unsigned read_letters(struct ioh__mail *mail, struct sender *sender, unsigned *disorder)
{
    unsigned count = 0;
    while (mail) {
        struct letter *letter = (struct letter *)(void *)mail;
        mail = mail->next; /* first: the letter is the sender's again once it is read */
        struct sender *from = &sender[letter->sender];
        *disorder += letter->number != atomic_load(&from->read);
        atomic_fetch_add(&from->read, 1);
        count++;
    }
    return count;
}

static void mail_of_many_senders_arrives_whole_and_in_order(void **state)
{
    (void)state;
    static struct sender sender[SENDERS];
    unsigned got = 0, disorder = 0, sleeps = 0;
    bool woken = true;
    start_senders(sender);
    while (got < SENDERS * LETTERS && woken) {
        struct ioh__mail *mail = ioh__mailbox_take(&box);
        if (mail)
            got += read_letters(mail, sender, &disorder);
        else
            woken = wait_for_something(&box, &sleeps);
    }
    let_go(sender);
    join_senders(sender);
    assert_true(woken);
    assert_int_equal(got, SENDERS * LETTERS);
    assert_int_equal(disorder, 0);
    assert_true(sleeps > 10);
    assert_null(ioh__mailbox_take(&box));
}

static void a_box_closed_under_fire_loses_and_doubles_nothing(void **state)
{
    (void)state;
    static struct sender sender[SENDERS];
    unsigned got = 0, disorder = 0, sleeps = 0, sent = 0, refused = 0;
    bool woken = true;
    start_senders(sender);
    while (got < SENDERS * LETTERS / 3 && woken) {
        got += read_letters(ioh__mailbox_take(&box), sender, &disorder);
        woken = wait_for_something(&box, &sleeps);
    }
    got += read_letters(ioh__mailbox_close(&box), sender, &disorder);
    let_go(sender);
    join_senders(sender);
    for (unsigned i = 0; i < SENDERS; i++) {
        sent += sender[i].sent;
        refused += sender[i].refused;
    }
    assert_true(woken);
    assert_int_equal(disorder, 0);
    assert_int_equal(got, sent);
    assert_int_equal(sent + refused, SENDERS * LETTERS);
    assert_true(refused > 0);
}

/* ---- two sleepers, turn by turn: every single wake-up counts */

enum { TURNS = 20000 };

struct player {
    pthread_t thread;
    struct ioh__mailbox box;
    struct player *other;
    struct letter *ball; /* what this one serves, or NULL */
    unsigned turns, sleeps;
    bool lost;
};

static void *play(void *arg)
{
    struct player *me = arg;
    if (me->ball)
        ioh__mailbox_post(&me->other->box, &me->ball->mail);
    while (me->turns < TURNS) {
        struct ioh__mail *mail = ioh__mailbox_take(&me->box);
        if (mail) {
            me->turns++;
            ioh__mailbox_post(&me->other->box, mail);
        } else if (!wait_for_something(&me->box, &me->sleeps)) {
            me->lost = true;
            break;
        }
    }
    return NULL;
}

static void no_wake_up_is_lost_between_two_sleepers(void **state)
{
    (void)state;
    static struct player player[2];
    struct letter ball = {.sender = 0};
    for (unsigned i = 0; i < 2; i++) {
        player[i] = (struct player){.other = &player[1 - i], .ball = i == 0 ? &ball : NULL};
        assert_int_equal(ioh__mailbox_init(&player[i].box), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&player[i].thread, NULL, play, &player[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(player[i].thread, NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_false(player[i].lost);
        assert_int_equal(player[i].turns, TURNS);
        ioh__mailbox_destroy(&player[i].box);
    }
    assert_true(player[0].sleeps + player[1].sleeps > 100);
}

#define WITH_BOX(test) cmocka_unit_test_setup_teardown(test, open_box, destroy_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOX(mail_comes_out_in_order),
        WITH_BOX(an_awake_owner_is_not_written_to),
        WITH_BOX(a_sleeping_owner_is_written_to_once),
        WITH_BOX(clearing_empties_the_eventfd_and_never_waits),
        WITH_BOX(sleep_is_refused_while_mail_is_there),
        WITH_BOX(after_waking_nobody_writes),
        WITH_BOX(closing_takes_what_is_left_and_refuses_the_rest),
        cmocka_unit_test(without_a_descriptor_init_answers_esys),
        WITH_BOX(mail_of_many_senders_arrives_whole_and_in_order),
        WITH_BOX(a_box_closed_under_fire_loses_and_doubles_nothing),
        cmocka_unit_test(no_wake_up_is_lost_between_two_sleepers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

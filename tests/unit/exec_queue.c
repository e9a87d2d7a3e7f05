/* The queue in front of a set of threads: order, room, urgency, closing, and that no thread sleeps beside a
 * task. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/list.h"
#include "exec/queue.h"

#define PATIENCE_MS 20000u

/* A new one for each test; what a failed test leaves, threads and all, stays behind. */
static struct ioh__queue *queue;

struct item {
    struct ioh__task task;
    unsigned number;
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

#define wait_until(condition)                                   \
    do {                                                        \
        uint64_t begin_ = now_ms();                             \
        while (!(condition) && now_ms() - begin_ < PATIENCE_MS) \
            usleep(200);                                        \
        assert_true(condition);                                 \
    } while (0)

static unsigned number_of(struct ioh__task *task)
{
    return ioh__container(task, struct item, task)->number;
}

/* Items with the numbers from `first` on, linked. */
static struct ioh__task *chain(struct item *items, unsigned count, unsigned first)
{
    for (unsigned i = 0; i < count; i++) {
        items[i].number = first + i;
        items[i].task.next = i + 1 < count ? &items[i + 1].task : NULL;
    }
    return &items[0].task;
}

static unsigned length(void)
{
    return (unsigned)atomic_load(&queue->count);
}

static unsigned idle(void)
{
    pthread_mutex_lock(&queue->lock);
    unsigned n = queue->idle;
    pthread_mutex_unlock(&queue->lock);
    return n;
}

static void begin(size_t limit)
{
    queue = calloc(1, sizeof *queue);
    assert_non_null(queue);
    ioh__queue_init(queue, limit, ioh__cpu_count());
}

static void end(void)
{
    ioh__queue_destroy(queue);
    free(queue);
}

/* ---- one thread */

static void tasks_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    struct item a[3], b[2];
    begin(100);
    assert_null(ioh__queue_put(queue, chain(a, 3, 1)));
    assert_null(ioh__queue_put(queue, chain(b, 2, 4)));
    assert_int_equal(length(), 5);
    for (unsigned i = 1; i <= 5; i++) {
        struct ioh__task *task = ioh__queue_pop(queue);
        assert_int_equal(number_of(task), i);
        assert_int_equal(length(), 5 - i);
    }
    end();
}

static void what_does_not_fit_comes_back_in_order_and_linked(void **state)
{
    (void)state;
    struct item a[5], b[1];
    begin(3);
    struct ioh__task *rest = ioh__queue_put(queue, chain(a, 5, 1));
    assert_int_equal(number_of(rest), 4);
    assert_int_equal(number_of(rest->next), 5);
    assert_null(rest->next->next);
    assert_ptr_equal(ioh__queue_put(queue, chain(b, 1, 9)), &b[0].task);
    assert_int_equal(length(), 3);
    assert_int_equal(number_of(ioh__queue_pop(queue)), 1);
    assert_ptr_equal(ioh__queue_put(queue, rest), &a[4].task); /* one has room again */
    for (unsigned i = 2; i <= 4; i++)
        assert_int_equal(number_of(ioh__queue_pop(queue)), i);
    assert_int_equal(length(), 0);
    assert_null(ioh__queue_put(queue, chain(b, 1, 9))); /* after being empty */
    assert_int_equal(number_of(ioh__queue_pop(queue)), 9);
    end();
}

static void a_queue_without_room_takes_nothing(void **state)
{
    (void)state;
    struct item a[2];
    begin(0);
    assert_ptr_equal(ioh__queue_put(queue, chain(a, 2, 1)), &a[0].task);
    assert_ptr_equal(a[0].task.next, &a[1].task);
    assert_int_equal(length(), 0);
    end();
}

static void a_closed_queue_takes_nothing_and_gives_what_it_has(void **state)
{
    (void)state;
    struct item a[2], b[1];
    begin(10);
    assert_null(ioh__queue_put(queue, chain(a, 2, 1)));
    ioh__queue_close(queue);
    assert_ptr_equal(ioh__queue_put(queue, chain(b, 1, 3)), &b[0].task);
    assert_int_equal(number_of(ioh__queue_pop(queue)), 1);
    assert_int_equal(number_of(ioh__queue_pop(queue)), 2);
    assert_null(ioh__queue_pop(queue));
    assert_null(ioh__queue_pop(queue));
    end();
}

/* ---- urgent tasks */

struct answer {
    bool yes;
    int asked;
};

static bool say(void *arg)
{
    struct answer *a = arg;
    a->asked++;
    return a->yes;
}

/* Takes one task at a time, when told. */
struct taker {
    pthread_t thread;
    _Atomic(struct ioh__task *) got;
    _Atomic bool back, go;
};

static void *take_one(void *arg)
{
    struct taker *t = arg;
    atomic_store(&t->got, ioh__queue_pop(queue));
    atomic_store(&t->back, true);
    return NULL;
}

static void begin_take(struct taker *t)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(pthread_create(&t->thread, NULL, take_one, t), 0);
}

static void urgent_is_refused_without_asking_when_no_thread_waits(void **state)
{
    (void)state;
    struct item a[1];
    struct answer yes = {.yes = true};
    begin(10);
    chain(a, 1, 1);
    assert_false(ioh__queue_put_urgent(queue, &a[0].task, say, &yes));
    assert_int_equal(yes.asked, 0);
    assert_int_equal(length(), 0);
    end();
}

static void urgent_needs_a_waiting_thread_and_a_claim_that_says_yes(void **state)
{
    (void)state;
    struct item a[1];
    struct answer yes = {.yes = true}, no = {.yes = false};
    struct taker t;
    begin(0); /* also beyond the limit */
    chain(a, 1, 7);
    begin_take(&t);
    wait_until(idle() == 1);
    assert_false(ioh__queue_put_urgent(queue, &a[0].task, say, &no));
    assert_int_equal(no.asked, 1);
    assert_int_equal(length(), 0);
    assert_true(ioh__queue_put_urgent(queue, &a[0].task, say, &yes));
    assert_int_equal(yes.asked, 1);
    wait_until(t.back);
    pthread_join(t.thread, NULL);
    assert_ptr_equal(t.got, &a[0].task);
    ioh__queue_close(queue);
    assert_false(ioh__queue_put_urgent(queue, &a[0].task, say, &yes));
    assert_int_equal(yes.asked, 1);
    end();
}

/* The thread that waits has something else to take already. The lock keeps it from taking it meanwhile. */
static void urgent_counts_the_tasks_that_waiting_threads_are_about_to_take(void **state)
{
    (void)state;
    struct item a[1], b[2];
    struct answer yes = {.yes = true};
    begin(10);
    chain(b, 2, 1);
    queue->idle = 2; /* as two threads inside pop() would have it */
    assert_null(ioh__queue_put(queue, &b[0].task));
    chain(a, 1, 9);
    assert_false(ioh__queue_put_urgent(queue, &a[0].task, say, &yes));
    assert_int_equal(yes.asked, 0);
    queue->idle = 3;
    assert_true(ioh__queue_put_urgent(queue, &a[0].task, say, &yes));
    queue->idle = 0;
    assert_int_equal(number_of(ioh__queue_pop(queue)), 9); /* in front of all others */
    assert_int_equal(number_of(ioh__queue_pop(queue)), 1);
    assert_int_equal(number_of(ioh__queue_pop(queue)), 2);
    assert_int_equal(length(), 0);
    chain(a, 1, 4);
    queue->idle = 1;
    assert_true(ioh__queue_put_urgent(queue, &a[0].task, say, &yes)); /* into an empty one */
    queue->idle = 0;
    chain(b, 1, 5);
    assert_null(ioh__queue_put(queue, &b[0].task));
    assert_int_equal(number_of(ioh__queue_pop(queue)), 4);
    assert_int_equal(number_of(ioh__queue_pop(queue)), 5);
    end();
}

/* ---- sleeping and waking */

static void close_wakes_every_sleeper(void **state)
{
    (void)state;
    enum { SLEEPERS = 8 };
    struct taker t[SLEEPERS];
    begin(10);
    for (int i = 0; i < SLEEPERS; i++)
        begin_take(&t[i]);
    wait_until(idle() == SLEEPERS);
    ioh__queue_close(queue);
    for (int i = 0; i < SLEEPERS; i++) {
        wait_until(t[i].back);
        pthread_join(t[i].thread, NULL);
        assert_null(t[i].got);
    }
    assert_int_equal(idle(), 0);
    end();
}

static void a_batch_wakes_as_many_threads_as_it_needs(void **state)
{
    (void)state;
    enum { THREADS = 6, ROUNDS = 200 };
    struct taker t[THREADS];
    struct item items[THREADS];
    begin(100);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned seen = 0;
        for (int i = 0; i < THREADS; i++)
            begin_take(&t[i]);
        wait_until(idle() == THREADS);
        if (round % 2) /* half of the time nobody spins any more */
            usleep(200);
        assert_null(ioh__queue_put(queue, chain(items, THREADS, 0)));
        for (int i = 0; i < THREADS; i++) {
            wait_until(t[i].back);
            pthread_join(t[i].thread, NULL);
            seen |= 1u << number_of(t[i].got);
        }
        assert_int_equal(seen, (1u << THREADS) - 1);
    }
    end();
}

/* Threads that each block on their task until all have one: nobody may have been left asleep. */
static _Atomic unsigned inside;
static _Atomic bool all_inside;

static void *take_and_block(void *arg)
{
    (void)arg;
    while (ioh__queue_pop(queue)) {
        atomic_fetch_add(&inside, 1);
        while (!atomic_load(&all_inside))
            usleep(50);
        atomic_fetch_sub(&inside, 1);
    }
    return NULL;
}

static void no_thread_sleeps_beside_a_task_while_the_others_are_busy(void **state)
{
    (void)state;
    enum { THREADS = 4, ROUNDS = 150 };
    pthread_t threads[THREADS];
    struct item items[THREADS];
    begin(100);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_block, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        wait_until(idle() == THREADS);
        if (round % 3 == 0)
            usleep(300);
        for (unsigned i = 0; i < THREADS; i++) { /* one by one, by batches of two, all at once */
            unsigned n = round % 3 == 0 ? 1 : round % 3 == 1 ? 2 : THREADS;
            assert_null(ioh__queue_put(queue, chain(&items[i], n, i)));
            i += n - 1;
        }
        wait_until(atomic_load(&inside) == THREADS);
        atomic_store(&all_inside, true);
        wait_until(atomic_load(&inside) == 0);
        atomic_store(&all_inside, false);
    }
    ioh__queue_close(queue);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end();
}

/* ---- many */

enum { PRODUCERS = 4, CONSUMERS = 4, EACH = 100000, BATCH = 7, ROOM = 64 };

static struct item *everything;
static _Atomic uint8_t *taken; /* how often each came out */
static _Atomic bool unordered;
static _Atomic unsigned came_out, did_not_fit;

/* Puts its EACH items in batches of one to BATCH, and what does not fit again. */
static void *produce(void *arg)
{
    unsigned first = (unsigned)(uintptr_t)arg * EACH;
    for (unsigned at = 0, size = 1; at < EACH; size = size % BATCH + 1) {
        unsigned n = size < EACH - at ? size : EACH - at;
        struct ioh__task *rest = chain(&everything[first + at], n, first + at);
        at += n;
        while ((rest = ioh__queue_put(queue, rest))) {
            atomic_fetch_add(&did_not_fit, 1);
            sched_yield();
        }
    }
    return NULL;
}

/* What one producer puts comes out in its order, as far as one consumer sees it. */
static void *consume(void *arg)
{
    unsigned last[PRODUCERS] = {0};
    struct ioh__task *task;
    (void)arg;
    while ((task = ioh__queue_pop(queue))) {
        unsigned number = number_of(task), from = number / EACH;
        if (number % EACH < last[from])
            atomic_store(&unordered, true);
        last[from] = number % EACH;
        atomic_fetch_add(&taken[number], 1);
        atomic_fetch_add(&came_out, 1);
    }
    return NULL;
}

static void many_producers_and_consumers_lose_and_double_nothing(void **state)
{
    (void)state;
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    begin(ROOM);
    everything = calloc(PRODUCERS * EACH, sizeof *everything);
    taken = calloc(PRODUCERS * EACH, sizeof *taken);
    assert_true(everything && taken);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, NULL), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, (void *)(uintptr_t)i), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    /* No more puts to wake anybody: what is in must come out all the same. */
    wait_until(atomic_load(&came_out) == PRODUCERS * EACH);
    ioh__queue_close(queue);
    for (int i = 0; i < CONSUMERS; i++)
        pthread_join(consumers[i], NULL);
    for (unsigned i = 0; i < PRODUCERS * EACH; i++)
        assert_int_equal(atomic_load(&taken[i]), 1);
    assert_false(unordered);
    assert_true(did_not_fit > 0); /* it was full at times */
    assert_int_equal(length(), 0);
    free(everything);
    free(taken);
    end();
}

/* Urgent tasks among others: each claim that said yes is run by a thread at once, although the plain ones keep
 * coming. */
static _Atomic unsigned plain_ran, urgent_ran;

static void *serve(void *arg)
{
    struct ioh__task *task;
    (void)arg;
    while ((task = ioh__queue_pop(queue)))
        atomic_fetch_add(number_of(task) ? &urgent_ran : &plain_ran, 1);
    return NULL;
}

static void urgent_tasks_among_others_are_all_run(void **state)
{
    (void)state;
    enum { THREADS = 3, TASKS = 20000 };
    static struct item plain[TASKS], urgent[TASKS];
    struct answer yes = {.yes = true};
    pthread_t threads[THREADS];
    unsigned put = 0;
    begin(2 * TASKS); /* the threads may not come to run before all are in */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve, NULL), 0);
    for (unsigned i = 0; i < TASKS; i++) {
        assert_null(ioh__queue_put(queue, chain(&plain[i], 1, 0)));
        chain(&urgent[i], 1, 1);
        put += ioh__queue_put_urgent(queue, &urgent[i].task, say, &yes);
    }
    wait_until(atomic_load(&plain_ran) == TASKS && atomic_load(&urgent_ran) == put);
    ioh__queue_close(queue);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(yes.asked, put);
    assert_int_equal(atomic_load(&urgent_ran), put);
    end();
}

/* ---- on one core */

static atomic_int yields, yield_us;

int __real_sched_yield(void);

int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    if (atomic_load(&yield_us))
        usleep((unsigned)atomic_load(&yield_us));
    return __real_sched_yield();
}

/* How often a thread that takes three tasks, one after the other, gives its only core away; each time it takes so long. */
static int yields_of_three(int us)
{
    pthread_t thread;
    struct item items[3];
    queue = calloc(1, sizeof *queue);
    assert_non_null(queue);
    ioh__queue_init(queue, 10, 1);
    atomic_store(&yield_us, us);
    atomic_store(&yields, 0);
    atomic_store(&plain_ran, 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        wait_until(idle() == 1 && !atomic_load(&queue->spinning));
        assert_null(ioh__queue_put(queue, chain(&items[i], 1, 0)));
        wait_until(atomic_load(&plain_ran) == i + 1);
    }
    wait_until(idle() == 1 && !atomic_load(&queue->spinning));
    ioh__queue_close(queue);
    pthread_join(thread, NULL);
    end();
    return atomic_load(&yields);
}

static void a_core_that_does_not_come_back_soon_is_not_given_away_again(void **state)
{
    (void)state;
    int slow = yields_of_three(5000);
    assert_int_equal(slow, 2);
    int tries = 0;
    while (yields_of_three(0) <= slow) /* on a busy machine a core may not come back soon, either */
        assert_true(++tries < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_come_out_in_the_order_they_went_in),
        cmocka_unit_test(what_does_not_fit_comes_back_in_order_and_linked),
        cmocka_unit_test(a_queue_without_room_takes_nothing),
        cmocka_unit_test(a_closed_queue_takes_nothing_and_gives_what_it_has),
        cmocka_unit_test(urgent_is_refused_without_asking_when_no_thread_waits),
        cmocka_unit_test(urgent_needs_a_waiting_thread_and_a_claim_that_says_yes),
        cmocka_unit_test(urgent_counts_the_tasks_that_waiting_threads_are_about_to_take),
        cmocka_unit_test(close_wakes_every_sleeper),
        cmocka_unit_test(a_batch_wakes_as_many_threads_as_it_needs),
        cmocka_unit_test(no_thread_sleeps_beside_a_task_while_the_others_are_busy),
        cmocka_unit_test(many_producers_and_consumers_lose_and_double_nothing),
        cmocka_unit_test(urgent_tasks_among_others_are_all_run),
        cmocka_unit_test(a_core_that_does_not_come_back_soon_is_not_given_away_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

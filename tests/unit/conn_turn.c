/* Before a loop sleeps it gives its core to the threads that have its callbacks (await_work() in conn/turn.c), but only where
 * that pays. There are two cores, whatever the machine has, so that nobody else yields. */
#include <sched.h>

#include "support/common.h"

#define TURNS 20

static atomic_int yields, yield_us, callback_us; /* us: what one takes */

unsigned __wrap_ioh__cpu_count(void);
unsigned __wrap_ioh__cpu_count(void)
{
    return 2;
}

int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    if (yield_us)
        usleep((unsigned)yield_us);
    return 0;
}

static void answer_after_a_while(ioh_req *req, void *state)
{
    usleep((unsigned)callback_us);
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, "", 0) >= 0);
}

static struct host *new_host(void **state, int callback, int yield)
{
    struct host *h = host_new(state);
    callback_us = callback;
    yield_us = yield;
    h->on.on_request = answer_after_a_while;
    return h;
}

/* Yields while a client asks again and again; the first request, with what opens a connection, does not count. */
static int yields_of(struct host *h)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    int before = yields;
    for (int i = 0; i < TURNS; i++)
        assert_int_equal(client_get(c, "/"), 200);
    int count = yields - before;
    client_close_all();
    host_end(h);
    return count;
}

static void a_loop_awaits_what_may_be_back_in_a_moment(void **state)
{
    struct host *h = new_host(state, 200, 0);
    host_start(h);
    assert_true(yields_of(h) > 0);
}

static void a_yield_that_took_long_is_the_last_for_a_while(void **state)
{
    struct host *h = new_host(state, 1000, 5000);
    host_start(h);
    uint64_t begin = host_now_ms();
    int count = yields_of(h);
    assert_in_range(count, 0, 1 + (host_now_ms() - begin) / 500);
    assert_true(yields > 0);
}

static void what_was_late_lately_is_not_awaited(void **state)
{
    struct host *h = new_host(state, 5000, 0);
    host_start(h);
    assert_int_equal(yields_of(h), 0);
}

static ioh_pool *named;

static void choose_named(ioh_req *req, struct ioh_route *route, void *state)
{
    (void)req;
    (void)state;
    route->exec = IOH_EXEC_POOL;
    route->pool = named;
}

static void a_named_pool_is_not_awaited(void **state)
{
    struct host *h = new_host(state, 1000, 0);
    h->on.on_classify = choose_named;
    host_create(h);
    named = host_pool(h, "named", 2, 0);
    host_start(h);
    assert_int_equal(yields_of(h), 0);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(a_loop_awaits_what_may_be_back_in_a_moment, IN_AWAY),
    HOST_TEST_IN(a_yield_that_took_long_is_the_last_for_a_while, IN_AWAY),
    HOST_TEST_IN(what_was_late_lately_is_not_awaited, IN_AUTO),
    HOST_TEST_IN(a_named_pool_is_not_awaited, IN_INLINE | IN_AUTO | IN_AWAY),
};

HOST_MAIN(tests)

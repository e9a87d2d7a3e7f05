/* Being late on purpose, under AUTO: a callback that waits until its loop has been taken over, and then until the test lets
 * it go on (for tests of conn/holder.c).
 */
#ifndef IOH_TESTS_LATE_H
#define IOH_TESTS_LATE_H

#include "common.h"

#include "conn/reach.h"
#include "server/server.h"

/* One loop: who is served while a callback waits is served by whoever took it. */
static const struct host_config auto_config = {
    "auto, 1 loop", false, IOH_EPOLL, IOH_EXEC_AUTO, 1, 3, 0};

static struct {
    atomic_int inside; /* callbacks that wait */
    atomic_bool go;    /* they may go on */
} gate;

static inline void shut_gate(void)
{
    atomic_store(&gate.inside, 0);
    atomic_store(&gate.go, false);
}

static inline void open_gate(void)
{
    atomic_store(&gate.go, true);
}

/* Has the loop been taken from under the callback that runs here? (Or did the callback begin without it: on a busy
 * machine any callback may have been late before.) */
static inline bool is_taken(void)
{
    const struct ioh__hub *hub = ioh__self.hub;
    return !hub ||
           atomic_load(&hub->watch) != ioh__watch_word(ioh__self.ticket, IOH__WATCH_CALLBACK);
}

/* In a callback. */
static inline void lose_the_loop(struct host *h)
{
    uint64_t until = host_now_ms() + PATIENCE_MS;
    while (!is_taken() && host_now_ms() < until)
        usleep(100);
    CHECK(h, is_taken());
}

static inline void wait_at_gate(struct host *h)
{
    uint64_t until = host_now_ms() + PATIENCE_MS;
    atomic_fetch_add(&gate.inside, 1);
    while (!atomic_load(&gate.go) && host_now_ms() < until)
        usleep(100);
    CHECK(h, atomic_load(&gate.go));
    atomic_fetch_sub(&gate.inside, 1);
}

static inline void be_late(struct host *h)
{
    lose_the_loop(h);
    wait_at_gate(h);
}

static inline int late_tear_down(void **state)
{
    open_gate();
    return host_tear_down(state);
}

/* A request on a new connection is answered at once. */
static inline void others_are_served(struct host *h)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/ping"), 200);
    client_close(c);
}

#define LATE_TEST(function)                                                        \
    {                                                                              \
#function, function, NULL, late_tear_down, (void *)(uintptr_t)&auto_config \
    }

#endif

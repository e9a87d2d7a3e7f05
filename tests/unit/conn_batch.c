/* Sending in batches: what is ready together is read first and answered then; but nobody waits for a slow callback
 * that is not his. */
#include "support/common.h"

#include <sys/socket.h>

#include "conn/batch.h"
#include "conn/conn.h"

enum { CLIENTS = 8, ROUNDS = 200 };

/* Answers that have been made and not sent yet: now, and the most there were. */
static atomic_int unsent, most_unsent;
static atomic_bool hold; /* the loop waits in /hold */

ssize_t __real_send(int fd, const void *data, size_t len, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    if (host_of_thread)
        atomic_fetch_sub(&unsent, 1);
    return __real_send(fd, data, len, flags);
}

static void on_request(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    if (path_is(req, "/hold")) {
        /* As after a millisecond in which as many were fed as there can be. */
        conn->hub->batch.fed = UINT32_MAX;
        conn->hub->batch.counted_from = 0;
        while (atomic_load(&hold))
            usleep(100);
    }
    if (path_is(req, "/slow"))
        usleep(20000); /* more than a tick of any clock */
    int now = atomic_fetch_add(&unsent, 1) + 1;
    if (now > atomic_load(&most_unsent))
        atomic_store(&most_unsent, now);
    CHECK(h, ioh_respond(req, 200, NULL, 0, "ok", 2) >= 0);
}

/* All of them are ready when the loop looks; answers how many answers waited together. */
static int ask_together(struct client *const *all, struct client *holder, const char *path)
{
    atomic_store(&hold, true);
    client_request(holder, "GET", "/hold", "");
    for (int i = 0; i < CLIENTS; i++)
        client_request(all[i], "GET", path, "");
    atomic_store(&most_unsent, 0);
    atomic_store(&hold, false);
    assert_int_equal(client_answer(holder), 200);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(client_answer(all[i]), 200);
    return atomic_load(&most_unsent);
}

static void open_all(struct host *h, struct client **all, struct client **holder)
{
    atomic_store(&unsent, 0);
    h->on.on_request = on_request;
    host_start(h);
    *holder = client_open(h);
    for (int i = 0; i < CLIENTS; i++)
        all[i] = client_open(h);
    assert_int_equal(client_get(*holder, "/"), 200);
}

/* A tick of the clock may cut a batch short, so it is tried again. */
static void what_is_ready_together_is_answered_together(void **state)
{
    struct host *h = host_new(state);
    struct client *all[CLIENTS], *holder;
    int round = 0;
    open_all(h, all, &holder);
    while (ask_together(all, holder, "/") < CLIENTS)
        assert_true(++round < ROUNDS);
    assert_int_equal(atomic_load(&unsent), 0);
    client_close_all();
    host_end(h);
}

static void an_answer_waits_for_one_slow_callback_at_most(void **state)
{
    struct host *h = host_new(state);
    struct client *all[CLIENTS], *holder;
    open_all(h, all, &holder);
    for (int round = 0; round < 3; round++)
        assert_in_range(ask_together(all, holder, "/slow"), 1, 2);
    assert_int_equal(atomic_load(&unsent), 0);
    client_close_all();
    host_end(h);
}

/* ---- how large a batch may be */

static void a_batch_is_half_a_millisecond_by_what_was_fed_lately(void **state)
{
    static const struct {
        uint64_t fed, ms;
        unsigned most;
    } row[] = {{0, 4, 0},     {4, 4, 0},      {8, 4, 1},      {80, 4, 10},
               {800, 4, 100}, {9000, 4, 128}, {800, 4000, 0}, {1u << 31, 1, 128}};
    static struct ioh__hub hub;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        hub.batch.fed = row[i].fed;
        hub.loop.now += row[i].ms;
        ioh__batch_tune(&hub);
        assert_int_equal(hub.batch.most, row[i].most);
        assert_int_equal(hub.batch.fed, 0);
        hub.batch.fed = 7; /* within the same tick nothing is known yet */
        ioh__batch_tune(&hub);
        assert_int_equal(hub.batch.most, row[i].most);
        assert_int_equal(hub.batch.fed, 7);
    }
}

static const struct host_test tests[] = {
    HOST_TEST_IN(what_is_ready_together_is_answered_together, IN_ONE_LOOP),
    HOST_TEST_IN(an_answer_waits_for_one_slow_callback_at_most, IN_ONE_LOOP),
    HOST_TEST_IN(a_batch_is_half_a_millisecond_by_what_was_fed_lately, IN_ONE_LOOP),
};

HOST_MAIN(tests)

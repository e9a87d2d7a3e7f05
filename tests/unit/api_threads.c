/* Reaching connections from other threads: ioh_run_on(), ioh_ws_post(), names of connections. */
#include "support/common.h"

static struct host *plain_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    h->on.on_ws_message = echo;
    host_start(h);
    return h;
}

static void note_conn(ioh_conn *conn, void *user)
{
    atomic_store((_Atomic ioh_conn_id *)user, ioh_conn_get_id(conn));
}

static void run_on_runs_as_a_callback_of_that_connection(void **state)
{
    struct host *h = plain_host(state);
    _Atomic ioh_conn_id ids[5], found[5] = {0};
    for (int i = 0; i < 5; i++) {
        client_open(h);
        WAIT(h, h->opens == i + 1);
        ids[i] = h->last_id;
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(host_run_on(h, ids[i], note_conn, (void *)&found[i], NULL), 0);
    WAIT(h, h->runs == 5);
    for (int i = 0; i < 5; i++)
        assert_true(found[i] == ids[i]);
    assert_int_equal(h->gones, 0);
    client_close_all();
    host_end(h);
}

static void count_gone(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void never_run(ioh_conn *conn, void *user)
{
    (void)user;
    CHECK(host_of_thread, conn == NULL);
}

static void run_on_tells_once_that_a_connection_is_gone(void **state)
{
    struct host *h = plain_host(state);
    atomic_int gone = 0;
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    ioh_conn_id id = h->last_id;
    client_close(c);
    WAIT(h, h->closes == 1);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(host_run_on(h, id, never_run, &gone, count_gone), 0);
        WAIT(h, h->gones == i);
        assert_int_equal(gone, i);
    }
    /* gone may be absent; then nothing runs. */
    assert_int_equal(ioh_run_on(h->server, id, never_run, NULL, NULL), gone_answer(h));
    assert_int_equal(host_run_on(h, id, never_run, &gone, count_gone), 0);
    WAIT(h, gone == 4);
    assert_int_equal(h->runs, 0);
    host_end(h);
}

static void names_that_never_were_are_refused(void **state)
{
    struct host *h = plain_host(state);
    atomic_int gone = 0;
    ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, "x", 1);
    static const ioh_conn_id never[] = {0, 1, 12345, UINT32_MAX, 0x100ff000000u, UINT64_MAX};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        assert_int_equal(ioh_run_on(h->server, never[i], never_run, &gone, count_gone), IOH_EGONE);
        assert_int_equal(ioh_ws_post(h->server, never[i], ioh_buf_ref(frame)), IOH_EGONE);
    }
    assert_int_equal(ioh_run_on(h->server, never[4], NULL, &gone, count_gone), IOH_EINVAL);
    ioh_buf_unref(frame);
    assert_int_equal(gone, 0);
    host_end(h);
}

/* Connections come and go on the same slots; whoever holds an old name never reaches a new one. */
static void names_of_closed_connections_never_reach_new_ones(void **state)
{
    struct host *h = plain_host(state);
    ioh_conn_id old[40];
    struct client *c;
    for (int i = 0; i < 40; i++) {
        c = client_open(h);
        assert_int_equal(client_get(c, "/"), 200);
        old[i] = h->last_id;
        client_close(c);
        WAIT(h, h->closes == i + 1);
    }
    c = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 1);
    ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, "for the dead", 12);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(host_run_on(h, old[i], never_run, NULL, NULL), 0);
        assert_int_equal(ioh_ws_post(h->server, old[i], ioh_buf_ref(frame)), gone_answer(h));
    }
    ioh_buf_unref(frame);
    WAIT(h, h->gones == 40);
    client_ws_send(c, IOH_WS_TEXT, "alive");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "alive");
    client_ws_leave(c);
    assert_int_equal(h->runs, 0);
    host_end(h);
}

/* ---- ioh_ws_post() */

static atomic_int releases;
static char word[] = "word";

static void post_consumes_its_frame_whatever_happens(void **state)
{
    struct host *h = plain_host(state);
    struct client *c = client_ws_open(h, "/");
    WAIT(h, h->ws_opens == 1);
    ioh_conn_id id = h->last_id;
    releases = 0;
    assert_int_equal(ioh_ws_post(h->server, id, NULL), IOH_EINVAL);
    assert_int_equal(ioh_ws_post(h->server, id, counted_buf(word, 4, &releases)), IOH_EINVAL);
    assert_int_equal(releases, 1);
    assert_int_equal(ioh_ws_post(h->server, id, ioh_ws_frame(IOH_WS_TEXT, "posted", 6)), 0);
    assert_int_equal(ioh_ws_post(h->server, id, ioh_ws_frame(IOH_WS_PING, "p", 1)), 0);
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "posted");
    assert_int_equal(client_ws_read(c), IOH_WS_PING);
    client_ws_leave(c);
    WAIT(h, h->closes == 1);
    WAIT(h, host_stats(h).connections == 0);
    int late = ioh_ws_post(h->server, id, ioh_ws_frame(IOH_WS_TEXT, "late", 4));
    assert_int_equal(late, gone_answer(h));
    /* To an HTTP connection it is handed over and dropped there. */
    c = client_open(h);
    WAIT(h, h->opens == 2);
    assert_int_equal(ioh_ws_post(h->server, h->last_id, ioh_ws_frame(IOH_WS_TEXT, "no", 2)), 0);
    assert_int_equal(client_get(c, "/"), 200);
    client_close(c);
    host_stop(h, LONG_DRAIN_MS);
    assert_int_equal(ioh_ws_post(h->server, id, ioh_ws_frame(IOH_WS_TEXT, "late", 4)), IOH_EGONE);
    assert_int_equal(ioh_run_on(h->server, id, never_run, NULL, NULL), IOH_EGONE);
    host_end(h);
}

/* ---- many threads at once */

enum { POSTERS = 4, MESSAGES = 500, CONNS = 10 };

struct poster {
    struct host *host;
    ioh_conn_id *ids;
    pthread_t thread;
    int messages; /* at most; until the server refuses */
    int accepted;
};

static atomic_int fn_sum, gone_sum;

static void add_fn(ioh_conn *conn, void *user)
{
    (void)conn;
    atomic_fetch_add(&fn_sum, (int)(intptr_t)user);
}

static void add_gone(void *user)
{
    atomic_fetch_add(&gone_sum, (int)(intptr_t)user);
}

static void *post_many(void *arg)
{
    struct poster *p = arg;
    for (int i = 0; i < p->messages; i++) {
        if (host_run_on(p->host, p->ids[i % CONNS], add_fn, (void *)1, add_gone))
            return NULL;
        p->accepted++;
        sched_yield(); /* the backlog is to stay small */
        ioh_ws_post(p->host->server, p->ids[i % CONNS], ioh_ws_frame(IOH_WS_TEXT, "x", 1));
    }
    return NULL;
}

static void start_posters(struct poster *posters, struct host *h, ioh_conn_id *ids, int messages)
{
    fn_sum = gone_sum = 0;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.host = h, .ids = ids, .messages = messages};
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
    }
}

static int join_posters(struct poster *posters)
{
    int accepted = 0;
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        accepted += posters[i].accepted;
    }
    return accepted;
}

static void open_conns(struct host *h, struct client **c, ioh_conn_id *ids)
{
    for (int i = 0; i < CONNS; i++) {
        c[i] = client_ws_open(h, "/");
        WAIT(h, h->ws_opens == i + 1);
        ids[i] = h->last_id;
    }
}

/* While half of the connections leave. */
static void every_accepted_run_on_runs_fn_or_gone_exactly_once(void **state)
{
    struct host *h = plain_host(state);
    struct client *c[CONNS];
    ioh_conn_id ids[CONNS];
    struct poster posters[POSTERS];
    open_conns(h, c, ids);
    start_posters(posters, h, ids, MESSAGES);
    for (int i = 0; i < CONNS; i += 2)
        client_close(c[i]);
    int accepted = join_posters(posters);
    assert_int_equal(accepted, POSTERS * MESSAGES);
    WAIT(h, h->runs + h->gones == accepted);
    assert_int_equal(fn_sum, h->runs);
    assert_int_equal(gone_sum, h->gones);
    for (int i = 1; i < CONNS; i += 2) {
        /* All of one sender's messages arrive; what was posted is 50 of each to each. */
        for (int k = 0; k < POSTERS * MESSAGES / CONNS; k++)
            assert_int_equal(client_ws_read(c[i]), IOH_WS_TEXT);
        client_ws_leave(c[i]);
    }
    host_end(h);
}

static void messages_in_flight_when_the_server_stops_run_once_too(void **state)
{
    struct host *h = plain_host(state);
    struct client *c[CONNS];
    ioh_conn_id ids[CONNS];
    struct poster posters[POSTERS];
    open_conns(h, c, ids);
    start_posters(posters, h, ids, INT32_MAX); /* they are still at it when it ends */
    WAIT(h, h->runs > 0);
    int rc = host_stop(h, 0);
    assert_true(rc == 0 || rc == IOH_ETIMEOUT);
    int accepted = join_posters(posters);
    assert_int_equal(fn_sum + gone_sum, accepted);
    assert_int_equal(h->runs + h->gones, accepted);
    client_close_all();
    host_end(h);
}

/* ---- threads */

static void nothing_has_begun(void *state)
{
    struct host *h = state;
    CHECK(h, h->opens == 0 || host_has_threads_for_each(h));
}

static void closes_are_over(void *state)
{
    struct host *h = state;
    CHECK(h, h->closes <= h->opens);
    atomic_fetch_add((atomic_int *)h->data, 1);
}

static void each_thread_is_told_its_start_and_stop_around_everything(void **state)
{
    struct host *h = host_new(state);
    atomic_int stops = 0;
    h->data = &stops;
    h->on.on_thread_start = nothing_has_begun;
    h->on.on_thread_stop = closes_are_over;
    h->on.on_request = answer_ok;
    host_start(h);
    for (int i = 0; i < 8; i++)
        assert_int_equal(client_get(client_open(h), "/"), 200);
    assert_int_equal(stops, 0);
    int mine = host_has_threads_for_each(h) ? 8 : 0;
    assert_int_equal(ioh_server_threads(h->server), host_threads(h) + mine);
    client_close_all();
    host_stop(h, LONG_DRAIN_MS);
    assert_int_equal(stops, host_callers(h) + mine);
    host_end(h);
}

static void connections_spread_over_the_loops(void **state)
{
    struct host *h = plain_host(state);
    uint64_t loads[8] = {0};
    int loops = host_loops(h);
    for (int i = 0; i < 40; i++)
        assert_int_equal(client_get(client_open(h), "/"), 200);
    assert_int_equal(ioh_server_loop_connections(h->server, loads, 8), loops);
    assert_int_equal(loads[0] + loads[1], 40);
    for (int i = 0; i < loops; i++)
        assert_in_range(loads[i], 40 / (uint64_t)loops - 1, 40 / (uint64_t)loops + 1);
    loads[0] = 77;
    assert_int_equal(ioh_server_loop_connections(h->server, loads, 0), loops);
    assert_int_equal(loads[0], 77);
    client_close_all();
    WAIT(h, host_stats(h).connections == 0);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(run_on_runs_as_a_callback_of_that_connection),
    HOST_TEST(run_on_tells_once_that_a_connection_is_gone),
    HOST_TEST(names_that_never_were_are_refused),
    HOST_TEST(names_of_closed_connections_never_reach_new_ones),
    HOST_TEST(post_consumes_its_frame_whatever_happens),
    HOST_TEST(every_accepted_run_on_runs_fn_or_gone_exactly_once),
    HOST_TEST(messages_in_flight_when_the_server_stops_run_once_too),
    HOST_TEST(each_thread_is_told_its_start_and_stop_around_everything),
    HOST_TEST_IN(connections_spread_over_the_loops, IN_ALL & ~IN_THREADS),
};

HOST_MAIN(tests)

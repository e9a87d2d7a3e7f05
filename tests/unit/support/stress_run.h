/* One run of a server under stress: start, load, stop, and what must hold then (stress.h). */
#ifndef IOH_TESTS_STRESS_RUN_H
#define IOH_TESTS_STRESS_RUN_H

#include "stress_client.h"

#define STRESS_CLIENTS 64

static inline void forget_run(const struct stress_config *config)
{
    memset((char *)&stress + offsetof(struct stress, callbacks), 0,
           sizeof stress - offsetof(struct stress, callbacks));
    stress.config = config;
    stress.over = stress.stopping = false;
    stress.faults = 0;
    stress.fault[0] = '\0';
    answers_checked = frames_checked = resets_made = refusals_seen = turned_away = 0;
}

static inline void start_stress(const struct stress_config *config)
{
    static int runs;
    static const struct ioh_header field = {"X-N", "0"};
    struct ioh_options o = IOH_OPTIONS_INIT;
    char address[100];
    forget_run(config);
    /* A nap of a microsecond shall not take 50 more: the server's threads inherit it. */
    prctl(PR_SET_TIMERSLACK, 1);
    o.type = config->type;
    o.exec = config->exec;
    o.epoll_threads = 2;
    o.pool_threads = config->pool_threads;
    o.pool_queue = config->pool_queue;
    o.pool_full = config->pool_full;
    o.work_op_threads = config->work_op_threads;
    o.handoff_us = config->handoff_us;
    o.send_high = 65536;
    o.no_environment = 1;
    struct ioh_handler handler = stress_handler();
    assert_int_equal(ioh_server_create(&stress.server, &handler, &o, NULL), 0);
    stress.named = ioh_pool_create(stress.server, "named", 2, 0);
    stress.shared = ioh_response_create(200, &field, 1, "shared", 6);
    assert_true(stress.named && stress.shared);
    snprintf(address, sizeof address, "unix:/tmp/ioh-stress-%d-%d.sock", (int)getpid(), runs++);
    assert_int_equal(ioh_server_listen(stress.server, address, NULL), 0);
    assert_int_equal(ioh_server_listen(stress.server, "127.0.0.1:0", NULL), 1);
    assert_int_equal(
        ioh_server_address(stress.server, 0, stress.unix_path, sizeof stress.unix_path), 0);
    assert_int_equal(ioh_server_address(stress.server, 1, stress.tcp, sizeof stress.tcp), 0);
    assert_int_equal(ioh_server_start(stress.server), 0);
    start_errands();
}

/* AUTO's memory of late paths, wiped as its own functions would count it down. */
static inline void *forget_late(void *arg)
{
    struct ioh__crew *crew = &stress.server->crew;
    (void)arg;
    while (!atomic_load(&stress.over)) {
        for (unsigned i = 0; i < IOH__LATE_SLOTS; i++)
            if (atomic_exchange(&crew->late_paths[i], 0))
                atomic_fetch_sub(&crew->late_known, 1);
        sleep_us(300);
    }
    return NULL;
}

static struct {
    pthread_t clients[STRESS_CLIENTS], forgetter;
} load;

static inline void begin_load(void)
{
    for (int i = 0; i < stress.config->clients; i++)
        assert_int_equal(pthread_create(&load.clients[i], NULL, run_client, (void *)(uintptr_t)i),
                         0);
    if (stress.config->forget)
        assert_int_equal(pthread_create(&load.forgetter, NULL, forget_late, NULL), 0);
}

/* The clients have left: by themselves, or since stress.over says so. */
static inline void join_clients(void)
{
    for (int i = 0; i < stress.config->clients; i++)
        pthread_join(load.clients[i], NULL);
    if (!stress.faults)
        return;
    /* The stop might hang, and another test must not meet these threads. */
    print_error("%s: %d faults, the first: %s\n", stress.config->name, stress.faults, stress.fault);
    _exit(1);
}

/* Those that need the server. */
static inline void join_helpers(void)
{
    atomic_store(&stress.over, true);
    if (stress.config->forget)
        pthread_join(load.forgetter, NULL);
    end_errands();
}

static inline struct ioh_stats stress_stats(void)
{
    struct ioh_stats stats = IOH_STATS_INIT;
    assert_int_equal(ioh_server_stats(stress.server, &stats), 0);
    return stats;
}

/* After the stop: whatever began has ended, and nothing is lent any more. */
static inline void check_links(void)
{
    for (struct link_seen *l = stress.links, *next; l; l = next) {
        next = l->next;
        if (!l->closed || atomic_load(&l->busy) || l->req || l->body)
            stress_fault(__FILE__, __LINE__, "connection %llx: closed %d, busy %d, in a request %d",
                         (unsigned long long)l->id, l->closed, l->busy, l->req != NULL);
        free(l);
    }
    stress.links = NULL;
}

static inline void check_lent(void)
{
    const ioh_server *s = stress.server;
    for (unsigned i = 0; i < s->hub_count; i++) {
        const struct ioh__hub *hub = s->hubs[i];
        SURE(hub->load == 0 && hub->conns.live == 0 && hub->busy == 0);
        SURE(hub->reqs.live == (hub->spare_req ? 1 : 0));
        SURE(hub->ws_engine.lent == 0);
        for (unsigned k = 0; k < 5; k++)
            SURE(hub->loop.mem.small[k].live == 0);
    }
    for (unsigned i = 0; i < s->crew.worker_count; i++)
        SURE(s->crew.workers[i].load == 0);
    SURE(s->crew.waiters == 0);
}

static inline void check_sums(void)
{
    SURE(stress.opens == stress.closes);
    SURE(stress.requests == stress.completes);
    SURE(stress.ws_opens == stress.ws_closes);
    SURE(stress.runs + stress.gones == stress.given);
    SURE(refusals_seen <= stress.refusals);
}

static inline void check_stats(void)
{
    struct ioh_stats stats = stress_stats();
    SURE(stats.connections == 0 && stats.websockets == 0 && stats.pool_waiting == 0);
}

/* The server has been stopped; in_time: all its threads have ended. */
static inline void end_stress(bool in_time)
{
    if (in_time) {
        check_lent();
        check_stats();
    }
    ioh_server_destroy(stress.server);
    check_sums();
    check_links();
    ioh_response_destroy(stress.shared);
    stress.server = NULL;
}

static inline void tell_run(const struct ioh_stats *stats, double seconds)
{
    print_message(
        "%-12s %8llu callbacks in %.1f s: %llu connections, %llu answers and %llu frames checked, "
        "%llu resets, %llu turned away; late %llu, stalled %llu, ended late %llu, pool jobs "
        "%llu, full %llu, drains %llu, peers gone %llu, late answers %llu\n",
        stress.config->name, (unsigned long long)stress.callbacks, seconds,
        (unsigned long long)stress.opens, (unsigned long long)answers_checked,
        (unsigned long long)frames_checked, (unsigned long long)resets_made,
        (unsigned long long)turned_away, (unsigned long long)stats->auto_late,
        (unsigned long long)stats->auto_stalled, (unsigned long long)stress.taken_calls,
        (unsigned long long)stats->pool_jobs, (unsigned long long)stats->pool_full,
        (unsigned long long)stress.drains, (unsigned long long)stress.peer_gones,
        (unsigned long long)stats->late_answers);
}

static inline void fail_if_faulty(void)
{
    if (stress.faults)
        fail_msg("%d faults, the first: %s", stress.faults, stress.fault);
}

/* A whole run. */
static inline struct ioh_stats run_stress(const struct stress_config *config)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    start_stress(config);
    begin_load();
    join_clients();
    join_helpers();
    struct ioh_stats stats = stress_stats();
    int rc = ioh_server_stop(stress.server, 20000);
    end_stress(true);
    clock_gettime(CLOCK_MONOTONIC, &end);
    tell_run(&stats,
             (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    fail_if_faulty();
    assert_int_equal(rc, 0);
    assert_true(stress.callbacks >= config->callbacks);
    return stats;
}

/* argv[1] or IOH_STRESS_CALLBACKS: how many callbacks a run is to have; else usual. */
static inline uint64_t wanted_callbacks(int argc, char **argv, uint64_t usual)
{
    const char *text = argc > 1 ? argv[1] : getenv("IOH_STRESS_CALLBACKS");
    return text ? strtoull(text, NULL, 10) : usual;
}

#endif

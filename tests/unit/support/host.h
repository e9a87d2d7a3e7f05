/* A host for tests of the public face: a server whose callbacks are watched.
 *
 * Each test runs once per struct host_config, so the same tests hold for every way to run a server.
 * A test takes host_new(), fills host->on and host->options, calls host_start(), acts as a client
 * (client.h) and ends with host_end(). Callbacks get the struct host as their state and use CHECK():
 * cmocka's asserts are for the test's own thread only. They run on any thread of the library, each
 * connection's in turn; what several connections share must be atomic or under host->lock.
 *
 * Whatever a test is about, the order of handler.h is checked for it: on_open first, on_close last and
 * once; no two callbacks of a connection at a time; on_complete once per on_request; nothing about a
 * request's body once it is answered; on_ws_close once per on_ws_open; all between on_thread_start and
 * on_thread_stop of their thread.
 */
#ifndef IOH_TESTS_HOST_H
#define IOH_TESTS_HOST_H

#include "watch.h"

struct host_config {
    const char *name;
    bool unix_socket;
    int32_t type, exec;
    uint32_t epoll_threads, pool_threads, work_op_threads;
};

/* Pools are small: what holds with four threads holds with sixteen, and starts sooner. */
static const struct host_config host_configs[] = {
    {"inline", false, IOH_EPOLL, IOH_EXEC_INLINE, 2, 0, 0},
    {"auto", false, IOH_EPOLL, IOH_EXEC_AUTO, 2, 4, 0},
    {"pool", false, IOH_EPOLL, IOH_EXEC_POOL, 2, 4, 0},
    {"affine", false, IOH_EPOLL, IOH_EXEC_AFFINE, 2, 0, 2},
    {"threads", false, IOH_THREADS, 0, 0, 0, 0},
    {"inline, 1 loop", false, IOH_EPOLL, IOH_EXEC_INLINE, 1, 0, 0},
    {"auto, unix", true, IOH_EPOLL, IOH_EXEC_AUTO, 2, 4, 0},
    {"pool, unix", true, IOH_EPOLL, IOH_EXEC_POOL, 2, 4, 0},
};
enum { HOST_CONFIGS = sizeof host_configs / sizeof host_configs[0] };

/* Sets of them, for HOST_TEST_IN(). */
#define IN_INLINE (1u << 0)
#define IN_AUTO (1u << 1)
#define IN_POOL (1u << 2)
#define IN_AFFINE (1u << 3)
#define IN_THREADS (1u << 4)
#define IN_ONE_LOOP (1u << 5)
#define IN_UNIX (1u << 6 | 1u << 7)
#define IN_ALL ((1u << HOST_CONFIGS) - 1)
#define IN_TCP (IN_INLINE | IN_AUTO | IN_POOL | IN_AFFINE | IN_THREADS) /* each way once */
#define IN_AWAY (IN_POOL | IN_AFFINE)  /* callbacks never run on the loop's thread */
#define IN_WAITING (IN_AUTO | IN_AWAY) /* callbacks may wait without stopping a loop */

static inline bool host_has_threads_for_each(const struct host *h)
{
    return h->config->type == IOH_THREADS;
}

/* Do all callbacks run where the connection can be touched at once? Otherwise what they send travels, and
 * the queue may fall while they run. */
static inline bool host_is_direct(const struct host *h)
{
    return host_has_threads_for_each(h) || h->config->exec == IOH_EXEC_INLINE;
}

/* ---- life */

static inline struct host *host_new(void **state)
{
    struct host *h = calloc(1, sizeof *h);
    pthread_condattr_t attr;
    assert_non_null(h);
    h->config = *state;
    h->on = (struct ioh_handler)IOH_HANDLER_INIT;
    h->options = (struct ioh_options)IOH_OPTIONS_INIT;
    h->options.type = h->config->type;
    h->options.exec = h->config->exec;
    h->options.epoll_threads = h->config->epoll_threads;
    h->options.pool_threads = h->config->pool_threads;
    h->options.work_op_threads = h->config->work_op_threads;
    h->options.no_environment = 1;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &attr);
    pthread_condattr_destroy(&attr);
    h->next = host_live;
    host_live = h;
    return h;
}

/* What is absent stays absent where that means something. */
static inline struct ioh_handler host_handler(const struct host *h)
{
    struct ioh_handler w = IOH_HANDLER_INIT;
    w.on_thread_start = host_on_thread_start;
    w.on_thread_stop = host_on_thread_stop;
    w.on_open = host_on_open;
    w.on_drain = host_on_drain;
    w.on_peer_gone = host_on_peer_gone;
    w.on_close = host_on_close;
    w.on_log = host_on_log;
    w.on_classify = h->on.on_classify ? host_on_classify : NULL;
    w.on_request = h->on.on_request ? host_on_request : NULL;
    w.on_body = h->on.on_body ? host_on_body : NULL;
    w.on_request_end = h->on.on_request_end ? host_on_request_end : NULL;
    w.on_complete = host_on_complete;
    w.on_ws_upgrade = h->on.on_ws_upgrade ? host_on_ws_upgrade : NULL;
    w.on_ws_open = host_on_ws_open;
    w.on_ws_message = h->on.on_ws_message ? host_on_ws_message : NULL;
    w.on_ws_piece = h->on.on_ws_piece ? host_on_ws_piece : NULL;
    w.on_ws_ping = host_on_ws_ping;
    w.on_ws_pong = host_on_ws_pong;
    w.on_ws_close = host_on_ws_close;
    return w;
}

/* The loops of the server: a thread per connection needs one, to accept. */
static inline int host_loops(const struct host *h)
{
    return host_has_threads_for_each(h) ? 1 : (int)h->options.epoll_threads;
}

/* The threads that are there when nobody is connected, */
static inline int host_threads(const struct host *h)
{
    const struct ioh_options *o = &h->options;
    bool watched = !host_has_threads_for_each(h) && o->exec == IOH_EXEC_AUTO && !o->work_op_threads;
    return host_loops(h) + (int)(o->pool_threads + o->work_op_threads) + h->named_threads + watched;
}

/* and those of them that call the host: all but the watcher. */
static inline int host_callers(const struct host *h)
{
    const struct ioh_options *o = &h->options;
    return host_loops(h) + (int)(o->pool_threads + o->work_op_threads) + h->named_threads;
}

/* Only what may stand between create and start needs this; host_start() does it otherwise. */
static inline void host_create(struct host *h)
{
    static int count;
    struct ioh_handler handler = host_handler(h);
    struct ioh_listen_options how = IOH_LISTEN_OPTIONS_INIT;
    char address[100] = "127.0.0.1:0";
    how.proxy_from = h->proxy_from;
    if (h->config->unix_socket)
        snprintf(address, sizeof address, "unix:/tmp/ioh-test-%d-%d.sock", (int)getpid(), count++);
    assert_int_equal(ioh_server_create(&h->server, &handler, &h->options, h), 0);
    if (ioh_server_listen(h->server, address, &how) != 0)
        fail_msg("%s", ioh_server_error(h->server));
    assert_int_equal(ioh_server_address(h->server, 0, h->address, sizeof h->address), 0);
}

static inline ioh_pool *host_pool(struct host *h, const char *name, unsigned threads,
                                  unsigned queue)
{
    ioh_pool *pool = ioh_pool_create(h->server, name, threads, queue);
    assert_non_null(pool);
    h->named_threads += host_has_threads_for_each(h) ? 0 : (int)threads;
    return pool;
}

static inline void host_start(struct host *h)
{
    if (!h->server)
        host_create(h);
    if (ioh_server_start(h->server) != 0)
        fail_msg("%s", ioh_server_error(h->server));
    h->running = true;
    assert_int_equal(ioh_server_threads(h->server), host_threads(h));
    assert_int_equal(h->thread_starts, host_callers(h));
}

static inline struct ioh_stats host_stats(struct host *h)
{
    struct ioh_stats stats = IOH_STATS_INIT;
    if (ioh_server_stats(h->server, &stats))
        memset(&stats, 0xff, sizeof stats);
    return stats;
}

/* After the stop: everything that began has ended. */
static inline void host_check_stopped(struct host *h)
{
    h->running = false;
    if (h->faults)
        fail_msg("%d faults, the first: %s", h->faults, *h->fault ? h->fault : "an id came back");
    assert_int_equal(h->opens, h->closes);
    assert_int_equal(h->requests, h->completes);
    assert_int_equal(h->ws_opens, h->ws_closes);
    assert_int_equal(h->thread_starts, h->thread_stops);
    assert_int_equal(ioh_server_threads(h->server), 0);
    for (struct seen *s = h->seen; s; s = s->next)
        assert_true(s->closed && !s->busy);
    struct ioh_stats stats = host_stats(h);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.websockets, 0);
    assert_true(stats.accepted >= (uint64_t)(h->opens + h->refusals));
    assert_true(stats.requests >= (uint64_t)h->requests);
    assert_int_equal(stats.ws_messages_received >= (uint64_t)h->ws_messages, 1);
}

/* Answers what ioh_server_stop() did. */
static inline int host_stop(struct host *h, uint32_t drain_ms)
{
    int rc = ioh_server_stop(h->server, drain_ms);
    host_check_stopped(h);
    return rc;
}

static inline void *host_run_stop(void *arg)
{
    struct host *h = arg;
    h->stop_rc = ioh_server_stop(h->server, h->stop_drain_ms);
    return NULL;
}

/* Stops in a thread of its own, so that the test may go on as a client. */
static inline void host_begin_stop(struct host *h, uint32_t drain_ms)
{
    h->stop_drain_ms = drain_ms;
    assert_int_equal(pthread_create(&h->stopper, NULL, host_run_stop, h), 0);
    h->stopping = true;
}

static inline int host_end_stop(struct host *h)
{
    pthread_join(h->stopper, NULL);
    h->stopping = false;
    host_check_stopped(h);
    return h->stop_rc;
}

static inline void host_free(struct host *h)
{
    for (struct host **at = &host_live; *at; at = &(*at)->next) {
        if (*at == h) {
            *at = h->next;
            break;
        }
    }
    if (h->stopping)
        pthread_join(h->stopper, NULL);
    ioh_server_destroy(h->server);
    while (h->seen) {
        struct seen *s = h->seen;
        h->seen = s->next;
        free(s);
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* The clients have left: the server ends by itself. */
static inline void host_end(struct host *h)
{
    if (h->running)
        assert_int_equal(host_stop(h, LONG_DRAIN_MS), 0);
    host_free(h);
}

/* ---- running the tests */

struct host_test {
    const char *name;
    CMUnitTestFunction run;
    unsigned configs;
};

/* Under every configuration, or some (IN_...). */
#define HOST_TEST(function) HOST_TEST_IN(function, IN_ALL)
#define HOST_TEST_IN(function, configs) \
    {                                   \
#function, function, configs    \
    }

/* It is not about callbacks. */
#define HOST_TEST_ONCE(function) HOST_TEST_IN(function, IN_INLINE)

static void client_close_all(void);

/* What a failed test left. */
static inline int host_tear_down(void **state)
{
    (void)state;
    client_close_all();
    while (host_live)
        host_free(host_live);
    return 0;
}

/* Runs each test under each of its configurations; argv[1] is a pattern of names. */
static inline int host_run_tests(const char *group, const struct host_test *tests, size_t count,
                                 int argc, char **argv)
{
    struct CMUnitTest *all = calloc(count * HOST_CONFIGS, sizeof *all);
    char(*names)[160] = calloc(count * HOST_CONFIGS, sizeof *names);
    size_t n = 0;
    if (!all || !names)
        return 1;
    for (size_t i = 0; i < count * HOST_CONFIGS; i++) {
        const struct host_test *test = &tests[i / HOST_CONFIGS];
        const struct host_config *config = &host_configs[i % HOST_CONFIGS];
        if (!(test->configs >> i % HOST_CONFIGS & 1))
            continue;
        snprintf(names[n], sizeof names[n], "%s (%s)", test->name, config->name);
        all[n] = (struct CMUnitTest){names[n], test->run, NULL, host_tear_down,
                                     (void *)(uintptr_t)config};
        n++;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    int failed = _cmocka_run_group_tests(group, all, n, NULL, NULL);
    free(names);
    free(all);
    return failed;
}

#define HOST_MAIN(tests)                                                                     \
    int main(int argc, char **argv)                                                          \
    {                                                                                        \
        return host_run_tests(__FILE__, tests, sizeof(tests) / sizeof *(tests), argc, argv); \
    }

#endif

/* Accepting: what runs out, what breaks, who gets whom. Whole servers, with system calls that fail in the
 * server's own threads when told.
 */
#include "support/live_server.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "conn/acceptor.h"

/* ---- faults */

static _Atomic int accept_error;    /* errno of the next `accept_failures` calls */
static _Atomic int accept_failures; /* INT_MAX: until told otherwise */
static _Atomic unsigned accepts, waits;
static _Atomic int add_error; /* errno of the next `add_failures` EPOLL_CTL_ADDs */
static _Atomic int add_failures;
static _Atomic int memory_failures; /* the next mallocs and reallocs of `poor_size` bytes or more */
static _Atomic size_t poor_size;

int __real_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __real_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout);
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);

static bool is_due(_Atomic int *failures)
{
    if (!in_server || atomic_load(failures) <= 0)
        return false;
    if (atomic_load(failures) == INT32_MAX)
        return true;
    return atomic_fetch_sub(failures, 1) > 0;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    atomic_fetch_add(&accepts, 1);
    if (is_due(&accept_failures)) {
        errno = atomic_load(&accept_error);
        return -1;
    }
    return __real_accept4(fd, address, len, flags);
}

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
    atomic_fetch_add(&waits, 1);
    return __real_epoll_wait(epfd, events, max, timeout);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    if (op == EPOLL_CTL_ADD && is_due(&add_failures)) {
        errno = atomic_load(&add_error);
        return -1;
    }
    return __real_epoll_ctl(epfd, op, fd, event);
}

void *__wrap_malloc(size_t size)
{
    return size >= atomic_load(&poor_size) && is_due(&memory_failures) ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return size >= atomic_load(&poor_size) && is_due(&memory_failures) ? NULL
                                                                       : __real_realloc(old, size);
}

static void fail_accepts(int error, int count)
{
    accept_error = error;
    accept_failures = count;
}

static int no_faults(void **state)
{
    accept_failures = add_failures = memory_failures = 0;
    return end_server(state);
}

/* ---- out of something */

static const int scarcities[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
#define SCARCITIES (sizeof scarcities / sizeof *scarcities)

static void a_client_is_served_after_a_pause_for_each_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCARCITIES; i++) {
        start_server("127.0.0.1:0", 1);
        fail_accepts(scarcities[i], 2);
        uint64_t begin = now_ms();
        unsigned before = waits;
        ping_anew();
        uint64_t took = now_ms() - begin;
        assert_int_equal(get_stats().accept_pauses, 2);
        assert_int_equal(get_stats().accepted, 1);
        assert_true(took >= 2 * IOH__ACCEPT_PAUSE_MS - 30); /* the clock is coarse */
        assert_true(waits - before < 20);
        assert_true(logged("accepting pauses: "));
        assert_true(logged(strerror(scarcities[i])));
        stop_server();
    }
}

static void while_accepting_pauses_nothing_spins(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    fail_accepts(EMFILE, INT32_MAX);
    int fd = connect_client();
    wait_until(get_stats().accept_pauses >= 1);
    unsigned accepts_before = accepts, waits_before = waits;
    uint64_t pauses_before = get_stats().accept_pauses, begin = now_ms();
    wait_until(get_stats().accept_pauses >= pauses_before + 4);
    uint64_t took = now_ms() - begin;
    uint64_t pauses = get_stats().accept_pauses - pauses_before;
    assert_true(took >= 3 * IOH__ACCEPT_PAUSE_MS);
    assert_true(accepts - accepts_before <= pauses + 1); /* one for each pause */
    assert_true(waits - waits_before <= 3 * pauses + 3);
    fail_accepts(0, 0);
    ping(fd);
    close(fd);
    stop_server();
}

static void who_is_connected_is_served_while_accepting_pauses(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    int old = connect_client();
    ping(old);
    fail_accepts(EMFILE, INT32_MAX);
    int new = connect_client();
    wait_until(get_stats().accept_pauses >= 1);
    for (int i = 0; i < 20; i++)
        ping(old);
    assert_int_equal(get_stats().accepted, 1);
    fail_accepts(0, 0);
    ping(new);
    close(new);
    close(old);
    stop_server();
}

static unsigned count_in_log(const char *text)
{
    unsigned n = 0;
    pthread_mutex_lock(&live.lock);
    for (const char *at = live.log; (at = strstr(at, text)); at++)
        n++;
    pthread_mutex_unlock(&live.lock);
    return n;
}

static void pauses_are_logged_once_a_second(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    fail_accepts(ENFILE, INT32_MAX);
    uint64_t begin = now_ms();
    int fd = connect_client();
    wait_until(get_stats().accept_pauses >= 14);
    unsigned lines = count_in_log("accepting pauses");
    assert_in_range(lines, 2, (now_ms() - begin) / 900 + 1);
    fail_accepts(0, 0);
    ping(fd);
    close(fd);
    stop_server();
}

static void a_stop_does_not_wait_for_a_pause(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 2);
    fail_accepts(EMFILE, INT32_MAX);
    int fd = connect_client();
    wait_until(get_stats().accept_pauses >= 1);
    stop_server();
    char byte;
    assert_int_equal(hear(fd, &byte, 1), 0); /* it was never accepted */
    close(fd);
    assert_int_equal(live.records, 0);
}

static void every_loop_pauses_for_itself_and_goes_on(void **state)
{
    (void)state;
    int fds[6];
    start_server("127.0.0.1:0", 3);
    fail_accepts(EMFILE, INT32_MAX);
    for (int i = 0; i < 6; i++)
        fds[i] = connect_client();
    wait_until(get_stats().accept_pauses >= 9);
    fail_accepts(0, 0);
    for (int i = 0; i < 6; i++) {
        ping(fds[i]);
        close(fds[i]);
    }
    stop_server();
}

/* valgrind accepts and closes what is above its own limit. */
static void skip_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload"))
        skip();
}

/* No wrapped call here: the process really has no descriptor left. */
static void without_a_free_descriptor_the_client_waits_and_is_served_later(void **state)
{
    (void)state;
    struct rlimit before, none;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval most = {.tv_sec = DEADLINE_MS / 1000};
    skip_under_valgrind();
    start_server("127.0.0.1:0", 1);
    to.sin_port = htons((uint16_t)atoi(strrchr(live.address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    int next = dup(fd); /* the lowest free number */
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = connect(fd, (struct sockaddr *)&to, sizeof to);
    for (uint64_t begin = now_ms();
         get_stats().accept_pauses < 2 && now_ms() - begin < DEADLINE_MS;)
        usleep(1000);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(rc, 0);
    assert_true(get_stats().accept_pauses >= 2);
    ping(fd);
    close(fd);
    stop_server();
}

static void a_poller_that_refuses_the_listener_after_a_pause_is_asked_again_later(void **state)
{
    (void)state;
    start_server("127.0.0.1:0", 1);
    add_error = ENOSPC;
    add_failures = 2;
    fail_accepts(EMFILE, 1);
    ping_anew();
    assert_int_equal(get_stats().accept_pauses, 3);
    assert_int_equal(add_failures, 0);
    stop_server();
}

/* ---- broken while they waited */

static void a_connection_that_broke_while_it_waited_is_passed_over(void **state)
{
    (void)state;
    static const int errors[] = {ECONNABORTED, EINTR, EPROTO, EPERM, ENETDOWN, EHOSTUNREACH};
    static const int counts[] = {1, 3, 200}; /* the last: more than a turn's batch */
    start_server("127.0.0.1:0", 1);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            fail_accepts(errors[i], counts[k]);
            ping_anew();
        }
    }
    assert_int_equal(get_stats().accept_pauses, 0);
    stop_server();
}

/* ---- who gets whom */

static void connections_are_spread_over_the_loops_with_the_fewest(void **state)
{
    (void)state;
    enum { LOOPS = 3, EACH = 5 };
    int fds[LOOPS * EACH];
    uint64_t have[LOOPS];
    start_server("127.0.0.1:0", LOOPS);
    for (int i = 0; i < LOOPS * EACH; i++) {
        fds[i] = connect_client();
        ping(fds[i]);
    }
    assert_int_equal(ioh_server_loop_connections(live.server, have, LOOPS), LOOPS);
    for (int i = 0; i < LOOPS; i++)
        assert_int_equal(have[i], EACH);
    for (int i = 0; i < LOOPS * EACH; i++)
        close(fds[i]);
    wait_until(get_stats().connections == 0);
    ping_anew();
    stop_server();
}

static void many_clients_at_once_are_all_served(void **state)
{
    (void)state;
    enum { COUNT = 300 }; /* several batches */
    static int fds[COUNT];
    start_server("127.0.0.1:0", 2);
    for (int i = 0; i < COUNT; i++)
        fds[i] = connect_client();
    for (int i = 0; i < COUNT; i++)
        ping(fds[i]);
    assert_int_equal(get_stats().connections, COUNT);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    stop_server();
    assert_int_equal(live.records, COUNT);
}

static void a_host_may_refuse_a_connection_and_hears_no_more_of_it(void **state)
{
    (void)state;
    char byte;
    start_server("127.0.0.1:0", 1);
    live.refuse_open = -1;
    int fd = connect_client();
    assert_int_equal(hear(fd, &byte, 1), 0);
    close(fd);
    assert_int_equal(live.records, 0);
    live.refuse_open = 0;
    ping_anew();
    stop_server();
    assert_int_equal(live.records, 1);
}

static void a_unix_client_is_accepted(void **state)
{
    (void)state;
    char dir[] = "/tmp/conn_acceptor.XXXXXX", text[64];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval most = {.tv_sec = DEADLINE_MS / 1000};
    assert_non_null(mkdtemp(dir));
    snprintf(text, sizeof text, "unix:%s/s", dir);
    start_server(text, 2);
    fail_accepts(EMFILE, 1);
    strcpy(to.sun_path, text + 5);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    ping(fd);
    assert_int_equal(get_stats().accept_pauses, 1);
    close(fd);
    stop_server();
    assert_int_equal(rmdir(dir), 0); /* empty: the socket's file is gone */
}

/* ---- out of memory, out of watches */

static void a_connection_without_memory_is_closed_and_logged(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 8192}; /* anything; only the first slab of connections */
    for (size_t i = 0; i < 2; i++) {
        char byte;
        start_server("127.0.0.1:0", 1);
        poor_size = sizes[i];
        memory_failures = 1;
        int fd = connect_client();
        assert_int_equal(hear(fd, &byte, 1), 0);
        close(fd);
        assert_int_equal(memory_failures, 0);
        wait_until(logged("out of memory: a new connection is closed"));
        assert_int_equal(get_stats().connections, 0);
        ping_anew();
        stop_server();
        assert_int_equal(live.records, 1);
    }
}

/* Connects with one request for memory that fails; true: the connection was closed for it. */
static bool connect_in_vain(void)
{
    char byte;
    memory_failures = 1;
    int fd = connect_client();
    say_text(fd, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n");
    bool lost = hear(fd, &byte, 1) == 0;
    memory_failures = 0;
    close(fd);
    wait_until(get_stats().connections == 1);
    return lost;
}

/* One loop has a connection and the other none: when the first accepts, the second gets it by mail. Which
 * one accepts is the kernel's choice, so either is given the first part, a few times. */
static void a_connection_that_cannot_be_handed_over_is_closed_and_forgotten(void **state)
{
    (void)state;
    int fds[2];
    bool lost = false;
    start_server("127.0.0.1:0", 2);
    poor_size = 1;
    for (int round = 0; round < 20 && !lost; round++) {
        for (int i = 0; i < 2; i++) { /* one for each loop, which then has all that it needs */
            fds[i] = connect_client();
            ping(fds[i]);
        }
        close(fds[round % 2]);
        wait_until(get_stats().connections == 1);
        for (int i = 0; i < 5 && !lost; i++)
            lost = connect_in_vain();
        ping(fds[!(round % 2)]);
        close(fds[!(round % 2)]);
        wait_until(get_stats().connections == 0);
    }
    assert_true(lost);
    assert_int_equal(live.records, get_stats().accepted); /* it never got so far */
    ping_anew();
    stop_server();
}

static void a_connection_that_the_poller_refuses_is_reset_and_logged(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, ENOMEM};
    start_server("127.0.0.1:0", 1);
    for (unsigned i = 0; i < 2; i++) {
        char byte;
        add_error = errors[i];
        add_failures = 1;
        int fd = connect_client();
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
        close(fd);
        wait_until(live.record[2 * i].closes == 1);
        ping_anew();
    }
    assert_true(logged("epoll refuses a connection"));
    assert_int_equal(get_stats().accept_pauses, 0);
    stop_server();
    assert_int_equal(live.records, 4);
}

/* ---- the beginning */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int threads;
    bool served;
    int run_on_answer;
    _Atomic int ran;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The second thread is not ready before a client of the first has been served. */
static void slow_thread_start(void *state)
{
    host_thread_start(state);
    pthread_mutex_lock(&slow.lock);
    if (++slow.threads == 2)
        while (!slow.served)
            pthread_cond_wait(&slow.changed, &slow.lock);
    pthread_mutex_unlock(&slow.lock);
}

static void count_run(ioh_conn *conn, void *user)
{
    (void)conn;
    (void)user;
    slow.ran++;
}

static void count_gone(void *user)
{
    count_run(NULL, user);
}

static void slow_request(ioh_req *req, void *state)
{
    ioh_conn *conn = ioh_req_conn(req);
    slow.run_on_answer =
        ioh_run_on(ioh_conn_server(conn), ioh_conn_get_id(conn), count_run, NULL, count_gone);
    host_request(req, state);
}

static void *first_client(void *arg)
{
    char answer[512];
    int fd = connect_client();
    bool ok = say_text(fd, "GET /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    while (ok && recv(fd, answer, sizeof answer, 0) > 0)
        ;
    close(fd);
    pthread_mutex_lock(&slow.lock);
    slow.served = true;
    pthread_cond_broadcast(&slow.changed);
    pthread_mutex_unlock(&slow.lock);
    return arg;
}

static void who_is_served_before_all_threads_run_can_be_posted_to(void **state)
{
    (void)state;
    struct ioh_handler h = host_handler();
    struct ioh_options o = IOH_OPTIONS_INIT;
    pthread_t client;
    forget_all();
    h.on_thread_start = slow_thread_start;
    h.on_request = slow_request;
    o.epoll_threads = 2;
    o.keep_fd_limit = 1;
    slow.run_on_answer = 1;
    assert_int_equal(ioh_server_create(&live.server, &h, &o, NULL), 0);
    assert_int_equal(ioh_server_listen(live.server, "127.0.0.1:0", NULL), 0);
    assert_int_equal(ioh_server_address(live.server, 0, live.address, sizeof live.address), 0);
    assert_int_equal(pthread_create(&client, NULL, first_client, NULL), 0);
    assert_int_equal(ioh_server_start(live.server), 0);
    pthread_join(client, NULL);
    stop_server();
    assert_int_equal(slow.run_on_answer, 0);
    assert_int_equal(slow.ran, 1);
}

#define test_of(test) cmocka_unit_test_teardown(test, no_faults)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of(a_client_is_served_after_a_pause_for_each_failure),
        test_of(while_accepting_pauses_nothing_spins),
        test_of(who_is_connected_is_served_while_accepting_pauses),
        test_of(pauses_are_logged_once_a_second),
        test_of(a_stop_does_not_wait_for_a_pause),
        test_of(every_loop_pauses_for_itself_and_goes_on),
        test_of(without_a_free_descriptor_the_client_waits_and_is_served_later),
        test_of(a_poller_that_refuses_the_listener_after_a_pause_is_asked_again_later),
        test_of(a_connection_that_broke_while_it_waited_is_passed_over),
        test_of(connections_are_spread_over_the_loops_with_the_fewest),
        test_of(many_clients_at_once_are_all_served),
        test_of(a_host_may_refuse_a_connection_and_hears_no_more_of_it),
        test_of(a_unix_client_is_accepted),
        test_of(a_connection_without_memory_is_closed_and_logged),
        test_of(a_connection_that_cannot_be_handed_over_is_closed_and_forgotten),
        test_of(a_connection_that_the_poller_refuses_is_reset_and_logged),
        test_of(who_is_served_before_all_threads_run_can_be_posted_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

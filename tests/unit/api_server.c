/* Servers: listeners and their addresses, the order of create, listen, start, stop, several at once. */
#include "support/common.h"

#include <sys/resource.h>
#include <sys/stat.h>

static ioh_server *new_server(void)
{
    struct ioh_handler handler = IOH_HANDLER_INIT;
    ioh_server *s = NULL;
    assert_int_equal(ioh_server_create(&s, &handler, NULL, NULL), 0);
    assert_non_null(s);
    return s;
}

static const char *temporary_path(void)
{
    static char path[80];
    static int count;
    snprintf(path, sizeof path, "/tmp/ioh-api-server-%d-%d", (int)getpid(), count++);
    return path;
}

static const char *unix_address(const char *path)
{
    static char address[100];
    snprintf(address, sizeof address, "unix:%s", path);
    return address;
}

/* ---- errors */

static void every_error_has_a_text(void **state)
{
    (void)state;
#define TEXT_IS(name, value, text) assert_string_equal(ioh_strerror(name), text);
    IOH_ERRORS(TEXT_IS)
#undef TEXT_IS
    assert_string_equal(ioh_strerror(0), "ok");
    assert_string_equal(ioh_strerror(IOH_QUEUED), "ok");
    assert_string_equal(ioh_strerror(-1000), "unknown error");
    assert_string_equal(ioh_strerror(INT32_MIN), "unknown error");
}

static void unreadable_addresses_are_refused_with_a_text(void **state)
{
    static const char *const bad[] = {"",
                                      "8080",
                                      ":8080",
                                      "localhost:80",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:65536",
                                      "1.2.3:80",
                                      "256.0.0.1:80",
                                      "[::1]",
                                      "[::g]:80",
                                      "[127.0.0.1]:80",
                                      "::1:80",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:80 ",
                                      "unix:"};
    char longest[300] = "unix:/tmp/";
    ioh_server *s = new_server();
    (void)state;
    assert_string_equal(ioh_server_error(s), "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (ioh_server_listen(s, bad[i], NULL) != IOH_EADDR)
            fail_msg("'%s' is taken", bad[i]);
        assert_true(strlen(ioh_server_error(s)) > 10);
    }
    memset(longest + 10, 'x', sizeof longest - 11);
    assert_int_equal(ioh_server_listen(s, longest, NULL), IOH_EADDR);
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL),
                     0); /* numbers from 0, all the same */
    ioh_server_destroy(s);
}

static void addresses_that_cannot_be_had_are_told_apart(void **state)
{
    ioh_server *s = new_server();
    char taken[64];
    (void)state;
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), 0);
    assert_int_equal(ioh_server_address(s, 0, taken, sizeof taken), 0);
    assert_int_equal(ioh_server_listen(s, taken, NULL), IOH_EADDRINUSE);
    assert_non_null(strstr(ioh_server_error(s), taken));
    assert_int_equal(ioh_server_listen(s, "192.0.2.1:0", NULL), IOH_ESYS); /* not ours */
    assert_int_equal(ioh_server_listen(s, "unix:/nonexistent/folder/socket", NULL), IOH_ESYS);
    ioh_server_destroy(s);
}

/* ---- listeners */

static void listener_tells_its_bound_address(void **state)
{
    ioh_server *s = new_server();
    char text[128], small[11];
    int port = 0;
    (void)state;
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), 0);
    assert_int_equal(ioh_server_listen(s, "0.0.0.0:0", NULL), 1);
    assert_int_equal(ioh_server_address(s, 0, text, sizeof text), 0);
    assert_true(sscanf(text, "127.0.0.1:%d", &port) == 1 && port > 0);
    assert_int_equal(ioh_server_address(s, 1, text, sizeof text), 0);
    assert_true(sscanf(text, "0.0.0.0:%d", &port) == 1 && port > 0);
    assert_int_equal(ioh_server_address(s, 2, text, sizeof text), IOH_EINVAL);
    assert_int_equal(ioh_server_address(s, -1, text, sizeof text), IOH_EINVAL);
    assert_int_equal(ioh_server_address(s, 0, small, sizeof small), IOH_ETOOBIG);
    assert_int_equal(strnlen(small, sizeof small), sizeof small - 1);
    assert_int_equal(ioh_server_address(s, 0, small, 0), IOH_ETOOBIG);
    if (ioh_server_listen(s, "[::1]:0", NULL) == 2) { /* a machine may have no IPv6 */
        assert_int_equal(ioh_server_address(s, 2, text, sizeof text), 0);
        assert_true(sscanf(text, "[::1]:%d", &port) == 1 && port > 0);
    }
    ioh_server_destroy(s);
}

static void tell_listener(ioh_req *req, void *state)
{
    char text[20];
    int n = snprintf(text, sizeof text, "%d", ioh_conn_listener(ioh_req_conn(req)));
    (void)state;
    ioh_respond(req, 200, NULL, 0, text, (size_t)n);
}

static void connection_knows_its_listener_among_many(void **state)
{
    struct ioh_handler handler = IOH_HANDLER_INIT;
    struct ioh_listen_options options = IOH_LISTEN_OPTIONS_INIT;
    ioh_server *s;
    char address[128], want[12];
    (void)state;
    options.backlog = 5;
    handler.on_request = tell_listener;
    assert_int_equal(ioh_server_create(&s, &handler, NULL, NULL), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ioh_server_listen(s,
                                           i % 2 ? unix_address(temporary_path()) : "127.0.0.1:0",
                                           i % 3 ? &options : NULL),
                         i);
    assert_int_equal(ioh_server_start(s), 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ioh_server_address(s, i, address, sizeof address), 0);
        struct client *c = client_open_at(address);
        assert_int_equal(client_get(c, "/"), 200);
        snprintf(want, sizeof want, "%d", i);
        assert_body(c, want);
        client_close(c);
    }
    assert_int_equal(ioh_server_stop(s, LONG_DRAIN_MS), 0);
    ioh_server_destroy(s);
}

static void unix_socket_gets_its_mode_and_goes_with_the_server(void **state)
{
    const char *path = temporary_path();
    struct ioh_listen_options options = IOH_LISTEN_OPTIONS_INIT;
    struct stat st;
    (void)state;
    for (int started = 0; started < 2; started++) {
        ioh_server *s = new_server();
        options.unix_mode = started ? 0600 : 0666;
        assert_int_equal(ioh_server_listen(s, unix_address(path), &options), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, options.unix_mode);
        if (started) {
            assert_int_equal(ioh_server_start(s), 0);
            assert_int_equal(ioh_server_stop(s, 0), 0);
            assert_int_equal(stat(path, &st), -1); /* when it stops */
        }
        ioh_server_destroy(s);
        assert_int_equal(stat(path, &st), -1);
    }
}

static void stale_unix_socket_is_replaced_and_one_in_use_is_not(void **state)
{
    const char *path = temporary_path();
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)state;
    snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    close(fd); /* the file stays, nobody listens */
    ioh_server *first = new_server(), *second = new_server();
    assert_int_equal(ioh_server_listen(first, unix_address(path), NULL), 0);
    assert_int_equal(ioh_server_listen(second, unix_address(path), NULL), IOH_EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    ioh_server_destroy(first);
    assert_int_equal(ioh_server_listen(second, unix_address(path), NULL), 0);
    ioh_server_destroy(second);
    FILE *file = fopen(path, "w"); /* no socket at all */
    assert_non_null(file);
    fclose(file);
    first = new_server();
    assert_int_equal(ioh_server_listen(first, unix_address(path), NULL), IOH_EADDRINUSE);
    ioh_server_destroy(first);
    assert_int_equal(unlink(path), 0);
}

/* ---- states */

static void calls_out_of_order_are_refused(void **state)
{
    ioh_server *s = new_server();
    struct ioh_stats stats = IOH_STATS_INIT;
    char address[64];
    (void)state;
    assert_int_equal(ioh_server_stop(s, 0), IOH_ESTATE);
    assert_int_equal(ioh_server_threads(s), 0);
    assert_int_equal(ioh_server_stats(s, &stats), 0);
    assert_int_equal(stats.threads, 0);
    assert_int_equal(ioh_server_loop_connections(s, NULL, 0), 0);
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), 0);
    assert_int_equal(ioh_server_start(s), 0);
    assert_true(ioh_server_threads(s) >= 1);
    assert_int_equal(ioh_server_start(s), IOH_ESTATE);
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), IOH_ESTATE);
    assert_int_equal(ioh_server_address(s, 0, address, sizeof address), 0);
    assert_int_equal(ioh_server_stop(s, 0), 0);
    assert_int_equal(ioh_server_threads(s), 0);
    assert_int_equal(ioh_server_stop(s, 0), IOH_ESTATE);
    assert_int_equal(ioh_server_start(s), IOH_ESTATE);
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), IOH_ESTATE);
    ioh_server_destroy(s);
    ioh_server_destroy(NULL);
}

static void server_without_listeners_runs_too(void **state)
{
    ioh_server *s = new_server();
    (void)state;
    assert_int_equal(ioh_server_start(s), 0);
    assert_int_equal(ioh_server_stop(s, LONG_DRAIN_MS), 0);
    ioh_server_destroy(s);
}

/* Without descriptors a start fails, says why, and leaves a server that can be started later. */
static void start_that_fails_tells_why(void **state)
{
    struct ioh_handler handler = IOH_HANDLER_INIT;
    struct ioh_options options = IOH_OPTIONS_INIT;
    struct rlimit before, none;
    ioh_server *s;
    char address[64];
    (void)state;
    options.keep_fd_limit = 1;
    options.epoll_threads = 3;
    assert_int_equal(ioh_server_create(&s, &handler, &options, NULL), 0);
    assert_int_equal(ioh_server_listen(s, "127.0.0.1:0", NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)dup(0) + 3; /* one loop and a half */
    close((int)none.rlim_cur - 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = ioh_server_start(s);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(rc, IOH_ESYS);
    assert_true(strlen(ioh_server_error(s)) > 5);
    assert_int_equal(ioh_server_threads(s), 0);
    assert_int_equal(ioh_server_start(s), 0);
    assert_int_equal(ioh_server_address(s, 0, address, sizeof address), 0);
    struct client *c = client_open_at(address);
    assert_int_equal(client_get(c, "/"), 404);
    client_close(c);
    assert_int_equal(ioh_server_stop(s, LONG_DRAIN_MS), 0);
    ioh_server_destroy(s);
}

/* ---- several */

static void two_servers_in_one_process_do_not_mix(void **state)
{
    struct host *a = host_new(state), *b = host_new(state);
    a->on.on_request = answer_ok;
    host_start(a);
    host_start(b); /* has no on_request */
    struct client *ca = client_open(a), *cb = client_open(b);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(client_get(ca, "/"), 200);
        assert_int_equal(client_get(cb, "/"), 404);
    }
    client_close(ca);
    host_end(a);
    assert_int_equal(client_get(cb, "/"), 404); /* goes on when the other is gone */
    client_close(cb);
    assert_int_equal(b->requests, 0);
    host_end(b);
}

static void second_server_takes_over_the_path_of_a_stopped_one(void **state)
{
    const char *path = temporary_path();
    (void)state;
    for (int i = 0; i < 3; i++) {
        ioh_server *s = new_server();
        assert_int_equal(ioh_server_listen(s, unix_address(path), NULL), 0);
        assert_int_equal(ioh_server_start(s), 0);
        struct client *c = client_open_at(unix_address(path));
        assert_int_equal(client_get(c, "/"), 404);
        int rc = ioh_server_stop(s, 0);
        assert_true(rc == 0 || rc == IOH_ETIMEOUT);
        client_close(c);
        ioh_server_destroy(s);
    }
    assert_int_equal(access(path, F_OK), -1);
}

static const struct host_test tests[] = {
    HOST_TEST_ONCE(every_error_has_a_text),
    HOST_TEST_ONCE(unreadable_addresses_are_refused_with_a_text),
    HOST_TEST_ONCE(addresses_that_cannot_be_had_are_told_apart),
    HOST_TEST_ONCE(listener_tells_its_bound_address),
    HOST_TEST_ONCE(connection_knows_its_listener_among_many),
    HOST_TEST_ONCE(unix_socket_gets_its_mode_and_goes_with_the_server),
    HOST_TEST_ONCE(stale_unix_socket_is_replaced_and_one_in_use_is_not),
    HOST_TEST_ONCE(calls_out_of_order_are_refused),
    HOST_TEST_ONCE(server_without_listeners_runs_too),
    HOST_TEST_ONCE(start_that_fails_tells_why),
    HOST_TEST(two_servers_in_one_process_do_not_mix),
    HOST_TEST_ONCE(second_server_takes_over_the_path_of_a_stopped_one),
};

HOST_MAIN(tests)

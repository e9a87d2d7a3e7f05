/* How many connections there may be: max_connections and max_per_address of options.h. Who is one too many
 * is closed unheard, and nobody is kept out once there is room again.
 */
#include "support/common.h"

static struct client *served(struct host *h)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    return c;
}

static void expect_closed(struct host *h)
{
    struct client *c = client_open(h);
    client_try_write(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\n", 30);
    client_wait_end(c);
    assert_int_equal(c->len, 0);
    client_close(c);
}

static void leave(struct host *h, struct client *c)
{
    uint64_t before = host_stats(h).connections;
    client_close(c);
    WAIT(h, host_stats(h).connections == before - 1);
}

static struct host *new_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    client_from = NULL;
    return h;
}

static atomic_int lines;

static void count_lines(int level, const char *text, void *state)
{
    (void)state;
    if (level == IOH_LOG_WARN && strstr(text, " connections "))
        lines++;
}

static void more_than_max_connections_are_closed_unheard(void **state)
{
    enum { MOST = 3 };
    struct host *h = new_host(state);
    struct client *c[MOST];
    lines = 0;
    h->options.max_connections = MOST;
    h->on.on_log = count_lines;
    host_start(h);
    for (int i = 0; i < MOST; i++)
        c[i] = served(h);
    expect_closed(h);
    expect_closed(h);
    WAIT(h, host_stats(h).hit_max_connections == 2);
    assert_int_equal(host_stats(h).connections, MOST);
    assert_int_equal(host_stats(h).accepted, MOST);
    for (int i = 0; i < MOST; i++) /* nobody else notices */
        assert_int_equal(client_get(c[i], "/"), 200);
    leave(h, c[1]);
    c[1] = served(h);
    expect_closed(h);
    WAIT(h, host_stats(h).hit_max_connections == 3);
    assert_int_equal(h->opens, MOST + 1);
    for (int i = 0; i < MOST; i++)
        leave(h, c[i]);
    for (int i = 0; i < MOST; i++)
        c[i] = served(h);
    WAIT(h, lines >= 1);
    client_close_all();
    host_end(h);
}

static void more_than_max_per_address_are_closed_unheard(void **state)
{
    struct host *h = new_host(state);
    struct client *c[3];
    lines = 0;
    h->options.max_per_address = 2;
    h->on.on_log = count_lines;
    host_start(h);
    c[0] = served(h);
    c[1] = served(h);
    expect_closed(h);
    client_from = "127.0.0.2"; /* others are not kept out */
    c[2] = served(h);
    client_from = NULL;
    expect_closed(h);
    WAIT(h, host_stats(h).hit_max_per_address == 2);
    assert_int_equal(host_stats(h).hit_max_connections, 0);
    assert_int_equal(h->opens, 3);
    leave(h, c[0]);
    c[0] = served(h);
    expect_closed(h);
    leave(h, c[0]);
    leave(h, c[1]);
    c[0] = served(h);
    c[1] = served(h);
    WAIT(h, lines >= 1);
    client_close_all();
    host_end(h);
}

static void unix_sockets_have_no_address_to_count(void **state)
{
    struct host *h = new_host(state);
    h->options.max_per_address = 1;
    host_start(h);
    for (int i = 0; i < 5; i++)
        served(h);
    assert_int_equal(host_stats(h).hit_max_per_address, 0);
    client_close_all();
    host_end(h);
}

static int refuse(ioh_conn *conn, void *state)
{
    (void)conn;
    (void)state;
    return -1;
}

static void who_is_refused_by_on_open_leaves_its_place(void **state)
{
    struct host *h = new_host(state);
    h->options.max_connections = 2;
    h->options.max_per_address = 2;
    h->on.on_open = refuse;
    host_start(h);
    for (int i = 0; i < 10; i++) {
        struct client *c = client_open(h);
        client_wait_end(c);
        client_close(c);
        WAIT(h, host_stats(h).connections == 0 && host_stats(h).accepted == (uint64_t)i + 1);
    }
    assert_int_equal(host_stats(h).hit_max_connections, 0);
    assert_int_equal(host_stats(h).hit_max_per_address, 0);
    host_end(h);
}

/* ---- many at a time */

enum { CROWD = 6, TURNS = 40, ROOM = 3 };
static atomic_int answered, closed, at_once, too_many;

static int count_open(ioh_conn *conn, void *state)
{
    (void)conn;
    (void)state;
    if (atomic_fetch_add(&at_once, 1) >= ROOM)
        too_many++;
    return 0;
}

static void count_close(ioh_conn *conn, void *state)
{
    (void)conn;
    (void)state;
    atomic_fetch_sub(&at_once, 1);
}

/* Comes and goes; no cmocka here. */
static void *crowd(void *arg)
{
    struct host *h = arg;
    for (int i = 0; i < TURNS; i++) {
        char byte;
        int fd = client_socket(h->address);
        struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (send(fd, "GET / HTTP/1.1\r\nHost: test\r\n\r\n", 30, MSG_NOSIGNAL) == 30 &&
            recv(fd, &byte, 1, 0) == 1)
            answered++;
        else
            closed++;
        close(fd);
    }
    return NULL;
}

static void the_limits_hold_in_a_crowd_and_everybody_is_let_in_afterwards(void **state)
{
    struct host *h = new_host(state);
    pthread_t threads[CROWD];
    answered = closed = at_once = too_many = 0;
    h->options.max_connections = ROOM;
    h->options.max_per_address = ROOM;
    h->on.on_open = count_open;
    h->on.on_close = count_close;
    host_start(h);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd, h), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(answered + closed, CROWD * TURNS);
    assert_true(answered > 0);
    assert_int_equal(too_many, 0);
    WAIT(h, host_stats(h).connections == 0);
    struct client *c[ROOM];
    for (int i = 0; i < ROOM; i++)
        c[i] = served(h);
    expect_closed(h);
    for (int i = 0; i < ROOM; i++)
        leave(h, c[i]);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(more_than_max_connections_are_closed_unheard),
    HOST_TEST_IN(more_than_max_per_address_are_closed_unheard, IN_TCP),
    HOST_TEST_IN(unix_sockets_have_no_address_to_count, IN_UNIX),
    HOST_TEST(who_is_refused_by_on_open_leaves_its_place),
    HOST_TEST(the_limits_hold_in_a_crowd_and_everybody_is_let_in_afterwards),
};

HOST_MAIN(tests)

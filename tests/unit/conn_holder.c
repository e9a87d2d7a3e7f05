/* Holding, losing and taking over loops: callbacks of every kind that are late while others are served; order; a peer that
 * leaves meanwhile; no thread left; and that nobody works when there is nothing to do.
 */
#include "support/late.h"

#include <sys/resource.h>

/* ---- every kind of callback may be late */

enum kind {
    ON_OPEN,
    ON_CLASSIFY,
    ON_REQUEST,
    ON_BODY,
    ON_REQUEST_END,
    ON_COMPLETE,
    ON_DRAIN,
    ON_PEER_GONE,
    ON_CLOSE,
    ON_LOG,
    ON_RUN,
    ON_GONE,
    ON_WS_UPGRADE,
    ON_WS_OPEN,
    ON_WS_MESSAGE,
    ON_WS_PING,
    ON_WS_PONG,
    ON_WS_CLOSE,
    KINDS
};

static const char *const kind_names[KINDS] = {
    "on_open",     "on_classify", "on_request",    "on_body",    "on_request_end",
    "on_complete", "on_drain",    "on_peer_gone",  "on_close",   "on_log",
    "run",         "gone",        "on_ws_upgrade", "on_ws_open", "on_ws_message",
    "on_ws_ping",  "on_ws_pong",  "on_ws_close"};

static _Atomic int late_kind; /* the next callback of this kind is late; -1: none */

static void maybe_late(struct host *h, enum kind kind)
{
    int expected = (int)kind;
    if (atomic_compare_exchange_strong(&late_kind, &expected, -1))
        be_late(h);
}

static int on_open(ioh_conn *conn, void *state)
{
    (void)conn;
    maybe_late(state, ON_OPEN);
    return 0;
}

static void on_classify(ioh_req *req, struct ioh_route *route, void *state)
{
    CHECK((struct host *)state, route->exec == IOH_EXEC_AUTO);
    if (!path_is(req, "/ping"))
        maybe_late(state, ON_CLASSIFY);
}

enum { FLOOD = 600000 };
static struct ioh_req_id later; /* what was deferred */

static void on_request(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/ping")) {
        answer_ok(req, h);
    } else if (path_is(req, "/flood")) {
        uint8_t *bytes = pattern(FLOOD);
        CHECK(h, ioh_respond(req, 200, NULL, 0, bytes, FLOOD) >= 0);
        free(bytes);
    } else if (path_is(req, "/later")) {
        later = ioh_defer(req);
    } else {
        maybe_late(h, ON_REQUEST);
    }
}

static void on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)req;
    CHECK(h, len == 5 && memcmp(data, "bytes", 5) == 0);
    maybe_late(h, ON_BODY);
    CHECK(h, memcmp(data, "bytes", 5) == 0); /* they stay where they are */
}

static void on_request_end(ioh_req *req, void *state)
{
    struct host *h = state;
    maybe_late(h, ON_REQUEST_END);
    if (path_is(req, "/x"))
        CHECK(h, ioh_respond(req, 200, NULL, 0, "x", 1) == 0);
}

static void on_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)status;
    (void)bytes;
    if (!path_is(req, "/ping"))
        maybe_late(state, ON_COMPLETE);
}

static void on_drain(ioh_conn *conn, void *state)
{
    (void)conn;
    maybe_late(state, ON_DRAIN);
}

static void on_peer_gone(ioh_conn *conn, void *state)
{
    (void)conn;
    maybe_late(state, ON_PEER_GONE);
}

static void on_close(ioh_conn *conn, void *state)
{
    (void)conn;
    maybe_late(state, ON_CLOSE);
}

static void on_log(int level, const char *text, void *state)
{
    struct host *h = state;
    char copy[300];
    (void)level;
    snprintf(copy, sizeof copy, "%s", text);
    maybe_late(h, ON_LOG);
    CHECK(h, strcmp(copy, text) == 0);
}

static int on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    struct host *h = state;
    maybe_late(h, ON_WS_UPGRADE);
    accept->protocol = ioh_ws_offers(req, "chat") ? "chat" : NULL; /* as late as can be */
    return 0;
}

static void on_ws_open(ioh_conn *conn, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "first", 5) == 0);
    maybe_late(h, ON_WS_OPEN);
    CHECK(h, ioh_ws_send(conn, IOH_WS_TEXT, "second", 6) == 0);
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    maybe_late(state, ON_WS_MESSAGE);
    echo(conn, op, data, len, state);
}

static void on_ws_ping(ioh_conn *conn, const void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)conn;
    maybe_late(h, ON_WS_PING);
    CHECK(h, len == 4 && memcmp(data, "ping", 4) == 0);
}

static void on_ws_pong(ioh_conn *conn, const void *data, size_t len, void *state)
{
    struct host *h = state;
    (void)conn;
    maybe_late(h, ON_WS_PONG);
    CHECK(h, len == 4 && memcmp(data, "pong", 4) == 0);
}

static void on_ws_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    struct host *h = state;
    (void)conn;
    maybe_late(h, ON_WS_CLOSE);
    CHECK(h, code == 1000 && len == 3 && memcmp(reason, "bye", 3) == 0);
}

static struct host *host_of_all_kinds(void **state)
{
    struct host *h = host_new(state);
    h->on = (struct ioh_handler){.on_open = on_open,
                                 .on_classify = on_classify,
                                 .on_request = on_request,
                                 .on_body = on_body,
                                 .on_request_end = on_request_end,
                                 .on_complete = on_complete,
                                 .on_drain = on_drain,
                                 .on_peer_gone = on_peer_gone,
                                 .on_close = on_close,
                                 .on_log = on_log,
                                 .on_ws_upgrade = on_ws_upgrade,
                                 .on_ws_open = on_ws_open,
                                 .on_ws_message = on_ws_message,
                                 .on_ws_ping = on_ws_ping,
                                 .on_ws_pong = on_ws_pong,
                                 .on_ws_close = on_ws_close};
    h->options.send_high = 65536;
    host_start(h);
    return h;
}

static void be_late_in(enum kind kind)
{
    shut_gate();
    atomic_store(&late_kind, (int)kind);
}

/* The callback waits, its loop serves others, and then it goes on. */
static void serve_others_and_go_on(struct host *h)
{
    WAIT(h, atomic_load(&gate.inside) == 1);
    for (int i = 0; i < 3; i++)
        others_are_served(h);
    assert_int_equal(gate.inside, 1);
    open_gate();
}

static void late_request(struct host *h, enum kind kind)
{
    struct client *c = client_open(h);
    be_late_in(kind);
    client_send(c, "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nbytes"
                   "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nbytes");
    serve_others_and_go_on(h);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "x");
    }
    client_close(c);
}

static void late_open(struct host *h)
{
    be_late_in(ON_OPEN);
    struct client *c = client_open(h);
    serve_others_and_go_on(h);
    assert_int_equal(client_get(c, "/ping"), 200);
    client_close(c);
}

static void late_close(struct host *h)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/ping"), 200);
    int closes = h->closes;
    WAIT(h, h->opens == closes + 1); /* nobody else leaves */
    be_late_in(ON_CLOSE);
    client_close(c);
    serve_others_and_go_on(h);
    WAIT(h, h->closes == h->opens);
}

static void late_log(struct host *h)
{
    struct client *c = client_open(h);
    be_late_in(ON_LOG);
    client_send(c, "no request\r\n\r\n");
    serve_others_and_go_on(h);
    assert_int_equal(client_answer(c), 400);
    client_close(c);
}

static void late_drain(struct host *h)
{
    struct client *c = client_open(h);
    be_late_in(ON_DRAIN);
    client_request(c, "GET", "/flood", "");
    assert_int_equal(client_answer(c), 200);
    assert_true(c->body_len == FLOOD && is_pattern(c->body, FLOOD));
    serve_others_and_go_on(h);
    client_close(c);
}

static void late_peer_gone(struct host *h)
{
    struct client *c = client_open(h);
    int requests = h->requests;
    client_request(c, "GET", "/later", "");
    WAIT(h, h->requests == requests + 1);
    be_late_in(ON_PEER_GONE);
    client_close(c);
    serve_others_and_go_on(h);
    assert_int_equal(ioh_reply(h->server, later, 200, NULL, 0, NULL, 0), 0);
    WAIT(h, h->closes == h->opens);
}

static void late_websocket(struct host *h, enum kind kind)
{
    if (kind < ON_WS_MESSAGE)
        be_late_in(kind);
    struct client *c = client_open(h);
    client_request(c, "GET", "/ws", WS_UPGRADE "Sec-WebSocket-Protocol: chat\r\n");
    if (kind < ON_WS_MESSAGE)
        serve_others_and_go_on(h);
    assert_int_equal(client_read(c, true), 101);
    assert_field(c, "Sec-WebSocket-Protocol", "chat");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "first");
    assert_int_equal(client_ws_read(c), IOH_WS_TEXT);
    assert_body(c, "second");
    if (kind >= ON_WS_MESSAGE)
        be_late_in(kind);
    client_ws_send(c, IOH_WS_TEXT, "one");
    client_ws_send(c, IOH_WS_PONG, "pong");
    client_ws_send(c, IOH_WS_PING, "ping");
    client_ws_send(c, IOH_WS_TEXT, "two");
    client_ws_close(c, 1000, "bye");
    if (kind >= ON_WS_MESSAGE)
        serve_others_and_go_on(h);
    static const int ops[] = {IOH_WS_TEXT, IOH_WS_PONG, IOH_WS_TEXT, 8};
    static const char *const texts[] = {"one", "ping", "two"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(client_ws_read(c), ops[i]);
        if (i < 3)
            assert_body(c, texts[i]);
    }
    assert_int_equal(client_ws_code(c), 1000);
    client_close(c);
}

static void run_late(ioh_conn *conn, void *user)
{
    (void)conn;
    maybe_late(user, ON_RUN);
}

static void gone_late(void *user)
{
    maybe_late(user, ON_GONE);
}

static void late_run(struct host *h, enum kind kind)
{
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/ping"), 200);
    ioh_conn_id id = h->last_id;
    if (kind == ON_GONE) {
        client_close(c);
        WAIT(h, h->closes == h->opens);
    }
    int runs = h->runs, gones = h->gones;
    be_late_in(kind);
    for (int i = 0; i < 3; i++)
        assert_int_equal(host_run_on(h, id, run_late, h, gone_late), 0);
    serve_others_and_go_on(h);
    WAIT(h, h->runs + h->gones == runs + gones + 3);
    assert_int_equal(kind == ON_RUN ? h->runs - runs : h->gones - gones, 3);
    if (kind == ON_RUN)
        client_close(c);
}

static void late_callback(struct host *h, enum kind kind)
{
    switch (kind) {
    case ON_OPEN:
        late_open(h);
        break;
    case ON_DRAIN:
        late_drain(h);
        break;
    case ON_PEER_GONE:
        late_peer_gone(h);
        break;
    case ON_CLOSE:
        late_close(h);
        break;
    case ON_LOG:
        late_log(h);
        break;
    case ON_RUN:
    case ON_GONE:
        late_run(h, kind);
        break;
    case ON_CLASSIFY:
    case ON_REQUEST:
    case ON_BODY:
    case ON_REQUEST_END:
    case ON_COMPLETE:
        late_request(h, kind);
        break;
    default:
        late_websocket(h, kind);
        break;
    }
}

static void a_late_callback_of_any_kind_keeps_nobody_waiting(void **state)
{
    struct host *h = host_of_all_kinds(state);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        print_message("    %s\n", kind_names[kind]);
        late_callback(h, kind);
        WAIT(h, h->closes == h->opens);
        assert_int_equal(late_kind, -1);
    }
    assert_true(host_stats(h).auto_late > 0);
    host_end(h);
}

/* ---- no thread left */

static void gated(ioh_req *req, void *state)
{
    struct host *h = state;
    if (path_is(req, "/late"))
        be_late(h);
    else if (path_is(req, "/stuck"))
        wait_at_gate(h); /* nobody will take its loop */
    answer_ok(req, h);
}

static atomic_int complaints;

static void count_complaints(int level, const char *text, void *state)
{
    (void)level;
    (void)state;
    if (strstr(text, "no pool thread was left"))
        atomic_fetch_add(&complaints, 1);
}

static void with_no_thread_left_a_loop_waits_and_says_so(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = gated;
    h->on.on_log = count_complaints;
    h->options.pool_threads = 1;
    host_start(h);
    shut_gate();
    complaints = 0;
    struct client *late = client_open(h), *stuck = client_open(h), *other = client_open(h);
    assert_int_equal(client_get(other, "/ping"), 200);
    client_request(late, "GET", "/late", "");
    WAIT(h, gate.inside == 1);
    assert_int_equal(client_get(other, "/ping"), 200); /* by the only pool thread */
    client_request(stuck, "GET", "/stuck", "");
    WAIT(h, gate.inside == 2);
    client_request(other, "GET", "/ping", "");
    WAIT(h, host_stats(h).auto_stalled > 0);
    assert_true(client_is_quiet(other));
    open_gate();
    assert_int_equal(client_answer(other), 200);
    assert_int_equal(client_answer(late), 200);
    assert_int_equal(client_answer(stuck), 200);
    WAIT(h, complaints > 0);
    client_close_all();
    host_end(h);
}

static atomic_bool first_may_go;

static void one_by_one(ioh_req *req, void *state)
{
    struct host *h = state;
    uint64_t until = host_now_ms() + PATIENCE_MS;
    if (path_is(req, "/first")) {
        lose_the_loop(h);
        atomic_fetch_add(&gate.inside, 1);
        while (!atomic_load(&first_may_go) && host_now_ms() < until)
            usleep(100);
    } else if (path_is(req, "/second")) {
        wait_at_gate(h);
    }
    answer_ok(req, h);
}

static void a_thread_that_comes_back_takes_the_loop_that_waits(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = one_by_one;
    h->options.pool_threads = 1;
    host_start(h);
    shut_gate();
    atomic_store(&first_may_go, false);
    struct client *first = client_open(h), *second = client_open(h), *other = client_open(h);
    assert_int_equal(client_get(other, "/ping"), 200);
    client_request(first, "GET", "/first", "");
    WAIT(h, gate.inside == 1);
    client_request(second, "GET", "/second", "");
    WAIT(h, gate.inside == 2);
    client_request(other, "GET", "/ping", "");
    WAIT(h, host_stats(h).auto_stalled > 0);
    atomic_store(&first_may_go, true);
    assert_int_equal(client_answer(other), 200); /* the second one still blocks */
    assert_true(client_is_quiet(second));
    open_gate();
    assert_int_equal(client_answer(first), 200);
    assert_int_equal(client_answer(second), 200);
    client_close_all();
    host_end(h);
}

/* ---- memory of lateness */

static void a_route_that_was_late_goes_to_the_pool_at_once(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = gated;
    host_start(h);
    shut_gate();
    struct client *c = client_open(h);
    client_request(c, "GET", "/late", "");
    WAIT(h, gate.inside == 1);
    open_gate();
    assert_int_equal(client_answer(c), 200);
    uint64_t jobs = host_stats(h).pool_jobs;
    assert_int_equal(client_get(c, "/late"), 200);
    assert_true(host_stats(h).pool_jobs > jobs);
    client_close_all();
    host_end(h);
}

/* ---- rest */

static uint64_t cpu_us(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* A loop that went round for nothing, or a watcher that never slept, would take a thousand milliseconds, or its 2,000 looks
 * a second. */
static void an_idle_server_takes_no_cpu(void **state)
{
    static const int32_t execs[] = {IOH_EXEC_AUTO, IOH_EXEC_POOL, IOH_EXEC_AFFINE, IOH_EXEC_INLINE};
    struct rusage before, after;
    for (size_t i = 0; i <= sizeof execs / sizeof *execs; i++) {
        struct host *h = host_new(state);
        bool threads = i == sizeof execs / sizeof *execs;
        h->on.on_request = answer_ok;
        h->options.type = threads ? IOH_THREADS : IOH_EPOLL;
        h->options.exec = threads ? 0 : execs[i];
        h->options.work_op_threads = h->options.exec == IOH_EXEC_AFFINE ? 2 : 0;
        struct host_config config = *h->config;
        config.type = h->options.type;
        config.exec = h->options.exec;
        if (threads || h->options.exec == IOH_EXEC_INLINE || h->options.exec == IOH_EXEC_AFFINE)
            h->options.pool_threads = config.pool_threads = 0;
        h->config = &config;
        host_start(h);
        for (int k = 0; k < 20; k++)
            assert_int_equal(client_get(client_open(h), "/"), 200); /* and they stay */
        if (h->options.exec == IOH_EXEC_AUTO && !threads)
            WAIT(h, atomic_load(&h->server->crew.watcher_asleep));
        usleep(50000);
        uint64_t begin = cpu_us();
        getrusage(RUSAGE_SELF, &before);
        usleep(1000000);
        getrusage(RUSAGE_SELF, &after);
        assert_true(cpu_us() - begin < 100000);
        assert_true(after.ru_nvcsw - before.ru_nvcsw < 200);
        client_close_all();
        host_end(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LATE_TEST(a_late_callback_of_any_kind_keeps_nobody_waiting),
        LATE_TEST(with_no_thread_left_a_loop_waits_and_says_so),
        LATE_TEST(a_thread_that_comes_back_takes_the_loop_that_waits),
        LATE_TEST(a_route_that_was_late_goes_to_the_pool_at_once),
        LATE_TEST(an_idle_server_takes_no_cpu),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

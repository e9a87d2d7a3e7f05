/* Topics under stress, in each way to run callbacks: clients subscribe, unsubscribe, publish, fall asleep and leave in
 * any moment, while threads of the host publish. What one thread publishes reaches a client in its order and once,
 * whatever is left out; nothing is left when all have gone.
 *
 * An argument, or IOH_STRESS_CALLBACKS, says how many sessions a run is to have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <iohandler/iohandler.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/server.h"

enum { CLIENTS = 12, PUBLISHERS = 3, SPEAKERS = PUBLISHERS + CLIENTS, LONGEST = 3000 };

static const char *const filters[] = {"s/0",   "s/1",   "s/2", "s/3", "s/1/x", "s/+",
                                      "s/+/x", "s/1/#", "#",   "+/2", "s/3/+"};
static const char *const names[] = {"s/0", "s/1", "s/2", "s/3", "s/1/x", "s/3/x"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct {
    ioh_server *server;
    struct sockaddr_un address;
    unsigned sessions; /* to be had */
    atomic_uint begun, faults;
    atomic_bool over;
    struct {
        pthread_mutex_t
            lock;      /* a client's next connection may speak while its last one still does */
        unsigned next; /* the number of its next message */
    } speakers[SPEAKERS];
    _Atomic uint64_t heard, opens, closes;
    _Atomic ioh_conn_id some; /* a connection that was there */
    bool naps;                /* callbacks are late */
} run;

static void fault(int line, const char *what)
{
    if (atomic_fetch_add(&run.faults, 1) == 0)
        print_error("line %d: %s (errno %d)\n", line, what, errno);
}

#define SURE(what) ((what) ? (void)0 : fault(__LINE__, #what))

static uint32_t roll(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- the host */

static void speak(unsigned speaker, uint32_t *seed, ioh_conn_id except)
{
    struct ioh_publish_options o = IOH_PUBLISH_OPTIONS_INIT;
    char text[LONGEST];
    size_t len = 16 + roll(seed) % (roll(seed) % 4 ? 100 : LONGEST - 16);
    memset(text, '.', len);
    o.except = except;
    pthread_mutex_lock(&run.speakers[speaker].lock);
    int n = snprintf(text, 16, "%u %u ", speaker, run.speakers[speaker].next++);
    text[n] = '.';
    int rc = ioh_publish(run.server, names[roll(seed) % COUNT(names)], IOH_WS_TEXT,
                         ioh_buf_copy(text, len), &o);
    pthread_mutex_unlock(&run.speakers[speaker].lock);
    SURE(rc == 0 || rc == IOH_EFULL || (rc == IOH_ESTATE && run.over));
}

static int on_open(ioh_conn *conn, void *state)
{
    (void)state;
    atomic_fetch_add(&run.opens, 1);
    atomic_store(&run.some, ioh_conn_get_id(conn));
    return 0;
}

static void on_close(ioh_conn *conn, void *state)
{
    (void)state;
    SURE(ioh_subscribe(conn, "s/0", NULL) == IOH_EGONE);
    atomic_fetch_add(&run.closes, 1);
}

static bool may_be(int rc)
{
    return rc >= 0 || rc == IOH_EGONE || rc == IOH_ESTATE;
}

/* "+RULE FILTER", "-FILTER", "!SPEAKER SEED", "x" */
static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct ioh_topic_options o = IOH_TOPIC_OPTIONS_INIT;
    char text[100];
    (void)op;
    (void)state;
    snprintf(text, sizeof text, "%.*s", (int)len, (const char *)data);
    if (*text == '+') {
        o.full = text[1] - '0';
        SURE(may_be(ioh_subscribe(conn, text + 3, &o)));
    } else if (*text == '-') {
        SURE(may_be(ioh_unsubscribe(conn, text + 1)));
    } else if (*text == '!') {
        char *end;
        unsigned speaker = (unsigned)strtoul(text + 1, &end, 10);
        uint32_t seed = (uint32_t)strtoul(end, NULL, 10);
        speak(speaker, &seed, seed % 2 ? ioh_conn_get_id(conn) : 0);
    } else if (*text == 'x') {
        SURE(may_be(ioh_ws_close(conn, 1000, NULL, 0)));
        SURE(ioh_subscribe(conn, "s/0", NULL) < 0);
    }
    if (run.naps && len % 3 == 0)
        usleep((useconds_t)(len % 50));
    if (run.naps)
        SURE(may_be(ioh_unsubscribe(conn, "s/2")));
}

static void *publish(void *arg)
{
    unsigned speaker = (unsigned)(uintptr_t)arg;
    uint32_t seed = speaker * 77 + 5;
    while (!run.over) {
        speak(speaker, &seed, roll(&seed) % 4 ? 0 : atomic_load(&run.some));
        if (roll(&seed) % 4 == 0)
            poll(NULL, 0, 1);
        if (roll(&seed) % 64 == 0)
            ioh_post_abort(run.server, atomic_load(&run.some));
    }
    return NULL;
}

/* ---- clients */

struct client {
    int fd;
    uint32_t seed, rule;
    uint8_t in[65536];
    size_t len;
    int64_t last[SPEAKERS];
    bool over;
};

static void put(struct client *c, int b0, const char *text)
{
    uint8_t frame[120] = {(uint8_t)b0, (uint8_t)(0x80 | strlen(text))};
    size_t len = strlen(text);
    memcpy(frame + 6, text, len);
    if (send(c->fd, frame, 6 + len, MSG_NOSIGNAL) < 0)
        c->over = true;
}

static void hear(struct client *c, int op, const char *text, size_t len)
{
    unsigned speaker, number;
    char start[17];
    if (op == 8) {
        put(c, 0x88, "");
        c->over = true;
    }
    if (op != 1)
        return;
    snprintf(start, sizeof start, "%.*s", (int)len, text);
    if (sscanf(start, "%u %u ", &speaker, &number) != 2 || speaker >= SPEAKERS) {
        fault(__LINE__, "another message");
        return;
    }
    SURE((int64_t)number > c->last[speaker]);
    c->last[speaker] = number;
    SURE(text[len - 1] == '.');
    atomic_fetch_add(&run.heard, 1);
}

/* Takes one whole frame; false: there is none. */
static bool take(struct client *c)
{
    size_t head = 2, len = c->len > 1 ? c->in[1] : 0;
    if (len == 126) {
        head = 4;
        len = (size_t)c->in[2] << 8 | c->in[3];
    }
    if (c->len < 2 || c->len < head + len)
        return false;
    hear(c, c->in[0] & 15, (char *)c->in + head, len);
    c->len -= head + len;
    memmove(c->in, c->in + head + len, c->len);
    return true;
}

/* Hears what comes within some milliseconds. */
static void listen_for(struct client *c, int ms)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    for (int i = 0; i < 50 && !c->over && poll(&p, 1, ms) > 0; i++) {
        ssize_t n = recv(c->fd, c->in + c->len, sizeof c->in - c->len, 0);
        if (n <= 0) {
            c->over = true;
            return;
        }
        c->len += (size_t)n;
        while (take(c))
            continue;
    }
}

static bool join(struct client *c)
{
    static const char upgrade[] = "GET / HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\n"
                                  "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n";
    struct timeval most = {.tv_sec = 30};
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->len = 0;
    c->over = false;
    for (int i = 0; i < SPEAKERS; i++)
        c->last[i] = -1;
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (connect(c->fd, (struct sockaddr *)&run.address, sizeof run.address) ||
        send(c->fd, upgrade, sizeof upgrade - 1, MSG_NOSIGNAL) < 0)
        return false;
    for (char *end = NULL; !end;) {
        ssize_t n = recv(c->fd, c->in + c->len, sizeof c->in - c->len, 0);
        if (n <= 0)
            return false; /* it was aborted */
        c->len += (size_t)n;
        end = memmem(c->in, c->len, "\r\n\r\n", 4);
        if (end) {
            c->len -= (size_t)(end + 4 - (char *)c->in);
            memmove(c->in, end + 4, c->len);
        }
    }
    return true;
}

static void session(struct client *c, unsigned speaker)
{
    char text[100];
    c->rule = roll(&c->seed) % 3; /* one for all: what is kept would come late beside another's */
    for (int i = (int)(roll(&c->seed) % 30); i >= 0 && !c->over && !run.faults; i--) {
        const char *filter = filters[roll(&c->seed) % COUNT(filters)];
        switch (roll(&c->seed) % 8) {
        case 0:
        case 1:
        case 2:
            snprintf(text, sizeof text, "+%u %s", c->rule, filter);
            break;
        case 3:
            snprintf(text, sizeof text, "-%s", filter);
            break;
        case 4:
            snprintf(text, sizeof text, "x");
            if (roll(&c->seed) % 8 == 0)
                break;
            /* fall through */
        default:
            snprintf(text, sizeof text, "!%u %u", speaker, roll(&c->seed));
            break;
        }
        put(c, 0x81, text);
        if (roll(&c->seed) % 16 == 0)
            poll(NULL, 0, (int)(roll(&c->seed) % 30)); /* it falls behind */
        listen_for(c, (int)(roll(&c->seed) % 3));
    }
    if (roll(&c->seed) % 3)
        return; /* gone without a word */
    put(c, 0x88, "");
    while (!c->over && !run.faults)
        listen_for(c, 100);
}

static void *visit(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->seed = number * 4711 + 3;
    while (atomic_fetch_add(&run.begun, 1) < run.sessions && !run.faults) {
        if (join(c))
            session(c, PUBLISHERS + number);
        close(c->fd);
    }
    free(c);
    return NULL;
}

/* ---- a run */

static unsigned sessions;

static void start(const struct ioh_options *options)
{
    static int runs;
    struct ioh_handler h = IOH_HANDLER_INIT;
    struct ioh_options o = *options;
    char address[100];
    memset(&run, 0, sizeof run);
    for (int i = 0; i < SPEAKERS; i++)
        pthread_mutex_init(&run.speakers[i].lock, NULL);
    run.sessions = sessions;
    run.naps = o.type == IOH_EPOLL && o.exec != IOH_EXEC_INLINE;
    h.on_open = on_open;
    h.on_close = on_close;
    h.on_ws_message = on_ws_message;
    o.epoll_threads = 2;
    o.send_high = 4096;
    o.send_max = 1000000;
    o.no_environment = 1;
    assert_int_equal(ioh_server_create(&run.server, &h, &o, NULL), 0);
    snprintf(address, sizeof address, "unix:/tmp/ioh-topics-%d-%d.sock", (int)getpid(), runs++);
    run.address.sun_family = AF_UNIX;
    snprintf(run.address.sun_path, sizeof run.address.sun_path, "%s", address + 5);
    assert_int_equal(ioh_server_listen(run.server, address, NULL), 0);
    assert_int_equal(ioh_server_start(run.server), 0);
}

static void stress(const char *name, const struct ioh_options *options)
{
    pthread_t clients[CLIENTS], publishers[PUBLISHERS];
    struct ioh_stats stats = IOH_STATS_INIT;
    start(options);
    for (uintptr_t i = 0; i < PUBLISHERS; i++)
        assert_int_equal(pthread_create(&publishers[i], NULL, publish, (void *)i), 0);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, visit, (void *)i), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    /* The publishers go on while the server stops. */
    int rc = ioh_server_stop(run.server, 20000);
    run.over = true;
    for (int i = 0; i < PUBLISHERS; i++)
        pthread_join(publishers[i], NULL);
    assert_int_equal(ioh_server_stats(run.server, &stats), 0);
    print_message(
        "%-8s %u sessions: %u published, %u delivered (%u heard), %u skipped, %u coalesced, %u "
        "closed\n",
        name, run.sessions, (unsigned)stats.topic_published, (unsigned)stats.topic_delivered,
        (unsigned)run.heard, (unsigned)stats.topic_skipped, (unsigned)stats.topic_coalesced,
        (unsigned)stats.topic_closed);
    const struct ioh__topics *topics = &run.server->crew.topics;
    assert_int_equal(rc, 0);
    assert_int_equal(run.faults, 0);
    assert_int_equal(run.opens, run.closes);
    assert_int_equal(stats.topic_subscriptions, 0);
    assert_int_equal(topics->root.refs, 0);
    assert_int_equal(topics->backlog, 0);
    assert_true(run.heard > 0 && run.heard <= stats.topic_delivered);
    ioh_server_destroy(run.server);
    for (int i = 0; i < SPEAKERS; i++)
        pthread_mutex_destroy(&run.speakers[i].lock);
}

static void inline_callbacks(void **state)
{
    (void)state;
    stress("inline",
           &(struct ioh_options){.size = sizeof(struct ioh_options), .exec = IOH_EXEC_INLINE});
}

static void callbacks_that_lose_their_loop(void **state)
{
    (void)state;
    stress("auto", &(struct ioh_options){.size = sizeof(struct ioh_options),
                                         .exec = IOH_EXEC_AUTO,
                                         .pool_threads = 6,
                                         .handoff_us = 1});
}

static void callbacks_of_a_pool(void **state)
{
    (void)state;
    stress("pool", &(struct ioh_options){.size = sizeof(struct ioh_options),
                                         .exec = IOH_EXEC_POOL,
                                         .pool_threads = 4});
}

static void callbacks_of_work_threads(void **state)
{
    (void)state;
    stress("affine", &(struct ioh_options){.size = sizeof(struct ioh_options),
                                           .exec = IOH_EXEC_AFFINE,
                                           .work_op_threads = 2});
}

static void a_thread_for_each_connection(void **state)
{
    (void)state;
    stress("threads",
           &(struct ioh_options){.size = sizeof(struct ioh_options), .type = IOH_THREADS});
}

int main(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : getenv("IOH_STRESS_CALLBACKS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inline_callbacks),
        cmocka_unit_test(callbacks_that_lose_their_loop),
        cmocka_unit_test(callbacks_of_a_pool),
        cmocka_unit_test(callbacks_of_work_threads),
        cmocka_unit_test(a_thread_for_each_connection),
    };
    sessions = text ? (unsigned)strtoul(text, NULL, 10) : 200;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A server in the test's own process, with a small host that keeps account of its callbacks, and blocking
 * clients. Nothing here asserts outside the main thread.
 *
 *     GET /ping          pong
 *     GET /big           BIG bytes, from a buf that is not copied
 *     GET /copy          the same, copied
 *     GET /chunks        the same, streamed in chunks
 *     POST /echo         the body
 *     WebSocket          every message comes back
 */
#ifndef IOH_TESTS_LIVE_SERVER_H
#define IOH_TESTS_LIVE_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <iohandler/iohandler.h>

#include "server/server.h"

#define BIG 100000u
#define DEADLINE_MS 20000u /* whoever waits this long waits in vain */

/* ---- which thread is this? Faults are for the server's own. */

static _Thread_local bool in_server;

/* ---- the host */

#define MAX_RECORDS 4096

/* One connection's callbacks. */
struct record {
    _Atomic int opens, closes, ws_opens, ws_closes, requests, completes;
    _Atomic bool bad_order;
};

static struct live {
    ioh_server *server;
    char address[128];
    _Atomic int refuse_open; /* what on_open answers */

    _Atomic unsigned records;
    struct record record[MAX_RECORDS];
    _Atomic int last_status; /* of on_complete */

    pthread_mutex_t lock;
    char log[16384]; /* all lines */
    size_t log_len;
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char big[BIG];
static const char *const big_paths[] = {"/big", "/copy", "/chunks"};

static struct record *record_of(const ioh_conn *conn)
{
    return ioh_conn_user(conn);
}

/* Each callback but the first comes between on_open and on_close. */
static void check_order(struct record *r)
{
    if (!r || r->opens != 1 || r->closes != 0) {
        if (r)
            r->bad_order = true;
        else
            live.record[0].bad_order = true;
    }
}

static void host_thread_start(void *state)
{
    (void)state;
    in_server = true;
}

static int host_open(ioh_conn *conn, void *state)
{
    (void)state;
    if (live.refuse_open)
        return live.refuse_open;
    unsigned i = atomic_fetch_add(&live.records, 1);
    struct record *r = &live.record[i < MAX_RECORDS ? i : 0];
    r->opens++;
    ioh_conn_set_user(conn, r);
    return 0;
}

static void host_close(ioh_conn *conn, void *state)
{
    (void)state;
    check_order(record_of(conn));
    record_of(conn)->closes++;
}

static void host_log(int level, const char *text, void *state)
{
    (void)level;
    (void)state;
    pthread_mutex_lock(&live.lock);
    size_t room = sizeof live.log - live.log_len;
    int n = snprintf(live.log + live.log_len, room, "%s\n", text);
    if (n > 0 && (size_t)n < room)
        live.log_len += (size_t)n;
    pthread_mutex_unlock(&live.lock);
}

/* What a POST has brought so far. */
struct upload {
    size_t len;
    char bytes[BIG];
};

static bool is_path(const ioh_req *req, const char *path)
{
    struct ioh_str s = ioh_req_path(req);
    return s.len == strlen(path) && memcmp(s.ptr, path, s.len) == 0;
}

static void answer_in_chunks(ioh_req *req)
{
    if (ioh_respond_start(req, 200, NULL, 0, -1) < 0)
        return;
    for (size_t at = 0; at < BIG; at += 9999)
        if (ioh_respond_data(req, big + at, BIG - at < 9999 ? BIG - at : 9999) < 0)
            return;
    ioh_respond_end(req);
}

static void host_request(ioh_req *req, void *state)
{
    (void)state;
    check_order(record_of(ioh_req_conn(req)));
    record_of(ioh_req_conn(req))->requests++;
    if (is_path(req, "/ping")) {
        ioh_respond(req, 200, NULL, 0, "pong", 4);
    } else if (is_path(req, "/big")) {
        ioh_buf *buf = ioh_buf_wrap(big, BIG, NULL, NULL);
        if (buf)
            ioh_respond_buf(req, 200, NULL, 0, buf);
        else
            ioh_respond(req, 503, NULL, 0, NULL, 0);
    } else if (is_path(req, "/copy")) {
        ioh_respond(req, 200, NULL, 0, big, BIG);
    } else if (is_path(req, "/chunks")) {
        answer_in_chunks(req);
    } else if (is_path(req, "/echo")) {
        struct upload *up = malloc(sizeof *up);
        if (up) {
            up->len = 0;
            ioh_req_set_user(req, up);
        } else {
            ioh_respond(req, 503, NULL, 0, NULL, 0);
        }
    }
}

static void host_body(ioh_req *req, const void *data, size_t len, void *state)
{
    (void)state;
    struct upload *up = ioh_req_user(req);
    check_order(record_of(ioh_req_conn(req)));
    if (up && len <= sizeof up->bytes - up->len) {
        memcpy(up->bytes + up->len, data, len);
        up->len += len;
    }
}

static void host_request_end(ioh_req *req, void *state)
{
    (void)state;
    struct upload *up = ioh_req_user(req);
    check_order(record_of(ioh_req_conn(req)));
    if (up)
        ioh_respond(req, 200, NULL, 0, up->bytes, up->len);
}

static void host_complete(ioh_req *req, int status, uint64_t sent, void *state)
{
    (void)state;
    (void)sent;
    check_order(record_of(ioh_req_conn(req)));
    record_of(ioh_req_conn(req))->completes++;
    live.last_status = status;
    free(ioh_req_user(req));
}

static void host_ws_open(ioh_conn *conn, void *state)
{
    (void)state;
    check_order(record_of(conn));
    record_of(conn)->ws_opens++;
}

static void host_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)state;
    struct record *r = record_of(conn);
    check_order(r);
    if (r->ws_opens != 1 || r->ws_closes != 0)
        r->bad_order = true;
    ioh_ws_send(conn, op, data, len);
}

static void host_ws_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)code;
    (void)reason;
    (void)len;
    (void)state;
    check_order(record_of(conn));
    record_of(conn)->ws_closes++;
}

static inline struct ioh_handler host_handler(void)
{
    struct ioh_handler h = IOH_HANDLER_INIT;
    h.on_thread_start = host_thread_start;
    h.on_open = host_open;
    h.on_close = host_close;
    h.on_log = host_log;
    h.on_request = host_request;
    h.on_body = host_body;
    h.on_request_end = host_request_end;
    h.on_complete = host_complete;
    h.on_ws_open = host_ws_open;
    h.on_ws_message = host_ws_message;
    h.on_ws_close = host_ws_close;
    return h;
}

/* ---- its life */

static void forget_all(void)
{
    memset(live.record, 0, sizeof live.record);
    live.records = 0;
    live.log_len = 0;
    live.log[0] = '\0';
    live.refuse_open = 0;
    live.last_status = -1;
    for (unsigned i = 0; i < BIG; i++)
        big[i] = (char)('a' + i * 7 % 26);
}

/* 0, or what the step that failed answered; the server is destroyed then. */
static int try_start(const char *address, unsigned threads, const struct ioh_handler *h)
{
    struct ioh_options o = IOH_OPTIONS_INIT;
    o.epoll_threads = threads;
    o.keep_fd_limit = 1;
    o.close_timeout_ms = 2000;
    int rc = ioh_server_create(&live.server, h, &o, NULL);
    if (rc == 0) {
        rc = ioh_server_listen(live.server, address, NULL);
        if (rc == 0)
            rc = ioh_server_address(live.server, 0, live.address, sizeof live.address);
        if (rc == 0)
            rc = ioh_server_start(live.server);
        if (rc == 0)
            return 0;
    }
    ioh_server_destroy(live.server);
    live.server = NULL;
    return rc;
}

static void start_server(const char *address, unsigned threads)
{
    struct ioh_handler h = host_handler();
    forget_all();
    assert_int_equal(try_start(address, threads, &h), 0);
}

/* Each connection that was opened was closed, once; and what lies between. */
static void check_records(void)
{
    unsigned count = live.records;
    assert_true(count < MAX_RECORDS);
    for (unsigned i = 0; i < count; i++) {
        const struct record *r = &live.record[i];
        assert_int_equal(r->opens, 1);
        assert_int_equal(r->closes, 1);
        assert_int_equal(r->ws_closes, r->ws_opens);
        assert_int_equal(r->completes, r->requests);
        assert_false(r->bad_order);
    }
}

/* A stopped hub has got back all that it lent: leak checkers see only what lies outside its pools. */
static void check_hubs(void)
{
    for (unsigned i = 0; i < live.server->hub_count; i++) {
        const struct ioh__hub *hub = live.server->hubs[i];
        assert_int_equal(hub->load, 0);
        assert_int_equal(hub->conns.live, 0);
        assert_int_equal(hub->reqs.live, hub->spare_req ? 1 : 0);
        for (unsigned k = 0; k < 5; k++)
            assert_int_equal(hub->loop.mem.small[k].live, 0);
        assert_int_equal(hub->ws_engine.lent, 0);
    }
}

static void stop_server(void)
{
    struct ioh_stats stats = IOH_STATS_INIT;
    int rc = ioh_server_stop(live.server, 0);
    assert_true(rc == 0 || rc == IOH_ETIMEOUT);
    assert_int_equal(ioh_server_stats(live.server, &stats), 0);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.websockets, 0);
    check_hubs();
    ioh_server_destroy(live.server);
    live.server = NULL;
    check_records();
}

static inline int end_server(void **state)
{
    (void)state;
    ioh_server_destroy(live.server); /* there only after a failed test */
    live.server = NULL;
    return 0;
}

static struct ioh_stats get_stats(void)
{
    struct ioh_stats stats = IOH_STATS_INIT;
    assert_int_equal(ioh_server_stats(live.server, &stats), 0);
    return stats;
}

static inline bool logged(const char *text)
{
    pthread_mutex_lock(&live.lock);
    bool found = strstr(live.log, text) != NULL;
    pthread_mutex_unlock(&live.lock);
    return found;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Looks every millisecond until the condition holds; fails the test when it never does. */
#define wait_until(condition)                                   \
    do {                                                        \
        uint64_t begin_ = now_ms();                             \
        while (!(condition) && now_ms() - begin_ < DEADLINE_MS) \
            usleep(1000);                                       \
        assert_true(condition);                                 \
    } while (0)

/* ---- clients */

static int connect_client(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval most = {.tv_sec = DEADLINE_MS / 1000};
    to.sin_port = htons((uint16_t)atoi(strrchr(live.address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* what is cut, leaves cut */
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* false: the connection is gone. */
static bool say(int fd, const void *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
        if (n < 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool say_text(int fd, const char *text)
{
    return say(fd, text, strlen(text));
}

/* Bytes that came, 0 when the peer has gone. Silence fails the test. */
static size_t hear(int fd, void *data, size_t room)
{
    ssize_t n = recv(fd, data, room, 0);
    if (n < 0 && errno == EAGAIN)
        fail_msg("the server says nothing");
    return n < 0 ? 0 : (size_t)n;
}

static bool hear_all(int fd, void *data, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = hear(fd, (char *)data + at, len - at);
        if (n == 0)
            return false;
    }
    return true;
}

static inline void hear_the_end(int fd)
{
    char rest[4096];
    while (hear(fd, rest, sizeof rest))
        ;
}

/* A head, byte by byte so that nothing behind it is taken; 0: the connection is gone. */
static size_t hear_head(int fd, char *head, size_t room)
{
    size_t len = 0;
    while (len + 1 < room && hear_all(fd, head + len, 1)) {
        head[++len] = '\0';
        if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0)
            return len;
    }
    return 0;
}

/* A body in chunks (RFC 9112 7.1). */
static bool hear_chunks(int fd, char *body, size_t *len)
{
    char line[32], end[2];
    for (*len = 0;;) {
        size_t at = 0;
        do {
            if (at + 1 >= sizeof line || !hear_all(fd, line + at, 1))
                return false;
        } while (line[at++] != '\n');
        line[at] = '\0';
        size_t size = strtoul(line, NULL, 16);
        assert_true(*len + size <= BIG);
        if (!hear_all(fd, body + *len, size) || !hear_all(fd, end, 2))
            return false;
        if (size == 0)
            return true;
        *len += size;
    }
}

static char answer_body[BIG];
static size_t answer_len;

/* One answer: its status, 0 when the connection broke before it was whole. */
static int hear_answer(int fd)
{
    char head[2048];
    if (!hear_head(fd, head, sizeof head))
        return 0;
    int status = atoi(head + 9);
    assert_memory_equal(head, "HTTP/1.1 ", 9);
    const char *length = strstr(head, "Content-Length: ");
    answer_len = length ? strtoul(length + 16, NULL, 10) : 0;
    assert_true(answer_len <= BIG);
    if (strstr(head, "chunked"))
        return hear_chunks(fd, answer_body, &answer_len) ? status : 0;
    return hear_all(fd, answer_body, answer_len) ? status : 0;
}

static int ask(int fd, const char *path)
{
    char request[128];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    return say_text(fd, request) ? hear_answer(fd) : 0;
}

static inline void ask_big(int fd, const char *path)
{
    assert_int_equal(ask(fd, path), 200);
    assert_int_equal(answer_len, BIG);
    assert_memory_equal(answer_body, big, BIG);
}

static inline void ping(int fd)
{
    assert_int_equal(ask(fd, "/ping"), 200);
    assert_int_equal(answer_len, 4);
    assert_memory_equal(answer_body, "pong", 4);
}

/* A new client is served. */
static inline void ping_anew(void)
{
    int fd = connect_client();
    ping(fd);
    close(fd);
}

static inline int post(int fd, const void *body, size_t len, size_t cut)
{
    char head[128];
    int n = snprintf(head, sizeof head,
                     "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", len);
    return say(fd, head, (size_t)n) && say(fd, body, cut) &&
                   say(fd, (const char *)body + cut, len - cut)
               ? hear_answer(fd)
               : 0;
}

/* ---- WebSocket clients */

static const char ws_request[] = "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
                                 "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/* false: refused, or the connection is gone. */
static inline bool ws_connect(int fd)
{
    char head[2048];
    return say_text(fd, ws_request) && hear_head(fd, head, sizeof head) &&
           memcmp(head, "HTTP/1.1 101 ", 13) == 0;
}

/* A frame with the mask 0, which leaves the payload as it is; in two parts when 0 < cut < its size. */
static bool ws_say(int fd, int b0, const void *payload, size_t len, size_t cut)
{
    static uint8_t frame[BIG + 14];
    size_t n = 2;
    frame[0] = (uint8_t)b0;
    if (len < 126) {
        frame[1] = (uint8_t)(0x80 | len);
    } else if (len < 65536) {
        frame[1] = 0x80 | 126;
        frame[n++] = (uint8_t)(len >> 8);
        frame[n++] = (uint8_t)len;
    } else {
        frame[1] = 0x80 | 127;
        for (int i = 7; i >= 0; i--)
            frame[n++] = (uint8_t)((uint64_t)len >> (8 * i));
    }
    memset(frame + n, 0, 4);
    n += 4;
    memcpy(frame + n, payload, len);
    n += len;
    if (cut >= n)
        cut = 0;
    return say(fd, frame, cut) && say(fd, frame + cut, n - cut);
}

/* A frame: its first byte, the payload in answer_body; 0: the connection is gone. */
static int ws_hear(int fd)
{
    uint8_t head[10];
    size_t more = 0;
    if (!hear_all(fd, head, 2))
        return 0;
    assert_int_equal(head[1] & 0x80, 0);
    answer_len = head[1];
    if (answer_len >= 126) {
        more = answer_len == 126 ? 2 : 8;
        if (!hear_all(fd, head + 2, more))
            return 0;
        answer_len = 0;
        for (size_t i = 0; i < more; i++)
            answer_len = answer_len << 8 | head[2 + i];
    }
    assert_true(answer_len <= BIG);
    return hear_all(fd, answer_body, answer_len) ? head[0] : 0;
}

static inline void ws_echo(int fd, const char *bytes, size_t len)
{
    assert_true(ws_say(fd, 0x82, bytes, len, 0));
    assert_int_equal(ws_hear(fd), 0x82);
    assert_int_equal(answer_len, len);
    assert_memory_equal(answer_body, bytes, len);
}

#endif

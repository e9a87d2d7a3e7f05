/* What ioh_publish() costs its caller: `publish SUBSCRIBERS CALLS [BYTES]`.
 *
 * A server in this process, with one epoll thread; its subscribers are sockets of this process, too, and a
 * thread reads and drops what they get. The main thread publishes every few milliseconds, and measures how long the
 * call takes. Prints one line; exit status 1 when something was not delivered.
 */
#include <iohandler/iohandler.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 512
#define MOST_CALLS 100000

static const char upgrade[] =
    "GET / HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    "AAECAwQFBgcICQoLDA0ODw==\r\n\r\n";

static int ep;
static _Atomic uint64_t heard; /* bytes */

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void on_ws_open(ioh_conn *conn, void *state)
{
    (void)state;
    if (ioh_subscribe(conn, "bench", NULL))
        fail("subscribe");
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)conn;
    (void)op;
    (void)data;
    (void)len;
    (void)state;
}

static ioh_server *start(uint16_t *port)
{
    struct ioh_handler h = IOH_HANDLER_INIT;
    struct ioh_options o = IOH_OPTIONS_INIT;
    ioh_server *server;
    char address[64];
    h.on_ws_open = on_ws_open;
    h.on_ws_message = on_ws_message;
    o.exec = IOH_EXEC_INLINE;
    o.epoll_threads = 1;
    o.ws_ping_ms = UINT32_MAX; /* every byte is counted */
    if (ioh_server_create(&server, &h, &o, NULL) < 0 ||
        ioh_server_listen(server, "127.0.0.1:0", NULL) < 0 || ioh_server_start(server) < 0 ||
        ioh_server_address(server, 0, address, sizeof address) < 0)
        fail("server");
    *port = (uint16_t)atoi(strrchr(address, ':') + 1);
    return server;
}

static void open_one(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event e = {.events = EPOLLIN};
    char answer[1024] = "";
    size_t len = 0;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    e.data.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e.data.fd < 0 || connect(e.data.fd, (struct sockaddr *)&a, sizeof a) ||
        send(e.data.fd, upgrade, sizeof upgrade - 1, MSG_NOSIGNAL) < 0)
        fail("connect");
    while (!strstr(answer, "\r\n\r\n")) {
        ssize_t n = recv(e.data.fd, answer + len, sizeof answer - 1 - len, 0);
        if (n <= 0)
            fail("upgrade");
        len += (size_t)n;
        answer[len] = 0;
    }
    if (epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e))
        fail("epoll_ctl");
}

static void *drop(void *arg)
{
    static char in[65536];
    struct epoll_event events[EVENTS];
    (void)arg;
    for (;;) {
        int n = epoll_wait(ep, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            ssize_t got = recv(events[i].data.fd, in, sizeof in, MSG_DONTWAIT);
            if (got == 0)
                return NULL; /* the server stops */
            if (got > 0)
                atomic_fetch_add(&heard, (uint64_t)got);
        }
    }
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double calls[MOST_CALLS];
    static char text[65536];
    int subscribers = argc > 2 ? atoi(argv[1]) : 0, count = argc > 2 ? atoi(argv[2]) : 0;
    size_t bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : 64;
    uint16_t port;
    pthread_t reader;
    if (subscribers < 1 || count < 1 || count > MOST_CALLS || bytes > sizeof text) {
        fputs("usage: publish SUBSCRIBERS CALLS [BYTES]\n", stderr);
        return 2;
    }
    ioh_server *server = start(&port);
    ep = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < subscribers; i++)
        open_one(port);
    if (pthread_create(&reader, NULL, drop, NULL))
        fail("pthread_create");
    memset(text, 'x', sizeof text);
    size_t frame = bytes + (bytes < 126 ? 2 : bytes < 65536 ? 4 : 10);
    for (int i = 0; i < count; i++) {
        uint64_t wanted = (uint64_t)(i + 1) * (uint64_t)subscribers * frame;
        double begin = now_us();
        if (ioh_publish(server, "bench", IOH_WS_TEXT, ioh_buf_copy(text, bytes), NULL))
            fail("publish");
        calls[i] = now_us() - begin;
        for (double until = begin + 10e6; heard < wanted && now_us() < until;)
            usleep(1000);
        if (heard != wanted)
            return fprintf(stderr, "publish: %" PRIu64 " bytes of %" PRIu64 "\n", heard, wanted), 1;
    }
    qsort(calls, (size_t)count, sizeof *calls, compare);
    printf(
        "publish: %d subscribers, %zu B, %d calls: %.1f us median, %.1f us p99, %.1f us at most\n",
        subscribers, bytes, count, calls[count / 2], calls[count * 99 / 100], calls[count - 1]);
    ioh_server_stop(server, 0);
    ioh_server_destroy(server);
    pthread_join(reader, NULL);
    return 0;
}

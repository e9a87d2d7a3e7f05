/* Opens many WebSockets at once: `load ws-burst PORT PATH CONNS`.
 *
 *     CONNECTING --writable: the request goes out--> SHAKING --101--> OPEN
 *
 * All connects are begun before the first is waited for. Prints `burst N MS`, how many were opened and in which time
 * from the first connect to the last 101, and closes them at the end of the input. They come from as many
 * source addresses as those of load_idle.c. Exit status 1 unless all were opened within PATIENCE_NS.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_SOURCE 0x7f000002u
#define SOURCES 8
#define PATIENCE_NS (20 * NS_PER_S)
#define HEAD_MAX 1024

enum state { CONNECTING, SHAKING, OPEN, FAILED };

struct caller {
    int fd;
    enum state state;
    size_t len;
    char head[HEAD_MAX];
};

static int begin(uint16_t port, uint32_t from)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)}, src = to;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    src.sin_addr.s_addr = htonl(from);
    src.sin_port = 0;
    if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) ||
        bind(fd, (struct sockaddr *)&src, sizeof src) ||
        (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS))
        load_fail("a connect could not be begun: %s", strerror(errno));
    return fd;
}

static void watch(int ep, struct caller *c, int op, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (epoll_ctl(ep, op, c->fd, &e))
        load_fail("epoll_ctl: %s", strerror(errno));
}

static void step(int ep, struct caller *c, const char *request, size_t request_len)
{
    if (c->state == CONNECTING) {
        c->state = send(c->fd, request, request_len, MSG_NOSIGNAL) == (ssize_t)request_len ? SHAKING
                                                                                           : FAILED;
        watch(ep, c, EPOLL_CTL_MOD, EPOLLIN);
        return;
    }
    ssize_t n = recv(c->fd, c->head + c->len, HEAD_MAX - 1 - c->len, 0);
    if (n > 0) {
        c->len += (size_t)n;
        c->head[c->len] = 0;
        if (c->len < 4 || strcmp(c->head + c->len - 4, "\r\n\r\n") != 0)
            return;
        if (strncmp(c->head, "HTTP/1.1 101 ", 13) == 0) {
            c->state = OPEN;
            return;
        }
    }
    c->state = FAILED;
}

int load_burst(uint16_t port, const char *path, int conns)
{
    struct caller *all = calloc((size_t)conns, sizeof *all);
    struct epoll_event events[512];
    int ep = epoll_create1(EPOLL_CLOEXEC), open = 0, over = 0;
    char request[512];
    int len = snprintf(request, sizeof request,
                       "GET %.200s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n"
                       "Sec-WebSocket-Version: 13\r\n\r\n",
                       path, port);
    if (!all || ep < 0)
        load_fail("no room for %d connections", conns);
    uint64_t start = load_now(), end = start;
    for (int i = 0; i < conns; i++) {
        all[i].fd = begin(port, FIRST_SOURCE + (uint32_t)i % SOURCES);
        watch(ep, &all[i], EPOLL_CTL_ADD, EPOLLOUT);
    }
    while (over < conns && load_now() < start + PATIENCE_NS) {
        int k = epoll_wait(ep, events, 512, 1000);
        for (int i = 0; i < k; i++) {
            struct caller *c = events[i].data.ptr;
            if (c->state >= OPEN)
                continue;
            step(ep, c, request, (size_t)len);
            over += c->state >= OPEN;
            open += c->state == OPEN;
        }
        end = load_now();
    }
    printf("burst %d %.1f\n", open, (double)(end - start) / 1e6);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    for (int i = 0; i < conns; i++)
        close(all[i].fd);
    close(ep);
    free(all);
    return open == conns ? 0 : 1;
}

/* Holds many WebSockets open: `load ws-idle PORT PATH CONNS`.
 *
 * They come from 127.0.0.2 to 127.0.0.9, because one source address has only some 28,000 ports. Prints
 * `open N`; then, for each line `ping` on the input, sends a ping with its own payload on each and prints
 * `pongs N`, the number that were answered rightly; at the end of the input `still open N`. Exit status 1
 * unless all three counts are CONNS.
 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_SOURCE 0x7f000002u
#define SOURCES 8
#define GIVE_UP 5 /* failed connections after which no more are tried */
#define PONG_WAIT (10 * NS_PER_S)
#define FRAME_MAX 127 /* a control frame without a key: 2 + 125 */

struct held {
    int fd;                   /* -1: lost */
    uint32_t asked, answered; /* payload of the last ping sent, and of the last pong that came */
    size_t len;
    uint8_t in[FRAME_MAX];
};

static bool send_control(int fd, int opcode, const uint8_t *data, size_t len)
{
    uint8_t frame[6 + 125], key[4];
    uint64_t r = load_random();
    memcpy(key, &r, 4);
    size_t n = load_header(frame, opcode, len, key);
    for (size_t i = 0; i < len; i++)
        frame[n + i] = data[i] ^ key[i & 3];
    return load_send(fd, frame, n + len);
}

/* Takes one whole frame from in[]; 1 taken, 0 not whole yet, -1 nothing that may come here. */
static int take_frame(struct held *h)
{
    if (h->len < 2)
        return 0;
    size_t body = h->in[1];
    if (body > 125)
        return -1;
    if (h->len < 2 + body)
        return 0;
    const uint8_t *data = h->in + 2;
    if (h->in[0] == (0x80 | OP_PONG) && body == 4)
        memcpy(&h->answered, data, 4);
    else if (h->in[0] != (0x80 | OP_PING) || !send_control(h->fd, OP_PONG, data, body))
        return -1;
    h->len -= 2 + body;
    memmove(h->in, data + body, h->len);
    return 1;
}

/* Reads what has come; a connection that is closed or says something else is lost. */
static void read_some(struct held *h)
{
    int taken = 0;
    while (taken >= 0) {
        ssize_t n = recv(h->fd, h->in + h->len, sizeof h->in - h->len, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        h->len += (size_t)n;
        while ((taken = take_frame(h)) > 0)
            continue;
    }
    close(h->fd);
    h->fd = -1;
}

static int open_all(struct held *all, int conns, uint16_t port, const char *path, int ep)
{
    int n = 0;
    for (int i = 0, failed = 0; i < conns && failed < GIVE_UP; i++) {
        struct held *h = &all[n];
        h->fd = load_connect(port, FIRST_SOURCE + (uint32_t)i % SOURCES);
        if (h->fd < 0 || !load_shake(h->fd, port, path)) {
            fprintf(stderr, "load: connection %d: %s\n", i,
                    h->fd < 0 ? strerror(errno) : "handshake refused");
            if (h->fd >= 0)
                close(h->fd);
            failed++;
            continue;
        }
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = h};
        if (epoll_ctl(ep, EPOLL_CTL_ADD, h->fd, &e))
            load_fail("epoll_ctl: %s", strerror(errno));
        n++;
    }
    return n;
}

static int ping_all(struct held *all, int n, int ep)
{
    static uint32_t payload;
    struct epoll_event events[512];
    int pongs = 0;
    for (struct held *h = all; h < all + n; h++) {
        h->asked = ++payload;
        if (h->fd >= 0)
            send_control(h->fd, OP_PING, (uint8_t *)&h->asked, 4);
    }
    uint64_t end = load_now() + PONG_WAIT;
    while (pongs < n && load_now() < end) {
        int k = epoll_wait(ep, events, 512, 1000);
        for (int i = 0; i < k; i++) {
            struct held *h = events[i].data.ptr;
            bool had = h->answered == h->asked;
            read_some(h);
            pongs += !had && h->answered == h->asked;
        }
    }
    return pongs;
}

static int count_alive(struct held *all, int n)
{
    int alive = 0;
    for (struct held *h = all; h < all + n; h++) {
        if (h->fd < 0)
            continue;
        read_some(h);
        if (h->fd < 0)
            continue;
        alive++;
        close(h->fd);
    }
    return alive;
}

int load_idle(uint16_t port, const char *path, int conns)
{
    struct held *all = calloc((size_t)conns, sizeof *all);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    if (!all || ep < 0)
        load_fail("no room for %d connections", conns);
    int n = open_all(all, conns, port, path, ep);
    bool good = n == conns;
    printf("open %d\n", n);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "ping\n") != 0)
            continue;
        int pongs = ping_all(all, n, ep);
        good = good && pongs == n;
        printf("pongs %d\n", pongs);
        fflush(stdout);
    }
    int alive = count_alive(all, n);
    printf("still open %d\n", alive);
    close(ep);
    free(all);
    return good && alive == conns ? 0 : 1;
}

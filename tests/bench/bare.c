/* The bare loop: what this kernel allows. `bare PORT http|ws|fan`
 *
 * One thread, one level-triggered epoll set, one receive buffer; for each event one recv and one
 * send, and nothing between them but what the protocol cannot do without: HTTP looks for blank lines
 * and sends a constant for each, WebSocket unmasks and sends the frames back, or with fan to all other
 * connections. No limits, no deadlines,
 * no checks, so it is not a server; it is the ruler that the bench lays beside one.
 *
 * PORT 0 takes a free one. Prints `listening PORT` and runs until it is killed.
 *
 *   ws connection:  SHAKE --blank line seen--> OPEN --peer closed--> gone
 */
#include "accept.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUF_SIZE (256u * 1024u)
#define KEEP_SIZE 1024 /* the start of a head or of a frame header that waits for its rest */
#define EVENTS 512
#define MAX_OPEN 65536
#define REPLIES 512 /* answers one send can carry */

static const char reply[] = "HTTP/1.1 200 OK\r\n"
                            "Content-Type: text/plain\r\n"
                            "Content-Length: 4\r\n"
                            "\r\n"
                            "pong";
#define REPLY_LEN (sizeof reply - 1)

enum state { SHAKE, OPEN };

struct conn {
    int fd;
    enum state state;
    size_t place;   /* in all[]; OPEN */
    size_t kept;    /* bytes in keep[] */
    uint64_t left;  /* payload of the current frame still to come */
    uint8_t key[4]; /* turned so that key[0] is for the next byte */
    uint8_t *late;  /* what the socket did not take; nothing is read until it is out */
    size_t late_len, late_off;
    char keep[KEEP_SIZE];
};

static uint8_t buf[BUF_SIZE];
static char replies[REPLIES * (sizeof reply - 1)];
static int ep;
static bool fan;
static struct conn *all[MAX_OPEN]; /* fan: the WebSockets */
static size_t open_count;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void drop(struct conn *c)
{
    if (c->state == OPEN) {
        all[c->place] = all[--open_count];
        all[c->place]->place = c->place;
    }
    close(c->fd);
    free(c->late);
    free(c);
}

static void watch(struct conn *c, int op, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (epoll_ctl(ep, op, c->fd, &e))
        fail("epoll_ctl");
}

/* False when the connection is broken. What does not fit is kept and waits for EPOLLOUT. */
static bool put(struct conn *c, const void *data, size_t len)
{
    ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
    if (n == (ssize_t)len)
        return true;
    if (n < 0 && errno != EAGAIN)
        return false;
    size_t sent = n < 0 ? 0 : (size_t)n;
    c->late = malloc(len - sent);
    if (!c->late)
        fail("malloc");
    c->late_len = len - sent;
    c->late_off = 0;
    memcpy(c->late, (const char *)data + sent, c->late_len);
    watch(c, EPOLL_CTL_MOD, EPOLLOUT);
    return true;
}

static bool put_late(struct conn *c)
{
    ssize_t n = send(c->fd, c->late + c->late_off, c->late_len - c->late_off, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN;
    c->late_off += (size_t)n;
    if (c->late_off < c->late_len)
        return true;
    free(c->late);
    c->late = NULL;
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
    return true;
}

/* Keeps the unused tail for the next recv. */
static bool keep(struct conn *c, const void *data, size_t len)
{
    if (len > KEEP_SIZE)
        return false;
    memcpy(c->keep, data, len);
    c->kept = len;
    return true;
}

/* ---- HTTP ---- */

static bool http_input(struct conn *c, size_t len)
{
    const uint8_t *p = buf, *end = buf + len, *blank;
    size_t n = 0;
    while (n < REPLIES && (blank = memmem(p, (size_t)(end - p), "\r\n\r\n", 4))) {
        p = blank + 4;
        n++;
    }
    if (p < end && !keep(c, p, (size_t)(end - p)))
        return false;
    return n == 0 || put(c, replies, n * REPLY_LEN);
}

/* ---- WebSocket ---- */

static bool ws_shake(struct conn *c, size_t len)
{
    static const char name[] = "\r\nSec-WebSocket-Key:";
    char sum[ACCEPT_SIZE], out[256];
    buf[len] = 0;
    if (len < 4 || memcmp(buf + len - 4, "\r\n\r\n", 4) != 0)
        return keep(c, buf, len);
    const char *key = strcasestr((char *)buf, name);
    if (!key)
        return false;
    key += sizeof name - 1;
    key += strspn(key, " \t");
    if (!ws_accept(key, (int)strcspn(key, " \t\r"), sum))
        return false;
    int n = snprintf(out, sizeof out,
                     "HTTP/1.1 101 Switching Protocols\r\n"
                     "Upgrade: websocket\r\n"
                     "Connection: Upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\n"
                     "\r\n",
                     sum);
    if (open_count == MAX_OPEN)
        return false;
    c->state = OPEN;
    c->place = open_count;
    all[open_count++] = c;
    return put(c, out, (size_t)n);
}

/* XORs n bytes from in to out, which lies before it, and turns the key for what follows. */
static void unmask(uint8_t *out, const uint8_t *in, size_t n, uint8_t key[4])
{
    uint8_t turned[4];
    uint32_t k4;
    memcpy(&k4, key, 4);
    uint64_t k8 = (uint64_t)k4 << 32 | k4, a, b;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        memcpy(&a, in + i, 8);
        memcpy(&b, in + i + 8, 8);
        a ^= k8;
        b ^= k8;
        memcpy(out + i, &a, 8);
        memcpy(out + i + 8, &b, 8);
    }
    for (; i < n; i++)
        out[i] = in[i] ^ key[i & 3];
    for (i = 0; i < 4; i++)
        turned[i] = key[(n + i) & 3];
    memcpy(key, turned, 4);
}

/* Length of the frame header at p (RFC 6455 5.2), 0 when it is not whole. Fills left and key. */
static size_t ws_header(struct conn *c, const uint8_t *p, size_t have)
{
    if (have < 2)
        return 0;
    size_t ext = (p[1] & 127) == 126 ? 2 : (p[1] & 127) == 127 ? 8 : 0;
    if (have < 2 + ext + 4)
        return 0;
    c->left = ext ? 0 : p[1] & 127;
    for (size_t i = 0; i < ext; i++)
        c->left = c->left << 8 | p[2 + i];
    memcpy(c->key, p + 2 + ext, 4);
    return 2 + ext + 4;
}

/* One write to each; who is stuck is left out. */
static bool put_to_others(struct conn *c, const void *data, size_t len)
{
    for (size_t i = 0; i < open_count; i++)
        if (all[i] != c && !all[i]->late && !put(all[i], data, len))
            return false;
    return true;
}

/* The answer is written over the input: a frame without its key is four bytes shorter, so out never
 * overtakes in. */
static bool ws_input(struct conn *c, size_t len)
{
    uint8_t *in = buf, *out = buf, *end = buf + len;
    while (in < end) {
        if (c->left == 0) {
            size_t h = ws_header(c, in, (size_t)(end - in));
            if (h == 0)
                break;
            memmove(out, in, h - 4);
            out[1] &= 127;
            if ((out[0] & 15) == 9) /* a ping is answered by a pong */
                out[0] ^= 9 ^ 10;
            in += h;
            out += h - 4;
        }
        size_t n = (size_t)(end - in);
        if (n > c->left)
            n = (size_t)c->left;
        unmask(out, in, n, c->key);
        in += n;
        out += n;
        c->left -= n;
    }
    if (in < end && !keep(c, in, (size_t)(end - in)))
        return false;
    size_t n = (size_t)(out - buf);
    return n == 0 || (fan ? put_to_others(c, buf, n) : put(c, buf, n));
}

/* ---- the loop ---- */

static bool ready(struct conn *c, bool ws)
{
    if (c->late)
        return put_late(c);
    size_t kept = c->kept;
    if (kept)
        memcpy(buf, c->keep, kept);
    ssize_t n = recv(c->fd, buf + kept, BUF_SIZE - 1 - kept, 0);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    c->kept = 0;
    size_t len = kept + (size_t)n;
    if (!ws)
        return http_input(c, len);
    return c->state == SHAKE ? ws_shake(c, len) : ws_input(c, len);
}

static void take(int listener)
{
    int fd, one = 1;
    /* The epoll set holds what is made here. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = malloc(sizeof *c);
        if (!c)
            fail("malloc");
        memset(c, 0, offsetof(struct conn, keep));
        c->fd = fd;
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

static int open_listener(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof a;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&a, &len))
        fail("listen");
    printf("listening %d\n", ntohs(a.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    fan = argc == 3 && strcmp(argv[2], "fan") == 0;
    bool ws = argc == 3 && (fan || strcmp(argv[2], "ws") == 0);
    if (argc != 3 || (!ws && strcmp(argv[2], "http") != 0)) {
        fputs("usage: bare PORT http|ws|fan\n", stderr);
        return 2;
    }
    struct rlimit lim;
    getrlimit(RLIMIT_NOFILE, &lim);
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
    for (size_t i = 0; i < REPLIES; i++)
        memcpy(replies + i * REPLY_LEN, reply, REPLY_LEN);

    int listener = open_listener((uint16_t)atoi(argv[1]));
    struct epoll_event events[EVENTS], e = {.events = EPOLLIN, .data.ptr = NULL};
    ep = epoll_create1(EPOLL_CLOEXEC);
    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e))
        fail("epoll");
    for (;;) {
        int n = epoll_wait(ep, events, EVENTS, -1);
        if (n < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c)
                take(listener);
            else if (!ready(c, ws))
                drop(c);
        }
    }
}

/* What goes on beside a measurement: `load loop PORT PATH CONNS` and `load deaf PORT PATH CONNS`.
 *
 *   loop   each connection sends GET PATH again as soon as it is answered. Prints `open N`; at the end of the
 *          input it sends no more, waits for the answers that are due, and prints `answers N`.
 *   deaf   each connection sends GET PATH once and never reads. Prints `open N`; at the end of the input
 *          `still open N`, the number that the server has begun to answer and not given up.
 *
 * Exit status 1 when a connection failed, was answered by anything but 200, or was forgotten.
 */
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX 2048
#define LAST_ANSWER (10 * NS_PER_S) /* for the answers that are due at the end */

struct looper {
    int fd; /* -1: lost */
    bool due;
    size_t len;
    char in[HEAD_MAX];
};

static size_t make_request(char *out, size_t size, uint16_t port, const char *path)
{
    int n = snprintf(out, size, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path, port);
    if (n < 0 || (size_t)n >= size)
        load_fail("the path is too long");
    return (size_t)n;
}

/* Says that it has opened its connections, before the first request may block anything. */
static void say(const char *what, int n)
{
    printf("%s %d\n", what, n);
    fflush(stdout);
}

/* ---- loop */

/* 1: a whole answer has come, 0: not yet, -1: the connection is lost or was refused. */
static int read_answer(struct looper *l)
{
    ssize_t n = recv(l->fd, l->in + l->len, sizeof l->in - 1 - l->len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return -1;
    l->len += (size_t)n;
    l->in[l->len] = 0;
    char *blank = strstr(l->in, "\r\n\r\n");
    if (!blank)
        return l->len < sizeof l->in - 1 ? 0 : -1;
    char *field = strcasestr(l->in, "\r\nContent-Length:");
    if (strncmp(l->in, "HTTP/1.1 200 ", 13) != 0 || !field || field > blank)
        return -1;
    size_t whole = (size_t)(blank + 4 - l->in) + strtoul(field + 17, NULL, 10);
    if (l->len < whole)
        return whole < sizeof l->in ? 0 : -1;
    bool exact = l->len == whole; /* more than was asked for is wrong, too */
    l->len = 0;
    return exact ? 1 : -1;
}

struct loop {
    int ep, due, lost, answers;
    bool ending;
    char request[512];
    size_t request_len;
};

static void ask(struct loop *loop, struct looper *l)
{
    if (load_send(l->fd, loop->request, loop->request_len)) {
        l->due = true;
        loop->due++;
        return;
    }
    loop->lost++;
    close(l->fd);
    l->fd = -1;
}

static void hear(struct loop *loop, struct looper *l)
{
    int got = read_answer(l);
    if (got == 0)
        return;
    loop->due -= l->due;
    l->due = false;
    loop->answers += got > 0;
    if (got < 0) {
        loop->lost++;
        close(l->fd);
        l->fd = -1;
    } else if (!loop->ending) {
        ask(loop, l);
    }
}

static void add_to(int ep, int fd, void *what)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e))
        load_fail("epoll_ctl: %s", strerror(errno));
}

/* Until the input has ended and no answer is due any more. */
static void run_loop(struct loop *loop)
{
    struct epoll_event events[64];
    uint64_t end = UINT64_MAX;
    while (load_now() < end && !(loop->ending && loop->due == 0)) {
        int n = epoll_wait(loop->ep, events, 64, loop->ending ? 100 : -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr) {
                hear(loop, events[i].data.ptr);
                continue;
            }
            loop->ending = true;
            end = load_now() + LAST_ANSWER;
            epoll_ctl(loop->ep, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
        }
    }
}

int load_loop(uint16_t port, const char *path, int conns)
{
    struct looper *all = calloc((size_t)conns, sizeof *all);
    struct loop loop = {.ep = epoll_create1(EPOLL_CLOEXEC)};
    if (!all || loop.ep < 0)
        load_fail("no room for %d connections", conns);
    loop.request_len = make_request(loop.request, sizeof loop.request, port, path);
    for (int i = 0; i < conns; i++) {
        all[i].fd = load_connect(port, 0);
        if (all[i].fd < 0)
            load_fail("connection %d: %s", i, strerror(errno));
        add_to(loop.ep, all[i].fd, &all[i]);
    }
    add_to(loop.ep, STDIN_FILENO, NULL);
    say("open", conns);
    for (int i = 0; i < conns; i++)
        ask(&loop, &all[i]);
    run_loop(&loop);
    say("answers", loop.answers);
    for (int i = 0; i < conns; i++)
        if (all[i].fd >= 0)
            close(all[i].fd);
    close(loop.ep);
    free(all);
    return loop.lost || loop.due || !loop.answers ? 1 : 0;
}

/* ---- deaf */

/* Has something been sent to it, and is it still wanted? */
static bool is_fed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
    int bytes = 0;
    return poll(&p, 1, 0) == 1 && p.revents == POLLIN && ioctl(fd, FIONREAD, &bytes) == 0 &&
           bytes > 0;
}

int load_deaf(uint16_t port, const char *path, int conns)
{
    int *fds = calloc((size_t)conns, sizeof *fds), alive = 0;
    char request[512], c;
    size_t len = make_request(request, sizeof request, port, path);
    if (!fds)
        load_fail("no room for %d connections", conns);
    for (int i = 0; i < conns; i++) {
        fds[i] = load_connect(port, 0);
        if (fds[i] < 0 || !load_send(fds[i], request, len))
            load_fail("connection %d: %s", i, strerror(errno));
    }
    say("open", conns);
    while (read(STDIN_FILENO, &c, 1) > 0)
        continue;
    for (int i = 0; i < conns; i++) {
        alive += is_fed(fds[i]);
        close(fds[i]);
    }
    say("still open", alive);
    free(fds);
    return alive == conns ? 0 : 1;
}

/* One publishes, many hear it: `load [-p PID] fan PORT PATH CONNS SECONDS DEPTH BYTES`.
 *
 * CONNS WebSockets on PATH listen; one more, on PATH?others=1, sends text messages of BYTES bytes, DEPTH at a time:
 * the next DEPTH when all have heard all of the last. Deliveries are counted by bytes, and the beginning of
 * what comes with each recv is compared. The time is from the send to the last delivery.
 *
 * Prints one JSON line, like load.c; an answer is one delivery.
 */
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_SOURCE 0x7f000002u
#define SOURCES 8
#define IN_SIZE (256u * 1024u)
#define EVENTS 512
#define ROUNDS_MAX 100000
#define PATIENCE_MS 10000

struct fan {
    int ep, speaker;
    struct ear {
        int fd;
        size_t got; /* bytes of this round */
    } * ears;
    int conns;
    size_t depth, frame_len;
    uint8_t *request; /* DEPTH masked frames */
    size_t request_len;
    uint8_t start[10]; /* how each frame begins that is heard */
    size_t start_len;
    uint64_t errors;
    double *times; /* of the rounds, in us */
    size_t rounds;
};

static uint8_t in[IN_SIZE];

static int open_one(uint16_t port, const char *path, int number)
{
    int fd = load_connect(port, FIRST_SOURCE + (uint32_t)number % SOURCES);
    if (fd < 0 || !load_shake(fd, port, path))
        load_fail("connection %d: %s", number, fd < 0 ? strerror(errno) : "handshake refused");
    return fd;
}

static void prepare(struct fan *f, uint16_t port, const char *path, size_t bytes)
{
    static const uint8_t key[4] = {1, 2, 3, 4};
    char speaker_path[200];
    f->ep = epoll_create1(EPOLL_CLOEXEC);
    f->ears = calloc((size_t)f->conns, sizeof *f->ears);
    f->request = calloc(f->depth, bytes + 14);
    f->times = calloc(ROUNDS_MAX, sizeof *f->times);
    if (f->ep < 0 || !f->ears || !f->request || !f->times)
        load_fail("out of memory");
    f->start_len = load_header(f->start, OP_TEXT, bytes, NULL);
    f->frame_len = f->start_len + bytes;
    for (size_t i = 0; i < f->depth; i++) {
        f->request_len += load_header(f->request + f->request_len, OP_TEXT, bytes, key);
        for (size_t k = 0; k < bytes; k++)
            f->request[f->request_len++] = (uint8_t)('a' + k % 26) ^ key[k & 3];
    }
    for (int i = 0; i < f->conns; i++) {
        f->ears[i].fd = open_one(port, path, i);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &f->ears[i]};
        if (epoll_ctl(f->ep, EPOLL_CTL_ADD, f->ears[i].fd, &e))
            load_fail("epoll_ctl: %s", strerror(errno));
    }
    snprintf(speaker_path, sizeof speaker_path, "%.180s?others=1", path);
    f->speaker = open_one(port, speaker_path, f->conns);
}

/* Reads what has come; how many messages that completes. */
static uint64_t hear(struct fan *f, struct ear *ear)
{
    ssize_t n = recv(ear->fd, in, sizeof in, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    size_t before = ear->got / f->frame_len, in_frame = ear->got % f->frame_len;
    size_t compared = n > 0 && (size_t)n < f->start_len ? (size_t)n : f->start_len;
    ear->got += n > 0 ? (size_t)n : 0;
    if (n <= 0 || ear->got > f->depth * f->frame_len ||
        (in_frame == 0 && memcmp(in, f->start, compared) != 0)) {
        f->errors++;
        epoll_ctl(f->ep, EPOLL_CTL_DEL, ear->fd, NULL);
        return 0;
    }
    return ear->got / f->frame_len - before;
}

/* Sends once and waits for all. false: somebody is left out. */
static bool one_round(struct fan *f)
{
    struct epoll_event events[EVENTS];
    uint64_t missing = (uint64_t)f->conns * f->depth, start = load_now();
    for (int i = 0; i < f->conns; i++)
        f->ears[i].got = 0;
    if (!load_send(f->speaker, f->request, f->request_len))
        load_fail("the publisher's connection broke");
    while (missing && !f->errors) {
        int n = epoll_wait(f->ep, events, EVENTS, PATIENCE_MS);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        for (int i = 0; i < n; i++)
            missing -= hear(f, events[i].data.ptr);
    }
    f->times[f->rounds] = (double)(load_now() - start) / 1e3;
    f->rounds += f->rounds + 1 < ROUNDS_MAX;
    return !f->errors;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int load_fan(uint16_t port, const char *path, int conns, double seconds, size_t depth, size_t bytes,
             int pid)
{
    struct fan f = {.conns = conns, .depth = depth};
    if (conns < 1 || seconds <= 0 || depth < 1 || depth > 64)
        load_fail("CONNS, SECONDS and DEPTH are more than 0, DEPTH at most 64");
    prepare(&f, port, path, bytes);
    bool whole = true;
    for (uint64_t until = load_now() + NS_PER_S / 4; whole && load_now() < until;)
        whole = one_round(&f);
    f.rounds = 0;
    uint64_t own = load_process_ns((int)getpid()), server = load_process_ns(pid),
             start = load_now();
    uint64_t end = start + (uint64_t)(seconds * 1e9);
    while (whole && (load_now() < end || f.rounds == 0))
        whole = one_round(&f);
    uint64_t ns = load_now() - start, server_end = load_process_ns(pid);
    server = server_end > server ? server_end - server : 0;
    own = load_process_ns((int)getpid()) - own;
    uint64_t done = (uint64_t)conns * depth * f.rounds;
    double each = done ? 1e3 * (double)done : 1;
    qsort(f.times, f.rounds, sizeof *f.times, compare);
    printf("{\"conns\": %d, \"depth\": %zu, \"bytes\": %zu, \"answers\": %" PRIu64
           ", \"rate\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"server_cpu_us\": %.3f"
           ", \"client_cpu_us\": %.3f, \"errors\": %" PRIu64 ", \"silent\": %d}\n",
           conns, depth, f.frame_len, done, (double)done * 1e9 / (double)ns,
           f.rounds ? f.times[f.rounds / 2] : 0, f.rounds ? f.times[f.rounds * 99 / 100] : 0,
           (double)server / each, (double)own / each, f.errors, !whole);
    for (int i = 0; i < conns; i++)
        close(f.ears[i].fd);
    close(f.speaker);
    close(f.ep);
    free(f.ears);
    free(f.request);
    free(f.times);
    return whole ? 0 : 1;
}

/* Load generator for the bench: one thread, one epoll set, constant requests, answers counted by bytes.
 *
 *   load [-w] [-p PID] http PORT CONNS SECONDS DEPTH
 *       GET /ping on kept-alive connections; DEPTH requests go out in one send, the next DEPTH when all
 *       are answered. The length of an answer is learnt from the first ones.
 *   load [-w] [-p PID] get PORT PATH CONNS SECONDS
 *       The same for any path, one request at a time.
 *   load [-w] [-p PID] ws PORT PATH CONNS SECONDS DEPTH BYTES [binary]
 *       Masked messages of BYTES bytes to an echo; DEPTH are in flight on each connection, and for the
 *       answers that came with one recv as many new ones go out in one send.
 *   load [-p PID] fan PORT PATH CONNS SECONDS DEPTH BYTES
 *       See load_fan.c.
 *   load ws-idle PORT PATH CONNS, load ws-burst PORT PATH CONNS
 *       See load_idle.c and load_burst.c.
 *   load loop PORT PATH CONNS, load deaf PORT PATH CONNS
 *       See load_beside.c.
 *
 * All requests are made before the clock starts, and an answer has one right length, so the steady path is
 * recv, compare, send. Each answer's beginning is compared (status line, or opcode and length); the body is
 * compared for each answer of http, not for those of get, and for one in SAMPLE WebSocket messages.
 *
 * Prints one JSON line. With -p the processor time of that process inside the measured time is given for
 * each answer. With -w it prints `open N` once all is open, and begins when a line comes in. Exit status 1 when anything failed, 2 for wrong usage.
 */
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_SIZE (512u * 1024u) /* sixteen answers of 16 KiB fit in one recv */
#define EVENTS 512
#define SAMPLE 16
#define WARM_NS \
    (NS_PER_S / 4) /* before the measured time: caches and socket buffers find their size */
#define PATIENCE_NS (5 * NS_PER_S) /* for an answer, after the measured time */
#define OK_START "HTTP/1.1 200 "

/* Each connection sends the ring of DEPTH requests over and over, and expects the ring of answers. */
struct plan {
    int conns;
    size_t depth;
    size_t refill;     /* send when so many places are free */
    uint8_t *requests; /* the ring, twice, so that any DEPTH of it lie in one piece */
    size_t request_len;
    size_t answer_len;
    uint8_t start[16]; /* how each answer begins */
    size_t start_len;
    uint8_t *bodies; /* what the answers hold from body_off on, body_step apart (0: all the same) */
    size_t body_off, body_step;
    unsigned sample; /* compare the body of each sample-th answer */
    bool pong;       /* HTTP: the body is known */
};

struct conn {
    int fd;
    bool waits_out;
    size_t flight; /* requests without a whole answer */
    size_t next;   /* place in the ring of the answer that comes next */
    size_t off;    /* its bytes that have come */
    size_t out;    /* place in the ring, in bytes, where sending goes on */
    size_t owed;   /* bytes to send */
    uint64_t answers;
    uint64_t *sent; /* when the request in each place was sent */
};

/* ---- latencies: 64 steps for each power of two, so a value is at most 1.6 % off ---- */

#define STEP_BITS 6
#define STEPS (1u << STEP_BITS)

static uint64_t hist[64 * STEPS], hist_n, hist_max;

static void hist_add(uint64_t ns)
{
    size_t i = ns;
    if (ns >= STEPS) {
        unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - STEP_BITS;
        i = (shift + 1) * (size_t)STEPS + (size_t)(ns >> shift) - STEPS;
    }
    hist[i]++;
    hist_n++;
    if (ns > hist_max)
        hist_max = ns;
}

static double hist_us(double part)
{
    double want = part * (double)hist_n;
    uint64_t seen = 0;
    for (size_t i = 0; i < sizeof hist / sizeof *hist; i++) {
        seen += hist[i];
        if (seen == 0 || (double)seen < want)
            continue;
        if (i < STEPS)
            return (double)i / 1e3;
        unsigned shift = (unsigned)(i / STEPS) - 1;
        return (double)((uint64_t)(i % STEPS + STEPS) << shift) / 1e3;
    }
    return 0;
}

static uint64_t own_ns(void)
{
    return load_process_ns((int)getpid());
}

/* ---- the steady path ---- */

static uint8_t in[IN_SIZE];
static int ep;

static void watch(struct conn *c, int op, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (epoll_ctl(ep, op, c->fd, &e))
        load_fail("epoll_ctl: %s", strerror(errno));
}

/* Sends what is owed; false when the connection is broken. */
static bool flush(const struct plan *p, struct conn *c)
{
    size_t ring = p->depth * p->request_len;
    while (c->owed) {
        ssize_t n = send(c->fd, p->requests + c->out, c->owed, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return false;
        c->owed -= (size_t)n;
        c->out += (size_t)n;
        if (c->out >= ring)
            c->out -= ring;
    }
    if (c->waits_out != (c->owed > 0)) {
        c->waits_out = c->owed > 0;
        watch(c, EPOLL_CTL_MOD, c->waits_out ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    return true;
}

/* Fills the free places of the ring with new requests. */
static bool refill(const struct plan *p, struct conn *c, uint64_t now)
{
    size_t n = p->depth - c->flight;
    if (n < p->refill)
        return true;
    size_t place = c->next + c->flight;
    for (size_t i = 0; i < n; i++, place++)
        c->sent[place < p->depth ? place : place - p->depth] = now;
    c->flight = p->depth;
    c->owed += n * p->request_len;
    return flush(p, c);
}

/* Is this piece of the current answer, which starts at its offset c->off, as it must be? */
static bool right(const struct plan *p, const struct conn *c, const uint8_t *piece, size_t n)
{
    size_t off = c->off;
    if (off < p->start_len) {
        size_t k = p->start_len - off < n ? p->start_len - off : n;
        if (memcmp(piece, p->start + off, k) != 0)
            return false;
    }
    if (c->answers % p->sample != 0 || off + n <= p->body_off)
        return true;
    size_t skip = off < p->body_off ? p->body_off - off : 0;
    const uint8_t *body = p->bodies + c->next * p->body_step + (off + skip - p->body_off);
    return memcmp(piece + skip, body, n - skip) == 0;
}

/* One recv and what it brought; answers the number of answers, -1 when the connection is lost or wrong. */
static int take(const struct plan *p, struct conn *c, uint64_t *now)
{
    ssize_t got = recv(c->fd, in, sizeof in, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && errno == EAGAIN ? 0 : -1;
    *now = load_now();
    int answers = 0;
    for (size_t at = 0, n; at < (size_t)got; at += n) {
        n = p->answer_len - c->off;
        if (n > (size_t)got - at)
            n = (size_t)got - at;
        if (c->flight == 0 || !right(p, c, in + at, n))
            return -1;
        c->off += n;
        if (c->off < p->answer_len)
            break;
        hist_add(*now - c->sent[c->next]);
        c->off = 0;
        c->flight--;
        c->answers++;
        if (++c->next == p->depth)
            c->next = 0;
        answers++;
    }
    return answers;
}

static bool serve(const struct plan *p, struct conn *c, uint32_t events, uint64_t *done)
{
    uint64_t now = 0;
    if ((events & EPOLLOUT) && !flush(p, c))
        return false;
    if (!(events & ~(uint32_t)EPOLLOUT))
        return true;
    int n = take(p, c, &now);
    if (n < 0)
        return false;
    *done += (uint64_t)n;
    return n == 0 || refill(p, c, now);
}

/* Runs until the given time; answers the number of answers. Counts broken connections in *errors. */
static uint64_t run_until(const struct plan *p, uint64_t end, uint64_t *errors)
{
    struct epoll_event events[EVENTS];
    uint64_t done = 0;
    for (uint64_t now; (now = load_now()) < end;) {
        int wait = (int)((end - now) / 1000000) + 1;
        int n = epoll_wait(ep, events, EVENTS, wait);
        if (n < 0 && errno != EINTR)
            load_fail("epoll_wait: %s", strerror(errno));
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (serve(p, c, events[i].events, &done))
                continue;
            (*errors)++;
            close(c->fd);
            c->fd = -1;
        }
    }
    return done;
}

/* Open connections without an answer since before was noted. */
static uint64_t count_silent(const struct plan *p, const struct conn *conns, const uint64_t *before)
{
    uint64_t n = 0;
    for (int i = 0; i < p->conns; i++)
        n += conns[i].fd >= 0 && conns[i].answers == before[i];
    return n;
}

static int measure(const struct plan *p, struct conn *conns, double seconds, int pid)
{
    uint64_t errors = 0, *before = calloc((size_t)p->conns, sizeof *before);
    if (!before)
        load_fail("out of memory");
    for (int i = 0; i < p->conns; i++)
        if (!refill(p, &conns[i], load_now()))
            load_fail("connection %d broke at the first request", i);
    run_until(p, load_now() + WARM_NS, &errors);

    for (int i = 0; i < p->conns; i++)
        before[i] = conns[i].answers;
    memset(hist, 0, sizeof hist);
    hist_n = hist_max = 0;
    uint64_t server = load_process_ns(pid), own = own_ns(), start = load_now();
    uint64_t done = run_until(p, start + (uint64_t)(seconds * 1e9), &errors);
    uint64_t ns = load_now() - start, max = hist_max;
    double p50 = hist_us(0.5), p99 = hist_us(0.99);
    own = own_ns() - own;
    uint64_t server_end = load_process_ns(pid);
    server = server_end > server ? server_end - server : 0; /* it may have died */

    /* Nobody may be forgotten: each connection must have got an answer, be it late on a busy machine. */
    uint64_t forgotten, end = load_now() + PATIENCE_NS;
    while ((forgotten = count_silent(p, conns, before)) > 0 && load_now() < end)
        run_until(p, load_now() + NS_PER_S / 100, &errors);
    double each = done ? 1e3 * (double)done : 1;
    printf(
        "{\"conns\": %d, \"depth\": %zu, \"bytes\": %zu, \"seconds\": %.3f, \"answers\": %" PRIu64
        ", \"rate\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f"
        ", \"server_cpu_us\": %.3f, \"client_cpu_us\": %.3f, \"errors\": %" PRIu64
        ", \"silent\": %" PRIu64 "}\n",
        p->conns, p->depth, p->answer_len, (double)ns / 1e9, done, (double)done * 1e9 / (double)ns,
        p50, p99, (double)max / 1e3, (double)server / each, (double)own / each, errors, forgotten);
    free(before);
    return errors + forgotten ? 1 : 0;
}

/* ---- set-up ---- */

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        load_fail("out of memory");
    return p;
}

/* One request and its whole answer; the answer's length. What fits of its body is left in in[], and *body says
 * where. */
static size_t http_once(int fd, const uint8_t *request, size_t request_len, const char **body)
{
    char *text = (char *)in, *blank = NULL, *field;
    size_t len = 0, want = 0;
    if (!load_send(fd, request, request_len))
        load_fail("the first request could not be sent");
    while (!blank || len < want) {
        bool room = len < sizeof in / 2;
        ssize_t n = recv(fd, room ? in + len : in + sizeof in / 2, sizeof in / 2 - 1, 0);
        if (n <= 0)
            load_fail("no whole answer to the first request");
        len += (size_t)n;
        if (room)
            text[len] = 0;
        if (blank || !(blank = strstr(text, "\r\n\r\n")))
            continue;
        field = strcasestr(text, "\r\nContent-Length:");
        if (!field || field > blank)
            load_fail("the answer has no Content-Length");
        want = (size_t)(blank + 4 - text) + strtoull(field + 17, NULL, 10);
    }
    if (strncmp(text, OK_START, strlen(OK_START)) != 0)
        load_fail("the answer is not 200");
    *body = blank + 4;
    return len;
}

static void plan_http(struct plan *p, uint16_t port, const char *path)
{
    char one[256];
    p->request_len = (size_t)snprintf(
        one, sizeof one, "GET %.150s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path, port);
    p->requests = zeroed(2 * p->depth, p->request_len);
    for (size_t i = 0; i < 2 * p->depth; i++)
        memcpy(p->requests + i * p->request_len, one, p->request_len);
    p->start_len = strlen(OK_START);
    memcpy(p->start, OK_START, p->start_len);
    p->refill = p->depth;
    p->sample = 1;
}

/* The first answer on a connection. All have the same length; what /ping says is looked at each time. */
static void first_answer(struct plan *p, int fd)
{
    const char *body;
    size_t len = http_once(fd, p->requests, p->request_len, &body);
    if (p->answer_len && len != p->answer_len)
        load_fail("answers differ in length, %zu and %zu", p->answer_len, len);
    p->answer_len = p->body_off = len;
    if (!p->pong)
        return;
    if (strcmp(body, "pong") != 0)
        load_fail("GET /ping is not answered by pong");
    p->bodies = (uint8_t *)"pong";
    p->body_off = len - 4;
}

static void plan_ws(struct plan *p, size_t bytes, bool binary)
{
    int opcode = binary ? OP_BINARY : OP_TEXT;
    p->start_len = load_header(p->start, opcode, bytes, NULL);
    p->answer_len = p->start_len + bytes;
    p->request_len = p->answer_len + 4;
    p->requests = zeroed(2 * p->depth, p->request_len);
    p->bodies = zeroed(p->depth, bytes + 1);
    p->body_off = p->start_len;
    p->body_step = bytes;
    p->refill = 1;
    p->sample = SAMPLE;
    for (size_t i = 0; i < p->depth; i++) {
        uint8_t key[4], *body = p->bodies + i * bytes, *out = p->requests + i * p->request_len;
        uint64_t r = load_random();
        memcpy(key, &r, 4);
        out += load_header(out, opcode, bytes, key);
        for (size_t j = 0; j < bytes; j++) {
            r = load_random() >> 32;
            body[j] = (uint8_t)(binary ? r : ' ' + r % 95);
            out[j] = body[j] ^ key[j & 3];
        }
    }
    memcpy(p->requests + p->depth * p->request_len, p->requests, p->depth * p->request_len);
}

/* path is NULL for HTTP. */
static struct conn *open_all(struct plan *p, uint16_t port, const char *path)
{
    struct conn *conns = zeroed((size_t)p->conns, sizeof *conns);
    ep = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < p->conns; i++) {
        struct conn *c = &conns[i];
        c->sent = zeroed(p->depth, sizeof *c->sent);
        c->fd = load_connect(port, 0);
        if (c->fd < 0)
            load_fail("connection %d: %s", i, strerror(errno));
        if (path && !load_shake(c->fd, port, path))
            load_fail("connection %d: handshake refused", i);
        if (!path)
            first_answer(p, c->fd);
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
    return conns;
}

static void close_all(struct plan *p, struct conn *conns)
{
    for (int i = 0; i < p->conns; i++) {
        if (conns[i].fd >= 0)
            close(conns[i].fd);
        free(conns[i].sent);
    }
    free(conns);
    free(p->requests);
    if (!p->pong)
        free(p->bodies);
    close(ep);
}

static int usage(void)
{
    fputs("usage: load [-w] [-p PID] http PORT CONNS SECONDS DEPTH\n"
          "       load [-w] [-p PID] get PORT PATH CONNS SECONDS\n"
          "       load [-w] [-p PID] ws PORT PATH CONNS SECONDS DEPTH BYTES [binary]\n"
          "       load [-p PID] fan PORT PATH CONNS SECONDS DEPTH BYTES\n"
          "       load ws-idle|ws-burst|loop|deaf PORT PATH CONNS\n",
          stderr);
    return 2;
}

static void raise_descriptor_limit(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim))
        return;
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
}

/* What is opened and held; a whole run of its own. -1: none of these. */
static int run_held(uint16_t port, const char *what, const char *path, int conns)
{
    if (strcmp(what, "ws-idle") == 0)
        return load_idle(port, path, conns);
    if (strcmp(what, "ws-burst") == 0)
        return load_burst(port, path, conns);
    if (strcmp(what, "loop") == 0)
        return load_loop(port, path, conns);
    return strcmp(what, "deaf") == 0 ? load_deaf(port, path, conns) : -1;
}

/* -w: whoever started this says when. */
static void wait_for_line(int conns)
{
    char line[8];
    printf("open %d\n", conns);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        load_fail("the input ended before the start");
}

int main(int argc, char **argv)
{
    struct plan p = {0};
    int pid = 0, opt;
    bool wait = false;
    while ((opt = getopt(argc, argv, "+p:w")) == 'p' || opt == 'w') {
        if (opt == 'p')
            pid = atoi(optarg);
        else
            wait = true;
    }
    argc -= optind;
    argv += optind;
    if (opt != -1 || argc < 4)
        return usage();
    bool http = strcmp(argv[0], "http") == 0, ws = strcmp(argv[0], "ws") == 0;
    uint16_t port = (uint16_t)atoi(argv[1]);
    raise_descriptor_limit();
    if (argc == 4 && atoi(argv[3]) > 0) {
        int status = run_held(port, argv[0], argv[2], atoi(argv[3]));
        return status < 0 ? usage() : status;
    }
    if (argc == 7 && strcmp(argv[0], "fan") == 0)
        return load_fan(port, argv[2], atoi(argv[3]), atof(argv[4]), strtoul(argv[5], NULL, 10),
                        strtoul(argv[6], NULL, 10), pid);
    bool get = strcmp(argv[0], "get") == 0;
    if (!(http && argc == 5) && !(get && argc == 5) && !(ws && (argc == 7 || argc == 8)))
        return usage();

    char **rest = argv + (http ? 2 : 3); /* CONNS SECONDS [DEPTH [BYTES [binary]]] */
    double seconds = atof(rest[1]);
    p.conns = atoi(rest[0]);
    p.depth = get ? 1 : strtoul(rest[2], NULL, 10);
    p.pong = http;
    if (p.conns < 1 || seconds <= 0 || p.depth < 1 || p.depth > 4096)
        return usage();
    if (!ws)
        plan_http(&p, port, http ? "/ping" : argv[2]);
    else
        plan_ws(&p, strtoul(rest[3], NULL, 10), argc == 8 && strcmp(rest[4], "binary") == 0);
    struct conn *conns = open_all(&p, port, ws ? argv[2] : NULL);
    if (wait)
        wait_for_line(p.conns);
    int status = measure(&p, conns, seconds, pid);
    close_all(&p, conns);
    return status;
}

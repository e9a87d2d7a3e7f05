/* A server under stress: its clients, a thread each. They choose what is to happen (stress.h), and check that everything
 * they are owed comes, in order, byte for byte; and that a connection ends only where it must or may.
 */
#ifndef IOH_TESTS_STRESS_CLIENT_H
#define IOH_TESTS_STRESS_CLIENT_H

#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define SILENCE_S 30 /* who waits this long waits in vain */

struct peer {
    int fd;
    uint32_t seed;
    char *in;
    size_t at, len, room;
    bool ended, half; /* half: we have said that no more will come */
    uint64_t got;
    char *out;
    size_t out_len, out_room;
    const char *waits_for; /* for the fault's text */
    char kind;
    uint32_t n;
};

static atomic_uint next_number;
static _Atomic uint64_t answers_checked, frames_checked, resets_made, refusals_seen, turned_away;

#define WRONG(p, what)                                                                    \
    stress_fault(__FILE__, __LINE__, "%s: waiting for %s of %c/%u", what, (p)->waits_for, \
                 (p)->kind, (p)->n)

/* What may be when the server stops meanwhile. */
#define CUT(p, what)                        \
    do {                                    \
        if (!atomic_load(&stress.stopping)) \
            WRONG(p, what);                 \
    } while (0)

/* With too little room in the pool's queue: 503 or 1013, or a reset. */
static inline bool may_refuse(void)
{
    return stress.config->pool_full == IOH_FULL_REFUSE;
}

static inline bool may_reset(void)
{
    return stress.config->pool_full == IOH_FULL_CLOSE;
}

static inline bool turn_away(void)
{
    atomic_fetch_add(&turned_away, 1);
    return false;
}

static inline uint32_t new_number(void)
{
    return mix(atomic_fetch_add(&next_number, 1)) >> 2;
}

/* ---- the socket */

static inline bool peer_connect(struct peer *p)
{
    struct timeval most = {.tv_sec = SILENCE_S};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    bool tcp = roll(&p->seed) % 4 == 0;
    p->at = p->len = 0;
    p->ended = p->half = false;
    p->got = 0;
    p->waits_for = "a connection";
    p->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    in.sin_port = htons((uint16_t)atoi(strrchr(stress.tcp, ':') + 1));
    snprintf(un.sun_path, sizeof un.sun_path, "%.100s", stress.unix_path + 5);
    int rc = tcp ? connect(p->fd, (struct sockaddr *)&in, sizeof in)
                 : connect(p->fd, (struct sockaddr *)&un, sizeof un);
    if (rc) {
        CUT(p, strerror(errno));
        close(p->fd);
        return false;
    }
    setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (tcp)
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return true;
}

/* With a reset, so that no port waits for its time to pass. */
static inline void peer_close(struct peer *p)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(p->fd);
}

static inline void put_bytes(struct peer *p, const void *bytes, size_t len)
{
    if (p->out_room < p->out_len + len) {
        p->out_room = 2 * (p->out_len + len);
        p->out = realloc(p->out, p->out_room);
        if (!p->out)
            abort();
    }
    memcpy(p->out + p->out_len, bytes, len);
    p->out_len += len;
}

/* Sends what was put, cut anywhere. A server that has gone shows when reading. */
static inline void send_all(struct peer *p)
{
    size_t at = 0;
    while (at < p->out_len) {
        size_t left = p->out_len - at, part = left;
        if (roll(&p->seed) % 3 == 0)
            part = 1 + roll(&p->seed) % left;
        ssize_t n = send(p->fd, p->out + at, part, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            WRONG(p, "the server does not read");
        if (n < 0)
            break;
        at += (size_t)n;
        if (at < p->out_len)
            linger(&p->seed);
    }
    p->out_len = 0;
}

static inline bool fill_more(struct peer *p)
{
    if (p->ended)
        return false;
    if (p->at) {
        memmove(p->in, p->in + p->at, p->len - p->at);
        p->len -= p->at;
        p->at = 0;
    }
    if (p->room - p->len < 32768) {
        p->room = p->room * 2 + 65536;
        p->in = realloc(p->in, p->room);
        if (!p->in)
            abort();
    }
    ssize_t n = recv(p->fd, p->in + p->len, roll(&p->seed) % 4 ? 32768 : 100, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        WRONG(p, "the server says nothing");
    p->ended = n <= 0;
    if (n > 0) {
        p->len += (size_t)n;
        p->got += (uint64_t)n;
    }
    return n > 0;
}

static inline bool need(struct peer *p, size_t n)
{
    while (p->len - p->at < n)
        if (!fill_more(p))
            return false;
    return true;
}

/* How many bytes up to and with the text; 0: it ended before. */
static inline size_t find(struct peer *p, const char *text)
{
    size_t len = strlen(text);
    for (;;) {
        const char *from = p->in + p->at;
        const char *found = p->len - p->at >= len ? memmem(from, p->len - p->at, text, len) : NULL;
        if (found)
            return (size_t)(found - from) + len;
        if (!fill_more(p))
            return 0;
    }
}

static inline void expect_end(struct peer *p, const char *after)
{
    p->waits_for = after;
    if (p->len > p->at || fill_more(p))
        WRONG(p, "more came");
}

/* ---- an answer */

struct reply {
    int status; /* 0: the connection ended before it was whole */
    uint32_t n;
    bool close, chunked;
    size_t len, sum; /* announced; arrived */
};

/* Takes n bytes of a body; false: ended. */
static inline bool take_body(struct peer *p, struct reply *r, size_t n, bool checked)
{
    while (n) {
        if (!need(p, 1))
            return false;
        size_t part = p->len - p->at < n ? p->len - p->at : n;
        if (checked && !is_pattern(p->in + p->at, r->n, r->sum, part))
            WRONG(p, "the body is not its own");
        p->at += part;
        r->sum += part;
        n -= part;
    }
    return true;
}

static inline bool take_chunks(struct peer *p, struct reply *r, bool checked)
{
    for (;;) {
        size_t line = find(p, "\r\n");
        if (!line)
            return false;
        size_t size = strtoul(p->in + p->at, NULL, 16);
        p->at += line;
        if (!take_body(p, r, size, checked) || !need(p, 2))
            return false;
        if (memcmp(p->in + p->at, "\r\n", 2) != 0)
            WRONG(p, "a chunk does not end");
        p->at += 2;
        if (size == 0)
            return true;
    }
}

static inline const char *field_of(const char *head, const char *name)
{
    const char *at = strstr(head, name);
    return at ? at + strlen(name) : NULL;
}

static inline void read_head(struct peer *p, struct reply *r, size_t len)
{
    char head[1000];
    snprintf(head, sizeof head, "%.*s", (int)len, p->in + p->at);
    p->at += len;
    if (memcmp(head, "HTTP/1.1 ", 9) != 0)
        WRONG(p, "no answer but something else");
    r->status = atoi(head + 9);
    const char *number = field_of(head, "\r\nX-N: "),
               *length = field_of(head, "\r\nContent-Length: ");
    r->n = number ? (uint32_t)strtoul(number, NULL, 10) : UINT32_MAX;
    r->len = length ? strtoul(length, NULL, 10) : 0;
    r->close = strstr(head, "\r\nConnection: close\r\n") != NULL;
    r->chunked = strstr(head, "\r\nTransfer-Encoding: chunked\r\n") != NULL;
}

static inline struct reply read_answer(struct peer *p)
{
    struct reply r = {0};
    size_t head = find(p, "\r\n\r\n");
    if (!head)
        return r;
    read_head(p, &r, head);
    bool checked = r.status == 200 && r.n != UINT32_MAX && r.n != 0;
    if (r.chunked ? !take_chunks(p, &r, checked) : !take_body(p, &r, r.len, checked))
        r.status = 0;
    return r;
}

/* ---- HTTP */

struct asked {
    char kind;
    uint32_t n;
};

static inline void put_request(struct peer *p, const struct asked *a)
{
    static const char chunks[] = "Transfer-Encoding: chunked\r\n\r\n";
    char text[200], *body;
    bool has_body = a->kind == ECHO || a->kind == EARLY;
    size_t len = request_len(a->n), at = 0;
    put_bytes(p, text,
              (size_t)snprintf(text, sizeof text, "%s /%c/%u HTTP/1.1\r\nHost: stress\r\n",
                               has_body ? "POST" : "GET", a->kind, a->n));
    if (!has_body) {
        put_bytes(p, "\r\n", 2);
        return;
    }
    body = malloc(len);
    if (!body)
        abort();
    fill_pattern(body, a->n, 0, len);
    if (a->n % 2) {
        put_bytes(p, text, (size_t)snprintf(text, sizeof text, "Content-Length: %zu\r\n\r\n", len));
        put_bytes(p, body, len);
    } else {
        put_bytes(p, chunks, sizeof chunks - 1);
        while (at < len) {
            size_t piece = 1 + roll(&p->seed) % (len - at);
            put_bytes(p, text, (size_t)snprintf(text, sizeof text, "%zx\r\n", piece));
            put_bytes(p, body + at, piece);
            put_bytes(p, "\r\n", 2);
            at += piece;
        }
        put_bytes(p, "0\r\n\r\n", 5);
    }
    free(body);
}

static inline bool is_ending(char kind)
{
    return memchr(ending, kind, sizeof ending) != NULL;
}

static inline void check_answer(struct peer *p, const struct reply *r, const struct asked *a)
{
    size_t len = a->kind == ECHO ? request_len(a->n) : body_len(a->n);
    if (r->status == 0)
        CUT(p, p->half ? "cut off after our end" : "cut off");
    else if (r->status != 200)
        WRONG(p, ioh_reason(r->status));
    else if (a->kind == SHARED ? r->n != 0 || r->sum != 6 : r->n != a->n || r->sum != len)
        WRONG(p, "somebody else's answer, or not all of it");
    if (r->close != (a->kind == LAST) && r->status)
        CUT(p, "Connection: close, or not");
    atomic_fetch_add(&answers_checked, 1);
}

/* The answer to one request; false: the session is over. */
static inline bool hear_one(struct peer *p, const struct asked *a, bool first)
{
    p->kind = a->kind;
    p->n = a->n;
    p->waits_for = "the answer";
    struct reply r = {0};
    if (a->kind != ABORT || may_refuse())
        r = read_answer(p);
    if (r.status == 503 && may_refuse()) {
        expect_end(p, "the end after 503");
        return turn_away();
    }
    bool lost = a->kind == ABORT || a->kind == ANSWER_ABORT || a->kind == FAR_ABORT; /* may be */
    if (p->ended && !lost && first && p->got == 0 && !may_reset() &&
        !atomic_load(&stress.stopping)) {
        atomic_fetch_add(&refusals_seen, 1);
        return false;
    }
    if (p->ended && !lost && r.status == 0 && may_reset())
        return turn_away();
    switch (a->kind) {
    case ABORT:
        expect_end(p, "the end by ioh_abort()");
        return false;
    case ANSWER_ABORT:
    case FAR_ABORT:
        if (r.status)
            check_answer(p, &r, a);
        expect_end(p, "the end after an answer and ioh_abort()");
        return false;
    case SILENCE:
        if (r.status != 500 || !r.close)
            CUT(p, "no 500");
        expect_end(p, "the end after 500");
        return false;
    default:
        check_answer(p, &r, a);
        if (is_ending(a->kind))
            expect_end(p, "the end after the last answer");
        return r.status == 200 && !is_ending(a->kind);
    }
}

enum { BATCH = 6 };

/* Sends some requests at once and hears their answers; false: the session is over. */
static inline bool http_round(struct peer *p, bool first)
{
    struct asked asked[BATCH + 2];
    int owed = 1 + (int)(roll(&p->seed) % BATCH), sent = owed;
    for (int i = 0; i < owed; i++)
        asked[i] = (struct asked){going_on[roll(&p->seed) % sizeof going_on], new_number()};
    if (roll(&p->seed) % 6 == 0) {
        char kind = ending[roll(&p->seed) % sizeof ending];
        if (kind == ABORT || kind == ANSWER_ABORT || kind == FAR_ABORT)
            owed = sent = 1; /* it would take the answers before it along */
        asked[owed - 1].kind = kind;
        while (kind != FAR_CLOSE && kind != FAR_ABORT && sent < BATCH && roll(&p->seed) % 2)
            asked[sent++] = (struct asked){WHOLE, new_number()}; /* not answered any more */
    }
    for (int i = 0; i < sent; i++)
        put_request(p, &asked[i]);
    bool leaves = roll(&p->seed) % 24 == 0;
    send_all(p);
    p->half = roll(&p->seed) % 24 == 0;
    if (p->half)
        shutdown(p->fd, SHUT_WR);
    for (int i = 0; i < owed; i++) {
        if (leaves && roll(&p->seed) % 2) {
            atomic_fetch_add(&resets_made, 1);
            return false;
        }
        if (!hear_one(p, &asked[i], first && i == 0))
            return false;
    }
    if (p->half)
        expect_end(p, "the end after ours");
    return !p->half;
}

static inline void http_session(struct peer *p)
{
    int rounds = 1 + (int)(roll(&p->seed) % 5);
    for (int i = 0; i < rounds && !atomic_load(&stress.faults); i++)
        if (!http_round(p, i == 0))
            return;
}

#include "stress_client_ws.h"

/* ---- the threads */

static inline void *run_client(void *arg)
{
    struct peer p = {.seed = mix((uint32_t)(uintptr_t)arg + 4711)};
    while (!atomic_load(&stress.over)) {
        if (!peer_connect(&p))
            break;
        if (roll(&p.seed) % 3)
            http_session(&p);
        else
            ws_session(&p);
        peer_close(&p);
        if (atomic_load(&stress.callbacks) >= stress.config->callbacks)
            atomic_store(&stress.over, true);
    }
    free(p.in);
    free(p.out);
    return NULL;
}

#endif

/* Raw blocking clients for tests: they send any bytes and read answers and frames strictly. Every wait
 * ends after PATIENCE_MS and fails the test then. The test's own thread.
 */
#ifndef IOH_TESTS_CLIENT_H
#define IOH_TESTS_CLIENT_H

#include "host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

struct client {
    struct client *next;
    int fd;
    uint8_t *in; /* arrived, not yet looked at */
    size_t len, room;
    bool ended, reset;

    /* the last answer or frame */
    int status;
    char *head;
    uint8_t *body; /* NUL stands behind it */
    size_t body_len, body_room;
    bool chunked, whole; /* whole: not cut off */
    int chunks, trailers;
    int op;
    bool fin;
};

static struct client *client_live;
static const char *client_from; /* their own IPv4 address, if not NULL */

static inline int client_socket(const char *address)
{
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(un.sun_path, sizeof un.sun_path, "%s", address + 5);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0)
            return fd;
        close(fd);
        return -1;
    }
    struct sockaddr_in in = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 65536;
    in.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (client_from) {
        struct sockaddr_in own = {.sin_family = AF_INET};
        assert_int_equal(inet_pton(AF_INET, client_from, &own.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    }
    /* Who is turned away at once may hear of it while it still connects. */
    if (fd >= 0 && (connect(fd, (struct sockaddr *)&in, sizeof in) == 0 || errno == ECONNRESET))
        return fd;
    close(fd);
    return -1;
}

static inline struct client *client_open_at(const char *address)
{
    struct client *c = calloc(1, sizeof *c);
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    assert_non_null(c);
    c->fd = client_socket(address);
    c->next = client_live;
    client_live = c;
    assert_true(c->fd >= 0);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return c;
}

static inline struct client *client_open(const struct host *h)
{
    return client_open_at(h->address);
}

static inline void client_close(struct client *c)
{
    for (struct client **at = &client_live; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    if (c->fd >= 0)
        close(c->fd);
    free(c->in);
    free(c->head);
    free(c->body);
    free(c);
}

static inline void client_close_all(void)
{
    while (client_live)
        client_close(client_live);
}

/* With a reset. */
static inline void client_abort(struct client *c)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    client_close(c);
}

/* ---- sending */

/* false: the server has closed. */
static inline bool client_try_write(struct client *c, const void *data, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(c->fd, (const char *)data + sent, len - sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            c->reset = true; /* recv() may no longer tell */
            return false;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail_msg("send: %s", strerror(errno));
        sent += (size_t)n;
    }
    return true;
}

static inline void client_write(struct client *c, const void *data, size_t len)
{
    assert_true(client_try_write(c, data, len));
}

static inline void client_send(struct client *c, const char *text)
{
    client_write(c, text, strlen(text));
}

/* No more will be sent. */
static inline void client_finish(struct client *c)
{
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
}

/* A request without a body; fields end with CRLF each. */
static inline void client_request(struct client *c, const char *method, const char *path,
                                  const char *fields)
{
    char text[2000];
    int n =
        snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: test\r\n%s\r\n", method, path, fields);
    assert_true(n > 0 && (size_t)n < sizeof text);
    client_send(c, text);
}

/* ---- receiving */

/* More bytes; false: the server has ended the connection. */
static inline bool client_fill(struct client *c)
{
    if (c->ended)
        return false;
    if (c->room - c->len < 65536) {
        c->room = c->room * 2 + 131072;
        c->in = realloc(c->in, c->room);
        assert_non_null(c->in);
    }
    for (;;) {
        ssize_t n = recv(c->fd, c->in + c->len, 65536, 0);
        if (n > 0) {
            c->len += (size_t)n;
            return true;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != ECONNRESET && errno != EPIPE)
            fail_msg("the server says nothing: %s", strerror(errno));
        c->ended = true;
        c->reset = c->reset || n < 0;
        return false;
    }
}

static inline void client_drop(struct client *c, size_t n)
{
    assert_true(n <= c->len);
    memmove(c->in, c->in + n, c->len - n);
    c->len -= n;
}

/* The connection ends here, and nothing more comes. */
static inline void client_expect_end(struct client *c)
{
    if (c->len || client_fill(c))
        fail_msg("more came: %.*s", (int)c->len, (const char *)c->in);
    c->ended = true;
}

/* The connection ends; what comes before is dropped. */
static inline void client_wait_end(struct client *c)
{
    while (client_fill(c))
        c->len = 0;
}

/* Nothing has arrived, and the connection is open. Says nothing about what may come later. */
static inline bool client_is_quiet(struct client *c)
{
    char byte;
    return c->len == 0 && !c->ended && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

static inline void client_forget(struct client *c)
{
    free(c->head);
    c->head = NULL;
    if (!c->body)
        c->body = malloc(c->body_room = 1024);
    assert_non_null(c->body);
    c->body[0] = 0;
    c->body_len = 0;
    c->status = c->chunks = c->trailers = 0;
    c->chunked = false;
    c->whole = true;
}

/* Moves n arrived bytes to the body. */
static inline void client_take(struct client *c, size_t n)
{
    if (c->body_room < c->body_len + n + 1)
        c->body = realloc(c->body, c->body_room = 2 * (c->body_len + n + 1));
    assert_non_null(c->body);
    memcpy(c->body + c->body_len, c->in, n);
    c->body_len += n;
    c->body[c->body_len] = 0;
    client_drop(c, n);
}

/* Moves n bytes to the body as they arrive; false: cut off. */
static inline bool client_take_all(struct client *c, size_t n)
{
    while (n) {
        size_t part = c->len < n ? c->len : n;
        if (part)
            client_take(c, part);
        n -= part;
        if (n && !client_fill(c))
            return false;
    }
    return true;
}

/* How far the text reaches, with it; 0: cut off before. */
static inline size_t client_find(struct client *c, const char *text)
{
    size_t len = strlen(text);
    for (;;) {
        uint8_t *at = c->len >= len ? memmem(c->in, c->len, text, len) : NULL;
        if (at)
            return (size_t)(at - c->in) + len;
        if (!client_fill(c))
            return 0;
    }
}

/* The value of a field of the last answer, NULL when there is none. Valid until the next call. */
static inline const char *client_field(const struct client *c, const char *name)
{
    static char value[1000];
    size_t len = strlen(name);
    for (const char *line = strstr(c->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            snprintf(value, sizeof value, "%.*s", (int)strcspn(line + len + 2, "\r\n"),
                     line + len + 2);
            return value;
        }
    }
    return NULL;
}

/* The lines behind the last chunk, with the empty one. */
static inline bool client_read_trailers(struct client *c)
{
    for (;;) {
        size_t line = client_find(c, "\r\n");
        if (!line)
            return false;
        client_drop(c, line);
        if (line == 2)
            return true;
        c->trailers++;
    }
}

static inline bool client_read_chunks(struct client *c)
{
    for (;;) {
        size_t line = client_find(c, "\r\n");
        char *end;
        if (!line)
            return false;
        size_t size = strtoul((char *)c->in, &end, 16);
        assert_ptr_equal(end, c->in + line - 2);
        client_drop(c, line);
        c->chunks += size > 0;
        if (size == 0)
            return client_read_trailers(c);
        if (!client_take_all(c, size))
            return false;
        while (c->len < 2)
            if (!client_fill(c))
                return false;
        assert_memory_equal(c->in, "\r\n", 2);
        client_drop(c, 2);
    }
}

/* Reads one answer. bodyless: to HEAD. Answers its status; c->whole tells whether all of it came. */
static inline int client_read(struct client *c, bool bodyless)
{
    client_forget(c);
    size_t head = client_find(c, "\r\n\r\n");
    if (!head) {
        c->whole = false;
        return 0;
    }
    c->head = calloc(1, head + 1);
    assert_non_null(c->head);
    memcpy(c->head, c->in, head);
    client_drop(c, head);
    assert_memory_equal(c->head, "HTTP/1.1 ", 9);
    c->status = atoi(c->head + 9);
    if (bodyless || c->status < 200 || c->status == 204 || c->status == 304)
        return c->status;
    const char *length = client_field(c, "Content-Length");
    if (length) {
        c->whole = client_take_all(c, strtoul(length, NULL, 10));
        return c->status;
    }
    const char *coding = client_field(c, "Transfer-Encoding");
    if (coding) {
        assert_string_equal(coding, "chunked");
        c->chunked = true;
        c->whole = client_read_chunks(c);
        return c->status;
    }
    do
        client_take(c, c->len);
    while (client_fill(c));
    c->whole = !c->reset;
    return c->status;
}

/* An answer that must be whole. */
static inline int client_answer(struct client *c)
{
    int status = client_read(c, false);
    if (!c->whole)
        fail_msg("the answer was cut off (status %d, %zu bytes of body)", status, c->body_len);
    return status;
}

static inline int client_get(struct client *c, const char *path)
{
    client_request(c, "GET", path, "");
    return client_answer(c);
}

#define assert_field(c, name, text)                       \
    do {                                                  \
        assert_non_null(client_field(c, name));           \
        assert_string_equal(client_field(c, name), text); \
    } while (0)

#define assert_body(c, text) assert_string_equal((const char *)(c)->body, text)

/* ---- WebSocket */

#define WS_UPGRADE                                  \
    "Upgrade: websocket\r\nConnection: Upgrade\r\n" \
    "Sec-WebSocket-Version: 13\r\n"                 \
    "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n"

/* A masked frame with the first byte b0. */
static inline void client_ws_frame(struct client *c, int b0, const void *data, size_t len)
{
    static const uint8_t key[4] = {0x21, 0x9c, 0x04, 0xf7};
    uint8_t *frame = malloc(len + 14), *at = frame;
    assert_non_null(frame);
    *at++ = (uint8_t)b0;
    if (len < 126) {
        *at++ = (uint8_t)(0x80 | len);
    } else if (len < 65536) {
        *at++ = 0x80 | 126;
        *at++ = (uint8_t)(len >> 8);
        *at++ = (uint8_t)len;
    } else {
        *at++ = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            *at++ = (uint8_t)((uint64_t)len >> shift);
    }
    memcpy(at, key, 4);
    at += 4;
    for (size_t i = 0; i < len; i++)
        *at++ = ((const uint8_t *)data)[i] ^ key[i % 4];
    client_try_write(c, frame, (size_t)(at - frame));
    free(frame);
}

static inline void client_ws_send(struct client *c, int op, const char *text)
{
    client_ws_frame(c, 0x80 | op, text, strlen(text));
}

/* code 0: without one */
static inline void client_ws_close(struct client *c, int code, const char *reason)
{
    uint8_t payload[125] = {(uint8_t)(code >> 8), (uint8_t)code};
    size_t len = strlen(reason);
    memcpy(payload + 2, reason, len);
    client_ws_frame(c, 0x88, payload, code ? len + 2 : 0);
}

static inline bool client_has(struct client *c, size_t n)
{
    while (c->len < n)
        if (!client_fill(c))
            return false;
    return true;
}

/* Reads one frame; its opcode, or -1 when the connection ended. */
static inline int client_ws_read(struct client *c)
{
    client_forget(c);
    if (!client_has(c, 2))
        return -1;
    assert_int_equal(c->in[0] & 0x70, 0);
    assert_int_equal(c->in[1] & 0x80, 0); /* a server never masks (RFC 6455 5.1) */
    size_t len = c->in[1], more = len == 127 ? 8 : len == 126 ? 2 : 0;
    c->fin = c->in[0] & 0x80;
    c->op = c->in[0] & 0x0f;
    if (!client_has(c, 2 + more))
        return -1;
    for (size_t i = 0; i < more; i++)
        len = (i ? len << 8 : 0) | c->in[2 + i];
    client_drop(c, 2 + more);
    c->whole = client_take_all(c, len);
    return c->whole ? c->op : -1;
}

/* The code of the Close frame just read, 0 when it has none. */
static inline int client_ws_code(const struct client *c)
{
    assert_int_equal(c->op, 8);
    return c->body_len < 2 ? 0 : c->body[0] << 8 | c->body[1];
}

/* A WebSocket. */
static inline struct client *client_ws_open(const struct host *h, const char *path)
{
    struct client *c = client_open(h);
    client_request(c, "GET", path, WS_UPGRADE);
    assert_int_equal(client_read(c, true), 101);
    return c;
}

/* Ends it as both sides should. */
static inline void client_ws_leave(struct client *c)
{
    client_ws_close(c, 1000, "");
    while (client_ws_read(c) != 8)
        assert_true(c->op >= 0 && !c->ended);
    assert_int_equal(client_ws_code(c), 1000);
    client_expect_end(c);
    client_close(c);
}

#endif

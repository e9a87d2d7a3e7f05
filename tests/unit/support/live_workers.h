/* Many blocking clients at once, a thread each; and chance, for whatever fails while they are served. */
#ifndef IOH_TESTS_LIVE_WORKERS_H
#define IOH_TESTS_LIVE_WORKERS_H

#include "live_server.h"

static _Atomic unsigned chancers; /* threads with a seed of their own */

static unsigned chance(unsigned below)
{
    static _Thread_local unsigned seed;
    if (seed == 0)
        seed = 12345 + 7919 * atomic_fetch_add(&chancers, 1);
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

struct worker {
    pthread_t thread;
    unsigned number, connections;
    unsigned served; /* of them, to the end */
    bool hung;
};

/* A thread's client; no asserts, so it has its own reading. */
static bool read_exactly(struct worker *w, int fd, char *to, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = recv(fd, to + at, len - at, 0);
        if (n < 0 && errno == EAGAIN)
            w->hung = true;
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The head of an answer with that status. */
static bool read_head(struct worker *w, int fd, int status)
{
    char head[1024];
    for (size_t n = 0; n < sizeof head && read_exactly(w, fd, head + n, 1); n++)
        if (n >= 12 && memcmp(head + n - 3, "\r\n\r\n", 4) == 0)
            return atoi(head + 9) == status;
    return false;
}

static bool ping_some(struct worker *w, int fd)
{
    char pong[4];
    for (int i = 0; i < 5; i++) {
        /* In two parts: the server keeps the first one. */
        if (!say_text(fd, "GET /ping HTTP/1.1\r\n") || !say_text(fd, "Host: a\r\n\r\n") ||
            !read_head(w, fd, 200) || !read_exactly(w, fd, pong, 4) || memcmp(pong, "pong", 4) != 0)
            return false;
    }
    return true;
}

static bool fetch_big(struct worker *w, int fd)
{
    char *body = malloc(BIG);
    bool ok = body && say_text(fd, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n") &&
              read_head(w, fd, 200) && read_exactly(w, fd, body, BIG) &&
              memcmp(body, big, BIG) == 0;
    free(body);
    return ok;
}

static bool echo_frames(struct worker *w, int fd, size_t size)
{
    char frame[2000] = {(char)0x82, (char)(0x80 | 126), (char)(size >> 8), (char)size};
    char answer[2000];
    for (size_t i = 0; i < 10; i++) {
        for (size_t k = 0; k < size; k++)
            frame[8 + k] = (char)(k * 3 + i);
        if (!say(fd, frame, 20) || !say(fd, frame + 20, size - 12) ||
            !read_exactly(w, fd, answer, size + 4) || memcmp(answer + 4, frame + 8, size) != 0)
            return false;
    }
    return true;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < w->connections && !w->hung; i++) {
        int fd = connect_client();
        w->served += ping_some(w, fd) && fetch_big(w, fd) && say_text(fd, ws_request) &&
                     read_head(w, fd, 101) && echo_frames(w, fd, 200 + 100 * w->number);
        close(fd);
    }
    return NULL;
}

#define WORKERS 8u

/* How many connections were served to their end. */
static unsigned serve_many(unsigned connections_each)
{
    struct worker workers[WORKERS];
    unsigned served = 0;
    bool hung = false;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.number = i, .connections = connections_each};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        served += workers[i].served;
        hung = hung || workers[i].hung;
    }
    assert_false(hung);
    return served;
}

#endif

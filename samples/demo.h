/* What all parts of the demo share: its state, and how it answers.
 *
 * The build makes a program of every .c file here, so the parts of demo.c are headers.
 *
 * What a connection or request is busy with is a `struct work`, kept in its user pointer.
 */
#ifndef DEMO_H
#define DEMO_H

#include <iohandler/iohandler.h>

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define GATHER_MAX ((size_t)16 << 20) /* a body that POST / keeps in memory; beyond: 413 */
#define SHORT_BODY 16384              /* read to its end although nobody wants it */
#define WS_MAX_DEFAULT ((uint64_t)16 << 20)
#define MAX_LISTENERS 16
#define MAX_LOOPS 256     /* loops whose connections are told one by one */
#define PATTERN_LEN 65536 /* one piece of /stream, a whole number of patterns */
#define ROUTES 15

enum kind { ECHO, TOPIC, GATHER, REFUSE, UPLOAD, STREAM, FORM, EVENTS };

struct work {
    enum kind kind;
    union {
        struct { /* TOPIC */
            char name[IOH_TOPIC_MAX + 1];
            int32_t full; /* IOH_TOPIC_... */
            bool others;  /* what it says does not come back to it */
            bool mute;    /* nobody hears what it says */
        } topic;
        struct { /* UPLOAD */
            EVP_MD_CTX *md;
            uint64_t bytes;
        } upload;
        struct { /* STREAM */
            ioh_req *req;
            uint64_t left, bytes;
            bool trailers; /* the number of bytes stands behind them, too */
        } stream;
        struct { /* EVENTS: of demo_stream.h */
            struct work *next;
            struct ioh_req_id id;
            int64_t number, left; /* of the last event; to come, -1: no end */
            uint64_t next_ms;
        } events;
        struct form *form; /* FORM: of demo_form.h */
    } u;
};

struct demo {
    ioh_server *server;
    ioh_pool *slow; /* where /slow and /burn run; NULL: as everything else */
    int files;      /* --files: the directory under /files/; -1: none */
    bool verbose;
    uint64_t started_ms;
    _Atomic uint64_t requests_per_s, messages_per_s; /* written by the main thread */
    ioh_buf *pattern;
    ioh_access_log *access; /* NULL: none */
    ioh_response *ping, *page, *done, *bad, *missing, *too_big, *broken, *not_implemented;
    ioh_response *options[ROUTES], *refused[ROUTES]; /* per route: 204 and 405 with Allow */
};

static const struct ioh_header text_fields[] = {{"Content-Type", "text/plain; charset=utf-8"},
                                                {"X-Content-Type-Options", "nosniff"}};
static const struct ioh_header json_fields[] = {{"Content-Type", "application/json"},
                                                {"Cache-Control", "no-store"}};

/* ---- helpers */

static bool str_is(struct ioh_str str, const char *text, size_t len)
{
    return str.len == len && memcmp(str.ptr, text, len) == 0;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Every sending function's answer comes here. A peer that left, or was too slow for its queue, is
 * everyday life: its callbacks clean up. All else is worth a line. */
static void check(const struct demo *demo, const char *what, int rc)
{
    if (rc >= 0 || (!demo->verbose && (rc == IOH_EGONE || rc == IOH_EFULL || rc == IOH_ESTATE)))
        return;
    fprintf(stderr, "demo: %s: %s\n", what, ioh_strerror(rc));
}

static void answer(struct demo *demo, ioh_req *req, const ioh_response *response)
{
    check(demo, "answer", ioh_respond_shared(req, response));
}

static void release_bytes(void *data, size_t len, void *user)
{
    (void)len;
    (void)user;
    free(data);
}

/* Answers 200 with len bytes that came from malloc; they are consumed. */
static void answer_bytes_take(struct demo *demo, ioh_req *req, const struct ioh_header *fields,
                              size_t count, void *data, size_t len)
{
    if (len == 0) {
        free(data);
        check(demo, "answer", ioh_respond(req, 200, fields, count, NULL, 0));
        return;
    }
    ioh_buf *buf = ioh_buf_wrap(data, len, release_bytes, NULL);
    if (buf == NULL) {
        free(data);
        answer(demo, req, demo->broken);
        return;
    }
    check(demo, "answer", ioh_respond_buf(req, 200, fields, count, buf));
}

/* New work for a request, answered with 500 when there is no memory. */
static struct work *work_begin(struct demo *demo, ioh_req *req, enum kind kind)
{
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        answer(demo, req, demo->broken);
        return NULL;
    }
    work->kind = kind;
    ioh_req_set_user(req, work);
    return work;
}

/* The value of a parameter of the query, not decoded; ptr is NULL when there is none. */
static struct ioh_str query_value(struct ioh_str query, const char *name)
{
    struct ioh_pairs it;
    struct ioh_str found, value;
    ioh_pairs_init(&it, query);
    while (ioh_pairs_next(&it, &found, &value))
        if (str_is(found, name, strlen(name)))
            return value;
    return (struct ioh_str){NULL, 0};
}

/* A decimal number of at most 2^63 - 1: a length that ioh_respond_start() takes. */
static bool parse_length(struct ioh_str digits, int64_t *number)
{
    int64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = digits.ptr[i] - '0';
        if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return digits.len > 0;
}

#endif

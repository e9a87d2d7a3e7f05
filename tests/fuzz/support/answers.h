/* A strict reader of all that a server said on one connection: HTTP answers, and behind a 101 WebSocket frames
 * (RFC 9112 4 to 7, RFC 6455 5). What no server may send ends the program. One thread. */
#ifndef FUZZ_ANSWERS_H
#define FUZZ_ANSWERS_H

#include "text.h"
#include <ctype.h>
#include <strings.h>

struct answers {
    const char *at, *end;
    const char *heads; /* of the requests in order: 'H' for HEAD, '1' for HTTP/1.1, '0' for 1.0 */
    size_t requests, finals;
    bool closing, websocket;
    bool eof;            /* the server ended the stream */
    bool deflate;        /* permessage-deflate is agreed (RFC 7692) */
    struct text outline; /* an answer or a frame a line, but for 1xx */
};

/* One line without its CRLF; false: it is not whole. */
static bool next_line(struct answers *a, struct text *line)
{
    const char *lf = a->at < a->end ? memchr(a->at, '\n', (size_t)(a->end - a->at)) : NULL;
    if (!lf)
        return false;
    CHECK(lf > a->at && lf[-1] == '\r');
    line->len = 0;
    text_add(line, a->at, (size_t)(lf - 1 - a->at));
    line->bytes[line->len] = 0;
    CHECK(strlen(line->bytes) == line->len && !strchr(line->bytes, '\r'));
    a->at = lf + 1;
    return true;
}

/* n bytes of a body into the outline; false: they are not all there. */
static bool take_bytes(struct answers *a, uint64_t n)
{
    uint64_t have = (uint64_t)(a->end - a->at);
    if (n > have)
        return false;
    text_add(&a->outline, a->at, (size_t)n);
    a->at += n;
    return true;
}

static bool read_chunks(struct answers *a, struct text *line)
{
    for (;;) {
        if (!next_line(a, line))
            return false;
        CHECK(line->len > 0 && line->len < 17 &&
              strspn(line->bytes, "0123456789abcdef") == line->len);
        uint64_t size = strtoull(line->bytes, NULL, 16);
        if (size == 0)
            break;
        if (!take_bytes(a, size) || !next_line(a, line))
            return false;
        CHECK(line->len == 0);
    }
    do { /* trailers */
        if (!next_line(a, line))
            return false;
        CHECK(line->len == 0 || strchr(line->bytes, ':'));
    } while (line->len > 0);
    return true;
}

struct answer_head {
    int status;
    bool chunked, has_length, date, close, deflate;
    uint64_t length;
};

static void take_field(struct answer_head *h, char *line)
{
    char *colon = strchr(line, ':');
    CHECK(colon && colon > line && colon[1] == ' ');
    *colon = 0;
    for (char *c = line; *c; c++)
        CHECK(isalnum((unsigned char)*c) || *c == '-');
    const char *value = colon + 2;
    if (strcasecmp(line, "Content-Length") == 0) {
        CHECK(!h->has_length && *value && strspn(value, "0123456789") == strlen(value));
        h->has_length = true;
        h->length = strtoull(value, NULL, 10);
    } else if (strcasecmp(line, "Transfer-Encoding") == 0) {
        CHECK(!h->chunked && strcmp(value, "chunked") == 0);
        h->chunked = true;
    } else if (strcasecmp(line, "Date") == 0) {
        CHECK(!h->date && strlen(value) == 29);
        h->date = true;
    } else if (strcasecmp(line, "Connection") == 0) {
        h->close = strcmp(value, "close") == 0;
    } else if (strcasecmp(line, "Sec-WebSocket-Extensions") == 0) {
        h->deflate = true;
    }
}

static bool read_head(struct answers *a, struct text *line, struct answer_head *h)
{
    *h = (struct answer_head){.status = 0};
    if (!next_line(a, line))
        return false;
    CHECK(line->len >= 13 && memcmp(line->bytes, "HTTP/1.1 ", 9) == 0 && line->bytes[12] == ' ');
    h->status = atoi(line->bytes + 9);
    CHECK(h->status >= 100 && h->status <= 599);
    for (;;) {
        if (!next_line(a, line))
            return false;
        if (line->len == 0)
            return true;
        take_field(h, line->bytes);
    }
}

/* false: no further answer is whole. */
static bool read_answer(struct answers *a, struct text *line)
{
    struct answer_head h;
    if (!read_head(a, line, &h))
        return false;
    CHECK(!a->closing); /* RFC 9112 9.6 */
    bool bodyless = h.status < 200 || h.status == 204;
    CHECK(!(h.chunked && h.has_length) && !(bodyless && (h.chunked || h.has_length)));
    if (h.status < 200 && h.status != 101)
        return true;
    CHECK(h.date || h.status == 101);
    /* A refusal of what was no request is the one answer too many. */
    char request = a->finals < a->requests ? a->heads[a->finals] : '1';
    CHECK(a->finals <= a->requests && (a->finals < a->requests || h.close));
    CHECK(request != '0' || !h.chunked);
    a->finals++;
    a->closing = h.close;
    text_say(&a->outline, "\n%d ", h.status);
    if (h.status == 101) {
        a->websocket = true;
        a->deflate = h.deflate;
        return true;
    }
    if (bodyless || h.status == 304 || request == 'H')
        return true;
    if (h.chunked)
        return read_chunks(a, line);
    if (h.has_length)
        return take_bytes(a, h.length);
    CHECK(h.close); /* RFC 9112 6.3: it lasts as long as the connection */
    take_bytes(a, (uint64_t)(a->end - a->at));
    return false;
}

static bool read_frame(struct answers *a)
{
    const uint8_t *p = (const uint8_t *)a->at;
    size_t have = (size_t)(a->end - a->at), head = 2;
    if (have < 2)
        return false;
    unsigned op = p[0] & 15u;
    uint64_t len = p[1];
    CHECK(!(p[0] & (a->deflate && (op == 1 || op == 2) ? 0x30 : 0x70)));
    CHECK(!(p[1] & 0x80)); /* never masked */
    CHECK(op <= 2 || (op >= 8 && op <= 10 && (p[0] & 0x80) && len <= 125));
    CHECK(!a->closing); /* nothing follows a Close */
    if (len >= 126) {
        head += len == 126 ? 2 : 8;
        if (have < head)
            return false;
        uint64_t bits = len == 126 ? 16 : 64;
        len = 0;
        for (size_t i = 2; i < head; i++)
            len = len << 8 | p[i];
        CHECK(bits == 16 ? len >= 126 : len > 65535);
    }
    if (have - head < len)
        return false;
    text_say(&a->outline, "\nframe %d %u ", p[0] >> 7, op);
    a->at += head;
    take_bytes(a, len);
    a->closing = op == 8;
    return true;
}

/* Reads all of it. What is left over at the end is no fault when the stream may have been cut. */
static void read_answers(struct answers *a)
{
    struct text line = {NULL, 0, 0};
    while (!a->websocket && read_answer(a, &line))
        ;
    while (a->websocket && read_frame(a))
        ;
    text_free(&line);
}

#endif

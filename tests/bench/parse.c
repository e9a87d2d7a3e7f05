/* The parser of request heads beside Debian's http-parser, in one process and turn by turn:
 *
 *     parse [ROUNDS [SECONDS]]
 *
 * A line for each request: its bytes, the nanoseconds that each takes for it (medians over the rounds) and
 * the median of the ratios within the rounds, theirs / ours: above 1 we are quicker. What http-parser finds is
 * kept in an array of fields, as we do. One thread.
 *
 *     parse NAME N       parses one request N times with ours, for counting instructions
 */
#include <http_parser.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/http1_parse.h"

#define FIELDS 100

struct request {
    const char *name, *bytes;
};

static const struct request requests[] = {
    {"ping", "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"load tool", "GET /ping HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: ApacheBench/2.3\r\n"
                  "Accept: */*\r\n\r\n"},
    {"post",
     "POST /api/v1/items?dry=1 HTTP/1.1\r\nHost: api.example.org\r\n"
     "User-Agent: curl/7.88.1\r\nAccept: */*\r\nContent-Type: application/json\r\n"
     "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\nContent-Length: 512\r\n\r\n"},
    {"websocket",
     "GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nPragma: no-cache\r\n"
     "Cache-Control: no-cache\r\nUpgrade: websocket\r\nOrigin: https://example.org\r\n"
     "Sec-WebSocket-Version: 13\r\nAccept-Encoding: gzip, deflate, br\r\n"
     "Accept-Language: en-GB,en;q=0.9\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
     "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"},
    {"browser",
     "GET /assets/app.js?v=20260131 HTTP/1.1\r\nHost: www.example.org\r\n"
     "Connection: keep-alive\r\n"
     "sec-ch-ua: \"Chromium\";v=\"120\", \"Not A(Brand\";v=\"24\"\r\nsec-ch-ua-mobile: ?0\r\n"
     "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/120.0.0.0 Safari/537.36\r\nsec-ch-ua-platform: \"Linux\"\r\nAccept: */*\r\n"
     "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script\r\n"
     "Referer: https://www.example.org/shop/list?page=3\r\n"
     "Accept-Encoding: gzip, deflate, br\r\nAccept-Language: en-GB,en;q=0.9,de;q=0.8\r\n"
     "If-None-Match: \"5f2c-61a0b3\"\r\nCookie: session=0123456789abcdef0123456789abcdef; "
     "theme=dark; consent=yes; _id=GA1.2.1234567890.1700000000\r\n\r\n"},
    {"cookies", "GET / HTTP/1.1\r\nHost: www.example.org\r\nAccept: text/html\r\nCookie: "
#define TEN \
    "key=0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklm; "
     TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "\r\n\r\n"},
};
#define REQUESTS (sizeof requests / sizeof requests[0])

/* ---- the two parsers: how many fields they find; 0 when they refuse */

static size_t ours(const char *bytes, size_t len)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 65535, .max_uri = 8192, .max_headers = FIELDS};
    struct ioh__http1_field fields[FIELDS];
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault;
    size_t scanned = 0;
    return ioh__http1_parse(bytes, len, len, &scanned, &limits, &head, &fault) == IOH__HTTP1_DONE
               ? head.count
               : 0;
}

struct found {
    struct ioh_str target, names[FIELDS], values[FIELDS];
    size_t count;
    bool whole;
};

static int on_url(http_parser *p, const char *at, size_t len)
{
    ((struct found *)p->data)->target = (struct ioh_str){at, len};
    return 0;
}

static int on_name(http_parser *p, const char *at, size_t len)
{
    struct found *f = p->data;
    f->names[f->count] = (struct ioh_str){at, len};
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
    struct found *f = p->data;
    f->values[f->count++] = (struct ioh_str){at, len};
    return 0;
}

/* 2: there is no body for now, so that the head is all that is parsed */
static int on_head(http_parser *p)
{
    ((struct found *)p->data)->whole = true;
    http_parser_pause(p, 1);
    return 0;
}

static size_t theirs(const char *bytes, size_t len)
{
    static const http_parser_settings settings = {.on_url = on_url,
                                                  .on_header_field = on_name,
                                                  .on_header_value = on_value,
                                                  .on_headers_complete = on_head};
    struct found found;
    http_parser parser;
    found.count = 0;
    found.whole = false;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &found;
    http_parser_execute(&parser, &settings, bytes, len);
    return found.whole ? found.count : 0;
}

/* ---- measuring */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds for one request, measured for about `seconds`. */
static double measure(size_t (*parse)(const char *, size_t), const char *bytes, size_t len,
                      double seconds)
{
    size_t done = 0, sum = 0;
    double start = now(), end = start + seconds * 1e9, at;
    do {
        for (int i = 0; i < 1000; i++)
            sum += parse(bytes, len);
        done += 1000;
        at = now();
    } while (at < end);
    if (sum != done * parse(bytes, len)) {
        fprintf(stderr, "parse: not always the same number of fields\n");
        exit(1);
    }
    return (at - start) / (double)done;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}

static void compare(const struct request *r, size_t rounds, double seconds)
{
    size_t len = strlen(r->bytes), count = ours(r->bytes, len);
    double *mine = calloc(rounds * 3, sizeof *mine), *other = mine + rounds,
           *ratio = other + rounds;
    if (!mine || count == 0 || theirs(r->bytes, len) != count) {
        fprintf(stderr, "parse: %s: %zu fields, http-parser has %zu\n", r->name, count,
                theirs(r->bytes, len));
        exit(1);
    }
    for (size_t i = 0; i < rounds; i++) {
        if (i % 2)
            other[i] = measure(theirs, r->bytes, len, seconds);
        mine[i] = measure(ours, r->bytes, len, seconds);
        if (i % 2 == 0)
            other[i] = measure(theirs, r->bytes, len, seconds);
        ratio[i] = other[i] / mine[i];
    }
    double middle = median(ratio, rounds);
    printf("%-12s %6zu %6zu %12.1f %12.1f %8.2f\n", r->name, len, count, median(mine, rounds),
           median(other, rounds), middle);
    fflush(stdout);
    free(mine);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < REQUESTS; i++) {
        if (strcmp(argv[1], requests[i].name) == 0) {
            size_t len = strlen(requests[i].bytes);
            for (long n = strtol(argv[2], NULL, 10); n > 0; n--)
                if (ours(requests[i].bytes, len) == 0)
                    return 1;
            return 0;
        }
    }
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 9;
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.05;
    if (rounds < 1 || seconds <= 0) {
        fprintf(stderr, "usage: parse [ROUNDS [SECONDS]] | parse NAME N\n");
        return 2;
    }
    printf("%-12s %6s %6s %12s %12s %8s\n", "request", "bytes", "fields", "ours ns", "theirs ns",
           "ratio");
    for (size_t i = 0; i < REQUESTS; i++)
        compare(&requests[i], rounds, seconds);
    return 0;
}

/* Request heads. Whatever the bytes: the parser says the same whole, cut in two and byte by byte, and in
 * whatever way it looks at them; all that it points to lies inside the head and keeps the grammar; an
 * accepted head is accepted at its last byte and not before.
 *
 * Input: two bytes choose the limits, two the cut, the rest is the head.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http1_field.h"
#include "proto/http1_scan.h"

#define FIELDS_MAX 16u
#define BYTE_BY_BYTE_MAX 1024u /* longer inputs are only cut: it takes a parse for each line */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

struct outcome {
    enum ioh__http1_result result;
    struct ioh__http1_head head;
    struct ioh__http1_field fields[FIELDS_MAX];
    struct ioh__http1_fault fault;
};

static void check_piece(const char *data, const struct ioh__http1_head *head, size_t at, size_t len,
                        unsigned kind)
{
    CHECK(at + len <= head->len);
    for (size_t i = 0; i < len; i++)
        CHECK(ioh__is_ch(data[at + i], kind));
}

static void check_fields(const char *data, const struct ioh__http1_head *head)
{
    for (size_t i = 0; i < head->count; i++) {
        const struct ioh__http1_field *f = &head->fields[i];
        CHECK(f->name_len > 0 && f->value >= f->name + f->name_len + 1);
        CHECK(f->name > head->target && (i == 0 || f->name > head->fields[i - 1].value));
        check_piece(data, head, f->name, f->name_len, IOH__CH_TOKEN);
        check_piece(data, head, f->value, f->value_len, IOH__CH_VALUE);
        if (f->value_len > 0) {
            const char *first = data + f->value, *last = first + f->value_len - 1;
            CHECK(*first != ' ' && *first != '\t' && *last != ' ' && *last != '\t');
        }
        CHECK(ioh__http1_find(data, head, data + f->name, f->name_len, i) == (int)i);
    }
}

/* How often a field is there. */
static size_t count(const char *data, const struct ioh__http1_head *head, const char *name)
{
    size_t n = 0, from = 0;
    for (int i; (i = ioh__http1_find(data, head, name, strlen(name), from)) >= 0; n++)
        from = (size_t)i + 1;
    return n;
}

static void check_head(const char *data, const struct ioh__http1_head *head,
                       const struct ioh__http1_limits *limits)
{
    CHECK(head->len >= 4 && head->len <= limits->max_head && head->count <= limits->max_headers);
    CHECK(memcmp(data + head->len - 4, "\r\n\r\n", 4) == 0);
    CHECK(head->method_len > 0 && head->method_len <= 32);
    CHECK(head->target_len > 0 && head->target_len <= limits->max_uri);
    check_piece(data, head, head->method, head->method_len, IOH__CH_TOKEN);
    check_piece(data, head, head->target, head->target_len, IOH__CH_TARGET);
    check_piece(data, head, head->path, head->path_len, IOH__CH_PATH);
    CHECK(head->path >= head->target);
    size_t target_end = (size_t)head->target + head->target_len;
    size_t path_end = (size_t)head->path + head->path_len;
    if (head->query) {
        CHECK(head->query == path_end + 1 && data[path_end] == '?');
        CHECK((size_t)head->query + head->query_len == target_end);
    } else {
        CHECK(path_end == target_end);
    }
    check_fields(data, head);

    size_t hosts = count(data, head, "host"), lengths = count(data, head, "Content-Length");
    size_t codings = count(data, head, "TRANSFER-ENCODING");
    CHECK(hosts <= 1 && (hosts == 1 || head->minor == 0));
    CHECK(head->has_length == (lengths > 0) && lengths <= 1);
    CHECK(head->chunked == (codings > 0) && (!head->chunked || (!head->has_length && head->minor)));
    CHECK(!head->upgrade_websocket || head->minor);
}

/* The bytes are copied to a block of their size, so that reads behind it are seen; `more` bytes behind them may be
 * read: they are the same ones again. */
static void parse_by(enum ioh__scan_way way, const char *bytes, size_t len, size_t more,
                     size_t *scanned, const struct ioh__http1_limits *limits, struct outcome *o)
{
    char *copy = malloc(len + more ? len + more : 1);
    CHECK(copy);
    memcpy(copy, bytes, len);
    for (size_t i = 0; i < more; i++)
        copy[len + i] = len ? bytes[i % len] : '\n';
    memset(o, 0, sizeof *o);
    o->head.fields = o->fields;
    o->result =
        ioh__http1_parse_by(way, copy, len, len + more, scanned, limits, &o->head, &o->fault);
    if (o->result == IOH__HTTP1_DONE)
        check_head(copy, &o->head, limits);
    if (o->result == IOH__HTTP1_FAULT) {
        CHECK(o->fault.offset <= len && o->fault.reason[0]);
        CHECK(o->fault.status >= 400 && o->fault.status <= 505);
    }
    if (o->result == IOH__HTTP1_MORE)
        CHECK(*scanned == len && len < limits->max_head);
    free(copy);
}

static void parse(const char *bytes, size_t len, size_t *scanned,
                  const struct ioh__http1_limits *limits, struct outcome *o)
{
    parse_by(ioh__scan_best(), bytes, len, 0, scanned, limits, o);
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    CHECK(a->result == b->result);
    if (a->result == IOH__HTTP1_DONE) {
        /* all up to content_length, which lies behind a gap */
        size_t packed = offsetof(struct ioh__http1_head, upgrade_websocket) + sizeof(bool);
        CHECK(memcmp(&a->head, &b->head, packed) == 0);
        CHECK(a->head.content_length == b->head.content_length && a->head.count == b->head.count);
        CHECK(memcmp(a->fields, b->fields, a->head.count * sizeof a->fields[0]) == 0);
    } else if (a->result == IOH__HTTP1_FAULT) {
        CHECK(a->fault.status == b->fault.status && a->fault.offset == b->fault.offset);
        CHECK(strcmp(a->fault.reason, b->fault.reason) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 4)
        return 0;
    const char *bytes = (const char *)data + 4;
    len -= 4;
    struct ioh__http1_limits limits = {
        .max_head = 16u + data[0] * 16u,
        .max_uri = 1u + data[1] / 16u * 16u,
        .max_headers = data[1] % 16u,
    };
    size_t cut = (data[2] | (size_t)data[3] << 8) % (len + 1), scanned = 0;
    struct outcome whole, part;
    parse(bytes, len, &scanned, &limits, &whole);
    for (enum ioh__scan_way way = IOH__BY_BYTES; way <= ioh__scan_best(); way++) {
        for (size_t more = 0; more <= IOH__SCAN_WIDTH; more += IOH__SCAN_WIDTH) {
            scanned = 0;
            parse_by(way, bytes, len, more, &scanned, &limits, &part);
            check_same(&whole, &part);
        }
    }

    scanned = 0;
    parse(bytes, cut, &scanned, &limits, &part);
    if (part.result == IOH__HTTP1_MORE)
        parse(bytes, len, &scanned, &limits, &part);
    check_same(&whole, &part);

    size_t end = whole.result == IOH__HTTP1_DONE ? whole.head.len : len;
    scanned = 0;
    for (size_t n = end > BYTE_BY_BYTE_MAX ? end : 0; n <= end; n++) {
        parse(bytes, n, &scanned, &limits, &part);
        if (part.result != IOH__HTTP1_MORE)
            break;
    }
    check_same(&whole, &part);

    if (whole.result == IOH__HTTP1_DONE) {
        scanned = 0;
        parse(bytes, end - 1, &scanned, &limits, &part);
        CHECK(part.result == IOH__HTTP1_MORE);
    }
    return 0;
}

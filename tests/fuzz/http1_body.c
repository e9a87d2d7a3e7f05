/* Request bodies. Whatever the bytes: decoded whole and decoded in pieces of any size they give the
 * same content, the same end or the same fault; pieces lie inside the bytes given; no limit is passed.
 *
 * Input: a byte that says how the body is framed, one for its length, one for max_body, one that seeds
 * the sizes of the pieces; the rest is the body and what follows.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http1_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

struct decoding {
    struct ioh__http1_body body;
    enum ioh__http1_body_result result;
    struct ioh__http1_fault fault;
    size_t used;
    char *out; /* as long as the input: content is never longer */
    size_t out_len;
    char trailers[IOH__TRAILER_MAX];
    size_t trailers_len;
};

static void begin(struct decoding *d, const struct ioh__http1_head *head, size_t room)
{
    memset(d, 0, sizeof *d);
    ioh__http1_body_init(&d->body, head);
    d->out = malloc(room ? room : 1);
    CHECK(d->out);
    d->result = IOH__BODY_MORE;
}

/* Gives the bytes from where the decoding stands up to end, in a block of their own. */
static void feed(struct decoding *d, const char *bytes, size_t end, uint64_t max_body)
{
    size_t len = end - d->used, at = 0;
    char *copy = malloc(len ? len : 1);
    CHECK(copy);
    memcpy(copy, bytes + d->used, len);
    do {
        struct ioh_str piece = {NULL, 0};
        size_t used = SIZE_MAX;
        d->result =
            ioh__http1_body_next(&d->body, copy + at, len - at, max_body, &used, &piece, &d->fault);
        CHECK(used <= len - at);
        if (d->result == IOH__BODY_PIECE) {
            CHECK(piece.len > 0 && piece.len <= used && piece.ptr + piece.len == copy + at + used);
            memcpy(d->out + d->out_len, piece.ptr, piece.len);
            d->out_len += piece.len;
            CHECK(d->out_len <= max_body && d->out_len == d->body.total);
        } else if (d->result == IOH__BODY_TRAILER) {
            CHECK(piece.len > 0 && piece.len <= used && piece.ptr + piece.len == copy + at + used);
            CHECK(piece.len <= sizeof d->trailers - d->trailers_len);
            memcpy(d->trailers + d->trailers_len, piece.ptr, piece.len);
            d->trailers_len += piece.len;
        } else if (d->result == IOH__BODY_MORE) {
            CHECK(used == len - at);
        } else if (d->result == IOH__BODY_FAULT) {
            CHECK(d->fault.offset == used && d->fault.reason[0]);
            CHECK(d->fault.status == 400 || d->fault.status == 413 || d->fault.status == 431);
        }
        at += used;
        d->used += used;
    } while (d->result == IOH__BODY_PIECE || d->result == IOH__BODY_TRAILER);
    free(copy);
}

static void check_same(const struct decoding *a, const struct decoding *b)
{
    CHECK(a->result == b->result && a->used == b->used);
    CHECK(a->out_len == b->out_len && memcmp(a->out, b->out, a->out_len) == 0);
    if (a->result == IOH__BODY_END)
        CHECK(a->trailers_len == b->trailers_len &&
              memcmp(a->trailers, b->trailers, a->trailers_len) == 0);
    if (a->result == IOH__BODY_FAULT)
        CHECK(a->fault.status == b->fault.status && strcmp(a->fault.reason, b->fault.reason) == 0);
}

/* What is kept of trailers can be read to its end. */
static void check_trailers(const struct decoding *d)
{
    struct ioh_str name, value;
    const char *at = d->trailers, *end = at + d->trailers_len;
    while (ioh__http1_trailer_next(&at, end, &name, &value)) {
        CHECK(name.len > 0 && at <= end);
        ioh__http1_trailer_allowed(name.ptr, name.len);
    }
    CHECK(at == end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 4)
        return 0;
    const char *bytes = (const char *)data + 4;
    len -= 4;
    struct ioh__http1_head head = {
        .chunked = data[0] % 4 != 0, .has_length = data[0] == 0, .content_length = data[1]};
    uint64_t max_body = data[2] == 0xff ? UINT64_MAX : data[2];
    uint32_t random = data[3];
    struct decoding whole, part;
    begin(&whole, &head, len);
    feed(&whole, bytes, len, max_body);

    begin(&part, &head, len);
    for (size_t end = 0; part.result == IOH__BODY_MORE;) {
        random = random * 1103515245u + 12345u;
        size_t step = data[3] ? random >> 16 & 7 : 1;
        end = end + step < len ? end + step : len;
        feed(&part, bytes, end, max_body);
        if (end == len)
            break;
    }
    check_same(&whole, &part);
    if (whole.result == IOH__BODY_END)
        check_trailers(&whole);

    if (whole.result == IOH__BODY_END && !head.chunked)
        CHECK(whole.out_len == (head.has_length ? head.content_length : 0));
    if (whole.result == IOH__BODY_END && head.chunked)
        CHECK(whole.used >= 5 && memcmp(bytes + whole.used - 2, "\r\n", 2) == 0);
    free(whole.out);
    free(part.out);
    return 0;
}

/* Forms. Whatever the bytes: a multipart body read whole and read in pieces of any size gives the same
 * parts with the same content and the same end; callbacks come in their order; content is never more than
 * the input; limits hold. The same bytes as pairs: pieces lie inside the text, decoded values never are
 * longer, and a value found by its name is the one the walk found.
 *
 * Input: a byte that seeds the sizes of the pieces, one for the limits, one that says how long the boundary
 * is; the boundary; the rest is the body.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iohandler/error.h>
#include <iohandler/form.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

/* What came, with marks that cannot be content: they have bytes that name it as such beside them. */
struct reading {
    char *out;
    size_t len, room;
    size_t content, parts;
    bool inside;
    int rc, end;
};

static void note(struct reading *r, const void *data, size_t len)
{
    if (r->room - r->len < len) {
        r->room = (r->room + len) * 2;
        r->out = realloc(r->out, r->room);
        CHECK(r->out);
    }
    if (len)
        memcpy(r->out + r->len, data, len);
    r->len += len;
}

static void note_str(struct reading *r, struct ioh_str str)
{
    note(r, &str.len, sizeof str.len);
    note(r, str.ptr ? "+" : "-", 1);
    if (str.ptr)
        note(r, str.ptr, str.len);
}

static int on_part(const struct ioh_part *part, void *user)
{
    struct reading *r = user;
    CHECK(!r->inside && part->name.ptr);
    r->inside = true;
    r->parts++;
    r->content = 0;
    note_str(r, part->name);
    note_str(r, part->filename);
    note_str(r, part->type);
    return 0;
}

static int on_data(const struct ioh_part *part, const void *data, size_t len, void *user)
{
    struct reading *r = user;
    CHECK(r->inside && len > 0 && part->name.ptr);
    r->content += len;
    note(r, data, len);
    return 0;
}

static int on_part_end(const struct ioh_part *part, void *user)
{
    struct reading *r = user;
    CHECK(r->inside && part->name.ptr);
    r->inside = false;
    note(r, &r->content, sizeof r->content);
    return 0;
}

static bool read_body(struct reading *r, struct ioh_str type, const char *body, size_t len,
                      uint8_t limits, uint32_t seed)
{
    struct ioh_multipart_handler h = IOH_MULTIPART_HANDLER_INIT;
    ioh_multipart *m;
    h.on_part = on_part;
    h.on_data = on_data;
    h.on_part_end = on_part_end;
    h.max_parts = limits & 7u;
    h.max_head_bytes = limits & 8u ? 64 : 0;
    memset(r, 0, sizeof *r);
    if (ioh_multipart_create(&m, type, &h, r)) {
        CHECK(!m);
        return false;
    }
    for (size_t at = 0; at < len && r->rc == 0;) {
        seed = seed * 1103515245u + 12345u;
        size_t n = seed ? (seed >> 16 & 15) + 1 : len;
        n = n < len - at ? n : len - at;
        char *copy = malloc(n);
        CHECK(copy);
        memcpy(copy, body + at, n);
        r->rc = ioh_multipart_feed(m, copy, n);
        free(copy);
        at += n;
    }
    r->end = ioh_multipart_end(m);
    CHECK(r->rc ? r->end == r->rc : r->end == 0 || r->end == IOH_ELENGTH);
    CHECK((*ioh_multipart_error(m) != '\0') == (r->end != 0));
    CHECK(!h.max_parts || r->parts <= h.max_parts);
    CHECK(r->end != 0 || !r->inside);
    ioh_multipart_destroy(m);
    return true;
}

static void try_multipart(const char *boundary, size_t boundary_len, const char *body, size_t len,
                          uint8_t limits, uint32_t seed)
{
    char type[400];
    struct reading whole, part;
    int type_len = snprintf(type, sizeof type, "multipart/form-data; boundary=\"%.*s\"",
                            (int)boundary_len, boundary);
    struct ioh_str str = {type, (size_t)type_len};
    if (!read_body(&whole, str, body, len, limits, 0))
        return;
    CHECK(read_body(&part, str, body, len, limits, seed + 1));
    CHECK(whole.end == part.end && whole.len == part.len);
    CHECK(whole.len == 0 || memcmp(whole.out, part.out, whole.len) == 0);
    free(whole.out);
    free(part.out);
}

static void try_pairs(const char *text, size_t len)
{
    struct ioh_pairs it;
    struct ioh_str name, value, all = {text, len};
    char *key = malloc(len + 1), *out = malloc(len + 1), *again = malloc(len + 1);
    const char *last = text;
    CHECK(key && out && again);
    ioh_pairs_init(&it, all);
    while (ioh_pairs_next(&it, &name, &value)) {
        CHECK(name.ptr >= last && name.ptr + name.len <= text + len);
        CHECK(!value.ptr ||
              (value.ptr == name.ptr + name.len + 1 && value.ptr + value.len <= text + len));
        last = name.ptr + name.len;
        int64_t key_len = ioh_url_decode(key, len + 1, name, 1);
        CHECK(key_len == IOH_EINVAL || (key_len >= 0 && (size_t)key_len <= name.len));
        int64_t out_len = ioh_url_decode(out, len + 1, value, 1);
        CHECK(out_len == IOH_EINVAL || (out_len >= 0 && (size_t)out_len <= value.len));
        if (key_len < 0 || memchr(key, '\0', (size_t)key_len))
            continue;
        bool good = out_len >= 0 && !(out_len > 0 && memchr(out, '\0', (size_t)out_len));
        bool found = false;
        for (size_t nth = 0; !found; nth++) {
            int64_t got = ioh_pair_get(all, key, nth, again, len + 1);
            CHECK(got != IOH_ENOENT && got != IOH_ETOOBIG);
            found =
                good ? got == out_len && memcmp(out, again, (size_t)got) == 0 : got == IOH_EINVAL;
        }
    }
    free(key);
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 3)
        return 0;
    size_t boundary_len = data[2] % 80u;
    if (boundary_len > len - 3)
        return 0;
    const char *boundary = (const char *)data + 3;
    try_multipart(boundary, boundary_len, boundary + boundary_len, len - 3 - boundary_len, data[1],
                  data[0]);
    try_pairs((const char *)data + 3, len - 3 < 256 ? len - 3 : 256);
    return 0;
}

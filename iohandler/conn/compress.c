/* Compressed answers (see compress.h). Owns the streams of zlib's that nobody uses. Any thread. */
#include "conn/compress.h"

#include <assert.h>
#include <iohandler/buf.h>
#include <iohandler/error.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "conn/message.h"
#include "proto/http1_field.h"
#include "proto/http1_head.h"
#include "proto/http1_parse.h"
#include "proto/media_type.h"

#define GZIP_WINDOW (15 + 16) /* 32 KiB, with the head and sum of RFC 1952 */
#define MEM_LEVEL 8
#define NOWHERE SIZE_MAX

struct ioh__squeeze {
    z_stream z;
    struct ioh__compress *home;
    struct ioh__squeeze *next;
    bool streams; /* counted in home->streams */
};

struct ioh__compress {
    uint32_t min;
    int level;

    pthread_mutex_t lock; /* the next three */
    struct ioh__squeeze *idle;
    unsigned idle_count, streams;

    size_t count; /* the types, which lie in text */
    struct ioh_str *types;
    char *text;
};

/* ---- one server's */

/* "type/subtype", "type/" and a star, or a star with or without a slash before it. */
static bool is_type(const char *s, size_t len)
{
    const char *slash = memchr(s, '/', len);
    if (len == 1 && *s == '*')
        return true;
    if (!slash || !ioh__is_token(s, (size_t)(slash - s)))
        return false;
    return ioh__is_token(slash + 1, len - (size_t)(slash + 1 - s));
}

/* Takes the list apart; false: an element is no type. */
static bool read_types(struct ioh__compress *c)
{
    const char *element, *end = c->text + strlen(c->text);
    size_t len;
    for (const char *p = c->text; ioh__list_next(&p, end, &element, &len);) {
        if (len == 0)
            continue;
        if (!is_type(element, len))
            return false;
        if (len == 3 && memcmp(element, "*/*", 3) == 0)
            len = 1;
        c->types[c->count++] = (struct ioh_str){element, len};
    }
    return true;
}

int ioh__compress_create(struct ioh__compress **out, const struct ioh_options *options,
                         char error[IOH__ERROR_TEXT])
{
    const char *list = options->compress;
    *out = NULL;
    if (!list || !*list)
        return 0;
    size_t len = strlen(list);
    struct ioh__compress *c = calloc(1, sizeof *c);
    if (!c)
        return IOH_ENOMEM;
    c->text = strdup(list);
    c->types = calloc(len / 2 + 1, sizeof *c->types); /* a type and its comma */
    c->min = options->compress_min;
    c->level = (int)options->compress_level;
    pthread_mutex_init(&c->lock, NULL);
    int rc = c->text && c->types ? 0 : IOH_ENOMEM;
    if (rc == 0 && (!read_types(c) || c->count == 0)) {
        snprintf(error, IOH__ERROR_TEXT, "options.compress: not a list of media types: %.100s",
                 list);
        rc = IOH_EINVAL;
    }
    if (rc) {
        ioh__compress_destroy(c);
        return rc;
    }
    *out = c;
    return 0;
}

static void free_squeeze(struct ioh__squeeze *s)
{
    deflateEnd(&s->z);
    free(s);
}

void ioh__compress_destroy(struct ioh__compress *c)
{
    if (!c)
        return;
    assert(c->streams == 0);
    while (c->idle) {
        struct ioh__squeeze *s = c->idle;
        c->idle = s->next;
        free_squeeze(s);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->types);
    free(c->text);
    free(c);
}

/* ---- streams of zlib's */

static struct ioh__squeeze *new_squeeze(struct ioh__compress *c)
{
    struct ioh__squeeze *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->home = c;
    if (deflateInit2(&s->z, c->level, Z_DEFLATED, GZIP_WINDOW, MEM_LEVEL, Z_DEFAULT_STRATEGY) ==
        Z_OK)
        return s;
    free(s);
    return NULL;
}

/* streams: for a streamed answer. NULL: there are enough, or no memory. */
static struct ioh__squeeze *squeeze_get(struct ioh__compress *c, bool streams)
{
    pthread_mutex_lock(&c->lock);
    bool enough = streams && c->streams == IOH__COMPRESS_STREAMS;
    struct ioh__squeeze *s = enough ? NULL : c->idle;
    if (s) {
        c->idle = s->next;
        c->idle_count--;
    }
    c->streams += streams && !enough;
    pthread_mutex_unlock(&c->lock);
    if (enough)
        return NULL;
    if (!s)
        s = new_squeeze(c);
    if (s) {
        s->streams = streams;
    } else if (streams) {
        pthread_mutex_lock(&c->lock);
        c->streams--;
        pthread_mutex_unlock(&c->lock);
    }
    return s;
}

void ioh__squeeze_put(struct ioh__squeeze *s)
{
    if (!s)
        return;
    struct ioh__compress *c = s->home;
    deflateReset(&s->z);
    pthread_mutex_lock(&c->lock);
    bool keep = c->idle_count < IOH__COMPRESS_IDLE;
    c->streams -= s->streams;
    if (keep) {
        s->next = c->idle;
        c->idle = s;
        c->idle_count++;
    }
    pthread_mutex_unlock(&c->lock);
    if (!keep)
        free_squeeze(s);
}

size_t ioh__squeeze(struct ioh__squeeze *s, const void **data, size_t *len, bool end, void *room,
                    size_t size)
{
    z_stream *z = &s->z;
    assert(size > 6 && (!end || *len == 0)); /* with less room a flush would never end (zlib.h) */
    size_t now = *len < UINT_MAX ? *len : UINT_MAX;
    z->next_in = (Bytef *)(uintptr_t)*data;
    z->avail_in = (uInt)now;
    z->next_out = room;
    z->avail_out = (uInt)size;
    deflate(z, end ? Z_FINISH : Z_SYNC_FLUSH);
    *data = z->next_in;
    *len -= now - z->avail_in;
    return size - z->avail_out;
}

static void release(void *data, size_t len, void *user)
{
    (void)len;
    (void)user;
    free(data);
}

/* The body compressed, or NULL: it would not become shorter, or there is no memory. */
static ioh_buf *squeeze_whole(struct ioh__compress *c, const void *data, size_t len)
{
    struct ioh__squeeze *s = len <= UINT_MAX ? squeeze_get(c, false) : NULL;
    Bytef *room = s ? malloc(len) : NULL;
    ioh_buf *buf = NULL;
    if (room) {
        s->z.next_in = (Bytef *)(uintptr_t)data;
        s->z.avail_in = (uInt)len;
        s->z.next_out = room;
        s->z.avail_out = (uInt)(len - 1);
        if (deflate(&s->z, Z_FINISH) == Z_STREAM_END) {
            size_t packed = len - 1 - s->z.avail_out;
            Bytef *shrunk = realloc(room, packed);
            room = shrunk ? shrunk : room;
            buf = ioh_buf_wrap(room, packed, release, NULL);
        }
        if (!buf)
            free(room);
    }
    ioh__squeeze_put(s);
    return buf;
}

/* ---- what an answer says of itself */

static bool is_named(const char *name, const char *lower)
{
    return ioh__equal_nocase(name, strlen(name), lower, strlen(lower));
}

static bool is_wanted(const struct ioh__compress *c, const char *value)
{
    struct ioh_str type = ioh__media_type((struct ioh_str){value, strlen(value)});
    for (size_t i = 0; i < c->count; i++)
        if (type.len > 0 && ioh__media_type_matches(type, c->types[i]))
            return true;
    return false;
}

/* Does this field forbid it? A coding there is already, a part of a representation, a sum over it (RFC 9530),
 * or the host's word (RFC 9111 5.2.2.6). */
static bool forbids(const struct ioh_header *h)
{
    static const char *const fields[] = {"content-encoding", "content-range", "content-digest",
                                         "repr-digest",      "digest",        "content-md5"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (is_named(h->name, fields[i]))
            return true;
    return is_named(h->name, "cache-control") &&
           ioh__list_has(h->value, strlen(h->value), "no-transform");
}

static int64_t body_len(const struct ioh__reply *r)
{
    if (r->kind == IOH__REPLY_START)
        return r->length;
    return (int64_t)(r->buf ? ioh_buf_len(r->buf) : r->len);
}

bool ioh__compress_suits(const struct ioh__compress *c, const struct ioh__reply *r,
                         struct ioh__coded *coded)
{
    int64_t len = body_len(r);
    const char *type = NULL;
    *coded = (struct ioh__coded){.etag = NOWHERE, .ranges = NOWHERE};
    bool empty = ioh__status_bodyless(r->status) || r->status == 205;
    if (empty || r->status == 206 || (len >= 0 && len < c->min))
        return false;
    for (size_t i = 0; i < r->fields.count; i++) {
        const struct ioh_header *h = &r->fields.list[i];
        if (forbids(h))
            return false;
        if (is_named(h->name, "content-type"))
            type = h->value;
        else if (is_named(h->name, "etag"))
            coded->etag = i;
        else if (is_named(h->name, "accept-ranges"))
            coded->ranges = i;
        else if (is_named(h->name, "vary"))
            coded->varies = coded->varies ||
                            ioh__list_has(h->value, strlen(h->value), "accept-encoding") ||
                            ioh__list_has(h->value, strlen(h->value), "*");
    }
    return type && is_wanted(c, type);
}

/* ---- changing it */

/* The tag made weak (RFC 9110 8.8.1: what has two codings is not the same to the byte), or as it is. */
static const char *weak_etag(const char *tag, char *room)
{
    if (strncmp(tag, "W/", 2) == 0)
        return tag;
    memcpy(room, "W/", 2);
    memcpy(room + 2, tag, strlen(tag) + 1);
    return room;
}

/* The fields into coded->list, which has room. */
static void rewrite(struct ioh__reply *r, struct ioh__coded *coded, bool packed, char *etag_room)
{
    struct ioh_header *to = coded->list;
    for (size_t i = 0; i < r->fields.count; i++) {
        if (packed && i == coded->ranges) /* ranges would count bytes that are not sent */
            continue;
        *to = r->fields.list[i];
        if (packed && i == coded->etag)
            to->value = weak_etag(to->value, etag_room);
        to++;
    }
    if (!coded->varies) /* RFC 9110 12.5.5: also when this client gets it plain */
        *to++ = (struct ioh_header){"Vary", "Accept-Encoding"};
    if (packed)
        *to++ = (struct ioh_header){"Content-Encoding", "gzip"};
    r->fields.list = coded->list;
    r->fields.count = (size_t)(to - coded->list);
    r->fields.len = 0;
    for (size_t i = 0; i < r->fields.count; i++)
        r->fields.len += strlen(coded->list[i].name) + strlen(coded->list[i].value) + 4;
}

void ioh__compress_reply(struct ioh__compress *c, bool accepted, struct ioh__reply *r,
                         struct ioh__coded *coded)
{
    size_t etag_len = coded->etag == NOWHERE ? 0 : strlen(r->fields.list[coded->etag].value);
    size_t list_size = (r->fields.count + 2) * sizeof *coded->list;
    bool packed = false;
    coded->list = malloc(list_size + etag_len + sizeof "W/");
    if (!coded->list)
        return;
    if (accepted && r->kind == IOH__REPLY_START) {
        r->squeeze = squeeze_get(c, true);
        packed = r->squeeze != NULL;
    } else if (accepted) {
        const void *data = r->buf ? ioh_buf_data(r->buf) : r->data;
        ioh_buf *buf = squeeze_whole(c, data, (size_t)body_len(r));
        packed = buf != NULL;
        if (packed) {
            ioh_buf_unref(r->buf);
            r->buf = buf;
            r->data = NULL;
            r->len = 0;
        }
    }
    rewrite(r, coded, packed, (char *)coded->list + list_size);
}

void ioh__coded_free(struct ioh__coded *coded)
{
    free(coded->list);
}

/* Compressed messages (see deflate.h), by zlib. A state belongs to whoever it is lent to; `struct
 * ioh__deflaters` may be used by any thread at any time: those at rest lie in slots that are emptied and filled
 * by exchange.
 */
#include "proto/deflate.h"

#include "base/buf.h"
#include "proto/ws_frame.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    TAIL_LEN = 4,
    RSV1 = 0x40,
    SHRINK_MIN = 4096,    /* below, the room that a compressed frame does not need is left to it */
    FORM_MAX = 256 << 10, /* a frame above this is not compressed on a loop's thread: some 2 ms */
    MEM_LEVEL = 8,
};

static const uint8_t tail[TAIL_LEN] = {0, 0, 0xff, 0xff};

/* zlib counts in unsigned int. */
static unsigned piece(size_t len)
{
    return len < UINT_MAX ? (unsigned)len : UINT_MAX;
}

/* ---- inflating */

struct ioh__inflater {
    z_stream stream;
    uint8_t tail_used;
    bool full;    /* the room was used up: zlib may hold more */
    bool between; /* it stands between two blocks, with no bit left over */
    bool closed;  /* the last block was marked as the last of its stream (RFC 7692 7.2.3.4) */
};

struct ioh__inflater *ioh__inflater_new(unsigned bits)
{
    struct ioh__inflater *z = calloc(1, sizeof *z);
    if (z && inflateInit2(&z->stream, -(int)bits) != Z_OK) {
        free(z);
        return NULL;
    }
    return z;
}

void ioh__inflater_free(struct ioh__inflater *z)
{
    if (!z)
        return;
    inflateEnd(&z->stream);
    free(z);
}

/* After a stream was closed, the next one goes on with the same window. */
static enum ioh__inflated reopen(struct ioh__inflater *z)
{
    unsigned len = 0;
    uint8_t *window = malloc(1u << IOH__DEFLATE_MAX_BITS);
    if (!window)
        return IOH__INFLATED_NOMEM;
    z->closed = false;
    bool ok = inflateGetDictionary(&z->stream, window, &len) == Z_OK &&
              inflateReset(&z->stream) == Z_OK &&
              inflateSetDictionary(&z->stream, window, len) == Z_OK;
    free(window);
    return ok ? IOH__INFLATED_ALL : IOH__INFLATED_NOMEM;
}

bool ioh__inflater_begin(struct ioh__inflater *z, bool keep)
{
    z->tail_used = 0;
    z->full = false;
    if (keep)
        return !z->closed || reopen(z) == IOH__INFLATED_ALL;
    z->closed = false;
    inflateReset(&z->stream);
    return true;
}

/* One call of zlib's. */
static enum ioh__inflated step(struct ioh__inflater *z, const uint8_t *in, size_t len, size_t *used,
                               uint8_t *out, size_t room, size_t *made)
{
    z_stream *s = &z->stream;
    s->next_in = (Bytef *)in; /* it is only read */
    s->avail_in = piece(len);
    s->next_out = out;
    s->avail_out = piece(room);
    int rc = inflate(s, Z_SYNC_FLUSH);
    *used += (size_t)(s->next_in - in);
    *made += (size_t)(s->next_out - out);
    z->full = rc != Z_STREAM_END && s->avail_out == 0;
    if (rc != Z_BUF_ERROR) /* only a call that did something tells where it stands */
        z->between = s->data_type == 128;
    if (rc == Z_STREAM_END) {
        z->closed = true;
        return IOH__INFLATED_ALL;
    }
    if (rc == Z_MEM_ERROR)
        return IOH__INFLATED_NOMEM;
    if (rc != Z_OK && rc != Z_BUF_ERROR) /* the latter: it did nothing, which is no fault */
        return IOH__INFLATED_BAD;
    return z->full ? IOH__INFLATED_FULL : IOH__INFLATED_ALL;
}

enum ioh__inflated ioh__inflate(struct ioh__inflater *z, const uint8_t *in, size_t len,
                                size_t *used, uint8_t *out, size_t room, size_t *made)
{
    enum ioh__inflated got = IOH__INFLATED_ALL;
    *used = *made = 0;
    while (got == IOH__INFLATED_ALL && (*used < len || z->full)) {
        if (*made == room)
            return IOH__INFLATED_FULL;
        if (z->closed)
            got = reopen(z);
        if (got == IOH__INFLATED_ALL)
            got = step(z, in + *used, len - *used, used, out + *made, room - *made, made);
    }
    return got;
}

enum ioh__inflated ioh__inflate_end(struct ioh__inflater *z, uint8_t *out, size_t room,
                                    size_t *made)
{
    enum ioh__inflated got = IOH__INFLATED_ALL;
    size_t used = 0;
    *made = 0;
    if (z->full) /* what zlib holds may end the stream, too */
        got = step(z, tail, 0, &used, out, room, made);
    if (z->closed && z->tail_used == 0) /* with its last byte: there is nothing to add to it */
        return IOH__INFLATED_ALL;
    if (got == IOH__INFLATED_ALL && !z->closed)
        got = step(z, tail + z->tail_used, TAIL_LEN - z->tail_used, &used, out + *made,
                   room - *made, made);
    z->tail_used = (uint8_t)(z->tail_used + used);
    if (got != IOH__INFLATED_ALL)
        return got;
    bool whole = z->tail_used == TAIL_LEN && (z->closed || z->between);
    return whole ? IOH__INFLATED_ALL : IOH__INFLATED_BAD;
}

/* ---- deflating */

struct ioh__deflater {
    z_stream stream;
    unsigned bits;
    bool used; /* its window is not empty */
};

struct ioh__deflater *ioh__deflater_new(unsigned bits, int level)
{
    struct ioh__deflater *z = calloc(1, sizeof *z);
    if (z && deflateInit2(&z->stream, level, Z_DEFLATED, -(int)bits, MEM_LEVEL,
                          Z_DEFAULT_STRATEGY) != Z_OK) {
        free(z);
        return NULL;
    }
    if (z)
        z->bits = bits;
    return z;
}

void ioh__deflater_free(struct ioh__deflater *z)
{
    if (!z)
        return;
    deflateEnd(&z->stream);
    free(z);
}

void ioh__deflater_forget(struct ioh__deflater *z)
{
    if (z->used)
        deflateReset(&z->stream);
    z->used = false;
}

/* Deflates all of it and strips the tail; 0: it is not shorter than before. */
static size_t deflate_all(z_stream *s, const uint8_t *data, size_t len, uint8_t *out)
{
    size_t room = len + TAIL_LEN, made = 0;
    while (len > 0 || s->avail_out == 0) {
        unsigned n = piece(len), left = piece(room - made);
        s->next_in = (Bytef *)data;
        s->avail_in = n;
        s->next_out = out + made;
        s->avail_out = left;
        deflate(s, n == len ? Z_SYNC_FLUSH : Z_NO_FLUSH);
        data += n - s->avail_in;
        len -= n - s->avail_in;
        made += left - s->avail_out;
        if (made == room)
            return 0;
    }
    assert(made > TAIL_LEN && memcmp(out + made - TAIL_LEN, tail, TAIL_LEN) == 0);
    return made - TAIL_LEN;
}

/* Gives back the room behind a frame that became much shorter than it might have. */
static ioh_buf *shrink(ioh_buf *frame)
{
    size_t before = (size_t)(frame->data - (uint8_t *)(frame + 1));
    ioh_buf *small = realloc(frame, sizeof *frame + before + frame->len);
    if (!small)
        return frame;
    small->data = (uint8_t *)(small + 1) + before;
    return small;
}

ioh_buf *ioh__deflate_frame(struct ioh__deflater *z, bool keep, int op, const void *data,
                            size_t len)
{
    ioh_buf *frame = len > 0 ? ioh__buf_new(IOH__WS_SERVER_HEADER_MAX + len + TAIL_LEN) : NULL;
    if (!frame)
        return NULL;
    uint8_t *payload = frame->data + IOH__WS_SERVER_HEADER_MAX;
    z->stream.avail_out = 1;
    z->used = true;
    size_t n = deflate_all(&z->stream, data, len, payload);
    if (n == 0 || !keep)
        ioh__deflater_forget(z);
    if (n == 0) {
        ioh_buf_unref(frame);
        return NULL;
    }
    uint8_t header[IOH__WS_SERVER_HEADER_MAX];
    size_t header_len = ioh__ws_header_write(header, op, n);
    header[0] |= RSV1;
    frame->data = memcpy(payload - header_len, header, header_len);
    frame->len = header_len + n;
    frame->is_frame = true;
    return len >= SHRINK_MIN && n < len / 2 ? shrink(frame) : frame;
}

/* ---- deflaters of a server */

void ioh__deflaters_init(struct ioh__deflaters *all, unsigned bits, int level, size_t min)
{
    memset(all, 0, sizeof *all);
    all->bits = bits;
    all->level = level;
    all->min = min;
}

void ioh__deflaters_destroy(struct ioh__deflaters *all)
{
    for (size_t i = 0; i < sizeof all->rest / sizeof *all->rest; i++)
        for (size_t k = 0; k < IOH__DEFLATERS_KEPT; k++) {
            ioh__deflater_free(all->rest[i][k]);
            all->rest[i][k] = NULL;
        }
}

/* Where this thread, told by its stack, looks first: each mostly finds the state that is in its cache. */
static size_t first_slot(void)
{
    char here;
    return ((uintptr_t)&here >> 16) * 0x9e3779b9u >> 16;
}

static struct ioh__deflater *take(struct ioh__deflaters *all, unsigned bits)
{
    _Atomic(struct ioh__deflater *) *rest = all->rest[bits - IOH__DEFLATE_MIN_BITS];
    for (size_t i = 0, at = first_slot(); i < IOH__DEFLATERS_KEPT; i++, at++) {
        _Atomic(struct ioh__deflater *) *slot = &rest[at % IOH__DEFLATERS_KEPT];
        struct ioh__deflater *z = NULL;
        if (atomic_load_explicit(slot, memory_order_relaxed))
            z = atomic_exchange_explicit(slot, NULL, memory_order_acquire);
        if (z)
            return z;
    }
    return ioh__deflater_new(bits, all->level);
}

static void put_back(struct ioh__deflaters *all, struct ioh__deflater *z)
{
    _Atomic(struct ioh__deflater *) *rest = all->rest[z->bits - IOH__DEFLATE_MIN_BITS];
    for (size_t i = 0, at = first_slot(); z && i < IOH__DEFLATERS_KEPT; i++, at++) {
        _Atomic(struct ioh__deflater *) *slot = &rest[at % IOH__DEFLATERS_KEPT];
        struct ioh__deflater *none = NULL;
        if (atomic_compare_exchange_strong_explicit(slot, &none, z, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    ioh__deflater_free(z);
}

/* How wide a window must be for a stream of this many bytes: it refers back to itself only. */
static unsigned bits_for(size_t len)
{
    unsigned bits = IOH__DEFLATE_MIN_BITS;
    while (bits < IOH__DEFLATE_MAX_BITS && len > (size_t)1 << bits)
        bits++;
    return bits;
}

static ioh_buf *make_frame(struct ioh__deflaters *all, unsigned bits, int op, const void *data,
                           size_t len)
{
    struct ioh__deflater *z = take(all, bits);
    if (!z)
        return NULL;
    ioh_buf *frame = ioh__deflate_frame(z, false, op, data, len);
    put_back(all, z);
    return frame;
}

ioh_buf *ioh__deflaters_frame(struct ioh__deflaters *all, unsigned peer_bits, int op,
                              const void *data, size_t len)
{
    if (len < all->min)
        return NULL;
    return make_frame(all, bits_for(len) <= peer_bits ? all->bits : peer_bits, op, data, len);
}

/* What the compressed form's window is, at most. */
static unsigned form_bits(const struct ioh__deflaters *all, size_t len)
{
    unsigned bits = bits_for(len);
    return bits < all->bits ? bits : all->bits;
}

/* The buf itself stands for: there is no shorter form. */
static ioh_buf *make_form(struct ioh__deflaters *all, ioh_buf *buf, int op, const uint8_t *payload,
                          size_t len)
{
    ioh_buf *made = make_frame(all, all->bits, op, payload, len);
    ioh_buf *form = made ? made : buf, *none = NULL;
    if (made)
        made->window = (uint8_t)form_bits(all, len);
    if (atomic_compare_exchange_strong_explicit(&buf->form, &none, form, memory_order_acq_rel,
                                                memory_order_acquire))
        return form;
    ioh_buf_unref(made); /* another thread was quicker */
    return none;
}

ioh_buf *ioh__deflaters_form(struct ioh__deflaters *all, unsigned peer_bits, ioh_buf *buf, int op,
                             const uint8_t *payload, size_t len)
{
    if (op >= 8 || len < all->min || len > FORM_MAX)
        return NULL;
    ioh_buf *form = atomic_load_explicit(&buf->form, memory_order_acquire);
    if (!form)
        form = make_form(all, buf, op, payload, len);
    bool fits = form != buf && form->window <= peer_bits && (form->data[0] & 15) == op;
    return fits ? form : NULL;
}

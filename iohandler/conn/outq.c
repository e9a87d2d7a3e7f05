/* The out queue (see outq.h). The thread that holds the loop. */
#include "conn/outq.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ROOMY 16384u /* a block for the answers of a turn; fits 100 small ones */
#define FRUGAL 512u  /* a block for a single message, say of a broadcast to thousands */
#define LOAD 65536u  /* a block of a file that has to be read; a multiple of TLS records */

static char *seg_bytes(struct ioh__seg *seg)
{
    return seg->buf ? (char *)seg->buf->data : (char *)(seg + 1);
}

static struct ioh__seg *append(struct ioh__outq *q, struct ioh__mem *mem, size_t room)
{
    size_t block;
    struct ioh__seg *seg = ioh__mem_get(mem, sizeof *seg + room, &block);
    if (!seg)
        return NULL;
    *seg = (struct ioh__seg){.room = block - sizeof *seg, .block = block};
    if (q->last)
        q->last->next = seg;
    else
        q->first = seg;
    q->last = seg;
    return seg;
}

/* A first block of scratch memory; NULL: there is not so much left. */
static struct ioh__seg *borrow(struct ioh__outq *q, struct ioh__scratch *scratch, size_t room)
{
    size_t cap;
    struct ioh__seg *last = scratch->open;
    if (last) { /* another queue's: nothing is appended to that one any more */
        last->room = last->end;
        ioh__scratch_close(scratch, sizeof *last + last->end);
    }
    struct ioh__seg *seg = ioh__scratch_open(scratch, sizeof *seg + room, &cap);
    if (!seg)
        return NULL;
    *seg = (struct ioh__seg){.room = cap - sizeof *seg};
    q->first = q->last = seg;
    return seg;
}

char *ioh__outq_reserve_block(struct ioh__outq *q, struct ioh__mem *mem, size_t len, bool roomy)
{
    struct ioh__seg *seg = roomy && !q->last ? borrow(q, &mem->scratch, len) : NULL;
    if (!seg) {
        size_t room = (roomy || q->last ? ROOMY : FRUGAL) - sizeof *seg;
        seg = append(q, mem, len > room ? len : room);
    }
    if (!seg)
        return NULL;
    seg->end = len;
    q->bytes += len;
    return seg_bytes(seg);
}

void ioh__outq_trim(struct ioh__outq *q, size_t unused)
{
    q->last->end -= unused;
    q->bytes -= unused;
}

bool ioh__outq_copy(struct ioh__outq *q, struct ioh__mem *mem, const void *data, size_t len,
                    bool roomy)
{
    if (len == 0)
        return true;
    char *at = ioh__outq_reserve(q, mem, len, roomy);
    if (at)
        memcpy(at, data, len);
    return at != NULL;
}

bool ioh__outq_take_buf(struct ioh__outq *q, struct ioh__mem *mem, ioh_buf *buf, bool roomy)
{
    if (buf->len <= IOH__OUT_COPY_MAX) {
        bool ok = ioh__outq_copy(q, mem, buf->data, buf->len, roomy);
        ioh_buf_unref(buf);
        return ok;
    }
    struct ioh__seg *seg = append(q, mem, 0);
    if (!seg) {
        ioh_buf_unref(buf);
        return false;
    }
    seg->buf = buf;
    seg->end = seg->room = buf->len;
    q->bytes += buf->len;
    return true;
}

bool ioh__outq_take_file(struct ioh__outq *q, struct ioh__mem *mem, struct ioh__file *file,
                         uint64_t at, size_t len)
{
    struct ioh__seg *seg = append(q, mem, 0);
    if (!seg) {
        ioh__file_unref(file);
        return false;
    }
    seg->file = file;
    seg->from = at;
    seg->end = seg->room = len;
    q->bytes += len;
    return true;
}

struct ioh__file *ioh__outq_file(const struct ioh__outq *q, uint64_t *at, size_t *len)
{
    const struct ioh__seg *seg = q->first;
    if (!seg || !seg->file)
        return NULL;
    *at = seg->from + seg->begin;
    *len = seg->end - seg->begin;
    return seg->file;
}

int ioh__outq_iov(const struct ioh__outq *q, struct iovec *iov, int max)
{
    int n = 0;
    for (struct ioh__seg *seg = q->first; seg && !seg->file && n < max; seg = seg->next)
        if (seg->end > seg->begin)
            iov[n++] = (struct iovec){seg_bytes(seg) + seg->begin, seg->end - seg->begin};
    return n;
}

static void drop_first(struct ioh__outq *q, struct ioh__mem *mem)
{
    struct ioh__seg *seg = q->first;
    q->first = seg->next;
    if (!q->first)
        q->last = NULL;
    if (seg->buf || seg->file) {
        ioh_buf_unref(seg->buf);
        ioh__file_unref(seg->file);
    }
    if (seg->block)
        ioh__mem_put(mem, seg, seg->block);
    else
        ioh__scratch_put(&mem->scratch, seg);
}

enum ioh__load ioh__outq_load(struct ioh__outq *q, struct ioh__mem *mem)
{
    struct ioh__seg *part = q->first;
    size_t block, left = part->end - part->begin;
    size_t want = left < LOAD - sizeof *part ? left : LOAD - sizeof *part;
    struct ioh__seg *seg = ioh__mem_get(mem, sizeof *seg + want, &block);
    if (!seg)
        return IOH__LOAD_NO_MEMORY;
    ssize_t n;
    do
        n = pread(part->file->fd, seg + 1, want, (off_t)(part->from + part->begin));
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        ioh__mem_put(mem, seg, block);
        return IOH__LOAD_ENDED;
    }
    /* No more is appended to it, though it may be the last one. */
    *seg = (struct ioh__seg){.next = part, .end = (size_t)n, .room = (size_t)n, .block = block};
    q->first = seg;
    part->begin += (size_t)n;
    if (part->begin == part->end) {
        seg->next = part->next;
        if (!seg->next)
            q->last = seg;
        ioh__file_unref(part->file);
        ioh__mem_put(mem, part, part->block);
    }
    return IOH__LOAD_OK;
}

void ioh__outq_consume(struct ioh__outq *q, struct ioh__mem *mem, size_t n)
{
    q->bytes -= n;
    while (q->first) {
        struct ioh__seg *seg = q->first;
        size_t have = seg->end - seg->begin;
        if (n < have) {
            seg->begin += n;
            return;
        }
        n -= have;
        drop_first(q, mem);
    }
}

void ioh__outq_append(struct ioh__outq *q, struct ioh__outq *other)
{
    if (!other->first)
        return;
    if (q->last)
        q->last->next = other->first;
    else
        q->first = other->first;
    q->last = other->last;
    q->bytes += other->bytes;
    *other = (struct ioh__outq){0};
}

/* What is left of the first block goes into one of its size. */
static bool repack(struct ioh__outq *q, struct ioh__mem *mem)
{
    struct ioh__seg *old = q->first;
    struct ioh__outq fresh = {NULL, NULL, 0};
    if (old->begin == old->end) {
        drop_first(q, mem);
        return true;
    }
    if (!ioh__outq_copy(&fresh, mem, seg_bytes(old) + old->begin, old->end - old->begin, false))
        return false;
    fresh.first->next = old->next;
    if (old->next)
        fresh.last = q->last;
    fresh.bytes = q->bytes;
    drop_first(q, mem);
    *q = fresh;
    return true;
}

bool ioh__outq_rest(struct ioh__outq *q, struct ioh__mem *mem)
{
    struct ioh__seg *first = q->first;
    if (!first)
        return true;
    if (first->block == 0)
        return repack(q, mem);
    bool large = !first->buf && !first->file && first->block > FRUGAL;
    if (large && !first->next && (first->end - first->begin) * 4 <= first->room)
        repack(q, mem);
    return true;
}

void ioh__outq_clear(struct ioh__outq *q, struct ioh__mem *mem)
{
    while (q->first)
        drop_first(q, mem);
    q->bytes = 0;
}

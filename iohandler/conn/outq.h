/* The out queue of one connection: bytes on their way to the peer, in order.
 *
 * Small pieces are copied together into blocks of the loop's memory, so that all answers of a turn
 * leave in one send; what is about to leave is copied into its scratch memory. Large bufs are queued by reference and
 * leave by sendmsg without a copy. Parts of files wait as what they are, until they stand first. An empty queue holds
 * no memory.
 */
#ifndef IOH_CONN_OUTQ_H
#define IOH_CONN_OUTQ_H

#include <stdbool.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conn/file.h"

#define IOH__OUT_COPY_MAX 4096u /* a buf up to this is copied: cheaper than one more iovec */
#define IOH__OUT_IOV 64

/* A block of copied bytes (they follow the struct), or a reference to a buf or a file. */
struct ioh__seg {
    struct ioh__seg *next;
    ioh_buf *buf;
    struct ioh__file *file;
    uint64_t from;     /* file: where in it the part begins */
    size_t begin, end; /* what is still to be sent */
    size_t room;       /* block: how many bytes fit; references are full */
    size_t block;      /* what the memory pool gave; 0: scratch memory, of the first one only */
};

struct ioh__outq {
    struct ioh__seg *first, *last;
    size_t bytes;
};

/* The same as ioh__outq_reserve(), in a block of its own. */
char *ioh__outq_reserve_block(struct ioh__outq *q, struct ioh__mem *mem, size_t len, bool roomy);

/* Room for len > 0 bytes in one piece at the end; they count as queued at once and must be written before
 * anything else is done with the queue. roomy: more will follow in this turn, and then all of it is sent or
 * ioh__outq_rest() is called. NULL: out of memory. */
static inline char *ioh__outq_reserve(struct ioh__outq *q, struct ioh__mem *mem, size_t len,
                                      bool roomy)
{
    struct ioh__seg *seg = q->last;
    if (!seg || seg->room - seg->end < len)
        return ioh__outq_reserve_block(q, mem, len, roomy);
    char *at = (char *)(seg + 1) + seg->end;
    seg->end += len;
    q->bytes += len;
    return at;
}

/* Takes back the last `unused` bytes of what was just reserved. */
void ioh__outq_trim(struct ioh__outq *q, size_t unused);

/* A copy of the bytes. false: out of memory. */
bool ioh__outq_copy(struct ioh__outq *q, struct ioh__mem *mem, const void *data, size_t len,
                    bool roomy);

/* Takes the reference; copies when small. false: out of memory, the reference is dropped. */
bool ioh__outq_take_buf(struct ioh__outq *q, struct ioh__mem *mem, ioh_buf *buf, bool roomy);

/* len bytes of the file from `at` on; takes the reference. false: out of memory, the reference is dropped. */
bool ioh__outq_take_file(struct ioh__outq *q, struct ioh__mem *mem, struct ioh__file *file,
                         uint64_t at, size_t len);

/* The file of which a part stands first, from *at on; NULL: memory stands there. */
struct ioh__file *ioh__outq_file(const struct ioh__outq *q, uint64_t *at, size_t *len);

enum ioh__load { IOH__LOAD_OK, IOH__LOAD_ENDED, IOH__LOAD_NO_MEMORY };

/* A file stands first: reads its next bytes into memory, which then stands first. ENDED: the file has no more,
 * or cannot be read. */
enum ioh__load ioh__outq_load(struct ioh__outq *q, struct ioh__mem *mem);

/* What stands first up to the next file, as at most max pieces. */
int ioh__outq_iov(const struct ioh__outq *q, struct iovec *iov, int max);

/* The peer has taken n bytes. */
void ioh__outq_consume(struct ioh__outq *q, struct ioh__mem *mem, size_t n);

/* All of other, which has no scratch memory, goes to the end; other is empty then. */
void ioh__outq_append(struct ioh__outq *q, struct ioh__outq *other);

/* Before a wait: nothing stays in the scratch memory, and a large block with little in it is changed for a small one.
 * false: out of memory, and something stays there. */
bool ioh__outq_rest(struct ioh__outq *q, struct ioh__mem *mem);

void ioh__outq_clear(struct ioh__outq *q, struct ioh__mem *mem);

#endif

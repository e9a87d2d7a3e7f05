/* Memory of one loop: no lock, and no malloc on the steady path. It belongs to the loop object, not
 * to a thread. Objects go back to the pool they came from.
 *
 * Under the address sanitizer free objects are poisoned, so a use after put is reported as one.
 */
#ifndef IOH_BASE_MEM_H
#define IOH_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects of one size, cut from slabs. Last put, first got: the next object is warm in the cache. */
struct ioh__pool {
    size_t size;     /* of an object, rounded up to 16 */
    size_t per_slab; /* objects in one malloc */
    void *free;
    void *slabs;
    size_t live; /* objects out */
};

void ioh__pool_init(struct ioh__pool *pool, size_t size, size_t per_slab);
void ioh__pool_destroy(struct ioh__pool *pool); /* all objects must be back, or are forgotten */
void *ioh__pool_get(struct ioh__pool *pool);    /* not zeroed; NULL: out of memory */
void ioh__pool_put(struct ioh__pool *pool, void *object);

/* Blocks of any size, in classes of powers of two from 128 bytes to 64 KiB; larger ones are
 * malloc's. Small classes stay in slabs; of the classes from 4 KiB on, a bounded number of free blocks
 * is kept and the rest goes back to malloc, so that a burst does not stay in memory. */
#define IOH__MEM_MIN 128u
#define IOH__MEM_MAX 65536u
#define IOH__MEM_CLASSES 10u

struct ioh__mem_large {
    void *free;
    size_t kept;
};

/* Memory for what rarely outlives a turn. Pieces are cut one behind the other, so that what is written and read one
 * after the other lies together in the cache; when all are back it begins anew. */
#define IOH__SCRATCH_SIZE 65536u

struct ioh__scratch {
    char *base;
    size_t used; /* bytes from base on, without the open piece */
    size_t live; /* pieces out */
    void *open;  /* the last piece: all that is left is its; NULL: it was closed */
};

struct ioh__mem {
    struct ioh__pool small[5];      /* 128 to 2,048 */
    struct ioh__mem_large large[5]; /* 4,096 to 65,536 */
    struct ioh__scratch scratch;
};

bool ioh__mem_init(struct ioh__mem *mem); /* false: out of memory; to be destroyed all the same */
void ioh__mem_destroy(struct ioh__mem *mem);

/* A block of at least want bytes; *cap is what it really holds and must be given to put. NULL: out of
 * memory. */
void *ioh__mem_get(struct ioh__mem *mem, size_t want, size_t *cap);
void ioh__mem_put(struct ioh__mem *mem, void *block, size_t cap); /* NULL is allowed */

/* Opens a piece of at least want bytes, *cap is how many there are; the one before must be closed. NULL: so much is not
 * left. */
void *ioh__scratch_open(struct ioh__scratch *scratch, size_t want, size_t *cap);

/* The open piece keeps its first len bytes. */
void ioh__scratch_close(struct ioh__scratch *scratch, size_t len);

void ioh__scratch_put(struct ioh__scratch *scratch, const void *piece); /* open or closed */

#endif

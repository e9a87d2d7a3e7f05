/* The memory of one loop: pools of equal objects, blocks in classes of powers of two, and the scratch memory. A
 * pool owns its slabs, a large class the blocks it keeps. No lock: whoever holds the loop runs it.
 *
 *     slab:  [ next slab | object | object | ... ]      per_slab objects, one malloc
 *     free:  object -> object -> NULL                   the link is the object's first word
 *
 * Under the address sanitizer a free object is poisoned, link included; get lifts that before it
 * reads the link, put lays it on after it wrote the link.
 */
#include "base/mem.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) /* gcc */
#define WITH_ASAN 1
#elif defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(ptr, len) ASAN_POISON_MEMORY_REGION(ptr, len)
#define UNPOISON(ptr, len) ASAN_UNPOISON_MEMORY_REGION(ptr, len)
#else
#define POISON(ptr, len) ((void)0)
#define UNPOISON(ptr, len) ((void)0)
#endif

#define SMALL_CLASSES 5u
#define SLAB_BYTES 16384u /* below malloc's mmap threshold, and 8 objects of the largest class */

/* Free bytes that a large class keeps: a loop under load turns round less than this in one turn, and
 * all five classes together stay at 5 MiB a loop at worst. */
#define KEEP_BYTES (1024u * 1024u)

/* A free object of either kind. */
struct link {
    struct link *next;
};

struct slab {
    alignas(16) struct slab *next;
};

static_assert(sizeof(struct slab) == 16, "objects behind the slab's head must stay aligned");
static_assert(IOH__MEM_MIN << SMALL_CLASSES == 4096, "the first large class is a page");
static_assert(IOH__MEM_MIN << (IOH__MEM_CLASSES - 1) == IOH__MEM_MAX, "classes are powers of two");

void ioh__pool_init(struct ioh__pool *pool, size_t size, size_t per_slab)
{
    assert(per_slab > 0 && size <= SIZE_MAX / 2 / per_slab);
    size = size > 0 ? (size + 15) & ~(size_t)15 : 16;
    *pool = (struct ioh__pool){.size = size, .per_slab = per_slab};
}

void ioh__pool_destroy(struct ioh__pool *pool)
{
    struct slab *slab = pool->slabs;
    while (slab) {
        struct slab *next = slab->next;
        UNPOISON(slab + 1, pool->size * pool->per_slab);
        free(slab);
        slab = next;
    }
    ioh__pool_init(pool, pool->size, pool->per_slab);
}

/* Takes the first free object; there is one. */
static inline void *take(struct ioh__pool *pool)
{
    struct link *object = pool->free;
    UNPOISON(object, pool->size);
    pool->free = object->next;
    pool->live++;
    return object;
}

/* Makes the free list, which is empty, of a new slab's objects, the lowest address first, and takes
 * that one. Kept out of ioh__pool_get(), which then needs no stack. */
__attribute__((noinline, cold)) static void *grow_and_take(struct ioh__pool *pool)
{
    struct slab *slab = malloc(sizeof(*slab) + pool->size * pool->per_slab);
    if (!slab)
        return NULL;
    slab->next = pool->slabs;
    pool->slabs = slab;
    char *objects = (char *)(slab + 1);
    struct link *object = (struct link *)(void *)objects;
    pool->free = object;
    for (size_t i = 1; i < pool->per_slab; i++) {
        object->next = (struct link *)(void *)(objects + i * pool->size);
        object = object->next;
    }
    object->next = NULL;
    POISON(objects, pool->size * pool->per_slab);
    return take(pool);
}

void *ioh__pool_get(struct ioh__pool *pool)
{
    return pool->free ? take(pool) : grow_and_take(pool);
}

void ioh__pool_put(struct ioh__pool *pool, void *object)
{
    struct link *link = object;
    assert(pool->live > 0);
    link->next = pool->free;
    pool->free = link;
    pool->live--;
    POISON(object, pool->size);
}

/* The class of a block that holds want bytes; want is at most IOH__MEM_MAX. */
static unsigned class_of(size_t want)
{
    if (want <= IOH__MEM_MIN)
        return 0;
    unsigned bits = 64u - (unsigned)__builtin_clzll((unsigned long long)want - 1);
    return bits - 7; /* 128 = 2^7 */
}

static size_t class_size(unsigned class)
{
    return (size_t)IOH__MEM_MIN << class;
}

bool ioh__mem_init(struct ioh__mem *mem)
{
    *mem = (struct ioh__mem){.scratch.base = malloc(IOH__SCRATCH_SIZE)};
    for (unsigned i = 0; i < SMALL_CLASSES; i++)
        ioh__pool_init(&mem->small[i], class_size(i), SLAB_BYTES / class_size(i));
    if (mem->scratch.base)
        POISON(mem->scratch.base, IOH__SCRATCH_SIZE);
    return mem->scratch.base != NULL;
}

void ioh__mem_destroy(struct ioh__mem *mem)
{
    for (unsigned i = 0; i < SMALL_CLASSES; i++)
        ioh__pool_destroy(&mem->small[i]);
    for (unsigned i = 0; i < IOH__MEM_CLASSES - SMALL_CLASSES; i++) {
        struct link *block = mem->large[i].free;
        while (block) {
            UNPOISON(block, class_size(SMALL_CLASSES + i));
            struct link *next = block->next;
            free(block);
            block = next;
        }
        mem->large[i] = (struct ioh__mem_large){0};
    }
    if (mem->scratch.base)
        UNPOISON(mem->scratch.base, IOH__SCRATCH_SIZE);
    free(mem->scratch.base);
    mem->scratch = (struct ioh__scratch){0};
}

static void *get_large(struct ioh__mem_large *large, size_t size)
{
    struct link *block = large->free;
    if (!block)
        return malloc(size);
    UNPOISON(block, size);
    large->free = block->next;
    large->kept--;
    return block;
}

static void put_large(struct ioh__mem_large *large, void *block, size_t size)
{
    if (large->kept >= KEEP_BYTES / size) {
        free(block);
        return;
    }
    struct link *link = block;
    link->next = large->free;
    large->free = link;
    large->kept++;
    POISON(block, size);
}

void *ioh__mem_get(struct ioh__mem *mem, size_t want, size_t *cap)
{
    if (want > IOH__MEM_MAX) {
        *cap = want;
        return malloc(want);
    }
    unsigned class = class_of(want);
    *cap = class_size(class);
    if (class < SMALL_CLASSES)
        return ioh__pool_get(&mem->small[class]);
    return get_large(&mem->large[class - SMALL_CLASSES], *cap);
}

void ioh__mem_put(struct ioh__mem *mem, void *block, size_t cap)
{
    if (!block)
        return;
    if (cap > IOH__MEM_MAX) {
        free(block);
        return;
    }
    unsigned class = class_of(cap);
    assert(class_size(class) == cap);
    if (class < SMALL_CLASSES)
        ioh__pool_put(&mem->small[class], block);
    else
        put_large(&mem->large[class - SMALL_CLASSES], block, cap);
}

void *ioh__scratch_open(struct ioh__scratch *scratch, size_t want, size_t *cap)
{
    assert(!scratch->open);
    if (IOH__SCRATCH_SIZE - scratch->used < want)
        return NULL;
    *cap = IOH__SCRATCH_SIZE - scratch->used;
    scratch->open = scratch->base + scratch->used;
    scratch->live++;
    UNPOISON(scratch->open, *cap);
    return scratch->open;
}

void ioh__scratch_close(struct ioh__scratch *scratch, size_t len)
{
    assert(scratch->open && len <= IOH__SCRATCH_SIZE - scratch->used);
    scratch->open = NULL;
    scratch->used += (len + 15) & ~(size_t)15;
    POISON(scratch->base + scratch->used, IOH__SCRATCH_SIZE - scratch->used);
}

void ioh__scratch_put(struct ioh__scratch *scratch, const void *piece)
{
    assert(scratch->live > 0);
    if (piece == scratch->open)
        scratch->open = NULL;
    if (--scratch->live > 0)
        return;
    assert(!scratch->open);
    scratch->used = 0;
    POISON(scratch->base, IOH__SCRATCH_SIZE);
}

/* The histogram. Values below 16 have a bucket each; above, the bucket is the number's highest bit and
 * the four bits behind it:
 *
 *     value   1 m m m m x x x ...      bit e is the highest; bucket = 16 * (e - 3) + mmmm
 *
 * One thread adds, any thread reads.
 */
#include "base/hist.h"

#include <assert.h>

#define SUB_BITS 4u

static_assert(IOH__HIST_SUB == 1u << SUB_BITS, "a bucket is told by SUB_BITS bits");

static unsigned bucket_of(uint64_t value)
{
    if (value < IOH__HIST_SUB)
        return (unsigned)value;
    unsigned top = 63u - (unsigned)__builtin_clzll(value);
    unsigned sub = (unsigned)(value >> (top - SUB_BITS)) & (IOH__HIST_SUB - 1);
    return (top - SUB_BITS + 1) * IOH__HIST_SUB + sub;
}

/* The smallest value of a bucket. */
static uint64_t lowest_of(unsigned bucket)
{
    if (bucket < IOH__HIST_SUB)
        return bucket;
    unsigned shift = bucket / IOH__HIST_SUB - 1;
    return (uint64_t)(IOH__HIST_SUB + bucket % IOH__HIST_SUB) << shift;
}

static uint64_t count_at(const struct ioh__hist *h, unsigned bucket)
{
    return atomic_load_explicit(&h->count[bucket], memory_order_relaxed);
}

/* No other thread writes this count, so it needs no locked instruction. */
static void add_at(struct ioh__hist *h, unsigned bucket, uint64_t n)
{
    atomic_store_explicit(&h->count[bucket], count_at(h, bucket) + n, memory_order_relaxed);
}

void ioh__hist_add(struct ioh__hist *h, uint64_t value)
{
    add_at(h, bucket_of(value), 1);
}

void ioh__hist_merge(struct ioh__hist *sum, const struct ioh__hist *from)
{
    for (unsigned i = 0; i < IOH__HIST_BUCKETS; i++) {
        uint64_t n = count_at(from, i);
        if (n > 0)
            add_at(sum, i, n);
    }
}

/* How many of total values make the fraction q, rounded up; at least one. */
static uint64_t rank_of(uint64_t total, double q)
{
    double exact = q * (double)total;
    if (!(exact > 1.0))
        return 1;
    if (exact >= (double)total)
        return total;
    uint64_t rank = (uint64_t)exact;
    return (double)rank < exact ? rank + 1 : rank;
}

uint64_t ioh__hist_quantile(const struct ioh__hist *h, double q)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < IOH__HIST_BUCKETS; i++)
        total += count_at(h, i);
    if (total == 0)
        return 0;
    /* Counts only grow, so the rank is reached even while the owner adds. */
    uint64_t rank = rank_of(total, q);
    uint64_t reached = 0;
    unsigned bucket = 0;
    for (; bucket < IOH__HIST_BUCKETS - 1; bucket++) {
        reached += count_at(h, bucket);
        if (reached >= rank)
            break;
    }
    return lowest_of(bucket);
}

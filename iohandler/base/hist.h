/* A histogram of unsigned numbers, log-linear: 16 buckets per power of two, so a percentile is right
 * within 1/16. One thread adds, any thread reads (relaxed atomics). */
#ifndef IOH_BASE_HIST_H
#define IOH_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define IOH__HIST_SUB 16u
#define IOH__HIST_BUCKETS ((64u - 3u) * IOH__HIST_SUB)

struct ioh__hist {
    _Atomic uint64_t count[IOH__HIST_BUCKETS];
};

/* Only the owning thread. A zero-filled histogram is empty. */
void ioh__hist_add(struct ioh__hist *h, uint64_t value);

/* Adds what is in from to sum, which nobody else uses. */
void ioh__hist_merge(struct ioh__hist *sum, const struct ioh__hist *from);

/* The smallest value of the bucket in which the fraction q (0 to 1) of all values is reached; 0 when
 * empty. */
uint64_t ioh__hist_quantile(const struct ioh__hist *h, double q);

#endif

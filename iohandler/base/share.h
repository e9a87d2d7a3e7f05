/* How much of the cores the calling thread wants beside others, as the kernel's scheduler knows it (sched_setattr(2)).
 */
#ifndef IOH_BASE_SHARE_H
#define IOH_BASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* The kernel's struct sched_attr, its first version; <linux/sched/types.h> does not go with every <sched.h>. */
struct ioh__share {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice, deadline, period; /* nanoseconds */
};

#define IOH__SHARE_LEFTOVER 20u /* beyond every nice value: what nobody else wants */

/* What this thread has. */
bool ioh__share_read(struct ioh__share *share);

/* The same, less important by so much; IOH__SHARE_LEFTOVER is the most. */
struct ioh__share ioh__share_less(const struct ioh__share *share, unsigned by);

/* false: it may not; less may always be asked for, more only by the privileged. */
bool ioh__share_take(const struct ioh__share *share);

#endif

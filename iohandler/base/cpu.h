/* How many threads are worth starting: the cores in the affinity mask, cut to the tightest cgroup CPU
 * quota over all ancestors (v2 cpu.max, v1 cpu.cfs_quota_us / cpu.cfs_period_us), at least 1. A loop
 * beyond the quota is throttled for most of each period, which looks like a slow server. */
#ifndef IOH_BASE_CPU_H
#define IOH_BASE_CPU_H

#include <stdint.h>

unsigned ioh__cpu_count(void);

/* The quota part alone, floored, 0 when there is none. proc_cgroup is a file like
 * /proc/self/cgroup, root a directory like /sys/fs/cgroup: arguments so that a test can fake them. */
unsigned ioh__cpu_quota(const char *proc_cgroup, const char *root);

/* How often and how long, in microseconds, the process's own cgroup was throttled; 0 and 0 when nothing is told. */
void ioh__cpu_throttled(uint64_t *times, uint64_t *us);
void ioh__cpu_throttled_in(const char *proc_cgroup, const char *root, uint64_t *times,
                           uint64_t *us);

#endif

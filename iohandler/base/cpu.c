/* The number of threads worth starting, read once at start: affinity mask and cgroup CPU quota. It
 * owns nothing; any thread.
 *
 * A line of /proc/self/cgroup says `number:controllers:path`. Version 2 has the number 0 and no
 * controllers, and its files lie in root + path. Version 1 has a hierarchy for each list of
 * controllers, mounted under the list's name or under "cpu". The quota of every ancestor holds too.
 * A container sees its own group as root, and often a path that is not there: then root's own
 * files are what is found.
 */
#include "base/cpu.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CPUS (1u << 20) /* far above any kernel's NR_CPUS */

/* Reads up to two numbers at the start of a file; answers how many there are. "max" is none. */
static int read_numbers(const char *dir, const char *name, long long number[2])
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= sizeof(path))
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int n = fscanf(file, "%lld %lld", &number[0], &number[1]);
    fclose(file);
    return n > 0 ? n : 0;
}

/* Whole cores of a quota; 0 when the numbers say none. Less than one core still runs one thread. */
static unsigned cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = quota / period;
    if (n < 1)
        return 1;
    return n > UINT_MAX ? UINT_MAX : (unsigned)n;
}

static unsigned quota_v2(const char *dir)
{
    long long number[2];
    return read_numbers(dir, "cpu.max", number) == 2 ? cores(number[0], number[1]) : 0;
}

static unsigned quota_v1(const char *dir)
{
    long long quota[2], period[2];
    if (read_numbers(dir, "cpu.cfs_quota_us", quota) < 1 ||
        read_numbers(dir, "cpu.cfs_period_us", period) < 1)
        return 0;
    return cores(quota[0], period[0]);
}

/* 0 stands for no quota. */
static unsigned tighter(unsigned a, unsigned b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* Paths with ".." lead out of the mount: the process sits outside of what it can see. */
static bool leads_out(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (at[3] == '/' || at[3] == 0)
            return true;
    return false;
}

/* The tightest quota of mount + path and of all ancestors down to mount itself. */
static unsigned quota_of_path(const char *mount, const char *path, unsigned (*quota)(const char *))
{
    char dir[PATH_MAX];
    int len = snprintf(dir, sizeof(dir), "%s%s", mount, leads_out(path) ? "" : path);
    if (len < 0 || (size_t)len >= sizeof(dir))
        return quota(mount);
    size_t end = strlen(mount);
    unsigned tightest = quota(dir);
    for (size_t i = (size_t)len; i-- > end;) {
        if (dir[i] != '/')
            continue;
        dir[i] = 0;
        tightest = tighter(tightest, quota(dir));
    }
    return tightest;
}

/* Is "cpu" one of the names in a list like "cpu,cpuacct"? */
static bool has_cpu(const char *list)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        if (len == 3 && memcmp(list, "cpu", 3) == 0)
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

static unsigned quota_under(const char *root, const char *name, const char *path)
{
    char mount[PATH_MAX];
    int len = snprintf(mount, sizeof(mount), "%s/%s", root, name);
    if (len < 0 || (size_t)len >= sizeof(mount))
        return 0;
    return quota_of_path(mount, path, quota_v1);
}

/* One line, without its newline; it is cut up. */
static unsigned quota_of_line(char *line, const char *root)
{
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return 0;
    *list++ = 0;
    *path++ = 0;
    if (*list == 0 && strcmp(line, "0") == 0)
        return quota_of_path(root, path, quota_v2);
    if (!has_cpu(list))
        return 0;
    return tighter(quota_under(root, list, path), quota_under(root, "cpu", path));
}

unsigned ioh__cpu_quota(const char *proc_cgroup, const char *root)
{
    FILE *file = fopen(proc_cgroup, "re");
    if (!file)
        return 0;
    unsigned tightest = 0;
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, file)) > 0) {
        if (line[len - 1] == '\n')
            line[len - 1] = 0;
        tightest = tighter(tightest, quota_of_line(line, root));
    }
    free(line);
    fclose(file);
    return tightest;
}

/* The cores in the affinity mask; 0 if it cannot be read. The kernel refuses a set smaller than its
 * own with EINVAL, so the set grows past glibc's fixed 1,024. */
static unsigned affinity(void)
{
    for (size_t cpus = CPU_SETSIZE; cpus <= MOST_CPUS; cpus *= 2) {
        size_t size = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set)
            return 0;
        int rc = sched_getaffinity(0, size, set);
        int error = errno;
        int count = rc == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (rc == 0 || error != EINVAL)
            return count > 0 ? (unsigned)count : 0;
    }
    return 0;
}

unsigned ioh__cpu_count(void)
{
    unsigned count = affinity();
    if (count == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (unsigned)online : 1;
    }
    return tighter(count, ioh__cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
}

/* ---- throttling */

/* The path behind "0::" (version 2) or behind a list with cpu (version 1), in text; NULL: none. */
static char *own_group(char *text, bool *v2, char **list)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *at = strchr(line, ':');
        char *path = at ? strchr(at + 1, ':') : NULL;
        if (!path)
            continue;
        *at++ = 0;
        *path++ = 0;
        *v2 = *at == 0;
        *list = at;
        if (*v2 || has_cpu(at))
            return path;
    }
    return NULL;
}

/* cpu.stat: lines of a name and a number. */
static bool read_stat(const char *dir, uint64_t *times, uint64_t *us)
{
    char path[PATH_MAX], name[64];
    unsigned long long value;
    int len = snprintf(path, sizeof(path), "%s/cpu.stat", dir);
    FILE *file = len > 0 && (size_t)len < sizeof(path) ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    while (fscanf(file, "%63s %llu", name, &value) == 2) {
        if (strcmp(name, "nr_throttled") == 0)
            *times = value;
        else if (strcmp(name, "throttled_usec") == 0)
            *us = value;
        else if (strcmp(name, "throttled_time") == 0) /* version 1: nanoseconds */
            *us = value / 1000;
    }
    fclose(file);
    return true;
}

void ioh__cpu_throttled_in(const char *proc_cgroup, const char *root, uint64_t *times, uint64_t *us)
{
    char text[4096], dir[PATH_MAX], *list = NULL;
    bool v2 = false;
    *times = *us = 0;
    FILE *file = fopen(proc_cgroup, "re");
    if (!file)
        return;
    size_t len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[len] = 0;
    char *path = own_group(text, &v2, &list);
    if (!path)
        return;
    const char *mount = v2 ? "" : list;
    int n = snprintf(dir, sizeof(dir), "%s/%s%s", root, mount, leads_out(path) ? "" : path);
    if (n > 0 && (size_t)n < sizeof(dir) && read_stat(dir, times, us))
        return;
    n = snprintf(dir, sizeof(dir), "%s/%s", root,
                 mount); /* a container sees its own group as root */
    if (n > 0 && (size_t)n < sizeof(dir))
        read_stat(dir, times, us);
}

void ioh__cpu_throttled(uint64_t *times, uint64_t *us)
{
    ioh__cpu_throttled_in("/proc/self/cgroup", "/sys/fs/cgroup", times, us);
}

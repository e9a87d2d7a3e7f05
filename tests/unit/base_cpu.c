/* The core count, on made-up cgroup trees in a directory of their own. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"

static char top[64];  /* holds both */
static char proc[96]; /* the file like /proc/self/cgroup */
static char root[96]; /* the directory like /sys/fs/cgroup */

static int make_tree(void **state)
{
    (void)state;
    strcpy(top, "/tmp/ioh_cpu_XXXXXX");
    if (!mkdtemp(top))
        return -1;
    snprintf(proc, sizeof(proc), "%s/proc_cgroup", top);
    snprintf(root, sizeof(root), "%s/fs", top);
    return mkdir(root, 0700);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int remove_tree(void **state)
{
    (void)state;
    return nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A file below root, with the directories that lead there. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    write_file(path, text);
}

static void expect(const char *cgroup, unsigned cores)
{
    write_file(proc, cgroup);
    assert_int_equal(ioh__cpu_quota(proc, root), cores);
}

/* ---- version 2 */

static void v2_max_is_no_quota(void **state)
{
    (void)state;
    put("a/cpu.max", "max 100000\n");
    expect("0::/a\n", 0);
}

static void v2_quota_is_floored(void **state)
{
    (void)state;
    put("a/cpu.max", "200000 100000\n");
    expect("0::/a\n", 2);
    put("a/cpu.max", "399999 100000\n");
    expect("0::/a\n", 3);
    put("a/cpu.max", "150000 50000\n");
    expect("0::/a\n", 3);
}

static void less_than_a_core_is_one(void **state)
{
    (void)state;
    put("a/cpu.max", "150000 100000\n");
    expect("0::/a\n", 1);
    put("a/cpu.max", "1000 100000\n");
    expect("0::/a\n", 1);
}

static void v2_the_tightest_ancestor_counts(void **state)
{
    (void)state;
    put("cpu.max", "900000 100000\n");
    put("a/cpu.max", "800000 100000\n");
    put("a/b/cpu.max", "300000 100000\n");
    put("a/b/c/cpu.max", "max 100000\n");
    put("a/b/c/d/cpu.max", "500000 100000\n");
    expect("0::/a/b/c/d\n", 3);
    expect("0::/a/b/c\n", 3);
    expect("0::/a\n", 8);
    expect("0::/\n", 9);
}

static void v2_an_ancestor_without_a_file_is_passed_over(void **state)
{
    (void)state;
    put("a/cpu.max", "400000 100000\n");
    put("a/b/c/cpu.max", "max 100000\n");
    expect("0::/a/b/c\n", 4);
}

static void v2_a_path_that_is_not_there_leaves_the_root(void **state)
{
    (void)state;
    put("cpu.max", "250000 100000\n");
    expect("0::/system.slice/docker-0123.scope\n", 2);
    expect("0::/gone (deleted)\n", 2);
}

static void v2_a_path_out_of_the_mount_leaves_the_root(void **state)
{
    (void)state;
    put("cpu.max", "600000 100000\n");
    put("../cpu.max", "100000 100000\n"); /* beside the mount: not ours */
    put("a/cpu.max", "500000 100000\n");
    put("b..c/cpu.max", "300000 100000\n");
    expect("0::/../a\n", 6);
    expect("0::/..\n", 6);
    expect("0::/b..c\n", 3);
    put("..d/cpu.max", "200000 100000\n");
    expect("0::/..d\n", 2);
}

static void v2_a_colon_in_the_path_is_part_of_it(void **state)
{
    (void)state;
    put("a:b/cpu.max", "200000 100000\n");
    expect("0::/a:b\n", 2);
}

/* ---- version 1 */

static void v1_minus_one_is_no_quota(void **state)
{
    (void)state;
    put("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    expect("4:cpu,cpuacct:/a\n", 0);
}

static void v1_quota_is_found_under_the_lists_name(void **state)
{
    (void)state;
    put("cpu,cpuacct/a/cpu.cfs_quota_us", "350000\n");
    put("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    expect("4:cpu,cpuacct:/a\n", 3);
}

static void v1_quota_is_found_under_cpu(void **state)
{
    (void)state;
    put("cpu/a/cpu.cfs_quota_us", "200000\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    expect("4:cpu,cpuacct:/a\n", 2);
    expect("4:cpuacct,cpu:/a\n", 2);
    expect("4:cpu:/a\n", 2);
}

static void v1_the_tightest_ancestor_counts(void **state)
{
    (void)state;
    put("cpu/a/cpu.cfs_quota_us", "200000\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    put("cpu/a/b/cpu.cfs_quota_us", "700000\n");
    put("cpu/a/b/cpu.cfs_period_us", "100000\n");
    expect("2:cpu:/a/b\n", 2);
}

static void v1_a_path_that_is_not_there_leaves_the_mount(void **state)
{
    (void)state;
    put("cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    expect("11:cpu,cpuacct:/docker/0123456789abcdef\n", 1);
}

static void v1_a_quota_without_a_period_is_none(void **state)
{
    (void)state;
    put("cpu/a/cpu.cfs_quota_us", "200000\n");
    expect("2:cpu:/a\n", 0);
    put("cpu/a/cpu.cfs_period_us", "0\n");
    expect("2:cpu:/a\n", 0);
}

static void v1_controllers_that_only_begin_like_cpu_do_not_count(void **state)
{
    (void)state;
    put("cpu/a/cpu.cfs_quota_us", "200000\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    put("cpuset/a/cpu.cfs_quota_us", "100000\n");
    put("cpuset/a/cpu.cfs_period_us", "100000\n");
    expect("3:cpuset:/a\n5:cpuacct:/a\n1:name=systemd:/a\n", 0);
}

/* ---- both, and faults */

static void of_both_versions_the_tighter_counts(void **state)
{
    (void)state;
    put("a/cpu.max", "600000 100000\n");
    put("cpu,cpuacct/b/cpu.cfs_quota_us", "400000\n");
    put("cpu,cpuacct/b/cpu.cfs_period_us", "100000\n");
    expect("12:memory:/x\n4:cpu,cpuacct:/b\n1:name=systemd:/b\n0::/a\n", 4);
    put("a/cpu.max", "300000 100000\n");
    expect("4:cpu,cpuacct:/b\n0::/a", 3); /* also without the last newline */
}

static void missing_and_broken_files_are_no_quota(void **state)
{
    (void)state;
    assert_int_equal(ioh__cpu_quota(proc, root), 0);
    expect("", 0);
    expect("nonsense\n0:\n\n::\n0::\n", 0);
    expect("0::/a\n", 0);
    static const char *const broken[] = {
        "", "\n", "max", "100000\n", "0 100000\n", "1 0\n", "x y\n", "-5 100000\n", "100000 -1\n"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        put("a/cpu.max", broken[i]);
        expect("0::/a\n", 0);
    }
}

static void a_path_longer_than_any_is_cut_to_the_root(void **state)
{
    (void)state;
    static char line[3 * 4096];
    put("cpu.max", "500000 100000\n");
    int len = snprintf(line, sizeof(line), "0::");
    while (len < (int)sizeof(line) - 8)
        len += snprintf(line + len, sizeof(line) - (size_t)len, "/abcde");
    expect(line, 5);
}

/* ---- throttling */

static void expect_throttled(const char *cgroup, unsigned times, unsigned us)
{
    uint64_t t = 12345, u = 12345;
    write_file(proc, cgroup);
    ioh__cpu_throttled_in(proc, root, &t, &u);
    assert_int_equal(t, times);
    assert_int_equal(u, us);
}

static const char stat_v2[] = "usage_usec 15\nuser_usec 9\nsystem_usec 6\nnr_periods 40\n"
                              "nr_throttled 7\nthrottled_usec 4200\nnr_bursts 0\n";

static void v2_throttling_is_read_from_the_own_group(void **state)
{
    (void)state;
    put("a/b/cpu.stat", stat_v2);
    put("a/cpu.stat", "nr_throttled 99\nthrottled_usec 99\n"); /* the parent's is not ours */
    put("cpu.stat", "nr_throttled 88\nthrottled_usec 88\n");
    expect_throttled("0::/a/b\n", 7, 4200);
    expect_throttled("0::/a/b", 7, 4200);
    expect_throttled("0::/\n", 88, 88);
}

static void v1_throttling_is_told_in_nanoseconds(void **state)
{
    (void)state;
    put("cpu,cpuacct/a/cpu.stat", "nr_periods 40\nnr_throttled 3\nthrottled_time 5000999\n");
    expect_throttled("12:memory:/x\n5:cpuset:/y\n4:cpu,cpuacct:/a\n1:name=systemd:/b\n", 3, 5000);
}

/* A container sees its own group as the root of the mount. */
static void a_group_that_is_not_there_is_looked_for_at_the_root(void **state)
{
    (void)state;
    put("cpu.stat", stat_v2);
    expect_throttled("0::/system.slice/docker-0123.scope\n", 7, 4200);
    expect_throttled("0::/../a\n", 7, 4200);
    put("cpu/cpu.stat", "nr_throttled 5\nthrottled_time 6000\n");
    expect_throttled("4:cpu:/docker/0123\n", 5, 6);
}

static void without_a_file_or_a_quota_nothing_was_throttled(void **state)
{
    (void)state;
    uint64_t times = 12345, us = 12345;
    ioh__cpu_throttled_in(proc, root, &times, &us); /* no file at all */
    assert_int_equal(times + us, 0);
    expect_throttled("", 0, 0);
    expect_throttled("nonsense\n\n0:\n", 0, 0);
    expect_throttled("0::/a\n", 0, 0);
    put("a/cpu.stat", "usage_usec 15\nuser_usec 9\nsystem_usec 6\n"); /* no quota was ever set */
    expect_throttled("0::/a\n", 0, 0);
    put("a/cpu.stat", "");
    expect_throttled("0::/a\n", 0, 0);
    put("a/cpu.stat", "nr_throttled\n");
    expect_throttled("0::/a\n", 0, 0);
    put("a/cpu.stat", "nr_throttled 18446744073709551615\nthrottled_usec 1\n");
    write_file(proc, "0::/a\n");
    ioh__cpu_throttled_in(proc, root, &times, &us);
    assert_true(times == UINT64_MAX && us == 1);
}

static void throttling_is_found_behind_a_long_path_or_not_at_all(void **state)
{
    (void)state;
    static char line[3 * 4096];
    int len = snprintf(line, sizeof(line), "0::");
    while (len < (int)sizeof(line) - 8)
        len += snprintf(line + len, sizeof(line) - (size_t)len, "/abcde");
    put("cpu.stat", stat_v2);
    expect_throttled(line, 7, 4200);
}

/* ---- the whole count */

static void the_count_is_at_most_the_affinity_mask_and_at_least_one(void **state)
{
    (void)state;
    cpu_set_t old, one;
    if (sched_getaffinity(0, sizeof(old), &old) != 0)
        skip(); /* more than 1,024 CPUs */
    unsigned quota = ioh__cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    unsigned cores = (unsigned)CPU_COUNT(&old);
    assert_int_equal(ioh__cpu_count(), quota > 0 && quota < cores ? quota : cores);

    CPU_ZERO(&one);
    for (unsigned cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &old))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    unsigned pinned = ioh__cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
    assert_int_equal(pinned, 1);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_TREE(v2_max_is_no_quota),
        ON_TREE(v2_quota_is_floored),
        ON_TREE(less_than_a_core_is_one),
        ON_TREE(v2_the_tightest_ancestor_counts),
        ON_TREE(v2_an_ancestor_without_a_file_is_passed_over),
        ON_TREE(v2_a_path_that_is_not_there_leaves_the_root),
        ON_TREE(v2_a_path_out_of_the_mount_leaves_the_root),
        ON_TREE(v2_a_colon_in_the_path_is_part_of_it),
        ON_TREE(v1_minus_one_is_no_quota),
        ON_TREE(v1_quota_is_found_under_the_lists_name),
        ON_TREE(v1_quota_is_found_under_cpu),
        ON_TREE(v1_the_tightest_ancestor_counts),
        ON_TREE(v1_a_path_that_is_not_there_leaves_the_mount),
        ON_TREE(v1_a_quota_without_a_period_is_none),
        ON_TREE(v1_controllers_that_only_begin_like_cpu_do_not_count),
        ON_TREE(of_both_versions_the_tighter_counts),
        ON_TREE(missing_and_broken_files_are_no_quota),
        ON_TREE(a_path_longer_than_any_is_cut_to_the_root),
        ON_TREE(v2_throttling_is_read_from_the_own_group),
        ON_TREE(v1_throttling_is_told_in_nanoseconds),
        ON_TREE(a_group_that_is_not_there_is_looked_for_at_the_root),
        ON_TREE(without_a_file_or_a_quota_nothing_was_throttled),
        ON_TREE(throttling_is_found_behind_a_long_path_or_not_at_all),
        cmocka_unit_test(the_count_is_at_most_the_affinity_mask_and_at_least_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

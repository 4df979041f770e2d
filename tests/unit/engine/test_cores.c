/* SPDX-License-Identifier: Apache-2.0
 * How many cores a process may use: quotas of both control-group versions at any level, read from a made-up file
 * tree. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/local/cores.h"
#include "engine/machine/memory.h"
#include "isochron/train.h"
#include "test.h"

static void put(const char *root, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(path, 0777);
        *at = '/';
    }
    scratch_write(path, text, strlen(text));
}

static void version_2(void **state)
{
    (void)state;
    char *s = scratch_make();
    assert_int_equal(iso_quota_cores(s), UINT32_MAX); /* no file at all */
    put(s, "proc/self/cgroup", "0::/a.slice/b.scope\n");
    assert_int_equal(iso_quota_cores(s), UINT32_MAX);
    put(s, "sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
    assert_int_equal(iso_quota_cores(s), UINT32_MAX);
    put(s, "sys/fs/cgroup/a.slice/b.scope/cpu.max", "250000 100000\n");
    assert_int_equal(iso_quota_cores(s), 3);
    put(s, "sys/fs/cgroup/a.slice/cpu.max", "50000 100000\n"); /* the group above is tighter */
    assert_int_equal(iso_quota_cores(s), 1);
    put(s, "sys/fs/cgroup/a.slice/cpu.max", "nonsense\n");
    assert_int_equal(iso_quota_cores(s), 3);
    scratch_remove(s);
}

static void in_a_container_the_own_group_is_the_top(void **state)
{
    (void)state;
    char *s = scratch_make();
    put(s, "proc/self/cgroup", "0::/\n");
    put(s, "sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(iso_quota_cores(s), 2);
    put(s, "proc/self/cgroup", "0::/not/seen/here\n");
    assert_int_equal(iso_quota_cores(s), 2);
    scratch_remove(s);
}

static void version_1(void **state)
{
    (void)state;
    char *s = scratch_make();
    put(s, "proc/self/cgroup", "12:cpuset:/x\n5:cpu,cpuacct:/docker/ab\n1:name=systemd:/x\n0::/x\n");
    put(s, "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us", "-1\n");
    put(s, "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us", "100000\n");
    assert_int_equal(iso_quota_cores(s), UINT32_MAX);
    put(s, "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(iso_quota_cores(s), 4);
    put(s, "sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "150000\n");
    put(s, "sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
    assert_int_equal(iso_quota_cores(s), 2);
    put(s, "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us", "0\n");
    assert_int_equal(iso_quota_cores(s), 2);
    scratch_remove(s);
}

static void memory_of_both_versions(void **state)
{
    (void)state;
    char *s = scratch_make();
    assert_true(iso_quota_memory(s) == UINT64_MAX); /* no file at all */
    put(s, "proc/self/cgroup", "5:memory:/docker/ab\n0::/a.slice/b.scope\n");
    put(s, "sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    put(s, "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(iso_quota_memory(s) == UINT64_MAX);
    put(s, "sys/fs/cgroup/a.slice/memory.max", "3000000000\n");
    assert_true(iso_quota_memory(s) == 3000000000u);
    put(s, "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "2000000000\n");
    assert_true(iso_quota_memory(s) == 2000000000u);
    put(s, "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "nonsense\n");
    assert_true(iso_quota_memory(s) == 3000000000u);
    assert_true(iso_memory_allowed() > 1 << 20 && iso_memory_allowed() < (uint64_t)1 << 50);
    scratch_remove(s);
}

static void affinity_counts(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(iso_affinity_cores(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(iso_affinity_cores(), 1);
    assert_int_equal(iso_cores_allowed(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(iso_cores_allowed() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2),
        cmocka_unit_test(in_a_container_the_own_group_is_the_top),
        cmocka_unit_test(version_1),
        cmocka_unit_test(memory_of_both_versions),
        cmocka_unit_test(affinity_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

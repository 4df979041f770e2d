/* SPDX-License-Identifier: Apache-2.0
 * Cores allowed to this process (users in containers: a quota of one core on a host of many must give one worker). */
#include "engine/local/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/machine/cgroup.h"
#include "isochron/train.h"

static uint64_t cores_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return UINT64_MAX;
    return (uint64_t)(quota / period + (quota % period != 0));
}

/* Version 2: "cpu.max" holds "max 100000" or "200000 100000". */
static uint64_t quota_v2(const char *folder)
{
    char text[ISO_CGROUP_TEXT];
    if (!iso_cgroup_read(folder, "cpu.max", text) || strncmp(text, "max", 3) == 0)
        return UINT64_MAX;
    char *end;
    long long quota = strtoll(text, &end, 10);
    return cores_of(quota, strtoll(end, NULL, 10));
}

/* Version 1: two files; a quota of -1 is none. */
static uint64_t quota_v1(const char *folder)
{
    char quota[ISO_CGROUP_TEXT], period[ISO_CGROUP_TEXT];
    if (!iso_cgroup_read(folder, "cpu.cfs_quota_us", quota) || !iso_cgroup_read(folder, "cpu.cfs_period_us", period))
        return UINT64_MAX;
    return cores_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

uint32_t iso_quota_cores(const char *root)
{
    uint64_t least = iso_cgroup_least(root, "cpu", "cpu,cpuacct", quota_v2, quota_v1);
    return least < UINT32_MAX ? (uint32_t)least : UINT32_MAX;
}

uint32_t iso_affinity_cores(void)
{
    for (int cores = 1024; cores <= 1 << 20; cores *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cores);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cores);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        int why = errno;
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
        if (why != EINVAL) /* EINVAL: the kernel's mask is larger than ours */
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

uint32_t iso_cores_allowed(void)
{
    uint32_t affinity = iso_affinity_cores(), quota = iso_quota_cores("");
    return quota < affinity ? quota : affinity;
}

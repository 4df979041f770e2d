/* SPDX-License-Identifier: Apache-2.0
 * Cores allowed to this process (users in containers: a quota of one core on a host of many must give one worker). */
#include "engine/local/cores.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "isochron/train.h"

#define TEXT_MAX 8192u
#define PATH_TEXT 4096u

/* The beginning of a small file as text; false when it cannot be read. */
static bool read_text(const char *path, char text[TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, text + have, TEXT_MAX - 1 - have);
        if (n > 0)
            have += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    close(fd);
    text[have] = 0;
    return true;
}

static uint32_t cores_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return UINT32_MAX;
    long long cores = quota / period + (quota % period != 0);
    return cores >= (long long)UINT32_MAX ? UINT32_MAX : (uint32_t)cores;
}

/* Version 2: "cpu.max" holds "max 100000" or "200000 100000". */
static uint32_t quota_v2(const char *folder)
{
    char path[PATH_TEXT + 32], text[TEXT_MAX];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_text(path, text) || strncmp(text, "max", 3) == 0)
        return UINT32_MAX;
    char *end;
    long long quota = strtoll(text, &end, 10);
    return cores_of(quota, strtoll(end, NULL, 10));
}

/* Version 1: two files; a quota of -1 is none. */
static uint32_t quota_v1(const char *folder)
{
    char path[PATH_TEXT + 32], quota[TEXT_MAX], period[TEXT_MAX];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, quota))
        return UINT32_MAX;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, period))
        return UINT32_MAX;
    return cores_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The tightest quota of `mount` + `group` and all groups above it. A group that is not there (a container sees its
 * own group as the top) is skipped. */
static uint32_t walk(const char *mount, const char *group, uint32_t (*quota)(const char *folder))
{
    char folder[PATH_TEXT];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    if (length < 0 || (size_t)length >= sizeof folder)
        return quota(mount);
    uint32_t least = UINT32_MAX;
    for (;;) {
        uint32_t cores = quota(folder);
        least = cores < least ? cores : least;
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= strlen(mount) || !slash)
            return least;
        *slash = 0;
    }
}

/* Whether a comma-separated list has the word. */
static bool lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0))
            return true;
    }
    return false;
}

uint32_t iso_quota_cores(const char *root)
{
    char path[PATH_TEXT], text[TEXT_MAX], mount[PATH_TEXT];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text))
        return UINT32_MAX;
    uint32_t least = UINT32_MAX;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        /* "0::/user.slice" (version 2) or "4:cpu,cpuacct:/docker/ab" (version 1) */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = 0;
        *group++ = 0;
        uint32_t cores = UINT32_MAX;
        if (*controllers == 0) {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
            cores = walk(mount, group, quota_v2);
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/unified", root);
            uint32_t hybrid = walk(mount, group, quota_v2);
            cores = hybrid < cores ? hybrid : cores;
        } else if (lists(controllers, "cpu")) {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
            cores = walk(mount, group, quota_v1);
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu,cpuacct", root);
            uint32_t joined = walk(mount, group, quota_v1);
            cores = joined < cores ? joined : cores;
        }
        least = cores < least ? cores : least;
    }
    return least;
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

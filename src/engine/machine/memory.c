/* SPDX-License-Identifier: Apache-2.0
 * Memory allowed to this process (memory.h): what is beyond it meets the kernel's killer, not an error. */
#include "engine/machine/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "engine/machine/cgroup.h"

/* A number of bytes; "max" (version 2) and what no machine has (version 1 without a limit) are none. */
static uint64_t limit_in(const char *folder, const char *name)
{
    char text[ISO_CGROUP_TEXT], *end;
    if (!iso_cgroup_read(folder, name, text))
        return UINT64_MAX;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    return errno || end == text || bytes == 0 || bytes >= INT64_MAX / 2 ? UINT64_MAX : bytes;
}

static uint64_t limit_v2(const char *folder)
{
    return limit_in(folder, "memory.max");
}

static uint64_t limit_v1(const char *folder)
{
    return limit_in(folder, "memory.limit_in_bytes");
}

uint64_t iso_quota_memory(const char *root)
{
    return iso_cgroup_least(root, "memory", "memory", limit_v2, limit_v1);
}

uint64_t iso_memory_allowed(void)
{
    struct sysinfo info;
    uint64_t quota = iso_quota_memory(""), all = UINT64_MAX;
    if (sysinfo(&info) == 0)
        all = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
    return quota < all ? quota : all;
}

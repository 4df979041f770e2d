/* SPDX-License-Identifier: Apache-2.0
 * Walking the control groups of this process (cgroup.h). */
#include "engine/machine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_TEXT 4096u

/* The beginning of a small file as text; false when it cannot be read. */
static bool read_text(const char *path, char text[ISO_CGROUP_TEXT])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, text + have, ISO_CGROUP_TEXT - 1 - have);
        if (n > 0)
            have += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    close(fd);
    text[have] = 0;
    return true;
}

bool iso_cgroup_read(const char *folder, const char *name, char text[ISO_CGROUP_TEXT])
{
    char path[PATH_TEXT + 64];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && read_text(path, text);
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The tightest limit of `mount` + `group` and all groups above it. A group that is not there (a container sees its
 * own group as the top) is skipped. */
static uint64_t walk(const char *mount, const char *group, iso_cgroup_limit limit)
{
    char folder[PATH_TEXT];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    if (length < 0 || (size_t)length >= sizeof folder)
        return limit(mount);
    uint64_t least = UINT64_MAX;
    for (;;) {
        least = least_of(least, limit(folder));
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

static uint64_t walk_in(const char *root, const char *name, const char *group, iso_cgroup_limit limit)
{
    char mount[PATH_TEXT];
    int length = snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, *name ? "/" : "", name);
    return length < 0 || (size_t)length >= sizeof mount ? UINT64_MAX : walk(mount, group, limit);
}

uint64_t iso_cgroup_least(const char *root, const char *controller, const char *joined, iso_cgroup_limit version_2,
                          iso_cgroup_limit version_1)
{
    char path[PATH_TEXT], text[ISO_CGROUP_TEXT];
    int length = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (length < 0 || (size_t)length >= sizeof path || !read_text(path, text))
        return UINT64_MAX;
    uint64_t least = UINT64_MAX;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        /* "0::/user.slice" (version 2) or "4:cpu,cpuacct:/docker/ab" (version 1) */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = 0;
        *group++ = 0;
        if (*controllers == 0) {
            least = least_of(least, walk_in(root, "", group, version_2));
            least = least_of(least, walk_in(root, "unified", group, version_2));
        } else if (lists(controllers, controller)) {
            least = least_of(least, walk_in(root, controller, group, version_1));
            least = least_of(least, walk_in(root, joined, group, version_1));
        }
    }
    return least;
}

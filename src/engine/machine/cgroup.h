/* SPDX-License-Identifier: Apache-2.0
 * Limits that control groups set on this process, in both versions of their files. Every group from the process's own up
 * to the top counts: the tightest one wins. Thread: any. */
#ifndef ISO_ENGINE_MACHINE_CGROUP_H
#define ISO_ENGINE_MACHINE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define ISO_CGROUP_TEXT 8192u

/* The beginning of folder/name as text; false when it cannot be read. */
bool iso_cgroup_read(const char *folder, const char *name, char text[ISO_CGROUP_TEXT]);

/* What the group in this folder allows; UINT64_MAX: no limit, or no such group. */
typedef uint64_t (*iso_cgroup_limit)(const char *folder);

/* The tightest limit, UINT64_MAX without one. root: where the file system begins ("" on a real machine; tests give a
 * folder that looks like one). controller: "cpu", and `joined` the other name its folder of version 1 may have, or the
 * same again. */
uint64_t iso_cgroup_least(const char *root, const char *controller, const char *joined, iso_cgroup_limit version_2,
                          iso_cgroup_limit version_1);

#endif

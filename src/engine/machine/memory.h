/* SPDX-License-Identifier: Apache-2.0
 * How much memory a process may use: the machine's, and the control group's limit in both versions of their files. */
#ifndef ISO_ENGINE_MACHINE_MEMORY_H
#define ISO_ENGINE_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes that control groups allow; UINT64_MAX without a limit. root: see iso_cgroup_least. */
uint64_t iso_quota_memory(const char *root);

/* Bytes that this process may hope for at all: RAM and swap of the machine, or less by quota. What others use of it is
 * not known. Thread: any. */
uint64_t iso_memory_allowed(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * How many cores a process may use: the affinity mask, and the control group's quota in both versions of their files.
 */
#ifndef ISO_ENGINE_LOCAL_CORES_H
#define ISO_ENGINE_LOCAL_CORES_H

#include <stdint.h>

/* Cores by quota, rounded up; UINT32_MAX without a limit. root: where the file system begins ("" on a real machine;
 * tests give a folder that looks like one). Every group from the process's own up to the top counts: the tightest one
 * wins. */
uint32_t iso_quota_cores(const char *root);

/* Cores in the affinity mask of the calling thread, at least 1. */
uint32_t iso_affinity_cores(void);

#endif

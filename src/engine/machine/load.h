/* SPDX-License-Identifier: Apache-2.0
 * How busy the machine is, as the kernel counts it since it started: differences of two looks tell of the time between. Thread:
 * any. */
#ifndef ISO_ENGINE_MACHINE_LOAD_H
#define ISO_ENGINE_MACHINE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

/* The calling thread's number for the kernel. */
int iso_load_thread(void);
/* ns that this thread of this process was ready to run and had no core. False: the kernel does not count it. */
bool iso_load_waited(int thread, uint64_t *ns);
/* ns that the cores of the calling thread's affinity mask had nothing to do, all together. False: nobody tells. */
bool iso_load_idle(uint64_t *ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * How fast a simulated machine is at a moment, and how long work takes it. Pure; a function of the cluster, the fates and the
 * seed alone, without libm, so that the same seeds give the same times on every machine.
 *
 * Place: engine/simulate. Times are int64 ns from the start. Thread: any. */
#ifndef ISO_ENGINE_SIMULATE_SPEED_H
#define ISO_ENGINE_SIMULATE_SPEED_H

#include <stdint.h>

#include "isochron/cluster.h"

#define ISO_FOREVER INT64_MAX

/* What happens to one machine: the file's events and drawn ones, by time. */
typedef struct iso_fate {
    const iso_machine_event *event;
    uint32_t count;
} iso_fate;

/* Samples a second at time t, 0 in a pause; *until: it stays so up to there, at most. */
double iso_speed_at(const iso_machine *m, const iso_fate *fate, uint64_t seed, uint32_t id, int64_t t, int64_t *until);

/* When `samples` are done that begin at t, each taking `factor` times as long; ISO_FOREVER: never. */
int64_t iso_speed_end(const iso_machine *m, const iso_fate *fate, uint64_t seed, uint32_t id, int64_t t, double samples,
                      double factor);

/* The factor of order number `order`: noise and outliers. */
double iso_speed_factor(const iso_machine *m, uint64_t seed, uint32_t id, uint64_t order);

#endif

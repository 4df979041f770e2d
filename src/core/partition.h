/* SPDX-License-Identifier: Apache-2.0
 * Whole units for uneven nodes so that the last one is done as early as possible; docs/algorithms.md 3.2. Node k with n > 0
 * units ends at fixed_k + n unit_k; one with none takes no part.
 *
 * Equal finish T (sum of what everyone gets done until T = units) by bracketing, everyone's whole units until T, then each
 * of the fewer than `count` left-over units to whoever would end it first: the exact optimum of the longest time for whole
 * units with bounds (Ibaraki and Katoh 1988). Cost O(K log K). Pure, no allocation; ties go to the lower index, so equal
 * input gives equal shares on every machine.
 *
 * A node for which a single unit would outlast the rest gets none: it is parked, and tried again every so often, less often
 * each time (iso_parking). */
#ifndef ISO_CORE_PARTITION_H
#define ISO_CORE_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

/* A share of this many nodes at most. */
#define ISO_SHARES_MAX 65536u

typedef struct iso_share {
    double unit_ns;       /* time of a unit: positive and finite; else the node gets nothing but `least` */
    double fixed_ns;      /* time it needs however few they are; >= 0 */
    uint32_t least, most; /* bounds of its units, least <= most: `most` from its memory, UINT32_MAX when it has enough */
    uint32_t units;       /* in for iso_partition_keep; out: its share */
} iso_share;

/* When a share of n units ends; 0 for none. */
static inline double iso_share_end(const iso_share *s, uint32_t n)
{
    return n > 0 ? s->fixed_ns + s->unit_ns * n : 0;
}

/* Shares out `units` units: sets units of share[0 .. count). heap: `count` places of the caller's, any content.
 * Returns how many were shared out: fewer than `units` only when the `most` of nodes with a valid time are too few. When
 * the `least` alone are more than `units`, they are given all the same and their sum is returned. */
uint64_t iso_partition(iso_share *share, uint32_t count, uint64_t units, uint32_t *heap);

/* The longest end of the shares as they are; 0 without any. */
double iso_partition_makespan(const iso_share *share, uint32_t count);

/* Hysteresis: are the shares of before (share[i].units, the same nodes and the same sum) still good enough? True when the
 * best ones would end less than ISO_SHARE_GAIN sooner. best: makespan of iso_partition over the same nodes and units. */
#define ISO_SHARE_GAIN 0.03
bool iso_partition_keep(double before, double best);

/* Rounds that a node was too slow for. All zeros: it takes part. */
#define ISO_PARKED_ROUNDS 32u
#define ISO_PARKED_MOST 4096u
typedef struct iso_parking {
    uint32_t rounds; /* in a row without a unit */
    uint32_t wait;   /* rounds until it is tried again; 0: never was parked */
} iso_parking;

/* It got no unit in a round. True: give it one now, to see whether it is still slow. Trying holds up all others, so the
 * wait doubles each time, from ISO_PARKED_ROUNDS to ISO_PARKED_MOST. */
bool iso_parking_skip(iso_parking *p);
/* It got its share: it is not parked. */
void iso_parking_join(iso_parking *p);

#endif

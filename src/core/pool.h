/* SPDX-License-Identifier: Apache-2.0
 * Who has which unit of the present pass. One tag a unit:
 *
 *     free ------take-----> leased (node, part) ------settle-----> settled (node kept for the audit)
 *       ^---------------------------+ revoke
 *
 * Invariant: every unit is in exactly one state, `free` counts the free ones. A part is what one node may lose at once:
 * revoke frees the leased units of one (node, part) and never touches other parts or settled units. */
#ifndef ISO_CORE_POOL_H
#define ISO_CORE_POOL_H

#include "isochron/core.h"

#define POOL_NODE_BITS 16
#define POOL_PART_MAX 0x7FFFu /* parts of a node in one pass */

typedef struct iso_pool {
    uint32_t *tag;       /* settled bit 31 | part << 16 | node; UINT32_MAX: free */
    uint32_t units, free;
    uint32_t low;        /* no unit below it is free */
    uint64_t first, end; /* positions of the pass */
    uint32_t unit;       /* samples */
} iso_pool;

/* All units of positions [first, end) become free. */
void iso_pool_begin(iso_pool *p, uint64_t first, uint64_t end, uint32_t unit);
/* Leases up to `want` free units, the lowest, in at most ISO_RANGES_MAX ranges; returns how many. */
uint32_t iso_pool_take(iso_pool *p, uint32_t node, uint32_t part, uint32_t want, iso_range *range,
                       uint32_t *range_count);
/* The leased units of the ranges count for good. */
void iso_pool_settle(iso_pool *p, const iso_range *range, uint32_t range_count);
/* The leased units of the ranges become free again. */
void iso_pool_return(iso_pool *p, const iso_range *range, uint32_t range_count);
/* The leased units of the ranges become those of another part of the node. */
void iso_pool_retag(iso_pool *p, uint32_t node, uint32_t part, const iso_range *range, uint32_t range_count);
/* Frees what (node, part) has leased; returns how many. Cost O(units): for the rare case. */
uint32_t iso_pool_revoke(iso_pool *p, uint32_t node, uint32_t part);
/* Samples in the ranges. */
uint64_t iso_pool_samples(const iso_pool *p, const iso_range *range, uint32_t range_count);
/* A unit that counts for good, whoever made it: after a resume. It must be free. */
void iso_pool_restore(iso_pool *p, uint32_t unit_index);
bool iso_pool_settled(const iso_pool *p, uint32_t unit_index);
/* Node of a unit that is not free. */
uint32_t iso_pool_node(const iso_pool *p, uint32_t unit_index);

#endif

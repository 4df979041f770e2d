/* SPDX-License-Identifier: Apache-2.0
 * Who has which unit of the present pass: see pool.h. */
#include "core/pool.h"

#include "base/assert.h"

static const uint32_t tag_free = UINT32_MAX, tag_settled = (uint32_t)1 << 31;

static uint32_t tag_of(uint32_t node, uint32_t part)
{
    return part << POOL_NODE_BITS | node;
}

void iso_pool_begin(iso_pool *p, uint64_t first, uint64_t end, uint32_t unit)
{
    p->units = p->free = (uint32_t)iso_units_in(end - first, unit);
    p->low = 0;
    p->first = first;
    p->end = end;
    p->unit = unit;
    for (uint32_t i = 0; i < p->units; i++)
        p->tag[i] = tag_free;
}

uint32_t iso_pool_take(iso_pool *p, uint32_t node, uint32_t part, uint32_t want, iso_range *range,
                       uint32_t *range_count)
{
    uint32_t taken = 0, ranges = 0, at = p->low, tag = tag_of(node, part);
    ISO_ASSERT(part < POOL_PART_MAX); /* so that no tag is the free one */
    while (taken < want && taken < p->free) {
        while (p->tag[at] != tag_free)
            at++;
        if (ranges == ISO_RANGES_MAX)
            break;
        range[ranges] = (iso_range){.first = at, .count = 0};
        while (taken < want && at < p->units && p->tag[at] == tag_free) {
            p->tag[at++] = tag;
            range[ranges].count++;
            taken++;
        }
        ranges++;
    }
    p->low = at;
    p->free -= taken;
    *range_count = ranges;
    return taken;
}

void iso_pool_settle(iso_pool *p, const iso_range *range, uint32_t range_count)
{
    for (uint32_t r = 0; r < range_count; r++)
        for (uint32_t i = 0; i < range[r].count; i++)
            p->tag[range[r].first + i] |= tag_settled;
}

void iso_pool_return(iso_pool *p, const iso_range *range, uint32_t range_count)
{
    for (uint32_t r = 0; r < range_count; r++) {
        for (uint32_t i = 0; i < range[r].count; i++)
            p->tag[range[r].first + i] = tag_free;
        p->free += range[r].count;
        if (range[r].first < p->low)
            p->low = range[r].first;
    }
}

void iso_pool_retag(iso_pool *p, uint32_t node, uint32_t part, const iso_range *range, uint32_t range_count)
{
    for (uint32_t r = 0; r < range_count; r++)
        for (uint32_t i = 0; i < range[r].count; i++)
            p->tag[range[r].first + i] = tag_of(node, part);
}

void iso_pool_restore(iso_pool *p, uint32_t unit_index)
{
    p->tag[unit_index] = tag_settled;
    p->free--;
}

bool iso_pool_settled(const iso_pool *p, uint32_t unit_index)
{
    return p->tag[unit_index] != tag_free && (p->tag[unit_index] & tag_settled) != 0;
}

uint32_t iso_pool_revoke(iso_pool *p, uint32_t node, uint32_t part)
{
    uint32_t freed = 0, tag = tag_of(node, part);
    for (uint32_t i = p->units; i-- > 0;) {
        if (p->tag[i] != tag)
            continue;
        p->tag[i] = tag_free;
        freed++;
        if (i < p->low)
            p->low = i;
    }
    p->free += freed;
    return freed;
}

uint64_t iso_pool_samples(const iso_pool *p, const iso_range *range, uint32_t range_count)
{
    uint64_t samples = 0;
    for (uint32_t r = 0; r < range_count; r++) {
        uint64_t from = p->first + (uint64_t)range[r].first * p->unit, whole = (uint64_t)range[r].count * p->unit;
        samples += p->end - from < whole ? p->end - from : whole;
    }
    return samples;
}

uint32_t iso_pool_node(const iso_pool *p, uint32_t unit_index)
{
    return p->tag[unit_index] & (((uint32_t)1 << POOL_NODE_BITS) - 1);
}

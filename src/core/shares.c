/* SPDX-License-Identifier: Apache-2.0
 * How much each node gets: equal finish by measured speed, then the exact min-max greedy for what is left over. */
#include "core/coordinator.h"

#include "base/assert.h"

double iso_share_unit_ns(const iso_coordinator *c, const node *n)
{
    return n->ns_per_sample * c->pool.unit;
}

static void clear_quotas(iso_coordinator *c)
{
    for (uint32_t i = 0; i < c->live_count; i++)
        c->nodes[c->live[i]].quota = 0;
}

bool iso_shares_of(iso_coordinator *c, uint32_t units)
{
    double rate = 0;
    clear_quotas(c);
    for (uint32_t i = 0; i < c->live_count; i++) {
        const node *n = &c->nodes[c->live[i]];
        rate += n->ns_per_sample > 0 ? 1 / iso_share_unit_ns(c, n) : 0;
    }
    if (!(rate > 0))
        return false;
    double finish = units / rate;
    uint32_t left = units;
    for (uint32_t i = 0; i < c->live_count; i++) {
        node *n = &c->nodes[c->live[i]];
        double whole = n->ns_per_sample > 0 ? finish / iso_share_unit_ns(c, n) : 0;
        n->quota = whole < left ? (uint32_t)whole : left;
        left -= n->quota;
    }
    while (left > 0) {
        node *best = NULL;
        double soonest = 0;
        for (uint32_t i = 0; i < c->live_count; i++) {
            node *n = &c->nodes[c->live[i]];
            double end = iso_share_unit_ns(c, n) * (n->quota + 1.0);
            if (n->ns_per_sample > 0 && (!best || end < soonest)) {
                best = n;
                soonest = end;
            }
        }
        ISO_ASSERT(best);
        best->quota++;
        left--;
    }
    return true;
}

uint64_t iso_shares_within(iso_coordinator *c, double ns)
{
    const double slack = 0.02; /* of a unit: a share that misses a whole one by a breath has it */
    uint64_t units = 0;
    clear_quotas(c);
    for (uint32_t i = 0; i < c->live_count; i++) {
        node *n = &c->nodes[c->live[i]];
        double whole = n->ns_per_sample > 0 ? ns / iso_share_unit_ns(c, n) + slack : 0;
        n->quota = whole < INT32_MAX ? (uint32_t)whole : INT32_MAX;
        units += n->quota;
    }
    return units;
}

void iso_shares_grant(iso_coordinator *c)
{
    if (!iso_shares_of(c, c->pool.free))
        return;
    for (uint32_t i = 0; i < c->live_count && c->pool.free > 0; i++)
        if (c->nodes[c->live[i]].quota > 0)
            iso_lease_grant(c, c->live[i], c->nodes[c->live[i]].quota, true, false);
}

/* SPDX-License-Identifier: Apache-2.0
 * How much each node gets: see partition.h. */
#include "core/coordinator.h"

double iso_share_unit_ns(const iso_coordinator *c, const node *n)
{
    return n->score.ns * c->pool.unit;
}

/* Nodes of unknown speed do a little to be measured. */
static uint32_t probe_units(const node *n)
{
    return n->score.ns > 0 ? 0 : iso_score_probe_units(&n->score);
}

/* What is known of the live nodes, with the quotas as they are. Returns the units that are probes. */
static uint32_t fill(iso_coordinator *c)
{
    uint32_t probes = 0;
    for (uint32_t i = 0; i < c->live_count; i++) {
        const node *n = &c->nodes[c->live[i]];
        uint32_t probe = probe_units(n);
        c->share_of[i] = (iso_share){
            .unit_ns = iso_share_unit_ns(c, n),
            .fixed_ns = iso_overhead_ns(&n->fixed),
            .least = probe,
            .most = probe > 0 ? probe : UINT32_MAX,
            .units = n->quota,
        };
        probes += probe;
    }
    return probes;
}

/* Nodes too slow for one unit get one now and then. True when one does this time. */
static bool try_parked(iso_coordinator *c)
{
    bool tried = false;
    for (uint32_t i = 0; i < c->live_count; i++) {
        node *n = &c->nodes[c->live[i]];
        if (c->share_of[i].units > 0) {
            iso_parking_join(&n->parking);
        } else if (iso_member_try_again(c, n)) {
            c->share_of[i].least = 1;
            tried = true;
        }
    }
    return tried;
}

bool iso_shares_of(iso_coordinator *c, uint32_t units)
{
    uint32_t probes = fill(c);
    double before = iso_partition_makespan(c->share_of, c->live_count);
    iso_partition(c->share_of, c->live_count, units, c->heap);
    bool stay = probes == 0 && c->shared_units == units &&
                iso_partition_keep(before, iso_partition_makespan(c->share_of, c->live_count));
    if (stay)
        for (uint32_t i = 0; i < c->live_count; i++)
            c->share_of[i].units = c->nodes[c->live[i]].quota;
    bool tried = try_parked(c);
    if (tried)
        iso_partition(c->share_of, c->live_count, units, c->heap);
    for (uint32_t i = 0; i < c->live_count; i++)
        c->nodes[c->live[i]].quota = c->share_of[i].units;
    c->shared_units = probes == 0 && !tried ? units : 0;
    return c->known_count > 0;
}

uint64_t iso_shares_within(iso_coordinator *c, double ns)
{
    const double slack = 0.02; /* of a unit: a share that misses a whole one by a breath has it */
    uint64_t units = 0;
    c->shared_units = 0;
    for (uint32_t i = 0; i < c->live_count; i++) {
        node *n = &c->nodes[c->live[i]];
        double whole = n->score.ns > 0 ? ns / iso_share_unit_ns(c, n) + slack : 0;
        n->quota = probe_units(n) + (whole < INT32_MAX ? (uint32_t)whole : INT32_MAX);
        units += n->score.ns > 0 ? n->quota : 0;
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

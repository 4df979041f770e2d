/* SPDX-License-Identifier: Apache-2.0
 * nns: a batch is cut into computing units, nodes pull leases of them, one exact integer sum and one step a batch. Fast
 * nodes come back sooner and get more; nobody has to be told who is fast. */
#include "core/policy.h"

/* A node whose single unit would outlast all the rest takes no part in this pass: the others are done sooner without
 * it. Without it: the units left at the others' speed, and at least about half a unit of waiting plus one unit on the
 * fastest. */
static bool would_be_last(const iso_asking *a)
{
    double others = a->total_speed - a->speed;
    if (a->speed <= 0 || others <= 0 || a->fastest <= 0)
        return false;
    double alone = 1 / a->speed, without = ((double)a->free + (double)a->leased) / others, least = 1.5 / a->fastest;
    return alone > (without > least ? without : least);
}

uint32_t iso_share_guided(const iso_asking *a)
{
    if (a->speed <= 0 || a->total_speed <= 0) /* not measured yet: one unit is the probe */
        return 1;
    if (would_be_last(a))
        return 0;
    double part = (double)a->free * (a->speed / a->total_speed) / 2;
    uint32_t whole = part < (double)a->free ? (uint32_t)part : a->free;
    return (double)whole < part || whole == 0 ? whole + 1 : whole;
}

const iso_policy iso_policy_nns = {
    .name = "nns",
    .summary = "computing units pulled by the nodes, exact sum, one step a batch: same weights on any nodes (default)",
    .source = "NN-S (Zhu 2020); shares by guided self-scheduling (Polychronopoulos and Kuck 1987)",
};

/* SPDX-License-Identifier: Apache-2.0
 * bsp: every node gets the same number of units, whatever its speed, in one lease. The baseline that others are held
 * against. */
#include "core/policy.h"

uint32_t iso_share_equal(const iso_asking *a)
{
    if (a->holding > 0 || a->idle == 0)
        return 0;
    return a->free / a->idle + (a->free % a->idle != 0);
}

static uint32_t units(const iso_policy_spec *spec, const iso_asking *a)
{
    (void)spec;
    return iso_share_equal(a);
}

const iso_policy iso_policy_bsp = {
    .name = "bsp",
    .summary = "equal split of every batch over the nodes, exact sum: waits for the slowest node",
    .source = "baseline: bulk-synchronous parallel (Valiant 1990), as in DDP and Horovod",
    .units = units,
};

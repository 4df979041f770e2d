/* SPDX-License-Identifier: Apache-2.0
 * cumulative: classic cumulative back-propagation, one exact step a pass over the whole training set. */
#include "core/policy.h"

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)value;
    (void)batch;
    plan->batch = samples;
}

const iso_policy iso_policy_cumulative = {
    .name = "cumulative",
    .summary = "cumulative BP: one step an epoch from the sum over all samples; ignores batch",
    .source = "classic batch back-propagation; one end of MixBP (Zhu 2020)",
    .ignores_batch = true,
    .plan = plan,
};

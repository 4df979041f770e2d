/* SPDX-License-Identifier: Apache-2.0
 * online: classic online back-propagation, one step after every sample. A round has one unit of one sample, so one node
 * works at a time. */
#include "core/policy.h"

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)value;
    (void)samples;
    (void)batch;
    plan->batch = 1;
}

const iso_policy iso_policy_online = {
    .name = "online",
    .summary = "online BP: one step after every sample; ignores batch",
    .source = "classic online back-propagation; one end of MixBP (Zhu 2020)",
    .ignores_batch = true,
    .plan = plan,
};

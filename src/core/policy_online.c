/* SPDX-License-Identifier: Apache-2.0
 * online: classic online back-propagation, one step after every sample. One node works at a time and hands on its weights and
 * its optimiser's state, so that the bits do not depend on which nodes there are. */
#include "core/policy.h"

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    const double lease = 1024; /* samples: what a death can cost */
    (void)value;
    (void)samples;
    (void)batch;
    iso_plan_local(plan, ISO_PAYLOAD_EXACT, 1, lease);
    plan->one_node = true;
}

const iso_policy iso_policy_online = {
    .name = "online",
    .summary = "online BP: one step after every sample, on one node at a time; ignores batch",
    .source = "classic online back-propagation; one end of MixBP (Zhu 2020)",
    .ignores_batch = true,
    .plan = plan,
};

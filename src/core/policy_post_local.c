/* SPDX-License-Identifier: Apache-2.0
 * post-local: one step a merge until the learning rate first falls, local SGD from then on. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, PERIOD, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_FP32),
    ISO_PARAMETER_LOCAL_BATCH(16),
    ISO_PARAMETER_PERIOD(16, "steps of the fastest node between two merges, once the rate has fallen"),
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], value[PERIOD]);
    plan->trigger = ISO_TRIGGER_SWITCH;
}

const iso_policy iso_policy_post_local = {
    .name = "post-local",
    .summary = "a merge a step until the learning rate falls, then local SGD; ignores batch",
    .source = "post-local SGD (Lin et al., arXiv:1808.07217)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

/* SPDX-License-Identifier: Apache-2.0
 * diloco: long rounds of local steps, then an outer Nesterov step on their mean difference. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, PERIOD, OUTER_RATE, OUTER_MOMENTUM, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_FP32),
    ISO_PARAMETER_LOCAL_BATCH(16),
    ISO_PARAMETER_PERIOD(500, "steps of the fastest node between two merges"),
    {"outer_rate", ISO_OPTION_FLOAT, 0.7, 1e-6, 10, NULL, "learning rate of the outer step"},
    {"outer_momentum", ISO_OPTION_FLOAT, 0.9, 0, 0.9999, NULL, "its momentum"},
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], value[PERIOD]);
    plan->outer = (iso_outer){.rate = value[OUTER_RATE], .momentum = value[OUTER_MOMENTUM]};
}

const iso_policy iso_policy_diloco = {
    .name = "diloco",
    .summary = "long rounds of local steps, an outer Nesterov step on the mean difference; ignores batch",
    .source = "DiLoCo (Douillard et al., arXiv:2311.08105)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

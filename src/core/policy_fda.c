/* SPDX-License-Identifier: Apache-2.0
 * fda: local steps, merged when the variance between the nodes exceeds a threshold. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, THETA, H_MAX, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_FP32),
    ISO_PARAMETER_LOCAL_BATCH(16),
    {"theta", ISO_OPTION_FLOAT, 0.3, 0, 1e9, NULL, "merge when the variance between the nodes is above it"},
    {"h_max", ISO_OPTION_INT, 512, 1, 1 << 24, NULL, "most steps of the fastest node between two merges"},
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], value[H_MAX]);
    plan->trigger = ISO_TRIGGER_VARIANCE;
    plan->theta = value[THETA];
    plan->h_min = 1;
    plan->monitor_every = 4;
}

const iso_policy iso_policy_fda = {
    .name = "fda",
    .summary = "local steps, merged when the variance between the nodes exceeds theta; ignores batch",
    .source = "FDA (Theologitis et al., EDBT 2025, arXiv:2405.20988)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

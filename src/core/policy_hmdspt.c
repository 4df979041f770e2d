/* SPDX-License-Identifier: Apache-2.0
 * hmdspt: small local batches in proportion to the scores, micro-differences with error feedback, merged when the nodes
 * have moved far enough apart for the loss at hand: coarse at first, fine later. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, THETA, H_MIN, H_MAX, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_INT8),
    ISO_PARAMETER_LOCAL_BATCH(16),
    {"theta", ISO_OPTION_FLOAT, 0.1, 0, 1e9, NULL, "factor on the threshold that calibrates itself"},
    {"h_min", ISO_OPTION_INT, 8, 1, 1 << 24, NULL, "fewest steps of the fastest node between two merges"},
    {"h_max", ISO_OPTION_INT, 1024, 1, 1 << 24, NULL, "most steps of the fastest node between two merges"},
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], value[H_MAX]);
    plan->trigger = ISO_TRIGGER_MICRO;
    plan->theta = value[THETA];
    plan->h_min = (uint32_t)(value[H_MIN] < value[H_MAX] ? value[H_MIN] : value[H_MAX]);
    plan->monitor_every = plan->h_min < plan->h_max ? 4 : 0;
    plan->boxed = plan->h_min < plan->h_max;
}

const iso_policy iso_policy_hmdspt = {
    .name = "hmdspt",
    .summary = "shares by score, small local steps, micro-differences merged as the loss asks for; ignores batch",
    .source = "HMDSPT (Huang et al., Computer Engineering and Science 46(11), 2024)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

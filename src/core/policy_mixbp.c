/* SPDX-License-Identifier: Apache-2.0
 * mixbp: online BP inside a node, the cumulative update across nodes at a period. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, PERIOD, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_INT8),
    ISO_PARAMETER_LOCAL_BATCH(1),
    ISO_PARAMETER_PERIOD(512, "samples of the fastest node between two merges"),
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    double steps = value[PERIOD] / value[LOCAL_BATCH];
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], steps > 1 ? steps : 1);
}

const iso_policy iso_policy_mixbp = {
    .name = "mixbp",
    .summary = "an update a sample inside a node, the cumulative update across nodes at a period; ignores batch",
    .source = "MixBP (Zhu 2020)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

/* SPDX-License-Identifier: Apache-2.0
 * local-sgd: a fixed number of local steps, then the weighted mean. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, PERIOD, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_FP32),
    ISO_PARAMETER_LOCAL_BATCH(16),
    ISO_PARAMETER_PERIOD(32, "steps of the fastest node between two merges"),
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], value[PERIOD]);
}

const iso_policy iso_policy_local_sgd = {
    .name = "local-sgd",
    .summary = "local steps in proportion to the speeds, merged at a fixed period; ignores batch",
    .source = "local SGD (Stich, arXiv:1805.09767)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

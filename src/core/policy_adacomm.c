/* SPDX-License-Identifier: Apache-2.0
 * adacomm: the period falls with the square root of the loss. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, PERIOD, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    ISO_PARAMETER_PAYLOAD(ISO_PAYLOAD_FP32),
    ISO_PARAMETER_LOCAL_BATCH(16),
    ISO_PARAMETER_PERIOD(64, "steps of the fastest node between two merges, at first"),
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_local(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH], value[PERIOD]);
    plan->trigger = ISO_TRIGGER_LOSS;
}

const iso_policy iso_policy_adacomm = {
    .name = "adacomm",
    .summary = "local steps, merged the more often the lower the loss is; ignores batch",
    .source = "AdaComm (Wang and Joshi, MLSys 2019, arXiv:1810.08313)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

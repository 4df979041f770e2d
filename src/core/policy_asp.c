/* SPDX-License-Identifier: Apache-2.0
 * asp: every gradient is applied when it comes; nobody waits. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    {"payload", ISO_OPTION_CHOICE, ISO_PAYLOAD_FP32, 0, ISO_PAYLOADS - 1, iso_payload_words, "how gradients are sent"},
    {"local_batch", ISO_OPTION_INT, 16, 1, 1 << 20, NULL, "samples of one gradient"},
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_free(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH]);
}

const iso_policy iso_policy_asp = {
    .name = "asp",
    .summary = "asynchronous: every gradient applied as it comes, over 1 + staleness; nobody waits; ignores batch",
    .source = "baseline: asynchronous parameter server; DynSGD (Jiang et al., SIGMOD 2017)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

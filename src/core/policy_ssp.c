/* SPDX-License-Identifier: Apache-2.0
 * ssp: every gradient is applied when it comes, but no node may be more than `staleness` leases ahead of the slowest. */
#include "core/policy.h"

enum { PAYLOAD, LOCAL_BATCH, STALENESS, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    {"payload", ISO_OPTION_CHOICE, ISO_PAYLOAD_FP32, 0, ISO_PAYLOADS - 1, iso_payload_words, "how gradients are sent"},
    {"local_batch", ISO_OPTION_INT, 16, 1, 1 << 20, NULL, "samples of one gradient"},
    {"staleness", ISO_OPTION_INT, 3, 0, 1 << 20, NULL, "gradients a node may be ahead of the slowest one"},
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    (void)batch;
    iso_plan_free(plan, (iso_payload)value[PAYLOAD], value[LOCAL_BATCH]);
    plan->staleness = (uint32_t)value[STALENESS];
}

const iso_policy iso_policy_ssp = {
    .name = "ssp",
    .summary = "stale synchronous: gradients applied as they come, a bound on how far a node may run ahead; ignores batch",
    .source = "SSP (Ho et al., NeurIPS 2013); step over 1 + staleness (Jiang et al., SIGMOD 2017)",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .ignores_batch = true,
    .plan = plan,
};

/* SPDX-License-Identifier: Apache-2.0
 * lb-bsp: every batch is split in proportion to the measured speeds, so that all nodes end at the same moment. With the
 * exact payload its weights are those of nns and bsp; with a smaller one it is the honest rival of local steps. */
#include "core/policy.h"

enum { PAYLOAD, BATCH, PARAMETERS };

static const iso_option parameters[PARAMETERS] = {
    {"payload", ISO_OPTION_CHOICE, ISO_PAYLOAD_EXACT, 0, ISO_PAYLOADS - 1, iso_payload_words,
     "exact: integer sums, same bits as nns; else mean gradients with error feedback"},
    {"batch", ISO_OPTION_INT, 0, 0, 1 << 30, NULL, "global batch instead of the job's; 0: the job's"},
};

static void plan(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan)
{
    (void)samples;
    plan->by_score = true;
    plan->batch = value[BATCH] > 0 ? (uint64_t)value[BATCH] : batch;
    plan->up = plan->down = (iso_payload)value[PAYLOAD];
    if (plan->up != ISO_PAYLOAD_EXACT)
        plan->way = ISO_PLAN_GRADIENT;
}

const iso_policy iso_policy_lb_bsp = {
    .name = "lb-bsp",
    .summary = "every batch split by measured speed, so that all end together; exact sum, or payload=int8",
    .source = "LB-BSP (Chen et al., SoCC 2020); integer optimum of Ibaraki and Katoh 1988",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .plan = plan,
};

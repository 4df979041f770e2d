/* SPDX-License-Identifier: Apache-2.0
 * A policy's settings for engines and workers: the standard plan, and the forms that several policies share. */
#include "core/policy.h"

const char *const iso_payload_words[] = {"exact", "fp32", "bf16", "int8", "int4", NULL};

const char *iso_way_name(iso_way way)
{
    static const char *const names[] = {"sum", "gradient", "local"};
    return (unsigned)way < sizeof names / sizeof names[0] ? names[way] : "?";
}

void iso_policy_plan(const iso_policy_spec *spec, uint64_t samples, uint64_t batch, iso_plan *out)
{
    *out = (iso_plan){.way = ISO_PLAN_SUM, .batch = batch, .staleness = UINT32_MAX, .outer = {.rate = 1}};
    if (spec->policy->plan)
        spec->policy->plan(spec->value, samples, batch, out);
}

void iso_plan_local(iso_plan *plan, iso_payload payload, double local_batch, double period)
{
    plan->way = ISO_PLAN_LOCAL;
    plan->whole_epoch = plan->by_score = true;
    plan->local_batch = (uint32_t)local_batch;
    plan->batch = plan->local_batch;
    plan->h_min = plan->h_max = (uint32_t)period;
    plan->up = plan->down = payload;
}

void iso_plan_free(iso_plan *plan, iso_payload payload, double local_batch)
{
    plan->way = ISO_PLAN_GRADIENT;
    plan->free = plan->whole_epoch = true;
    plan->batch = (uint64_t)local_batch;
    plan->up = payload;
    plan->down = ISO_PAYLOAD_EXACT;
}

uint64_t iso_policy_batch(const iso_policy_spec *spec, uint64_t samples, uint64_t batch)
{
    iso_plan plan;
    iso_policy_plan(spec, samples, batch, &plan);
    return plan.batch < samples ? plan.batch : samples;
}

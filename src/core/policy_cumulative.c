/* SPDX-License-Identifier: Apache-2.0
 * cumulative: classic cumulative back-propagation, one exact step a pass over the whole training set. */
#include "core/policy.h"

static uint64_t batch_whole(const iso_policy_spec *spec, uint64_t samples, uint64_t batch)
{
    (void)spec;
    (void)batch;
    return samples;
}

static uint32_t units(const iso_policy_spec *spec, const iso_asking *a)
{
    (void)spec;
    return iso_share_guided(a);
}

const iso_policy iso_policy_cumulative = {
    .name = "cumulative",
    .summary = "cumulative BP: one step an epoch from the sum over all samples; ignores batch",
    .source = "classic batch back-propagation; one end of MixBP (Zhu 2020)",
    .ignores_batch = true,
    .batch = batch_whole,
    .units = units,
};

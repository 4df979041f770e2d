/* SPDX-License-Identifier: Apache-2.0
 * online: classic online back-propagation, one step after every sample. A round has one unit of one sample, so one node
 * works at a time. */
#include "core/policy.h"

static uint64_t batch_one(const iso_policy_spec *spec, uint64_t samples, uint64_t batch)
{
    (void)spec;
    (void)samples;
    (void)batch;
    return 1;
}

static uint32_t units(const iso_policy_spec *spec, const iso_asking *a)
{
    (void)spec;
    return iso_share_guided(a);
}

const iso_policy iso_policy_online = {
    .name = "online",
    .summary = "online BP: one step after every sample; ignores batch",
    .source = "classic online back-propagation; one end of MixBP (Zhu 2020)",
    .ignores_batch = true,
    .batch = batch_one,
    .units = units,
};

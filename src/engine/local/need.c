/* SPDX-License-Identifier: Apache-2.0
 * Sums up what iso_local_new, the snapshot and the best weights take (need.h). */
#include "engine/local/need.h"

#define KEPT_UNITS_MAX 64u /* units of a batch whose dense gradients are taken in the update */
#define KEPT_BYTES_MAX ((size_t)64 << 20)

bool iso_local_keeps(const iso_net *net, uint32_t unit, uint64_t units, size_t *bytes)
{
    *bytes = (iso_kept_bytes(net, unit) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    return units <= KEPT_UNITS_MAX && *bytes <= KEPT_BYTES_MAX / units;
}

/* Of one worker with weights of its own: itself, its answer and what it hears. */
static double of_replica(const iso_need_of *of)
{
    const iso_plan *plan = of->plan;
    iso_replica_config c = {.net = of->net,
                            .optimizer = of->optimizer,
                            .way = plan->way == ISO_PLAN_LOCAL ? ISO_WAY_LOCAL : ISO_WAY_GRADIENT,
                            .samples = of->samples,
                            .total = of->samples,
                            .unit = of->unit,
                            .local_batch = plan->local_batch,
                            .monitor = plan->monitor_every > 0,
                            .carry = plan->one_node};
    return (double)iso_replica_bytes(&c) + (double)iso_pass_bytes(of->net, of->unit, true) +
           (double)iso_payload_bytes(plan->up, iso_net_parameters(of->net));
}

iso_need iso_local_need(const iso_need_of *of)
{
    double weights = (double)sizeof(float) * (double)iso_net_values(of->net);
    double arrays = iso_optimizer_states(of->optimizer);
    uint64_t units = iso_units_in(of->batch, of->unit);
    size_t block;
    double kept = iso_local_keeps(of->net, of->unit, units, &block) ? (double)units : 1;
    double worker = (double)sizeof(int64_t) * (double)iso_net_values(of->net) +
                    (double)iso_pass_bytes(of->net, of->unit, true) + kept * (double)block;
    if (of->plan && of->plan->way != ISO_PLAN_SUM)
        return (iso_need){.parameters = weights * (of->best ? 6 : 5),
                          .optimizer = 2 * (arrays + 2) * weights,
                          .workers = of->workers * of_replica(of)};
    return (iso_need){.parameters = weights * (of->best ? 3 : 2), .optimizer = 2 * arrays * weights,
                      .workers = of->workers * worker};
}

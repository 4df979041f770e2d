/* SPDX-License-Identifier: Apache-2.0
 * How fast a worker is alone: rounds of the job's batch on copies of the weights, for a fraction of a second. */
#include <string.h>

#include "engine/local/inside.h"

#define CALIBRATION_NS 400000000
#define LEASE_SAMPLES 512u /* of local steps, before the clock is looked at */

/* One round as the run would do it with this worker alone. */
static uint64_t one_round(iso_local *l, worker *w, float *weights, float *const *state, uint64_t round,
                          uint64_t batch)
{
    uint64_t samples = l->core.samples, first, count;
    iso_round_positions(samples, batch, round % iso_epoch_rounds(samples, batch), &first, &count);
    uint64_t units = iso_units_in(count, l->config.unit);
    iso_compute c = {.purpose = ISO_PASS_TRAIN,
                     .fresh = true,
                     .seed = l->core.seed,
                     .samples = samples,
                     .first = first,
                     .end = first + count,
                     .unit = l->config.unit,
                     .pass_units = (uint32_t)units,
                     .units = (uint32_t)units,
                     .range_count = 1,
                     .range = {{.first = 0, .count = (uint32_t)units}}};
    iso_totals totals;
    w->weights = weights;
    iso_local_compute(w, &c, &totals);
    iso_update u = {.optimizer = &l->core.optimizer,
                    .rate = l->core.optimizer.learning_rate,
                    .step = round + 1,
                    .samples = count,
                    .units = units,
                    .w = weights,
                    .state = state,
                    .sum = &w->sum,
                    .sum_count = 1,
                    .kept = l->update.kept,
                    .unit = l->config.unit};
    for (uint32_t k = 0; l->deferred && k < w->kept_count; k++)
        l->update.kept[u.kept_count++] = w->kept + k * l->kept_bytes;
    int32_t bad_layer;
    iso_net_update(l->config.net, &u, 0, l->values, &bad_layer);
    return count;
}

/* Some local steps, or a gradient, of the worker's own. */
static uint64_t one_lease(iso_local *l, worker *w, uint64_t round)
{
    uint64_t samples = l->core.samples, unit = l->config.unit, units = iso_units_in(samples, l->config.unit);
    uint64_t lease = iso_units_in(LEASE_SAMPLES, l->config.unit), leases = (units + lease - 1) / lease;
    uint64_t first = round % leases * lease, count = first + lease < units ? lease : units - first;
    iso_compute c = {.purpose = ISO_PASS_TRAIN,
                     .fresh = true,
                     .seed = l->core.seed,
                     .samples = samples,
                     .end = samples,
                     .unit = (uint32_t)unit,
                     .pass_units = (uint32_t)units,
                     .units = (uint32_t)count,
                     .range_count = 1,
                     .range = {{.first = (uint32_t)first, .count = (uint32_t)count}}};
    iso_event done;
    iso_local_replica_train(w, &c, &done);
    return done.totals.samples;
}

/* A worker with weights of its own measures itself on them; they are sent anew when it joins. */
static int calibrate_replica(iso_local *l, worker *w, const atomic_int *stop, double *samples_per_second, iso_error *e)
{
    size_t count = iso_replica_full_bytes(w->replica);
    void *full = iso_new(l->alloc, count, 1);
    if (!full)
        return iso_error_set(e, ISO_E_NOMEM, "no memory to calibrate on copies of the weights");
    iso_merger_full(l->merger, full);
    int result = iso_replica_adopt(w->replica, full, count, e);
    iso_free(l->alloc, full);
    uint64_t samples = 0;
    int64_t begun = iso_clock_ns(), now = begun;
    for (uint64_t round = 0; result == 0 && (round == 0 || now - begun < CALIBRATION_NS); round++) {
        samples += one_lease(l, w, round);
        now = iso_clock_ns();
        if (stop && atomic_load(stop))
            result =
                iso_error_set(e, ISO_E_INTERRUPTED, "stopped while the workers were measured; nothing was trained");
    }
    *samples_per_second = now > begun ? (double)samples * 1e9 / (double)(now - begun) : 0;
    iso_replica_reset(w->replica);
    w->debt_ns = 0;
    return result;
}

int iso_local_calibrate(iso_local *l, uint32_t worker_id, const atomic_int *stop, double *samples_per_second,
                        iso_error *e)
{
    worker *w = &l->worker[worker_id];
    if (w->replica)
        return calibrate_replica(l, w, stop, samples_per_second, e);
    float *weights = iso_new_raw(l->alloc, l->values, sizeof *weights), *state[ISO_STATES_MAX] = {0};
    bool enough = weights != NULL;
    for (uint32_t i = 0; enough && i < l->states; i++)
        enough = (state[i] = iso_new(l->alloc, l->values, sizeof(float))) != NULL;
    int result = enough ? 0 : iso_error_set(e, ISO_E_NOMEM, "no memory to calibrate on copies of the weights");
    uint64_t batch = iso_policy_batch(&l->config.policy, l->core.samples, l->core.batch), samples = 0;
    int64_t begun = iso_clock_ns(), now = begun;
    if (result == 0)
        memcpy(weights, l->buffer[l->current], l->values * sizeof *weights);
    for (uint64_t round = 0; result == 0 && (round == 0 || now - begun < CALIBRATION_NS); round++) {
        samples += one_round(l, w, weights, state, round, batch);
        now = iso_clock_ns();
        if (stop && atomic_load(stop))
            result =
                iso_error_set(e, ISO_E_INTERRUPTED, "stopped while the workers were measured; nothing was trained");
    }
    *samples_per_second = now > begun ? (double)samples * 1e9 / (double)(now - begun) : 0;
    w->debt_ns = 0;
    for (uint32_t i = 0; i < ISO_STATES_MAX; i++)
        iso_free(l->alloc, state[i]);
    iso_free(l->alloc, weights);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0
 * How fast a worker is alone: a run of this worker and nobody else, on copies of the weights, for a fraction of a second. It is an
 * engine of its own, so that what is measured is what the run does: same threads, same path, same policy. */
#include <string.h>

#include "engine/local/inside.h"

#define WARM_NS 100000000 /* of rounds that do not count: pages, caches and the clock of the core come to rest */
#define MEASURED_NS 400000000
#define LOOK_NS 50000000 /* at the flag that stops it */
#define EPOCHS 1000000   /* more than it gets to; as many as a job may have */

typedef struct measurement {
    int64_t warm_ns, ns;
    uint64_t samples;
} measurement;

static void add_round(measurement *m, const iso_round_result *r)
{
    int64_t ns = r->ended - r->started;
    if (m->warm_ns < WARM_NS) {
        m->warm_ns += ns;
        return;
    }
    m->ns += ns;
    m->samples += r->totals.samples;
}

static void copy_weights(iso_local *to, const iso_local *from)
{
    if (from->replicas)
        memcpy(iso_merger_array(to->merger, 0), iso_merger_array(from->merger, 0),
               iso_net_parameters(from->config.net) * sizeof(float));
    else
        memcpy(to->buffer[to->current], from->buffer[from->current], from->values * sizeof(float));
}

/* Until enough is measured or *stop. Weights that blow up end it early: the run will say so of itself. */
static int measure(iso_local *l, const atomic_int *stop, measurement *m, iso_error *e)
{
    int result = iso_local_start(l, NULL, NULL, e);
    if (result)
        return result;
    bool stopping = false, over = false;
    while (!over) {
        const iso_note *n = iso_local_next(l, iso_clock_ns() + LOOK_NS);
        if (n) {
            over = n->kind == ISO_NOTE_DONE || n->kind == ISO_NOTE_FAILED;
            if (n->kind == ISO_NOTE_FAILED && iso_local_error(l)->code != ISO_E_NONFINITE) {
                *e = *iso_local_error(l);
                result = e->code;
            }
            if (n->kind == ISO_NOTE_ROUND)
                add_round(m, &n->round);
            iso_local_pop(l);
        }
        if (stop && atomic_load(stop) && result == 0)
            result = iso_error_set(e, ISO_E_INTERRUPTED, "stopped while the workers were measured; nothing was trained");
        if (!stopping && (result || m->ns >= MEASURED_NS)) {
            iso_local_stop(l);
            stopping = true;
        }
    }
    iso_local_join(l);
    return result;
}

int iso_local_calibrate(const iso_local *l, uint32_t worker_id, const atomic_int *stop, double *samples_per_second, iso_error *e)
{
    iso_feed feed = *l->config.feed;
    feed.view[ISO_FEED_VALIDATION] = feed.view[ISO_FEED_TEST] = (iso_view){.count = 0};
    iso_job *job = iso_new_raw(l->alloc, 1, sizeof *job);
    if (!job)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a copy of the job");
    *job = *l->config.job;
    job->epochs = EPOCHS;
    iso_local_config config = l->config;
    config.feed = &feed;
    config.job = job;
    config.workers = 1;
    config.throttle_count = 0;
    config.faults = NULL;
    measurement m = {0};
    iso_local *alone;
    int result = iso_local_new(&alone, &config, e);
    if (result == 0) {
        alone->worker[0].slowdown = l->worker[worker_id].slowdown;
        copy_weights(alone, l);
        result = measure(alone, stop, &m, e);
        iso_local_free(alone);
    }
    *samples_per_second = m.ns > 0 ? (double)m.samples * 1e9 / (double)m.ns : 0;
    iso_free(l->alloc, job);
    return result;
}

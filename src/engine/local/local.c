/* SPDX-License-Identifier: Apache-2.0
 * The local engine's life: memory, threads, and what the calling thread does. */
#include "engine/local/local.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "engine/local/cores.h"
#include "engine/local/inside.h"

#define DEADLINE_FLOOR_NS 1000000000
#define PROGRAM_VERSION 1u

static int no_memory(iso_error *e, const char *what, size_t bytes)
{
    return iso_error_set(e, ISO_E_NOMEM, "no memory for %s: %zu bytes were asked for", what, bytes);
}

/* ---- configuration of the core ------------------------------------------------------------------------- */

static uint32_t slices_for(uint32_t workers, size_t values)
{
    size_t most = values / SLICE_VALUES_MIN + 1, wanted = (size_t)workers * SLICES_PER_WORKER;
    size_t slices = wanted < most ? wanted : most;
    return slices < ISO_SLICES_MAX ? (uint32_t)slices : ISO_SLICES_MAX;
}

static void configure_core(iso_local *l)
{
    const iso_local_config *g = &l->config;
    iso_core_config *c = &l->core;
    iso_core_config_default(c);
    c->samples = g->feed->view[ISO_FEED_TRAIN].count;
    c->validation = g->feed->view[ISO_FEED_VALIDATION].count;
    c->test = g->feed->view[ISO_FEED_TEST].count;
    c->batch = g->job->batch;
    c->unit = g->unit;
    c->epochs = g->job->epochs;
    c->seed = g->job->seed;
    c->policy = g->policy;
    c->optimizer = g->job->optimizer;
    c->schedule = g->job->schedule;
    c->values = l->values;
    c->net = g->net;
    c->job_digest = g->job_digest;
    c->data_digest = g->data_digest;
    c->program = PROGRAM_VERSION;
    c->nodes_max = c->nodes_first = g->workers;
    c->first_wait = 2 * (int64_t)DEADLINE_FLOOR_NS;
    c->slices = l->plan.free ? 1 : slices_for(g->workers, l->values);
    c->sums_in_place = c->shared_weights = !l->replicas;
    c->audit = true;
    c->depth = 1; /* the thread that finishes a lease takes the next one itself: there is no latency to hide */
    c->resend = 0;
    c->deadline_floor = DEADLINE_FLOOR_NS;
    c->checkpoint_rounds = g->job->checkpoint.every;
    c->checkpoint_ns = g->job->checkpoint.seconds > 0 ? (int64_t)(g->job->checkpoint.seconds * 1e9) : 0;
}

static void choose_deferral(iso_local *l)
{
    const iso_local_config *g = &l->config;
    uint64_t batch = iso_policy_batch(&g->policy, l->core.samples, g->job->batch);
    uint64_t units = iso_units_in(batch, g->unit);
    if (l->replicas) /* they keep what they need */
        return;
    l->deferred = iso_local_keeps(g->net, g->unit, units, &l->kept_bytes);
    l->kept_capacity = l->deferred ? (uint32_t)units : 1;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

void iso_local_worker_core(worker *w)
{
    const iso_local *l = w->local;
    iso_worker_config c = {.node = w->id,
                           .life = (uint64_t)iso_clock_ns(),
                           .samples = l->core.samples,
                           .validation = l->core.validation,
                           .test = l->core.test,
                           .seed = l->core.seed,
                           .job_digest = l->core.job_digest,
                           .data_digest = l->core.data_digest,
                           .program = PROGRAM_VERSION,
                           .shared_weights = !l->replicas};
    w->core = iso_worker_init(&c, w->core_memory);
}

static int worker_init(iso_local *l, uint32_t id, iso_error *e)
{
    worker *w = &l->worker[id];
    const iso_local_config *g = &l->config;
    w->local = l;
    w->id = id;
    w->wake_at = ISO_NEVER;
    w->slowdown = 1;
    if (iso_bell_init(&w->bell))
        return no_memory(e, "a worker's bell", sizeof w->bell);
    w->have_bell = true;
    bool trains = !l->replicas; /* else there is another pass for that */
    size_t pass = iso_pass_bytes(g->net, g->unit, trains), copies = iso_feeder_bytes(g->feed);
    size_t sums = trains ? l->values * sizeof *w->sum : 0, kept = trains ? l->kept_capacity * l->kept_bytes : 0;
    w->core_memory = iso_new_raw(l->alloc, iso_worker_bytes(), 1);
    w->effects.item = iso_new(l->alloc, ISO_WORKER_EFFECTS_MAX, sizeof(iso_effect));
    w->effects.capacity = ISO_WORKER_EFFECTS_MAX;
    w->feeder_memory = copies ? iso_new_raw(l->alloc, copies, 1) : NULL;
    w->pass_memory = iso_new_raw(l->alloc, pass, 1);
    w->sum = sums ? iso_new(l->alloc, l->values, sizeof *w->sum) : NULL;
    w->kept = kept ? iso_new_raw(l->alloc, kept, 1) : NULL;
    if (!w->core_memory || !w->effects.item || (copies && !w->feeder_memory) || !w->pass_memory ||
        (sums && !w->sum) || (kept && !w->kept))
        return no_memory(e, "a worker's working memory", pass + copies + sums + kept);
    w->pass = iso_pass_init(g->net, g->unit, trains, w->pass_memory);
    iso_feeder_init(&w->feeder, g->feed, w->feeder_memory);
    iso_local_worker_core(w);
    return l->replicas ? iso_local_replica_init(w, e) : 0;
}

static void worker_fini(iso_local *l, worker *w)
{
    if (w->have_bell)
        iso_bell_fini(&w->bell);
    iso_free(l->alloc, w->core_memory);
    iso_free(l->alloc, w->effects.item);
    iso_free(l->alloc, w->feeder_memory);
    iso_free(l->alloc, w->pass_memory);
    iso_free(l->alloc, w->sum);
    iso_free(l->alloc, w->kept);
    if (w->local)
        iso_local_replica_fini(w);
}

static int take_arrays(iso_local *l, iso_error *e)
{
    const iso_alloc *a = l->alloc;
    uint32_t n = l->config.workers;
    update_job *u = &l->update;
    size_t behind = n * sizeof(iso_node_record), ranges = NOTE_RANGES * sizeof(iso_range);
    l->note_bytes = (sizeof(iso_note) + (behind > ranges ? behind : ranges) + 63) / 64 * 64;
    l->note_count = NOTES_BYTES / l->note_bytes > NOTES_MIN ? (uint32_t)(NOTES_BYTES / l->note_bytes) : NOTES_MIN;
    size_t coordinator = iso_coordinator_bytes(&l->core);
    l->effects.capacity = iso_coordinator_effects_max(&l->core);
    bool enough = (l->worker = iso_new(a, n, sizeof *l->worker)) &&
                  (l->buffer = iso_new(a, (size_t)n + 1, sizeof *l->buffer)) &&
                  (l->buffer[0] = iso_new(a, l->values, sizeof(float))) &&
                  (l->notes = iso_new(a, l->note_count, l->note_bytes)) &&
                  (l->coordinator_memory = iso_new_raw(a, coordinator, 1)) &&
                  (l->effects.item = iso_new(a, l->effects.capacity, sizeof(iso_effect))) &&
                  (u->order = iso_new(a, l->core.slices, sizeof *u->order)) &&
                  (u->begin = iso_new(a, l->core.slices, sizeof *u->begin)) &&
                  (u->end = iso_new(a, l->core.slices, sizeof *u->end)) &&
                  (u->taken = iso_new(a, l->core.slices, sizeof *u->taken)) && (u->sum = iso_new(a, n, sizeof *u->sum)) &&
                  (u->kept = iso_new(a, l->kept_capacity ? l->kept_capacity : 1, sizeof *u->kept));
    for (uint32_t i = 0; enough && !l->replicas && i < l->states; i++)
        enough = (l->state[i] = iso_new(a, l->values, sizeof(float))) != NULL;
    return enough ? 0
                  : no_memory(e, "weights, optimizer and coordinator",
                              l->values * sizeof(float) * (1 + l->states) + coordinator);
}

static int prepare(iso_local *l, iso_error *e)
{
    int result = iso_core_config_check(&l->core, e);
    if (result == 0)
        result = take_arrays(l, e);
    if (result == 0)
        result = iso_local_merger_init(l, e);
    if (result)
        return result;
    if (pthread_mutex_init(&l->lock, NULL))
        return no_memory(e, "a lock", sizeof l->lock);
    l->have_lock = true;
    if (iso_bell_init(&l->bell))
        return no_memory(e, "a bell", sizeof l->bell);
    l->have_bell = true;
    for (uint32_t i = 0; result == 0 && i < l->config.workers; i++)
        result = worker_init(l, i, e);
    if (result)
        return result;
    uint32_t fastest = 1;
    for (uint32_t i = 0; i < l->config.throttle_count; i++)
        fastest = l->config.throttle[i] > fastest ? l->config.throttle[i] : fastest;
    for (uint32_t i = 0; l->config.throttle_count && i < l->config.workers; i++) {
        uint32_t speed = l->config.throttle[i % l->config.throttle_count];
        if (speed == 0)
            return iso_error_set(e, ISO_E_ARGUMENT,
                                 "throttle: a speed of 0; speeds are whole numbers from 1, as in 4:2:1");
        l->worker[i].slowdown = (double)fastest / speed;
    }
    l->coordinator = iso_coordinator_init(&l->core, 0, l->coordinator_memory);
    return l->coordinator ? 0 : iso_error_set(e, ISO_E_ARGUMENT, "the coordinator does not take the job");
}

int iso_local_new(iso_local **out, const iso_local_config *config, iso_error *e)
{
    *out = NULL;
    if (config->workers < 1 || config->workers > ISO_WORKERS_MAX)
        return iso_error_set(e, ISO_E_ARGUMENT, "workers: %u; 1 to %u are possible", config->workers,
                             ISO_WORKERS_MAX);
    iso_local *l = iso_new(config->alloc, 1, sizeof *l);
    if (!l)
        return no_memory(e, "the local engine", sizeof *l);
    l->config = *config;
    l->alloc = config->alloc;
    l->values = iso_net_values(config->net);
    l->states = iso_optimizer_states(&config->job->optimizer);
    l->patience = config->workers <= iso_cores_allowed() ? PATIENCE_NS : 0;
    atomic_init(&l->wake_at, ISO_NEVER);
    atomic_init(&l->waiting_until, 0);
    iso_policy_plan(&config->policy, config->feed->view[ISO_FEED_TRAIN].count, config->job->batch, &l->plan);
    l->replicas = l->plan.way != ISO_PLAN_SUM;
    l->taken_last = &l->taken;
    configure_core(l);
    choose_deferral(l);
    iso_local_balance_init(l);
    int result = prepare(l, e);
    if (result) {
        iso_local_free(l);
        return result;
    }
    *out = l;
    return 0;
}

void iso_local_free(iso_local *l)
{
    if (!l)
        return;
    iso_local_join(l);
    for (uint32_t i = 0; l->worker && i < l->config.workers; i++)
        worker_fini(l, &l->worker[i]);
    for (uint32_t i = 0; l->buffer && i <= l->config.workers; i++)
        iso_free(l->alloc, l->buffer[i]);
    for (uint32_t i = 0; i < ISO_STATES_MAX; i++)
        iso_free(l->alloc, l->state[i]);
    iso_free(l->alloc, l->update.order);
    iso_free(l->alloc, l->update.begin);
    iso_free(l->alloc, l->update.end);
    iso_free(l->alloc, l->update.taken);
    iso_free(l->alloc, l->update.sum);
    iso_free(l->alloc, l->update.kept);
    iso_local_merger_fini(l);
    iso_free(l->alloc, l->effects.item);
    iso_free(l->alloc, l->coordinator_memory);
    iso_free(l->alloc, l->notes);
    iso_free(l->alloc, l->worker);
    iso_free(l->alloc, l->buffer);
    if (l->have_bell)
        iso_bell_fini(&l->bell);
    if (l->have_lock)
        pthread_mutex_destroy(&l->lock);
    iso_free(l->alloc, l);
}

/* ---- beginning ----------------------------------------------------------------------------------------- */

void iso_local_set_weights(iso_local *l, const float *internal)
{
    if (l->replicas)
        iso_net_publish(l->config.net, internal, iso_merger_array(l->merger, 0));
    else
        memcpy(l->buffer[l->current], internal, l->values * sizeof(float));
}

size_t iso_local_state_max(const iso_local *l)
{
    return iso_coordinator_state_max(&l->core);
}

int iso_local_resume(iso_local *l, const iso_snapshot *s, iso_error *e)
{
    iso_saved saved;
    int result = iso_saved_read(&saved, s->core, s->core_bytes, e);
    if (result)
        return result;
    l->coordinator = iso_coordinator_init(&l->core, saved.incarnation + 1, l->coordinator_memory);
    if (!l->coordinator)
        return iso_error_set(e, ISO_E_ARGUMENT, "the coordinator does not take the job");
    result = iso_coordinator_resume(l->coordinator, s->core, s->core_bytes, e);
    if (result)
        return result;
    iso_local_adopt(l, s);
    return 0;
}

int iso_local_start(iso_local *l, iso_snapshot *snapshot, float *best, iso_error *e)
{
    l->snapshot = snapshot;
    l->best = best;
    atomic_store(&l->alive, l->config.workers);
    iso_event start = {.kind = ISO_EVENT_START};
    iso_local_lock(l);
    iso_local_step(l, &start);
    iso_local_unlock(l);
    for (uint32_t i = 0; i < l->config.workers; i++) {
        worker *w = &l->worker[i];
        int why = pthread_create(&w->thread, NULL, iso_local_worker_main, w);
        if (why) {
            iso_local_join(l);
            return iso_error_set(e, ISO_E_NOMEM,
                                 "worker thread %u of %u could not be started: %s; try fewer --workers", i + 1,
                                 l->config.workers, strerror_r(why, (char[128]){0}, 128));
        }
        w->started = true;
    }
    return 0;
}

/* ---- what the calling thread does ---------------------------------------------------------------------- */

static iso_note *first_note(iso_local *l)
{
    uint32_t head = atomic_load_explicit(&l->note_head, memory_order_relaxed);
    if (head == atomic_load_explicit(&l->note_tail, memory_order_acquire))
        return NULL;
    return (iso_note *)(void *)(l->notes + (head % l->note_count) * l->note_bytes);
}

/* Takes the lock unless there are notes to be dealt with first: a thread that waits for room among them holds it. */
static bool lock_unless_notes(iso_local *l)
{
    while (pthread_mutex_trylock(&l->lock) != 0) {
        if (first_note(l))
            return false;
        iso_sleep_ns(20000, NULL);
    }
    return true;
}

/* False: put off, there are notes. */
static bool give(iso_local *l, iso_event_kind kind)
{
    if (!lock_unless_notes(l))
        return false;
    iso_event event = {.kind = kind};
    iso_local_step(l, &event);
    iso_local_unlock(l);
    return true;
}

const iso_note *iso_local_next(iso_local *l, int64_t until_ns)
{
    for (;;) {
        iso_note *n = first_note(l);
        if (n) {
            if (n->late) { /* the run has ended: nothing changes the weights any more */
                iso_local_fill_snapshot(l);
                atomic_store(&l->snapshot_busy, true);
                n->late = false;
            }
            return n;
        }
        int64_t now = iso_clock_ns(), due = atomic_load(&l->wake_at), look = iso_local_balance(l, now);
        if (l->stop_wanted && give(l, ISO_EVENT_STOP)) {
            l->stop_wanted = false;
        } else if (due <= now) {
            if (lock_unless_notes(l)) {
                if (atomic_load(&l->wake_at) <= now) { /* no thread has set another time meanwhile */
                    atomic_store(&l->wake_at, ISO_NEVER);
                    iso_local_step(l, &(iso_event){.kind = ISO_EVENT_TIMER});
                }
                iso_local_unlock(l);
            }
        } else if (now >= until_ns) {
            return NULL;
        } else {
            int64_t until = due < until_ns ? due : until_ns;
            until = look < until ? look : until;
            atomic_store(&l->waiting_until, until);
            if (atomic_load(&l->wake_at) >= until) /* nothing earlier was set meanwhile */
                iso_bell_wait(&l->bell, 0, until);
            atomic_store(&l->waiting_until, 0);
        }
    }
}

void iso_local_pop(iso_local *l)
{
    const iso_note *n = first_note(l);
    bool checkpoint = n->kind == ISO_NOTE_CHECKPOINT, best = n->kind == ISO_NOTE_EPOCH && n->epoch.best;
    atomic_store_explicit(&l->note_head, atomic_load_explicit(&l->note_head, memory_order_relaxed) + 1,
                          memory_order_release);
    if (best)
        atomic_store_explicit(&l->best_busy, false, memory_order_release);
    if (!checkpoint)
        return;
    atomic_store_explicit(&l->snapshot_busy, false, memory_order_release);
    if (atomic_exchange(&l->checkpoint_missed, false) && !give(l, ISO_EVENT_CHECKPOINT_WANTED))
        atomic_store(&l->checkpoint_missed, true);
}

const iso_error *iso_local_error(const iso_local *l)
{
    return &l->error;
}

void iso_local_stop(iso_local *l)
{
    l->stop_wanted = true;
}

void iso_local_join(iso_local *l)
{
    atomic_store(&l->over, true);
    for (uint32_t i = 0; l->worker && i < l->config.workers; i++) {
        worker *w = &l->worker[i];
        if (!w->started)
            continue;
        iso_bell_ring(&w->bell);
        pthread_join(w->thread, NULL);
        w->started = false;
    }
}

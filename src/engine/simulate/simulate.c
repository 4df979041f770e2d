/* SPDX-License-Identifier: Apache-2.0
 * The simulator's life and its loop (simulate.h). */
#include "engine/simulate/simulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/elementary.h"
#include "engine/local/bell.h"
#include "engine/simulate/inside.h"

#define PROGRAM_VERSION 1u
#define SECOND 1000000000.0

/* ---- what the other files call ------------------------------------------------------------------------- */

void iso_sim_fail(iso_sim *s, int code, const char *format, ...)
{
    va_list arguments;
    char text[700];
    if (s->ended)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool found = code == ISO_E_WRONG || code == ISO_E_STUCK;
    iso_error_set(&s->error, code, found ? "%s (at %.9f s)" : "%s", text, (double)s->now * 1e-9);
    s->ended = s->failed = true;
}

void iso_sim_no_memory(iso_sim *s)
{
    iso_sim_fail(s, ISO_E_NOMEM, "no memory for the simulation of %u machines", s->count);
}

void iso_sim_at(iso_sim *s, int64_t at, sim_kind kind, uint32_t node, uint32_t what, uint64_t serial)
{
    if (at != ISO_FOREVER &&
        !sim_queue_put(&s->queue, &(sim_event){.at = at, .kind = kind, .node = node, .what = what, .serial = serial}))
        iso_sim_no_memory(s);
}

/* ---- configuration ------------------------------------------------------------------------------------- */

static int64_t ns_of(double ns)
{
    return ns < 9e17 ? (int64_t)ns : (int64_t)9e17;
}

/* Frames are repeated where they can get lost, on the way or with a machine that goes. */
static bool repeats(const iso_sim *s)
{
    bool goes = false;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->node[i].fate.count; k++)
            goes |= s->node[i].fate.event[k].kind != ISO_MACHINE_SPEED;
    return goes || s->lossy || s->config.options->draw_faults || s->config.options->canary == ISO_CANARY_LOST_WAKEUP;
}

/* Samples a second at a machine's worst: what it may come down to, and still get on. */
static double worst_speed(const sim_node *n)
{
    const iso_machine *m = n->machine;
    double speed = m->speed, outlier = m->outliers.numerator ? m->outlier_factor : 1;
    for (uint32_t k = 0; k < n->fate.count; k++)
        if (n->fate.event[k].kind == ISO_MACHINE_SPEED && n->fate.event[k].speed < speed)
            speed = n->fate.event[k].speed;
    return speed * (1 - m->amplitude) * m->burst_factor / (outlier * iso_exp(6 * m->noise));
}

static void configure_times(iso_sim *s)
{
    const iso_cluster *c = s->config.options->cluster;
    double bulk = (double)s->parameters * sizeof(float) * 2, shared = c->bandwidth > 0 ? bulk / c->bandwidth * SECOND : 0;
    double longest = 0, slowest = c->machine[0].speed, worst = slowest, last = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const iso_machine *m = &c->machine[i];
        double trip = (double)m->link.latency * 4 + (m->link.bandwidth > 0 ? bulk / m->link.bandwidth * SECOND : 0);
        longest = trip > longest ? trip : longest;
        slowest = m->speed < slowest ? m->speed : slowest;
        double low = worst_speed(&s->node[i]);
        worst = low < worst ? low : worst;
        for (uint32_t k = 0; k < s->node[i].fate.count; k++) {
            const iso_machine_event *e = &s->node[i].fate.event[k];
            double end = (double)e->at + (double)e->length;
            last = end > last ? end : last;
        }
    }
    double resend = 2e6 + 2 * (longest + shared * (s->count < 64 ? s->count : 64));
    s->core.resend = repeats(s) ? ns_of(resend) : 0;
    s->core.deadline_floor = ns_of(8 * resend > 2e8 ? 8 * resend : 2e8);
    s->core.deadline_first = ns_of(2 * SECOND + 16 * ISO_UNIT_MAX / slowest * SECOND);
    s->core.first_wait = ns_of(0.5 * SECOND + 4 * longest);
    s->patience = ns_of(60 * SECOND + 4 * (2 * SECOND + (16 * ISO_UNIT_MAX + (double)s->core.samples) / worst * SECOND) + last);
}

static void configure(iso_sim *s)
{
    const iso_sim_config *g = &s->config;
    iso_core_config *c = &s->core;
    uint32_t present = 0;
    for (uint32_t i = 0; i < s->count; i++)
        present += !s->node[i].absent;
    c->policy = g->policy;
    c->optimizer = g->job->optimizer;
    c->schedule = g->job->schedule;
    c->values = s->values;
    c->net = g->net;
    c->job_digest = g->job_digest;
    c->data_digest = g->data_digest;
    c->program = PROGRAM_VERSION;
    c->nodes_max = s->count;
    c->nodes_first = present ? present : 1;
    c->slices = 1;
    c->audit = true;
    c->depth = 2;
    configure_times(s);
    if (g->options->cost_model)
        return;
    c->checkpoint_rounds = g->job->checkpoint.every;
    c->checkpoint_ns = g->job->checkpoint.seconds > 0 ? ns_of(g->job->checkpoint.seconds * SECOND) : 0;
}

static void configure_job(iso_sim *s)
{
    const iso_sim_config *g = &s->config;
    iso_core_config *c = &s->core;
    iso_core_config_default(c);
    c->samples = g->feed->view[ISO_FEED_TRAIN].count;
    c->validation = g->feed->view[ISO_FEED_VALIDATION].count;
    c->test = g->feed->view[ISO_FEED_TEST].count;
    c->batch = g->job->batch;
    c->unit = g->unit;
    c->epochs = g->job->epochs;
    c->seed = g->job->seed;
    iso_policy_plan(&g->policy, c->samples, c->batch, &s->plan);
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static bool take_arrays(iso_sim *s)
{
    size_t worker = (iso_worker_bytes() + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    s->worker_memory = iso_new_raw(s->alloc, s->count, worker);
    s->update_node = iso_new(s->alloc, s->count, sizeof *s->update_node);
    s->coordinator_memory = iso_new_raw(s->alloc, iso_coordinator_bytes(&s->core), 1);
    s->effects.capacity = iso_coordinator_effects_max(&s->core);
    s->effects.item = iso_new(s->alloc, s->effects.capacity, sizeof *s->effects.item);
    if (!s->worker_memory || !s->update_node || !s->coordinator_memory || !s->effects.item)
        return false;
    for (uint32_t i = 0; i < s->count; i++)
        s->node[i].core = (iso_worker *)(void *)((unsigned char *)s->worker_memory + i * worker);
    return iso_tally_init(&s->counted, s->core.samples, s->core.epochs, s->alloc) == 0 &&
           iso_tally_init(&s->audited, s->core.samples, s->core.epochs, s->alloc) == 0;
}

static int prepare(iso_sim *s, iso_error *e)
{
    const iso_cluster *c = s->config.options->cluster;
    s->node = iso_new(s->alloc, s->count, sizeof *s->node);
    if (!s->node)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for %u machines", s->count);
    for (uint32_t i = 0; i < s->count; i++)
        s->node[i].machine = &c->machine[i];
    configure_job(s);
    int result = iso_sim_faults_init(s, e);
    if (result)
        return result;
    configure(s);
    result = iso_core_config_check(&s->core, e);
    if (result == 0 && !take_arrays(s))
        result = iso_error_set(e, ISO_E_NOMEM, "no memory for %u machines", s->count);
    if (result == 0)
        result = iso_sim_arithmetic_init(s, e);
    if (result)
        return result;
    s->coordinator = iso_coordinator_init(&s->core, 0, s->coordinator_memory);
    return s->coordinator ? 0 : iso_error_set(e, ISO_E_ARGUMENT, "the coordinator does not take the job");
}

int iso_sim_new(iso_sim **out, const iso_sim_config *config, iso_error *e)
{
    *out = NULL;
    iso_sim *s = iso_new(config->alloc, 1, sizeof *s);
    if (!s)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for the simulator");
    s->config = *config;
    s->alloc = config->alloc;
    s->values = iso_net_values(config->net);
    s->parameters = iso_net_parameters(config->net);
    s->states = iso_optimizer_states(&config->job->optimizer);
    s->count = config->options->cluster->count;
    s->seed = config->options->draw_faults ? config->options->fault_seed : config->job->seed;
    s->first_free = UINT32_MAX;
    s->queue.alloc = s->alloc;
    iso_buffer_init(&s->notes, s->alloc, 0);
    iso_buffer_init(&s->trace, s->alloc, 0);
    int result = prepare(s, e);
    if (result) {
        iso_sim_free(s);
        return result;
    }
    *out = s;
    return 0;
}

void iso_sim_free(iso_sim *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->node && i < s->count; i++)
        iso_sim_node_fini(s, &s->node[i]);
    iso_sim_network_fini(s);
    iso_sim_drop(s, &s->full);
    iso_sim_drop(s, &s->change);
    iso_sim_span_fini(s, &s->merging);
    iso_sim_arithmetic_fini(s);
    if (s->counted.epoch)
        iso_tally_fini(&s->counted);
    if (s->audited.epoch)
        iso_tally_fini(&s->audited);
    iso_free(s->alloc, s->queue.event);
    iso_free(s->alloc, s->fate);
    iso_free(s->alloc, s->node);
    iso_free(s->alloc, s->worker_memory);
    iso_free(s->alloc, s->update_node);
    iso_free(s->alloc, s->coordinator_memory);
    iso_free(s->alloc, s->effects.item);
    iso_buffer_fini(&s->notes);
    iso_buffer_fini(&s->trace);
    iso_free(s->alloc, s);
}

size_t iso_sim_state_max(const iso_sim *s)
{
    return iso_coordinator_state_max(&s->core);
}

uint32_t iso_sim_arrays(const iso_sim *s)
{
    return s->merger ? iso_merger_arrays(s->merger) - 1 : s->config.options->cost_model ? 0 : s->states;
}

const char *iso_sim_array_name(const iso_sim *s, uint32_t index)
{
    return s->merger ? iso_merger_array_name(s->merger, index + 1) : iso_optimizer_state_name(&s->core.optimizer, index);
}

int iso_sim_resume(iso_sim *s, const iso_snapshot *p, iso_error *e)
{
    iso_saved saved;
    int result = iso_saved_read(&saved, p->core, p->core_bytes, e);
    if (result)
        return result;
    s->coordinator = iso_coordinator_init(&s->core, saved.incarnation + 1, s->coordinator_memory);
    if (!s->coordinator)
        return iso_error_set(e, ISO_E_ARGUMENT, "the coordinator does not take the job");
    result = iso_coordinator_resume(s->coordinator, p->core, p->core_bytes, e);
    if (result)
        return result;
    if (s->merger)
        memcpy(iso_merger_array(s->merger, 0), p->weights, s->parameters * sizeof(float));
    else
        iso_net_adopt(s->config.net, p->weights, s->w);
    for (uint32_t i = 0; i < p->states; i++)
        if (s->merger)
            memcpy(iso_merger_array(s->merger, i + 1), p->state[i], s->parameters * sizeof(float));
        else
            iso_net_adopt(s->config.net, p->state[i], s->state[i]);
    s->round = s->border = saved.round;
    s->next_probe = saved.samples_done;
    s->resumed = true;
    if (s->merger)
        s->check[s->border % SIM_CHECKS] = iso_merger_check(s->merger);
    return 0;
}

int iso_sim_start(iso_sim *s, iso_snapshot *snapshot, float *best, iso_error *e)
{
    s->snapshot = snapshot;
    s->best = best;
    iso_event start = {.kind = ISO_EVENT_START};
    iso_sim_step(s, &start);
    if (s->config.options->draw_faults)
        iso_sim_at(s, s->heals_at, SIM_HEAL, ISO_COORDINATOR, 0, 0);
    for (uint32_t i = 0; i < s->count; i++) {
        const iso_fate *f = &s->node[i].fate;
        for (uint32_t k = 0; k < f->count; k++)
            if (f->event[k].kind == ISO_MACHINE_CRASH || f->event[k].kind == ISO_MACHINE_JOIN)
                iso_sim_at(s, f->event[k].at, SIM_FATE, i, k, 0);
        if (!s->node[i].absent)
            iso_sim_node_start(s, i);
    }
    (void)e;
    return 0;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static void on_fate(iso_sim *s, const sim_event *e)
{
    sim_node *n = &s->node[e->node];
    if (n->fate.event[e->what].kind == ISO_MACHINE_JOIN) {
        iso_sim_node_start(s, e->node);
        return;
    }
    bool told = n->up && s->config.options->draw_faults && iso_sim_told(s, e->node, n->life);
    iso_sim_node_crash(s, e->node);
    if (told)
        iso_sim_at(s, s->now + n->machine->link.latency + 1, SIM_LOST, e->node, 0, n->life);
}

/* A machine that stands still hears nothing; it finds all of it when it goes on. */
static bool sleeps(iso_sim *s, const sim_event *e)
{
    bool hears = (e->kind == SIM_MESSAGE && !e->serial) || (e->kind == SIM_TIMER && e->node != ISO_COORDINATOR);
    int64_t awake = hears ? iso_sim_node_awake(s, e->node) : s->now;
    if (awake == s->now)
        return false;
    iso_sim_at(s, awake, e->kind, e->node, e->what, e->serial);
    return true;
}

static void on_timer(iso_sim *s, const sim_event *e)
{
    iso_event timer = {.kind = ISO_EVENT_TIMER};
    if (e->node == ISO_COORDINATOR && e->serial == s->timer && !s->dropped)
        iso_sim_step(s, &timer);
    else if (e->node != ISO_COORDINATOR && s->node[e->node].up && s->node[e->node].timer == e->serial)
        iso_sim_node_step(s, e->node, &timer);
}

static void dispatch(iso_sim *s, const sim_event *e)
{
    iso_event lost = {.kind = ISO_EVENT_PEER_LOST, .node = e->node};
    if (sleeps(s, e))
        return;
    switch (e->kind) {
    case SIM_PACKET:
        iso_sim_pass(s, e->what, s->now);
        return;
    case SIM_MESSAGE:
        iso_sim_arrive(s, e->what);
        return;
    case SIM_UNIT:
        if (s->node[e->node].up && s->node[e->node].computing && s->node[e->node].serial == e->serial)
            iso_sim_node_unit(s, e->node);
        return;
    case SIM_TIMER:
        on_timer(s, e);
        return;
    case SIM_UPDATED:
        iso_sim_updated(s, e->what);
        return;
    case SIM_FATE:
        on_fate(s, e);
        return;
    case SIM_LOST:
        if (!s->node[e->node].up && s->node[e->node].life == e->serial)
            iso_sim_step(s, &lost);
        return;
    case SIM_HEAL:
        s->healed = true;
        return;
    }
}

static void go_on(iso_sim *s)
{
    sim_event e;
    if (!sim_queue_take(&s->queue, &e)) {
        iso_sim_fail(s, ISO_E_STUCK, "nothing will happen any more, and the run is not over, after round %llu",
                     (unsigned long long)s->round);
        return;
    }
    if (e.at < s->now)
        iso_sim_fail(s, ISO_E_WRONG, "time went back by %lld ns", (long long)(s->now - e.at));
    s->now = e.at;
    dispatch(s, &e);
    if (!s->ended)
        iso_sim_check_progress(s);
}

/* The last note of a run that failed. */
static void tell_failure(iso_sim *s)
{
    static const iso_note failure = {.kind = ISO_NOTE_FAILED};
    s->failed = false;
    s->told_failure = true;
    s->last = failure;
    s->last.at = s->now;
}

const iso_note *iso_sim_next(iso_sim *s, int64_t until_ns)
{
    for (;;) {
        if (s->note_at < s->notes.size)
            return (const iso_note *)(const void *)(s->notes.bytes + s->note_at);
        if (s->failed)
            tell_failure(s);
        if (s->told_failure)
            return &s->last;
        iso_buffer_clear(&s->notes);
        s->note_at = 0;
        if (s->stop_wanted) {
            iso_event stop = {.kind = ISO_EVENT_STOP};
            s->stop_wanted = false;
            iso_sim_step(s, &stop);
        } else if (iso_clock_ns() >= until_ns) {
            return NULL;
        } else {
            go_on(s);
        }
    }
}

void iso_sim_pop(iso_sim *s)
{
    if (s->note_at < s->notes.size)
        s->note_at += iso_sim_note_size(s, (const iso_note *)(const void *)(s->notes.bytes + s->note_at));
}

const iso_error *iso_sim_error(const iso_sim *s)
{
    return &s->error;
}

void iso_sim_stop(iso_sim *s)
{
    s->stop_wanted = true;
}

int64_t iso_sim_now(const iso_sim *s)
{
    return s->now;
}

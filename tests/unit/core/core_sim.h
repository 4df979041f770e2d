/* SPDX-License-Identifier: Apache-2.0
 * A small world for the core's tests: one coordinator and some workers in virtual time, a network that loses, repeats,
 * delays and reorders, nodes that die, stall and return, a coordinator that dies and resumes from its last checkpoint.
 * Everything is drawn from one seed.
 *
 * The model is a toy: weights are a few 64-bit words, a unit's gradient is a hash of the weights and its samples, sums
 * are modulo 2^64, an update mixes the sum into each word. So the weights tell whether every unit of every round was
 * counted exactly once against the right weights. Besides, every sum remembers how often it holds each unit.
 *
 * Frames always travel as bytes through iso_frame_encode, cut into chunks of 16 bytes and gathered by iso_assembly. */
#ifndef CORE_SIM_H
#define CORE_SIM_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isochron/core.h"

enum {
    SIM_NODES = 8,
    SIM_WORDS = 4,               /* words of the weights */
    SIM_UNITS = 64,              /* most units in a pass */
    SIM_ROUNDS = 512,
    SIM_STRIDE = 16,
    SIM_WEIGHT_BYTES = SIM_WORDS * 8,
    SIM_SUM_BYTES = 8 + SIM_UNITS * 2,
    SIM_QUEUE = 16384,
    SIM_STATE = 4096
};

struct sim;

typedef struct sim_options {
    iso_core_config config;
    uint32_t nodes;
    uint32_t loss, duplicate;    /* in 1000 frames */
    int64_t delay, jitter;       /* ns of a frame */
    uint32_t death, stall;       /* in 1000 orders */
    uint32_t tell_death;         /* in 1000 deaths the engine notices */
    uint32_t coordinator_deaths; /* at most so many in a run, each at a drawn time */
    int64_t coordinator_span;    /* ns within which they fall */
    double speed[SIM_NODES];     /* samples a ms */
    int64_t first_join[SIM_NODES];
    uint64_t steps_max;
    /* planted faults: the checkers must find them */
    bool canary_take;            /* a sum counts although the core did not TAKE it */
    bool canary_wake;            /* the coordinator's timers get lost */
    bool canary_weights;         /* a node computes with a flipped bit */
    uint64_t stop_round;         /* STOP after this round; 0: never */
    int64_t stop_at;             /* STOP at this time; 0: never */
    int64_t die_order_at[SIM_NODES]; /* golden stories: the order (from 1) at which a node dies; 0: none */
    int64_t return_after;        /* ns a dead node stays away; 0: drawn */
    bool trace;
    void (*watch)(struct sim *s, void *context); /* called after each event */
    void *context;
} sim_options;

typedef struct sim_sum {
    uint64_t value;
    uint16_t units[SIM_UNITS];   /* how often each unit is in it */
} sim_sum;

typedef struct sim_node {
    bool up;
    uint64_t life;               /* bumps at each start */
    uint64_t generation;         /* of this start: events of older ones are void */
    iso_worker *worker;
    _Alignas(64) unsigned char memory[2048];
    uint64_t weights[SIM_WORDS], incoming[SIM_WORDS];
    sim_sum sum;
    iso_assembly gather;
    uint64_t seen[8];
    bool computing;
    iso_compute order;
    uint64_t orders;
    /* at the coordinator: the sum on its way */
    iso_assembly sum_gather;
    uint64_t sum_seen[8];
    unsigned char sum_bytes[SIM_SUM_BYTES];
} sim_node;

typedef enum sim_kind {
    SIM_BYTES,
    SIM_COMPUTED,
    SIM_UPDATED,
    SIM_TIMER,
    SIM_RETURN,
    SIM_NOTICE,
    SIM_STOP,
    SIM_COORDINATOR_DEATH
} sim_kind;

typedef struct sim_event {
    int64_t at;
    uint64_t sequence, generation, order;
    sim_kind kind;
    uint32_t to;
    uint32_t bytes;
    unsigned char data[ISO_FRAME_HEADER + ISO_BODY_MAX + SIM_STRIDE];
} sim_event;

typedef struct sim {
    sim_options o;
    uint64_t random;
    int64_t now;
    uint64_t sequence, steps;
    sim_event *queue;            /* a heap by (at, sequence) */
    uint32_t queued;
    sim_node node[SIM_NODES];
    iso_coordinator *coordinator;
    void *memory;
    uint64_t generation;         /* of the coordinator */
    iso_effects effects, worker_effects;
    uint64_t weights[SIM_WORDS];
    sim_sum merged;              /* copied sums of the round (not in place) */
    iso_update_order update[16];
    uint32_t update_nodes[SIM_NODES];
    /* the last checkpoint */
    bool saved;
    unsigned char state[SIM_STATE];
    size_t state_bytes;
    uint64_t saved_weights[SIM_WORDS];
    /* what was seen */
    bool over, stopped, failed;
    uint32_t restarts, deaths, returns, epochs_seen, checkpoints;
    uint32_t declared, waits;    /* DEAD and WAITING records */
    int64_t died_at, declared_at;
    uint64_t counted[SIM_ROUNDS];/* units merged in the last try of each round */
    uint64_t rounds_seen;
    iso_epoch_result epoch[32];
    uint64_t audited;            /* units in COUNTED records of the present border */
    char wrong[256];             /* first fault a checker found */
    FILE *trace;
    uint64_t border_hash[SIM_ROUNDS + 1]; /* of the weights after each round */
} sim;

/* ---- numbers ---- */

static uint64_t sim_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t sim_draw(sim *s, uint64_t below)
{
    s->random = sim_mix(s->random);
    return below > 0 ? s->random % below : 0;
}

static bool sim_chance(sim *s, uint32_t in_thousand)
{
    return sim_draw(s, 1000) < in_thousand;
}

static void sim_wrong(sim *s, const char *format, ...)
{
    va_list list;
    if (s->wrong[0] != '\0')
        return;
    va_start(list, format);
    vsnprintf(s->wrong, sizeof s->wrong, format, list);
    va_end(list);
}

static void sim_tell(sim *s, const char *format, ...)
{
    va_list list;
    if (!s->o.trace)
        return;
    fprintf(s->trace, "%8.3f ", (double)s->now / 1e6);
    va_start(list, format);
    vfprintf(s->trace, format, list);
    va_end(list);
    fputc('\n', s->trace);
}

static const char *sim_name(uint32_t id, char out[16])
{
    if (id == ISO_COORDINATOR)
        return "C";
    if (id == ISO_EVERYONE)
        return "all";
    snprintf(out, 16, "%u", (unsigned)id);
    return out;
}

static uint64_t sim_hash(const uint64_t *words)
{
    uint64_t h = 0;
    for (int i = 0; i < SIM_WORDS; i++)
        h = sim_mix(h ^ words[i]);
    return h;
}

/* ---- queue ---- */

static bool sim_before(const sim_event *a, const sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static sim_event *sim_push(sim *s, int64_t at, sim_kind kind, uint32_t to, uint64_t generation)
{
    static sim_event spare;
    if (s->queued == SIM_QUEUE) {
        sim_wrong(s, "the queue of events is full");
        return &spare;
    }
    sim_event event = {.at = at, .sequence = s->sequence++, .kind = kind, .to = to, .generation = generation};
    uint32_t i = s->queued++;
    while (i > 0 && sim_before(&event, &s->queue[(i - 1) / 2])) {
        s->queue[i] = s->queue[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->queue[i] = event;
    return &s->queue[i];
}

static sim_event sim_pop(sim *s)
{
    sim_event top = s->queue[0], last = s->queue[--s->queued];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= s->queued)
            break;
        if (child + 1 < s->queued && sim_before(&s->queue[child + 1], &s->queue[child]))
            child++;
        if (!sim_before(&s->queue[child], &last))
            break;
        s->queue[i] = s->queue[child];
        i = child;
    }
    if (s->queued > 0)
        s->queue[i] = last;
    return top;
}

/* ---- network ---- */

static void sim_carry(sim *s, const iso_frame *f, uint32_t to)
{
    iso_frame chunk = *f;
    const void *bulk = f->bulk;
    size_t bytes = f->kind == ISO_FRAME_SUM ? SIM_SUM_BYTES : f->kind == ISO_FRAME_WEIGHTS ? SIM_WEIGHT_BYTES : 0;
    for (uint32_t i = 0; i == 0 || (bytes > 0 && iso_frame_cut(&chunk, bulk, bytes, SIM_STRIDE, i)); i++) {
        if (bytes > 0)
            iso_frame_cut(&chunk, bulk, bytes, SIM_STRIDE, i);
        uint32_t copies = sim_chance(s, s->o.loss) ? 0 : sim_chance(s, s->o.duplicate) ? 2 : 1;
        while (copies-- > 0) {
            int64_t at = s->now + s->o.delay + (int64_t)sim_draw(s, (uint64_t)s->o.jitter + 1);
            sim_event *e = sim_push(s, at, SIM_BYTES, to, 0);
            e->bytes = (uint32_t)iso_frame_encode(&chunk, e->data, sizeof e->data);
            if (e->bytes == 0)
                sim_wrong(s, "a frame of kind %u cannot be encoded", (unsigned)chunk.kind);
        }
        if (bytes == 0)
            break;
    }
}

/* ---- sums as bytes ---- */

static void sim_sum_pack(const sim_sum *sum, unsigned char out[SIM_SUM_BYTES])
{
    memcpy(out, &sum->value, 8);
    memcpy(out + 8, sum->units, sizeof sum->units);
}

static void sim_sum_add(sim_sum *sum, const unsigned char bytes[SIM_SUM_BYTES])
{
    uint64_t value;
    uint16_t units[SIM_UNITS];
    memcpy(&value, bytes, 8);
    memcpy(units, bytes + 8, sizeof units);
    sum->value += value;
    for (int i = 0; i < SIM_UNITS; i++)
        sum->units[i] = (uint16_t)(sum->units[i] + units[i]);
}

/* ---- the toy model ---- */

static void sim_compute(const iso_compute *c, const uint64_t *weights, sim_sum *sum, iso_totals *totals)
{
    iso_sampler sampler;
    uint64_t base = sim_hash(weights);
    iso_totals_clear(totals);
    iso_sampler_init(&sampler, c->seed, c->epoch, c->samples);
    for (uint32_t i = 0, index = 0, range = 0; i < c->units; i++, index++) {
        uint64_t first, gradient = 0;
        uint32_t count = iso_compute_unit(c, i, &first);
        if (index == c->range[range].count) {
            index = 0;
            range++;
        }
        iso_unit_result r = {.samples = count, .bad_layer = -1};
        for (uint32_t k = 0; k < count; k++) {
            uint64_t sample = c->purpose == ISO_PASS_TRAIN ? iso_sampler_at(&sampler, first + k) : first + k;
            uint64_t h = sim_mix(base ^ sim_mix(sample ^ (uint64_t)c->purpose << 60));
            gradient += h;
            r.correct += h % 3 == 0;
            r.loss += (int64_t)(h >> 20) - ((int64_t)1 << 42);
        }
        iso_totals_add_unit(totals, &r);
        if (c->purpose == ISO_PASS_TRAIN) {
            sum->value += gradient;
            sum->units[(c->range[range].first + index) % SIM_UNITS]++;
        }
    }
}

/* ---- workers ---- */

static void sim_worker_step(sim *s, uint32_t id, iso_event event);
static void sim_coordinator_step(sim *s, iso_event event);

static void sim_node_start(sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    const iso_core_config *c = &s->o.config;
    n->up = true;
    n->life++;
    n->generation++;
    n->computing = false;
    memset(n->weights, 0xEE, sizeof n->weights);
    iso_assembly_init(&n->gather, n->incoming, sizeof n->incoming, SIM_STRIDE, n->seen);
    n->worker = iso_worker_init(&(iso_worker_config){.node = id,
                                                     .life = n->life,
                                                     .samples = c->samples,
                                                     .validation = c->validation,
                                                     .test = c->test,
                                                     .seed = c->seed,
                                                     .job_digest = c->job_digest,
                                                     .data_digest = c->data_digest,
                                                     .program = c->program,
                                                     .shared_weights = c->shared_weights,
                                                     .resend = c->resend,
                                                     .heartbeat = c->resend > 0 ? 4 * c->resend : 0},
                                n->memory);
    sim_worker_step(s, id, (iso_event){.kind = ISO_EVENT_START});
}

static void sim_node_die(sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    n->up = n->computing = false;
    n->sum.value ^= 0x5555; /* what is left in its memory is worth nothing */
    n->sum.units[0]++;
    n->generation++;
    s->deaths++;
    s->died_at = s->now;
    sim_tell(s, "%u dies", (unsigned)id);
    if (sim_chance(s, s->o.tell_death))
        sim_push(s, s->now + 1000, SIM_NOTICE, id, s->generation);
    int64_t away = s->o.return_after > 0 ? s->o.return_after : (int64_t)sim_draw(s, 60000000);
    sim_push(s, s->now + away, SIM_RETURN, id, 0);
}

static void sim_begin_compute(sim *s, uint32_t id, const iso_compute *c)
{
    sim_node *n = &s->node[id];
    if (n->computing)
        sim_wrong(s, "node %u was told to compute while it computes", (unsigned)id);
    n->computing = true;
    n->order = *c;
    n->orders++;
    if (c->fresh)
        memset(&n->sum, 0, sizeof n->sum);
    int64_t time = (int64_t)((double)iso_compute_samples(c) / s->o.speed[id] * 1e6);
    if (sim_chance(s, s->o.death) || (s->o.die_order_at[id] > 0 && n->orders == (uint64_t)s->o.die_order_at[id])) {
        sim_node_die(s, id);
        return;
    }
    if (sim_chance(s, s->o.stall))
        time += 400000000;
    sim_push(s, s->now + time, SIM_COMPUTED, id, n->generation)->order = (uint64_t)time;
}

static void sim_computed(sim *s, uint32_t id, int64_t time)
{
    sim_node *n = &s->node[id];
    iso_totals totals;
    uint64_t flipped[SIM_WORDS];
    memcpy(flipped, s->o.config.shared_weights ? s->weights : n->weights, sizeof flipped);
    if (s->o.canary_weights && n->orders == 5)
        flipped[1] ^= 1;
    sim_compute(&n->order, flipped, &n->sum, &totals);
    totals.busy = time;
    n->computing = false;
    sim_worker_step(s, id, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = n->order.order, .totals = totals});
}

static void sim_worker_effect(sim *s, uint32_t id, const iso_effect *e)
{
    sim_node *n = &s->node[id];
    unsigned char bytes[SIM_SUM_BYTES];
    iso_frame f;
    switch (e->kind) {
    case ISO_EFFECT_SEND:
        f = e->frame;
        sim_sum_pack(&n->sum, bytes);
        f.bulk = bytes;
        sim_tell(s, "%u -> C %s r%" PRIu64, (unsigned)id, iso_frame_name(f.kind), f.round);
        sim_carry(s, &f, ISO_COORDINATOR);
        return;
    case ISO_EFFECT_COMPUTE:
        sim_tell(s, "%u computes %s r%" PRIu64 " units %u+%u%s", (unsigned)id, iso_purpose_name(e->compute.purpose),
                 e->compute.round, (unsigned)e->compute.range[0].first, (unsigned)e->compute.units,
                 e->compute.fresh ? " fresh" : "");
        sim_begin_compute(s, id, &e->compute);
        return;
    case ISO_EFFECT_ADOPT:
        memcpy(n->weights, n->incoming, sizeof n->weights);
        return;
    case ISO_EFFECT_WAKE:
        if (e->at != ISO_NEVER)
            sim_push(s, e->at, SIM_TIMER, id, n->generation);
        return;
    case ISO_EFFECT_CANCEL:
        sim_tell(s, "%u cancels", (unsigned)id);
        return;
    case ISO_EFFECT_DONE:
        sim_tell(s, "%u is done", (unsigned)id);
        return;
    case ISO_EFFECT_FAILED:
        sim_wrong(s, "node %u failed: %s", (unsigned)id, e->error->text);
        return;
    default:
        sim_wrong(s, "a worker gave effect %s", iso_effect_name(e->kind));
    }
}

static void sim_worker_step(sim *s, uint32_t id, iso_event event)
{
    sim_node *n = &s->node[id];
    uint64_t generation = n->generation;
    event.now = s->now;
    s->steps++;
    if (iso_worker_step(n->worker, &event, &s->worker_effects) != ISO_OK)
        sim_wrong(s, "worker step of event %d is refused", (int)event.kind);
    for (uint32_t i = 0; i < s->worker_effects.count && n->generation == generation; i++)
        sim_worker_effect(s, id, &s->worker_effects.item[i]);
}

/* ---- coordinator ---- */

static void sim_coordinator_start(sim *s)
{
    s->generation++;
    s->coordinator = iso_coordinator_init(&s->o.config, 1 + s->restarts, s->memory); /* an engine would ask a clock */
    for (uint32_t i = 0; i < s->o.nodes; i++) {
        sim_node *n = &s->node[i];
        iso_assembly_init(&n->sum_gather, n->sum_bytes, SIM_SUM_BYTES, SIM_STRIDE, n->sum_seen);
    }
    memset(&s->merged, 0, sizeof s->merged);
    iso_error e = {0};
    if (s->saved && iso_coordinator_resume(s->coordinator, s->state, s->state_bytes, &e) != ISO_OK)
        sim_wrong(s, "resume: %s", e.text);
    sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_START});
}

static void sim_coordinator_die(sim *s)
{
    s->restarts++;
    sim_tell(s, "C dies");
    if (s->saved) {
        memcpy(s->weights, s->saved_weights, sizeof s->weights);
    } else {
        for (int i = 0; i < SIM_WORDS; i++)
            s->weights[i] = sim_mix((uint64_t)i);
    }
    sim_coordinator_start(s);
}

/* All slices are done: the round's units must be in the sums once each. */
static void sim_check_round(sim *s, const iso_update_order *u)
{
    sim_sum total = s->merged;
    unsigned char bytes[SIM_SUM_BYTES];
    if (s->o.config.sums_in_place) {
        memset(&total, 0, sizeof total);
        for (uint32_t i = 0; i < u->node_count; i++) {
            sim_sum_pack(&s->node[u->nodes[i]].sum, bytes);
            sim_sum_add(&total, bytes);
        }
    }
    s->counted[u->round] = 0;
    for (uint64_t i = 0; i < SIM_UNITS; i++) {
        if (total.units[i] != (i < u->units ? 1 : 0))
            sim_wrong(s, "round %" PRIu64 " unit %" PRIu64 " was counted %d times", u->round, i, total.units[i]);
        s->counted[u->round] += total.units[i];
    }
    for (uint32_t i = 0; i < SIM_WORDS; i++) {
        uint64_t rate;
        memcpy(&rate, &u->rate, sizeof rate);
        s->weights[i] = sim_mix(s->weights[i] ^ total.value ^ sim_mix(rate ^ u->step ^ u->samples << 32));
    }
    s->border_hash[u->round + 1] = sim_hash(s->weights);
    memset(&s->merged, 0, sizeof s->merged);
}

static void sim_record(sim *s, const iso_record *r)
{
    char name[16];
    if (r->kind != ISO_RECORD_COUNTED) {
        sim_tell(s, "C log %s %s units %" PRIu64, iso_record_name(r->kind), sim_name(r->node, name), r->units);
        s->returns += r->kind == ISO_RECORD_RETURN;
        s->waits += r->kind == ISO_RECORD_WAITING;
        s->declared += r->kind == ISO_RECORD_DEAD;
        if (r->kind == ISO_RECORD_DEAD)
            s->declared_at = s->now;
        if (r->kind == ISO_RECORD_BAD_FRAME || r->kind == ISO_RECORD_BAD_TOTALS || r->kind == ISO_RECORD_REFUSED)
            sim_wrong(s, "record %s about node %u", iso_record_name(r->kind), (unsigned)r->node);
        return;
    }
    for (uint32_t i = 0; i < r->range_count; i++)
        for (uint32_t k = 0; k < r->range[i].count; k++) {
            uint64_t bit = (uint64_t)1 << (r->range[i].first + k);
            if (s->audited & bit)
                sim_wrong(s, "audit: round %" PRIu64 " unit %u twice", r->round, (unsigned)(r->range[i].first + k));
            s->audited |= bit;
        }
}

static void sim_round(sim *s, const iso_round_result *r)
{
    uint64_t units = s->counted[r->round - 1];
    s->rounds_seen = r->round;
    sim_tell(s, "C round %" PRIu64 " of epoch %u: %" PRIu64 " samples", r->round, (unsigned)r->epoch,
             r->totals.samples);
    if (units == 0)
        sim_wrong(s, "round %" PRIu64 " was reported without an update", r->round);
}

static void sim_save(sim *s)
{
    s->checkpoints++;
    s->state_bytes = iso_coordinator_save(s->coordinator, s->state, sizeof s->state);
    if (s->state_bytes == 0)
        sim_wrong(s, "the state cannot be saved");
    memcpy(s->saved_weights, s->weights, sizeof s->weights);
    s->saved = true;
}

static void sim_send(sim *s, const iso_frame *frame)
{
    iso_frame f = *frame;
    char name[16];
    f.bulk = s->weights;
    sim_tell(s, "C -> %s %s r%" PRIu64, sim_name(f.to, name), iso_frame_name(f.kind), f.round);
    if (f.to != ISO_EVERYONE) {
        sim_carry(s, &f, f.to);
        return;
    }
    for (uint32_t i = 0; i < s->o.nodes; i++)
        sim_carry(s, &f, i);
}

static void sim_update(sim *s, const iso_update_order *u)
{
    if (u->slice >= 16 || u->node_count > SIM_NODES)
        return sim_wrong(s, "update slice %u of %u nodes", (unsigned)u->slice, (unsigned)u->node_count);
    s->update[u->slice] = *u;
    memcpy(s->update_nodes, u->nodes, u->node_count * sizeof *u->nodes);
    s->update[u->slice].nodes = s->update_nodes;
    sim_tell(s, "C update r%" PRIu64 " slice %u values %" PRIu64 "..%" PRIu64 " sums of %u", u->round,
             (unsigned)u->slice, u->begin, u->end, (unsigned)u->node_count);
    sim_push(s, s->now + 1000 + (int64_t)sim_draw(s, 500), SIM_UPDATED, u->slice, s->generation)->order = u->order;
}

static void sim_take(sim *s, uint32_t id)
{
    sim_tell(s, "C takes the sum of %u", (unsigned)id);
    if (!s->o.config.sums_in_place)
        sim_sum_add(&s->merged, s->node[id].sum_bytes);
}

static void sim_coordinator_effect(sim *s, const iso_effect *e)
{
    switch (e->kind) {
    case ISO_EFFECT_SEND:
        sim_send(s, &e->frame);
        return;
    case ISO_EFFECT_UPDATE:
        sim_update(s, &e->update);
        return;
    case ISO_EFFECT_TAKE:
        sim_take(s, e->take.node);
        return;
    case ISO_EFFECT_WAKE:
        if (e->at != ISO_NEVER && !s->o.canary_wake)
            sim_push(s, e->at, SIM_TIMER, ISO_COORDINATOR, s->generation);
        return;
    case ISO_EFFECT_CHECKPOINT:
        sim_tell(s, "C checkpoint r%" PRIu64, e->round);
        sim_save(s);
        return;
    case ISO_EFFECT_ROUND:
        sim_round(s, &e->round_result);
        return;
    case ISO_EFFECT_EPOCH:
        sim_tell(s, "C epoch %u", (unsigned)e->epoch_result.epoch);
        s->epoch[e->epoch_result.epoch % 32] = e->epoch_result;
        s->epochs_seen++;
        return;
    case ISO_EFFECT_LOG:
        sim_record(s, &e->record);
        return;
    case ISO_EFFECT_DONE:
        sim_tell(s, "C done%s", e->stopped ? ", stopped" : "");
        s->over = true;
        s->stopped = e->stopped;
        return;
    case ISO_EFFECT_FAILED:
        s->over = s->failed = true;
        sim_wrong(s, "failed: %s", e->error->text);
        return;
    default:
        sim_wrong(s, "the coordinator gave effect %s", iso_effect_name(e->kind));
    }
}

static void sim_coordinator_step(sim *s, iso_event event)
{
    event.now = s->now;
    s->steps++;
    if (iso_coordinator_step(s->coordinator, &event, &s->effects) != ISO_OK)
        sim_wrong(s, "coordinator step of event %d is refused", (int)event.kind);
    bool take = false, round = false;
    s->audited = 0;
    for (uint32_t i = 0; i < s->effects.count; i++) {
        take |= s->effects.item[i].kind == ISO_EFFECT_TAKE;
        round |= s->effects.item[i].kind == ISO_EFFECT_ROUND;
        sim_coordinator_effect(s, &s->effects.item[i]);
    }
    if (s->o.canary_take && event.kind == ISO_EVENT_FRAME && event.frame->kind == ISO_FRAME_SUM && !take)
        sim_sum_add(&s->merged, s->node[event.frame->from].sum_bytes);
    if (s->o.config.audit && round && s->rounds_seen > 0) {
        uint64_t units = s->counted[s->rounds_seen - 1], all = units == 64 ? UINT64_MAX : ((uint64_t)1 << units) - 1;
        if (s->audited != all)
            sim_wrong(s, "audit: round %" PRIu64 " has units %" PRIx64, s->rounds_seen, s->audited);
    }
    if (s->o.stop_round > 0 && round && s->rounds_seen == s->o.stop_round && !s->over)
        sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_STOP});
}

/* ---- the loop ---- */

static void sim_bytes(sim *s, const sim_event *e)
{
    iso_frame f;
    iso_error error;
    if (iso_frame_decode(&f, e->data, e->bytes, &error) != ISO_OK)
        return sim_wrong(s, "decode: %s", error.text);
    sim_node *n = e->to == ISO_COORDINATOR ? &s->node[f.from] : &s->node[e->to];
    iso_assembly *a = f.kind == ISO_FRAME_SUM ? &n->sum_gather : f.kind == ISO_FRAME_WEIGHTS ? &n->gather : NULL;
    if (e->to != ISO_COORDINATOR && !n->up)
        return;
    if (a) {
        iso_gather got = iso_assembly_add(a, &f);
        if (got == ISO_GATHER_BAD)
            sim_wrong(s, "a chunk of %s does not fit", iso_frame_name(f.kind));
        if (got != ISO_GATHER_COMPLETE)
            return;
    }
    if (e->to == ISO_COORDINATOR)
        sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
    else
        sim_worker_step(s, e->to, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
}

static void sim_updated(sim *s, const sim_event *e)
{
    bool last = true;
    const iso_update_order *u = &s->update[e->to];
    for (uint32_t i = 0; i < s->queued; i++)
        last &= !(s->queue[i].kind == SIM_UPDATED && s->queue[i].generation == s->generation);
    if (last)
        sim_check_round(s, u);
    iso_totals none;
    iso_totals_clear(&none);
    sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = e->order, .totals = none});
}

static void sim_dispatch(sim *s, const sim_event *e)
{
    switch (e->kind) {
    case SIM_BYTES:
        sim_bytes(s, e);
        return;
    case SIM_COMPUTED:
        if (s->node[e->to].generation == e->generation)
            sim_computed(s, e->to, (int64_t)e->order);
        return;
    case SIM_UPDATED:
        if (s->generation == e->generation)
            sim_updated(s, e);
        return;
    case SIM_TIMER:
        if (e->to == ISO_COORDINATOR && s->generation == e->generation)
            sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_TIMER});
        else if (e->to != ISO_COORDINATOR && s->node[e->to].generation == e->generation && s->node[e->to].up)
            sim_worker_step(s, e->to, (iso_event){.kind = ISO_EVENT_TIMER});
        return;
    case SIM_RETURN:
        if (!s->node[e->to].up)
            sim_node_start(s, e->to);
        return;
    case SIM_NOTICE:
        if (s->generation == e->generation && !s->node[e->to].up)
            sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_PEER_LOST, .node = e->to});
        return;
    case SIM_STOP:
        if (!s->over)
            sim_coordinator_step(s, (iso_event){.kind = ISO_EVENT_STOP});
        return;
    case SIM_COORDINATOR_DEATH:
        if (!s->over)
            sim_coordinator_die(s);
        return;
    }
}

static void sim_options_default(sim_options *o)
{
    memset(o, 0, sizeof *o);
    iso_core_config_default(&o->config);
    iso_core_config *c = &o->config;
    c->samples = 100;
    c->batch = 32;
    c->unit = 4;
    c->epochs = 2;
    c->seed = 7;
    c->optimizer.learning_rate = 0.1;
    c->values = 64;
    c->nodes_max = SIM_NODES;
    c->nodes_first = 1;
    c->first_wait = 1000000;
    c->slices = 2;
    c->audit = true;
    c->job_digest = 11;
    c->data_digest = 22;
    c->program = 33;
    o->nodes = 3;
    o->delay = 50000;
    o->tell_death = 1000;
    o->steps_max = 400000;
    for (int i = 0; i < SIM_NODES; i++)
        o->speed[i] = 4;
}

static sim *sim_new(const sim_options *o, uint64_t seed)
{
    sim *s = calloc(1, sizeof *s);
    s->o = *o;
    s->random = sim_mix(seed);
    s->queue = calloc(SIM_QUEUE, sizeof *s->queue);
    size_t bytes = iso_coordinator_bytes(&o->config);
    s->memory = aligned_alloc(ISO_ALIGN, (bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN);
    s->effects.capacity = iso_coordinator_effects_max(&o->config);
    s->effects.item = calloc(s->effects.capacity, sizeof *s->effects.item);
    s->worker_effects.capacity = ISO_WORKER_EFFECTS_MAX;
    s->worker_effects.item = calloc(ISO_WORKER_EFFECTS_MAX, sizeof *s->worker_effects.item);
    for (int i = 0; i < SIM_WORDS; i++)
        s->weights[i] = sim_mix((uint64_t)i);
    s->trace = stdout;
    return s;
}

static void sim_free(sim *s)
{
    free(s->queue);
    free(s->memory);
    free(s->effects.item);
    free(s->worker_effects.item);
    free(s);
}

static void sim_run(sim *s)
{
    sim_coordinator_start(s);
    for (uint32_t i = 0; i < s->o.nodes; i++)
        sim_push(s, s->o.first_join[i], SIM_RETURN, i, 0);
    for (uint32_t i = 0; i < s->o.coordinator_deaths; i++)
        sim_push(s, (int64_t)sim_draw(s, (uint64_t)s->o.coordinator_span), SIM_COORDINATOR_DEATH, 0, 0);
    if (s->o.stop_at > 0)
        sim_push(s, s->o.stop_at, SIM_STOP, 0, 0);
    while (!s->over && s->wrong[0] == '\0') {
        if (s->queued == 0) {
            sim_wrong(s, "nothing will happen any more, and the run is not over");
        } else if (s->steps > s->o.steps_max) {
            sim_wrong(s, "not over after %" PRIu64 " steps", s->steps);
        } else {
            sim_event e = sim_pop(s);
            s->now = e.at;
            sim_dispatch(s, &e);
            if (s->o.watch)
                s->o.watch(s, s->o.context);
        }
    }
}

#endif

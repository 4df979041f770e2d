/* SPDX-License-Identifier: Apache-2.0
 * What a round of many nodes costs the coordinator itself, the merge left out: learning all scores and sharing out anew, and
 * the whole coordinator in virtual time, every step of it timed (the clock's own price taken off), for a policy of exact sums
 * and one of local steps with its monitor.
 *
 *     bench_round [ROUNDS]      prints tables in Markdown */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "core/partition.h"
#include "core/score.h"
#include "isochron/core.h"

enum { UNIT = 16, UNITS_A_NODE = 32, WORST = 90 /* percentile */ };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *v, uint32_t count, uint32_t percent)
{
    qsort(v, count, sizeof *v, by_size);
    return count > 0 ? v[count * percent / 100] : 0;
}

static void *take(size_t count, size_t size)
{
    size_t bytes = (count * size + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    void *p = aligned_alloc(ISO_ALIGN, bytes);
    if (!p)
        exit(1);
    memset(p, 0, bytes);
    return p;
}

/* ---- scores and shares alone ---- */

static void modules(uint32_t nodes, uint32_t rounds)
{
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = nodes, .purpose = ISO_PURPOSE_NOISE});
    iso_score *score = take(nodes, sizeof *score);
    iso_share *share = take(nodes, sizeof *share);
    uint32_t *heap = take(nodes, sizeof *heap);
    double *speed = take(nodes, sizeof *speed), *learn = take(rounds, sizeof *learn), *part = take(rounds, sizeof *part);
    for (uint32_t k = 0; k < nodes; k++)
        speed[k] = 1000 * exp(2 * iso_rng_double(&r));
    for (uint32_t i = 0; i < rounds; i++) {
        double begun = now_ns();
        for (uint32_t k = 0; k < nodes; k++)
            iso_score_measure(&score[k], 512, 512 * speed[k] * (0.9 + 0.2 * ((k * 7 + i * 13) % 101) / 101.0));
        double learned = now_ns();
        for (uint32_t k = 0; k < nodes; k++)
            share[k] = (iso_share){.unit_ns = score[k].ns * UNIT, .fixed_ns = 1e6, .most = UINT32_MAX};
        iso_partition(share, nodes, (uint64_t)nodes * UNITS_A_NODE, heap);
        learn[i] = (learned - begun) / 1e3;
        part[i] = (now_ns() - learned) / 1e3;
    }
    printf("| %u | %.1f | %.1f |\n", nodes, quantile(learn, rounds, 50), quantile(part, rounds, 50));
    free(score);
    free(share);
    free(heap);
    free(speed);
    free(learn);
    free(part);
}

/* ---- the whole coordinator ---- */

typedef struct machine {
    iso_worker *worker;
    double ns;            /* a sample */
    iso_compute order;
    int64_t began;
    uint32_t units, pulses;
    int64_t next;         /* of its next event, ISO_NEVER: none */
} machine;

typedef struct world {
    iso_core_config config;
    iso_plan plan;
    iso_coordinator *c;
    iso_effects effects, worker_effects;
    machine *node;
    int64_t now, wake;
    double clock, round_ns, *round;
    uint32_t rounds, steps;
    uint64_t frames, round_frames;
    bool over;
} world;

static void coordinator_step(world *w, iso_event ev);

/* When the order's next pulse or its end is. */
static void plan_next(world *w, machine *m)
{
    uint64_t every = (uint64_t)w->plan.monitor_every * w->plan.local_batch;
    uint64_t samples = (uint64_t)m->units * UNIT, all = iso_compute_samples(&m->order);
    samples = samples < all ? samples : all;
    if (every > 0 && (m->pulses + 1) * every < samples)
        samples = (m->pulses + 1) * every;
    m->next = m->began + (int64_t)((double)samples * m->ns);
}

static void worker_step(world *w, uint32_t id, iso_event ev)
{
    machine *m = &w->node[id];
    iso_frame out[ISO_WORKER_EFFECTS_MAX];
    uint32_t frames = 0;
    ev.now = w->now;
    iso_worker_step(m->worker, &ev, &w->worker_effects);
    for (uint32_t i = 0; i < w->worker_effects.count; i++) {
        const iso_effect *e = &w->worker_effects.item[i];
        if (e->kind == ISO_EFFECT_SEND) {
            out[frames++] = e->frame;
        } else if (e->kind == ISO_EFFECT_COMPUTE) {
            m->order = e->compute;
            m->began = w->now;
            m->units = e->compute.units;
            m->pulses = 0;
            plan_next(w, m);
        } else if (e->kind == ISO_EFFECT_CUT && m->next != ISO_NEVER) {
            double done = (double)(w->now - m->began) / m->ns / UNIT;
            uint32_t least = (uint32_t)done + 1;
            least = e->cut.units > least ? e->cut.units : least;
            m->units = least < m->units ? least : m->units;
            plan_next(w, m);
        }
    }
    for (uint32_t i = 0; i < frames; i++)
        coordinator_step(w, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &out[i]});
}

/* The frames of one step go out after it: the answers of the workers step the coordinator again. */
static void carry_out(world *w, const iso_effect *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const iso_effect *e = &item[i];
        if (e->kind == ISO_EFFECT_SEND) {
            for (uint32_t k = 0; k < w->config.nodes_max; k++)
                if (e->frame.to == ISO_EVERYONE || e->frame.to == k)
                    worker_step(w, k, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &e->frame});
        } else if (e->kind == ISO_EFFECT_UPDATE) {
            iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = e->update.order};
            iso_totals_clear(&done.totals);
            coordinator_step(w, done);
        }
    }
}

static void coordinator_step(world *w, iso_event ev)
{
    ev.now = w->now;
    double begun = now_ns();
    iso_coordinator_step(w->c, &ev, &w->effects);
    w->round_ns += now_ns() - begun - w->clock;
    w->steps++;
    w->round_frames += ev.kind == ISO_EVENT_FRAME;
    uint32_t kept = 0;
    iso_effect *mine = take(w->effects.count + 1, sizeof *mine);
    for (uint32_t i = 0; i < w->effects.count; i++) {
        const iso_effect *e = &w->effects.item[i];
        if (e->kind == ISO_EFFECT_SEND || e->kind == ISO_EFFECT_UPDATE)
            mine[kept++] = *e;
        else if (e->kind == ISO_EFFECT_WAKE)
            w->wake = e->at;
        else if (e->kind == ISO_EFFECT_DONE || e->kind == ISO_EFFECT_FAILED)
            w->over = true;
        else if (e->kind == ISO_EFFECT_ROUND) {
            w->round[w->rounds++] = w->round_ns / 1e3;
            w->frames += w->round_frames;
            w->round_ns = 0;
            w->round_frames = 0;
        }
    }
    carry_out(w, mine, kept);
    free(mine);
}

static void machine_event(world *w, uint32_t id)
{
    machine *m = &w->node[id];
    uint64_t samples = iso_compute_samples(&m->order), cut = (uint64_t)m->units * UNIT;
    uint64_t every = (uint64_t)w->plan.monitor_every * w->plan.local_batch;
    samples = cut < samples ? cut : samples;
    iso_event ev = {.kind = ISO_EVENT_ORDER_DONE, .order = m->order.order, .units = m->units};
    iso_totals_clear(&ev.totals);
    if (every > 0 && (m->pulses + 1) * every < samples) {
        ev.kind = ISO_EVENT_PULSE;
        samples = ++m->pulses * every;
        ev.figures = (iso_figures){.norm2 = 1e-3 * m->pulses, .dot = 1e-2};
        plan_next(w, m);
    } else {
        m->next = ISO_NEVER;
    }
    ev.totals.samples = samples;
    ev.totals.loss = iso_wide_of((int64_t)samples << 40);
    ev.totals.busy = (int64_t)((double)samples * m->ns);
    worker_step(w, id, ev);
}

static void begin(world *w, uint32_t nodes, const char *policy, uint32_t rounds)
{
    iso_error e;
    iso_core_config *c = &w->config;
    iso_core_config_default(c);
    c->batch = (uint64_t)nodes * UNITS_A_NODE * UNIT;
    c->samples = c->batch * rounds;
    c->unit = UNIT;
    c->values = 61712;
    c->nodes_max = c->nodes_first = nodes;
    c->optimizer.learning_rate = 0.1;
    c->shared_weights = true;
    if (iso_policy_parse(&c->policy, policy, &e) != ISO_OK || iso_core_config_check(c, &e) != ISO_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    iso_policy_plan(&c->policy, c->samples, c->batch, &w->plan);
    w->c = iso_coordinator_init(c, 0, take(1, iso_coordinator_bytes(c)));
    w->effects.capacity = iso_coordinator_effects_max(c);
    w->effects.item = take(w->effects.capacity, sizeof *w->effects.item);
    w->worker_effects.capacity = ISO_WORKER_EFFECTS_MAX;
    w->worker_effects.item = take(ISO_WORKER_EFFECTS_MAX, sizeof *w->worker_effects.item);
    w->node = take(nodes, sizeof *w->node);
    w->round = take(100000, sizeof *w->round);
    w->wake = ISO_NEVER;
    w->clock = 1e9;
    for (int i = 0; i < 1000; i++) {
        double t = now_ns();
        w->clock = fmin(w->clock, now_ns() - t);
    }
}

static void whole(uint32_t nodes, const char *policy, uint32_t rounds)
{
    world *w = take(1, sizeof *w);
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = nodes, .purpose = ISO_PURPOSE_NOISE, .layer = 1});
    begin(w, nodes, policy, rounds);
    coordinator_step(w, (iso_event){.kind = ISO_EVENT_START});
    for (uint32_t k = 0; k < nodes; k++) {
        w->node[k].ns = 1e5 * exp(2 * iso_rng_double(&r));
        w->node[k].next = ISO_NEVER;
        w->node[k].worker = iso_worker_init(&(iso_worker_config){.node = k, .life = 1, .samples = w->config.samples,
                                                                 .shared_weights = true}, take(1, iso_worker_bytes()));
    }
    for (uint32_t k = 0; k < nodes; k++)
        worker_step(w, k, (iso_event){.kind = ISO_EVENT_START});
    while (!w->over && w->rounds < rounds) {
        uint32_t first = 0;
        for (uint32_t k = 1; k < nodes; k++)
            first = w->node[k].next < w->node[first].next ? k : first;
        int64_t at = w->node[first].next;
        if (at == ISO_NEVER && w->wake == ISO_NEVER)
            break;
        w->now = at < w->wake ? at : w->wake;
        if (at < w->wake) {
            machine_event(w, first);
        } else {
            w->wake = ISO_NEVER;
            coordinator_step(w, (iso_event){.kind = ISO_EVENT_TIMER});
        }
    }
    uint32_t skip = w->rounds > 8 ? 8 : 0; /* probes, and memory that is touched for the first time */
    double per = w->rounds > 0 ? (double)w->frames / w->rounds : 0;
    printf("| %s | %u | %.0f | %.0f | %.0f | %u |\n", policy, nodes, per, quantile(w->round + skip, w->rounds - skip, 50),
           quantile(w->round + skip, w->rounds - skip, WORST), w->rounds);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 40;
    puts("| nodes | learning all scores, us | sharing out, us |\n|---|---|---|");
    static const uint32_t counts[] = {4, 100, 1000, 10000, 65536};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        modules(counts[i], counts[i] > 10000 ? 11 : 101);
    puts("\n| policy | nodes | frames taken a round | us a round, median | 90 % below | rounds |\n|---|---|---|---|---|---|");
    static const char *const policies[] = {"lb-bsp", "nns", "local-sgd:period=32", "hmdspt:h_min=32:h_max=64"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        whole(100, policies[p], rounds);
        whole(1000, policies[p], rounds);
    }
    return 0;
}

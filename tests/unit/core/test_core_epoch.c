/* SPDX-License-Identifier: Apache-2.0
 * The courses whose pool is an epoch (local steps, answers applied as they come): every sample of every epoch counts exactly
 * once, rounds only grow and the run ends, whatever is lost, repeated, late, dead, back again or resumed.
 *
 * A world without arithmetic: nodes take time, frames travel, TAKE moves a note of what was computed; the COUNTED records say
 * what the coordinator counted, and the notes say whether that was really computed. `test_core_epoch SEED` replays one seed
 * of each policy. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "isochron/core.h"

enum { NODES = 5, EVENTS = 65536, SAMPLES = 1000, UNIT = 16, UNITS = 63, EPOCHS = 2, STATE = 8192 };

typedef enum kind { FRAME, COMPUTED, UPDATED, TIMER, FLIP, JOIN, RESTART, PULSE } kind;

typedef struct event {
    int64_t at;
    uint64_t sequence, order, generation;
    kind kind;
    uint32_t who;
    uint32_t units;
    iso_frame frame;
    uint8_t made[UNITS]; /* SUM: times each unit is in it */
    uint64_t base;
} event;

typedef struct node {
    bool up, computing;
    uint64_t generation, life;
    iso_worker *worker;
    _Alignas(64) unsigned char memory[4096];
    iso_compute order;
    int64_t began;
    double ns_per_sample;
    uint8_t made[UNITS]; /* of its last order */
    uint64_t weights;    /* rounds */
    bool flipped;        /* they are wrong: what is computed with them must not count */
} node;

typedef struct world {
    iso_core_config config;
    uint64_t seed;
    iso_rng rng;
    uint32_t loss, duplicate, death, flip; /* in 1000 */
    int64_t now;
    uint64_t sequence;
    event *queue;
    uint32_t queued;
    node node[NODES];
    iso_coordinator *coordinator;
    void *memory;
    uint64_t generation;
    iso_effects effects, worker_effects;
    uint8_t taken[NODES][UNITS]; /* what the coordinator has of each node */
    uint32_t update_nodes[NODES], update_count;
    uint64_t update_order;
    unsigned char state[STATE];
    size_t state_bytes;
    uint8_t saved_counted[EPOCHS][UNITS];
    uint8_t counted[EPOCHS][UNITS];
    uint64_t round, saved_round, rounds_seen, cuts, pulses, staleness;
    uint32_t restarts, deaths, flips, drifts;
    bool over;
    char wrong[200];
} world;

static void wrong(world *w, const char *format, ...) ISO_PRINTF(2, 3);
static void wrong(world *w, const char *format, ...)
{
    va_list a;
    if (w->wrong[0])
        return;
    va_start(a, format);
    vsnprintf(w->wrong, sizeof w->wrong, format, a);
    va_end(a);
}

static bool before(const event *a, const event *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void push(world *w, event e)
{
    if (w->queued == EVENTS) {
        wrong(w, "too many events");
        return;
    }
    e.sequence = w->sequence++;
    uint32_t i = w->queued++;
    for (; i > 0 && before(&e, &w->queue[(i - 1) / 2]); i = (i - 1) / 2)
        w->queue[i] = w->queue[(i - 1) / 2];
    w->queue[i] = e;
}

static event pop(world *w)
{
    event top = w->queue[0], last = w->queue[--w->queued];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= w->queued)
            break;
        if (child + 1 < w->queued && before(&w->queue[child + 1], &w->queue[child]))
            child++;
        if (!before(&w->queue[child], &last))
            break;
        w->queue[i] = w->queue[child];
        i = child;
    }
    w->queue[i] = last;
    return top;
}

static void send_frame(world *w, const iso_frame *f, uint32_t to, const uint8_t *made)
{
    uint32_t copies = iso_rng_chance(&w->rng, w->loss, 1000) ? 0 : iso_rng_chance(&w->rng, w->duplicate, 1000) ? 2 : 1;
    for (uint32_t i = 0; i < copies; i++) {
        event e = {.at = w->now + iso_rng_between(&w->rng, 100000, 900000), .kind = FRAME, .who = to, .frame = *f};
        e.frame.bulk = NULL;
        e.base = f->round;
        if (made)
            memcpy(e.made, made, UNITS);
        push(w, e);
    }
}

/* ---- nodes ---- */

static void worker_step(world *w, uint32_t id, iso_event ev);

static void worker_effects(world *w, uint32_t id)
{
    node *n = &w->node[id];
    iso_effect item[ISO_WORKER_EFFECTS_MAX];
    uint32_t count = w->worker_effects.count;
    memcpy(item, w->worker_effects.item, count * sizeof *item);
    for (uint32_t i = 0; i < count; i++) {
        const iso_effect *f = &item[i];
        switch (f->kind) {
        case ISO_EFFECT_SEND:
            if (f->frame.kind == ISO_FRAME_PULSE)
                w->pulses++;
            send_frame(w, &f->frame, ISO_COORDINATOR, f->frame.kind == ISO_FRAME_SUM ? n->made : NULL);
            break;
        case ISO_EFFECT_COMPUTE:
            if (n->computing)
                wrong(w, "node %u computes two orders at once", id);
            if (f->compute.purpose == ISO_PASS_TRAIN && f->compute.round != n->weights)
                wrong(w, "node %u computes round %" PRIu64 " with weights %" PRIu64, id, f->compute.round, n->weights);
            n->computing = true;
            n->order = f->compute;
            n->began = w->now;
            push(w, (event){.at = w->now + (int64_t)((double)iso_compute_samples(&f->compute) * n->ns_per_sample),
                            .kind = COMPUTED, .who = id, .order = f->compute.order, .units = f->compute.units,
                            .generation = n->generation});
            if (w->config.policy.policy && f->compute.purpose == ISO_PASS_TRAIN)
                push(w, (event){.at = w->now + (int64_t)(64 * n->ns_per_sample), .kind = PULSE, .who = id,
                                .order = f->compute.order, .units = 4, .generation = n->generation});
            break;
        case ISO_EFFECT_CUT: {
            w->cuts++;
            if (!n->computing || n->order.order != f->cut.order)
                wrong(w, "node %u is told to cut what it does not compute", id);
            double unit_ns = UNIT * n->ns_per_sample;
            uint32_t done = (uint32_t)((double)(w->now - n->began) / unit_ns) + 1;
            uint32_t units = f->cut.units > done ? f->cut.units : done;
            if (units < n->order.units)
                push(w, (event){.at = n->began + (int64_t)(units * unit_ns), .kind = COMPUTED, .who = id,
                                .order = n->order.order, .units = units, .generation = n->generation});
            break;
        }
        case ISO_EFFECT_CANCEL:
            push(w, (event){.at = w->now, .kind = COMPUTED, .who = id, .order = f->order, .generation = n->generation});
            break;
        case ISO_EFFECT_ADOPT:
        case ISO_EFFECT_APPLY:
            if (f->kind == ISO_EFFECT_APPLY && n->weights + 1 != f->round)
                wrong(w, "node %u adds a difference of round %" PRIu64 " to weights %" PRIu64, id, f->round, n->weights);
            n->weights = f->round;
            n->flipped = (f->kind == ISO_EFFECT_APPLY && n->flipped) || iso_rng_chance(&w->rng, w->flip, 1000);
            if (n->flipped) {
                w->flips++;
                push(w, (event){.at = w->now, .kind = FLIP, .who = id, .generation = n->generation});
            }
            break;
        case ISO_EFFECT_WAKE:
            push(w, (event){.at = f->at, .kind = TIMER, .who = id, .generation = n->generation});
            break;
        default:
            break;
        }
    }
}

static void worker_step(world *w, uint32_t id, iso_event ev)
{
    node *n = &w->node[id];
    ev.now = w->now;
    if (iso_worker_step(n->worker, &ev, &w->worker_effects) != ISO_OK)
        wrong(w, "node %u refuses event %d", id, (int)ev.kind);
    else
        worker_effects(w, id);
}

static void start_node(world *w, uint32_t id)
{
    node *n = &w->node[id];
    n->up = true;
    n->computing = false;
    n->generation++;
    n->weights = UINT64_MAX;
    n->flipped = false;
    n->worker = iso_worker_init(&(iso_worker_config){.node = id, .life = ++n->life, .samples = SAMPLES, .test = 50,
                                                     .seed = 1, .resend = 5000000, .heartbeat = 20000000}, n->memory);
    worker_step(w, id, (iso_event){.kind = ISO_EVENT_START});
}

/* Which units an order's first `units` are. */
static void make(node *n, uint32_t units)
{
    memset(n->made, 0, UNITS);
    for (uint32_t i = 0; i < units; i++) {
        uint64_t first;
        iso_compute_unit(&n->order, i, &first);
        n->made[first / UNIT]++;
    }
}

static void computed(world *w, const event *e)
{
    node *n = &w->node[e->who];
    if (!n->up || e->generation != n->generation || !n->computing || e->order != n->order.order)
        return;
    n->computing = false;
    iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = e->order, .units = e->units};
    iso_totals_clear(&done.totals);
    for (uint32_t i = 0; i < e->units; i++) {
        uint64_t first;
        done.totals.samples += iso_compute_unit(&n->order, i, &first);
    }
    done.totals.busy = w->now - n->began;
    done.totals.loss = iso_wide_of((int64_t)done.totals.samples << 40);
    if (n->order.purpose == ISO_PASS_TRAIN)
        make(n, e->units);
    worker_step(w, e->who, done);
}

static void pulse(world *w, const event *e)
{
    node *n = &w->node[e->who];
    if (!n->up || e->generation != n->generation || !n->computing || e->order != n->order.order || e->units >= n->order.units)
        return;
    iso_event ev = {.kind = ISO_EVENT_PULSE, .order = e->order, .figures = {.norm2 = e->units, .dot = 0.1}};
    ev.totals.samples = e->units * UNIT;
    worker_step(w, e->who, ev);
    push(w, (event){.at = w->now + (int64_t)(64 * n->ns_per_sample), .kind = PULSE, .who = e->who, .order = e->order,
                    .units = e->units + 4, .generation = e->generation});
}

/* ---- the coordinator ---- */

static void counted(world *w, const iso_record *r)
{
    for (uint32_t i = 0; i < r->range_count; i++)
        for (uint32_t u = r->range[i].first; u < r->range[i].first + r->range[i].count; u++) {
            if (w->counted[r->epoch][u]++)
                wrong(w, "unit %u of epoch %u counts twice", u, r->epoch);
            if (w->taken[r->node][u] != 1)
                wrong(w, "unit %u counts, but node %u computed it %u times", u, r->node, w->taken[r->node][u]);
        }
    memset(w->taken[r->node], 0, UNITS);
}

static void coordinator_step(world *w, iso_event ev, const uint8_t *made)
{
    ev.now = w->now;
    if (iso_coordinator_step(w->coordinator, &ev, &w->effects) != ISO_OK) {
        wrong(w, "the coordinator refuses event %d", (int)ev.kind);
        return;
    }
    for (uint32_t i = 0; i < w->effects.count; i++) {
        const iso_effect *f = &w->effects.item[i];
        switch (f->kind) {
        case ISO_EFFECT_SEND:
            for (uint32_t k = 0; k < NODES; k++)
                if (f->frame.to == k || f->frame.to == ISO_EVERYONE)
                    send_frame(w, &f->frame, k, NULL);
            break;
        case ISO_EFFECT_TAKE:
            memcpy(w->taken[f->take.node], made, UNITS);
            break;
        case ISO_EFFECT_UPDATE:
            w->update_order = f->update.order;
            w->staleness += f->update.staleness;
            push(w, (event){.at = w->now + 50000, .kind = UPDATED, .who = ISO_COORDINATOR, .order = f->update.order,
                            .generation = w->generation});
            break;
        case ISO_EFFECT_WAKE:
            push(w, (event){.at = f->at, .kind = TIMER, .who = ISO_COORDINATOR, .generation = w->generation});
            break;
        case ISO_EFFECT_CHECKPOINT:
            w->state_bytes = iso_coordinator_save(w->coordinator, w->state, sizeof w->state);
            if (w->state_bytes == 0)
                wrong(w, "no state at a checkpoint");
            memcpy(w->saved_counted, w->counted, sizeof w->counted);
            w->saved_round = w->round;
            break;
        case ISO_EFFECT_ROUND:
            if (f->round_result.round != w->round + 1)
                wrong(w, "round %" PRIu64 " after %" PRIu64, f->round_result.round, w->round);
            w->round = f->round_result.round;
            w->rounds_seen++;
            break;
        case ISO_EFFECT_LOG:
            if (f->record.kind == ISO_RECORD_COUNTED)
                counted(w, &f->record);
            w->drifts += f->record.kind == ISO_RECORD_DRIFTED;
            break;
        case ISO_EFFECT_DONE:
            w->over = true;
            break;
        case ISO_EFFECT_FAILED:
            wrong(w, "failed: %s", f->error->text);
            break;
        default:
            break;
        }
    }
}

static void restart(world *w)
{
    iso_error e;
    w->generation++;
    w->restarts++;
    w->coordinator = iso_coordinator_init(&w->config, (uint32_t)w->generation, w->memory);
    memcpy(w->counted, w->saved_counted, sizeof w->counted);
    memset(w->taken, 0, sizeof w->taken);
    w->round = w->saved_round;
    if (w->state_bytes && iso_coordinator_resume(w->coordinator, w->state, w->state_bytes, &e) != ISO_OK)
        wrong(w, "resume: %s", e.text);
    coordinator_step(w, (iso_event){.kind = ISO_EVENT_START}, NULL);
}

static void happen(world *w, event *e)
{
    node *n = e->who < NODES ? &w->node[e->who] : NULL;
    switch (e->kind) {
    case FRAME:
        if (!n)
            coordinator_step(w, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &e->frame}, e->made);
        else if (n->up)
            worker_step(w, e->who, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &e->frame});
        break;
    case COMPUTED:
        if (n->up && iso_rng_chance(&w->rng, w->death, 1000)) {
            n->up = false;
            w->deaths++;
            push(w, (event){.at = w->now + iso_rng_between(&w->rng, 0, 200000000), .kind = JOIN, .who = e->who});
        }
        computed(w, e);
        break;
    case PULSE:
        pulse(w, e);
        break;
    case UPDATED:
        if (e->generation == w->generation) {
            iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = e->order};
            iso_totals_clear(&done.totals);
            coordinator_step(w, done, NULL);
        }
        break;
    case TIMER:
        if (!n && e->generation == w->generation)
            coordinator_step(w, (iso_event){.kind = ISO_EVENT_TIMER}, NULL);
        else if (n && n->up && e->generation == n->generation)
            worker_step(w, e->who, (iso_event){.kind = ISO_EVENT_TIMER});
        break;
    case FLIP:
        if (n->up && e->generation == n->generation)
            worker_step(w, e->who, (iso_event){.kind = ISO_EVENT_DRIFTED});
        break;
    case JOIN:
        start_node(w, e->who);
        break;
    case RESTART:
        if (!w->over)
            restart(w);
        break;
    }
}

static void run(world *w, const char *policy, uint64_t seed, bool disaster)
{
    iso_error e;
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->rng = iso_rng_make(&(iso_rng_key){.seed = seed, .purpose = ISO_PURPOSE_TEST});
    iso_core_config_default(&w->config);
    w->config.samples = SAMPLES;
    w->config.test = 50;
    w->config.batch = 64;
    w->config.unit = UNIT;
    w->config.epochs = EPOCHS;
    w->config.seed = 1;
    w->config.values = 64;
    w->config.optimizer.learning_rate = 0.1;
    w->config.nodes_max = NODES;
    w->config.nodes_first = 1;
    w->config.audit = true;
    w->config.resend = 4000000;
    w->config.deadline_floor = 60000000;
    w->config.deadline_first = 200000000;
    w->config.checkpoint_rounds = disaster ? 1 + iso_rng_below32(&w->rng, 5) : 0;
    assert_int_equal(iso_policy_parse(&w->config.policy, policy, &e), ISO_OK);
    if (disaster) {
        w->loss = iso_rng_below32(&w->rng, 60);
        w->duplicate = iso_rng_below32(&w->rng, 60);
        w->death = iso_rng_below32(&w->rng, 60);
        w->flip = iso_rng_below32(&w->rng, 20);
    }
    w->queue = malloc(EVENTS * sizeof *w->queue);
    w->memory = aligned_alloc(ISO_ALIGN, (iso_coordinator_bytes(&w->config) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN);
    uint32_t most = iso_coordinator_effects_max(&w->config);
    w->effects = (iso_effects){.item = malloc(most * sizeof(iso_effect)), .capacity = most};
    w->worker_effects = (iso_effects){.item = malloc(ISO_WORKER_EFFECTS_MAX * sizeof(iso_effect)),
                                      .capacity = ISO_WORKER_EFFECTS_MAX};
    restart(w);
    w->restarts = 0;
    static const double speed[NODES] = {250e3, 500e3, 1000e3, 2000e3, 700e3}; /* ns a sample */
    for (uint32_t i = 0; i < NODES; i++) {
        w->node[i].ns_per_sample = speed[i];
        push(w, (event){.at = iso_rng_between(&w->rng, 0, 3000000), .kind = JOIN, .who = i});
    }
    for (uint32_t i = 0; disaster && i < 2; i++)
        push(w, (event){.at = iso_rng_between(&w->rng, 0, 600000000), .kind = RESTART, .who = ISO_COORDINATOR});
    for (uint64_t steps = 0; !w->over && !w->wrong[0]; steps++) {
        if (w->queued == 0 || steps > 400000) {
            wrong(w, "no end after %" PRIu64 " events, round %" PRIu64, steps, w->round);
            break;
        }
        event next = pop(w);
        w->now = next.at > w->now ? next.at : w->now;
        if (w->now > (int64_t)60000000000) /* everything heals */
            w->loss = w->duplicate = w->death = w->flip = 0;
        happen(w, &next);
    }
    for (uint32_t p = 0; p < EPOCHS && !w->wrong[0]; p++)
        for (uint32_t u = 0; u < UNITS; u++)
            if (w->counted[p][u] != 1)
                wrong(w, "unit %u of epoch %u counts %u times", u, p, w->counted[p][u]);
    free(w->queue);
    free(w->memory);
    free(w->effects.item);
    free(w->worker_effects.item);
}

static const char *const policies[] = {"hmdspt",     "mixbp:period=64", "local-sgd:period=8", "post-local", "adacomm:period=16",
                                       "fda:theta=3", "diloco:period=20", "ssp",               "asp",        "ssp:staleness=0",
                                       "local-sgd:local_batch=64:period=2", "asp:local_batch=40", "online"};
static uint64_t only;

static void every_sample_counts_once(void **state)
{
    (void)state;
    world *w = malloc(sizeof *w);
    uint64_t restarts = 0, cuts = 0, deaths = 0, drifts = 0;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (uint64_t seed = only ? only : 1; seed <= (only ? only : 300); seed++) {
            run(w, policies[p], seed, seed > 1);
            if (w->wrong[0])
                fail_msg("%s: %s; replay: test_core_epoch %" PRIu64, policies[p], w->wrong, seed);
            restarts += w->restarts;
            cuts += w->cuts;
            deaths += w->deaths;
            drifts += w->drifts;
        }
    if (!only)
        assert_true(restarts > 100 && cuts > 100 && deaths > 100 && drifts > 100); /* else there was no disaster */
    free(w);
}

/* In calm weather the parts that the disasters exercise really happen. */
static void the_courses_do_what_they_are_for(void **state)
{
    (void)state;
    world *w = malloc(sizeof *w);
    run(w, "local-sgd:period=8", 1, false);
    assert_string_equal(w->wrong, "");
    assert_true(w->rounds_seen > 4 && w->rounds_seen < 60 && w->cuts == 0);
    run(w, "fda:theta=3", 1, false);
    assert_string_equal(w->wrong, "");
    assert_true(w->cuts > 0 && w->pulses > 0);
    run(w, "asp", 1, false);
    assert_string_equal(w->wrong, "");
    assert_true(w->rounds_seen == EPOCHS * UNITS && w->staleness > 0);
    uint64_t free_staleness = w->staleness;
    run(w, "ssp:staleness=0", 1, false);
    assert_string_equal(w->wrong, "");
    assert_true(w->rounds_seen == EPOCHS * UNITS && w->staleness < free_staleness);
    free(w);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_counts_once),
        cmocka_unit_test(the_courses_do_what_they_are_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

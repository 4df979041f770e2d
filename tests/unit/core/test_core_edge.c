/* SPDX-License-Identifier: Apache-2.0
 * Edges: tiny and lopsided jobs, no node for a while, slow nodes against dead ones, shares by speed, and a thousand
 * nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "core_sim.h"

static sim *run(const sim_options *o)
{
    sim *s = sim_new(o, 5);
    sim_run(s);
    if (s->wrong[0] != '\0')
        print_error("%s\n", s->wrong);
    assert_int_equal(s->wrong[0], 0);
    assert_true(s->over && !s->stopped);
    return s;
}

/* users.md A3, A7: any samples, batch, unit and number of nodes give what one node gives. */
static void tiny_jobs_give_the_same_on_any_nodes(void **state)
{
    (void)state;
    static const char *const policies[] = {"nns", "bsp", "cumulative", "lb-bsp"};
    static const struct {
        uint64_t samples, batch;
        uint32_t unit;
    } jobs[] = {{1, 1, 1}, {1, 100, 16}, {2, 8, 1}, {3, 4, 4}, {9, 4, 2}, {10, 3, 16}};
    for (size_t p = 0; p < 4; p++)
        for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
            sim_options o;
            sim_options_default(&o);
            iso_policy_spec_default(&o.config.policy, iso_policy_find(policies[p]));
            o.config.samples = jobs[j].samples;
            o.config.batch = jobs[j].batch;
            o.config.unit = jobs[j].unit;
            o.nodes = 1;
            sim *one = run(&o);
            assert_true(one->epoch[1].train.samples == jobs[j].samples);
            for (uint32_t nodes = 2; nodes <= SIM_NODES; nodes += 3) {
                o.nodes = o.config.nodes_first = nodes;
                sim *many = run(&o);
                assert_true(sim_hash(many->weights) == sim_hash(one->weights));
                assert_true(many->rounds_seen == one->rounds_seen);
                sim_free(many);
            }
            sim_free(one);
        }
}

/* Nobody is there at first, then the only node dies and comes back: the run waits, says so once, and ends well. */
static void without_nodes_it_waits(void **state)
{
    (void)state;
    sim_options o;
    sim_options_default(&o);
    o.nodes = 1;
    sim *calm = run(&o);
    o.first_join[0] = 50000000000;
    o.die_order_at[0] = 3;
    o.return_after = 7000000000;
    sim *s = run(&o);
    assert_true(sim_hash(s->weights) == sim_hash(calm->weights));
    assert_true(s->now > 57000000000 && s->waits == 1 && s->returns == 1);
    sim_free(s);
    sim_free(calm);
}

/* users.md B5: steps of 9 s against a floor of 1 s: slow is not dead. */
static void a_slow_node_is_not_dead(void **state)
{
    (void)state;
    sim_options o;
    sim_options_default(&o);
    o.nodes = o.config.nodes_first = 2;
    o.config.first_wait = ISO_NEVER;
    iso_policy_spec_default(&o.config.policy, iso_policy_find("bsp"));
    o.speed[0] = 1000;
    o.speed[1] = 16 / 9000.0;
    sim *s = run(&o);
    assert_true(s->declared == 0 && s->now > (int64_t)5 * 9000000000);
    sim_free(s);
}

/* The other half: a node that dies without a word at steps of 8 ms is found in well under a second after its deadline
 * is learned. */
static void a_dead_node_is_found_soon(void **state)
{
    (void)state;
    sim_options o;
    sim_options_default(&o);
    o.nodes = o.config.nodes_first = 3;
    o.config.deadline_floor = 200000000;
    o.tell_death = 0;
    o.die_order_at[1] = 4;
    o.return_after = 3000000000;
    sim *s = run(&o);
    assert_true(s->declared == 1 && s->deaths == 1);
    assert_true(s->declared_at - s->died_at < 500000000);
    sim_free(s);
}

/* Shares by speed (B1): with enough units the faster nodes do more in proportion, and no node waits long. */
static void shares_follow_speed(void **state)
{
    (void)state;
    sim_options o;
    sim_options_default(&o);
    o.config.samples = 1024;
    o.config.batch = 256;
    o.config.epochs = 4;
    o.config.sums_in_place = o.config.shared_weights = true;
    o.nodes = o.config.nodes_first = 3;
    o.delay = 1000;
    o.speed[0] = 4;
    o.speed[1] = 2;
    o.speed[2] = 1;
    sim *s = run(&o);
    double done[3], ideal = 4096 / 7.0 * 1e6;
    uint64_t all = 0;
    for (uint32_t i = 0; i < 3; i++) {
        iso_node_info info;
        assert_true(iso_coordinator_node(s->coordinator, i, &info));
        done[i] = (double)info.samples;
        all += info.samples;
        assert_true(info.score > o.speed[i] * 990 && info.score < o.speed[i] * 1010);
        assert_true(info.busy > 0 && info.idle >= 0 && info.leases > 0 && info.deaths == 0 && info.holding == 0);
    }
    assert_true(all == 4096);
    assert_true(done[0] / done[1] > 1.7 && done[0] / done[1] < 2.3);
    assert_true(done[1] / done[2] > 1.7 && done[1] / done[2] < 2.3);
    print_message("efficiency with speeds 4:2:1, 64 units a batch: %.3f\n", ideal / (double)s->now);
    assert_true(ideal / (double)s->now > 0.85);
    sim_free(s);
}

/* A node that would hold up everybody gets a probe now and then, no more; alone it does everything. */
static void a_hopeless_node_is_left_out(void **state)
{
    (void)state;
    sim_options o;
    sim_options_default(&o);
    o.config.samples = 1600;
    o.config.batch = 16;
    o.config.epochs = 2;
    o.nodes = o.config.nodes_first = 2;
    o.speed[0] = 32;
    o.speed[1] = 1;
    sim *s = run(&o);
    iso_node_info fast, slow;
    iso_coordinator_node(s->coordinator, 0, &fast);
    iso_coordinator_node(s->coordinator, 1, &slow);
    assert_true(slow.samples > 4 && slow.samples < 30 && fast.samples + slow.samples == 3200);
    sim_free(s);
}

/* The figures of a round are those of that round. */
static void round_figures_add_up(void **state)
{
    (void)state;
    sim_options o;
    sim_options_default(&o);
    o.config.validation = 30;
    o.stop_round = 3;
    sim *s = sim_new(&o, 9);
    sim_run(s);
    uint64_t samples = 0;
    for (uint32_t i = 0; i < o.nodes; i++) {
        iso_node_info info;
        iso_coordinator_node(s->coordinator, i, &info);
        samples += info.round_samples;
        assert_true((info.round_samples > 0) == (info.round_busy > 0));
    }
    assert_true(samples == 32);
    iso_node_info none;
    assert_false(iso_coordinator_node(s->coordinator, SIM_NODES, &none));
    sim_free(s);
}

/* ---- a thousand nodes, without the sim: every frame arrives at once and in order ---- */

enum { MANY = 1000, FRAMES = 16384 };

typedef struct crowd {
    iso_coordinator *c;
    iso_worker *w[MANY];
    iso_effects effects, own;
    iso_frame *queue;
    uint32_t head, tail;
    uint64_t steps, rounds, orders;
    int64_t now;
    bool done;
    uint32_t most;
} crowd;

static void put(crowd *x, const iso_frame *f)
{
    x->queue[x->tail++ % FRAMES] = *f;
    assert_true(x->tail - x->head < FRAMES);
}

static void step_coordinator(crowd *x, iso_event ev)
{
    iso_update_order update[64];
    uint32_t updates = 0;
    ev.now = x->now += 100;
    x->steps++;
    assert_int_equal(iso_coordinator_step(x->c, &ev, &x->effects), ISO_OK);
    x->most = x->effects.count > x->most ? x->effects.count : x->most;
    for (uint32_t i = 0; i < x->effects.count; i++) {
        const iso_effect *e = &x->effects.item[i];
        if (e->kind == ISO_EFFECT_SEND)
            put(x, &e->frame);
        else if (e->kind == ISO_EFFECT_UPDATE)
            update[updates++] = e->update;
        x->rounds += e->kind == ISO_EFFECT_ROUND;
        x->done |= e->kind == ISO_EFFECT_DONE;
        assert_true(e->kind != ISO_EFFECT_FAILED);
    }
    for (uint32_t i = 0; i < updates; i++)
        step_coordinator(
            x, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = update[i].order, .totals = {.bad_layer = -1}});
}

static void step_worker(crowd *x, uint32_t id, iso_event ev)
{
    iso_compute compute = {0};
    ev.now = x->now += 100;
    x->steps++;
    assert_int_equal(iso_worker_step(x->w[id], &ev, &x->own), ISO_OK);
    for (uint32_t i = 0; i < x->own.count; i++) {
        if (x->own.item[i].kind == ISO_EFFECT_SEND)
            put(x, &x->own.item[i].frame);
        else if (x->own.item[i].kind == ISO_EFFECT_COMPUTE)
            compute = x->own.item[i].compute;
    }
    if (compute.units > 0) {
        x->orders++;
        iso_totals t = {.samples = iso_compute_samples(&compute), .bad_layer = -1, .busy = 5000};
        step_worker(x, id, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = compute.order, .totals = t});
    }
}

static void crowd_run(crowd *x, uint32_t nodes, uint64_t batch, uint32_t epochs, const char *policy)
{
    iso_core_config c;
    iso_core_config_default(&c);
    iso_policy_spec_default(&c.policy, iso_policy_find(policy));
    c.samples = 64000;
    c.batch = batch;
    c.unit = 16;
    c.epochs = epochs;
    c.optimizer.learning_rate = 0.1;
    c.values = 1024;
    c.slices = 2;
    c.nodes_max = c.nodes_first = nodes;
    c.sums_in_place = c.shared_weights = true;
    c.audit = false;
    memset(x, 0, sizeof *x);
    size_t bytes = iso_coordinator_bytes(&c), each = (iso_worker_bytes() + 63) / 64 * 64;
    unsigned char *memory = aligned_alloc(ISO_ALIGN, (bytes + 63) / 64 * 64 + each * nodes);
    x->effects.capacity = iso_coordinator_effects_max(&c);
    x->effects.item = calloc(x->effects.capacity, sizeof *x->effects.item);
    x->own.capacity = ISO_WORKER_EFFECTS_MAX;
    x->own.item = calloc(ISO_WORKER_EFFECTS_MAX, sizeof *x->own.item);
    x->queue = calloc(FRAMES, sizeof *x->queue);
    x->c = iso_coordinator_init(&c, 0, memory);
    step_coordinator(x, (iso_event){.kind = ISO_EVENT_START});
    for (uint32_t i = 0; i < nodes; i++) {
        x->w[i] = iso_worker_init(&(iso_worker_config){.node = i, .samples = c.samples, .shared_weights = true},
                                  memory + (bytes + 63) / 64 * 64 + each * i);
        step_worker(x, i, (iso_event){.kind = ISO_EVENT_START});
    }
    while (x->head != x->tail) {
        iso_frame f = x->queue[x->head++ % FRAMES];
        if (f.to == ISO_COORDINATOR)
            step_coordinator(x, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
        else
            step_worker(x, f.to, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
    }
    assert_true(x->done && x->most <= x->effects.capacity);
    free(x->effects.item);
    free(x->own.item);
    free(x->queue);
    free(memory);
}

static void crowds_of_any_size_finish(void **state)
{
    (void)state;
    static const struct { uint32_t nodes; uint64_t batch; uint32_t epochs; const char *policy;
    } runs[] = {{2, 64, 8, "nns"},       {2, 64, 8, "bsp"},       {1, 1, 1, "nns"},
                {MANY, 32000, 2, "nns"}, {MANY, 32000, 2, "bsp"}, {MANY, 64, 1, "nns"}};
    crowd *x = calloc(1, sizeof *x);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        crowd_run(x, runs[i].nodes, runs[i].batch, runs[i].epochs, runs[i].policy);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
        assert_true(x->rounds == runs[i].epochs * iso_epoch_rounds(64000, runs[i].batch));
        print_message(
            "%s, %u nodes, batch %" PRIu64 ": %" PRIu64 " rounds, %.1f steps and %.1f orders each, %.0f ns a step\n",
            runs[i].policy, (unsigned)runs[i].nodes, runs[i].batch, x->rounds, (double)x->steps / (double)x->rounds,
            (double)x->orders / (double)x->rounds, ns / (double)x->steps);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_jobs_give_the_same_on_any_nodes),
        cmocka_unit_test(without_nodes_it_waits),
        cmocka_unit_test(a_slow_node_is_not_dead),
        cmocka_unit_test(a_dead_node_is_found_soon),
        cmocka_unit_test(shares_follow_speed),
        cmocka_unit_test(a_hopeless_node_is_left_out),
        cmocka_unit_test(round_figures_add_up),
        cmocka_unit_test(crowds_of_any_size_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

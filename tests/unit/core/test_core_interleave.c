/* SPDX-License-Identifier: Apache-2.0
 * Random interleavings: whatever is lost, repeated, late or dead, the run ends, with the weights, epoch results and
 * counts of a calm run on one node. Planted faults must be found. Replay one: test_core_interleave SEED [trace]; more:
 * test_core_interleave FIRST COUNT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core_sim.h"

static uint64_t first_seed = 1;
static int seed_count = 400;
static bool trace;

/* A job drawn from the seed: small enough to be quick, uneven in every way. */
static void draw_job(sim *r, sim_options *o)
{
    static const char *const policies[] = {"nns", "bsp", "nns", "cumulative", "lb-bsp", "bsp"};
    iso_core_config *c = &o->config;
    sim_options_default(o);
    iso_policy_spec_default(&c->policy, iso_policy_find(policies[sim_draw(r, 6)]));
    c->samples = 1 + sim_draw(r, 90);
    c->batch = 1 + sim_draw(r, 60);
    c->unit = (uint32_t)(2 + sim_draw(r, 7));
    c->epochs = (uint32_t)(1 + sim_draw(r, 3));
    c->validation = sim_draw(r, 2) ? sim_draw(r, 40) : 0;
    c->test = sim_draw(r, 2) ? sim_draw(r, 40) : 0;
    c->slices = (uint32_t)(1 + sim_draw(r, 5));
    c->seed = sim_draw(r, 1000);
    c->schedule = (iso_schedule){.kind = ISO_COSINE, .warmup_epochs = 0.5};
    o->nodes = 1;
}

/* The calm world: one node, no fault, nothing lost. */
static uint64_t calm(const sim_options *job, iso_epoch_result epoch[32])
{
    sim *s = sim_new(job, 0);
    sim_run(s);
    if (s->wrong[0])
        print_error("calm run: %s\n", s->wrong);
    assert_int_equal(s->wrong[0], 0);
    assert_true(s->over && !s->stopped);
    assert_int_equal(s->epochs_seen, job->config.epochs);
    memcpy(epoch, s->epoch, sizeof s->epoch);
    uint64_t hash = sim_hash(s->weights);
    sim_free(s);
    return hash;
}

static void draw_trouble(sim *r, sim_options *o)
{
    iso_core_config *c = &o->config;
    bool wire = sim_draw(r, 3) > 0; /* else: shared memory, where frames do not get lost */
    o->nodes = (uint32_t)(1 + sim_draw(r, SIM_NODES));
    for (uint32_t i = 0; i < o->nodes; i++) {
        o->speed[i] = 1 + (double)sim_draw(r, 8);
        o->first_join[i] = (int64_t)sim_draw(r, 20000000);
    }
    c->nodes_first = (uint32_t)(1 + sim_draw(r, o->nodes));
    c->depth = (uint32_t)(1 + sim_draw(r, 2));
    c->deadline_floor = 100000000;
    c->deadline_first = 300000000;
    o->death = (uint32_t)sim_draw(r, 60);
    o->stall = sim_draw(r, 2) ? (uint32_t)sim_draw(r, 20) : 0;
    o->jitter = (int64_t)sim_draw(r, 400000);
    c->sums_in_place = !wire && sim_draw(r, 4) > 0;
    c->shared_weights = !wire;
    c->checkpoint_rounds = sim_draw(r, 4);
    if (wire) {
        c->resend = 2000000;
        o->loss = (uint32_t)sim_draw(r, 150);
        o->duplicate = (uint32_t)sim_draw(r, 200);
        o->tell_death = (uint32_t)sim_draw(r, 1001);
        o->coordinator_deaths = (uint32_t)sim_draw(r, 4);
        o->coordinator_span = 100000000;
    } else {
        o->jitter = 0; /* and stay in order */
    }
}

static bool same_totals(const iso_totals *a, const iso_totals *b)
{
    return a->samples == b->samples && a->correct == b->correct && a->loss.low == b->loss.low &&
           a->loss.high == b->loss.high;
}

typedef struct tally {
    uint64_t deaths, restarts, returns;
} tally;

static void one_seed(uint64_t seed, tally *t)
{
    sim drawer = {.random = sim_mix(seed)};
    sim_options o;
    iso_epoch_result epoch[32];
    draw_job(&drawer, &o);
    uint64_t expected = calm(&o, epoch);
    draw_trouble(&drawer, &o);
    o.trace = trace;
    sim *s = sim_new(&o, seed);
    sim_run(s);
    if (s->wrong[0] != '\0')
        print_error("seed %" PRIu64 ": %s (replay: test_core_interleave %" PRIu64 ")\n", seed, s->wrong, seed);
    assert_int_equal(s->wrong[0], 0);
    if (sim_hash(s->weights) != expected)
        print_error("seed %" PRIu64 ": other weights than the calm run (replay: test_core_interleave %" PRIu64 ")\n",
                    seed, seed);
    assert_true(sim_hash(s->weights) == expected);
    assert_int_equal(
        s->rounds_seen,
        iso_epoch_rounds(o.config.samples, iso_policy_batch(&o.config.policy, o.config.samples, o.config.batch)) *
            o.config.epochs);
    for (uint32_t i = 0; i < o.config.epochs; i++) {
        assert_true(same_totals(&s->epoch[i].train, &epoch[i].train));
        assert_true(same_totals(&s->epoch[i].validation, &epoch[i].validation));
        assert_true(same_totals(&s->epoch[i].test, &epoch[i].test));
        assert_int_equal(s->epoch[i].train.samples, o.config.samples);
        assert_int_equal(s->epoch[i].best, epoch[i].best);
    }
    t->deaths += s->deaths;
    t->restarts += s->restarts;
    t->returns += s->returns;
    sim_free(s);
}

static void every_interleaving_gives_the_calm_result(void **state)
{
    (void)state;
    tally t = {0};
    for (int i = 0; i < seed_count; i++)
        one_seed(first_seed + (uint64_t)i, &t);
    print_message("%d interleavings: %" PRIu64 " deaths, %" PRIu64 " returns, %" PRIu64 " coordinator restarts\n",
                  seed_count, t.deaths, t.returns, t.restarts);
    if (seed_count >= 400) { /* the trouble really happened */
        assert_true(t.deaths > 200);
        assert_true(t.returns > 200);
        assert_true(t.restarts > 100);
    }
}

/* Seeds of troubled runs in which the checkers found a planted fault. */
static int found_with(void (*plant)(sim_options *), const char *word)
{
    int found = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sim drawer = {.random = sim_mix(seed)};
        sim_options o;
        iso_epoch_result epoch[32];
        draw_job(&drawer, &o);
        uint64_t expected = calm(&o, epoch);
        draw_trouble(&drawer, &o);
        plant(&o);
        sim *s = sim_new(&o, seed);
        sim_run(s);
        found += word ? strstr(s->wrong, word) != NULL : sim_hash(s->weights) != expected;
        sim_free(s);
    }
    return found;
}

static void plant_take(sim_options *o)
{
    o->canary_take = true;
}

static void plant_wake(sim_options *o)
{
    o->canary_wake = true;
    o->steps_max = 20000;
}

static void plant_weights(sim_options *o)
{
    o->canary_weights = true;
}

static void a_sum_counted_against_the_core_is_found(void **state)
{
    (void)state;
    assert_true(found_with(plant_take, "was counted 2 times") > 0);
}

static void a_lost_timer_is_found(void **state)
{
    (void)state;
    assert_true(found_with(plant_wake, "not over") > 0);
}

static void a_flipped_bit_of_a_nodes_weights_is_found(void **state)
{
    (void)state;
    assert_true(found_with(plant_weights, NULL) > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_interleaving_gives_the_calm_result),
        cmocka_unit_test(a_sum_counted_against_the_core_is_found),
        cmocka_unit_test(a_lost_timer_is_found),
        cmocka_unit_test(a_flipped_bit_of_a_nodes_weights_is_found),
    };
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = argc > 2 && strcmp(argv[2], "trace") != 0 ? atoi(argv[2]) : 1;
        trace = argc > 2 && strcmp(argv[2], "trace") == 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * The state at a round border: a run stopped at any border or any moment and resumed, with other nodes, ends as the
 * unbroken one; damaged states and those of other jobs are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core_sim.h"

static void job(sim_options *o)
{
    sim_options_default(o);
    o->config.samples = 70;
    o->config.batch = 16;
    o->config.unit = 4;
    o->config.epochs = 3;
    o->config.validation = 22;
    o->config.test = 9;
    o->config.schedule = (iso_schedule){.kind = ISO_COSINE};
}

static sim *run(const sim_options *o, uint64_t seed, const sim *before)
{
    sim *s = sim_new(o, seed);
    if (before) {
        assert_true(before->saved);
        s->saved = true;
        s->state_bytes = before->state_bytes;
        memcpy(s->state, before->state, before->state_bytes);
        memcpy(s->weights, before->saved_weights, sizeof s->weights);
        memcpy(s->epoch, before->epoch, sizeof s->epoch);
        s->epochs_seen = before->epochs_seen;
        s->rounds_seen = before->rounds_seen;
    }
    sim_run(s);
    if (s->wrong[0] != '\0')
        print_error("%s\n", s->wrong);
    assert_int_equal(s->wrong[0], 0);
    return s;
}

static void same_end(const sim *a, const sim *b)
{
    assert_true(sim_hash(a->weights) == sim_hash(b->weights));
    assert_true(a->rounds_seen == b->rounds_seen && a->epochs_seen == b->epochs_seen);
    for (uint32_t i = 0; i < a->o.config.epochs; i++) {
        assert_true(a->epoch[i].train.loss.low == b->epoch[i].train.loss.low);
        assert_true(a->epoch[i].train.samples == b->epoch[i].train.samples &&
                    a->epoch[i].train.correct == b->epoch[i].train.correct);
        assert_true(a->epoch[i].validation.loss.low == b->epoch[i].validation.loss.low &&
                    a->epoch[i].best == b->epoch[i].best);
        assert_true(a->epoch[i].test.correct == b->epoch[i].test.correct && a->epoch[i].last == b->epoch[i].last);
    }
}

/* users.md D1, D3: stop after every round there is, resume with another number of nodes. */
static void resume_at_every_border_ends_the_same(void **state)
{
    (void)state;
    sim_options o;
    job(&o);
    sim *whole = run(&o, 1, NULL);
    uint64_t rounds = whole->rounds_seen;
    assert_true(rounds == 15);
    for (uint64_t stop = 1; stop <= rounds; stop++) {
        sim_options first = o, second = o;
        first.stop_round = stop;
        second.nodes = (uint32_t)(1 + stop % 7);
        second.config.slices = (uint32_t)(1 + stop % 4);
        sim *a = run(&first, stop, NULL);
        iso_saved saved;
        assert_int_equal(iso_saved_read(&saved, a->state, a->state_bytes, NULL), ISO_OK);
        assert_true(a->stopped && saved.round == stop);
        assert_true(saved.epoch == (stop % 5 == 0 ? stop / 5 - !saved.evaluated : stop / 5));
        sim *b = run(&second, stop + 100, a);
        assert_false(b->stopped);
        same_end(b, whole);
        sim_free(a);
        sim_free(b);
    }
    sim_free(whole);
}

/* STOP at any moment: in a pass, in an update, in an evaluation. What was in flight is abandoned, nothing is lost. */
static void stop_at_any_moment_ends_the_same(void **state)
{
    (void)state;
    sim_options o;
    job(&o);
    sim *whole = run(&o, 1, NULL);
    uint32_t evaluating = 0, stops = 0;
    for (int64_t at = 1000; at < 400000000; at += at / 40 + 100000) {
        sim_options first = o;
        first.stop_at = at;
        sim *a = run(&first, 1, NULL);
        iso_saved saved;
        assert_int_equal(iso_saved_read(&saved, a->state, a->state_bytes, NULL), ISO_OK);
        evaluating += !saved.evaluated;
        stops += a->stopped;
        sim *b = run(&o, (uint64_t)at, a);
        same_end(b, whole);
        sim_free(a);
        sim_free(b);
    }
    assert_true(stops > 20 && evaluating > 2);
    sim_free(whole);
}

/* Resuming a finished run is its end at once. */
static void a_finished_run_is_done_at_start(void **state)
{
    (void)state;
    sim_options o;
    job(&o);
    sim *whole = run(&o, 1, NULL), *again = run(&o, 2, whole);
    iso_saved saved;
    assert_int_equal(iso_saved_read(&saved, whole->state, whole->state_bytes, NULL), ISO_OK);
    assert_true(saved.finished && saved.epoch == 3 && saved.samples_done == 210 && saved.cursor == 0);
    assert_true(again->over && !again->stopped && again->now == 0 && again->checkpoints == 0);
    same_end(again, whole);
    sim_free(whole);
    sim_free(again);
}

/* Checkpoints by rounds come at those borders and at the end. */
static void checkpoints_come_when_they_are_due(void **state)
{
    (void)state;
    sim_options o;
    job(&o);
    o.config.checkpoint_rounds = 4;
    sim *s = run(&o, 1, NULL);
    assert_int_equal(s->checkpoints, 3 + 1);
    sim_free(s);
    o.config.checkpoint_rounds = 0;
    o.config.checkpoint_ns = 1;
    s = run(&o, 1, NULL);
    assert_int_equal(s->checkpoints, 15 + 1);
    sim_free(s);
}

static void damaged_states_are_refused(void **state)
{
    (void)state;
    sim_options o;
    job(&o);
    o.stop_round = 7;
    sim *s = run(&o, 1, NULL);
    iso_error e;
    iso_saved saved;
    for (size_t n = 0; n < s->state_bytes; n++) {
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, s->state, n);
        assert_int_equal(iso_saved_read(&saved, cut, n, &e), ISO_E_FORMAT);
        free(cut);
    }
    for (size_t i = 0; i < s->state_bytes * 8; i++) {
        s->state[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(iso_saved_read(&saved, s->state, s->state_bytes, &e), ISO_E_FORMAT);
        s->state[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    assert_int_equal(iso_saved_read(&saved, s->state, s->state_bytes, &e), ISO_OK);
    for (size_t n = 0; n <= s->state_bytes; n++) {
        unsigned char *room = malloc(n + 1);
        assert_true(iso_coordinator_save(s->coordinator, room, n) == (n < s->state_bytes ? 0 : n));
        assert_true(n < s->state_bytes || memcmp(room, s->state, n) == 0);
        free(room);
    }
    sim_free(s);
}

static void other_jobs_are_refused_by_name(void **state)
{
    (void)state;
    sim_options o;
    job(&o);
    o.stop_round = 7;
    sim *s = run(&o, 1, NULL);
    static const char *const words[] = {"training samples: 70, the job has 71",
                                        "batch 16, the job has 15",
                                        "unit 4, the job has 5",
                                        "epochs 3, the job has 4",
                                        "seed 7, the job has 8",
                                        "validation samples: 22",
                                        "test samples: 9"};
    for (int i = 0; i < 7; i++) {
        iso_core_config c = o.config;
        iso_error e;
        c.samples += i == 0;
        c.batch -= i == 1;
        c.unit += i == 2;
        c.epochs += i == 3;
        c.seed += i == 4;
        c.validation += i == 5;
        c.test += i == 6;
        size_t bytes = iso_coordinator_bytes(&c);
        void *memory = aligned_alloc(ISO_ALIGN, (bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN);
        iso_coordinator *other = iso_coordinator_init(&c, 0, memory);
        assert_int_equal(iso_coordinator_resume(other, s->state, s->state_bytes, &e), ISO_E_MISMATCH);
        if (!strstr(e.text, words[i]))
            print_error("%s\n", e.text);
        assert_non_null(strstr(e.text, words[i]));
        free(memory);
    }
    iso_error e;
    assert_int_equal(iso_coordinator_resume(s->coordinator, s->state, s->state_bytes, &e), ISO_E_STATE);
    sim_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_at_every_border_ends_the_same),
        cmocka_unit_test(stop_at_any_moment_ends_the_same),
        cmocka_unit_test(a_finished_run_is_done_at_start),
        cmocka_unit_test(checkpoints_come_when_they_are_due),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(other_jobs_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

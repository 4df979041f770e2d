/* SPDX-License-Identifier: Apache-2.0
 * Shares by score through the whole core, users.md group B: speeds of 4, 2 and 1 get 40, 20 and 10 of a batch of 70; shares
 * follow a node that turns four times slower, and one that recovers, from the third round on and do not swing; one slow step
 * moves nothing; who is new is measured, who is too slow is parked and found again when it has become faster; a dead node's
 * share is worked by the others. In all of them the weights are those of the undisturbed run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core_sim.h"

enum { TRIO = 3, BATCH = 70, STEPS = 100 };

typedef struct course {
    sim_options o;
    void (*before_round)(sim *s, uint64_t round);      /* rounds done; NULL: nothing happens */
    uint64_t share[SIM_ROUNDS][SIM_NODES];             /* samples that counted, by round and node */
    int64_t began, took[SIM_ROUNDS];
    uint64_t rounds, weights;
} course;

static course *open_course(const char *policy)
{
    course *c = calloc(1, sizeof *c);
    iso_error e = {0};
    sim_options_default(&c->o);
    c->o.config.samples = 700;
    c->o.config.batch = BATCH;
    c->o.config.unit = 2;
    c->o.config.epochs = STEPS / 10;
    c->o.config.nodes_first = TRIO;
    c->o.config.first_wait = ISO_NEVER;
    c->o.delay = 1000;
    assert_int_equal(iso_policy_parse(&c->o.config.policy, policy, &e), ISO_OK);
    for (int i = 0; i < TRIO; i++)
        c->o.speed[i] = (double)(4 >> i);
    return c;
}

static void watch(sim *s, void *context)
{
    course *c = context;
    uint64_t samples = 0;
    if (s->rounds_seen == c->rounds)
        return;
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        iso_node_info info;
        assert_true(iso_coordinator_node(s->coordinator, i, &info));
        samples += c->share[c->rounds][i] = info.round_samples;
    }
    assert_int_equal(samples, BATCH);
    c->took[c->rounds++] = s->now - c->began;
    c->began = s->now;
    if (c->before_round)
        c->before_round(s, c->rounds);
}

static void run_course(course *c)
{
    c->o.watch = watch;
    c->o.context = c;
    sim *s = sim_new(&c->o, 1);
    sim_run(s);
    if (s->wrong[0])
        fail_msg("%s", s->wrong);
    assert_int_equal(c->rounds, STEPS);
    c->weights = sim_hash(s->weights);
    sim_free(s);
}

static void expect_shares(const course *c, uint64_t round, const uint64_t *right)
{
    for (uint32_t i = 0; i < TRIO; i++)
        if (c->share[round][i] != right[i])
            fail_msg("round %d: %d %d %d, expected %d %d %d", (int)round, (int)c->share[round][0], (int)c->share[round][1],
                     (int)c->share[round][2], (int)right[0], (int)right[1], (int)right[2]);
}

static const uint64_t fair[TRIO] = {40, 20, 10};

static uint64_t undisturbed(void)
{
    course *c = open_course("nns");
    run_course(c);
    uint64_t weights = c->weights;
    free(c);
    return weights;
}

static void speeds_four_two_one(void **state)
{
    (void)state;
    course *c = open_course("lb-bsp");
    run_course(c);
    for (uint64_t r = 1; r < STEPS; r++) {
        expect_shares(c, r, fair);
        assert_true(c->took[r] > 10000000 && c->took[r] < 10100000); /* 10 ms and the way */
    }
    assert_true(c->weights == undisturbed());
    free(c);
}

static void slow_down(sim *s, uint64_t round)
{
    s->o.speed[0] = round >= 20 && round < 40 ? 1 : 4;
}

static void shares_follow_within_three_rounds(void **state)
{
    (void)state;
    const uint64_t slowed[TRIO] = {18, 36, 16}; /* all within 18 ms */
    course *c = open_course("lb-bsp");
    c->before_round = slow_down;
    run_course(c);
    for (uint64_t r = 1; r < STEPS; r++)
        if (r < 22 || r >= 42)
            expect_shares(c, r, fair);
        else
            expect_shares(c, r, slowed);
    assert_true(c->took[20] > 39000000 && c->took[22] < 18500000 && c->took[42] < 10100000);
    assert_true(c->weights == undisturbed());
    free(c);
}

static void stumble(sim *s, uint64_t round)
{
    s->o.speed[1] = round == 30 || round == 50 ? 0.5 : 2;
}

static void one_slow_step_moves_nothing(void **state)
{
    (void)state;
    course *c = open_course("lb-bsp");
    c->before_round = stumble;
    run_course(c);
    for (uint64_t r = 1; r < STEPS; r++)
        expect_shares(c, r, fair);
    assert_true(c->took[30] > 39000000);
    free(c);
}

/* 1 % of trembling is no reason to move shares every round. */
static void tremble(sim *s, uint64_t round)
{
    for (uint32_t i = 0; i < TRIO; i++)
        s->o.speed[i] = (double)(4 >> i) * (1 + 0.02 * ((double)(sim_mix(round * 3 + i) % 1000) / 1000 - 0.5));
}

static void shares_do_not_swing(void **state)
{
    (void)state;
    int changes = 0;
    course *c = open_course("lb-bsp");
    c->before_round = tremble;
    run_course(c);
    for (uint64_t r = 11; r < STEPS; r++)
        changes += memcmp(c->share[r], c->share[r - 1], sizeof c->share[r]) != 0;
    assert_int_equal(changes, 0);
    free(c);
}

static void crawl(sim *s, uint64_t round)
{
    s->o.speed[2] = round == 10 || round == 11 ? 0.02 : 1;
}

static void who_is_too_slow_is_parked_and_found_again(void **state)
{
    (void)state;
    course *c = open_course("lb-bsp");
    c->before_round = crawl; /* its share takes half a second then: no reason to call it dead */
    run_course(c);
    uint64_t r = 12;
    expect_shares(c, 9, fair);
    assert_true(c->took[10] > 499000000 && c->took[11] > 499000000); /* once could have been an outlier */
    for (; r < 40; r++)
        assert_int_equal(c->share[r][2], 0);
    for (; r < 50 && c->share[r][2] == 0; r++)
        continue;
    assert_true(r < 46);
    assert_true(c->share[r][2] == 2 && c->share[r + 1][2] == 2); /* tried, and once more to be sure */
    for (r += 2; r < STEPS; r++)
        expect_shares(c, r, fair);
    assert_true(c->weights == undisturbed());
    free(c);
}

/* Who was slow from the beginning has been measured once, cold: a single better measurement is believed. */
static void wake_up(sim *s, uint64_t round)
{
    s->o.speed[2] = round < 10 ? 0.004 : 1;
}

static void a_cold_start_is_forgiven(void **state)
{
    (void)state;
    course *c = open_course("lb-bsp");
    c->o.speed[2] = 0.004;
    c->before_round = wake_up;
    run_course(c);
    for (uint64_t r = 1; r < 32; r++)
        assert_int_equal(c->share[r][2], 0);
    assert_true(c->share[0][2] == 2 && c->share[32][2] == 2);
    for (uint64_t r = 33; r < STEPS; r++)
        expect_shares(c, r, fair);
    free(c);
}

static void who_comes_later_is_measured(void **state)
{
    (void)state;
    course *c = open_course("lb-bsp");
    c->o.config.nodes_first = 2;
    c->o.first_join[2] = 105000000;
    run_course(c);
    uint64_t r = 1;
    for (; c->share[r][2] == 0; r++)
        assert_true(r < 12);
    assert_true(r > 5 && c->share[r][2] == 2); /* the probe, one unit */
    for (r++; r < STEPS; r++)
        expect_shares(c, r, fair);
    assert_true(c->weights == undisturbed());
    free(c);
}

static void a_dead_nodes_share_is_worked_by_the_others(void **state)
{
    (void)state;
    course *c = open_course("lb-bsp");
    c->o.die_order_at[0] = 20;
    c->o.return_after = 100000000;
    run_course(c);
    int without = 0, whole = 0;
    for (uint64_t r = 1; r < STEPS; r++) {
        without += c->share[r][0] == 0;
        whole += memcmp(c->share[r], fair, sizeof fair) == 0;
    }
    assert_true(without >= 2 && without < 12 && whole > 80);
    expect_shares(c, STEPS - 1, fair); /* it is back */
    assert_true(c->weights == undisturbed());
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speeds_four_two_one),
        cmocka_unit_test(shares_follow_within_three_rounds),
        cmocka_unit_test(one_slow_step_moves_nothing),
        cmocka_unit_test(shares_do_not_swing),
        cmocka_unit_test(who_is_too_slow_is_parked_and_found_again),
        cmocka_unit_test(a_cold_start_is_forgiven),
        cmocka_unit_test(who_comes_later_is_measured),
        cmocka_unit_test(a_dead_nodes_share_is_worked_by_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

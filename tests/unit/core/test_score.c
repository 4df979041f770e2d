/* SPDX-License-Identifier: Apache-2.0
 * Proves of the scores: the probe's doubling, cold first segment and median; that one outlier moves nothing and two on one
 * side do at once; that the filter is as good as its figures say against the truth (noise, a step, drift); that nothing wrong
 * is ever learned from wrong figures; overhead as the least of the last 16; that a saved score goes on with the same bits. */
#include <math.h>

#include "core/score.h"
#include "test.h"

static double uniform(uint64_t *state)
{
    return ((double)(test_random(state) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double u = uniform(state), v = uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* A score that has been at `ns` a sample for long. */
static iso_score settled_at(double ns)
{
    iso_score s = {0};
    for (int i = 0; i < 40; i++)
        iso_score_measure(&s, 1000, 1000 * ns);
    return s;
}

static bool near(double a, double b, double part)
{
    return fabs(a - b) <= part * b;
}

static void the_probe_doubles_and_drops_the_cold_one(void **state)
{
    (void)state;
    iso_score s = {0};
    const double ns[] = {90000, 30000, 30000, 31000, 29000}; /* a sample: cold, then as it is */
    uint32_t units = 1;
    for (int i = 0; i < 5; i++, units *= 2) {
        assert_int_equal(iso_score_probe_units(&s), units);
        iso_score_measure(&s, units * 100.0, units * 100.0 * ns[i]); /* 9, 6, 12, 24.8 and 46.4 ms */
        if (i == 3)
            break;
    }
    assert_true(s.settled);
    assert_int_equal(iso_score_probe_units(&s), 0);
    assert_true(near(s.ns, 30000, 1e-9));
}

static void what_is_measured_serves_while_probing(void **state)
{
    (void)state;
    iso_score s = {0};
    assert_true(s.ns == 0);
    iso_score_measure(&s, 16, 16 * 500.0);
    assert_true(near(s.ns, 500, 1e-9));
    iso_score_measure(&s, 32, 32 * 100.0);
    assert_true(near(s.ns, 100, 1e-9)); /* the cold one is dropped */
    for (int i = 0; i < 4; i++)
        iso_score_measure(&s, 64, 64 * 100.0);
    assert_true(s.settled); /* short as they are: rounds that never give a long segment do not probe for ever */
}

static void one_outlier_moves_nothing(void **state)
{
    (void)state;
    iso_score s = settled_at(1000), before = s;
    iso_score_measure(&s, 100, 100 * 4000.0);
    assert_true(s.ns == before.ns);
    iso_score_measure(&s, 100, 100 * 1000.0);
    assert_true(near(s.ns, 1000, 0.01));
    iso_score_measure(&s, 100, 100 * 4000.0); /* again alone: the one before does not count */
    assert_true(near(s.ns, 1000, 0.01));
    iso_score_measure(&s, 100, 100 * 250.0); /* on the other side */
    assert_true(near(s.ns, 1000, 0.01));
}

static void two_on_one_side_are_a_change(void **state)
{
    (void)state;
    const double factors[] = {4, 0.25, 1000, 1e-3};
    for (size_t i = 0; i < TEST_COUNT(factors); i++) {
        iso_score s = settled_at(1000);
        for (int k = 0; k < 2; k++)
            iso_score_measure(&s, 100, 100 * 1000 * factors[i]);
        assert_true(near(s.ns, 1000 * factors[i], 1e-9));
        iso_score_measure(&s, 100, 100 * 1100 * factors[i]); /* and it is open to learn more */
        assert_true(s.ns > 1000 * factors[i]);
    }
}

static void a_measurement_outweighs_a_hint(void **state)
{
    (void)state;
    iso_score s = {0};
    iso_score_hint(&s, 1000);
    assert_true(s.ns == 1000 && s.settled && iso_score_probe_units(&s) == 0);
    iso_score_measure(&s, 100, 100 * 1300.0);
    assert_true(s.ns > 1280 && s.ns < 1300);
    iso_score_hint(&s, 1000); /* far from the truth: two measurements correct it */
    iso_score_measure(&s, 100, 100 * 90000.0);
    assert_true(s.ns == 1000);
    iso_score_measure(&s, 100, 100 * 90000.0);
    assert_true(near(s.ns, 90000, 1e-9));
}

static void wrong_figures_change_nothing(void **state)
{
    (void)state;
    const double wrong[] = {0, -1, INFINITY, -INFINITY, NAN};
    iso_score scores[] = {{0}, settled_at(1000)};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        for (size_t k = 0; k < TEST_COUNT(scores); k++) {
            iso_score s = scores[k];
            iso_score_measure(&s, 100, wrong[i]);
            iso_score_measure(&s, wrong[i], 100);
            iso_score_hint(&s, wrong[i]);
            assert_memory_equal(&s, &scores[k], sizeof s);
        }
}

/* Standard deviation of ln(estimate / truth). */
static double error_of(double noise, double outliers, double walk, uint64_t *seed)
{
    iso_score s = {0};
    double truth = log(1000), sum = 0;
    int count = 0;
    for (int i = 0; i < 20000; i++) {
        truth += walk * normal(seed);
        double z = truth + noise * normal(seed) + (uniform(seed) < outliers ? log(4) : 0);
        iso_score_measure(&s, 1, exp(z));
        if (i >= 100) {
            double e = log(s.ns) - truth;
            sum += e * e;
            count++;
        }
    }
    return sqrt(sum / count);
}

static void the_filter_is_as_good_as_it_says(void **state)
{
    (void)state;
    uint64_t seed = test_seed("score");
    double calm = error_of(0.05, 0, 0, &seed), outliers = error_of(0.05, 0.01, 0, &seed), loud = error_of(0.2, 0.01, 0, &seed);
    double quiet = error_of(0.01, 0, 0, &seed), walking = error_of(0.05, 0.01, 0.0316, &seed);
    print_message("error of ln: calm %.4f, with outliers %.4f, loud %.4f, quiet %.4f, walking %.4f\n", calm, outliers, loud, quiet,
                  walking);
    assert_true(calm < 0.035 && outliers < 0.05); /* a single measurement: 0.05, with outliers 0.15 */
    assert_true(loud < 0.12);                     /* 0.2: the filter has learned how loud it is */
    assert_true(quiet < 0.01);
    assert_true(walking < 0.06);
}

static void noise_is_learned_within_its_bounds(void **state)
{
    (void)state;
    uint64_t seed = test_seed("noise");
    assert_true(near(iso_score_noise(&(iso_score){0}), 0.05 * 0.05, 1e-9));
    const double noise[] = {0, 0.1, 5};
    const double low[] = {0.0199, 0.07, 0.5}, high[] = {0.0201, 0.14, 1.001};
    for (int i = 0; i < 3; i++) {
        iso_score s = {0};
        double sum = 0;
        for (int k = 0; k < 2000; k++) {
            iso_score_measure(&s, 1, 1e6 * exp(noise[i] * normal(&seed)));
            sum += k >= 1000 ? sqrt(iso_score_noise(&s)) : 0;
        }
        assert_true(sum / 1000 > low[i] && sum / 1000 < high[i]);
    }
}

static void drift_does_not_count_as_noise(void **state)
{
    (void)state;
    iso_score s = {0};
    double x = log(1000);
    for (int i = 0; i < 400; i++) {
        x += i % 200 < 100 ? 0.03 : -0.03;
        iso_score_measure(&s, 1, exp(x));
    }
    assert_true(fabs(log(s.ns) - x) < 0.06); /* two steps behind at most */
    assert_true(iso_score_noise(&s) < 0.04 * 0.04);
}

static void overhead_is_the_least_of_the_last_sixteen(void **state)
{
    (void)state;
    iso_overhead o = {0};
    assert_true(iso_overhead_ns(&o) == 0);
    iso_overhead_note(&o, 700);
    assert_true(iso_overhead_ns(&o) == 700);
    iso_overhead_note(&o, 200);
    for (int i = 0; i < 15; i++) {
        iso_overhead_note(&o, 500 + i);
        assert_true(iso_overhead_ns(&o) == 200);
    }
    iso_overhead_note(&o, 900); /* the 200 is the seventeenth last */
    assert_true(iso_overhead_ns(&o) == 500);
    iso_overhead before = o;
    iso_overhead_note(&o, -1);
    iso_overhead_note(&o, NAN);
    iso_overhead_note(&o, INFINITY);
    assert_memory_equal(&o, &before, sizeof o);
    for (int i = 0; i < 1000; i++)
        iso_overhead_note(&o, 1000);
    assert_true(iso_overhead_ns(&o) == 1000);
}

static void a_copy_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = test_seed("copy");
    iso_score a = {0}, b;
    for (int i = 0; i < 500; i++) {
        double ns = 1e5 * exp(0.3 * normal(&seed));
        b = a;
        iso_score_measure(&a, 64, ns);
        iso_score_measure(&b, 64, ns);
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(a.ns > 0 && a.ns < INFINITY && a.p > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_probe_doubles_and_drops_the_cold_one),
        cmocka_unit_test(what_is_measured_serves_while_probing),
        cmocka_unit_test(one_outlier_moves_nothing),
        cmocka_unit_test(two_on_one_side_are_a_change),
        cmocka_unit_test(a_measurement_outweighs_a_hint),
        cmocka_unit_test(wrong_figures_change_nothing),
        cmocka_unit_test(the_filter_is_as_good_as_it_says),
        cmocka_unit_test(noise_is_learned_within_its_bounds),
        cmocka_unit_test(drift_does_not_count_as_noise),
        cmocka_unit_test(overhead_is_the_least_of_the_last_sixteen),
        cmocka_unit_test(a_copy_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

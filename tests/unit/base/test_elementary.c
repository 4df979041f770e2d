/* SPDX-License-Identifier: Apache-2.0
 * Proves that iso_ln and iso_exp keep the error their header names, over their whole range and close to where it is hard (ln
 * near 1, exp near 0), and that wrong arguments give NaN; and pins the bits of some values, so that another machine or
 * compiler that gave others would be noticed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/elementary.h"
#include "base/rng.h"

static iso_rng stream(uint32_t layer)
{
    return iso_rng_make(&(iso_rng_key){.seed = 4, .purpose = ISO_PURPOSE_TEST, .layer = layer});
}

static double uniform(iso_rng *r, double low, double high)
{
    return low + (high - low) * iso_rng_double(r);
}

static double ulps(double got, long double right)
{
    double size = fabs((double)right);
    return (double)(fabsl((long double)got - right) / (long double)(nextafter(size, INFINITY) - size));
}

static void errors_are_below_their_bounds(void **state)
{
    (void)state;
    iso_rng r = stream(1);
    double worst_ln = 0, worst_exp = 0;
    for (int i = 0; i < 400000; i++) {
        double close = ldexp(uniform(&r, -1, 1), -(i % 50)), x = i % 2 ? exp(uniform(&r, -700, 700)) : 1 + close;
        if (x != 1 && x > 0)
            worst_ln = fmax(worst_ln, ulps(iso_ln(x), logl((long double)x)));
        x = i % 2 ? uniform(&r, -700, 700) : close;
        worst_exp = fmax(worst_exp, ulps(iso_exp(x), expl((long double)x)));
    }
    print_message("ln %.2f ulp, exp %.2f ulp\n", worst_ln, worst_exp);
    assert_true(worst_ln > 0.3 && worst_ln < 1.5);
    assert_true(worst_exp > 0.3 && worst_exp < 1.5);
}

static void they_undo_each_other(void **state)
{
    (void)state;
    iso_rng r = stream(2);
    for (int i = 0; i < 10000; i++) {
        double x = uniform(&r, -50, 50);
        assert_true(fabs(iso_ln(iso_exp(x)) - x) < 1e-14 * (1 + fabs(x)));
    }
    assert_true(iso_ln(1) == 0 && iso_exp(0) == 1);
}

static void wrong_arguments_give_nan(void **state)
{
    (void)state;
    const double wrong[] = {0, -0.0, -1, 0x1p-1060, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(isnan(iso_ln(wrong[i])));
    assert_true(isnan(iso_exp(NAN)));
    assert_true(iso_exp(INFINITY) == iso_exp(700) && iso_exp(-1e300) == iso_exp(-700) && iso_exp(-700) > 0);
}

static void the_bits_are_pinned(void **state)
{
    (void)state;
    uint64_t hash = 0;
    for (int i = 1; i < 1000; i++) {
        const double v[2] = {iso_ln(i * 0.37), iso_exp(i * 0.31 - 150)};
        for (int k = 0; k < 2; k++) {
            int exponent = 0;
            hash = hash * 31 + (uint64_t)(int64_t)ldexp(frexp(v[k], &exponent), 53) + (uint64_t)(int64_t)exponent;
        }
    }
    print_message("hash 0x%016llx\n", (unsigned long long)hash);
    assert_true(hash == 0xf629439a3faee76a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_below_their_bounds),
        cmocka_unit_test(they_undo_each_other),
        cmocka_unit_test(wrong_arguments_give_nan),
        cmocka_unit_test(the_bits_are_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

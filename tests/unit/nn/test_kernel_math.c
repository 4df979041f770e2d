/* SPDX-License-Identifier: Apache-2.0
 * Own exp, log, tanh and sigmoid: how far from the true value they are at most (vmath.h states it), against the C library in
 * double over a fine walk through their ranges; special values; and equal bits on every instruction set. They are reached through
 * the kernels that use them.
 */
#include "kernel_test.h"

enum { BLOCK = 1024 };

/* Distance from the true value in units of the last place of a float of its size. */
static double ulps(float got, double want)
{
    int exponent;
    (void)frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

/* Largest error of act over every `step`th float in [from, to], bits of positive floats, both signs. */
static double worst_act(const iso_kernels *t, iso_act act, double (*truth)(double), float from, float to, uint32_t step)
{
    float x[BLOCK] __attribute__((aligned(64))), y[BLOCK] __attribute__((aligned(64)));
    uint32_t first, last;
    double worst = 0;
    memcpy(&first, &from, 4);
    memcpy(&last, &to, 4);
    for (uint64_t bits = first; bits <= last; bits += (uint64_t)step * BLOCK / 2) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint64_t at = bits + (uint64_t)step * (i / 2);
            uint32_t one = (uint32_t)(at < last ? at : last) | (i % 2 ? 0x80000000u : 0);
            memcpy(x + i, &one, 4);
        }
        t->act_forward(act, 0, y, x, BLOCK);
        for (uint32_t i = 0; i < BLOCK; i++) {
            double error = ulps(y[i], truth((double)x[i]));
            worst = error > worst ? error : worst;
        }
    }
    return worst;
}

static double true_sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void accuracy(void **state)
{
    (void)state;
    const iso_kernels *t = iso_kernels_of(ISO_ISA_AUTO);
    double tanh_error = worst_act(t, ISO_ACT_TANH, tanh, 1e-18f, 30.0f, 97);
    double sigmoid_error = worst_act(t, ISO_ACT_SIGMOID, true_sigmoid, 1e-10f, 79.0f, 97);
    print_message("tanh %.2f ulp, sigmoid %.2f ulp\n", tanh_error, sigmoid_error);
    assert_true(tanh_error > 0.4 && tanh_error <= 2.0);
    assert_true(sigmoid_error > 0.4 && sigmoid_error <= 3.0);
}

/* exp through softmax of two classes: the second's share over the first's is e^-d; its own rounding adds one more half. log through
 * the loss of equal outputs: ln(classes). */
static void exp_and_log(void **state)
{
    (void)state;
    const iso_kernels *t = iso_kernels_of(ISO_ISA_AUTO);
    double worst_exp = 0, worst_log = 0;
    float z[32], p[32];
    for (double d = 0; d < 60; d += 0.00137) {
        for (int lane = 0; lane < 16; lane++) {
            z[lane] = 0.0f;
            z[16 + lane] = -(float)(d * (1 + lane * 1e-3));
        }
        t->softmax(2, p, z);
        for (int lane = 0; lane < 16; lane++) {
            double e = exp((double)z[16 + lane]), error = ulps(p[16 + lane], e / (1 + e));
            worst_exp = error > worst_exp ? error : worst_exp;
        }
    }
    enum { MOST = 3000 };
    static float zeros[MOST * 16], dz[MOST * 16];
    const int32_t label[16] = {0};
    for (uint32_t classes = 2; classes < MOST; classes++) {
        int64_t loss = 0;
        uint32_t correct = 0;
        assert_true(t->cross_entropy(classes, 1, dz, zeros, label, &loss, &correct));
        double error = fabs((double)loss * 0x1p-40 - log((double)classes)) / ldexp(1.0, ilogb(log((double)classes)) - 23);
        worst_log = error > worst_log ? error : worst_log;
    }
    print_message("softmax of two %.2f ulp, log %.2f ulp\n", worst_exp, worst_log);
    assert_true(worst_exp <= 3.0);
    assert_true(worst_log > 0 && worst_log <= 1.0);
}

static void special_values(void **state)
{
    (void)state;
    float x[16] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-38f, -1e-38f, 100.0f, -100.0f, 1e30f,
                   -1e30f, 9.1f, -9.1f, 0.625f, -0.625f, 1e-45f};
    float y[16];
    EACH_TABLE(t) {
        t->act_forward(ISO_ACT_TANH, 0, y, x, 16);
        assert_true(y[0] == 0 && y[1] == 0 && y[2] == 1 && y[3] == -1 && isnan(y[4]) && y[7] == 1 && y[8] == -1 && y[9] == 1);
        for (int i = 0; i < 16; i++)
            assert_true(isnan(y[i]) || fabsf(y[i]) <= 1.0f);
        t->act_forward(ISO_ACT_SIGMOID, 0, y, x, 16);
        assert_true(y[0] == 0.5f && y[2] == 1 && y[3] >= 0 && y[3] < 1e-34f && isnan(y[4]) && y[7] == 1 && y[8] == y[10] && y[9] == 1);
        for (int i = 0; i < 16; i++) /* never a denormal */
            assert_true(isnan(y[i]) || y[i] >= 1e-36f);
    }
}

/* One table against another, bit for bit, over random bits: every float there is may occur. */
static void equal_bits(void **state)
{
    (void)state;
    uint64_t seed = test_seed("equal_bits");
    float x[BLOCK] __attribute__((aligned(64))), want[BLOCK], y[BLOCK];
    static const iso_act acts[] = {ISO_ACT_RELU, ISO_ACT_LEAKY_RELU, ISO_ACT_SIGMOID, ISO_ACT_TANH, ISO_ACT_LECUN_TANH};
    const iso_kernels *scalar = iso_kernels_of(ISO_ISA_SCALAR);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)test_random(&seed);
            if (round % 2)
                bits = (bits & 0x80ffffff) | (0x3c + (bits >> 24 & 7)) << 24; /* sizes that matter */
            memcpy(x + i, &bits, 4);
        }
        for (size_t a = 0; a < sizeof acts / sizeof *acts; a++) {
            scalar->act_forward(acts[a], 0.01f, want, x, BLOCK);
            EACH_TABLE(t) {
                t->act_forward(acts[a], 0.01f, y, x, BLOCK);
                for (int i = 0; i < BLOCK; i++) /* which NaN comes out is nobody's promise */
                    if (memcmp(y + i, want + i, 4) != 0 && !(isnan(y[i]) && isnan(want[i])))
                        fail_msg("%s: activation %d of %a is %a, expected %a", t->name, (int)acts[a], (double)x[i], (double)y[i],
                                 (double)want[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accuracy), cmocka_unit_test(exp_and_log), cmocka_unit_test(special_values),
                                       cmocka_unit_test(equal_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

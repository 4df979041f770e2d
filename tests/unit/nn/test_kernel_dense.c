/* SPDX-License-Identifier: Apache-2.0
 * Dense layers, the integer grid and the optimiser's step of every instruction set equal the naive oracle bit for bit; the fused
 * gradient and update equal gradient, then update, for any slices.
 */
#include "kernel_test.h"

typedef struct dense_case {
    iso_dense d;
    uint32_t n, units;        /* samples of a unit; units */
    size_t panels, outs;      /* values of w and of the bias */
    iso_dense_unit unit[3];
} dense_case;

static float *padded_rows(size_t rows, size_t ld, size_t values, uint64_t *seed)
{
    float *p = filled(rows * ld, seed);
    for (size_t i = 0; i < rows; i++)
        memset(p + i * ld + values, 0, (ld - values) * sizeof *p);
    return p;
}

static dense_case dense_make(uint64_t *seed)
{
    dense_case k = {.units = 1 + (uint32_t)test_random_below(seed, 3), .n = 16 * (1 + (uint32_t)test_random_below(seed, 4))};
    static const uint32_t sizes[] = {10, 84, 120, 400, 300, 64};
    k.d.in = test_random_below(seed, 2) ? 1 + (uint32_t)test_random_below(seed, 70) : sizes[test_random_below(seed, 6)];
    k.d.out = test_random_below(seed, 2) ? 1 + (uint32_t)test_random_below(seed, 70) : sizes[test_random_below(seed, 3)];
    k.d.ldx = iso_round16(k.d.in) + 16 * test_random_below(seed, 2);
    k.d.ldy = iso_round16(k.d.out) + 16 * test_random_below(seed, 2);
    k.panels = iso_round16(k.d.out) * k.d.in;
    k.outs = iso_round16(k.d.out);
    for (uint32_t u = 0; u < k.units; u++) {
        k.unit[u].x = padded_rows(k.n, k.d.ldx, k.d.in, seed);
        k.unit[u].dy = padded_rows(k.n, k.d.ldy, k.d.out, seed);
    }
    return k;
}

static void dense_free(dense_case *k)
{
    for (uint32_t u = 0; u < k->units; u++) {
        free((void *)(uintptr_t)k->unit[u].x);
        free((void *)(uintptr_t)k->unit[u].dy);
    }
}

static float *panels_random(const dense_case *k, uint64_t *seed)
{
    float *w = filled(k->panels, seed);
    for (size_t in = 0; in < k->d.in; in++)
        for (size_t out = k->d.out; out < k->outs; out++)
            w[oracle_panel(&k->d, in, out)] = 0;
    return w;
}

static void forward_and_data(void **state)
{
    (void)state;
    uint64_t seed = test_seed("forward_and_data");
    for (int i = 0; i < 40; i++, seed++) {
        uint64_t draw = seed;
        dense_case k = dense_make(&draw);
        size_t y_size = k.n * k.d.ldy, dx_size = (size_t)k.n * k.d.in;
        float *w = panels_random(&k, &draw), *bias = padded_rows(1, k.outs, k.d.out, &draw), *dy = filled(k.n * k.outs, &draw);
        float *y = filled(y_size, &draw), *want_y = floats(y_size), *dx = floats(dx_size), *want_dx = floats(dx_size);
        memcpy(want_y, y, y_size * sizeof *y); /* columns beyond round16(out) stay */
        iso_act act = test_random_below(&draw, 2) ? ISO_ACT_RELU : ISO_ACT_NONE;
        oracle_dense_forward(&k.d, k.n, want_y, k.unit[0].x, w, bias, act);
        oracle_dense_data(&k.d, k.n / 16, want_dx, dy, w);
        EACH_TABLE(t) {
            t->dense_forward(&k.d, k.n, y, k.unit[0].x, w, bias, act);
            same_floats(y, want_y, y_size, t->name, "dense_forward", seed);
            t->dense_data(&k.d, k.n / 16, dx, dy, w);
            same_floats(dx, want_dx, dx_size, t->name, "dense_data", seed);
            check_guard(y, y_size * 4);
            check_guard(dx, dx_size * 4);
        }
        void *all[] = {w, bias, dy, y, want_y, dx, want_dx};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            free(all[j]);
        dense_free(&k);
    }
}

static void oracle_sums(const dense_case *k, int64_t *w, int64_t *b, float limit, bool *good)
{
    for (uint32_t u = 0; u < k->units; u++)
        for (size_t out = 0; out < k->outs; out++) {
            for (size_t in = 0; in < k->d.in; in++)
                w[oracle_panel(&k->d, in, out)] += oracle_dense_weight(&k->d, k->n, &k->unit[u], in, out, limit, good);
            b[out] += oracle_dense_bias(&k->d, k->n, &k->unit[u], out, limit, good);
        }
}

static iso_step random_step(uint64_t *seed)
{
    iso_step s = {.kind = (iso_optimizer_kind)test_random_below(seed, 3), .scale = 0x1p-40 / 48, .rate = 0.05f,
                  .momentum = test_random_below(seed, 3) ? 0.9f : 0.0f, .decay = test_random_below(seed, 2) ? 0.0005f : 0.0f,
                  .beta1 = 0.9f, .one_minus_beta1 = 0.1f, .beta2 = 0.999f, .one_minus_beta2 = 0.001f, .inv_correction2 = 3.5f,
                  .epsilon = 1e-8f};
    return s;
}

/* Gradients into sums, then update; and both fused, in slices; against the oracle. Sums of earlier units join in. */
static void gradient_and_update(void **state)
{
    (void)state;
    uint64_t seed = test_seed("gradient_and_update");
    for (int i = 0; i < 40; i++, seed++) {
        uint64_t draw = seed;
        dense_case k = dense_make(&draw);
        iso_step s = random_step(&draw);
        size_t size = k.panels, bytes = size * sizeof(int64_t);
        int64_t *want = guarded(bytes), *sum = guarded(bytes), *earlier = guarded(bytes), want_b[512], sum_b[512];
        float *w0 = panels_random(&k, &draw), *w = floats(size), *want_w = floats(size), *state0[2], *state1[2], *want_state[2];
        for (size_t j = 0; j < size; j++) /* padding never has a gradient */
            earlier[j] = j % 16 + j / 16 / k.d.in * 16 < k.d.out ? (int64_t)(test_random(&draw) >> 20) - (INT64_C(1) << 43) : 0;
        for (int j = 0; j < 2; j++) {
            state0[j] = filled(size, &draw);
            for (size_t v = 0; v < size; v++)
                state0[j][v] = fabsf(state0[j][v]); /* Adam's second is a sum of squares */
            state1[j] = floats(size);
            want_state[j] = floats(size);
            memcpy(want_state[j], state0[j], size * sizeof(float));
        }
        memcpy(want, earlier, bytes);
        memset(want_b, 0, sizeof want_b);
        bool good = true;
        oracle_sums(&k, want, want_b, 0x1p20f, &good);
        assert_true(good);
        memcpy(want_w, w0, size * sizeof *w);
        for (size_t j = 0; j < size; j++)
            assert_true(oracle_step(&s, want_w + j, want_state[0] + j, want_state[1] + j, want[j]));
        uint32_t states = s.kind == ISO_ADAM ? 2 : s.momentum != 0;
        EACH_TABLE(t) {
            for (int fused = 0; fused < 2; fused++) {
                memcpy(sum, earlier, bytes);
                memcpy(w, w0, size * sizeof *w);
                memset(sum_b, 0, sizeof sum_b);
                for (int j = 0; j < 2; j++)
                    memcpy(state1[j], state0[j], size * sizeof(float));
                if (fused) {
                    size_t cut = test_random_below(&draw, size / 16) * 16;
                    float *const st[2] = {state1[0], state1[1]};
                    int64_t *const sums[1] = {sum};
                    assert_true(t->dense_update(&k.d, &s, cut, size, k.n, k.unit, k.units, w, st, sums, 1, 0x1p20f));
                    assert_true(t->dense_update(&k.d, &s, 0, cut, k.n, k.unit, k.units, w, st, sums, 1, 0x1p20f));
                } else {
                    for (uint32_t u = 0; u < k.units; u++)
                        assert_true(t->dense_gradient(&k.d, k.n, &k.unit[u], sum, sum_b, 0x1p20f));
                    same_bytes(sum, want, bytes, t->name, "dense_gradient", seed);
                    same_bytes(sum_b, want_b, k.outs * sizeof *sum_b, t->name, "dense_gradient's bias", seed);
                    float *const st[2] = {state1[0], state1[1]};
                    int64_t *const sums[1] = {sum};
                    assert_true(t->update(&s, size, w, st, sums, 1));
                }
                same_floats(w, want_w, size, t->name, fused ? "dense_update" : "update", seed);
                for (uint32_t j = 0; j < states; j++)
                    same_floats(state1[j], want_state[j], size, t->name, "the optimiser's state", seed);
                for (size_t j = 0; j < size; j++)
                    assert_true(sum[j] == 0);
                check_guard(w, size * 4);
                check_guard(sum, bytes);
            }
        }
        void *all[] = {want, sum, earlier, w0, w, want_w, state0[0], state0[1], state1[0], state1[1], want_state[0], want_state[1]};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            free(all[j]);
        dense_free(&k);
    }
}

/* The fused bias update equals sums, then update. */
static void bias_update(void **state)
{
    (void)state;
    uint64_t seed = test_seed("bias_update");
    for (int i = 0; i < 20; i++, seed++) {
        uint64_t draw = seed;
        dense_case k = dense_make(&draw);
        iso_step s = random_step(&draw);
        s.kind = ISO_SGD;
        float w0[512], w[512], v[512], want_w[512], want_v[512];
        int64_t want[512] = {0};
        bool good = true;
        fill(w0, 512, &draw);
        for (size_t out = 0; out < k.outs; out++) {
            for (uint32_t u = 0; u < k.units; u++)
                want[out] += oracle_dense_bias(&k.d, k.n, &k.unit[u], out, 0x1p20f, &good);
            want_w[out] = w0[out];
            want_v[out] = 0.25f;
            assert_true(oracle_step(&s, want_w + out, want_v + out, NULL, want[out]));
        }
        EACH_TABLE(t) {
            memcpy(w, w0, sizeof w);
            for (size_t j = 0; j < 512; j++)
                v[j] = 0.25f;
            float *const st[2] = {v, NULL};
            assert_true(t->dense_update_bias(&k.d, &s, 0, k.outs, k.n, k.unit, k.units, w, st, NULL, 0, 0x1p20f));
            same_floats(w, want_w, k.outs, t->name, "dense_update_bias", seed);
        }
        dense_free(&k);
    }
}

/* Values all over the range go to the grid exactly; what is not below the limit adds nothing and is reported. */
static void grid(void **state)
{
    (void)state;
    uint64_t seed = test_seed("grid");
    enum { N = 4096 };
    float *g = floats(N);
    int64_t *sum = guarded(N * sizeof *sum), *want = guarded(N * sizeof *want);
    for (size_t i = 0; i < N; i++) {
        g[i] = ldexpf(random_float(&seed), (int)test_random_below(&seed, 100) - 78);
        if (i % 3 == 0) /* ties: an odd multiple of half a step */
            g[i] = (float)((double)(int64_t)(test_random_below(&seed, 1 << 20) * 2 + 1) * 0x1p-41) * (i % 2 ? -1.0f : 1.0f);
    }
    bool good = true;
    for (size_t i = 0; i < N; i++)
        want[i] = (int64_t)i - 7 + oracle_grid(g[i], 0x1p22f, &good);
    assert_true(good);
    EACH_TABLE(t) {
        for (size_t i = 0; i < N; i++)
            sum[i] = (int64_t)i - 7;
        assert_true(t->grid_add(sum, g, N, 0x1p22f));
        same_bytes(sum, want, N * sizeof *sum, t->name, "grid_add", 0);
        const float wrong[] = {NAN, INFINITY, -INFINITY, 0x1p22f, -0x1p22f, 1e30f};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            float one[16] = {1.0f};
            int64_t to[16] = {0};
            one[5 + i] = wrong[i];
            assert_false(t->grid_add(to, one, 16, 0x1p22f));
            for (size_t j = 0; j < 16; j++)
                assert_true(to[j] == (j == 0 ? INT64_C(1) << 40 : 0));
        }
    }
    free(g);
    free(sum);
    free(want);
}

/* int64 to double rounds once, for sums of any size; a sum or weight that is too large is reported. */
static void update_range(void **state)
{
    (void)state;
    uint64_t seed = test_seed("update_range");
    enum { N = 1024 };
    float w[N], want[N];
    int64_t drawn[N], a[N], b[N];
    iso_step s = {.kind = ISO_SGD, .scale = 0x1p-40 / 3, .rate = 1.0f};
    for (size_t i = 0; i < N; i++) {
        drawn[i] = (int64_t)(test_random(&seed) >> (3 + test_random_below(&seed, 60)));
        if (i & 1)
            drawn[i] = -drawn[i];
    }
    EACH_TABLE(t) {
        for (size_t i = 0; i < N; i++) {
            w[i] = want[i] = 0;
            b[i] = (int64_t)i * 1000;
            a[i] = drawn[i] - b[i];
            assert_true(oracle_step(&s, want + i, NULL, NULL, drawn[i]));
        }
        int64_t *const sums[] = {a, b};
        assert_true(t->update(&s, N, w, NULL, sums, 2));
        same_floats(w, want, N, t->name, "update", 0);
        for (size_t i = 0; i < N; i++)
            assert_true(a[i] == 0 && b[i] == 0);
        a[3] = INT64_C(1) << 62;
        assert_false(t->update(&s, 16, w, NULL, sums, 2));
        a[3] = 0;
        w[9] = INFINITY;
        assert_false(t->update(&s, 16, w, NULL, sums, 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward_and_data), cmocka_unit_test(gradient_and_update),
                                       cmocka_unit_test(bias_update), cmocka_unit_test(grid), cmocka_unit_test(update_range)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

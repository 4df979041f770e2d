/* SPDX-License-Identifier: Apache-2.0
 * Loading, layouts, activations' gradients, pooling, channel factors and losses of every instruction set against loops that say
 * what they do, bit for bit.
 */
#include "kernel_test.h"

/* ---- samples in ----------------------------------------------------------------------------------------------------------- */

static void load_lanes(void **state)
{
    (void)state;
    uint64_t seed = test_seed("load_lanes");
    for (int i = 0; i < 40; i++, seed++) {
        uint64_t draw = seed;
        iso_conv c = {.channels = 1 + (uint32_t)test_random_below(&draw, 3), .rows = 1 + (uint32_t)test_random_below(&draw, 9),
                      .columns = 1 + (uint32_t)test_random_below(&draw, 9), .filters = 1, .kernel_rows = 1, .kernel_columns = 1,
                      .stride = 1, .pad_rows = (uint32_t)test_random_below(&draw, 3),
                      .pad_columns = (uint32_t)test_random_below(&draw, 3)};
        iso_conv_finish(&c, false);
        uint32_t n = 1 + (uint32_t)test_random_below(&draw, 16);
        size_t pixels = (size_t)c.rows * c.columns, values = pixels * c.channels;
        float *want = floats(c.x_group), *want_u8 = floats(c.x_group), *x = floats(c.x_group), scale[3], shift[3];
        fill(scale, 3, &draw);
        fill(shift, 3, &draw);
        const float *sample[16];
        const uint8_t *bytes[16];
        for (uint32_t s = 0; s < 16; s++) { /* exactly sized: a sanitizer sees every read beyond */
            float *f = malloc(values * sizeof *f);
            uint8_t *b = malloc(values);
            for (size_t v = 0; v < values; v++) {
                f[v] = random_float(&draw);
                b[v] = (uint8_t)test_random(&draw);
            }
            sample[s] = f;
            bytes[s] = b;
        }
        for (size_t v = 0; v < values; v++)
            for (uint32_t lane = 0; lane < n; lane++) {
                size_t ch = v / pixels, at = oracle_x(&c, 0, ch, v % pixels / c.columns + c.pad_rows, v % c.columns + c.pad_columns, 0);
                if (lane == 0)
                    memset(want + at, 0, 64), memset(want_u8 + at, 0, 64);
                want[at + lane] = fmaf(sample[lane][v], scale[ch], shift[ch]);
                want_u8[at + lane] = fmaf((float)bytes[lane][v], scale[ch], shift[ch]);
            }
        EACH_TABLE(t) { /* the border keeps the pattern that the arrays were filled with */
            memset(x, 0xff, c.x_group * 4);
            t->load_f32(x, &c, n, sample, scale, shift);
            same_bytes(x, want, c.x_group * 4, t->name, "load_f32", seed);
            memset(x, 0xff, c.x_group * 4);
            t->load_u8(x, &c, n, bytes, scale, shift);
            same_bytes(x, want_u8, c.x_group * 4, t->name, "load_u8", seed);
            check_guard(x, c.x_group * 4);
        }
        for (uint32_t s = 0; s < 16; s++) {
            free((void *)(uintptr_t)sample[s]);
            free((void *)(uintptr_t)bytes[s]);
        }
        free(want);
        free(want_u8);
        free(x);
    }
}

static void load_rows(void **state)
{
    (void)state;
    uint64_t seed = test_seed("load_rows");
    for (uint32_t count = 1; count < 70; count++) {
        float *f = malloc(count * sizeof *f), *scale = malloc(count * sizeof *f), *shift = malloc(count * sizeof *f);
        uint8_t *b = malloc(count);
        size_t ld = iso_round16(count);
        float *row = floats(ld);
        fill(f, count, &seed);
        fill(scale, count, &seed);
        fill(shift, count, &seed);
        for (uint32_t i = 0; i < count; i++)
            b[i] = (uint8_t)test_random(&seed);
        EACH_TABLE(t) {
            for (int kind = 0; kind < 2; kind++) {
                memset(row, 0xff, ld * 4);
                if (kind)
                    t->load_row_u8(row, count, b, scale, shift);
                else
                    t->load_row_f32(row, count, f, scale, shift);
                for (uint32_t i = 0; i < ld; i++)
                    assert_true(row[i] == (i < count ? fmaf(kind ? (float)b[i] : f[i], scale[i], shift[i]) : 0.0f));
                check_guard(row, ld * 4);
            }
        }
        free(f), free(scale), free(shift), free(b), free(row);
    }
}

static void layouts(void **state)
{
    (void)state;
    uint64_t seed = test_seed("layouts");
    for (size_t count = 1; count < 50; count++) {
        size_t ld = iso_round16(count) + 16;
        float *lanes = filled(count * 16, &seed), *back = floats(count * 16), *rows = floats(16 * ld);
        EACH_TABLE(t) {
            memset(rows, 0xff, 16 * ld * 4);
            t->lanes_to_rows(rows, ld, lanes, count);
            for (size_t lane = 0; lane < 16; lane++)
                for (size_t i = 0; i < iso_round16(count); i++)
                    assert_true(rows[lane * ld + i] == (i < count ? lanes[i * 16 + lane] : 0.0f));
            t->rows_to_lanes(back, rows, ld, count);
            same_bytes(back, lanes, count * 64, t->name, "rows_to_lanes", 0);
            check_guard(back, count * 64);
            check_guard(rows, 16 * ld * 4);
        }
        free(lanes), free(back), free(rows);
    }
    iso_conv c = {.channels = 3, .rows = 4, .columns = 5, .filters = 1, .kernel_rows = 1, .kernel_columns = 1, .stride = 1,
                  .pad_rows = 2, .pad_columns = 1};
    iso_conv_finish(&c, false);
    float *x = filled(c.dx_group, &seed), *padded = floats(c.x_group), *want = floats(c.x_group);
    memset(want, 0, c.x_group * 4);
    for (size_t i = 0; i < c.dx_group; i++)
        want[oracle_x(&c, 0, i / 320, i / 80 % 4 + 2, i / 16 % 5 + 1, i % 16)] = x[i];
    EACH_TABLE(t) {
        t->add_border(padded, x, &c);
        same_bytes(padded, want, c.x_group * 4, t->name, "add_border", 0);
        check_guard(padded, c.x_group * 4);
        memset(padded, 0xff, c.x_group * 4);
    }
    free(x), free(padded), free(want);
}

/* ---- elementwise ------------------------------------------------------------------------------------------------------------ */

static float backward_of(iso_act act, float slope, float d, float y)
{
    const float a = 1.7159f, b = 0.66666667f;
    switch (act) {
    case ISO_ACT_RELU: return y > 0 ? d : 0;
    case ISO_ACT_LEAKY_RELU: return y > 0 ? d : slope * d;
    case ISO_ACT_SIGMOID: return d * (y * (1.0f - y));
    case ISO_ACT_TANH: return d * (1.0f - y * y);
    case ISO_ACT_LECUN_TANH: return d * fmaf(y * y, -b / a, a * b);
    default: return d;
    }
}

static void activations(void **state)
{
    (void)state;
    uint64_t seed = test_seed("activations");
    enum { N = 512 };
    float *x = filled(N, &seed), *dy = filled(N, &seed), *y = floats(N), *dx = floats(N), want[N];
    for (size_t i = 0; i < N; i += 7)
        dy[i] = ldexpf(dy[i], -70 + (int)(i % 20)); /* some below the flush */
    x[3] = NAN;
    EACH_TABLE(t) {
        for (int act = ISO_ACT_NONE; act <= ISO_ACT_LECUN_TANH; act++) {
            t->act_forward((iso_act)act, 0.125f, y, x, N);
            for (size_t i = 0; i < N; i++) {
                if (act == ISO_ACT_RELU && i != 3)
                    assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
                if (act == ISO_ACT_LEAKY_RELU && i != 3)
                    assert_true(y[i] == (x[i] > 0 ? x[i] : 0.125f * x[i]));
                if (act == ISO_ACT_NONE && i != 3)
                    assert_true(y[i] == x[i]);
                want[i] = oracle_flush(backward_of((iso_act)act, 0.125f, dy[i], y[i]));
            }
            assert_true(isnan(y[3])); /* a NaN stays */
            t->act_backward((iso_act)act, 0.125f, dx, dy, y, N);
            for (size_t i = 0; i < N; i++)
                if (i != 3)
                    same_floats(dx + i, want + i, 1, t->name, "act_backward", (uint64_t)act);
            check_guard(dx, N * 4);
            check_guard(y, N * 4);
        }
    }
    free(x), free(dy), free(y), free(dx);
}

static void channel_factors(void **state)
{
    (void)state;
    uint64_t seed = test_seed("channel_factors");
    for (int i = 0; i < 20; i++) {
        uint32_t groups = 1 + (uint32_t)test_random_below(&seed, 3), channels = 1 + (uint32_t)test_random_below(&seed, 5);
        uint32_t pixels = 1 + (uint32_t)test_random_below(&seed, 30);
        size_t size = (size_t)groups * channels * pixels * 16;
        float *x = filled(size, &seed), *dy = filled(size, &seed), *y = floats(size), *dx = floats(size), a[5], b[5], da[5], db[5];
        fill(a, 5, &seed);
        fill(b, 5, &seed);
        EACH_TABLE(t) {
            t->scale_forward(y, x, a, b, groups, channels, pixels);
            t->scale_backward(dx, da, db, dy, x, a, groups, channels, pixels);
            for (size_t v = 0; v < size; v++) {
                size_t c = v / 16 / pixels % channels;
                float want = fmaf(x[v], a[c], b[c]), want_d = oracle_flush(dy[v] * a[c]);
                same_floats(y + v, &want, 1, t->name, "scale_forward", 0);
                same_floats(dx + v, &want_d, 1, t->name, "scale_backward", 0);
            }
            for (size_t c = 0; c < channels; c++) {
                float sum_a[16] = {0}, sum_b[16] = {0};
                for (uint32_t g = 0; g < groups; g++)
                    for (size_t p = 0; p < pixels; p++)
                        for (size_t lane = 0; lane < 16; lane++) {
                            size_t v = ((g * channels + c) * pixels + p) * 16 + lane;
                            sum_a[lane] = fmaf(dy[v], x[v], sum_a[lane]);
                            sum_b[lane] += dy[v];
                        }
                float want_a = oracle_tree16(sum_a), want_b = oracle_tree16(sum_b);
                same_floats(da + c, &want_a, 1, t->name, "scale_backward's da", 0);
                same_floats(db + c, &want_b, 1, t->name, "scale_backward's db", 0);
            }
        }
        free(x), free(dy), free(y), free(dx);
    }
}

/* ---- pooling ------------------------------------------------------------------------------------------------------------------ */

static size_t pool_at(const iso_pool *p, size_t channel, size_t row, size_t column)
{
    return ((channel * p->rows + row) * p->columns + column) * 16;
}

static void pooling(void **state)
{
    (void)state;
    uint64_t seed = test_seed("pooling");
    for (int i = 0; i < 40; i++) {
        iso_pool p = {.channels = 1 + (uint32_t)test_random_below(&seed, 3), .window_rows = 1 + (uint32_t)test_random_below(&seed, 4),
                      .window_columns = 1 + (uint32_t)test_random_below(&seed, 4),
                      .stride_rows = 1 + (uint32_t)test_random_below(&seed, 3),
                      .stride_columns = 1 + (uint32_t)test_random_below(&seed, 3)};
        p.rows = p.window_rows + (uint32_t)test_random_below(&seed, 6);
        p.columns = p.window_columns + (uint32_t)test_random_below(&seed, 6);
        p.out_rows = (p.rows - p.window_rows) / p.stride_rows + 1;
        p.out_columns = (p.columns - p.window_columns) / p.stride_columns + 1;
        uint32_t groups = 1 + (uint32_t)test_random_below(&seed, 2);
        size_t planes = groups * p.channels, size = planes * p.rows * p.columns * 16;
        size_t outs = planes * p.out_rows * p.out_columns * 16;
        float *x = filled(size, &seed), *dy = filled(outs, &seed), *y = floats(outs), *dx = floats(size);
        float *max = floats(outs), *mean = floats(outs), *d_max = floats(size), *d_mean = floats(size);
        uint16_t *arg = guarded(outs * 2), *want_arg = guarded(outs * 2);
        memset(d_max, 0, size * 4);
        memset(d_mean, 0, size * 4);
        for (size_t v = 0; v < size; v += 3)
            x[v] = roundf(x[v] * 4); /* ties */
        const float factor = 0.3f;
        for (size_t o = 0; o < outs; o++) {
            size_t lane = o % 16, column = o / 16 % p.out_columns, row = o / 16 / p.out_columns % p.out_rows;
            size_t channel = o / 16 / p.out_columns / p.out_rows, best = 0;
            float top = 0, sum = 0;
            for (uint32_t k = 0; k < p.window_rows * p.window_columns; k++) {
                size_t at = lane + pool_at(&p, channel, row * p.stride_rows + k / p.window_columns,
                                           column * p.stride_columns + k % p.window_columns);
                sum = sum + x[at];
                d_mean[at] += dy[o] * factor;
                if (k == 0 || x[at] > top) {
                    top = x[at];
                    best = at;
                    want_arg[o] = (uint16_t)k;
                }
            }
            d_max[best] += dy[o];
            max[o] = top;
            mean[o] = sum * factor;
        }
        EACH_TABLE(t) {
            t->max_pool_forward(&p, groups, y, arg, x);
            same_floats(y, max, outs, t->name, "max_pool_forward", 0);
            same_bytes(arg, want_arg, outs * 2, t->name, "max_pool_forward's index", 0);
            t->max_pool_backward(&p, groups, dx, dy, arg);
            same_floats(dx, d_max, size, t->name, "max_pool_backward", 0);
            t->average_pool_forward(&p, groups, y, x, factor);
            same_floats(y, mean, outs, t->name, "average_pool_forward", 0);
            t->average_pool_backward(&p, groups, dx, dy, factor);
            same_floats(dx, d_mean, size, t->name, "average_pool_backward", 0);
            check_guard(y, outs * 4);
            check_guard(dx, size * 4);
            check_guard(arg, outs * 2);
        }
        void *all[] = {x, dy, y, dx, max, mean, d_max, d_mean, arg, want_arg};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free(all[k]);
    }
}

/* ---- losses --------------------------------------------------------------------------------------------------------------------- */

/* Against double arithmetic within a tolerance; all tables give the same bits; absent lanes have no gradient and no loss. */
static void losses(void **state)
{
    (void)state;
    uint64_t seed = test_seed("losses");
    for (uint32_t classes = 1; classes < 40; classes++) {
        uint32_t n = 1 + (uint32_t)test_random_below(&seed, 16), right = 0;
        float *z = filled(classes * 16, &seed), *dz = floats(classes * 16), *first_dz = NULL;
        int32_t label[16];
        double true_loss = 0, true_square = 0;
        int64_t first_loss = 0;
        for (size_t i = 0; i < classes * 16; i++)
            z[i] *= 8;
        for (uint32_t lane = 0; lane < n; lane++) {
            label[lane] = (int32_t)test_random_below(&seed, classes);
            double sum = 0, top = -1e9;
            uint32_t best = 0;
            for (uint32_t c = 0; c < classes; c++) {
                double v = (double)z[c * 16 + lane], d = v - ((int32_t)c == label[lane] ? 0.9 : 0.1);
                sum += exp(v);
                true_square += 0.5 * d * d;
                if (v > top) {
                    top = v;
                    best = c;
                }
            }
            right += (int32_t)best == label[lane];
            true_loss += log(sum) - (double)z[label[lane] * 16 + (int32_t)lane];
        }
        EACH_TABLE(t) {
            int64_t loss = 5, square = 0;
            uint32_t correct = 2, hits = 0;
            assert_true(t->cross_entropy(classes, n, dz, z, label, &loss, &correct));
            assert_int_equal(correct, right + 2);
            assert_true(fabs((double)(loss - 5) * 0x1p-40 - true_loss) < 1e-4);
            if (first_dz == NULL) {
                first_dz = floats(classes * 16);
                memcpy(first_dz, dz, classes * 64);
                first_loss = loss;
            }
            assert_true(loss == first_loss);
            same_bytes(dz, first_dz, classes * 64, t->name, "cross_entropy", 0);
            check_guard(dz, classes * 64);
            for (uint32_t lane = 0; lane < 16; lane++) {
                double sum = 0;
                for (uint32_t c = 0; c < classes; c++)
                    sum += (double)dz[c * 16 + lane];
                assert_true(fabs(sum) < 1e-5); /* softmax minus one hot */
                if (lane >= n)
                    for (uint32_t c = 0; c < classes; c++)
                        assert_true(dz[c * 16 + lane] == 0);
            }
            assert_true(t->cross_entropy(classes, n, NULL, z, label, &square, &hits)); /* without gradient: the same loss */
            assert_true(square == loss - 5);
            square = 0;
            assert_true(t->squared_error(classes, n, dz, z, label, 0.9f, 0.1f, &square, &hits));
            assert_true(fabs((double)square * 0x1p-40 - true_square) < 1e-4 * (1 + true_square));
            for (uint32_t c = 0; c < classes; c++)
                assert_true(dz[c * 16] == z[c * 16] - ((int32_t)c == label[0] ? 0.9f : 0.1f));
        }
        free(z), free(dz), free(first_dz);
    }
    float bad[32] = {0};
    bad[5] = NAN;
    const int32_t label[16] = {0};
    EACH_TABLE(t) {
        int64_t loss = 0;
        uint32_t correct = 0;
        float dz[32];
        assert_false(t->cross_entropy(2, 16, dz, bad, label, &loss, &correct));
        assert_false(t->squared_error(2, 16, dz, bad, label, 1, 0, &loss, &correct));
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------------------------ */

static void names(void **state)
{
    (void)state;
    iso_isa isa;
    for (int i = ISO_ISA_AUTO; i <= ISO_ISA_AVX512; i++) {
        assert_int_equal(iso_isa_parse(iso_isa_name((iso_isa)i), &isa), ISO_OK);
        assert_int_equal(isa, i);
    }
    assert_int_equal(iso_isa_parse("sse2", &isa), ISO_E_ARGUMENT);
    assert_non_null(iso_kernels_of(ISO_ISA_AUTO));
    assert_string_equal(iso_kernels_of(ISO_ISA_AUTO)->name, iso_isa_name(iso_isa_best()));
    assert_string_equal(iso_kernels_of(ISO_ISA_SCALAR)->name, "scalar");

    /* The guard works, can be set twice, and goes. A value that the compiler cannot see is halved into the denormals. */
    volatile float tiny = 1.17549435e-38f, flushed, kept; /* volatile: computed where it is written */
    uint32_t before = iso_kernels_flush_denormals();
    uint32_t set = iso_kernels_flush_denormals();
    flushed = tiny * 0.5f;
    iso_kernels_restore(set);
    iso_kernels_restore(before);
    kept = tiny * 0.5f;
    assert_true(flushed == 0.0f);
    assert_true(kept > 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(load_lanes),  cmocka_unit_test(load_rows),       cmocka_unit_test(layouts),
                                       cmocka_unit_test(activations), cmocka_unit_test(channel_factors), cmocka_unit_test(pooling),
                                       cmocka_unit_test(losses),      cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

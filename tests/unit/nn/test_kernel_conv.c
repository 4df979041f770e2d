/* SPDX-License-Identifier: Apache-2.0
 * Convolutions of every instruction set equal the naive oracle bit for bit, on random shapes and on LeNet-5's. Since all are
 * compared with one oracle, they equal each other. Guards behind every output show that nothing is written beyond it.
 */
#include "kernel_test.h"

static iso_conv random_conv(uint64_t *seed, bool pooled)
{
    iso_conv c = {0};
    c.channels = 1 + (uint32_t)test_random_below(seed, 9);
    c.filters = 1 + (uint32_t)test_random_below(seed, 20);
    c.kernel_rows = 1 + (uint32_t)test_random_below(seed, 6);
    c.kernel_columns = 1 + (uint32_t)test_random_below(seed, 6);
    if (test_random_below(seed, 3) == 0)
        c.kernel_rows = c.kernel_columns = test_random_below(seed, 2) ? 3 : 5;
    c.stride = test_random_below(seed, 3) ? 1 : 1 + (uint32_t)test_random_below(seed, 3);
    c.pad_rows = (uint32_t)test_random_below(seed, 3);
    c.pad_columns = (uint32_t)test_random_below(seed, 3);
    c.rows = c.kernel_rows + (uint32_t)test_random_below(seed, 8) + (pooled ? c.stride : 0);
    c.columns = c.kernel_columns + (uint32_t)test_random_below(seed, 8) + (pooled ? c.stride : 0);
    iso_conv_finish(&c, pooled);
    return c;
}

static iso_conv shape(uint32_t channels, uint32_t side, uint32_t filters, uint32_t kernel, uint32_t stride, uint32_t pad, bool pooled)
{
    iso_conv c = {.channels = channels, .rows = side, .columns = side, .filters = filters, .kernel_rows = kernel,
                  .kernel_columns = kernel, .stride = stride, .pad_rows = pad, .pad_columns = pad};
    iso_conv_finish(&c, pooled);
    return c;
}

/* Bordered input: zeros on the border, random inside. */
static float *bordered(const iso_conv *c, uint32_t groups, uint64_t *seed)
{
    float *x = filled(groups * c->x_group, seed);
    size_t height = c->rows + 2 * (size_t)c->pad_rows, width = c->columns + 2 * (size_t)c->pad_columns;
    for (size_t i = 0; i < groups * c->x_group; i++) {
        size_t pixel = i / 16 % (height * width), row = pixel / width, column = pixel % width;
        if (row < c->pad_rows || row >= c->pad_rows + c->rows || column < c->pad_columns || column >= c->pad_columns + c->columns)
            x[i] = 0;
    }
    return x;
}

static void check_plain(const iso_conv *c, uint32_t groups, uint64_t seed)
{
    uint64_t state = seed;
    size_t weights = (size_t)c->filters * c->channels * c->kernel_rows * c->kernel_columns, y_size = groups * c->y_group;
    size_t dx_size = groups * c->dx_group;
    float *x = bordered(c, groups, &state), *w = filled(weights, &state), *bias = filled(c->filters, &state);
    float *dy = filled(y_size, &state), *y = floats(y_size), *dx = floats(dx_size), *dw = floats(weights), *db = floats(c->filters);
    float *want_y = floats(y_size), *want_dx = floats(dx_size), *want_dw = floats(weights), *want_db = floats(c->filters);
    void *scratch = guarded(iso_conv_scratch(c));
    iso_act act = test_random_below(&state, 2) ? ISO_ACT_RELU : ISO_ACT_NONE;
    oracle_conv_forward(c, groups, want_y, x, w, bias, act);
    oracle_conv_data(c, groups, want_dx, dy, w);
    oracle_conv_weights(c, groups, want_dw, want_db, x, dy, NULL);
    EACH_TABLE(t) {
        t->conv_forward(c, groups, y, x, w, bias, act);
        same_floats(y, want_y, y_size, t->name, "conv_forward", seed);
        t->conv_data(c, groups, dx, dy, w, scratch);
        same_floats(dx, want_dx, dx_size, t->name, "conv_data", seed);
        t->conv_weights(c, groups, dw, db, x, dy);
        same_floats(dw, want_dw, weights, t->name, "conv_weights", seed);
        same_floats(db, want_db, c->filters, t->name, "conv_weights' bias", seed);
        check_guard(y, y_size * 4);
        check_guard(dx, dx_size * 4);
        check_guard(dw, weights * 4);
        check_guard(db, c->filters * 4);
        check_guard(scratch, iso_conv_scratch(c));
    }
    void *all[] = {x, w, bias, dy, y, dx, dw, db, want_y, want_dx, want_dw, want_db, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void check_pooled(const iso_conv *c, uint32_t groups, uint64_t seed)
{
    uint64_t state = seed;
    size_t weights = (size_t)c->filters * c->channels * c->kernel_rows * c->kernel_columns, y_size = groups * c->y_group;
    size_t dx_size = groups * c->dx_group;
    float *x = bordered(c, groups, &state), *w = filled(weights, &state), *bias = filled(c->filters, &state);
    float *dy = filled(y_size, &state), *y = floats(y_size), *dx = floats(dx_size), *dw = floats(weights), *db = floats(c->filters);
    float *want_y = floats(y_size), *want_dx = floats(dx_size), *want_dw = floats(weights), *want_db = floats(c->filters);
    uint8_t *arg = guarded(y_size), *want_arg = guarded(y_size);
    void *scratch = guarded(iso_conv_scratch(c));
    oracle_conv_pool_forward(c, groups, want_y, want_arg, x, w, bias);
    oracle_conv_pool_data(c, groups, want_dx, dy, want_arg, w);
    oracle_conv_weights(c, groups, want_dw, want_db, x, dy, want_arg);
    EACH_TABLE(t) {
        t->conv_pool_forward(c, groups, y, arg, x, w, bias);
        same_floats(y, want_y, y_size, t->name, "conv_pool_forward", seed);
        same_bytes(arg, want_arg, y_size, t->name, "conv_pool_forward's index", seed);
        t->conv_pool_backward(c, groups, dx, dw, db, x, dy, arg, w, scratch);
        same_floats(dx, want_dx, dx_size, t->name, "conv_pool_backward's dx", seed);
        same_floats(dw, want_dw, weights, t->name, "conv_pool_backward's dw", seed);
        same_floats(db, want_db, c->filters, t->name, "conv_pool_backward's db", seed);
        memset(dw, 0xff, weights * 4);
        t->conv_pool_backward(c, groups, NULL, dw, db, x, dy, arg, w, scratch);
        same_floats(dw, want_dw, weights, t->name, "conv_pool_backward's dw without dx", seed);
        check_guard(y, y_size * 4);
        check_guard(arg, y_size);
        check_guard(dx, dx_size * 4);
        check_guard(dw, weights * 4);
        check_guard(db, c->filters * 4);
        check_guard(scratch, iso_conv_scratch(c));
    }
    void *all[] = {x, w, bias, dy, y, dx, dw, db, want_y, want_dx, want_dw, want_db, arg, want_arg, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void plain_random(void **state)
{
    (void)state;
    uint64_t seed = test_seed("plain_random");
    for (int i = 0; i < 60; i++, seed++) {
        uint64_t draw = seed;
        iso_conv c = random_conv(&draw, false);
        check_plain(&c, 1 + (uint32_t)test_random_below(&draw, 3), seed);
    }
}

static void pooled_random(void **state)
{
    (void)state;
    uint64_t seed = test_seed("pooled_random");
    for (int i = 0; i < 60; i++, seed++) {
        uint64_t draw = seed;
        iso_conv c = random_conv(&draw, true);
        check_pooled(&c, 1 + (uint32_t)test_random_below(&draw, 3), seed);
    }
}

/* Shapes that nets have: LeNet-5's, a strided first layer, many taps (more than one block), a kernel larger than a block. */
static void known_shapes(void **state)
{
    (void)state;
    iso_conv plain[] = {shape(6, 14, 16, 5, 1, 0, false), shape(3, 23, 7, 11, 4, 0, false), shape(80, 5, 13, 3, 1, 1, false),
                        shape(2, 27, 2, 27, 1, 1, false)};
    iso_conv pooled[] = {shape(1, 28, 6, 5, 1, 2, true), shape(6, 14, 16, 5, 1, 0, true), shape(80, 6, 17, 3, 1, 1, true)};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        check_plain(&plain[i], 1, 100 + i);
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++)
        check_pooled(&pooled[i], 1, 200 + i);
}

/* Equal values in a window: the first one wins; a window that is 0 or negative has no gradient. */
static void ties(void **state)
{
    (void)state;
    iso_conv c = shape(1, 2, 1, 1, 1, 0, true);
    float x[64] __attribute__((aligned(64))), w = 1.0f, bias = 0.0f, y[16];
    uint8_t arg[16];
    const float window[4][4] = {{1, 1, 1, 1}, {0, 2, 2, 1}, {-1, -1, -2, -3}, {0, 0, 0, 0}};
    const uint8_t want[4] = {0, 1, ISO_POOL_DEAD, ISO_POOL_DEAD};
    for (size_t pixel = 0; pixel < 4; pixel++)
        for (size_t lane = 0; lane < 16; lane++)
            x[pixel * 16 + lane] = window[lane % 4][pixel];
    EACH_TABLE(t) {
        t->conv_pool_forward(&c, 1, y, arg, x, &w, &bias);
        for (size_t lane = 0; lane < 16; lane++) {
            assert_int_equal(arg[lane], want[lane % 4]);
            assert_true(y[lane] == (lane % 4 == 0 ? 1.0f : lane % 4 == 1 ? 2.0f : 0.0f));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_random), cmocka_unit_test(pooled_random),
                                       cmocka_unit_test(known_shapes), cmocka_unit_test(ties)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

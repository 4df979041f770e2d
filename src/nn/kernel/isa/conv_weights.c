/* SPDX-License-Identifier: Apache-2.0
 * Weight gradient of a convolution: tiles of M filters x 4 taps, both operands registers of sample lanes, k = output pixels.
 * The 16 lanes of a sum are added once, at the end.
 */
#include "nn/kernel/isa/conv_tile.h"
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/transpose.h"

typedef struct weights_sum {
    const float *dy;             /* first filter's first pixel of the first group, lane part included */
    size_t dy_plane, dy_group;
    const float *x[CONV_PIXELS]; /* where each of the four taps meets the first output pixel */
    size_t x_step, x_row, x_group; /* between output columns, rows, and lane groups */
    uint32_t groups, rows, columns;
    float *to;                   /* [M][4][16], lane part included */
} weights_sum;

#define ISO_W_START(t, m) vf c##m##_##t = v_zero();
#define ISO_W_FMA(t, m) c##m##_##t = v_fma(row##m, col##t, c##m##_##t);
#define ISO_W_STORE(t, m) v_store(s->to + ((m) * CONV_PIXELS + (t)) * 16, c##m##_##t);
#define ISO_W_POINTER(t, x_) const float *x##t = s->x[t] + start;
#define ISO_W_LOAD(t, x_) vf col##t = v_load(x##t); x##t += step;
#define ISO_W_ROW_START(m, x_) ISO_COLUMNS_4(ISO_W_START, m)
#define ISO_W_ROW_FMA(m, x_) vf row##m = v_load(dy + (m) * plane); ISO_COLUMNS_4(ISO_W_FMA, m)
#define ISO_W_ROW_STORE(m, x_) ISO_COLUMNS_4(ISO_W_STORE, m)

#define ISO_DEFINE_WEIGHTS(M) \
    static void weights_tile_##M(const weights_sum *s) \
    { \
        const size_t plane = s->dy_plane, step = s->x_step; \
        ISO_ROWS_##M(ISO_W_ROW_START, ~) \
        for (uint32_t g = 0; g < s->groups; g++) { \
            const float *dy = s->dy + g * s->dy_group; \
            for (uint32_t row = 0; row < s->rows; row++) { \
                const size_t start = g * s->x_group + row * s->x_row; \
                ISO_COLUMNS_4(ISO_W_POINTER, ~) \
                for (uint32_t column = s->columns; column != 0; column--) { \
                    ISO_COLUMNS_4(ISO_W_LOAD, ~) \
                    ISO_ROWS_##M(ISO_W_ROW_FMA, ~) \
                    dy += 16; \
                } \
            } \
        } \
        ISO_ROWS_##M(ISO_W_ROW_STORE, ~) \
    }

ISO_DEFINE_WEIGHTS(1)
ISO_DEFINE_WEIGHTS(2)
ISO_DEFINE_WEIGHTS(3)
#if CONV_ROWS == 6
ISO_DEFINE_WEIGHTS(4)
ISO_DEFINE_WEIGHTS(5)
ISO_DEFINE_WEIGHTS(6)
static void (*const tiles[])(const weights_sum *) = {weights_tile_1, weights_tile_2, weights_tile_3,
                                                     weights_tile_4, weights_tile_5, weights_tile_6};
#else
static void (*const tiles[])(const weights_sum *) = {weights_tile_1, weights_tile_2, weights_tile_3};
#endif

static void bias_gradient(const iso_conv *c, uint32_t groups, float *db, const float *dy)
{
    size_t plane = (size_t)c->out_rows * c->out_columns * 16;
    for (uint32_t f = 0; f < c->filters; f++) {
        float sums[16];
        for (size_t part = 0; part < 16; part += VL) {
            vf chain = v_zero();
            for (uint32_t g = 0; g < groups; g++) {
                const float *d = dy + g * c->y_group + f * plane + part;
                for (size_t i = 0; i < plane; i += 16)
                    chain = v_add(chain, v_load(d + i));
            }
            v_store(sums + part, chain);
        }
        db[f] = tree16(sums);
    }
}

void ISO_K(conv_weights)(const iso_conv *c, uint32_t groups, float *dw, float *db, const float *x, const float *dy)
{
    size_t area = (size_t)c->kernel_rows * c->kernel_columns, taps = c->channels * area;
    size_t x_row = (c->columns + 2 * (size_t)c->pad_columns) * 16, x_plane = (c->rows + 2 * (size_t)c->pad_rows) * x_row;
    float sums[2 * 256] __attribute__((aligned(64))), total[32];
    weights_sum s = {.dy_plane = (size_t)c->out_rows * c->out_columns * 16, .dy_group = c->y_group, .x_step = c->stride * 16,
                     .x_row = c->stride * x_row, .x_group = c->x_group, .groups = groups, .rows = c->out_rows,
                     .columns = c->out_columns};
    memset(sums, 0, sizeof sums);
    for (uint32_t filter = 0, rows; filter < c->filters; filter += rows) {
        rows = conv_rows_at(c->filters, filter);
        for (size_t tap = 0; tap < taps; tap += CONV_PIXELS) {
            for (size_t part = 0; part < 16; part += VL) {
                for (size_t t = 0; t < CONV_PIXELS; t++) {
                    size_t k = tap + t < taps ? tap + t : taps - 1;
                    s.x[t] = x + k / area * x_plane + k % area / c->kernel_columns * x_row + k % c->kernel_columns * 16 + part;
                }
                s.dy = dy + filter * s.dy_plane + part;
                s.to = sums + part;
                tiles[rows - 1](&s);
            }
            tree16x16(total, sums);
            if (rows * CONV_PIXELS > 16)
                tree16x16(total + 16, sums + 256);
            for (size_t m = 0; m < rows; m++)
                for (size_t t = 0; t < CONV_PIXELS && tap + t < taps; t++)
                    dw[(filter + m) * taps + tap + t] = total[m * CONV_PIXELS + t];
        }
    }
    bias_gradient(c, groups, db, dy);
}

/* SPDX-License-Identifier: Apache-2.0
 * The kernels once more, as simple as they can be: one value at a time, each sum in the order that kernel.h states. What the
 * fast kernels must equal bit for bit. Slow on purpose; nothing here is shared with them.
 */
#ifndef ISO_TEST_KERNEL_ORACLE_H
#define ISO_TEST_KERNEL_ORACLE_H

#include <math.h>
#include <string.h>

#include "nn/kernel/kernel.h"

static inline float oracle_tree16(const float *lane)
{
    float s[16];
    memcpy(s, lane, sizeof s);
    for (int half = 8; half >= 1; half /= 2)
        for (int i = 0; i < half; i++)
            s[i] = s[i] + s[i + half];
    return s[0];
}

static inline float oracle_flush(float x) { return fabsf(x) < 0x1p-60f ? 0.0f : x; }

static inline float oracle_relu(float x) { return 0.0f > x ? 0.0f : x; }

/* Bordered x of one group at channel, row, column (border included), lane. */
static inline size_t oracle_x(const iso_conv *c, uint32_t g, size_t channel, size_t row, size_t column, size_t lane)
{
    size_t height = c->rows + 2 * (size_t)c->pad_rows, width = c->columns + 2 * (size_t)c->pad_columns;
    return g * c->x_group + ((channel * height + row) * width + column) * 16 + lane;
}

static inline float oracle_conv_at(const iso_conv *c, uint32_t g, const float *x, const float *w, const float *bias, size_t filter,
                                   size_t row, size_t column, size_t lane)
{
    float s = bias[filter];
    w += filter * c->channels * c->kernel_rows * c->kernel_columns;
    for (size_t ch = 0; ch < c->channels; ch++)
        for (size_t r = 0; r < c->kernel_rows; r++)
            for (size_t k = 0; k < c->kernel_columns; k++)
                s = fmaf(*w++, x[oracle_x(c, g, ch, row * c->stride + r, column * c->stride + k, lane)], s);
    return s;
}

static inline void oracle_conv_forward(const iso_conv *c, uint32_t groups, float *y, const float *x, const float *w,
                                       const float *bias, iso_act act)
{
    for (uint32_t g = 0; g < groups; g++)
        for (size_t f = 0; f < c->filters; f++)
            for (size_t row = 0; row < c->out_rows; row++)
                for (size_t column = 0; column < c->out_columns; column++)
                    for (size_t lane = 0; lane < 16; lane++) {
                        float v = oracle_conv_at(c, g, x, w, bias, f, row, column, lane);
                        y[g * c->y_group + ((f * c->out_rows + row) * c->out_columns + column) * 16 + lane] =
                            act == ISO_ACT_RELU ? oracle_relu(v) : v;
                    }
}

static inline void oracle_conv_pool_forward(const iso_conv *c, uint32_t groups, float *y, uint8_t *arg, const float *x,
                                            const float *w, const float *bias)
{
    size_t rows = c->out_rows / 2, columns = c->out_columns / 2;
    for (uint32_t g = 0; g < groups; g++)
        for (size_t f = 0; f < c->filters; f++)
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < columns; j++)
                    for (size_t lane = 0; lane < 16; lane++) {
                        float best = 0;
                        uint8_t where = 0;
                        for (uint8_t k = 0; k < 4; k++) {
                            float v = oracle_conv_at(c, g, x, w, bias, f, 2 * i + k / 2, 2 * j + k % 2, lane);
                            if (k == 0 || v > best) {
                                best = v;
                                where = k;
                            }
                        }
                        size_t at = g * c->y_group + ((f * rows + i) * columns + j) * 16 + lane;
                        y[at] = oracle_relu(best);
                        arg[at] = best > 0 ? where : ISO_POOL_DEAD;
                    }
}

static inline void oracle_conv_data(const iso_conv *c, uint32_t groups, float *dx, const float *dy, const float *w)
{
    for (uint32_t g = 0; g < groups; g++)
        for (size_t ch = 0; ch < c->channels; ch++)
            for (size_t row = 0; row < c->rows; row++)
                for (size_t column = 0; column < c->columns; column++)
                    for (size_t lane = 0; lane < 16; lane++) {
                        float s = 0;
                        for (size_t f = 0; f < c->filters; f++)
                            for (size_t r = 0; r < c->kernel_rows; r++)
                                for (size_t k = 0; k < c->kernel_columns; k++) {
                                    size_t a = row + c->pad_rows - r, b = column + c->pad_columns - k;
                                    if (row + c->pad_rows < r || column + c->pad_columns < k || a % c->stride || b % c->stride ||
                                        a / c->stride >= c->out_rows || b / c->stride >= c->out_columns)
                                        continue;
                                    size_t at = ((f * c->out_rows + a / c->stride) * c->out_columns + b / c->stride) * 16;
                                    s = fmaf(w[((f * c->channels + ch) * c->kernel_rows + r) * c->kernel_columns + k],
                                             dy[g * c->y_group + at + lane], s);
                                }
                        dx[g * c->dx_group + ((ch * c->rows + row) * c->columns + column) * 16 + lane] = s;
                    }
}

/* dy of full size (arg NULL) or pooled. One weight's chains, then their tree; filter's bias when tap is NULL. */
static inline float oracle_weight(const iso_conv *c, uint32_t groups, const float *x, const float *dy, const uint8_t *arg,
                                  size_t filter, const size_t *tap)
{
    float lanes[16];
    size_t rows = arg ? c->out_rows / 2 : c->out_rows, columns = arg ? c->out_columns / 2 : c->out_columns;
    for (size_t lane = 0; lane < 16; lane++) {
        float s = 0;
        for (uint32_t g = 0; g < groups; g++)
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < columns; j++) {
                    size_t at = g * c->y_group + ((filter * rows + i) * columns + j) * 16 + lane, row = i, column = j;
                    float d = dy[at];
                    if (arg) {
                        d = arg[at] == ISO_POOL_DEAD ? 0 : oracle_flush(d);
                        row = 2 * i + (arg[at] >> 1 & 1);
                        column = 2 * j + (arg[at] & 1);
                    }
                    if (tap == NULL)
                        s = s + d;
                    else if (d != 0)
                        s = fmaf(d, x[oracle_x(c, g, tap[0], row * c->stride + tap[1], column * c->stride + tap[2], lane)], s);
                }
        lanes[lane] = s;
    }
    return oracle_tree16(lanes);
}

static inline void oracle_conv_weights(const iso_conv *c, uint32_t groups, float *dw, float *db, const float *x, const float *dy,
                                       const uint8_t *arg)
{
    size_t tap[3];
    for (size_t f = 0; f < c->filters; f++) {
        for (tap[0] = 0; tap[0] < c->channels; tap[0]++)
            for (tap[1] = 0; tap[1] < c->kernel_rows; tap[1]++)
                for (tap[2] = 0; tap[2] < c->kernel_columns; tap[2]++)
                    *dw++ = oracle_weight(c, groups, x, dy, arg, f, tap);
        db[f] = oracle_weight(c, groups, x, dy, arg, f, NULL);
    }
}

/* In the stated order: window by window, filters of the upper row, then of the lower row. */
static inline void oracle_conv_pool_data(const iso_conv *c, uint32_t groups, float *dx, const float *dy, const uint8_t *arg,
                                         const float *w)
{
    size_t rows = c->out_rows / 2, columns = c->out_columns / 2;
    memset(dx, 0, groups * c->dx_group * sizeof *dx);
    for (uint32_t g = 0; g < groups; g++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                for (unsigned half = 0; half < 2; half++)
                    for (size_t f = 0; f < c->filters; f++)
                        for (size_t lane = 0; lane < 16; lane++) {
                            size_t at = g * c->y_group + ((f * rows + i) * columns + j) * 16 + lane;
                            float d = oracle_flush(dy[at]);
                            if (arg[at] == ISO_POOL_DEAD || arg[at] / 2 != half || d == 0)
                                continue;
                            for (size_t ch = 0; ch < c->channels; ch++)
                                for (size_t r = 0; r < c->kernel_rows; r++)
                                    for (size_t k = 0; k < c->kernel_columns; k++) {
                                        size_t y = (2 * i + half) * c->stride + r - c->pad_rows;
                                        size_t x = (2 * j + (arg[at] & 1)) * c->stride + k - c->pad_columns;
                                        if (y >= c->rows || x >= c->columns)
                                            continue;
                                        float *to = dx + g * c->dx_group + ((ch * c->rows + y) * c->columns + x) * 16 + lane;
                                        *to = fmaf(d, w[((f * c->channels + ch) * c->kernel_rows + r) * c->kernel_columns + k], *to);
                                    }
                        }
}

static inline size_t oracle_panel(const iso_dense *d, size_t in, size_t out) { return (out / 16 * d->in + in) * 16 + out % 16; }

static inline void oracle_dense_forward(const iso_dense *d, uint32_t n, float *y, const float *x, const float *w, const float *bias,
                                        iso_act act)
{
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < iso_round16(d->out); o++) {
            float s = bias[o];
            for (size_t k = 0; k < d->in; k++)
                s = fmaf(x[i * d->ldx + k], w[oracle_panel(d, k, o)], s);
            y[i * d->ldy + o] = act == ISO_ACT_RELU ? oracle_relu(s) : s;
        }
}

static inline void oracle_dense_data(const iso_dense *d, uint32_t groups, float *dx, const float *dy, const float *w)
{
    for (size_t g = 0; g < groups; g++)
        for (size_t k = 0; k < d->in; k++)
            for (size_t lane = 0; lane < 16; lane++) {
                float s = 0;
                for (size_t o = 0; o < d->out; o++)
                    s = fmaf(w[oracle_panel(d, k, o)], dy[(g * iso_round16(d->out) + o) * 16 + lane], s);
                dx[(g * d->in + k) * 16 + lane] = s;
            }
}

/* On the grid; *good turns false for a value beyond the limit, which counts 0. */
static inline int64_t oracle_grid(float g, float limit, bool *good)
{
    if (!(fabsf(g) < limit)) {
        *good = false;
        return 0;
    }
    return (int64_t)rint((double)g * 0x1p40);
}

static inline int64_t oracle_dense_weight(const iso_dense *d, uint32_t n, const iso_dense_unit *u, size_t in, size_t out,
                                          float limit, bool *good)
{
    float s = 0;
    for (size_t i = 0; i < n; i++)
        s = fmaf(u->x[i * d->ldx + in], u->dy[i * d->ldy + out], s);
    return oracle_grid(s, limit, good);
}

static inline int64_t oracle_dense_bias(const iso_dense *d, uint32_t n, const iso_dense_unit *u, size_t out, float limit, bool *good)
{
    float s = 0;
    for (size_t i = 0; i < n; i++)
        s = s + u->dy[i * d->ldy + out];
    return oracle_grid(s, limit, good);
}

/* One value's step; s0, s1 may be NULL where the kind has none. */
static inline bool oracle_step(const iso_step *s, float *w, float *s0, float *s1, int64_t sum)
{
    bool good = fabs((double)sum) < 0x1p62;
    float g = (float)((double)sum * s->scale), old = *w;
    if (s->decay != 0)
        g = fmaf(s->decay, old, g);
    if (s->kind == ISO_ADAM) {
        *s0 = oracle_flush(fmaf(s->beta1, *s0, s->one_minus_beta1 * g));
        float v = fmaf(s->beta2, *s1, s->one_minus_beta2 * g * g);
        *s1 = fabsf(v) < 0x1p-100f ? 0 : v;
        *w = fmaf(-s->rate, *s0 / (sqrtf(*s1 * s->inv_correction2) + s->epsilon), old);
    } else if (s->momentum == 0) {
        *w = fmaf(-s->rate, g, old);
    } else {
        *s0 = oracle_flush(fmaf(s->momentum, *s0, g));
        *w = fmaf(-s->rate, s->kind == ISO_NESTEROV ? fmaf(s->momentum, *s0, g) : *s0, old);
    }
    if (fabsf(*w) < 0x1p-100f)
        *w = 0;
    return good && isfinite(*w);
}

#endif

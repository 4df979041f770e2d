/* SPDX-License-Identifier: Apache-2.0
 * Register tiles of the backward pooled convolution, on samples as rows [pixel][channel]: a list of values that are not zero, each
 * with its place, is added to sums that stay in registers.
 *   patch  R runs of S C floats of x, times the list's values, onto R rows of sums (weight gradients)
 *   frame  rows of weights, times the list's values, onto a window's (R + 1) x (S + 1) C floats of dx
 */
#ifndef ISO_NN_KERNEL_CONV_PATCH_H
#define ISO_NN_KERNEL_CONV_PATCH_H

#include "nn/kernel/isa/repeat.h"
#include "nn/kernel/kernel.h"
#include "nn/kernel/simd.h"

typedef struct patch_sum {
    size_t n;
    const float *value;
    const int32_t *at;
    const float *x;
    size_t x_row;
    float *sums;    /* rows of to_row floats, read unless fresh, and written */
    size_t to_row;
    bool fresh;
} patch_sum;

#define ISO_P_START(v, m) vf c##m##_##v = s->fresh ? v_zero() : v_load(s->sums + (m) * s->to_row + (v) * VL);
#define ISO_P_FMA(v, m) c##m##_##v = v_fma(value, v_load(x + (m) * x_row + (v) * VL), c##m##_##v);
#define ISO_P_STORE(v, m) v_store(s->sums + (m) * s->to_row + (v) * VL, c##m##_##v);
#define ISO_P_ROW_START(m, N) ISO_COLUMNS_##N(ISO_P_START, m)
#define ISO_P_ROW_FMA(m, N) ISO_COLUMNS_##N(ISO_P_FMA, m)
#define ISO_P_ROW_STORE(m, N) ISO_COLUMNS_##N(ISO_P_STORE, m)

#define ISO_DEFINE_PATCH(M, N) \
    static void patch_##M##x##N(const patch_sum *s) \
    { \
        const size_t n = s->n, x_row = s->x_row; \
        ISO_ROWS_##M(ISO_P_ROW_START, N) \
        for (size_t i = 0; i < n; i++) { \
            const vf value = v_set(s->value[i]); \
            const float *x = s->x + s->at[i]; \
            ISO_ROWS_##M(ISO_P_ROW_FMA, N) \
        } \
        ISO_ROWS_##M(ISO_P_ROW_STORE, N) \
    }
ISO_DEFINE_PATCH(1, 1)
ISO_DEFINE_PATCH(2, 1)
ISO_DEFINE_PATCH(3, 1)
ISO_DEFINE_PATCH(4, 1)
ISO_DEFINE_PATCH(5, 1)
ISO_DEFINE_PATCH(1, 2)
ISO_DEFINE_PATCH(2, 2)
ISO_DEFINE_PATCH(3, 2)
ISO_DEFINE_PATCH(4, 2)
ISO_DEFINE_PATCH(5, 2)
static void (*const patches[2][5])(const patch_sum *) = {{patch_1x1, patch_2x1, patch_3x1, patch_4x1, patch_5x1},
                                                         {patch_1x2, patch_2x2, patch_3x2, patch_4x2, patch_5x2}};

#if defined ISO_ISA_avx512
/* Runs of at most 8 floats: half registers halve the cache lines touched. */
#define ISO_H_START(m, x_) __m256 c##m = s->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(s->sums + (m) * s->to_row);
#define ISO_H_FMA(m, x_) c##m = _mm256_fmadd_ps(value, _mm256_loadu_ps(x + (m) * x_row), c##m);
#define ISO_H_STORE(m, x_) _mm256_storeu_ps(s->sums + (m) * s->to_row, c##m);
#define ISO_DEFINE_HALF(M) \
    static void half_##M(const patch_sum *s) \
    { \
        const size_t n = s->n, x_row = s->x_row; \
        ISO_ROWS_##M(ISO_H_START, ~) \
        for (size_t i = 0; i < n; i++) { \
            const __m256 value = _mm256_set1_ps(s->value[i]); \
            const float *x = s->x + s->at[i]; \
            ISO_ROWS_##M(ISO_H_FMA, ~) \
        } \
        ISO_ROWS_##M(ISO_H_STORE, ~) \
    }
ISO_DEFINE_HALF(1)
ISO_DEFINE_HALF(2)
ISO_DEFINE_HALF(3)
ISO_DEFINE_HALF(4)
ISO_DEFINE_HALF(5)
static void (*const halves[5])(const patch_sum *) = {half_1, half_2, half_3, half_4, half_5};
#endif

/* A whole list: kernel rows by five, their floats by two registers. p->x is the sample, p->sums [R][p->to_row]. */
ISO_INLINE void add_list(const iso_conv *c, patch_sum p)
{
    const float *x = p.x;
    float *sums = p.sums;
    size_t run = (size_t)c->kernel_columns * c->channels, registers = (run + VL - 1) / VL;
    for (uint32_t r = 0; r < c->kernel_rows; r += 5) {
        uint32_t rows = c->kernel_rows - r < 5 ? c->kernel_rows - r : 5;
        for (size_t v = 0; v < registers; v += 2) {
            p.x = x + r * p.x_row + v * VL;
            p.sums = sums + r * p.to_row + v * VL;
#if defined ISO_ISA_avx512
            if (run <= 8) {
                halves[rows - 1](&p);
                continue;
            }
#endif
            patches[registers - v >= 2][rows - 1](&p);
        }
    }
}

/* frames [2][K][R][frame] from w [K][C][R][S]: kernel rows as [s][c], shifted by the window's left or right column. */
ISO_INLINE void make_frames(const iso_conv *c, float *frames, size_t frame, const float *w)
{
    size_t rows = (size_t)c->filters * c->kernel_rows, shift = (size_t)c->stride * c->channels;
    memset(frames, 0, 2 * rows * frame * sizeof *frames);
    for (uint32_t f = 0; f < c->filters; f++) {
        for (uint32_t channel = 0; channel < c->channels; channel++) {
            for (uint32_t r = 0; r < c->kernel_rows; r++) {
                float *to = frames + (f * (size_t)c->kernel_rows + r) * frame + channel;
                for (uint32_t k = 0; k < c->kernel_columns; k++, w++)
                    to[k * (size_t)c->channels] = *w;
            }
        }
    }
    for (size_t row = 0; row < rows; row++)
        memcpy(frames + (rows + row) * frame + shift, frames + row * frame, (size_t)c->kernel_columns * c->channels * sizeof *w);
}

typedef struct frame_sum {
    const float *value[2];   /* the window's upper and lower row */
    const int32_t *at[2];    /* places in the frames */
    uint32_t n[2];
    const float *frames;
    size_t w_row;
    float *dx;
    size_t dx_row;
} frame_sum;

#define ISO_NEXT_0 1
#define ISO_NEXT_1 2
#define ISO_NEXT_2 3
#define ISO_NEXT_3 4
#define ISO_NEXT_4 5
#define ISO_F_NAME_(m, v) c##m##_##v
#define ISO_F_NAME(m, v) ISO_F_NAME_(m, v)
#define ISO_F_START(v, m) vf c##m##_##v = v_load(dx + (m) * dx_row + (v) * VL);
#define ISO_F_UPPER(v, m) c##m##_##v = v_fma(value, v_load(w + (m) * w_row + (v) * VL), c##m##_##v);
#define ISO_F_LOWER(v, m) \
    ISO_F_NAME(ISO_NEXT_##m, v) = v_fma(value, v_load(w + (m) * w_row + (v) * VL), ISO_F_NAME(ISO_NEXT_##m, v));
#define ISO_F_STORE(v, m) v_store(dx + (m) * dx_row + (v) * VL, c##m##_##v);
#define ISO_F_ROW_START(m, N) ISO_COLUMNS_##N(ISO_F_START, m)
#define ISO_F_ROW_UPPER(m, N) ISO_COLUMNS_##N(ISO_F_UPPER, m)
#define ISO_F_ROW_LOWER(m, N) ISO_COLUMNS_##N(ISO_F_LOWER, m)
#define ISO_F_ROW_STORE(m, N) ISO_COLUMNS_##N(ISO_F_STORE, m)

/* R kernel rows, R1 = R + 1 rows of the frame, N registers of it. */
#define ISO_DEFINE_FRAME(R, R1, N) \
    static void frame_##R##x##N(const frame_sum *s, size_t first) \
    { \
        float *dx = s->dx + first; \
        const size_t dx_row = s->dx_row, w_row = s->w_row; \
        ISO_ROWS_##R1(ISO_F_ROW_START, N) \
        for (uint32_t i = 0; i < s->n[0]; i++) { \
            const vf value = v_set(s->value[0][i]); \
            const float *w = s->frames + s->at[0][i] + first; \
            ISO_ROWS_##R(ISO_F_ROW_UPPER, N) \
        } \
        for (uint32_t i = 0; i < s->n[1]; i++) { \
            const vf value = v_set(s->value[1][i]); \
            const float *w = s->frames + s->at[1][i] + first; \
            ISO_ROWS_##R(ISO_F_ROW_LOWER, N) \
        } \
        ISO_ROWS_##R1(ISO_F_ROW_STORE, N) \
    }
ISO_DEFINE_FRAME(3, 4, 1)
ISO_DEFINE_FRAME(3, 4, 2)
ISO_DEFINE_FRAME(5, 6, 1)
ISO_DEFINE_FRAME(5, 6, 2)
#if defined ISO_ISA_avx2
#define FRAME_REGISTERS 2
static void (*const frames_3[])(const frame_sum *, size_t) = {frame_3x1, frame_3x2};
static void (*const frames_5[])(const frame_sum *, size_t) = {frame_5x1, frame_5x2};
#else
#define FRAME_REGISTERS 3
ISO_DEFINE_FRAME(3, 4, 3)
ISO_DEFINE_FRAME(5, 6, 3)
static void (*const frames_3[])(const frame_sum *, size_t) = {frame_3x1, frame_3x2, frame_3x3};
static void (*const frames_5[])(const frame_sum *, size_t) = {frame_5x1, frame_5x2, frame_5x3};
#endif

/* Any other kernel height or stride: the same sums in memory. */
static void scatter(const frame_sum *s, uint32_t kernel_rows, size_t frame, size_t down)
{
    for (size_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < s->n[half]; i++) {
            const vf value = v_set(s->value[half][i]);
            const float *w = s->frames + s->at[half][i];
            for (uint32_t r = 0; r < kernel_rows; r++) {
                float *dx = s->dx + half * down + r * s->dx_row;
                for (size_t v = 0; v < frame; v += VL)
                    v_store(dx + v, v_fma(value, v_load(w + r * s->w_row + v), v_load(dx + v)));
            }
        }
    }
}

/* One window of one sample; frames are `frame` floats a kernel row. */
ISO_INLINE void add_frame(const iso_conv *c, const frame_sum *s, size_t frame)
{
    if (c->stride != 1 || (c->kernel_rows != 3 && c->kernel_rows != 5)) {
        scatter(s, c->kernel_rows, frame, c->stride * s->dx_row);
        return;
    }
    void (*const *frames)(const frame_sum *, size_t) = c->kernel_rows == 3 ? frames_3 : frames_5;
    size_t total = ((c->kernel_columns + (size_t)c->stride) * c->channels + VL - 1) / VL;
    for (size_t v = 0; v < total; v += FRAME_REGISTERS) {
        size_t n = total - v < FRAME_REGISTERS ? total - v : FRAME_REGISTERS;
        frames[n - 1](s, v * VL);
    }
}

#endif

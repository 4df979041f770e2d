/* SPDX-License-Identifier: Apache-2.0
 * Kernels of steps of few samples: the vector lane is an output (a filter, a channel, a dense output), not a sample.
 *
 * Every value is the same chain of fused multiply-adds in the same order as in kernel.h, so the bits are those of a unit whose other
 * lanes hold no sample: a chain over samples ends after the last one, tree16 adds the zeros of the lanes that are not there.
 *
 * Layouts. n samples, iso_narrow_row(values) floats apart; what lies between is of no meaning.
 *   pixels  [H][W][C], with a border [H + 2 pad][W + 2 pad][C]: channels side by side
 *   row     values in the order of a dense layer's inputs; a dense dy has zeros up to the next multiple of 16
 * Thread rule: all functions are pure on their arguments. None allocates.
 */
#ifndef ISO_NN_KERNEL_NARROW_H
#define ISO_NN_KERNEL_NARROW_H

#include "nn/kernel/kernel.h"

/* Floats between samples of so many values: a register may be loaded at the last value. */
static inline size_t iso_narrow_row(size_t values) { return iso_round16(values) + 16; }

/* Values of a convolution's input with its border, and of its output (of 2x2 pooling behind it). */
static inline size_t iso_narrow_conv_in(const iso_conv *c)
{
    return (c->rows + 2 * (size_t)c->pad_rows) * (c->columns + 2 * (size_t)c->pad_columns) * c->channels;
}
static inline size_t iso_narrow_conv_out(const iso_conv *c, bool pooled)
{
    return (size_t)(c->out_rows >> pooled) * (c->out_columns >> pooled) * c->filters;
}
/* Entries of arg of one sample: [P/2][Q/2][round16(K)]. */
static inline size_t iso_narrow_conv_arg(const iso_conv *c)
{
    return (size_t)(c->out_rows / 2) * (c->out_columns / 2) * iso_round16(c->filters);
}
/* Of max_pool: [P][Q][round16(C)]. */
static inline size_t iso_narrow_pool_arg(const iso_pool *p)
{
    return (size_t)p->out_rows * p->out_columns * iso_round16(p->channels);
}

/* Bytes of scratch (aligned to 64) of the convolutions below for n samples. */
size_t iso_narrow_conv_scratch(const iso_conv *c, uint32_t n);

struct iso_narrow_kernels {
    /* One sample of [C][H][W] values into the inside of bordered pixels: fma(value, scale[c], shift[c]). */
    void (*load_u8)(float *x, const iso_conv *c, const uint8_t *sample, const float *scale, const float *shift);
    void (*load_f32)(float *x, const iso_conv *c, const float *sample, const float *scale, const float *shift);

    /* y [P][Q][K] from bordered x; with arg: ReLU and 2x2 max pooling behind it, y [P/2][Q/2][K]. */
    void (*conv_forward)(const iso_conv *c, uint32_t n, float *y, uint8_t *arg, const float *x, const float *w, const float *bias,
                         bool relu, void *scratch);
    /* dw [K][C][R][S], db [K] and dx [H][W][C] (NULL: not wanted) from dy [P][Q][K]. */
    void (*conv_backward)(const iso_conv *c, uint32_t n, float *dx, float *dw, float *db, const float *x, const float *dy,
                          const float *w, void *scratch);
    /* From dy of the pooled pixels, flushed first, and arg. */
    void (*conv_pool_backward)(const iso_conv *c, uint32_t n, float *dx, float *dw, float *db, const float *x, const float *dy,
                               const uint8_t *arg, const float *w, void *scratch);

    /* One sample of a pooling; as kernel.h's. */
    void (*max_pool_forward)(const iso_pool *p, float *y, uint16_t *arg, const float *x);
    void (*max_pool_backward)(const iso_pool *p, float *dx, const float *dy, const uint16_t *arg);
    void (*average_pool_forward)(const iso_pool *p, float *y, const float *x, float factor);
    void (*average_pool_backward)(const iso_pool *p, float *dx, const float *dy, float factor);
    /* y = fma(x, a[c], b[c]); dx = dy a[c], flushed; da, db [n][round16(C)] of each sample. a, b have room for round16(C). */
    void (*scale_forward)(float *y, const float *x, const float *a, const float *b, uint32_t n, uint32_t channels, uint32_t pixels);
    void (*scale_backward)(float *dx, float *da, float *db, const float *dy, const float *x, const float *a, uint32_t n,
                           uint32_t channels, uint32_t pixels);
    /* n arrays of count values, a multiple of 16, `step` floats apart: the first becomes tree16 over all, others are spoilt. */
    void (*tree)(float *sums, uint32_t n, size_t step, size_t count);

    /* As kernel.h's; ldx, ldy of d are not looked at. The columns of y from out to round16(out) become the padding of the bias, 0. */
    void (*dense_forward)(const iso_dense *d, uint32_t n, float *y, const float *x, const float *w, const float *bias, iso_act act);
    /* dx (NULL: not wanted) from the weights as they are, and their step from n samples' gradient; w and state (two, NULL where the
     * optimiser has none) at the layer's first weight. False as dense_update. */
    bool (*dense_backward)(const iso_dense *d, const iso_step *s, uint32_t n, float *dx, const float *x, const float *dy, float *w,
                           float *const *state);
    /* The step of `count` values, a multiple of 16, from their gradient. False when one does not fit or a new weight is not finite. */
    bool (*step)(const iso_step *s, size_t count, float *w, float *const *state, const float *g);
};

#endif

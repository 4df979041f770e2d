/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of networks: one table of functions for each instruction set, compiled from one source (isa/).
 *
 * Every table gives the same bits. That holds because the order of every sum is part of the contract, not of the speed:
 *
 *   fma chain   s = start; for k ascending: s = fma(a[k], b[k], s). k is never split, the vector lanes are never k.
 *   conv forward       start = bias[filter]; k = (c, r, s) ascending, the zeros of the border included.
 *   conv data          start = 0; k = (filter, r, s) ascending; terms outside of dy are left out or added as exact zeros.
 *   conv weights       one chain a sample lane from 0 over (lane group, output pixel row by row), then tree16 over the lanes.
 *   conv bias          like conv weights with x = 1: plain additions.
 *   pooled conv data   start = 0; k = (pooled pixel row by row, filters whose maximum lies in the window's upper row ascending,
 *                      then those of the lower row).
 *   pooled conv weights, bias  as conv weights, over (lane group, pooled pixel row by row).
 *   dense forward      start = bias[out]; k = inputs ascending.
 *   dense data         start = 0; k = outputs ascending.
 *   dense weights      start = 0; k = samples of the unit ascending; bias: plain additions in that order.
 *   scale gradient     as conv weights: lanes are samples, tree16 at the end.
 *   tree16             a[i] += a[i+8] for i < 8, a[i] += a[i+4] for i < 4, a[i] += a[i+2] for i < 2, a[0] + a[1].
 *   max                the first of equal values in row order wins: m = x > m ? x : m, so a NaN stays where it comes first.
 *   relu               0 > x ? 0 : x, so a NaN stays.
 *   flush              |x| < 2^-60 becomes +0: done to every gradient of an activation, so that denormals cannot arise.
 *   grid               rint(g * 2^40), ties to even, summed as int64.
 * Terms with a factor that is exactly 0 may be left out: that can change nothing but the sign of a zero, and the sign of a zero
 * never reaches the grid. (With infinities it could; those are caught by the loss and by the limits.)
 *
 * Layouts. All arrays are aligned to 64 bytes.
 *   lanes  [G][...][16]   the sample is the innermost index; sample n of a unit is lane n % 16 of group n / 16
 *   rows   [N][ld]        a sample is a row of ld floats, ld a multiple of 16; what lies beyond its values is 0
 *   panels [out/16][in][16]  dense weights, out rounded up to 16; the padding is 0 and stays 0
 * Thread rule: all functions are pure on their arguments. None allocates.
 */
#ifndef ISO_NN_KERNEL_KERNEL_H
#define ISO_NN_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/nn.h"
#include "isochron/replica.h"

static inline size_t iso_round16(size_t n) { return (n + 15) & ~(size_t)15; }

/* A convolution. x [G][C][H + 2 pad_rows][W + 2 pad_columns][16] with its border of zeros, y [G][K][P][Q][16],
 * dx [G][C][H][W][16] without border. Groups of channels: one call a group, with pointers into the larger arrays and the
 * strides between lane groups set accordingly. */
typedef struct iso_conv {
    uint32_t channels, rows, columns;               /* C H W, without the border */
    uint32_t filters, kernel_rows, kernel_columns;  /* K R S; w is [K][C][R][S], bias [K] */
    uint32_t stride;
    uint32_t pad_rows, pad_columns;                 /* border on each side */
    uint32_t out_rows, out_columns;                 /* P Q of the convolution itself, before any pooling */
    size_t x_group, y_group, dx_group;              /* floats between lane groups of x, of y (pooled when pooled) and of dx */
} iso_conv;

/* Sets P, Q and contiguous strides from the fields above. pooled: y is [G][K][P/2][Q/2][16]. The kernel must fit the input. */
void iso_conv_finish(iso_conv *c, bool pooled);

/* Bytes of scratch (aligned to 64) that conv_data and conv_pool_backward of any instruction set want, for any number of groups. */
size_t iso_conv_scratch(const iso_conv *c);

/* Pooling windows without padding: x [G][C][H][W][16] -> y [G][C][P][Q][16]; R * S <= 65535. */
typedef struct iso_pool {
    uint32_t channels, rows, columns;
    uint32_t window_rows, window_columns, stride_rows, stride_columns;
    uint32_t out_rows, out_columns;
} iso_pool;

typedef enum iso_act {
    ISO_ACT_NONE, ISO_ACT_RELU, ISO_ACT_LEAKY_RELU, ISO_ACT_SIGMOID, ISO_ACT_TANH,
    ISO_ACT_LECUN_TANH  /* 1.7159 tanh(2x/3) */
} iso_act;

/* Largest value of conv_pool_forward's index: the window's maximum is not above 0 and ReLU cuts its gradient. */
#define ISO_POOL_DEAD 4u

/* Where one kept unit of a dense layer lies: what dense_gradient and dense_update read. */
typedef struct iso_dense_unit {
    const float *x;   /* rows [samples][ldx] */
    const float *dy;  /* rows [samples][ldy]; rows of absent samples are 0 */
} iso_dense_unit;

typedef struct iso_dense {
    uint32_t in, out;   /* w [round16(out)/16][in][16], bias [round16(out)] */
    size_t ldx, ldy;
} iso_dense;

/* The optimiser's step as numbers. g = (float)((double)sum * scale); scale = 2^-40 / samples.
 *   decay     g = fma(decay, w, g)                                  (decay 0: left out)
 *   SGD       momentum 0: w = fma(-rate, g, w);  else v = fma(momentum, v, g), w = fma(-rate, v, w)
 *   Nesterov  v = fma(momentum, v, g), w = fma(-rate, fma(momentum, v, g), w)
 *   Adam      m = fma(beta1, m, (1-beta1) g), s = fma(beta2, s, ((1-beta2) g) g),
 *             w = fma(-rate_m, m / (sqrt(s * inv_correction2) + epsilon), w)
 * v, m and s below 2^-60 (s: 2^-100) become 0. The numbers are made once a step by the caller, in double, then rounded. */
typedef struct iso_step {
    iso_optimizer_kind kind;
    double scale;
    float rate, momentum, decay;      /* Adam: rate is rate / (1 - beta1^t) */
    float beta1, one_minus_beta1, beta2, one_minus_beta2, inv_correction2, epsilon;
} iso_step;

/* Those of steps of few samples: nn/kernel/narrow.h. */
typedef struct iso_narrow_kernels iso_narrow_kernels;

typedef struct iso_kernels {
    const char *name;
    const iso_narrow_kernels *narrow;

    /* ---- samples in --------------------------------------------------------------------------------------------------- */
    /* n <= 16 samples of [C][H][W] values into one lane group x [C][H+2pr][W+2pc][16]: fma(value, scale[c], shift[c]);
     * lanes from n on become 0. The border is not touched. */
    void (*load_u8)(float *x, const iso_conv *c, uint32_t n, const uint8_t *const *sample, const float *scale, const float *shift);
    void (*load_f32)(float *x, const iso_conv *c, uint32_t n, const float *const *sample, const float *scale, const float *shift);
    /* n samples of `count` values into rows [n][ld], scale and shift one a value (load_row_*: of value i's own). */
    void (*load_row_u8)(float *row, uint32_t count, const uint8_t *sample, const float *scale, const float *shift);
    void (*load_row_f32)(float *row, uint32_t count, const float *sample, const float *scale, const float *shift);
    /* One lane group [count][16] <-> 16 rows [16][ld]. lanes_to_rows writes zeros from count to the next multiple of 16. */
    void (*lanes_to_rows)(float *rows, size_t ld, const float *lanes, size_t count);
    void (*rows_to_lanes)(float *lanes, const float *rows, size_t ld, size_t count);
    /* One lane group [C][H][W][16] -> the inside of [C][H+2pr][W+2pc][16]; the border is set to 0. */
    void (*add_border)(float *padded, const float *x, const iso_conv *c);

    /* ---- convolution -------------------------------------------------------------------------------------------------- */
    /* act: ISO_ACT_NONE or ISO_ACT_RELU, applied before y is stored. */
    void (*conv_forward)(const iso_conv *c, uint32_t groups, float *y, const float *x, const float *w, const float *bias,
                         iso_act act);
    /* Convolution, ReLU and 2x2 max pooling of stride 2 in one: y, arg [G][K][P/2][Q/2][16]; arg: 0..3 row by row, or
     * ISO_POOL_DEAD. An odd last row or column is left out, as pooling does. arg's group stride is y_group elements. */
    void (*conv_pool_forward)(const iso_conv *c, uint32_t groups, float *y, uint8_t *arg, const float *x, const float *w,
                              const float *bias);
    /* dx from dy [G][K][P][Q][16]. scratch: iso_conv_scratch. */
    void (*conv_data)(const iso_conv *c, uint32_t groups, float *dx, const float *dy, const float *w, void *scratch);
    /* dw [K][C][R][S] and db [K], overwritten. */
    void (*conv_weights)(const iso_conv *c, uint32_t groups, float *dw, float *db, const float *x, const float *dy);
    /* All of them from the pooled gradient dy [G][K][P/2][Q/2][16], which is flushed first, and arg. dx NULL: not wanted. */
    void (*conv_pool_backward)(const iso_conv *c, uint32_t groups, float *dx, float *dw, float *db, const float *x,
                               const float *dy, const uint8_t *arg, const float *w, void *scratch);

    /* ---- pooling ------------------------------------------------------------------------------------------------------- */
    /* arg [G][C][P][Q][16]: index in the window, row by row. backward overwrites dx; windows may overlap (added in the order
     * of the output pixels). */
    void (*max_pool_forward)(const iso_pool *p, uint32_t groups, float *y, uint16_t *arg, const float *x);
    void (*max_pool_backward)(const iso_pool *p, uint32_t groups, float *dx, const float *dy, const uint16_t *arg);
    /* y = (x0 + x1 + ...) * factor, additions in row order; dx = sum of dy * factor in the order of the output pixels.
     * factor 1 sums. */
    void (*average_pool_forward)(const iso_pool *p, uint32_t groups, float *y, const float *x, float factor);
    void (*average_pool_backward)(const iso_pool *p, uint32_t groups, float *dx, const float *dy, float factor);

    /* ---- elementwise; n is a multiple of 16, in any layout ---------------------------------------------------------------- */
    /* slope: of ISO_ACT_LEAKY_RELU (x > 0 ? x : slope x), above 0. y may be x. */
    void (*act_forward)(iso_act act, float slope, float *y, const float *x, size_t n);
    /* dx from dy and the output y, flushed. dx may be dy. */
    void (*act_backward)(iso_act act, float slope, float *dx, const float *dy, const float *y, size_t n);
    /* y = fma(x, a[c], b[c]) over [G][C][pixels][16]; dx = dy a[c], flushed; da, db [C]. */
    void (*scale_forward)(float *y, const float *x, const float *a, const float *b, uint32_t groups, uint32_t channels,
                          uint32_t pixels);
    void (*scale_backward)(float *dx, float *da, float *db, const float *dy, const float *x, const float *a, uint32_t groups,
                           uint32_t channels, uint32_t pixels);

    /* ---- dense ---------------------------------------------------------------------------------------------------------- */
    /* y rows [n][ldy] from x rows [n][ldx], n a multiple of 16; act: NONE or RELU. Columns out..round16(out) of y become the
     * padding of the bias, 0. */
    void (*dense_forward)(const iso_dense *d, uint32_t n, float *y, const float *x, const float *w, const float *bias, iso_act act);
    /* dx lanes [G][in][16] from dy lanes [G][round16(out)][16] (what lies beyond `out` is not read). Not flushed. */
    void (*dense_data)(const iso_dense *d, uint32_t groups, float *dx, const float *dy, const float *w);
    /* Adds the unit's gradient to sum_w (panels) and sum_b. False when a value is not finite or not below limit. */
    bool (*dense_gradient)(const iso_dense *d, uint32_t n, const iso_dense_unit *unit, int64_t *sum_w, int64_t *sum_b, float limit);
    /* One optimiser step on the values [begin, end) of the panels (multiples of 16), from the sums and the kept units together:
     * w, state[0..] are panels; sum[0..sum_count) are panels too, read and set to 0 (sum_count may be 0).
     * False as above, or when a new weight is not finite. */
    bool (*dense_update)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n, const iso_dense_unit *unit,
                         uint32_t units, float *w, float *const *state, int64_t *const *sum, uint32_t sum_count, float limit);
    /* The same for the bias [round16(out)]. */
    bool (*dense_update_bias)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n,
                              const iso_dense_unit *unit, uint32_t units, float *w, float *const *state, int64_t *const *sum,
                              uint32_t sum_count, float limit);

    /* ---- loss; one lane group at a time, z and dz lanes [classes][16], n <= 16 samples -------------------------------------- */
    /* Softmax cross-entropy: dz = p - onehot (0 in lanes from n on), flushed; adds losses on the grid, and right answers (first
     * maximum). False when a loss is not finite. dz NULL: not wanted. */
    bool (*cross_entropy)(uint32_t classes, uint32_t n, float *dz, const float *z, const int32_t *label, int64_t *loss,
                          uint32_t *correct);
    /* 0.5 sum (z - t)^2, t = hit at the label and miss elsewhere; dz = z - t. */
    bool (*squared_error)(uint32_t classes, uint32_t n, float *dz, const float *z, const int32_t *label, float hit, float miss,
                          int64_t *loss, uint32_t *correct);
    /* p = softmax(z), all 16 lanes. */
    void (*softmax)(uint32_t classes, float *p, const float *z);

    /* ---- grid and optimiser; n a multiple of 16 ------------------------------------------------------------------------------ */
    /* sum[i] += grid(g[i]). False when a value is not finite or |g| is not below limit (at most 2^22). */
    bool (*grid_add)(int64_t *sum, const float *g, size_t n, float limit);
    /* One step: the sums are added, set to 0, and used. False when a new weight is not finite or |sum| * 2^-40 is not below
     * 2^22. */
    bool (*update)(const iso_step *s, size_t n, float *w, float *const *state, int64_t *const *sum, uint32_t sum_count);

    /* ---- payloads (isochron/replica.h), one block of n <= 1024 values. Arrays of floats and sums have room for round16(n); what
     * lies beyond n is 0 and stays 0. Bytes are exactly those of n values. -------------------------------------------------- */
    /* value += error (below 2^-60: 0), then is encoded into out; value becomes what was sent, rest what was not. rest may be
     * error. EXACT: value is sent as it is, rest = error. False when a value is not finite or not below 2^22: then
     * value is the sum that cannot be sent, all else is undefined. */
    bool (*pack)(iso_payload payload, uint8_t *out, size_t n, float *value, const float *error, float *rest);
    /* Decodes. False when an exponent is wrong or a value is not finite or not below limit. */
    bool (*unpack)(iso_payload payload, float *value, size_t n, const uint8_t *in, float limit);
    /* sum += rint(value scale), products below 2^62; n a multiple of 16 from here on. */
    void (*weigh)(int64_t *sum, const float *value, size_t n, double scale);
    /* value = (float)(sum scale); sums stay. */
    void (*mean)(float *value, const int64_t *sum, size_t n, double scale);
    /* Nesterov: u = fma(momentum, u, value), flushed; value = rate fma(momentum, u, value). */
    void (*outer)(float *value, float *velocity, size_t n, float rate, float momentum);
    /* *square += |w - base|^2, *dot += (w - base) . direction (NULL: base 0, direction 0): fma chains of the 16 lanes over 1024
     * values, tree16, then added in double, block after block. */
    void (*distance)(const float *w, const float *base, const float *direction, size_t n, double *square, double *dot);
} iso_kernels;

/* The table of a set, NULL when this CPU or build lacks it. ISO_ISA_AUTO: the best. */
const iso_kernels *iso_kernels_of(iso_isa isa);

/* Sets flush-to-zero for the calling thread: only a guard for speed, the results do not depend on it. Every compute thread
 * calls it once. Returns the former control word for iso_kernels_restore. */
uint32_t iso_kernels_flush_denormals(void);
void iso_kernels_restore(uint32_t control);

#endif

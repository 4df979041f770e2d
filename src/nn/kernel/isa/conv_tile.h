/* SPDX-License-Identifier: Apache-2.0
 * Register tile of convolutions: M filters (or channels) x 4 pixels, c[m][p] = fma(w[m][k], x[p][k], c[m][p]) over a list of taps.
 *
 * A tap is an offset from the pixel's own place, so one tile serves any kernel, stride, padding and direction; the four pixels
 * are four pointers and need not be neighbours (they are a pooling window, or run over the end of a row).
 */
#ifndef ISO_NN_KERNEL_CONV_TILE_H
#define ISO_NN_KERNEL_CONV_TILE_H

#include "nn/kernel/isa/repeat.h"
#include "nn/kernel/kernel.h"
#include "nn/kernel/simd.h"

#define CONV_PIXELS 4
#define CONV_TAPS 640 /* taps a block: their offsets and M filters' weights fit the first-level cache */

#if defined ISO_ISA_avx2
#define CONV_ROWS 3
#else
#define CONV_ROWS 6
#endif

typedef struct conv_sum {
    size_t n;
    const int32_t *x_at; /* [n] offsets from x[p] */
    const float *x[CONV_PIXELS];
    const float *w;      /* weight of row m at tap k: w[m * w_row + k], or w[m * w_row + w_at[k]] with a list */
    size_t w_row;
    const int32_t *w_at;
} conv_sum;

#define ISO_C_POINTER(p, x_) const float *x##p = s->x[p];
#define ISO_C_LOAD(p, x_) vf col##p = v_load(x##p + at);
#define ISO_C_FMA(p, m) c##m##_##p = v_fma(row##m, col##p, c##m##_##p);
#define ISO_C_ROW_FMA(m, x_) vf row##m = v_set(w_tap[(m) * w_row]); ISO_COLUMNS_4(ISO_C_FMA, m)

/* The loop itself, between whatever sets the accumulators and whatever takes them. NEXT: how w moves to the tap at hand. */
#define ISO_CONV_LOOP(M, NEXT) \
    { \
        ISO_COLUMNS_4(ISO_C_POINTER, ~) \
        const float *w = s->w; \
        const size_t n = s->n, w_row = s->w_row; \
        for (size_t k = 0; k < n; k++) { \
            const ptrdiff_t at = s->x_at[k]; \
            NEXT; \
            ISO_COLUMNS_4(ISO_C_LOAD, ~) \
            ISO_ROWS_##M(ISO_C_ROW_FMA, ~) \
        } \
    }

/* ReLU of the maximum of a 2x2 window, first of equals, and its place in the window or ISO_POOL_DEAD. */
ISO_INLINE vf window_largest(vf a, vf b, vf c, vf d, vi *place)
{
    vi where = i_select(v_gt(b, a), i_set(1), i_set(0));
    vf best = v_max(b, a);
    where = i_select(v_gt(c, best), i_set(2), where);
    best = v_max(c, best);
    where = i_select(v_gt(d, best), i_set(3), where);
    best = v_max(d, best);
    *place = i_select(v_gt(best, v_zero()), where, i_set((int32_t)ISO_POOL_DEAD));
    return v_relu(best);
}

/* Row counts of the tiles for `total` rows: as even as they can be (16 = 6 + 5 + 5). */
ISO_INLINE uint32_t conv_rows_at(uint32_t total, uint32_t done)
{
    uint32_t tiles = (total - done + CONV_ROWS - 1) / CONV_ROWS;
    return (total - done + tiles - 1) / tiles;
}

#endif

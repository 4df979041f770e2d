/* SPDX-License-Identifier: Apache-2.0
 * Stands in for src/nn/kernel/isa/grid.h when bench/float_sums.py builds the variant that sums gradients as plain floats, to
 * hold the exact integer sums against. Nothing is rounded, scaled or checked: what a program without the promise would do.
 */
#ifndef ISO_NN_KERNEL_GRID_H
#define ISO_NN_KERNEL_GRID_H

#include "nn/kernel/simd.h"

#define GRID_SCALE 1.0f

typedef vf vq; /* VL sums */
typedef vf vd;

ISO_INLINE vq q_load(const float *p) { return v_load(p); }
ISO_INLINE void q_store(float *p, vq x) { v_store(p, x); }
ISO_INLINE vq q_zero(void) { return v_zero(); }
ISO_INLINE vq q_add(vq x, vq y) { return v_add(x, y); }
ISO_INLINE vd d_from_q(vq x) { return x; }
ISO_INLINE vd d_from_v(vf x) { return x; }
ISO_INLINE vf v_from_d(vd x, double scale) { return v_mul(x, v_set((float)scale)); }

ISO_INLINE void grid_take(float *sum, const float *x, size_t n, vf squares, float limit, bool *good)
{
    (void)squares, (void)limit, (void)good;
    for (size_t i = 0; i < n; i += VL)
        v_store(sum + i, v_add(v_load(sum + i), v_load(x + i)));
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * What the kernels of few samples need of registers besides simd.h: stores of a part, and the grid without integers.
 */
#ifndef ISO_NN_KERNEL_NARROW_SIMD_H
#define ISO_NN_KERNEL_NARROW_SIMD_H

#include "nn/kernel/isa/step.h"

/* The first n lanes, 0 < n. */
ISO_INLINE void v_store_part(float *p, vf x, size_t n)
{
    if (n >= VL) {
        v_store(p, x);
        return;
    }
#if defined ISO_ISA_avx512
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
#elif defined ISO_ISA_avx2
    __m128 rest = _mm256_castps256_ps128(x);
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(x, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, rest);
#else
    memcpy(p, x.v, n * sizeof *p);
#endif
}

/* Nearest integer, ties to even. */
ISO_INLINE vf v_rint(vf x)
{
#if defined ISO_ISA_avx512
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined ISO_ISA_avx2
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    vf r;
    for (int i = 0; i < VL; i++) { /* from 2^23 on a float is an integer already */
        float magic = x.v[i] < 0.0f ? -0x1p23f : 0x1p23f;
        r.v[i] = __builtin_fabsf(x.v[i]) < 0x1p23f ? (x.v[i] + magic) - magic : x.v[i];
    }
    return r;
#endif
}

/* A gradient times GRID_SCALE by way of the grid to its mean, as one unit's would go through the integers: a float on the grid is an
 * integer that a double holds, and so does a float where the samples are a power of two (then scale only moves the exponent). */
ISO_INLINE vf grid_mean(vf g, bool power, double scale)
{
    vf on_grid = v_rint(g);
    return power ? v_mul(on_grid, v_set((float)scale)) : v_from_d(d_from_v(on_grid), scale);
}

/* True when a sum on the grid is divided by a power of two. */
ISO_INLINE bool step_power(const iso_step *s) { return (double)(float)s->scale == s->scale; }

#endif

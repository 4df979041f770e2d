/* SPDX-License-Identifier: Apache-2.0
 * exp, log and tanh of a register by fma polynomials: equal bits for every instruction set. Largest errors, measured against the C
 * library in double by test_kernel_math: tanh 1.3 ulp, sigmoid 2.4 ulp, softmax of two classes 2.5 ulp, log of integers .6 ulp.
 * The polynomials are those of the Cephes library (S. Moshier), refitted nowhere.
 */
#ifndef ISO_NN_KERNEL_VMATH_H
#define ISO_NN_KERNEL_VMATH_H

#include "nn/kernel/simd.h"

ISO_INLINE vf v_poly(vf p, vf x, float c) { return v_fma(p, x, v_set(c)); }

/* e^x; 0 below -87 (before denormals begin), e^88 from 88 on, NaN for NaN. */
ISO_INLINE vf v_exp(vf x)
{
    const vf magic = v_set(0x1.8p23f); /* adding it rounds to an integer, kept in the low bits */
    vm zero = v_lt(x, v_set(-87.0f));
    x = v_select(v_gt(x, v_set(88.0f)), v_set(88.0f), x);
    vf shifted = v_fma(x, v_set(0x1.715476p0f), magic);
    vf n = v_sub(shifted, magic);
    vf r = v_fma(n, v_set(-0.693359375f), x);
    r = v_fma(n, v_set(2.12194440e-4f), r);
    vf p = v_set(1.9875691500e-4f);
    p = v_poly(p, r, 1.3981999507e-3f);
    p = v_poly(p, r, 8.3334519073e-3f);
    p = v_poly(p, r, 4.1665795894e-2f);
    p = v_poly(p, r, 1.6666665459e-1f);
    p = v_poly(p, r, 5.0000001201e-1f);
    p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
    vf scale = v_bits(i_add(i_shl23(i_bits(shifted)), i_set(127 << 23)));
    return v_select(zero, v_zero(), v_mul(p, scale));
}

/* Natural logarithm of a finite normal x > 0. */
ISO_INLINE vf v_log(vf x)
{
    vi bits = i_bits(x);
    vf e = v_from_i(i_sub(i_shr23(bits), i_set(126)));
    vf m = v_bits(i_or(i_and(bits, i_set(0x007fffff)), i_set(126 << 23))); /* 0.5 <= m < 1 */
    vm low = v_lt(m, v_set(0.707106781186547524f));
    e = v_select(low, v_sub(e, v_set(1.0f)), e);
    vf t = v_sub(v_select(low, v_add(m, m), m), v_set(1.0f));
    vf z = v_mul(t, t);
    vf p = v_set(7.0376836292e-2f);
    p = v_poly(p, t, -1.1514610310e-1f);
    p = v_poly(p, t, 1.1676998740e-1f);
    p = v_poly(p, t, -1.2420140846e-1f);
    p = v_poly(p, t, 1.4249322787e-1f);
    p = v_poly(p, t, -1.6668057665e-1f);
    p = v_poly(p, t, 2.0000714765e-1f);
    p = v_poly(p, t, -2.4999993993e-1f);
    p = v_poly(p, t, 3.3333331174e-1f);
    vf y = v_mul(v_mul(p, t), z);
    y = v_fma(e, v_set(-2.12194440e-4f), y);
    y = v_fma(v_set(-0.5f), z, y);
    return v_fma(e, v_set(0.693359375f), v_add(t, y));
}

/* 1 / (1 + e^-x); its smallest value is e^-80. */
ISO_INLINE vf v_sigmoid(vf x)
{
    vf low = v_select(v_lt(x, v_set(-80.0f)), v_set(-80.0f), x);
    vf e = v_exp(v_sub(v_zero(), low));
    return v_div(v_set(1.0f), v_add(v_set(1.0f), e));
}

ISO_INLINE vf v_tanh(vf x)
{
    vf a = v_abs(x);
    vf z = v_mul(x, x);
    vf p = v_set(-5.70498872745e-3f);
    p = v_poly(p, z, 2.06390887954e-2f);
    p = v_poly(p, z, -5.37397155531e-2f);
    p = v_poly(p, z, 1.33314422036e-1f);
    p = v_poly(p, z, -3.33332819422e-1f);
    vf small = v_fma(v_mul(p, z), x, x);
    vf e = v_exp(v_add(a, a));
    vf large = v_sub(v_set(1.0f), v_div(v_set(2.0f), v_add(e, v_set(1.0f))));
    large = v_select(v_lt(x, v_zero()), v_sub(v_zero(), large), large);
    return v_select(v_lt(a, v_set(0.625f)), small, large);
}

#endif

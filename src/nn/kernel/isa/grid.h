/* SPDX-License-Identifier: Apache-2.0
 * Floats to the integer grid and back, VL at a time. A float times 2^40 is exact in float, so one rounding to int64 is all
 * there is. Values that are not below the limit add 0 and mark `bad`.
 */
#ifndef ISO_NN_KERNEL_GRID_H
#define ISO_NN_KERNEL_GRID_H

#include "nn/kernel/simd.h"

#if defined ISO_ISA_avx512

typedef struct { __m512i a, b; } vq; /* VL int64 */
typedef struct { __m512d a, b; } vd; /* VL doubles */

ISO_INLINE vq q_load(const int64_t *p) { return (vq){_mm512_loadu_si512(p), _mm512_loadu_si512(p + 8)}; }
ISO_INLINE void q_store(int64_t *p, vq x) { _mm512_storeu_si512(p, x.a); _mm512_storeu_si512(p + 8, x.b); }
ISO_INLINE vq q_zero(void) { return (vq){_mm512_setzero_si512(), _mm512_setzero_si512()}; }
ISO_INLINE vq q_add(vq x, vq y) { return (vq){_mm512_add_epi64(x.a, y.a), _mm512_add_epi64(x.b, y.b)}; }
/* rint of VL floats below 2^62 */
ISO_INLINE vq q_rint(const float *x)
{
    return (vq){_mm512_cvtps_epi64(_mm256_loadu_ps(x)), _mm512_cvtps_epi64(_mm256_loadu_ps(x + 8))};
}
ISO_INLINE vq q_rint_small(const float *x) { return q_rint(x); }
/* rint(x scale), below 2^62: a product of doubles, rounded once more only when it has more than 53 bits */
ISO_INLINE vq q_rint_scaled(const float *x, double scale)
{
    __m512d s = _mm512_set1_pd(scale);
    __m512d low = _mm512_cvtps_pd(_mm256_loadu_ps(x)), high = _mm512_cvtps_pd(_mm256_loadu_ps(x + 8));
    return (vq){_mm512_cvtpd_epi64(_mm512_mul_pd(low, s)), _mm512_cvtpd_epi64(_mm512_mul_pd(high, s))};
}
ISO_INLINE vd d_from_q(vq x) { return (vd){_mm512_cvtepi64_pd(x.a), _mm512_cvtepi64_pd(x.b)}; }
ISO_INLINE vd d_from_v(vf x)
{
    return (vd){_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
}
/* (float)(x * scale) */
ISO_INLINE vf v_from_d(vd x, double scale)
{
    __m512d s = _mm512_set1_pd(scale);
    __m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(x.a, s)), high = _mm512_cvtpd_ps(_mm512_mul_pd(x.b, s));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

#elif defined ISO_ISA_avx2

typedef struct { __m256i a, b; } vq;
typedef struct { __m256d a, b; } vd;

ISO_INLINE vq q_load(const int64_t *p)
{
    return (vq){_mm256_loadu_si256((const __m256i *)(const void *)p), _mm256_loadu_si256((const __m256i *)(const void *)(p + 4))};
}
ISO_INLINE void q_store(int64_t *p, vq x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x.a);
    _mm256_storeu_si256((__m256i *)(void *)(p + 4), x.b);
}
ISO_INLINE vq q_zero(void) { return (vq){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
ISO_INLINE vq q_add(vq x, vq y) { return (vq){_mm256_add_epi64(x.a, y.a), _mm256_add_epi64(x.b, y.b)}; }
/* rint(x) for |x| < 2^51: adding 1.5 2^52 leaves the integer in the low bits. */
ISO_INLINE __m256i i64_small(__m256d x)
{
    __m256d magic = _mm256_set1_pd(0x1.8p52);
    return _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(x, magic)), _mm256_castpd_si256(magic));
}
/* rint(x) for |x| < 2^62: a multiple of 2^20 and a rest, each small enough. */
ISO_INLINE __m256i i64_large(__m256d x)
{
    __m256d high = _mm256_round_pd(_mm256_mul_pd(x, _mm256_set1_pd(0x1p-20)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256d low = _mm256_fnmadd_pd(high, _mm256_set1_pd(0x1p20), x);
    return _mm256_add_epi64(_mm256_slli_epi64(i64_small(high), 20), i64_small(low));
}
/* rint of VL floats below 2^62, or below 2^51 */
ISO_INLINE vq q_rint(const float *x)
{
    return (vq){i64_large(_mm256_cvtps_pd(_mm_loadu_ps(x))), i64_large(_mm256_cvtps_pd(_mm_loadu_ps(x + 4)))};
}
ISO_INLINE vq q_rint_small(const float *x)
{
    return (vq){i64_small(_mm256_cvtps_pd(_mm_loadu_ps(x))), i64_small(_mm256_cvtps_pd(_mm_loadu_ps(x + 4)))};
}
ISO_INLINE vq q_rint_scaled(const float *x, double scale)
{
    __m256d s = _mm256_set1_pd(scale);
    __m256d low = _mm256_cvtps_pd(_mm_loadu_ps(x)), high = _mm256_cvtps_pd(_mm_loadu_ps(x + 4));
    return (vq){i64_large(_mm256_mul_pd(low, s)), i64_large(_mm256_mul_pd(high, s))};
}
/* int64 to double, rounded once: the upper 48 bits and the lower 16 are put into two doubles exactly, then added. */
ISO_INLINE __m256d d_from_i64(__m256i x)
{
    __m256i high = _mm256_blend_epi16(_mm256_srai_epi32(x, 16), _mm256_setzero_si256(), 0x33);
    high = _mm256_add_epi64(high, _mm256_castpd_si256(_mm256_set1_pd(442721857769029238784.0)));   /* 3 2^67 */
    __m256i low = _mm256_blend_epi16(x, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)), 0x88);
    __m256d upper = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(442726361368656609280.0)); /* 3 2^67 + 2^52 */
    return _mm256_add_pd(upper, _mm256_castsi256_pd(low));
}
ISO_INLINE vd d_from_q(vq x) { return (vd){d_from_i64(x.a), d_from_i64(x.b)}; }
ISO_INLINE vd d_from_v(vf x)
{
    return (vd){_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}
ISO_INLINE vf v_from_d(vd x, double scale)
{
    __m256d s = _mm256_set1_pd(scale);
    __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(x.a, s)), high = _mm256_cvtpd_ps(_mm256_mul_pd(x.b, s));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

#else

typedef struct { int64_t v[VL]; } vq;
typedef struct { double v[VL]; } vd;
#define ISO_EACH(i) for (int i = 0; i < VL; i++)

ISO_INLINE vq q_load(const int64_t *p) { vq r; memcpy(r.v, p, sizeof r.v); return r; }
ISO_INLINE void q_store(int64_t *p, vq x) { memcpy(p, x.v, sizeof x.v); }
ISO_INLINE vq q_zero(void) { return (vq){{0}}; }
ISO_INLINE vq q_add(vq x, vq y)
{
    vq r;
    ISO_EACH(i) r.v[i] = (int64_t)((uint64_t)x.v[i] + (uint64_t)y.v[i]);
    return r;
}
/* rint of VL floats below 2^62, scaled in double. From 2^52 on a double is an integer already; below, adding and taking away 2^52
 * rounds to one, ties to even. */
ISO_INLINE vq q_rint_scaled(const float *x, double scale)
{
    vq r;
    ISO_EACH(i) {
        double d = x[i] * scale, magic = d < 0.0 ? -0x1p52 : 0x1p52;
        r.v[i] = (int64_t)(__builtin_fabs(d) < 0x1p52 ? (d + magic) - magic : d);
    }
    return r;
}
ISO_INLINE vq q_rint(const float *x) { return q_rint_scaled(x, 1.0); }
ISO_INLINE vq q_rint_small(const float *x)
{
    vq r;
    ISO_EACH(i) {
        double d = x[i];
        r.v[i] = (int64_t)((d + 0x1.8p52) - 0x1.8p52);
    }
    return r;
}
ISO_INLINE vd d_from_q(vq x) { vd r; ISO_EACH(i) r.v[i] = (double)x.v[i]; return r; }
ISO_INLINE vd d_from_v(vf x) { vd r; ISO_EACH(i) r.v[i] = (double)x.v[i]; return r; }
ISO_INLINE vf v_from_d(vd x, double scale)
{
    vf r;
    ISO_EACH(i) r.v[i] = (float)(x.v[i] * scale);
    return r;
}
#undef ISO_EACH

#endif

/* Values on their way to the grid are floats times GRID_SCALE (exact), in memory, with the sum of their squares a lane: one fma a
 * register shows that all are small, NaN and infinity included, and only if it does not is each one looked at. */
#define GRID_SCALE 0x1p40f

ISO_INLINE bool grid_small(vf squares, float limit)
{
    float top = limit * GRID_SCALE, small = top < 0x1p51f ? top : 0x1p51f;
    return !m_any(m_not(v_lt(squares, v_set(small * small))));
}

/* Values that are not below limit * GRID_SCALE become 0 and turn *good to false. */
ISO_INLINE void grid_check(float *x, size_t n, float limit, bool *good)
{
    for (size_t i = 0; i < n; i += VL) {
        vf value = v_load(x + i);
        vm fits = v_lt(v_abs(value), v_set(limit * GRID_SCALE));
        if (m_any(m_not(fits)))
            *good = false;
        v_store(x + i, v_select(fits, value, v_zero()));
    }
}

/* sum[i] += rint(x[i]) for n values, n a multiple of VL, after grid_check where that is needed. */
ISO_INLINE void grid_take(int64_t *sum, float *x, size_t n, vf squares, float limit, bool *good)
{
    if (__builtin_expect(grid_small(squares, limit), 1)) {
        for (size_t i = 0; i < n; i += VL)
            q_store(sum + i, q_add(q_load(sum + i), q_rint_small(x + i)));
        return;
    }
    grid_check(x, n, limit, good);
    for (size_t i = 0; i < n; i += VL)
        q_store(sum + i, q_add(q_load(sum + i), q_rint(x + i)));
}

/* The same for two arrays at once, which halves the traffic of the sums. fresh: sum is set, not added to. */
ISO_INLINE void grid_take2(int64_t *sum, bool fresh, float *x, float *y, size_t n, vf squares, float limit, bool *good)
{
    if (__builtin_expect(!grid_small(squares, limit), 0)) {
        grid_check(x, n, limit, good);
        grid_check(y, n, limit, good);
        for (size_t i = 0; i < n; i += VL)
            q_store(sum + i, q_add(fresh ? q_zero() : q_load(sum + i), q_add(q_rint(x + i), q_rint(y + i))));
    } else if (fresh) {
        for (size_t i = 0; i < n; i += VL)
            q_store(sum + i, q_add(q_rint_small(x + i), q_rint_small(y + i)));
    } else {
        for (size_t i = 0; i < n; i += VL)
            q_store(sum + i, q_add(q_load(sum + i), q_add(q_rint_small(x + i), q_rint_small(y + i))));
    }
}

#endif

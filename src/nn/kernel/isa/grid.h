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
ISO_INLINE vq q_grid(vf g, vf limit, vm *bad)
{
    vm good = v_lt(v_abs(g), limit);
    *bad = m_or(*bad, m_not(good));
    __m512 x = _mm512_maskz_mul_ps(good, g, _mm512_set1_ps(0x1p40f));
    return (vq){_mm512_cvtps_epi64(_mm512_castps512_ps256(x)), _mm512_cvtps_epi64(_mm512_extractf32x8_ps(x, 1))};
}
ISO_INLINE vd d_from_q(vq x) { return (vd){_mm512_cvtepi64_pd(x.a), _mm512_cvtepi64_pd(x.b)}; }
/* (float)(x * scale); |x| >= 2^62 marks bad */
ISO_INLINE vf v_from_d(vd x, double scale, vm *bad)
{
    __m512d top = _mm512_set1_pd(0x1p62), s = _mm512_set1_pd(scale);
    *bad |= (vm)(_mm512_cmp_pd_mask(_mm512_abs_pd(x.a), top, _CMP_NLT_UQ) | _mm512_cmp_pd_mask(_mm512_abs_pd(x.b), top, _CMP_NLT_UQ));
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
ISO_INLINE __m256i q_rint(__m256d x)
{
    __m256d magic = _mm256_set1_pd(0x1.8p52);
    return _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(x, magic)), _mm256_castpd_si256(magic));
}
/* rint(x) for |x| < 2^62: a multiple of 2^20 and a rest, each small enough. */
ISO_INLINE __m256i q_rint_large(__m256d x)
{
    __m256d high = _mm256_round_pd(_mm256_mul_pd(x, _mm256_set1_pd(0x1p-20)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256d low = _mm256_fnmadd_pd(high, _mm256_set1_pd(0x1p20), x);
    return _mm256_add_epi64(_mm256_slli_epi64(q_rint(high), 20), q_rint(low));
}
ISO_INLINE vq q_grid(vf g, vf limit, vm *bad)
{
    vm good = v_lt(v_abs(g), limit);
    *bad = m_or(*bad, m_not(good));
    __m256 x = _mm256_and_ps(good, _mm256_mul_ps(g, _mm256_set1_ps(0x1p40f)));
    __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x)), b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    if (__builtin_expect(m_any(m_not(v_lt(v_abs(x), v_set(0x1p51f)))), 0))
        return (vq){q_rint_large(a), q_rint_large(b)};
    return (vq){q_rint(a), q_rint(b)};
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
ISO_INLINE vf v_from_d(vd x, double scale, vm *bad)
{
    __m256d top = _mm256_set1_pd(0x1p62), s = _mm256_set1_pd(scale), sign = _mm256_set1_pd(-0.0);
    __m256d far = _mm256_or_pd(_mm256_cmp_pd(_mm256_andnot_pd(sign, x.a), top, _CMP_NLT_UQ),
                               _mm256_cmp_pd(_mm256_andnot_pd(sign, x.b), top, _CMP_NLT_UQ));
    *bad = _mm256_or_ps(*bad, _mm256_castpd_ps(far));
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
ISO_INLINE vq q_grid(vf g, vf limit, vm *bad)
{
    vq r;
    ISO_EACH(i) {
        bool good = __builtin_fabsf(g.v[i]) < limit.v[i];
        bad->v[i] |= good ? 0 : -1;
        double x = good ? (double)(g.v[i] * 0x1p40f) : 0.0;
        /* From 2^52 on a double is an integer already; below, adding and taking away 2^52 rounds to one, ties to even. */
        double magic = x < 0.0 ? -0x1p52 : 0x1p52;
        r.v[i] = (int64_t)(__builtin_fabs(x) < 0x1p52 ? (x + magic) - magic : x);
    }
    return r;
}
ISO_INLINE vd d_from_q(vq x) { vd r; ISO_EACH(i) r.v[i] = (double)x.v[i]; return r; }
ISO_INLINE vf v_from_d(vd x, double scale, vm *bad)
{
    vf r;
    ISO_EACH(i) {
        bad->v[i] |= __builtin_fabs(x.v[i]) < 0x1p62 ? 0 : -1;
        r.v[i] = (float)(x.v[i] * scale);
    }
    return r;
}
#undef ISO_EACH

#endif

#endif

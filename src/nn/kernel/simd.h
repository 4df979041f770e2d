/* SPDX-License-Identifier: Apache-2.0
 * vf: one register of VL floats (16 with AVX-512, 8 with AVX2, 4 in plain C), and the few operations the kernels use.
 *
 * Each operation is exactly one correctly rounded IEEE operation a lane (or moves bits), so a kernel written with them gives
 * the same bits for every VL as long as no lane meets another. A v16 of the layouts is 16 / VL of them.
 */
#ifndef ISO_NN_KERNEL_SIMD_H
#define ISO_NN_KERNEL_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined ISO_ISA_avx512 || defined ISO_ISA_avx2
#include <immintrin.h>
#endif

#define ISO_INLINE static inline __attribute__((always_inline, unused))

#if defined ISO_ISA_avx512

#define VL 16
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

ISO_INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
ISO_INLINE void v_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
ISO_INLINE vf v_set(float x) { return _mm512_set1_ps(x); }
ISO_INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
ISO_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
ISO_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
ISO_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
ISO_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
ISO_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
ISO_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
/* a > b ? a : b, so b when one is a NaN */
ISO_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
ISO_INLINE vf v_abs(vf a) { return _mm512_abs_ps(a); }
ISO_INLINE vm v_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
ISO_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
ISO_INLINE vf v_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
ISO_INLINE vm v_nonzero(vf a) { return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ); }
ISO_INLINE vm m_none(void) { return 0; }
ISO_INLINE vm m_and(vm a, vm b) { return (vm)(a & b); }
ISO_INLINE vm m_or(vm a, vm b) { return (vm)(a | b); }
ISO_INLINE vm m_not(vm a) { return (vm)~a; }
ISO_INLINE bool m_any(vm a) { return a != 0; }
ISO_INLINE vi i_set(int32_t x) { return _mm512_set1_epi32(x); }
ISO_INLINE vi i_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
ISO_INLINE vi i_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
ISO_INLINE vi i_and(vi a, vi b) { return _mm512_and_si512(a, b); }
ISO_INLINE vi i_or(vi a, vi b) { return _mm512_or_si512(a, b); }
ISO_INLINE vi i_shl23(vi a) { return _mm512_slli_epi32(a, 23); }
ISO_INLINE vi i_shr23(vi a) { return _mm512_srli_epi32(a, 23); }
ISO_INLINE vi i_shl16(vi a) { return _mm512_slli_epi32(a, 16); }
ISO_INLINE vi i_shr16(vi a) { return _mm512_srli_epi32(a, 16); }
ISO_INLINE vi i_select(vm m, vi yes, vi no) { return _mm512_mask_blend_epi32(m, no, yes); }
ISO_INLINE vf v_from_i(vi a) { return _mm512_cvtepi32_ps(a); }
ISO_INLINE vi i_bits(vf a) { return _mm512_castps_si512(a); }
ISO_INLINE vf v_bits(vi a) { return _mm512_castsi512_ps(a); }
ISO_INLINE void i_store_u8(uint8_t *p, vi a) { _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(a)); }
ISO_INLINE void i_store_u16(uint16_t *p, vi a) { _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(a)); }
ISO_INLINE vi i_load_u16(const uint16_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
ISO_INLINE vi i_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
ISO_INLINE vm i_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
/* Stores the lanes of keep one after another and returns how many; up to VL values behind them may be overwritten. */
ISO_INLINE size_t v_keep(float *values, int32_t *at, vf v, vi a, vm keep)
{
    _mm512_storeu_ps(values, _mm512_maskz_compress_ps(keep, v));
    _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(keep, a));
    return (size_t)__builtin_popcount(keep);
}

#elif defined ISO_ISA_avx2

#define VL 8
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

ISO_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
ISO_INLINE void v_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
ISO_INLINE vf v_set(float x) { return _mm256_set1_ps(x); }
ISO_INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
ISO_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
ISO_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
ISO_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
ISO_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
ISO_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
ISO_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
ISO_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
ISO_INLINE vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
ISO_INLINE vm v_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
ISO_INLINE vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
ISO_INLINE vf v_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
ISO_INLINE vm v_nonzero(vf a) { return _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_NEQ_UQ); }
ISO_INLINE vm m_none(void) { return _mm256_setzero_ps(); }
ISO_INLINE vm m_and(vm a, vm b) { return _mm256_and_ps(a, b); }
ISO_INLINE vm m_or(vm a, vm b) { return _mm256_or_ps(a, b); }
ISO_INLINE vm m_not(vm a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
ISO_INLINE bool m_any(vm a) { return _mm256_movemask_ps(a) != 0; }
ISO_INLINE vi i_set(int32_t x) { return _mm256_set1_epi32(x); }
ISO_INLINE vi i_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
ISO_INLINE vi i_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
ISO_INLINE vi i_and(vi a, vi b) { return _mm256_and_si256(a, b); }
ISO_INLINE vi i_or(vi a, vi b) { return _mm256_or_si256(a, b); }
ISO_INLINE vi i_shl23(vi a) { return _mm256_slli_epi32(a, 23); }
ISO_INLINE vi i_shr23(vi a) { return _mm256_srli_epi32(a, 23); }
ISO_INLINE vi i_shl16(vi a) { return _mm256_slli_epi32(a, 16); }
ISO_INLINE vi i_shr16(vi a) { return _mm256_srli_epi32(a, 16); }
ISO_INLINE vi i_select(vm m, vi yes, vi no) { return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m)); }
ISO_INLINE vf v_from_i(vi a) { return _mm256_cvtepi32_ps(a); }
ISO_INLINE vi i_bits(vf a) { return _mm256_castps_si256(a); }
ISO_INLINE vf v_bits(vi a) { return _mm256_castsi256_ps(a); }
ISO_INLINE void i_store_u16(uint16_t *p, vi a)
{
    __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(low, high));
}
ISO_INLINE void i_store_u8(uint8_t *p, vi a)
{
    __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
    __m128i words = _mm_packus_epi32(low, high);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(words, words));
}
ISO_INLINE vi i_load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
ISO_INLINE vi i_load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
ISO_INLINE vm i_eq(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
ISO_INLINE size_t v_keep(float *values, int32_t *at, vf v, vi a, vm keep)
{
    float lane[8];
    int32_t place[8];
    unsigned bits = (unsigned)_mm256_movemask_ps(keep);
    size_t n = 0;
    _mm256_storeu_ps(lane, v);
    _mm256_storeu_si256((__m256i *)(void *)place, a);
    for (int i = 0; i < 8; i++) {
        values[n] = lane[i];
        at[n] = place[i];
        n += bits >> i & 1;
    }
    return n;
}

#else /* plain C: loops of 4 that any compiler can turn into whatever vectors the CPU has */

#define VL 4
typedef struct { float v[4]; } vf;
typedef struct { int32_t v[4]; } vi;
typedef struct { int32_t v[4]; } vm; /* 0 or -1 */
#define ISO_EACH(i) for (int i = 0; i < VL; i++)

ISO_INLINE vf v_load(const float *p) { vf r; memcpy(r.v, p, sizeof r.v); return r; }
ISO_INLINE void v_store(float *p, vf x) { memcpy(p, x.v, sizeof x.v); }
ISO_INLINE vf v_set(float x) { vf r; ISO_EACH(i) r.v[i] = x; return r; }
ISO_INLINE vf v_zero(void) { return v_set(0.0f); }
ISO_INLINE vf v_fma(vf a, vf b, vf c) { vf r; ISO_EACH(i) r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]); return r; }
ISO_INLINE vf v_add(vf a, vf b) { vf r; ISO_EACH(i) r.v[i] = a.v[i] + b.v[i]; return r; }
ISO_INLINE vf v_sub(vf a, vf b) { vf r; ISO_EACH(i) r.v[i] = a.v[i] - b.v[i]; return r; }
ISO_INLINE vf v_mul(vf a, vf b) { vf r; ISO_EACH(i) r.v[i] = a.v[i] * b.v[i]; return r; }
ISO_INLINE vf v_div(vf a, vf b) { vf r; ISO_EACH(i) r.v[i] = a.v[i] / b.v[i]; return r; }
ISO_INLINE vf v_sqrt(vf a) { vf r; ISO_EACH(i) r.v[i] = __builtin_sqrtf(a.v[i]); return r; }
ISO_INLINE vf v_max(vf a, vf b) { vf r; ISO_EACH(i) r.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; return r; }
ISO_INLINE vf v_abs(vf a) { vf r; ISO_EACH(i) r.v[i] = __builtin_fabsf(a.v[i]); return r; }
ISO_INLINE vm v_gt(vf a, vf b) { vm r; ISO_EACH(i) r.v[i] = a.v[i] > b.v[i] ? -1 : 0; return r; }
ISO_INLINE vm v_lt(vf a, vf b) { return v_gt(b, a); }
ISO_INLINE vf v_select(vm m, vf yes, vf no) { vf r; ISO_EACH(i) r.v[i] = m.v[i] ? yes.v[i] : no.v[i]; return r; }
ISO_INLINE vm v_nonzero(vf a) { vm r; ISO_EACH(i) r.v[i] = a.v[i] != 0.0f ? -1 : 0; return r; }
ISO_INLINE vm m_and(vm a, vm b) { vm r; ISO_EACH(i) r.v[i] = a.v[i] & b.v[i]; return r; }
ISO_INLINE vm m_none(void) { vm r; ISO_EACH(i) r.v[i] = 0; return r; }
ISO_INLINE vm m_or(vm a, vm b) { vm r; ISO_EACH(i) r.v[i] = a.v[i] | b.v[i]; return r; }
ISO_INLINE vm m_not(vm a) { vm r; ISO_EACH(i) r.v[i] = ~a.v[i]; return r; }
ISO_INLINE bool m_any(vm a) { return (a.v[0] | a.v[1] | a.v[2] | a.v[3]) != 0; }
ISO_INLINE vi i_set(int32_t x) { vi r; ISO_EACH(i) r.v[i] = x; return r; }
/* Sums of bit patterns may wrap: in unsigned, where that is defined. */
ISO_INLINE vi i_add(vi a, vi b) { vi r; ISO_EACH(i) r.v[i] = (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]); return r; }
ISO_INLINE vi i_sub(vi a, vi b) { vi r; ISO_EACH(i) r.v[i] = (int32_t)((uint32_t)a.v[i] - (uint32_t)b.v[i]); return r; }
ISO_INLINE vi i_and(vi a, vi b) { vi r; ISO_EACH(i) r.v[i] = a.v[i] & b.v[i]; return r; }
ISO_INLINE vi i_or(vi a, vi b) { vi r; ISO_EACH(i) r.v[i] = a.v[i] | b.v[i]; return r; }
ISO_INLINE vi i_shl23(vi a) { vi r; ISO_EACH(i) r.v[i] = (int32_t)((uint32_t)a.v[i] << 23); return r; }
ISO_INLINE vi i_shr23(vi a) { vi r; ISO_EACH(i) r.v[i] = (int32_t)((uint32_t)a.v[i] >> 23); return r; }
ISO_INLINE vi i_shl16(vi a) { vi r; ISO_EACH(i) r.v[i] = (int32_t)((uint32_t)a.v[i] << 16); return r; }
ISO_INLINE vi i_shr16(vi a) { vi r; ISO_EACH(i) r.v[i] = (int32_t)((uint32_t)a.v[i] >> 16); return r; }
ISO_INLINE vi i_select(vm m, vi yes, vi no) { vi r; ISO_EACH(i) r.v[i] = m.v[i] ? yes.v[i] : no.v[i]; return r; }
ISO_INLINE vf v_from_i(vi a) { vf r; ISO_EACH(i) r.v[i] = (float)a.v[i]; return r; }
ISO_INLINE vi i_bits(vf a) { vi r; memcpy(&r, &a, sizeof r); return r; }
ISO_INLINE vf v_bits(vi a) { vf r; memcpy(&r, &a, sizeof r); return r; }
ISO_INLINE void i_store_u8(uint8_t *p, vi a) { ISO_EACH(i) p[i] = (uint8_t)a.v[i]; }
ISO_INLINE void i_store_u16(uint16_t *p, vi a) { ISO_EACH(i) p[i] = (uint16_t)a.v[i]; }
ISO_INLINE vi i_load_u16(const uint16_t *p) { vi r; ISO_EACH(i) r.v[i] = p[i]; return r; }
ISO_INLINE vi i_load_u8(const uint8_t *p) { vi r; ISO_EACH(i) r.v[i] = p[i]; return r; }
ISO_INLINE size_t v_keep(float *values, int32_t *at, vf v, vi a, vm keep)
{
    size_t n = 0;
    ISO_EACH(i) {
        values[n] = v.v[i];
        at[n] = a.v[i];
        n += keep.v[i] != 0;
    }
    return n;
}
ISO_INLINE vm i_eq(vi a, vi b) { vm r; ISO_EACH(i) r.v[i] = a.v[i] == b.v[i] ? -1 : 0; return r; }
#undef ISO_EACH

#endif

#define ISO_PARTS (16 / VL) /* registers of one v16 */

/* 0 > x ? 0 : x */
ISO_INLINE vf v_relu(vf x) { return v_max(v_zero(), x); }
/* |x| < 2^-60 ? 0 : x */
ISO_INLINE vf v_flush(vf x) { return v_select(v_lt(v_abs(x), v_set(0x1p-60f)), v_zero(), x); }

#endif

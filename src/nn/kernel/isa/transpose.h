/* SPDX-License-Identifier: Apache-2.0
 * 16x16 transposes. A register collects four values of each of VL rows' columns by 128-bit loads; a 4x4 transpose inside the
 * 128-bit lanes then leaves whole columns. Half the shuffles of the transpose by rows, and the same code for every VL.
 */
#ifndef ISO_NN_KERNEL_TRANSPOSE_H
#define ISO_NN_KERNEL_TRANSPOSE_H

#include "nn/kernel/simd.h"

/* Columns 0..3 of rows first, first + 4, ... (VL / 4 rows, where row r begins at src + at[r]). */
ISO_INLINE vf v_quads(const float *src, const size_t *at, int first)
{
#if defined ISO_ISA_avx512
    __m512 r = _mm512_castps128_ps512(_mm_loadu_ps(src + at[first]));
    r = _mm512_insertf32x4(r, _mm_loadu_ps(src + at[first + 4]), 1);
    r = _mm512_insertf32x4(r, _mm_loadu_ps(src + at[first + 8]), 2);
    return _mm512_insertf32x4(r, _mm_loadu_ps(src + at[first + 12]), 3);
#elif defined ISO_ISA_avx2
    __m256 r = _mm256_castps128_ps256(_mm_loadu_ps(src + at[first]));
    return _mm256_insertf128_ps(r, _mm_loadu_ps(src + at[first + 4]), 1);
#else
    return v_load(src + at[first]);
#endif
}

/* 4x4 transposes inside each 128-bit lane. */
ISO_INLINE void v_transpose4(vf *a, vf *b, vf *c, vf *d)
{
#if defined ISO_ISA_avx512
    __m512 ab0 = _mm512_unpacklo_ps(*a, *b), ab1 = _mm512_unpackhi_ps(*a, *b);
    __m512 cd0 = _mm512_unpacklo_ps(*c, *d), cd1 = _mm512_unpackhi_ps(*c, *d);
    *a = _mm512_shuffle_ps(ab0, cd0, 0x44);
    *b = _mm512_shuffle_ps(ab0, cd0, 0xee);
    *c = _mm512_shuffle_ps(ab1, cd1, 0x44);
    *d = _mm512_shuffle_ps(ab1, cd1, 0xee);
#elif defined ISO_ISA_avx2
    __m256 ab0 = _mm256_unpacklo_ps(*a, *b), ab1 = _mm256_unpackhi_ps(*a, *b);
    __m256 cd0 = _mm256_unpacklo_ps(*c, *d), cd1 = _mm256_unpackhi_ps(*c, *d);
    *a = _mm256_shuffle_ps(ab0, cd0, 0x44);
    *b = _mm256_shuffle_ps(ab0, cd0, 0xee);
    *c = _mm256_shuffle_ps(ab1, cd1, 0x44);
    *d = _mm256_shuffle_ps(ab1, cd1, 0xee);
#else
    vf w = *a, x = *b, y = *c, z = *d;
    *a = (vf){{w.v[0], x.v[0], y.v[0], z.v[0]}};
    *b = (vf){{w.v[1], x.v[1], y.v[1], z.v[1]}};
    *c = (vf){{w.v[2], x.v[2], y.v[2], z.v[2]}};
    *d = (vf){{w.v[3], x.v[3], y.v[3], z.v[3]}};
#endif
}

/* dst[c * stride + r] = src[at[r] + c] for r, c < 16. */
ISO_INLINE void transpose16(float *dst, size_t stride, const float *src, const size_t *at)
{
    for (int quad = 0; quad < 4; quad++) {
        for (int part = 0; part < 16; part += VL) {
            vf a = v_quads(src + 4 * quad, at + part, 0), b = v_quads(src + 4 * quad, at + part, 1);
            vf c = v_quads(src + 4 * quad, at + part, 2), d = v_quads(src + 4 * quad, at + part, 3);
            v_transpose4(&a, &b, &c, &d);
            float *to = dst + (size_t)(4 * quad) * stride + part;
            v_store(to, a);
            v_store(to + stride, b);
            v_store(to + 2 * stride, c);
            v_store(to + 3 * stride, d);
        }
    }
}

/* tree16 over the lanes of 16 vectors at once: to[i] = sum of lanes of the vector at from + 16 i. */
ISO_INLINE void tree16x16(float *to, const float *from)
{
    float t[256] __attribute__((aligned(64)));
    size_t at[16];
    for (size_t i = 0; i < 16; i++)
        at[i] = 16 * i;
    transpose16(t, 16, from, at);
    for (int part = 0; part < 16; part += VL) {
#define ISO_LANE(i) v_load(t + 16 * (i) + part)
#define ISO_PAIR(i) v_add(ISO_LANE(i), ISO_LANE((i) + 8))
        vf s0 = v_add(ISO_PAIR(0), ISO_PAIR(4)), s1 = v_add(ISO_PAIR(1), ISO_PAIR(5));
        vf s2 = v_add(ISO_PAIR(2), ISO_PAIR(6)), s3 = v_add(ISO_PAIR(3), ISO_PAIR(7));
#undef ISO_PAIR
#undef ISO_LANE
        v_store(to + part, v_add(v_add(s0, s2), v_add(s1, s3)));
    }
}

/* tree16 of one vector of 16 floats. */
ISO_INLINE float tree16(const float *a)
{
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = a[i] + a[i + 8];
    for (int i = 0; i < 4; i++)
        s[i] += s[i + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

#endif

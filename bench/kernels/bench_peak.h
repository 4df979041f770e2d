/* SPDX-License-Identifier: Apache-2.0
 * Peak of fused multiply-adds of one core: independent chains in registers, nothing else.
 */
#ifndef ISO_BENCH_PEAK_H
#define ISO_BENCH_PEAK_H

#if defined __x86_64__
#include <immintrin.h>

#define PEAK_CHAINS 12
#define PEAK_LOOP(ISA, TYPE, SET, FMA, LANES) \
    __attribute__((target(ISA))) static double peak_##LANES(void) \
    { \
        TYPE a = SET(1.0f), b = SET(1e-9f), c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a, c8 = a, c9 = a, c10 = a, \
             c11 = a; \
        double best = 0; \
        for (int round = 0; round < 60; round++) { \
            double start = now(); \
            for (int i = 0; i < 20000; i++) { \
                c0 = FMA(a, b, c0); c1 = FMA(a, b, c1); c2 = FMA(a, b, c2); c3 = FMA(a, b, c3); \
                c4 = FMA(a, b, c4); c5 = FMA(a, b, c5); c6 = FMA(a, b, c6); c7 = FMA(a, b, c7); \
                c8 = FMA(a, b, c8); c9 = FMA(a, b, c9); c10 = FMA(a, b, c10); c11 = FMA(a, b, c11); \
                __asm__ volatile("" : "+x"(c0), "+x"(c1), "+x"(c2), "+x"(c3), "+x"(c4), "+x"(c5)); \
                __asm__ volatile("" : "+x"(c6), "+x"(c7), "+x"(c8), "+x"(c9), "+x"(c10), "+x"(c11)); \
            } \
            double rate = 2.0 * LANES * PEAK_CHAINS * 20000 / (now() - start) * 1e-9; \
            best = rate > best ? rate : best; \
        } \
        return best; \
    }
PEAK_LOOP("avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
PEAK_LOOP("avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
#endif

static double peak_gflops(const char *isa)
{
#if defined __x86_64__
    if (strcmp(isa, "avx512") == 0)
        return peak_16();
    if (strcmp(isa, "avx2") == 0)
        return peak_8();
#endif
    (void)isa;
    return 1e9; /* plain C: shares mean nothing */
}

#endif

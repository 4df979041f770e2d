/* SPDX-License-Identifier: Apache-2.0
 * What the tests of kernels share: every instruction set this CPU has, aligned arrays with guards, random fill, bit comparison.
 */
#ifndef ISO_TEST_KERNEL_TEST_H
#define ISO_TEST_KERNEL_TEST_H

#include <stdlib.h>
#include <string.h>

#include "kernel_oracle.h"
#include "test.h"

static const iso_isa kernel_isas[] = {ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512};

/* for each table this CPU can run */
#define EACH_TABLE(table) \
    for (size_t isa_ = 0; isa_ < 3; isa_++) \
        for (const iso_kernels *table = iso_kernels_of(kernel_isas[isa_]); table != NULL; table = NULL)

/* An aligned array of n floats with 64 guard bytes behind it, filled with a pattern that is a NaN. */
static inline void *guarded(size_t bytes)
{
    size_t room = (bytes + 63) / 64 * 64 + 64;
    unsigned char *p = aligned_alloc(64, room);
    assert_non_null(p);
    memset(p, 0xff, room);
    return p;
}

static inline float *floats(size_t n) { return guarded(n * sizeof(float)); }

static inline void check_guard(const void *p, size_t bytes)
{
    const unsigned char *end = (const unsigned char *)p + bytes;
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(end[i], 0xff);
}

/* Uniform in [-1, 1), on a fine grid, with some exact zeros. */
static inline float random_float(uint64_t *seed)
{
    uint64_t r = test_random(seed);
    return (r & 15) == 0 ? 0.0f : (float)((double)(int64_t)(r >> 24) * 0x1p-39 - 1.0);
}

static inline void fill(float *p, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = random_float(seed);
}

static inline float *filled(size_t n, uint64_t *seed)
{
    float *p = floats(n);
    fill(p, n, seed);
    return p;
}

/* Bits, except that +0 and -0 are the same: kernels may leave out terms that are 0. Names the first difference. */
static inline void same_floats(const float *got, const float *want, size_t n, const char *table, const char *what, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got) != 0 && !(got[i] == 0.0f && want[i] == 0.0f))
            fail_msg("%s, %s: value %zu is %a, expected %a (seed %llu)", table, what, i, (double)got[i], (double)want[i],
                     (unsigned long long)seed);
}

static inline void same_bytes(const void *got, const void *want, size_t n, const char *table, const char *what, uint64_t seed)
{
    if (memcmp(got, want, n) != 0)
        fail_msg("%s, %s: bytes differ (seed %llu)", table, what, (unsigned long long)seed);
}

#endif

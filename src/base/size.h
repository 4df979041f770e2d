/* SPDX-License-Identifier: Apache-2.0
 * Sizes that cannot wrap round: true when the result fits, and only then is *out written. */
#ifndef ISO_BASE_SIZE_H
#define ISO_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool iso_size_mul(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

static inline bool iso_size_add(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}

static inline bool iso_u64_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b != 0 && a > UINT64_MAX / b)
        return false;
    *out = a * b;
    return true;
}

static inline bool iso_u64_add(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b)
        return false;
    *out = a + b;
    return true;
}

/* bytes rounded up to a multiple of `to`, a power of two. */
static inline bool iso_size_round_up(size_t bytes, size_t to, size_t *out)
{
    size_t sum;
    if (!iso_size_add(bytes, to - 1, &sum))
        return false;
    *out = sum & ~(to - 1);
    return true;
}

#endif

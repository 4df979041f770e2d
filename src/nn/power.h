/* SPDX-License-Identifier: Apache-2.0
 * Whole powers without libm: the same multiplications, so the same bits, on every machine. */
#ifndef ISO_NN_POWER_H
#define ISO_NN_POWER_H

#include <stdint.h>

/* base^n by squaring. */
static inline double iso_power(double base, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1)
            result *= base;
    return result;
}

#endif

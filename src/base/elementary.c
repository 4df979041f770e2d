/* SPDX-License-Identifier: Apache-2.0
 * ln and exp without libm: see elementary.h. Both reduce to a small interval by the exponent's bits and sum a Taylor series
 * there, its odd and even terms apart by Horner's rule; ln 2 is split in two, the upper part times any exponent being exact. */
#include "base/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33; /* 32 bits and the next 53 */

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double iso_ln(double x)
{
    const uint64_t mantissa = ((uint64_t)1 << 52) - 1, one = (uint64_t)1023 << 52;
    if (!(x >= 0x1p-1022 && x < (double)INFINITY))
        return (double)NAN;
    /* x = 2^k m with m in [sqrt 1/2, sqrt 2) */
    int k = (int)(bits_of(x) >> 52) - 1023;
    double m = of_bits((bits_of(x) & mantissa) | one);
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        k++;
    }
    /* ln m = 2 atanh s = 2 s (1 + s^2/3 + s^4/5 + ...), s = f / (2 + f), |s| < 0.172; f - s f = 2 s keeps the rounding of s
     * out of the leading term: ln m = f - s (f - 2 s^2/3 - ...) */
    double f = m - 1, s = f / (2 + f), z = s * s, zz = z * z;
    double odd = (((1.0 / 23 * zz + 1.0 / 19) * zz + 1.0 / 15) * zz + 1.0 / 11) * zz + 1.0 / 7;
    double even = (((1.0 / 21 * zz + 1.0 / 17) * zz + 1.0 / 13) * zz + 1.0 / 9) * zz + 1.0 / 5;
    double series = 2 * z * ((odd * z + even) * z + 1.0 / 3); /* two chains of products that do not wait for each other */
    return k * ln2_high + (f + (k * ln2_low + s * series - s * f));
}

double iso_exp(double x)
{
    if (x != x)
        return x;
    x = x > 700 ? 700 : x < -700 ? -700 : x;
    double scaled = x * 0x1.71547652b82fep0;
    int k = (int)(scaled + (scaled < 0 ? -0.5 : 0.5));
    double r = x - k * ln2_high - k * ln2_low, z = r * r;
    double even = ((((1 / 87178291200.0 * z + 1 / 479001600.0) * z + 1 / 3628800.0) * z + 1 / 40320.0) * z + 1 / 720.0) * z + 1 / 24.0;
    double odd = ((((1 / 6227020800.0 * z + 1 / 39916800.0) * z + 1 / 362880.0) * z + 1 / 5040.0) * z + 1 / 120.0) * z + 1 / 6.0;
    double sum = even * z + odd * r + 0.5; /* e^r = 1 + r + r^2 (1/2! + r/3! + ... + r^12/14!) */
    return (1 + (z * sum + r)) * of_bits((uint64_t)(k + 1023) << 52);
}

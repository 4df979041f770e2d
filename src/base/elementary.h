/* SPDX-License-Identifier: Apache-2.0
 * ln, exp and rounding up without libm: additions, multiplications and a division alone, so the same bits on every machine.
 * What decides who works on what must not depend on whose libm it was. */
#ifndef ISO_BASE_ELEMENTARY_H
#define ISO_BASE_ELEMENTARY_H

/* Natural logarithm, error below 1.5 ulp (measured against long double: 0.81). x > 0 and normal; anything else, infinities
 * and NaN included, gives NaN. Thread: any. */
double iso_ln(double x);

/* e^x, error below 1.5 ulp (measured: 1.0) for |x| <= 700. Beyond, x counts as +-700; NaN gives NaN. Thread: any. */
double iso_exp(double x);

/* The least whole number not below x, for 0 <= x < 2^62; larger ones come back as they are. */
static inline double iso_ceil(double x)
{
    double whole = x < 0x1p62 ? (double)(long long)x : x;
    return whole < x ? whole + 1 : whole;
}

#endif

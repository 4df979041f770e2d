/* SPDX-License-Identifier: Apache-2.0
 * ln and exp without libm: additions, multiplications and a division alone, so the same bits on every machine. What decides who
 * works on what must not depend on whose libm it was. */
#ifndef ISO_BASE_ELEMENTARY_H
#define ISO_BASE_ELEMENTARY_H

/* Natural logarithm, error below 1.5 ulp (measured against long double: 0.81). x > 0 and normal; anything else, infinities
 * and NaN included, gives NaN. Thread: any. */
double iso_ln(double x);

/* e^x, error below 1.5 ulp (measured: 1.0) for |x| <= 700. Beyond, x counts as +-700; NaN gives NaN. Thread: any. */
double iso_exp(double x);

#endif

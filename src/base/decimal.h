/* SPDX-License-Identifier: Apache-2.0
 * Exact decimal arithmetic for the rare numbers that fit nothing smaller: digits are shifted by powers of two until the
 * mantissa stands where it belongs (the method of Nigel Tao's "simple decimal conversion"). Private to base. */
#ifndef ISO_BASE_DECIMAL_H
#define ISO_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/* No double and no midpoint of two doubles has more than 768 significant digits: what is cut off behind 800 only tells
 * "more". */
#define ISO_DECIMAL_DIGITS 800

/* 0.d1d2d3... * 10^point; d1 is not 0 unless count is 0. */
typedef struct iso_decimal {
    int count, point;
    bool more;                              /* digits other than 0 were cut off behind the last */
    uint8_t digit[ISO_DECIMAL_DIGITS + 20]; /* 20: room for one left shift */
} iso_decimal;

void iso_decimal_clear(iso_decimal *d);
/* One more significant digit at the end. */
void iso_decimal_append(iso_decimal *d, int digit);
/* The nearest double (ties to even); infinity beyond the largest. Destroys *d. Wants -330 < point <= 310, count > 0. */
double iso_decimal_to_double(iso_decimal *d);

/* The double nearest to mantissa * 2^exponent (ties to even, denormals included), infinity when it is too large. The
 * mantissa's top bit is set; sticky says that the true value is a little larger. */
double iso_double_make(uint64_t mantissa, int exponent, bool sticky);

#endif

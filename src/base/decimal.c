/* SPDX-License-Identifier: Apache-2.0
 * Exact decimal arithmetic; see decimal.h. */
#include "base/decimal.h"

#include <string.h>

#define SHIFT_MAX 58 /* bits a step: 9 * 2^58 plus a carry fits in 64 bits */

double iso_double_make(uint64_t mantissa, int exponent, bool sticky)
{
    int top = exponent + 63; /* exponent of the leading bit */
    uint64_t bits = 0;
    if (top > 1023) {
        bits = (uint64_t)0x7FF << 52;
    } else {
        int drop = top >= -1022 ? 11 : 11 + (-1022 - top);
        if (drop <= 64) {
            uint64_t kept = drop < 64 ? mantissa >> drop : 0;
            uint64_t half = (uint64_t)1 << (drop - 1);
            uint64_t rest = drop < 64 ? mantissa & (half * 2 - 1) : mantissa;
            if (rest > half || (rest == half && (sticky || (kept & 1))))
                kept++;
            /* A normal number's leading bit adds the 1 that is taken from the exponent here; carries run into it by
             * themselves. */
            bits = top >= -1022 ? ((uint64_t)(top + 1022) << 52) + kept : kept;
        }
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void iso_decimal_clear(iso_decimal *d)
{
    d->count = 0;
    d->point = 0;
    d->more = false;
}

void iso_decimal_append(iso_decimal *d, int digit)
{
    if (d->count < ISO_DECIMAL_DIGITS)
        d->digit[d->count++] = (uint8_t)digit;
    else if (digit)
        d->more = true;
}

static void trim(iso_decimal *d)
{
    while (d->count > 0 && d->digit[d->count - 1] == 0)
        d->count--;
}

/* d *= 2^bits, 0 < bits <= SHIFT_MAX. The product is written from the right, 20 places further right than it was. */
static void shift_left(iso_decimal *d, int bits)
{
    uint64_t carry = 0;
    int to = d->count + 20;
    for (int i = d->count - 1; i >= 0; i--) {
        carry += (uint64_t)d->digit[i] << bits;
        d->digit[--to] = (uint8_t)(carry % 10);
        carry /= 10;
    }
    for (; carry; carry /= 10)
        d->digit[--to] = (uint8_t)(carry % 10);
    int count = d->count + 20 - to;
    d->point += count - d->count;
    memmove(d->digit, d->digit + to, (size_t)count);
    for (; count > ISO_DECIMAL_DIGITS; count--)
        d->more |= d->digit[count - 1] != 0;
    d->count = count;
    trim(d);
}

/* d /= 2^bits, 0 < bits <= SHIFT_MAX: long division, digit by digit, in place. */
static void shift_right(iso_decimal *d, int bits)
{
    uint64_t rest = 0, mask = ((uint64_t)1 << bits) - 1;
    int from = 0, to = 0;
    while (rest >> bits == 0) { /* digits until the quotient begins */
        rest = rest * 10 + (from < d->count ? d->digit[from] : 0u);
        from++;
    }
    d->point -= from - 1;
    while (from < d->count || rest) {
        uint8_t digit = (uint8_t)(rest >> bits);
        if (to < ISO_DECIMAL_DIGITS)
            d->digit[to++] = digit;
        else
            d->more |= digit != 0;
        rest = (rest & mask) * 10 + (from < d->count ? d->digit[from] : 0u);
        from++;
    }
    d->count = to;
    trim(d);
}

double iso_decimal_to_double(iso_decimal *d)
{
    int exponent = 0;
    trim(d);
    /* Bring the value into [1/2, 1): a decimal place is more than 3 bits. */
    while (d->point > 0) {
        int bits = d->point > 18 ? SHIFT_MAX : d->point * 3;
        shift_right(d, bits);
        exponent += bits;
    }
    while (d->point < 0 || d->digit[0] < 5) {
        int bits = d->point < -18 ? SHIFT_MAX : d->point < 0 ? -d->point * 3 : 1;
        shift_left(d, bits);
        exponent -= bits;
    }
    /* value = 0.d * 2^exponent; its first 64 bits are the integer part of 0.d * 2^64. */
    shift_left(d, 32);
    shift_left(d, 32);
    uint64_t mantissa = 0;
    for (int i = 0; i < d->point; i++)
        mantissa = mantissa * 10 + (i < d->count ? d->digit[i] : 0u);
    bool sticky = d->more || d->count > d->point;
    return iso_double_make(mantissa, exponent - 64, sticky);
}

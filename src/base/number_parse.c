/* SPDX-License-Identifier: Apache-2.0
 * Text to numbers, independent of the locale and correctly rounded. At most 19 digits and a small power of ten (nearly
 * every number people write) take one exact 128-bit operation; the rest goes through exact decimal arithmetic
 * (decimal.c). */
#include "base/text.h"

#include "base/decimal.h"

#define EXPONENT_CAP ((int64_t)1000000000000000) /* larger ones are out of range whatever the mantissa's length */

__extension__ typedef unsigned __int128 u128;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Exact value of at most 19 digits times 10^exponent, |exponent| <= 19. */
static double small_double(uint64_t digits, int exponent)
{
    static const uint64_t power[20] = {
        1u,
        10u,
        100u,
        1000u,
        10000u,
        100000u,
        1000000u,
        10000000u,
        100000000u,
        1000000000u,
        10000000000u,
        100000000000u,
        1000000000000u,
        10000000000000u,
        100000000000000u,
        1000000000000000u,
        10000000000000000u,
        100000000000000000u,
        1000000000000000000u,
        10000000000000000000u,
    };
    u128 value;
    int binary = 0;
    bool sticky = false;
    if (exponent >= 0) {
        value = (u128)digits * power[exponent];
    } else {
        int zeros = __builtin_clzll(digits);
        u128 numerator = (u128)(digits << zeros) << 64;
        value = numerator / power[-exponent];
        sticky = value * power[-exponent] != numerator;
        binary = -zeros - 64;
    }
    uint64_t high = (uint64_t)(value >> 64);
    if (high) {
        int shift = 64 - __builtin_clzll(high);
        sticky |= (uint64_t)(value & (((u128)1 << shift) - 1)) != 0;
        return iso_double_make((uint64_t)(value >> shift), binary + shift, sticky);
    }
    int zeros = __builtin_clzll((uint64_t)value);
    return iso_double_make((uint64_t)value << zeros, binary - zeros, sticky);
}

typedef struct mantissa {
    iso_decimal decimal; /* all significant digits, for the exact path */
    uint64_t digits;     /* the first 19 of them as a number */
    size_t significant;  /* how many there are */
    int64_t point;       /* value = 0.d1d2d3... * 10^point */
    bool any;            /* at least one digit was there */
} mantissa;

/* Reads digits [point digits] from text at *at. */
static void scan_mantissa(mantissa *m, const char *text, size_t length, size_t *at, char point)
{
    bool fraction = false;
    iso_decimal_clear(&m->decimal);
    m->digits = 0;
    m->significant = 0;
    m->point = 0;
    m->any = false;
    for (; *at < length; ++*at) {
        char c = text[*at];
        if (c == point && !fraction) {
            fraction = true;
            continue;
        }
        if (!is_digit(c))
            break;
        m->any = true;
        if (m->significant == 0 && c == '0') {
            m->point -= fraction;
            continue;
        }
        if (m->significant < 19)
            m->digits = m->digits * 10 + (uint64_t)(c - '0');
        iso_decimal_append(&m->decimal, c - '0');
        m->significant++;
        m->point += !fraction;
    }
}

/* Reads e[+-]digits if it is there in full. */
static int64_t scan_exponent(const char *text, size_t length, size_t *at)
{
    size_t i = *at;
    if (i >= length || (text[i] != 'e' && text[i] != 'E'))
        return 0;
    i++;
    bool negative = i < length && text[i] == '-';
    if (i < length && (text[i] == '-' || text[i] == '+'))
        i++;
    if (i >= length || !is_digit(text[i]))
        return 0;
    int64_t value = 0;
    for (; i < length && is_digit(text[i]); i++)
        if (value < EXPONENT_CAP)
            value = value * 10 + (text[i] - '0');
    *at = i;
    return negative ? -value : value;
}

iso_parse iso_parse_double_point(const char *text, size_t length, char point, double *out)
{
    if (length == 0)
        return ISO_PARSE_EMPTY;
    bool negative = text[0] == '-';
    size_t at = text[0] == '-' || text[0] == '+';
    mantissa m;
    scan_mantissa(&m, text, length, &at, point);
    if (!m.any)
        return ISO_PARSE_NOT_NUMBER;
    m.point += scan_exponent(text, length, &at);
    if (at != length)
        return ISO_PARSE_TRAILING;
    double value = 0;
    if (m.significant > 0 && m.point > 310)
        return ISO_PARSE_RANGE;
    if (m.significant > 0 && m.point > -330) {
        int64_t exponent = m.point - (int64_t)m.significant;
        if (m.significant <= 19 && exponent >= -19 && exponent <= 19) {
            value = small_double(m.digits, (int)exponent);
        } else {
            m.decimal.point = (int)m.point;
            value = iso_decimal_to_double(&m.decimal);
        }
        if (value > 0x1.fffffffffffffp1023)
            return ISO_PARSE_RANGE;
    }
    *out = negative ? -value : value;
    return ISO_PARSE_OK;
}

iso_parse iso_parse_double(const char *text, size_t length, double *out)
{
    return iso_parse_double_point(text, length, '.', out);
}

/* Digits to an unsigned number; sign and bounds are the callers'. */
static iso_parse scan_unsigned(const char *text, size_t length, uint64_t *out)
{
    uint64_t value = 0;
    bool overflow = false;
    size_t i = 0;
    for (; i < length && is_digit(text[i]); i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        overflow |= value > (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    if (i == 0)
        return ISO_PARSE_NOT_NUMBER;
    if (i != length)
        return ISO_PARSE_TRAILING;
    *out = value;
    return overflow ? ISO_PARSE_RANGE : ISO_PARSE_OK;
}

iso_parse iso_parse_u64(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *out)
{
    if (length == 0)
        return ISO_PARSE_EMPTY;
    bool negative = text[0] == '-';
    size_t sign = text[0] == '-' || text[0] == '+';
    uint64_t value = 0;
    iso_parse result = scan_unsigned(text + sign, length - sign, &value);
    if (result != ISO_PARSE_OK)
        return result;
    if (negative && value != 0)
        return ISO_PARSE_RANGE;
    if (value < min || value > max)
        return ISO_PARSE_RANGE;
    *out = value;
    return ISO_PARSE_OK;
}

iso_parse iso_parse_i64(const char *text, size_t length, int64_t min, int64_t max, int64_t *out)
{
    if (length == 0)
        return ISO_PARSE_EMPTY;
    bool negative = text[0] == '-';
    size_t sign = text[0] == '-' || text[0] == '+';
    uint64_t magnitude = 0;
    iso_parse result = scan_unsigned(text + sign, length - sign, &magnitude);
    if (result != ISO_PARSE_OK)
        return result;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return ISO_PARSE_RANGE;
    int64_t value = magnitude > INT64_MAX ? INT64_MIN : negative ? -(int64_t)magnitude : (int64_t)magnitude;
    if (value < min || value > max)
        return ISO_PARSE_RANGE;
    *out = value;
    return ISO_PARSE_OK;
}

bool iso_parse_hex(const char *text, size_t digits, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        const char c = text[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = value;
    return true;
}

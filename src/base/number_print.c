/* SPDX-License-Identifier: Apache-2.0
 * Numbers to text, independent of the locale: the C library gives correctly rounded digits, and whatever the locale put
 * between them as a decimal point is replaced by position, never by asking for the locale. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

typedef struct digits {
    bool negative;
    char digit[24];      /* significant digits, trailing zeros removed, at least one */
    int count, exponent; /* value = d1.d2d3... * 10^exponent */
} digits;

/* The `count` significant digits of a finite value. */
static digits digits_of(double value, int count)
{
    char text[64];
    digits d = {.negative = false};
    snprintf(text, sizeof text, "%.*e", count - 1, value);
    const char *p = text;
    if (*p == '-') {
        d.negative = true;
        p++;
    }
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9' && d.count < (int)sizeof d.digit)
            d.digit[d.count++] = *p;
    while (d.count > 1 && d.digit[d.count - 1] == '0')
        d.count--;
    if (*p == 'e') {
        bool minus = p[1] == '-';
        for (p += 2; *p; p++)
            d.exponent = d.exponent * 10 + (*p - '0');
        if (minus)
            d.exponent = -d.exponent;
    }
    return d;
}

static char *put_zeros(char *p, int count)
{
    for (; count > 0; count--)
        *p++ = '0';
    return p;
}

static char *put_digits(char *p, const char *digit, int count)
{
    memcpy(p, digit, (size_t)count);
    return p + count;
}

/* Plain notation for exponents -5..16, else d.ddde-XX; at most 25 bytes. */
static size_t lay_out(char *out, const digits *d)
{
    char *p = out;
    if (d->negative)
        *p++ = '-';
    if (d->exponent < -5 || d->exponent > 16) {
        *p++ = d->digit[0];
        if (d->count > 1)
            *p++ = '.';
        p = put_digits(p, d->digit + 1, d->count - 1);
        int magnitude = d->exponent < 0 ? -d->exponent : d->exponent;
        *p++ = 'e';
        *p++ = d->exponent < 0 ? '-' : '+';
        if (magnitude >= 100)
            *p++ = (char)('0' + magnitude / 100);
        *p++ = (char)('0' + magnitude / 10 % 10);
        *p++ = (char)('0' + magnitude % 10);
    } else if (d->exponent < 0) {
        *p++ = '0';
        *p++ = '.';
        p = put_zeros(p, -d->exponent - 1);
        p = put_digits(p, d->digit, d->count);
    } else {
        int whole = d->exponent + 1 < d->count ? d->exponent + 1 : d->count;
        p = put_digits(p, d->digit, whole);
        p = put_zeros(p, d->exponent + 1 - whole);
        if (d->count > whole) {
            *p++ = '.';
            p = put_digits(p, d->digit + whole, d->count - whole);
        }
    }
    *p = '\0';
    return (size_t)(p - out);
}

/* nan, inf, zero and whole numbers, which need no search; 0 when the value is none of them. */
static size_t print_special(char out[ISO_NUMBER_TEXT], double value)
{
    if (value != value)
        return (size_t)snprintf(out, ISO_NUMBER_TEXT, "nan");
    bool negative = __builtin_signbit(value) != 0;
    double magnitude = negative ? -value : value;
    if (magnitude > 0x1.fffffffffffffp1023)
        return (size_t)snprintf(out, ISO_NUMBER_TEXT, negative ? "-inf" : "inf");
    if (magnitude < 1e15 && magnitude == (double)(int64_t)magnitude)
        return (size_t)snprintf(out, ISO_NUMBER_TEXT, "%s%lld", negative ? "-" : "", (long long)magnitude);
    return 0;
}

size_t iso_print_double(char out[ISO_NUMBER_TEXT], double value)
{
    size_t length = print_special(out, value);
    /* 15 digits always survive text -> double -> text, so a value with a short text shows it here; 17 tell any two
     * apart. Denormals have fewer bits: there every number of digits is tried. */
    bool normal = value >= 0x1p-1022 || value <= -0x1p-1022;
    for (int count = normal ? 15 : 1; length == 0; count++) {
        digits d = digits_of(value, count);
        size_t written = lay_out(out, &d);
        double back = 0;
        if (count == 17 || (iso_parse_double(out, written, &back) == ISO_PARSE_OK && back == value))
            length = written;
    }
    return length;
}

size_t iso_print_float(char out[ISO_NUMBER_TEXT], float value)
{
    size_t length = print_special(out, (double)value);
    bool normal = value >= 0x1p-126f || value <= -0x1p-126f;
    for (int count = normal ? 6 : 1; length == 0; count++) {
        digits d = digits_of((double)value, count);
        size_t written = lay_out(out, &d);
        double back = 0;
        if (count == 9 || (iso_parse_double(out, written, &back) == ISO_PARSE_OK && (float)back == value))
            length = written;
    }
    return length;
}

size_t iso_print_fixed(char out[ISO_NUMBER_TEXT], double value, int places)
{
    char text[400];
    if (value != value || value - value != 0)
        return print_special(out, value);
    int length = snprintf(text, sizeof text, "%.*f", places, value);
    /* text is digits, the locale's point (some bytes), `places` digits. */
    char *p = out;
    size_t end = (size_t)length - (size_t)places;
    size_t whole = text[0] == '-';
    while (whole < end && text[whole] >= '0' && text[whole] <= '9')
        whole++;
    if (whole + 1 + (size_t)places >= ISO_NUMBER_TEXT)
        return iso_print_double(out, value);
    memcpy(p, text, whole);
    p += whole;
    if (places > 0) {
        *p++ = '.';
        memcpy(p, text + end, (size_t)places);
        p += places;
    }
    *p = '\0';
    return (size_t)(p - out);
}

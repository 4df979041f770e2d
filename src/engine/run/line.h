/* SPDX-License-Identifier: Apache-2.0
 * Text of a log's line, written in place: a round of a small network takes half a millisecond, so a line must cost
 * little. The caller has reserved the room. Each function returns the place behind what it wrote. Place: engine. */
#ifndef ISO_ENGINE_RUN_LINE_H
#define ISO_ENGINE_RUN_LINE_H

#include <stdint.h>
#include <string.h>

static inline char *iso_line_text(char *at, const char *s)
{
    size_t n = strlen(s);
    memcpy(at, s, n);
    return at + n;
}

/* At most 20 digits. */
static inline char *iso_line_number(char *at, uint64_t v)
{
    char digit[20];
    int n = 0;
    do
        digit[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n > 0)
        *at++ = digit[--n];
    return at;
}

#endif

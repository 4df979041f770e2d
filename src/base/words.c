/* SPDX-License-Identifier: Apache-2.0
 * Words a person mistyped, and whether bytes are text. */
#include "base/text.h"

#include <string.h>

#define WORD_MAX 63u

static char folded(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment (Levenshtein plus swaps of neighbours), three rows of the table at a time. */
size_t iso_word_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > WORD_MAX || m > WORD_MAX)
        return n > m ? n : m;
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = above[j - 1] + (folded(a[i - 1]) != folded(b[j - 1]));
            row[j] = least(change, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]))
                row[j] = least(row[j], higher[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

const char *iso_nearest_word(const char *word, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        size_t distance = iso_word_distance(word, words[i]);
        size_t length = strlen(word) > strlen(words[i]) ? strlen(word) : strlen(words[i]);
        if (distance * 3 <= length && (!nearest || distance < best)) {
            nearest = words[i];
            best = distance;
        }
    }
    return nearest;
}

bool iso_is_utf8(const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    while (p < end) {
        unsigned char c = *p++;
        if (c == 0)
            return false;
        if (c < 0x80)
            continue;
        int more = c >= 0xC2 && c <= 0xDF ? 1 : (c & 0xF0) == 0xE0 ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : 0;
        if (more == 0 || end - p < more)
            return false;
        /* The second byte excludes long forms, surrogates and what lies beyond U+10FFFF. */
        unsigned char low = c == 0xE0   ? 0xA0
                            : c == 0xF0 ? 0x90
                                        : 0x80,
                      high = c == 0xED   ? 0x9F
                             : c == 0xF4 ? 0x8F
                                         : 0xBF;
        if (p[0] < low || p[0] > high)
            return false;
        for (int i = 1; i < more; i++)
            if ((p[i] & 0xC0) != 0x80)
                return false;
        p += more;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * Numbers and words in text, the same in every locale: nothing here asks or sets one. Parsing is strict: the whole text
 * must be one number (no blanks, no hexadecimal, no inf or nan), and doubles are rounded correctly. */
#ifndef ISO_BASE_TEXT_H
#define ISO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum iso_parse {
    ISO_PARSE_OK,
    ISO_PARSE_EMPTY, /* no text at all */
    ISO_PARSE_NOT_NUMBER,
    ISO_PARSE_TRAILING, /* a number, then something else */
    ISO_PARSE_RANGE     /* does not fit the type or the given bounds */
} iso_parse;

/* [+-] digits [. digits] [e [+-] digits], at least one digit in the mantissa. Overflow is ISO_PARSE_RANGE; a value too
 * small becomes a denormal or 0. *out is written on ISO_PARSE_OK only. */
iso_parse iso_parse_double(const char *text, size_t length, double *out);

/* The same with another character for the decimal point. */
iso_parse iso_parse_double_point(const char *text, size_t length, char point, double *out);

/* [+-] digits within [min, max]. */
iso_parse iso_parse_i64(const char *text, size_t length, int64_t min, int64_t max, int64_t *out);
iso_parse iso_parse_u64(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *out);

/* Exactly `digits` (at most 16) of 0..9 and a..f, no NUL needed; *out is written on success only. */
bool iso_parse_hex(const char *text, size_t digits, uint64_t *out);

#define ISO_NUMBER_TEXT 32 /* bytes that hold any printed number */

/* The shortest decimal text that reads back as the same value, C locale, NUL-terminated ("0.1", "1e-09", "3", "-0",
 * "nan", "inf"). Returns its length. JSON has no nan or inf: the caller writes null. */
size_t iso_print_double(char out[ISO_NUMBER_TEXT], double value);
size_t iso_print_float(char out[ISO_NUMBER_TEXT], float value);

/* A fixed number of places (0..9) behind the point; a value too long for that is printed by iso_print_double. */
size_t iso_print_fixed(char out[ISO_NUMBER_TEXT], double value, int places);

/* Letters to change, add, remove or swap to make b of a; lengths above 63 compare as unequal (returns the longer
 * length). */
size_t iso_word_distance(const char *a, const char *b);

/* The word of a list nearest to `word`, for "did you mean"; NULL when none is near (more than a third of its letters
 * differ). Upper and lower case, '-' and '_' count as equal. */
const char *iso_nearest_word(const char *word, const char *const *words, size_t count);

/* Is text[0..length) valid UTF-8 without NUL? */
bool iso_is_utf8(const char *text, size_t length);

#endif

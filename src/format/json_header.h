/* SPDX-License-Identifier: Apache-2.0
 * A pull parser for the JSON of a safetensors header. A general library was tried: jansson loses characters of a string
 * without a word when its token buffer cannot grow, takes its memory from functions of the process, and copies every
 * name several times; a header needs strings, whole numbers and a way past the rest. Texts are gathered, decoded and
 * NUL-terminated, in one buffer and are named by their offset in it, since the buffer moves as it grows. Private to
 * src/format. */
#ifndef ISO_FORMAT_JSON_HEADER_H
#define ISO_FORMAT_JSON_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define ISO_JSON_DEPTH_MAX 64u

typedef struct iso_json {
    const uint8_t *bytes;
    size_t size, at;
    size_t file_offset; /* of bytes[0], for messages */
    iso_buffer *texts;
} iso_json;

void iso_json_begin(iso_json *j, const uint8_t *bytes, size_t size, size_t file_offset, iso_buffer *texts);

/* The next byte that is not blank, or -1 at the end. */
int iso_json_peek(iso_json *j);

/* Takes c if it is next (blanks before it are passed over). */
bool iso_json_take(iso_json *j, char c);

/* A string; *text is its offset in texts. ISO_E_FORMAT, ISO_E_NOMEM. */
int iso_json_string(iso_json *j, size_t *text, iso_error *e);

/* A whole number of at most INT64_MAX without fraction or exponent; false (and nothing taken) when something else is
 * next. */
bool iso_json_whole(iso_json *j, uint64_t *out);

/* Passes over any value. ISO_E_FORMAT, ISO_E_NOMEM. */
int iso_json_skip(iso_json *j, iso_error *e);

/* ISO_E_FORMAT: what is next, and what was wanted. */
int iso_json_error(const iso_json *j, const char *wanted, iso_error *e);

#endif

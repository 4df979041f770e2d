/* SPDX-License-Identifier: Apache-2.0
 * A byte buffer that grows. Failure is sticky: after the first allocation that failed (or beyond `limit`) nothing more
 * is written and `failed` stays set, so that a writer of many pieces checks once. */
#ifndef ISO_BASE_BUFFER_H
#define ISO_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"

typedef struct iso_buffer {
    uint8_t *bytes; /* aligned to ISO_ALIGN; NULL while capacity is 0 */
    size_t size, capacity, limit;
    const iso_alloc *alloc;
    bool failed;
} iso_buffer;

/* An empty buffer; alloc NULL means the default. It never holds more than `limit` bytes (0: no limit). */
void iso_buffer_init(iso_buffer *b, const iso_alloc *alloc, size_t limit);
/* Gives the memory back; the buffer is then empty and usable. */
void iso_buffer_fini(iso_buffer *b);
/* Empties it, keeps the memory, clears `failed`. */
void iso_buffer_clear(iso_buffer *b);
/* Makes room for `more` bytes behind size without changing size; false and failed when it cannot. */
bool iso_buffer_reserve(iso_buffer *b, size_t more);
/* `more` bytes to be filled by the caller, already counted in size; NULL and failed when there is no room. */
void *iso_buffer_add(iso_buffer *b, size_t more);
bool iso_buffer_put(iso_buffer *b, const void *bytes, size_t count);
bool iso_buffer_text(iso_buffer *b, const char *text);
bool iso_buffer_format(iso_buffer *b, const char *format, ...) ISO_PRINTF(2, 3);
/* A double by iso_print_double. */
bool iso_buffer_number(iso_buffer *b, double value);
/* A JSON string with its quotes: quotes, backslashes and control characters escaped; bytes that are not UTF-8 become
 * U+FFFD. */
bool iso_buffer_json(iso_buffer *b, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * A byte buffer that grows by half; see buffer.h. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

#define FIRST_CAPACITY 256u

void iso_buffer_init(iso_buffer *b, const iso_alloc *alloc, size_t limit)
{
    *b = (iso_buffer){.alloc = alloc, .limit = limit ? limit : SIZE_MAX};
}

void iso_buffer_fini(iso_buffer *b)
{
    iso_free(b->alloc, b->bytes);
    iso_buffer_init(b, b->alloc, b->limit);
}

void iso_buffer_clear(iso_buffer *b)
{
    b->size = 0;
    b->failed = false;
}

bool iso_buffer_reserve(iso_buffer *b, size_t more)
{
    size_t wanted;
    if (b->failed)
        return false;
    if (!iso_size_add(b->size, more, &wanted) || wanted > b->limit) {
        b->failed = true;
        return false;
    }
    if (wanted <= b->capacity)
        return true;
    size_t capacity = b->capacity + b->capacity / 2; /* cannot wrap: a block is at most half of the address space */
    if (capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    if (capacity < wanted)
        capacity = wanted;
    if (capacity > b->limit)
        capacity = b->limit;
    uint8_t *bytes = iso_new_raw(b->alloc, capacity, 1);
    if (!bytes) {
        b->failed = true;
        return false;
    }
    if (b->size)
        memcpy(bytes, b->bytes, b->size);
    iso_free(b->alloc, b->bytes);
    b->bytes = bytes;
    b->capacity = capacity;
    return true;
}

void *iso_buffer_add(iso_buffer *b, size_t more)
{
    if (!iso_buffer_reserve(b, more))
        return NULL;
    uint8_t *room = b->bytes ? b->bytes + b->size : NULL;
    b->size += more;
    return room;
}

bool iso_buffer_put(iso_buffer *b, const void *bytes, size_t count)
{
    void *room = iso_buffer_add(b, count);
    if (room && count)
        memcpy(room, bytes, count);
    return !b->failed;
}

bool iso_buffer_text(iso_buffer *b, const char *text)
{
    return iso_buffer_put(b, text, strlen(text));
}

bool iso_buffer_format(iso_buffer *b, const char *format, ...)
{
    char line[512];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0) {
        b->failed = true;
    } else if ((size_t)length < sizeof line) {
        iso_buffer_put(b, line, (size_t)length);
    } else if (iso_buffer_reserve(b, (size_t)length + 1)) { /* vsnprintf writes the NUL behind the text */
        vsnprintf((char *)b->bytes + b->size, (size_t)length + 1, format, again);
        b->size += (size_t)length;
    }
    va_end(again);
    return !b->failed;
}

bool iso_buffer_number(iso_buffer *b, double value)
{
    char text[ISO_NUMBER_TEXT];
    return iso_buffer_put(b, text, iso_print_double(text, value));
}

/* Appends one character of a JSON string; returns the bytes of input it used. */
static size_t put_json_character(iso_buffer *b, const char *text, size_t left)
{
    unsigned char c = (unsigned char)text[0];
    size_t length = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (c == '"' || c == '\\') {
        const char escaped[2] = {'\\', (char)c};
        iso_buffer_put(b, escaped, 2);
    } else if (c < 0x20 || c == 0x7F) {
        iso_buffer_format(b, "\\u%04x", c);
    } else if (length <= left && iso_is_utf8(text, length)) {
        iso_buffer_put(b, text, length);
        return length;
    } else {
        iso_buffer_put(b, "\xEF\xBF\xBD", 3);
    }
    return 1;
}

bool iso_buffer_json(iso_buffer *b, const char *text)
{
    iso_buffer_put(b, "\"", 1);
    for (size_t left = strlen(text); left;) {
        size_t used = put_json_character(b, text, left);
        text += used;
        left -= used;
    }
    return iso_buffer_put(b, "\"", 1);
}

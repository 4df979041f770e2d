/* SPDX-License-Identifier: Apache-2.0
 * The JSON of a safetensors header. See json_header.h for why it is not parsed by a general library. */
#include "format/json_header.h"

#include <string.h>

#include "base/text.h"

void iso_json_begin(iso_json *j, const uint8_t *bytes, size_t size, size_t file_offset, iso_buffer *texts)
{
    *j = (iso_json){.bytes = bytes, .size = size, .file_offset = file_offset, .texts = texts};
}

int iso_json_error(const iso_json *j, const char *wanted, iso_error *e)
{
    if (j->at >= j->size)
        return iso_error_set(e, ISO_E_FORMAT, "the header is not JSON: it ends at byte %zu, %s wanted",
                             j->file_offset + j->at, wanted);
    return iso_error_set(e, ISO_E_FORMAT, "the header is not JSON: byte %zu is 0x%02x, %s wanted",
                         j->file_offset + j->at, j->bytes[j->at], wanted);
}

static void skip_blanks(iso_json *j)
{
    while (j->at < j->size &&
           (j->bytes[j->at] == ' ' || j->bytes[j->at] == '\n' || j->bytes[j->at] == '\r' || j->bytes[j->at] == '\t'))
        j->at++;
}

int iso_json_peek(iso_json *j)
{
    skip_blanks(j);
    return j->at < j->size ? j->bytes[j->at] : -1;
}

bool iso_json_take(iso_json *j, char c)
{
    if (iso_json_peek(j) != (unsigned char)c)
        return false;
    j->at++;
    return true;
}

static int hex_value(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hexadecimal digits; -1 when they are not there. */
static int32_t hex4(iso_json *j)
{
    int32_t value = 0;
    if (j->size - j->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(j->bytes[j->at + (size_t)i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    j->at += 4;
    return value;
}

static void put_utf8(iso_buffer *b, uint32_t c)
{
    uint8_t out[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3F));
    out[0] = (uint8_t)(lead[n] | c);
    iso_buffer_put(b, out, n);
}

/* What follows \u, with its second half if it is a surrogate. */
static int unicode_escape(iso_json *j, iso_error *e)
{
    int32_t c = hex4(j);
    if (c >= 0xD800 && c < 0xDC00 && j->size - j->at >= 2 && j->bytes[j->at] == '\\' && j->bytes[j->at + 1] == 'u') {
        j->at += 2;
        int32_t low = hex4(j);
        c = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00) : -1;
    }
    if (c <= 0 || (c >= 0xD800 && c < 0xE000))
        return iso_json_error(j, "a valid \\u escape (not 0)", e);
    put_utf8(j->texts, (uint32_t)c);
    return ISO_OK;
}

static int escape(iso_json *j, iso_error *e)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = j->at < j->size ? j->bytes[j->at] : 0;
    const char *found = c ? strchr(from, c) : NULL;
    if (!found && c != 'u')
        return iso_json_error(j, "an escape", e);
    j->at++;
    if (c == 'u')
        return unicode_escape(j, e);
    iso_buffer_put(j->texts, to + (found - from), 1);
    return ISO_OK;
}

int iso_json_string(iso_json *j, size_t *text, iso_error *e)
{
    if (!iso_json_take(j, '"'))
        return iso_json_error(j, "a string", e);
    *text = j->texts->size;
    for (;;) {
        size_t begin = j->at;
        while (j->at < j->size && j->bytes[j->at] >= 0x20 && j->bytes[j->at] != '"' && j->bytes[j->at] != '\\')
            j->at++;
        if (!iso_is_utf8((const char *)j->bytes + begin, j->at - begin)) {
            j->at = begin;
            return iso_json_error(j, "UTF-8 text", e);
        }
        iso_buffer_put(j->texts, j->bytes + begin, j->at - begin);
        if (j->at >= j->size || j->bytes[j->at] < 0x20)
            return iso_json_error(j, "the end of a string", e);
        if (j->bytes[j->at++] == '"')
            break;
        int status = escape(j, e);
        if (status != ISO_OK)
            return status;
    }
    iso_buffer_put(j->texts, "", 1);
    return j->texts->failed ? iso_error_set(e, ISO_E_NOMEM, "out of memory for the header's texts") : ISO_OK;
}

bool iso_json_whole(iso_json *j, uint64_t *out)
{
    iso_json_peek(j);
    size_t begin = j->at;
    while (j->at < j->size && j->bytes[j->at] >= '0' && j->bytes[j->at] <= '9')
        j->at++;
    size_t length = j->at - begin;
    int next = j->at < j->size ? j->bytes[j->at] : 0;
    bool plain = next != '.' && next != 'e' && next != 'E' && (length == 1 || (length > 1 && j->bytes[begin] != '0'));
    if (plain && iso_parse_u64((const char *)j->bytes + begin, length, 0, INT64_MAX, out) == ISO_PARSE_OK)
        return true;
    j->at = begin;
    return false;
}

/* A number, true, false or null. */
static int skip_word(iso_json *j, iso_error *e)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (j->size - j->at >= length && memcmp(j->bytes + j->at, words[i], length) == 0) {
            j->at += length;
            return ISO_OK;
        }
    }
    size_t begin = j->at;
    while (j->at < j->size && j->bytes[j->at] != 0 && strchr("+-.eE0123456789", j->bytes[j->at]))
        j->at++;
    double value;
    iso_parse result = iso_parse_double((const char *)j->bytes + begin, j->at - begin, &value);
    if (result == ISO_PARSE_OK || result == ISO_PARSE_RANGE)
        return ISO_OK;
    j->at = begin;
    return iso_json_error(j, "a value", e);
}

static int skip_value(iso_json *j, unsigned depth, iso_error *e);

/* The members of an object or the items of an array behind the bracket. */
static int skip_members(iso_json *j, bool object, unsigned depth, iso_error *e)
{
    char end = object ? '}' : ']';
    size_t mark = j->texts->size, key;
    if (iso_json_take(j, end))
        return ISO_OK;
    do {
        int status = object ? iso_json_string(j, &key, e) : ISO_OK;
        if (status == ISO_OK && object && !iso_json_take(j, ':'))
            status = iso_json_error(j, "a colon", e);
        if (status == ISO_OK)
            status = skip_value(j, depth + 1, e);
        if (status != ISO_OK)
            return status;
        j->texts->size = mark; /* nobody keeps these texts */
    } while (iso_json_take(j, ','));
    return iso_json_take(j, end) ? ISO_OK : iso_json_error(j, object ? "a comma or }" : "a comma or ]", e);
}

static int skip_value(iso_json *j, unsigned depth, iso_error *e)
{
    if (depth > ISO_JSON_DEPTH_MAX)
        return iso_json_error(j, "less nesting", e);
    size_t mark = j->texts->size, text;
    int next = iso_json_peek(j);
    if (next == '"') {
        int status = iso_json_string(j, &text, e);
        if (status == ISO_OK)
            j->texts->size = mark;
        return status;
    }
    if (next == '{' || next == '[') {
        j->at++;
        return skip_members(j, next == '{', depth, e);
    }
    return skip_word(j, e);
}

int iso_json_skip(iso_json *j, iso_error *e)
{
    return skip_value(j, 1, e);
}

/* SPDX-License-Identifier: Apache-2.0
 * The table of data formats, and choosing one of them by content and name. */
#include "data/reader.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "data/dataset.h"

static const iso_data_reader *const readers[] = {
    &iso_reader_idx,
};
#define READER_COUNT (sizeof readers / sizeof *readers)

const char *iso_format_at(uint32_t index)
{
    return index < READER_COUNT ? readers[index]->name : NULL;
}

static const iso_data_reader *find_reader(const char *name)
{
    for (size_t i = 0; i < READER_COUNT; i++)
        if (strcmp(readers[i]->name, name) == 0)
            return readers[i];
    return NULL;
}

const char *iso_format_help(const char *format)
{
    const iso_data_reader *reader = find_reader(format);
    return reader ? reader->help : NULL;
}

const char *iso_guess_content(const uint8_t *bytes, size_t size)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *text;
    } known[] = {
        {"\x1f\x8b", 2, "gzip: it is compressed twice"},
        {"PK\003\004", 4, "a zip archive"},
        {"\x89PNG", 4, "a PNG image"},
        {"\xff\xd8\xff", 3, "a JPEG image"},
        {"\x93NUMPY", 6, "a NumPy array"},
        {"BZh", 3, "bzip2: decompress it first"},
        {"\xfd"
         "7zXZ",
         5, "xz: decompress it first"},
        {"\x28\xb5\x2f\xfd", 4, "Zstandard: decompress it first"},
        {"\x80\002", 2, "a Python pickle"},
        {"\x80\003", 2, "a Python pickle"},
        {"\x80\004", 2, "a Python pickle"},
        {"version https://git-lfs", 23, "a Git LFS pointer: the data itself was not fetched"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size >= known[i].size && memcmp(bytes, known[i].magic, known[i].size) == 0)
            return known[i].text;
    size_t at = 0;
    while (at < size && (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t'))
        at++;
    if (at < size && bytes[at] == '<')
        return "an HTML or XML page: a failed download?";
    if (iso_is_utf8((const char *)bytes, size < 64 ? size : 64))
        return "text";
    return NULL;
}

/* "idx, csv, ..." */
static void list_names(char *out, size_t room)
{
    size_t at = 0;
    for (size_t i = 0; i < READER_COUNT && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, i ? ", %s" : "%s", readers[i]->name);
}

/* Fills e for bytes that no reader wants. */
static int unknown_format(const uint8_t *bytes, size_t size, iso_error *e)
{
    char first[32] = "", *p = first;
    for (size_t i = 0; i < size && i < 4; i++)
        p += snprintf(p, 4, i ? " %02x" : "%02x", bytes[i]);
    char names[200] = "";
    list_names(names, sizeof names);
    const char *guess = iso_guess_content(bytes, size);
    return iso_error_set(e, ISO_E_FORMAT, "not a known data format (%s): it begins with the bytes %s%s%s", names, first,
                         guess ? ", which is " : "", guess ? guess : "");
}

/* The reader that was asked for, or the surest one. */
static int choose(const uint8_t *bytes, size_t size, const char *name, const char *format, const iso_data_reader **out,
                  iso_error *e)
{
    if (format && strcmp(format, "auto") != 0) {
        *out = find_reader(format);
        if (*out)
            return ISO_OK;
        const char *words[READER_COUNT + 1];
        for (uint32_t i = 0; i < READER_COUNT; i++)
            words[i] = readers[i]->name;
        words[READER_COUNT] = "auto";
        char names[200] = "";
        list_names(names, sizeof names);
        const char *near = iso_nearest_word(format, words, READER_COUNT + 1);
        return iso_error_set(e, ISO_E_ARGUMENT, "unknown data format \"%s\"%s%s%s; formats are auto, %s", format,
                             near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "", names);
    }
    iso_sniff best = ISO_SNIFF_NO;
    for (size_t i = 0; i < READER_COUNT; i++) {
        iso_sniff sure = readers[i]->sniff(bytes, size, name);
        if (sure > best) {
            best = sure;
            *out = readers[i];
        }
    }
    return best == ISO_SNIFF_NO ? unknown_format(bytes, size, e) : ISO_OK;
}

/* The last part of a path, without ".gz", cut to fit. */
static void bare_name(const char *path, char *out, size_t room)
{
    const char *slash = strrchr(path, '/');
    snprintf(out, room, "%s", slash && slash[1] ? slash + 1 : path);
    size_t length = strlen(out);
    if (length > 3 && strcmp(out + length - 3, ".gz") == 0)
        out[length - 3] = '\0';
}

int iso_data_read(iso_bytes *bytes, const iso_read_options *options, const iso_alloc *a, iso_dataset *out, iso_error *e)
{
    iso_read_options o = options ? *options : (iso_read_options){0};
    if (!o.name)
        o.name = "data";
    char name[256];
    bare_name(o.name, name, sizeof name);
    const iso_data_reader *reader = NULL;
    bool borrows = false;
    *out = (iso_dataset){.alloc = a};
    int status = bytes->size ? choose(bytes->bytes, bytes->size, name, o.format, &reader, e)
                             : iso_error_set(e, ISO_E_FORMAT, "the file is empty");
    if (status == ISO_OK)
        status = reader->read(bytes->bytes, bytes->size, &o, out, &borrows, e);
    if (status != ISO_OK) {
        iso_dataset_free(out);
        iso_error_prefix(e, "%s: ", o.name);
        return status;
    }
    if (borrows) {
        out->borrowed[0] = *bytes;
        *bytes = (iso_bytes){0};
    }
    iso_dataset_finish(out);
    return ISO_OK;
}

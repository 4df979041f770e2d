/* SPDX-License-Identifier: Apache-2.0
 * The usual names of data files. A name is taken apart as
 *
 *   [PREFIX{-|_|.}] {train|t10k|test|valid...} {-|_|.} {images|labels} [{-|_|.} idxN [{-|_|.} TYPE]] [.idx] [.gz]
 *
 * where TYPE is ubyte, byte, short, int, float or double; upper and lower case are alike. "train" and its prefix make a
 * set: a folder may hold one (or one prefix that has both train and test). What begins with a dot is hidden (a file
 * manager's notes, an editor's lock, a copy half made) and is never data. */
#include "isochron/data.h"

#include <stdio.h>
#include <string.h>

typedef enum part { PART_TRAIN, PART_TEST } part;
typedef enum content { CONTENT_SAMPLES, CONTENT_LABELS } content;

typedef struct parsed_name {
    size_t prefix; /* its length; the prefix begins the name */
    part which;
    bool has_part; /* false: images-idx3-ubyte alone, which pairs but belongs to no folder */
    content holds;
    bool gzip;
} parsed_name;

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_separator(char c)
{
    return c == '-' || c == '_' || c == '.';
}

/* Does text[0..length) end with `word`, upper and lower case alike? */
static bool ends_with(const char *text, size_t length, const char *word)
{
    size_t n = strlen(word);
    if (n > length)
        return false;
    for (size_t i = 0; i < n; i++)
        if (lower(text[length - n + i]) != word[i])
            return false;
    return true;
}

/* Takes `word` and a separator before it off the end. */
static bool strip(const char *text, size_t *length, const char *word)
{
    if (!ends_with(text, *length, word))
        return false;
    *length -= strlen(word);
    if (*length > 0 && is_separator(text[*length - 1]))
        --*length;
    return true;
}

/* Takes off "idx3-ubyte", "idx3", ".idx" or nothing. */
static void strip_format(const char *text, size_t *length)
{
    static const char *const element[] = {"ubyte", "byte", "short", "int", "float", "double", NULL};
    static const char *const rank[] = {"idx1", "idx2", "idx3", "idx4", "idx", NULL};
    for (int i = 0; element[i] && !strip(text, length, element[i]); i++)
        continue;
    for (int i = 0; rank[i] && !strip(text, length, rank[i]); i++)
        continue;
}

static bool is_hidden(const char *name)
{
    return name[0] == '.';
}

static bool parse_name(const char *name, parsed_name *out)
{
    size_t length = strlen(name);
    *out = (parsed_name){0};
    if (is_hidden(name))
        return false;
    out->gzip = strip(name, &length, "gz");
    strip_format(name, &length);
    if (strip(name, &length, "images"))
        out->holds = CONTENT_SAMPLES;
    else if (strip(name, &length, "labels"))
        out->holds = CONTENT_LABELS;
    else
        return false;
    out->has_part = true;
    if (strip(name, &length, "train"))
        out->which = PART_TRAIN;
    else if (strip(name, &length, "t10k") || strip(name, &length, "test"))
        out->which = PART_TEST;
    else
        out->has_part = false;
    out->prefix = length;
    return true;
}

static bool same_prefix(const char *a, size_t n, const char *b, size_t m)
{
    return n == m && memcmp(a, b, n) == 0;
}

bool iso_folder_pairs(const char *samples, const char *labels)
{
    parsed_name s, l;
    return parse_name(samples, &s) && parse_name(labels, &l) && s.holds == CONTENT_SAMPLES &&
           l.holds == CONTENT_LABELS && s.has_part == l.has_part && s.which == l.which &&
           same_prefix(samples, s.prefix, labels, l.prefix);
}

bool iso_folder_same(const char *one, const char *other)
{
    parsed_name a, b;
    return parse_name(one, &a) && parse_name(other, &b) && a.holds == b.holds && a.has_part == b.has_part &&
           a.which == b.which && same_prefix(one, a.prefix, other, b.prefix);
}

/* The place of a name in the result. */
static int64_t *place(iso_folder *f, const parsed_name *n)
{
    if (n->which == PART_TRAIN)
        return n->holds == CONTENT_SAMPLES ? &f->train_samples : &f->train_labels;
    return n->holds == CONTENT_SAMPLES ? &f->test_samples : &f->test_labels;
}

/* The files of one set; a plain file wins over its .gz. */
static iso_folder collect(const char *const *names, size_t count, const char *prefix, size_t prefix_length)
{
    iso_folder f = {-1, -1, -1, -1};
    for (size_t i = 0; i < count; i++) {
        parsed_name n, before;
        if (!parse_name(names[i], &n) || !n.has_part || !same_prefix(names[i], n.prefix, prefix, prefix_length))
            continue;
        int64_t *at = place(&f, &n);
        if (*at < 0 || (parse_name(names[*at], &before) && before.gzip && !n.gzip))
            *at = (int64_t)i;
    }
    return f;
}

static int nothing_found(const char *const *names, size_t count, iso_error *e)
{
    char there[300] = "";
    size_t at = 0, shown = 0, more = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_hidden(names[i]))
            continue;
        if (shown == 6 || at + 80 >= sizeof there)
            more++;
        else
            at += (size_t)snprintf(there + at, sizeof there - at, "%s%.60s", shown++ ? ", " : "", names[i]);
    }
    if (more)
        snprintf(there + at, sizeof there - at, ", and %zu more", more);
    return iso_error_set(
        e, ISO_E_FORMAT,
        "no data set found; looked for train-images-idx3-ubyte and train-labels-idx1-ubyte (test: t10k-... or "
        "test-...; also with a prefix, with idx4, with dots, and each with .gz); there %s %s. Rename the files, or "
        "name them with data.path and data.labels",
        shown ? "are:" : "is",
        shown   ? there
        : count ? "nothing but hidden files in the folder"
                : "nothing in the folder");
}

static int several_found(const char *a, size_t n, const char *b, size_t m, iso_error *e)
{
    return iso_error_set(e, ISO_E_FORMAT,
                         "several data sets: \"%.*s\" and \"%.*s\"; name one file with data.path (and data.test)",
                         n > 60 ? 60 : (int)n, a, m > 60 ? 60 : (int)m, b);
}

/* The one prefix of the samples of a part; *prefix stays NULL when there is none. */
static int find_prefix(const char *const *names, size_t count, part which, const char **prefix, size_t *length,
                       iso_error *e)
{
    for (size_t i = 0; i < count; i++) {
        parsed_name n;
        if (!parse_name(names[i], &n) || !n.has_part || n.which != which || n.holds != CONTENT_SAMPLES)
            continue;
        if (*prefix && !same_prefix(*prefix, *length, names[i], n.prefix))
            return several_found(*prefix, *length, names[i], n.prefix, e);
        *prefix = names[i];
        *length = n.prefix;
    }
    return ISO_OK;
}

int iso_folder_find(const char *const *names, size_t count, iso_folder *out, iso_error *e)
{
    const char *prefix = NULL;
    size_t length = 0;
    *out = (iso_folder){-1, -1, -1, -1};
    int status = find_prefix(names, count, PART_TRAIN, &prefix, &length, e);
    if (status == ISO_OK && !prefix)
        status = find_prefix(names, count, PART_TEST, &prefix, &length, e);
    if (status != ISO_OK)
        return status;
    if (!prefix)
        return nothing_found(names, count, e);
    iso_folder f = collect(names, count, prefix, length);
    if (f.train_samples >= 0 && f.train_labels < 0)
        return iso_error_set(e, ISO_E_FORMAT,
                             "there is %s, but no file of its labels (train-labels-idx1-ubyte, plain or .gz)",
                             names[f.train_samples]);
    if (f.test_samples >= 0 && f.test_labels < 0)
        return iso_error_set(e, ISO_E_FORMAT,
                             "there is %s, but no file of its labels (t10k-labels-idx1-ubyte, plain or .gz)",
                             names[f.test_samples]);
    *out = f;
    return ISO_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 * One scalar of the job file into the job, by the type of its row. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/schema.h"
#include "job/words.h"

static int wrong(const job_row *row, const char *wants, const char *text, iso_error *e)
{
    char shown[ISO_SHOW_BYTES];
    if (!text[0])
        return iso_error_set(e, ISO_E_JOB, "%s has no value; it wants %s", row->path, wants);
    return iso_error_set(e, ISO_E_JOB, "%s wants %s, found %s", row->path, wants, iso_job_show(shown, text));
}

static int set_text(char *to, size_t size, const job_row *row, const char *text, iso_error *e)
{
    size_t length = strlen(text);
    if (length >= size)
        return iso_error_set(e, ISO_E_JOB, "%s is longer than %zu bytes", row->path, size - 1);
    if (!iso_is_utf8(text, length))
        return iso_error_set(e, ISO_E_JOB, "%s is not valid UTF-8", row->path);
    memcpy(to, text, length + 1);
    return ISO_OK;
}

/* A name becomes part of a path: no slash in it, and neither "." nor "..". */
static int set_name(char *to, size_t size, const job_row *row, const char *text, iso_error *e)
{
    if (strchr(text, '/') || !strcmp(text, ".") || !strcmp(text, ".."))
        return wrong(row, "a name without a slash", text, e);
    return set_text(to, size, row, text, e);
}

static int set_whole(void *to, const job_row *row, const char *text, iso_error *e)
{
    uint64_t max = row->max >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)row->max;
    uint64_t min = (uint64_t)row->min, value = 0;
    bool whole = iso_parse_u64(text, strlen(text), min, max, &value) == ISO_PARSE_OK;
    if (!whole || (row->multiple && value % row->multiple)) {
        char wants[160], multiple[40] = "", hint[60] = "";
        double real = 0;
        if (row->multiple)
            snprintf(multiple, sizeof multiple, ", a multiple of %u", row->multiple);
        if (iso_parse_double(text, strlen(text), &real) == ISO_PARSE_OK && !whole && strpbrk(text, ".eE") &&
            real == floor(real) && real >= (double)min && real <= (double)max && real < 1e15)
            snprintf(hint, sizeof hint, " (write %.0f)", real);
        snprintf(wants, sizeof wants, "a whole number from %llu to %llu%s%s%s", (unsigned long long)min,
                 (unsigned long long)max, multiple, row->flags & JOB_AUTO ? ", or auto" : "", hint);
        return wrong(row, wants, text, e);
    }
    if (row->type == JOB_U32)
        *(uint32_t *)to = (uint32_t)value;
    else
        *(uint64_t *)to = value;
    return ISO_OK;
}

static int set_real(double *to, const job_row *row, const char *text, iso_error *e)
{
    double value;
    bool number = iso_parse_double(text, strlen(text), &value) == ISO_PARSE_OK;
    bool low = number && (row->flags & JOB_ABOVE ? value <= row->min : value < row->min);
    bool high = number && (row->flags & JOB_BELOW ? value >= row->max : value > row->max);
    if (number && !low && !high) {
        *to = value == 0 ? 0 : value; /* no negative zero */
        return ISO_OK;
    }
    char wants[160], min[ISO_NUMBER_TEXT], max[ISO_NUMBER_TEXT];
    iso_print_double(min, row->min);
    iso_print_double(max, row->max);
    snprintf(wants, sizeof wants, "a number %s %s and %s %s%s", row->flags & JOB_ABOVE ? "above" : "from", min,
             row->flags & JOB_BELOW ? "below" : "up to", max, row->flags & JOB_AUTO ? ", or auto" : "");
    return wrong(row, wants, text, e);
}

static int set_bool(bool *to, const job_row *row, const char *text, iso_error *e)
{
    bool yes = !strcmp(text, "true") || !strcmp(text, "True") || !strcmp(text, "TRUE");
    bool no = !strcmp(text, "false") || !strcmp(text, "False") || !strcmp(text, "FALSE");
    if (!yes && !no)
        return wrong(row, "true or false", text, e);
    *to = yes;
    return ISO_OK;
}

static int set_choice(void *to, const job_row *row, const char *text, iso_error *e)
{
    int count = 0;
    for (; row->words[count]; count++)
        if (!strcmp(row->words[count], text)) {
            memcpy(to, &count, sizeof count);
            return ISO_OK;
        }
    return iso_job_unknown(e, row->path, "word", text, row->words, (size_t)count);
}

static int set_preset(iso_job *job, const job_row *row, const char *text, iso_error *e)
{
    const char *words[32];
    size_t count = 0;
    for (const char *name; count < 32 && (name = iso_preset_at((uint32_t)count)); count++) {
        words[count] = name;
        if (!strcmp(name, text))
            return set_text(job->model.preset, sizeof job->model.preset, row, text, e);
    }
    return iso_job_unknown(e, "model", "preset", text, words, count);
}

static int set_validation(iso_job_data *data, const job_row *row, const char *text, iso_error *e)
{
    double share;
    if (iso_parse_double(text, strlen(text), &share) != ISO_PARSE_OK) {
        int r = set_text(data->validation_path, sizeof data->validation_path, row, text, e);
        if (!r)
            data->validation = 0;
        return r;
    }
    if (share < 0 || share >= 1)
        return wrong(row, "a share from 0 and below 1, or the path of a set", text, e);
    data->validation = share == 0 ? 0 : share;
    data->validation_path[0] = 0;
    return ISO_OK;
}

int iso_job_value_set(iso_job *job, const job_row *row, const char *text, iso_error *e)
{
    void *to = (char *)job + row->offset;
    bool automatic = row->flags & JOB_AUTO && !strcmp(text, "auto");
    switch (row->type) {
    case JOB_PATH:
        return set_text(to, ISO_PATH_MAX, row, text, e);
    case JOB_WORD:
        return set_text(to, ISO_WORD_MAX, row, text, e);
    case JOB_NAME:
        return set_name(to, sizeof job->name, row, text, e);
    case JOB_U32:
        if (!automatic)
            return set_whole(to, row, text, e);
        *(uint32_t *)to = 0;
        return ISO_OK;
    case JOB_U64:
        return set_whole(to, row, text, e);
    case JOB_REAL:
        if (!automatic)
            return set_real(to, row, text, e);
        *(double *)to = NAN;
        return ISO_OK;
    case JOB_BOOL:
        return set_bool(to, row, text, e);
    case JOB_CHOICE:
        return set_choice(to, row, text, e);
    case JOB_PRESET:
        return set_preset(job, row, text, e);
    case JOB_VALIDATION:
        return set_validation(&job->data, row, text, e);
    case JOB_SYNC:
        return iso_job_sync_set(job, text, e);
    case JOB_WIDTHS:
        return wrong(row, "a list of whole numbers, [256, 128]", text, e);
    case JOB_LAYERS:
        return wrong(row, "a list of layers", text, e);
    case JOB_SECTION:
        break;
    }
    return wrong(row, "keys with values", text, e);
}

/* SPDX-License-Identifier: Apache-2.0
 * A job as text, and the difference of two jobs. What is written parses back to the same job (a test holds it to that):
 * every key is there but texts and lists that are empty, strings are quoted when a reader of YAML could take them for
 * something else. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash64.h"
#include "base/text.h"
#include "isochron/core.h"
#include "job/schema.h"
#include "job/words.h"

/* Counts everything, keeps what fits. */
typedef struct writer {
    char *out;
    size_t capacity, length;
} writer;

static void put(writer *w, const char *text, size_t length)
{
    if (w->length < w->capacity) {
        size_t room = w->capacity - w->length;
        memcpy(w->out + w->length, text, length < room ? length : room);
    }
    w->length += length;
}

static void put_text(writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_number(writer *w, double value)
{
    char text[ISO_NUMBER_TEXT];
    put(w, text, iso_print_double(text, value));
}

static void put_whole(writer *w, uint64_t value)
{
    char text[24];
    put(w, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)value));
}

static void put_integer(writer *w, int64_t value)
{
    put_text(w, value < 0 ? "-" : "");
    put_whole(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static bool is_plain(const char *text)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_0123456789.-+";
    static const char *const taken[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    if (!strchr(first, text[0]) || strspn(text, rest) != strlen(text))
        return false;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        size_t same = 0;
        while (text[same] && (text[same] | 32) == taken[i][same])
            same++;
        if (!text[same] && !taken[i][same])
            return false;
    }
    return true;
}

/* Bytes of the character at c that YAML does not take as it stands: control characters, NEL, line separators, BOM,
 * U+FFFE. *code is its number; 0 for a character that may stand. The text is valid UTF-8. */
static size_t must_escape(const unsigned char *c, unsigned *code)
{
    *code = c[0];
    if (c[0] < 32 || c[0] == 127)
        return 1;
    *code = (unsigned)((c[0] & 31) << 6 | (c[1] & 63));
    if (c[0] == 0xC2 && c[1] < 0xA0)
        return 2;
    if (c[0] >= 0xE0 && c[0] < 0xF0) {
        *code = (unsigned)((c[0] & 15) << 12 | (c[1] & 63) << 6 | (c[2] & 63));
        if (*code == 0x2028 || *code == 0x2029 || *code == 0xFEFF || *code >= 0xFFFE)
            return 3;
    }
    return 0;
}

static void put_string(writer *w, const char *text)
{
    if (text[0] && is_plain(text)) {
        put_text(w, text);
        return;
    }
    put_text(w, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        unsigned code;
        size_t bytes = must_escape(c, &code);
        if (bytes) {
            char escape[12];
            put(w, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04X", code));
            c += bytes;
            continue;
        }
        if (*c == '"' || *c == '\\')
            put_text(w, "\\");
        put(w, (const char *)c++, 1);
    }
    put_text(w, "\"");
}

static void put_layer(writer *w, const iso_layer_spec *layer)
{
    uint32_t count;
    const iso_option *options = iso_layer_kind_options(layer->kind, &count);
    put_text(w, iso_layer_kind_name(layer->kind));
    if (!count && !layer->name[0])
        return;
    put_text(w, ": {");
    for (uint32_t i = 0; i < count; i++) {
        put_text(w, i ? ", " : "");
        put_text(w, options[i].name);
        put_text(w, ": ");
        if (options[i].type == ISO_OPTION_CHOICE)
            put_text(w, options[i].choices[(uint32_t)layer->value[i]]);
        else if (options[i].type == ISO_OPTION_BOOL)
            put_text(w, layer->value[i] != 0 ? "true" : "false");
        else if (options[i].type == ISO_OPTION_INT)
            put_integer(w, (int64_t)layer->value[i]);
        else
            put_number(w, layer->value[i]);
    }
    if (layer->name[0]) {
        put_text(w, count ? ", name: " : "name: ");
        put_string(w, layer->name);
    }
    put_text(w, "}");
}

static void put_layers(writer *w, const iso_model *model)
{
    put_text(w, "[");
    for (uint32_t i = 0; i < model->count; i++) {
        put_text(w, i ? ",\n    " : "\n    ");
        put_layer(w, &model->layer[i]);
    }
    put_text(w, "]");
}

static void put_widths(writer *w, const iso_job_net *m)
{
    put_text(w, "[");
    for (uint32_t i = 0; i < m->hidden_count; i++) {
        put_text(w, i ? ", " : "");
        put_whole(w, m->hidden[i]);
    }
    put_text(w, "]");
}

/* The policy's name, or {policy: name, key: value, ...}. */
static void put_sync(writer *w, const iso_job *job)
{
    if (!job->parameters[0]) {
        put_string(w, job->policy);
        return;
    }
    put_text(w, "{policy: ");
    put_string(w, job->policy);
    for (const char *at = job->parameters; *at;) {
        char pair[ISO_SYNC_MAX];
        size_t length = strcspn(at, ":");
        snprintf(pair, sizeof pair, "%.*s", (int)length, at);
        at += length + (at[length] == ':');
        char *sign = strchr(pair, '=');
        if (!sign)
            continue;
        *sign = 0;
        put_text(w, ", ");
        put_text(w, pair);
        put_text(w, ": ");
        double number;
        if (iso_parse_double(sign + 1, strlen(sign + 1), &number) == ISO_PARSE_OK)
            put_text(w, sign + 1);
        else
            put_string(w, sign + 1);
    }
    put_text(w, "}");
}

/* A row's value as the file spells it; false (and nothing written) when it is an empty text or list. */
static bool put_value(writer *w, const iso_job *job, const job_row *row)
{
    const void *at = (const char *)job + row->offset;
    double real;
    uint32_t small;
    uint64_t large;
    int choice;
    switch (row->type) {
    case JOB_PATH:
    case JOB_WORD:
    case JOB_NAME:
    case JOB_PRESET:
        if (!*(const char *)at)
            return false;
        put_string(w, at);
        return true;
    case JOB_U32:
        memcpy(&small, at, sizeof small);
        if (!small && row->flags & JOB_AUTO)
            put_text(w, "auto");
        else
            put_whole(w, small);
        return true;
    case JOB_U64:
        memcpy(&large, at, sizeof large);
        put_whole(w, large);
        return true;
    case JOB_REAL:
        memcpy(&real, at, sizeof real);
        if (isnan(real))
            put_text(w, "auto");
        else
            put_number(w, real);
        return true;
    case JOB_BOOL:
        put_text(w, *(const bool *)at ? "true" : "false");
        return true;
    case JOB_CHOICE:
        memcpy(&choice, at, sizeof choice);
        put_text(w, row->words[choice]);
        return true;
    case JOB_VALIDATION:
        if (job->data.validation_path[0])
            put_string(w, job->data.validation_path);
        else
            put_number(w, job->data.validation);
        return true;
    case JOB_WIDTHS:
        if (job->model.hidden_count)
            put_widths(w, &job->model);
        return job->model.hidden_count;
    case JOB_LAYERS:
        if (job->model.layers.count)
            put_layers(w, &job->model.layers);
        return job->model.layers.count;
    case JOB_SYNC:
        put_sync(w, job);
        return true;
    case JOB_SECTION:
        break;
    }
    return false;
}

/* What a row decides, in one spelling: a place counts as given or not, a policy by the values of all its parameters. */
static bool put_deciding(writer *w, const iso_job *job, const job_row *row)
{
    iso_policy_spec spec;
    uint32_t count;
    if (row->type == JOB_VALIDATION ? job->data.validation_path[0]
                                    : row->flags & JOB_PLACE && ((const char *)job)[row->offset]) {
        put_text(w, "a path");
        return true;
    }
    const iso_policy *policy = row->type == JOB_SYNC ? iso_policy_find(job->policy) : NULL;
    if (!policy)
        return put_value(w, job, row);
    iso_policy_spec_default(&spec, policy);
    iso_policy_spec_parse(&spec, job->parameters, NULL); /* it was read before, or was written by hand and is refused */
    iso_policy_parameters(policy, &count);
    put_text(w, job->policy);
    for (uint32_t i = 0; i < count; i++) {
        put_text(w, " ");
        put_number(w, spec.value[i]);
    }
    return true;
}

/* deciding: what may differ at a resume is left out. */
static size_t write_rows(const iso_job *job, bool deciding, char *out, size_t capacity)
{
    writer w = {out, capacity ? capacity - 1 : 0, 0};
    for (uint32_t i = 0; i < iso_job_row_count; i++) {
        const job_row *row = &iso_job_rows[i];
        writer before = w;
        if (deciding && row->flags & JOB_RESUME)
            continue;
        for (const char *dot = row->path; (dot = strchr(dot, '.')); dot++)
            put_text(&w, "  ");
        put_text(&w, iso_job_row_word(row));
        put_text(&w, row->type == JOB_SECTION ? ":" : ": ");
        if (row->type == JOB_SECTION || (deciding ? put_deciding : put_value)(&w, job, row))
            put_text(&w, "\n");
        else
            w = before;
    }
    if (capacity)
        out[w.length < capacity ? w.length : capacity - 1] = 0;
    return w.length;
}

size_t iso_job_write(const iso_job *job, char *out, size_t capacity)
{
    return write_rows(job, false, out, capacity);
}

int iso_job_digest(const iso_job *job, const iso_alloc *a, uint64_t *out, iso_error *e)
{
    size_t length = write_rows(job, true, NULL, 0);
    char *text = iso_new_raw(a, length + 1, 1);
    if (!text)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for the job's text");
    iso_hash64 h;
    write_rows(job, true, text, length + 1);
    iso_hash64_init(&h);
    iso_hash64_add(&h, text, length);
    *out = iso_hash64_value(&h);
    iso_free(a, text);
    return ISO_OK;
}

static bool layers_equal(const iso_model *a, const iso_model *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t count;
        iso_layer_kind_options(a->layer[i].kind, &count);
        if (a->layer[i].kind != b->layer[i].kind || strcmp(a->layer[i].name, b->layer[i].name))
            return false;
        for (uint32_t o = 0; o < count; o++)
            if (a->layer[i].value[o] != b->layer[i].value[o])
                return false;
    }
    return true;
}

/* A value on one line, cut when it is long. */
#define SHOWN_BYTES 200u
static void show_value(char out[SHOWN_BYTES], const iso_job *job, const job_row *row)
{
    writer w = {out, SHOWN_BYTES - 1, 0};
    if (!put_value(&w, job, row))
        put_text(&w, "not set");
    out[w.length < SHOWN_BYTES ? w.length : SHOWN_BYTES - 1] = 0;
    if (w.length >= SHOWN_BYTES)
        memcpy(out + SHOWN_BYTES - 4, "...", 4);
    for (char *c = out; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

/* Do they decide the same? Long texts are compared where they live. */
static bool values_equal(const iso_job *a, const iso_job *b, const job_row *row)
{
    char one[ISO_SYNC_MAX * 4], two[ISO_SYNC_MAX * 4];
    switch (row->type) {
    case JOB_WORD:
    case JOB_PRESET:
        return !strcmp((const char *)a + row->offset, (const char *)b + row->offset);
    case JOB_LAYERS:
        return layers_equal(&a->model.layers, &b->model.layers);
    default:
        break;
    }
    writer x = {one, sizeof one, 0}, y = {two, sizeof two, 0};
    put_deciding(&x, a, row);
    put_deciding(&y, b, row);
    return x.length == y.length && !memcmp(one, two, x.length < sizeof one ? x.length : sizeof one);
}

int iso_job_difference(const iso_job *before, const iso_job *now, iso_error *e)
{
    char list[4 * SHOWN_BYTES] = "";
    size_t at = 0;
    unsigned found = 0, shown = 0;
    for (uint32_t i = 0; i < iso_job_row_count; i++) {
        const job_row *row = &iso_job_rows[i];
        if (row->type == JOB_SECTION || row->flags & JOB_RESUME || values_equal(before, now, row))
            continue;
        char old[SHOWN_BYTES], fresh[SHOWN_BYTES], one[3 * SHOWN_BYTES];
        show_value(old, before, row);
        show_value(fresh, now, row);
        int length = snprintf(one, sizeof one, "%s%s was %s in the run to resume and is %s now", found ? "; " : "",
                              row->path, old, fresh);
        if (at + (size_t)length < sizeof list) {
            memcpy(list + at, one, (size_t)length + 1);
            at += (size_t)length;
            shown++;
        }
        found++;
    }
    if (!found)
        return ISO_OK;
    return iso_error_set(e, ISO_E_MISMATCH,
                         "%s%s; only name, engine, workers, throttle, checkpoint, out and where the same data lie may change; to train on "
                         "otherwise begin a new run with its weights: --init %s --out NEW",
                         list, shown < found ? "; and more" : "", before->out[0] ? before->out : "RUN");
}

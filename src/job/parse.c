/* SPDX-License-Identifier: Apache-2.0
 * A tree into a job, driven by the schema table: the file, --set, and flags. The caller's job changes on success only.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/schema.h"
#include "job/words.h"

typedef struct reader {
    job_source source;
    iso_job *job;
    bool seen[JOB_ROWS_MAX];      /* by row: a key that comes twice is an error */
    iso_error *e;
} reader;

int iso_job_fail_at(const job_source *s, uint32_t node, iso_error *e)
{
    iso_place at = iso_tree_node(s->tree, node)->at;
    if (s->file)
        iso_error_prefix(e, "%s:%u:%u: ", s->file, at.line, at.column);
    return e ? e->code : ISO_E_JOB;
}

bool iso_job_node_is_null(const tree *t, uint32_t node)
{
    if (iso_tree_node(t, node)->kind != TREE_SCALAR || !iso_tree_node(t, node)->plain)
        return false;
    const char *text = iso_tree_text(t, node);
    return !text[0] || !strcmp(text, "~") || !strcmp(text, "null") || !strcmp(text, "Null") || !strcmp(text, "NULL");
}

const char *iso_job_node_shown(const job_source *s, uint32_t node, char out[80])
{
    tree_kind kind = iso_tree_node(s->tree, node)->kind;
    if (kind == TREE_SCALAR && !iso_job_node_is_null(s->tree, node))
        return iso_job_show(out, iso_tree_text(s->tree, node));
    return kind == TREE_LIST ? "a list" : kind == TREE_MAP ? "keys with values" : "nothing";
}

static int fail(reader *r, uint32_t node)
{
    return iso_job_fail_at(&r->source, node, r->e);
}

/* What a wrong key may mean: one of `words`, else the path of a key that has this name in any section. */
static const char *near_key(const char *word, const char *const *words, size_t count)
{
    const char *names[JOB_ROWS_MAX], *near = iso_nearest_word(word, words, count), *dot = strrchr(word, '.');
    if (near)
        return near;
    for (uint32_t i = 0; i < iso_job_row_count; i++)
        names[i] = iso_job_row_word(&iso_job_rows[i]);
    const char *name = iso_nearest_word(dot ? dot + 1 : word, names, iso_job_row_count);
    for (uint32_t i = 0; name && i < iso_job_row_count; i++)
        if (names[i] == name)
            return iso_job_rows[i].path;
    return NULL;
}

static int unknown_key(reader *r, const job_row *section, uint32_t key)
{
    const char *word = iso_tree_text(r->source.tree, key);
    const job_row *dotted = section ? NULL : iso_job_row_find(word, strlen(word));
    if (dotted) {
        const char *name = iso_job_row_word(dotted);
        iso_error_set(r->e, ISO_E_JOB, "unknown key '%s'; in a file %s stands inside %.*s", word, name,
                      (int)(name - dotted->path - 1), dotted->path);
        return fail(r, key);
    }
    const char *words[JOB_ROWS_MAX] = {NULL};
    size_t count = 0;
    for (uint32_t i = 0; i < iso_job_row_count; i++)
        if (iso_job_row_is_in(&iso_job_rows[i], section))
            words[count++] = iso_job_row_word(&iso_job_rows[i]);
    iso_job_unknown_near(r->e, section ? section->path : "", "key", word, near_key(word, words, count), words, count);
    return fail(r, key);
}

static int read_value(reader *r, const job_row *row, uint32_t node);

/* Recursion is as deep as the schema: three. */
static int read_section(reader *r, const job_row *section, uint32_t map)
{
    const tree *t = r->source.tree;
    for (uint32_t key = iso_tree_node(t, map)->child; key;) {
        uint32_t value = iso_tree_node(t, key)->next;
        const job_row *row = iso_job_row_in(section, iso_tree_text(t, key));
        if (!row)
            return unknown_key(r, section, key);
        bool *seen = &r->seen[row - iso_job_rows];
        if (*seen) {
            iso_error_set(r->e, ISO_E_JOB, "%s is there twice", row->path);
            return fail(r, key);
        }
        *seen = true;
        iso_place at = r->source.file ? iso_tree_node(t, key)->at : (iso_place){0, 0};
        if (!strcmp(row->path, "data"))
            r->job->data_at = at;
        else if (!strcmp(row->path, "model"))
            r->job->model_at = at;
        int result = read_value(r, row, value);
        if (result)
            return result;
        key = iso_tree_node(t, value)->next;
    }
    return ISO_OK;
}

/* [256, 128], or 256 for [256]. */
static int read_widths(reader *r, const job_row *row, uint32_t node)
{
    const tree *t = r->source.tree;
    bool list = iso_tree_node(t, node)->kind == TREE_LIST;
    const uint32_t most = sizeof r->job->model.hidden / sizeof *r->job->model.hidden;
    uint32_t count = 0;
    for (uint32_t item = list ? iso_tree_node(t, node)->child : node; item; item = iso_tree_node(t, item)->next) {
        const char *text = iso_tree_node(t, item)->kind == TREE_SCALAR ? iso_tree_text(t, item) : "";
        uint64_t width;
        if (count == most) {
            iso_error_set(r->e, ISO_E_JOB, "%s has more than %u widths", row->path, most);
            return fail(r, item);
        }
        if (iso_parse_u64(text, strlen(text), (uint64_t)row->min, (uint64_t)row->max, &width) != ISO_PARSE_OK) {
            char shown[ISO_SHOW_BYTES];
            iso_error_set(r->e, ISO_E_JOB, "%s wants whole numbers from %.0f to %.0f, found %s", row->path, row->min,
                          row->max, iso_job_node_shown(&r->source, item, shown));
            return fail(r, item);
        }
        r->job->model.hidden[count++] = (uint32_t)width;
        if (!list)
            break;
    }
    r->job->model.hidden_count = count;
    return ISO_OK;
}

static int read_scalar(reader *r, const job_row *row, uint32_t node)
{
    const tree *t = r->source.tree;
    iso_place at = r->source.file ? iso_tree_node(t, node)->at : (iso_place){0, 0};
    if (row->type == JOB_SYNC)
        r->job->sync_at = at;
    else if (!strcmp(row->path, "data.path"))
        r->job->path_at = at;
    if (iso_tree_node(t, node)->kind == TREE_SCALAR && !iso_job_node_is_null(t, node))
        return iso_job_value_set(r->job, row, iso_tree_text(t, node), r->e) ? fail(r, node) : ISO_OK;
    if (iso_job_node_is_null(t, node))
        iso_error_set(r->e, ISO_E_JOB, "%s has no value", row->path);
    else
        iso_error_set(r->e, ISO_E_JOB, "%s wants one value, found %s", row->path,
                      iso_tree_node(t, node)->kind == TREE_LIST ? "a list" : "keys with values");
    return fail(r, node);
}

static int read_value(reader *r, const job_row *row, uint32_t node)
{
    tree_kind kind = iso_tree_node(r->source.tree, node)->kind;
    if (row->type == JOB_SECTION && kind != TREE_MAP && row->standard[0] &&
        !iso_job_node_is_null(r->source.tree, node)) {
        iso_job_row_defaults(r->job, row);
        return read_value(r, iso_job_row_in(row, row->standard), node);
    }
    if (row->type == JOB_SECTION && kind == TREE_MAP) {
        iso_job_row_defaults(r->job, row);
        return read_section(r, row, node);
    }
    if (row->type == JOB_SECTION && kind == TREE_LIST) {
        iso_error_set(r->e, ISO_E_JOB, "%s wants keys with values, found a list", row->path);
        return fail(r, node);
    }
    if (row->type == JOB_WIDTHS && !iso_job_node_is_null(r->source.tree, node))
        return read_widths(r, row, node);
    if (row->type == JOB_LAYERS && kind == TREE_LIST)
        return iso_job_layers_set(&r->job->model.layers, &r->source, node, r->e);
    if (row->type == JOB_SYNC && kind == TREE_MAP) {
        r->job->sync_at = r->source.file ? iso_tree_node(r->source.tree, node)->at : (iso_place){0, 0};
        return iso_job_sync_set_map(r->job, &r->source, node, r->e);
    }
    return read_scalar(r, row, node);
}

int iso_job_parse(iso_job *job, const char *file, const char *text, size_t length, const iso_alloc *a, iso_error *e)
{
    if (strlen(file) >= sizeof job->file)
        return iso_error_set(e, ISO_E_JOB, "the job file's name is longer than %zu bytes", sizeof job->file - 1);
    tree t;
    int result = iso_tree_parse(&t, file, text, length, a, e);
    if (result)
        return result;
    iso_job fresh = *job;
    snprintf(fresh.file, sizeof fresh.file, "%s", file);
    fresh.data_at = fresh.path_at = fresh.model_at = fresh.sync_at = (iso_place){0, 0};
    reader r = {.source = {&t, file}, .job = &fresh, .e = e};
    if (t.root && iso_tree_node(&t, t.root)->kind == TREE_MAP) {
        result = read_section(&r, NULL, t.root);
    } else if (t.root && !iso_job_node_is_null(&t, t.root)) {
        iso_error_set(e, ISO_E_JOB, "a job file is a map of keys with values: data: PATH, model: NAME, ...");
        result = fail(&r, t.root);
    }
    iso_tree_clear(&t);
    if (!result)
        *job = fresh;
    return result;
}

/* The row of a dotted path, or NULL with the message. */
static const job_row *row_of(const char *key, size_t length, iso_error *e)
{
    const job_row *row = iso_job_row_find(key, length);
    if (row)
        return row;
    const char *words[JOB_ROWS_MAX];
    char word[ISO_WORD_MAX];
    for (uint32_t i = 0; i < iso_job_row_count; i++)
        words[i] = iso_job_rows[i].path;
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), key);
    iso_job_unknown_near(e, "", "key", word, near_key(word, words, iso_job_row_count), words, iso_job_row_count);
    return NULL;
}

/* What a flag has set no longer stands in the file. */
static void forget_place(iso_job *job, const char *path)
{
    if (!strcmp(path, "data") || !strcmp(path, "data.path"))
        job->path_at = (iso_place){0, 0};
    else if (!strncmp(path, "model", 5))
        job->model_at = (iso_place){0, 0};
    else if (!strcmp(path, "sync"))
        job->sync_at = (iso_place){0, 0};
}

int iso_job_set(iso_job *job, const char *assignment, const iso_alloc *a, iso_error *e)
{
    char shown[ISO_SHOW_BYTES];
    const char *sign = strchr(assignment, '=');
    if (!sign || sign == assignment)
        return iso_error_set(e, ISO_E_JOB,
                             "--set %s: write --set KEY=VALUE, for example --set optimizer.learning_rate=0.1",
                             iso_job_show(shown, assignment));
    tree t;
    int result = ISO_OK;
    iso_job fresh = *job;
    reader r = {.source = {&t, NULL}, .job = &fresh, .e = e};
    const job_row *row = row_of(assignment, (size_t)(sign - assignment), e);
    if (!row)
        result = ISO_E_JOB;
    else
        result = iso_tree_parse(&t, NULL, sign + 1, strlen(sign + 1), a, e);
    if (!result) {
        if (t.root)
            result = read_value(&r, row, t.root);
        else
            result = iso_error_set(e, ISO_E_JOB, "%s has no value", row->path);
        iso_tree_clear(&t);
    }
    if (!result) {
        forget_place(&fresh, row->path);
        *job = fresh;
    } else if (result == ISO_E_JOB) {
        iso_error_prefix(e, "--set %s: ", iso_job_show(shown, assignment));
    }
    return result;
}

int iso_job_set_text(iso_job *job, const char *flag, const char *key, const char *value, iso_error *e)
{
    const job_row *row = row_of(key, strlen(key), e);
    if (!row) {
        iso_error_prefix(e, "%s: ", flag);
        return ISO_E_JOB;
    }
    iso_job fresh = *job;
    forget_place(&fresh, row->path);
    if (row->type == JOB_SECTION && row->standard[0]) {
        iso_job_row_defaults(&fresh, row);
        row = iso_job_row_in(row, row->standard);
    }
    int result = iso_job_value_set(&fresh, row, value, e);
    if (result) {
        iso_error_prefix(e, "%s: ", flag);
        return result;
    }
    *job = fresh;
    return ISO_OK;
}

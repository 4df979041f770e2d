/* SPDX-License-Identifier: Apache-2.0
 * Metadata of model files and checkpoints. */
#include "engine/run/card.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/text.h"

#define CARD_VERSION 2

/* Keys of the fingerprints. */
static const char *const set_keys[ISO_CARD_SETS] = {"data", "test", "validation"};

static int no_memory(iso_error *e)
{
    return iso_error_set(e, ISO_E_NOMEM, "no memory for the description of the model");
}

int iso_card_make(iso_card *c, const iso_job *job, const iso_dataset *training, uint32_t classes,
                  const iso_channel *channel, const iso_alloc *a, iso_error *e)
{
    *c = (iso_card){.classes = classes, .input = training->shape, .alloc = a};
    c->set[ISO_CARD_TRAINING].there = true;
    c->set[ISO_CARD_TRAINING].fingerprint = training->fingerprint;
    c->job = iso_new_raw(a, 1, sizeof *c->job);
    c->scale = iso_new_raw(a, training->shape.c, sizeof *c->scale);
    c->shift = iso_new_raw(a, training->shape.c, sizeof *c->shift);
    bool named = training->class_names && training->classes == classes;
    if (named)
        c->class_names = iso_new(a, classes, sizeof *c->class_names);
    bool enough = c->job && c->scale && c->shift && (c->class_names || !named);
    for (uint32_t k = 0; enough && c->class_names && k < c->classes; k++)
        enough = (c->class_names[k] = iso_strdup(a, training->class_names[k])) != NULL;
    if (!enough) {
        iso_card_free(c);
        return no_memory(e);
    }
    *c->job = *job;
    for (uint32_t i = 0; i < training->shape.c; i++) {
        c->scale[i] = channel[i].scale;
        c->shift[i] = channel[i].shift;
    }
    return 0;
}

void iso_card_free(iso_card *c)
{
    for (uint32_t k = 0; c->class_names && k < c->classes; k++)
        iso_free(c->alloc, c->class_names[k]);
    iso_free(c->alloc, c->class_names);
    iso_free(c->alloc, c->scale);
    iso_free(c->alloc, c->shift);
    iso_free(c->alloc, c->job);
    *c = (iso_card){.alloc = c->alloc};
}

int iso_card_net(const iso_card *c, iso_isa isa, iso_net **net, iso_error *e)
{
    iso_model *model = iso_new_raw(c->alloc, 1, sizeof *model);
    if (!model)
        return no_memory(e);
    int result = iso_job_model(c->job, c->classes, model, e);
    if (result == 0) {
        result = iso_net_new(net, model, c->input, c->classes, isa, c->alloc, e);
        if (result == ISO_E_SHAPE || result == ISO_E_ARGUMENT)
            iso_job_error_at(c->job, c->job->model_at, e);
    }
    iso_free(c->alloc, model);
    return result;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* Values are collected as offsets first, since the text moves while it grows. */
typedef struct collector {
    iso_card_text *out;
    size_t at[ISO_CARD_PAIRS];
} collector;

static iso_buffer *begin(collector *c, const char *key)
{
    iso_card_text *t = c->out;
    t->pair[t->count].key = key;
    c->at[t->count++] = t->text.size;
    return &t->text;
}

static void finish(collector *c)
{
    iso_buffer_put(&c->out->text, "", 1);
}

static void put(collector *c, const char *key, const char *value)
{
    iso_buffer_text(begin(c, key), value);
    finish(c);
}

static void put_number(collector *c, const char *key, uint64_t value)
{
    iso_buffer_format(begin(c, key), "%" PRIu64, value);
    finish(c);
}

static void put_floats(collector *c, const char *key, const float *value, uint32_t count)
{
    iso_buffer *b = begin(c, key);
    for (uint32_t i = 0; i < count; i++) {
        char digits[ISO_NUMBER_TEXT];
        iso_print_float(digits, value[i]);
        iso_buffer_text(b, i ? "," : "[");
        iso_buffer_text(b, digits);
    }
    iso_buffer_text(b, "]");
    finish(c);
}

static void put_job(collector *c, const iso_job *job)
{
    iso_buffer *b = begin(c, "job");
    size_t length = iso_job_write(job, NULL, 0);
    char *text = iso_buffer_add(b, length + 1);
    if (text)
        iso_job_write(job, text, length + 1);
}

int iso_card_write(const iso_card *c, const char *kind, uint64_t round, uint32_t epoch, const char *extra_key,
                   const char *extra, iso_card_text *out, iso_error *e)
{
    *out = (iso_card_text){.count = 0};
    iso_buffer_init(&out->text, c->alloc, 0);
    collector list = {.out = out};
    iso_buffer_format(begin(&list, "isochron"), "%s %d", kind, CARD_VERSION);
    finish(&list);
    put_job(&list, c->job);
    put(&list, "name", c->job->name);
    put_number(&list, "seed", c->job->seed);
    put_number(&list, "classes", c->classes);
    iso_buffer_format(begin(&list, "input"), "%" PRIu32 "x%" PRIu32 "x%" PRIu32, c->input.c, c->input.h, c->input.w);
    finish(&list);
    if (c->class_names) {
        iso_buffer *b = begin(&list, "class_names");
        for (uint32_t k = 0; k < c->classes; k++) {
            iso_buffer_text(b, k ? "," : "[");
            iso_buffer_json(b, c->class_names[k]);
        }
        iso_buffer_text(b, "]");
        finish(&list);
    }
    put(&list, "normalize",
        c->job->data.normalize == ISO_JOB_NORMALIZE_STANDARD ? "standard"
        : c->job->data.normalize == ISO_JOB_NORMALIZE_UNIT   ? "unit"
                                                             : "none");
    put_floats(&list, "scale", c->scale, c->input.c);
    put_floats(&list, "shift", c->shift, c->input.c);
    for (int k = 0; k < ISO_CARD_SETS; k++)
        if (c->set[k].there) {
            iso_buffer_format(begin(&list, set_keys[k]), "%016" PRIx64, c->set[k].fingerprint);
            finish(&list);
        }
    if (c->init[0])
        put(&list, "init", c->init);
    put_number(&list, "round", round);
    put_number(&list, "epoch", epoch);
    if (c->mark[0])
        put(&list, "mark", c->mark);
    if (extra_key)
        put(&list, extra_key, extra);
    if (out->text.failed) {
        iso_card_text_free(out);
        return no_memory(e);
    }
    for (uint32_t i = 0; i < out->count; i++)
        out->pair[i].value = (const char *)out->text.bytes + list.at[i];
    return 0;
}

void iso_card_text_free(iso_card_text *t)
{
    iso_buffer_fini(&t->text);
    t->count = 0;
}

/* ---- the check sum: crc of every part, added up, so that the order of the parts does not matter -------- */

static uint32_t crc_pair(const char *key, const char *value)
{
    return iso_crc32c(iso_crc32c(0, key, strlen(key) + 1), value, strlen(value) + 1);
}

static uint32_t crc_head(const char *name, iso_tensor_type type, uint32_t rank, const uint64_t *dim)
{
    uint8_t bytes[8 * (ISO_TENSOR_RANK_MAX + 1)];
    iso_store_u64(bytes, (uint64_t)type << 32 | rank);
    for (uint32_t i = 0; i < rank; i++)
        iso_store_u64(bytes + 8 * (i + 1), dim[i]);
    return iso_crc32c(iso_crc32c(0, name, strlen(name) + 1), bytes, 8 * (rank + (size_t)1));
}

/* Values in host order, summed as the little-endian bytes of the file. */
static uint32_t crc_values(uint32_t crc, const iso_tensor_out *t)
{
    size_t count = 1, size = iso_tensor_type_bytes(t->type);
    for (uint32_t i = 0; i < t->rank; i++)
        count *= (size_t)t->dim[i];
    const uint16_t one = 1;
    if (size == 1 || *(const uint8_t *)&one == 1)
        return iso_crc32c(crc, t->data, count * size);
    for (size_t i = 0; i < count; i++) {
        uint8_t swapped[8];
        for (size_t k = 0; k < size; k++)
            swapped[k] = ((const uint8_t *)t->data)[i * size + size - 1 - k];
        crc = iso_crc32c(crc, swapped, size);
    }
    return crc;
}

void iso_card_seal(iso_card_text *t, const iso_tensor_out *tensors, uint32_t count, char text[16])
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < t->count; i++)
        sum += crc_pair(t->pair[i].key, t->pair[i].value);
    for (uint32_t i = 0; i < count; i++)
        sum += crc_values(crc_head(tensors[i].name, tensors[i].type, tensors[i].rank, tensors[i].dim), &tensors[i]);
    snprintf(text, 16, "%08" PRIx32, sum);
    t->pair[t->count++] = (iso_metadata){.key = "crc32c", .value = text};
}

/* ---- reading ------------------------------------------------------------------------------------------- */

int iso_card_verify(const iso_tensors *t, const char *kind, const char *path, iso_error *e)
{
    const char *tag = iso_tensors_metadata(t, "isochron"), *wanted_crc = iso_tensors_metadata(t, "crc32c");
    const char *space = tag ? strchr(tag, ' ') : NULL;
    if (!tag || !space || !wanted_crc)
        return iso_error_set(e, ISO_E_FORMAT, "%s: not a model or checkpoint of isochron (its metadata has no '%s')",
                             path, tag ? "crc32c" : "isochron");
    if (kind && (strncmp(tag, kind, strlen(kind)) != 0 || tag[strlen(kind)] != ' '))
        return iso_error_set(e, ISO_E_FORMAT, "%s: a %s is wanted, the file is a '%.40s'", path, kind, tag);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < iso_tensors_metadata_count(t); i++) {
        const char *key, *value;
        iso_tensors_metadata_at(t, i, &key, &value);
        sum += strcmp(key, "crc32c") == 0 ? 0 : crc_pair(key, value);
    }
    for (uint32_t i = 0; i < iso_tensors_count(t); i++) {
        const iso_tensor_view *v = iso_tensors_at(t, i);
        sum += iso_crc32c(crc_head(v->name, v->type, v->rank, v->dim), v->data, v->bytes);
    }
    char found[16];
    snprintf(found, sizeof found, "%08" PRIx32, sum);
    if (strcmp(found, wanted_crc) != 0)
        return iso_error_set(e, ISO_E_FORMAT, "%s: damaged: its check sum is %s, its content gives %s", path,
                             wanted_crc, found);
    if (atoi(space + 1) != CARD_VERSION)
        return iso_error_set(e, ISO_E_UNSUPPORTED,
                             "%s: written by another version of isochron ('%.40s', this one reads version %d): use that one, or train anew",
                             path, tag, CARD_VERSION);
    return 0;
}

static int bad_key(const char *path, const char *key, const char *value, iso_error *e)
{
    return iso_error_set(e, ISO_E_FORMAT, "%s: metadata '%s' is %s%.60s", path, key,
                         value ? "not understood: " : "missing", value ? value : "");
}

int iso_card_number(const iso_tensors *t, const char *key, uint64_t max, const char *path, uint64_t *out,
                    iso_error *e)
{
    const char *text = iso_tensors_metadata(t, key);
    if (!text || iso_parse_u64(text, strlen(text), 0, max, out) != ISO_PARSE_OK)
        return bad_key(path, key, text, e);
    return 0;
}

static int read_shape(iso_shape *s, const iso_tensors *t, const char *path, iso_error *e)
{
    const char *text = iso_tensors_metadata(t, "input"), *at = text;
    uint32_t *part[3] = {&s->c, &s->h, &s->w};
    for (int i = 0; i < 3; i++) {
        const char *end = at ? strchr(at, i < 2 ? 'x' : 0) : NULL;
        uint64_t value;
        if (!end || iso_parse_u64(at, (size_t)(end - at), 1, 1u << 20, &value) != ISO_PARSE_OK)
            return bad_key(path, "input", text, e);
        *part[i] = (uint32_t)value;
        at = end + 1;
    }
    return 0;
}

static int read_floats(const iso_tensors *t, const char *key, uint32_t count, const char *path, const iso_alloc *a,
                       float **out, iso_error *e)
{
    const char *text = iso_tensors_metadata(t, key);
    json_t *list = text ? json_loads(text, JSON_DECODE_INT_AS_REAL, NULL) : NULL;
    int result = 0;
    if (!json_is_array(list) || json_array_size(list) != count)
        result = bad_key(path, key, text, e);
    else if (!(*out = iso_new_raw(a, count, sizeof **out)))
        result = no_memory(e);
    for (uint32_t i = 0; result == 0 && i < count; i++) {
        json_t *value = json_array_get(list, i);
        if (!json_is_real(value))
            result = bad_key(path, key, text, e);
        else
            (*out)[i] = (float)json_real_value(value);
    }
    json_decref(list);
    return result;
}

static int read_names(iso_card *c, const iso_tensors *t, const char *path, iso_error *e)
{
    const char *text = iso_tensors_metadata(t, "class_names");
    if (!text)
        return 0;
    json_t *list = json_loads(text, 0, NULL);
    int result = 0;
    if (!json_is_array(list) || json_array_size(list) != c->classes)
        result = bad_key(path, "class_names", text, e);
    else if (!(c->class_names = iso_new(c->alloc, c->classes, sizeof *c->class_names)))
        result = no_memory(e);
    for (uint32_t k = 0; result == 0 && k < c->classes; k++) {
        const char *name = json_string_value(json_array_get(list, k));
        if (!name)
            result = bad_key(path, "class_names", text, e);
        else if (!(c->class_names[k] = iso_strdup(c->alloc, name)))
            result = no_memory(e);
    }
    json_decref(list);
    return result;
}

static int read_job(iso_card *c, const iso_tensors *t, const char *path, iso_error *e)
{
    const char *text = iso_tensors_metadata(t, "job");
    if (!text)
        return bad_key(path, "job", NULL, e);
    c->job = iso_new_raw(c->alloc, 1, sizeof *c->job);
    if (!c->job)
        return no_memory(e);
    iso_job_default(c->job);
    int result = iso_job_parse(c->job, path, text, strlen(text), c->alloc, e);
    if (result == 0)
        result = iso_job_finish(c->job, e);
    if (result == ISO_E_JOB) {
        if (e)
            e->code = ISO_E_FORMAT;
        iso_error_prefix(e, "the job kept in a model file: ");
        result = ISO_E_FORMAT;
    }
    return result;
}

static int read_marks(iso_card *c, const iso_tensors *t, const char *path, iso_error *e)
{
    for (int k = 0; k < ISO_CARD_SETS; k++) {
        const char *text = iso_tensors_metadata(t, set_keys[k]);
        c->set[k].there = text;
        if (text ? strlen(text) != 16 || !iso_parse_hex(text, 16, &c->set[k].fingerprint) : k == ISO_CARD_TRAINING)
            return bad_key(path, set_keys[k], text, e);
    }
    const char *init = iso_tensors_metadata(t, "init");
    if (init && strlen(init) != sizeof c->init - 1)
        return bad_key(path, "init", init, e);
    snprintf(c->init, sizeof c->init, "%s", init ? init : "");
    const char *mark = iso_tensors_metadata(t, "mark");
    snprintf(c->mark, sizeof c->mark, "%s", mark ? mark : "");
    return 0;
}

int iso_card_read(iso_card *c, const iso_tensors *t, const char *path, const iso_alloc *a, iso_error *e)
{
    *c = (iso_card){.alloc = a};
    uint64_t classes = 0;
    int result = iso_card_number(t, "classes", 1u << 24, path, &classes, e);
    if (result == 0)
        result = read_shape(&c->input, t, path, e);
    if (result == 0) {
        c->classes = (uint32_t)classes;
        result = read_names(c, t, path, e);
    }
    if (result == 0)
        result = read_floats(t, "scale", c->input.c, path, a, &c->scale, e);
    if (result == 0)
        result = read_floats(t, "shift", c->input.c, path, a, &c->shift, e);
    if (result == 0)
        result = read_job(c, t, path, e);
    if (result == 0)
        result = read_marks(c, t, path, e);
    if (result)
        iso_card_free(c);
    return result;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const iso_tensor *const *)a)->name, (*(const iso_tensor *const *)b)->name);
}

int iso_weights_sha256(const iso_net *net, const float *published, const iso_alloc *a, char out[ISO_SHA256_TEXT],
                       iso_error *e)
{
    uint32_t count = iso_net_tensor_count(net);
    const iso_tensor **order = iso_new_raw(a, count, sizeof(const iso_tensor *));
    if (!order)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for the weights' check sum");
    for (uint32_t i = 0; i < count; i++)
        order[i] = iso_net_tensor(net, i);
    qsort(order, count, sizeof(const iso_tensor *), by_name);
    iso_sha256 sha;
    uint8_t digest[32];
    iso_sha256_init(&sha);
    for (uint32_t i = 0; i < count; i++)
        iso_sha256_add_f32(&sha, published + order[i]->offset, order[i]->count);
    iso_sha256_end(&sha, digest);
    iso_sha256_hex(digest, out);
    iso_free(a, order);
    return 0;
}

static int views_by_name(const void *a, const void *b)
{
    return strcmp((*(const iso_tensor_view *const *)a)->name, (*(const iso_tensor_view *const *)b)->name);
}

int iso_card_sha256(const iso_tensors *t, const char *path, const iso_alloc *a, char out[ISO_SHA256_TEXT], iso_error *e)
{
    uint32_t count = 0, all = iso_tensors_count(t);
    const iso_tensor_view **order = iso_new_raw(a, all + (size_t)1, sizeof(const iso_tensor_view *));
    if (!order)
        return iso_error_set(e, ISO_E_NOMEM, "%s: no memory for the weights' check sum", path);
    for (uint32_t i = 0; i < all; i++) {
        order[count] = iso_tensors_at(t, i);
        count += strncmp(order[count]->name, "state.", 6) != 0;
    }
    qsort(order, count, sizeof(const iso_tensor_view *), views_by_name);
    iso_sha256 sha;
    uint8_t digest[32];
    iso_sha256_init(&sha);
    for (uint32_t i = 0; i < count; i++)
        iso_sha256_add(&sha, order[i]->data, order[i]->bytes);
    iso_sha256_end(&sha, digest);
    iso_sha256_hex(digest, out);
    iso_free(a, order);
    const char *said = iso_tensors_metadata(t, "weights_sha256");
    if (said && strcmp(said, out) != 0)
        return iso_error_set(e, ISO_E_FORMAT, "%s: damaged: its weights have the SHA-256 %.12s..., its metadata says %.12s...", path,
                             out, said);
    return 0;
}

void iso_weights_tensors(const iso_net *net, const float *published, const char *prefix,
                         char (*names)[ISO_TENSOR_NAME_MAX], iso_tensor_out *out)
{
    for (uint32_t i = 0; i < iso_net_tensor_count(net); i++) {
        const iso_tensor *t = iso_net_tensor(net, i);
        snprintf(names[i], ISO_TENSOR_NAME_MAX, "%s%s", prefix, t->name);
        out[i] = (iso_tensor_out){.name = names[i],
                                  .type = ISO_TENSOR_F32,
                                  .rank = t->rank,
                                  .data = published ? published + t->offset : NULL};
        for (uint32_t k = 0; k < t->rank; k++)
            out[i].dim[k] = t->dim[k];
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * A trained model read back from a file or a run folder, and its use on data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/file/file.h"
#include "engine/run/card.h"
#include "engine/run/folder.h"
#include "engine/run/model.h"
#include "isochron/core.h"

struct iso_trained {
    iso_card card;
    iso_net *net;
    float *weights; /* internal */
    char *path;
    char (*number)[16]; /* class names when the card has none */
    char sha256[ISO_SHA256_TEXT];
    const iso_alloc *alloc;
};

/* ---- opening ------------------------------------------------------------------------------------------- */

/* The newest checkpoint of a folder that another process may be writing; NULL when there is none. */
static char *newest_checkpoint(const char *folder, const iso_alloc *a)
{
    iso_listing list;
    if (iso_folder_list(folder, a, &list, NULL))
        return NULL;
    uint64_t newest = 0;
    const char *name = NULL;
    for (size_t i = 0; i < list.count; i++) {
        uint64_t round;
        if (iso_checkpoint_round(list.name[i], &round) && (!name || round > newest)) {
            newest = round;
            name = list.name[i];
        }
    }
    char *path = name ? iso_path_join(a, folder, name) : NULL;
    iso_listing_free(&list);
    return path;
}

/* A takeover that was cut short, in the folder of a file that is missing. */
static int look_around(const char *path, const iso_alloc *a, iso_error *e)
{
    char *folder = iso_strdup(a, path);
    if (!folder)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a path");
    size_t name = strlen(iso_path_name(folder));
    folder[strlen(folder) - name] = 0;
    int result = iso_run_look(*folder ? folder : ".", a, e);
    iso_free(a, folder);
    return result;
}

int iso_model_path_of(const char *path, const iso_alloc *a, char **out, iso_error *e)
{
    *out = NULL;
    iso_path_kind kind = iso_path_kind_of(path);
    int result = kind == ISO_PATH_FOLDER ? iso_run_look(path, a, e) : kind == ISO_PATH_MISSING ? look_around(path, a, e) : 0;
    if (result)
        return result;
    if (kind != ISO_PATH_FOLDER) {
        *out = iso_strdup(a, path);
        return *out ? 0 : iso_error_set(e, ISO_E_NOMEM, "no memory for a path");
    }
    char *model = iso_path_join(a, path, "model.safetensors");
    if (!model)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a path");
    if (iso_path_kind_of(model) != ISO_PATH_MISSING) {
        *out = model;
        return 0;
    }
    iso_free(a, model);
    *out = newest_checkpoint(path, a);
    return *out ? 0
                : iso_error_set(
                      e, ISO_E_IO,
                      "%s: neither model.safetensors nor a checkpoint is there; give a run folder or a model file",
                      path);
}

/* Do the file's tensors fit? What a checkpoint holds besides begins with "state.". */
static int check_tensors(const iso_net *net, const iso_tensors *t, const char *path, const iso_alloc *a, iso_error *e)
{
    uint32_t count = iso_net_tensor_count(net);
    iso_tensor_out *wanted = iso_new(a, count, sizeof *wanted);
    char(*names)[ISO_TENSOR_NAME_MAX] = iso_new(a, count, sizeof *names);
    int result =
        wanted && names ? 0 : iso_error_set(e, ISO_E_NOMEM, "%s: no memory for the list of its tensors", path);
    if (result == 0) {
        iso_weights_tensors(net, NULL, "", names, wanted);
        result = iso_tensors_check(t, wanted, count, "state.", e);
        if (result == ISO_E_MISMATCH) {
            result = ISO_E_SHAPE;
            if (e)
                e->code = result;
        }
        if (result)
            iso_error_prefix(e, "%s: ", path);
    }
    iso_free(a, wanted);
    iso_free(a, names);
    return result;
}

int iso_weights_read(const iso_net *net, const iso_tensors *t, const char *path, const iso_alloc *a, float *internal,
                     char sha256[ISO_SHA256_TEXT], iso_error *e)
{
    int result = check_tensors(net, t, path, a, e);
    if (result)
        return result;
    float *published = iso_new_raw(a, iso_net_parameters(net), sizeof *published);
    if (!published)
        return iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its weights", path);
    for (uint32_t i = 0; i < iso_net_tensor_count(net); i++) {
        const iso_tensor *tensor = iso_net_tensor(net, i);
        iso_tensor_copy(iso_tensors_find(t, tensor->name), published + tensor->offset);
    }
    for (size_t i = 0; result == 0 && i < iso_net_parameters(net); i++)
        if (!isfinite(published[i]))
            result = iso_error_set(e, ISO_E_FORMAT, "%s: weight %zu is not finite", path, i);
    if (result == 0)
        result = iso_weights_sha256(net, published, a, sha256, e);
    if (result == 0)
        iso_net_adopt(net, published, internal);
    iso_free(a, published);
    return result;
}

static int load(iso_trained *m, iso_isa isa, iso_error *e)
{
    iso_bytes bytes = {0};
    iso_tensors *t = NULL;
    int result = iso_file_read(m->path, 0, m->alloc, &bytes, e);
    if (result == 0)
        result = iso_tensors_read(&t, bytes.bytes, bytes.size, m->path, m->alloc, e);
    if (result == 0)
        result = iso_card_verify(t, NULL, m->path, e);
    if (result == 0)
        result = iso_card_read(&m->card, t, m->path, m->alloc, e);
    if (result == 0)
        result = iso_card_net(&m->card, isa, &m->net, e);
    if (result == 0) {
        m->weights = iso_new(m->alloc, iso_net_values(m->net), sizeof *m->weights);
        result = m->weights ? iso_weights_read(m->net, t, m->path, m->alloc, m->weights, m->sha256, e)
                            : iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its weights", m->path);
    }
    iso_tensors_free(t);
    iso_bytes_release(&bytes);
    return result;
}

int iso_model_open(iso_trained **out, const char *path, iso_isa isa, const iso_alloc *a, iso_error *e)
{
    a = a ? a : iso_alloc_default();
    *out = NULL;
    iso_trained *m = iso_new(a, 1, sizeof *m);
    if (!m)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a model");
    m->alloc = m->card.alloc = a;
    int result = iso_model_path_of(path, a, &m->path, e);
    if (result == 0)
        result = load(m, isa, e);
    if (result == 0 && !m->card.class_names) {
        m->number = iso_new(a, m->card.classes, sizeof *m->number);
        if (!m->number)
            result = iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its class names", path);
        for (uint32_t k = 0; result == 0 && k < m->card.classes; k++)
            snprintf(m->number[k], sizeof *m->number, "%" PRIu32, k);
    }
    if (result) {
        iso_model_close(m);
        return result;
    }
    *out = m;
    return 0;
}

void iso_model_close(iso_trained *m)
{
    if (!m)
        return;
    const iso_alloc *a = m->alloc;
    iso_free(a, m->weights);
    iso_net_free(m->net);
    iso_card_free(&m->card);
    iso_free(a, m->number);
    iso_free(a, m->path);
    iso_free(a, m);
}

const iso_net *iso_model_net(const iso_trained *m)
{
    return m->net;
}

const float *iso_model_weights(const iso_trained *m)
{
    return m->weights;
}

const char *iso_model_path(const iso_trained *m)
{
    return m->path;
}

uint64_t iso_model_data(const iso_trained *m)
{
    return m->card.set[ISO_CARD_TRAINING].fingerprint;
}

const char *iso_model_name(const iso_trained *m)
{
    return m->card.job->name;
}

const struct iso_job *iso_model_job(const iso_trained *m)
{
    return m->card.job;
}

const char *iso_model_class(const iso_trained *m, uint32_t index)
{
    if (index >= m->card.classes)
        return NULL;
    return m->card.class_names ? m->card.class_names[index] : m->number[index];
}

const char *iso_model_sha256(const iso_trained *m)
{
    return m->sha256;
}

/* ---- use ----------------------------------------------------------------------------------------------- */

/* Working memory for units of a data set. */
typedef struct runner {
    const iso_trained *model;
    const iso_dataset *data;
    uint32_t unit;
    void *memory;
    float *out; /* [unit][classes] */
    iso_pass *pass;
    const iso_alloc *alloc;
} runner;

static int runner_init(runner *r, const iso_trained *m, const iso_dataset *data, const iso_alloc *a, iso_error *e)
{
    *r = (runner){.model = m, .data = data, .unit = ISO_UNIT_MAX, .alloc = a};
    int result = iso_dataset_check_shape(data, m->card.input, e);
    if (result)
        return result;
    r->memory = iso_new_raw(a, iso_pass_bytes(m->net, r->unit, false), 1);
    r->out = iso_new(a, (size_t)r->unit * m->card.classes, sizeof *r->out);
    if (!r->memory || !r->out) {
        iso_free(a, r->memory);
        iso_free(a, r->out);
        return iso_error_set(e, ISO_E_NOMEM, "no memory to run the model");
    }
    r->pass = iso_pass_init(m->net, r->unit, false, r->memory);
    return 0;
}

static void runner_fini(runner *r)
{
    iso_free(r->alloc, r->memory);
    iso_free(r->alloc, r->out);
}

static void runner_load(runner *r, uint64_t first, uint32_t n)
{
    const void *sample[ISO_UNIT_MAX];
    for (uint32_t i = 0; i < n; i++)
        sample[i] = iso_dataset_sample(r->data, first + i);
    iso_pass_load(r->pass, r->data->dtype, n, sample, r->model->card.scale, r->model->card.shift);
}

static uint32_t highest(const float *row, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < count; k++)
        if (row[k] > row[best])
            best = k;
    return best;
}

static void score(const iso_trained *m, iso_evaluation *v)
{
    for (uint32_t k = 0; k < v->classes; k++) {
        uint64_t of_it = 0, called_it = 0, both = v->confusion[(size_t)k * v->classes + k];
        for (uint32_t j = 0; j < v->classes; j++) {
            of_it += v->confusion[(size_t)k * v->classes + j];
            called_it += v->confusion[(size_t)j * v->classes + k];
        }
        v->score[k] = (iso_class_score){.name = iso_model_class(m, k),
                                        .precision = called_it ? (double)both / (double)called_it : NAN,
                                        .recall = of_it ? (double)both / (double)of_it : NAN,
                                        .count = of_it};
    }
}

int iso_evaluate(const iso_trained *m, const iso_dataset *data, const atomic_int *stop, const iso_alloc *a,
                 iso_evaluation *out, iso_error *e)
{
    a = a ? a : iso_alloc_default();
    *out = (iso_evaluation){.classes = m->card.classes};
    if (!data->labels)
        return iso_error_set(e, ISO_E_FORMAT, "%s: has no labels to hold the answers against", data->source);
    int result = iso_dataset_check_labels(data, m->card.classes, e);
    runner r;
    if (result == 0)
        result = runner_init(&r, m, data, a, e);
    if (result)
        return result;
    out->confusion = iso_new(a, (size_t)out->classes * out->classes, sizeof *out->confusion);
    out->score = iso_new(a, out->classes, sizeof *out->score);
    if (!out->confusion || !out->score)
        result =
            iso_error_set(e, ISO_E_NOMEM, "no memory for a confusion matrix of %" PRIu32 " classes", out->classes);
    iso_wide loss = {0, 0};
    for (uint64_t first = 0; result == 0 && first < data->count; first += r.unit) {
        uint32_t n = data->count - first < r.unit ? (uint32_t)(data->count - first) : r.unit;
        iso_unit_result unit;
        runner_load(&r, first, n);
        iso_pass_evaluate(r.pass, m->weights, data->labels + first, &unit);
        iso_pass_predict(r.pass, m->weights, r.out);
        loss = iso_wide_add(loss, iso_wide_of(unit.loss));
        out->correct += unit.correct;
        for (uint32_t i = 0; i < n; i++)
            out->confusion[(size_t)data->labels[first + i] * out->classes +
                           highest(r.out + (size_t)i * out->classes, out->classes)]++;
        if (unit.bad_layer >= 0)
            result = iso_error_set(e, ISO_E_NONFINITE, "%s: layer %s gives values that are not finite", m->path,
                                   iso_net_layer(m->net, (uint32_t)unit.bad_layer).name);
        else if (stop && atomic_load(stop))
            result = iso_error_set(e, ISO_E_INTERRUPTED, "stopped after %" PRIu64 " of %" PRIu64 " samples",
                                   first + n, data->count);
    }
    runner_fini(&r);
    if (result) {
        iso_evaluation_clear(out, a);
        return result;
    }
    out->samples = data->count;
    out->loss = iso_wide_loss(loss) / (double)data->count;
    out->accuracy = (double)out->correct / (double)data->count;
    score(m, out);
    return 0;
}

void iso_evaluation_clear(iso_evaluation *v, const iso_alloc *a)
{
    iso_free(a, v->confusion);
    iso_free(a, v->score);
    *v = (iso_evaluation){.samples = 0};
}

int iso_predict(const iso_trained *m, const iso_dataset *data, uint64_t first, uint64_t count, float *out,
                const iso_alloc *a, iso_error *e)
{
    a = a ? a : iso_alloc_default();
    if (first > data->count || count > data->count - first)
        return iso_error_set(e, ISO_E_ARGUMENT,
                             "samples %" PRIu64 " to %" PRIu64 " are wanted, the data has %" PRIu64, first,
                             first + count, data->count);
    runner r;
    int result = runner_init(&r, m, data, a, e);
    if (result)
        return result;
    for (uint64_t done = 0; done < count; done += r.unit) {
        uint32_t n = count - done < r.unit ? (uint32_t)(count - done) : r.unit;
        runner_load(&r, first + done, n);
        iso_pass_predict(r.pass, m->weights, r.out);
        memcpy(out + done * m->card.classes, r.out, (size_t)n * m->card.classes * sizeof *out);
    }
    runner_fini(&r);
    return 0;
}

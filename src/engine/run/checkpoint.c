/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints and model files of the run folder. */
#include "engine/run/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/file/file.h"

static const char coordinator_tensor[] = "state.coordinator";

int iso_snapshot_init(iso_snapshot *s, const iso_net *net, const iso_optimizer *o, size_t core_capacity,
                      const iso_alloc *a, iso_error *e)
{
    const char *names[ISO_STATES_MAX];
    uint32_t count = iso_optimizer_states(o);
    for (uint32_t i = 0; i < count; i++)
        names[i] = iso_optimizer_state_name(o, i);
    return iso_snapshot_init_named(s, net, names, count, core_capacity, a, e);
}

int iso_snapshot_init_named(iso_snapshot *s, const iso_net *net, const char *const *names, uint32_t count,
                            size_t core_capacity, const iso_alloc *a, iso_error *e)
{
    *s = (iso_snapshot){.states = count, .core_capacity = core_capacity, .alloc = a};
    for (uint32_t i = 0; i < count; i++)
        s->name[i] = names[i];
    size_t parameters = iso_net_parameters(net);
    bool enough = (s->weights = iso_new(a, parameters, sizeof(float))) && (s->core = iso_new(a, core_capacity, 1));
    for (uint32_t i = 0; enough && i < s->states; i++)
        enough = (s->state[i] = iso_new(a, parameters, sizeof(float))) != NULL;
    if (enough)
        return 0;
    iso_snapshot_fini(s);
    return iso_error_set(e, ISO_E_NOMEM, "no memory for a copy of the %zu weights and the optimizer's state",
                         parameters);
}

void iso_snapshot_fini(iso_snapshot *s)
{
    iso_free(s->alloc, s->weights);
    for (uint32_t i = 0; i < ISO_STATES_MAX; i++)
        iso_free(s->alloc, s->state[i]);
    iso_free(s->alloc, s->core);
    iso_free(s->alloc, s->run);
    *s = (iso_snapshot){.alloc = s->alloc};
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static int to_file(void *context, const void *bytes, size_t size, iso_error *e)
{
    return iso_replace_write(context, bytes, size, e);
}

static int write_tensors(iso_run *run, const char *name, const iso_tensor_out *tensors, uint32_t count,
                         const iso_card_text *text, iso_error *e)
{
    iso_replace file;
    int result = iso_replace_begin(&file, run, name, e);
    if (result == 0)
        result = iso_tensors_write(tensors, count, text->pair, text->count, to_file, &file, run->alloc, NULL, e);
    if (result == 0)
        result = iso_replace_commit(&file, e);
    iso_replace_abort(&file);
    return result;
}

/* The list of a checkpoint's tensors and the block their names live in. */
typedef struct tensor_list {
    iso_tensor_out *tensor;
    char (*name)[ISO_TENSOR_NAME_MAX];
    uint32_t count;
} tensor_list;

static void list_free(tensor_list *l, const iso_alloc *a)
{
    iso_free(a, l->tensor);
    iso_free(a, l->name);
}

/* s NULL: the weights alone, from `published` (NULL too: names and shapes only). */
static int list_make(tensor_list *l, const iso_net *net, const float *published, const iso_snapshot *s,
                     const iso_alloc *a, iso_error *e)
{
    uint32_t part = iso_net_tensor_count(net), states = s ? s->states : 0;
    *l = (tensor_list){.count = part * (1 + states) + (s ? 1 : 0)};
    l->tensor = iso_new(a, l->count, sizeof *l->tensor);
    l->name = iso_new(a, l->count, sizeof *l->name);
    if (!l->tensor || !l->name) {
        list_free(l, a);
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a list of %" PRIu32 " tensors", l->count);
    }
    iso_weights_tensors(net, s ? s->weights : published, "", l->name, l->tensor);
    for (uint32_t i = 0; i < states; i++) {
        char prefix[ISO_NAME_MAX];
        snprintf(prefix, sizeof prefix, "state.%s.", s->name[i]);
        iso_weights_tensors(net, s->state[i], prefix, l->name + part * (1 + i), l->tensor + part * (1 + i));
    }
    if (s)
        l->tensor[l->count - 1] = (iso_tensor_out){
            .name = coordinator_tensor, .type = ISO_TENSOR_U8, .rank = 1, .dim = {s->core_bytes}, .data = s->core};
    return 0;
}

/* Keeps the newest `keep` up to this round. A later one cannot be whole or of this run: a resume would have begun
 * from it. */
static int remove_others(iso_run *run, uint64_t round, uint32_t keep, iso_error *e)
{
    uint64_t *rounds;
    size_t count, kept = 0;
    int result = iso_run_checkpoints(run, &rounds, &count, e);
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (rounds[i] <= round && kept++ < keep)
            continue;
        char name[ISO_CHECKPOINT_NAME_MAX];
        iso_checkpoint_name(rounds[i], name);
        result = iso_run_remove(run, name, e);
    }
    iso_free(run->alloc, rounds);
    return result;
}

int iso_checkpoint_write(iso_run *run, const iso_card *card, const iso_net *net, const iso_snapshot *s, uint32_t keep,
                         iso_error *e)
{
    char name[ISO_CHECKPOINT_NAME_MAX], crc[16];
    iso_checkpoint_name(s->round, name);
    tensor_list list;
    int result = list_make(&list, net, NULL, s, run->alloc, e);
    if (result)
        return result;
    iso_card_text text;
    result = iso_card_write(card, "checkpoint", s->round, s->epoch, s->run ? "run" : NULL, s->run, &text, e);
    if (result == 0) {
        iso_card_seal(&text, list.tensor, list.count, crc);
        result = write_tensors(run, name, list.tensor, list.count, &text, e);
        iso_card_text_free(&text);
    }
    list_free(&list, run->alloc);
    if (result == 0) {
        char line[ISO_CHECKPOINT_NAME_MAX + 1];
        int length = snprintf(line, sizeof line, "%s\n", name);
        result = iso_run_put(run, "latest", line, (size_t)length, e);
    }
    return result ? result : remove_others(run, s->round, keep ? keep : 1, e);
}

int iso_model_write(iso_run *run, const char *name, const iso_card *card, const iso_net *net, const float *published,
                    uint64_t round, uint32_t epoch, char sha256[ISO_SHA256_TEXT], iso_error *e)
{
    int result = iso_weights_sha256(net, published, run->alloc, sha256, e);
    if (result)
        return result;
    tensor_list list;
    result = list_make(&list, net, published, NULL, run->alloc, e);
    if (result)
        return result;
    char crc[16];
    iso_card_text text;
    result = iso_card_write(card, "model", round, epoch, "weights_sha256", sha256, &text, e);
    if (result == 0) {
        iso_card_seal(&text, list.tensor, list.count, crc);
        result = write_tensors(run, name, list.tensor, list.count, &text, e);
        iso_card_text_free(&text);
    }
    list_free(&list, run->alloc);
    return result;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static int copy_array(const iso_net *net, const iso_tensors *t, const char *prefix, float *out, const char *path,
                      iso_error *e)
{
    for (uint32_t i = 0; i < iso_net_tensor_count(net); i++) {
        const iso_tensor *tensor = iso_net_tensor(net, i);
        char name[ISO_TENSOR_NAME_MAX];
        snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
        const iso_tensor_view *v = iso_tensors_find(t, name);
        if (!v || v->type != ISO_TENSOR_F32 || v->count != tensor->count)
            return iso_error_set(e, ISO_E_FORMAT, "%s: tensor '%s' is missing or has another size", path, name);
        iso_tensor_copy(v, out + tensor->offset);
    }
    return 0;
}

/* A run with more workers left a longer state than this one will write. */
static int copy_core(const iso_tensors *t, const char *path, iso_snapshot *s, iso_error *e)
{
    const iso_tensor_view *core = iso_tensors_find(t, coordinator_tensor);
    if (!core || core->type != ISO_TENSOR_U8 || core->bytes == 0)
        return iso_error_set(e, ISO_E_FORMAT, "%s: tensor '%s' is missing or of another type", path,
                             coordinator_tensor);
    if (core->bytes > s->core_capacity) {
        uint8_t *larger = iso_new(s->alloc, core->bytes, 1);
        if (!larger)
            return iso_error_set(e, ISO_E_NOMEM, "%s: no memory for the coordinator's state", path);
        iso_free(s->alloc, s->core);
        s->core = larger;
        s->core_capacity = core->bytes;
    }
    memcpy(s->core, core->data, core->bytes);
    s->core_bytes = core->bytes;
    return 0;
}

/* The path that leads to a set of the job. */
static const char *place_of(const iso_job *job, iso_card_set set)
{
    const iso_job_data *d = &job->data;
    return set == ISO_CARD_VALIDATION ? d->validation_path : set == ISO_CARD_TEST && d->test[0] ? d->test : d->path;
}

#define SET_SHOWN 160u
static const char *show_set(char out[SET_SHOWN], const iso_card *c, iso_card_set set)
{
    const char *place = place_of(c->job, set), *end = place + strlen(place);
    const char *shown = end - place > 100 ? end - 100 : place;
    if (c->set[set].there)
        snprintf(out, SET_SHOWN, "%s%.100s (fingerprint %016" PRIx64 ")", shown > place ? "..." : "", shown, c->set[set].fingerprint);
    else
        snprintf(out, SET_SHOWN, "none");
    return out;
}

/* Not where the data lie but what they are: weights and figures are of one run. */
static int same_data(const iso_card *before, const iso_card *now, const iso_run *run, iso_error *e)
{
    static const char *const what[ISO_CARD_SETS] = {"training set", "test set", "validation set"};
    static const char *const flag[ISO_CARD_SETS] = {"--data", "--set data.test", "--set data.validation"};
    char old[SET_SHOWN], fresh[SET_SHOWN];
    for (iso_card_set k = ISO_CARD_TRAINING; k < ISO_CARD_SETS; k++)
        if (before->set[k].there != now->set[k].there || before->set[k].fingerprint != now->set[k].fingerprint)
            return iso_error_set(e, ISO_E_MISMATCH,
                                 "the %s was %s in the run to resume and is %s now; name the run's own with %s%sPATH; to train on with "
                                 "other data begin a new run with its weights: --init %s --out NEW",
                                 what[k], show_set(old, before, k), show_set(fresh, now, k), flag[k], k ? "=" : " ", run->path);
    return 0;
}

static int same_origin(const iso_card *mine, const iso_tensors *t, const char *path, const iso_run *run, iso_error *e)
{
    iso_card theirs;
    int result = iso_card_read(&theirs, t, path, run->alloc, e);
    if (result)
        return result;
    snprintf(theirs.job->out, sizeof theirs.job->out, "%s", run->path); /* it may have been moved */
    result = iso_job_difference(theirs.job, mine->job, e);
    if (result == 0)
        result = same_data(&theirs, mine, run, e);
    if (result)
        iso_error_prefix(e, "%s: ", path);
    iso_card_free(&theirs);
    return result;
}

static int fill(const iso_tensors *t, const iso_net *net, const char *path, iso_snapshot *s, iso_error *e)
{
    uint64_t epoch = 0;
    int result = iso_card_number(t, "round", UINT64_MAX, path, &s->round, e);
    if (result == 0)
        result = iso_card_number(t, "epoch", UINT32_MAX, path, &epoch, e);
    s->epoch = (uint32_t)epoch;
    if (result == 0)
        result = copy_array(net, t, "", s->weights, path, e);
    for (uint32_t i = 0; result == 0 && i < s->states; i++) {
        char prefix[ISO_NAME_MAX];
        snprintf(prefix, sizeof prefix, "state.%s.", s->name[i]);
        result = copy_array(net, t, prefix, s->state[i], path, e);
    }
    if (result == 0)
        result = copy_core(t, path, s, e);
    if (result == 0) {
        const char *run = iso_tensors_metadata(t, "run"), *mark = iso_tensors_metadata(t, "mark"), *init = iso_tensors_metadata(t, "init");
        snprintf(s->mark, sizeof s->mark, "%s", mark ? mark : "");
        snprintf(s->init, sizeof s->init, "%s", init ? init : "");
        iso_free(s->alloc, s->run);
        s->run = run ? iso_strdup(s->alloc, run) : NULL;
        if (run && !s->run)
            result = iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its figures", path);
    }
    return result;
}

int iso_checkpoint_read(const iso_run *run, uint64_t round, const iso_card *card, const iso_net *net, iso_snapshot *s,
                        iso_error *e)
{
    char name[ISO_CHECKPOINT_NAME_MAX];
    iso_checkpoint_name(round, name);
    char *path = iso_path_join(run->alloc, run->path, name);
    if (!path)
        return iso_error_set(e, ISO_E_NOMEM, "no memory to read %s", name);
    iso_bytes bytes = {0};
    iso_tensors *t = NULL;
    int result = iso_file_read(path, 0, run->alloc, &bytes, e);
    if (result == 0)
        result = iso_tensors_read(&t, bytes.bytes, bytes.size, path, run->alloc, e);
    if (result == 0)
        result = iso_card_verify(t, "checkpoint", path, e);
    if (result == 0)
        result = same_origin(card, t, path, run, e);
    if (result == 0)
        result = fill(t, net, path, s, e);
    iso_tensors_free(t);
    iso_bytes_release(&bytes);
    iso_free(run->alloc, path);
    return result;
}

int iso_checkpoint_newest(const iso_run *run, const iso_card *card, const iso_net *net, iso_snapshot *s, bool *found,
                          iso_checkpoint_skipped skipped, void *context, iso_error *e)
{
    uint64_t *rounds;
    size_t count;
    *found = false;
    int result = iso_run_checkpoints(run, &rounds, &count, e);
    for (size_t i = 0; result == 0 && i < count && !*found; i++) {
        result = iso_checkpoint_read(run, rounds[i], card, net, s, e);
        *found = result == 0;
        if ((result == ISO_E_FORMAT || result == ISO_E_IO) && i + 1 < count) {
            if (skipped && e)
                skipped(context, e->text);
            result = 0;
        }
    }
    iso_free(run->alloc, rounds);
    if (result == ISO_E_FORMAT && count > 1)
        iso_error_prefix(e, "none of %zu checkpoints is whole (--force begins anew); the oldest: ", count);
    return result;
}

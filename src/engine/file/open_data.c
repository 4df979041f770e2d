/* SPDX-License-Identifier: Apache-2.0
 * Paths to data sets: files and their labels, folders with the usual names. */
#include "engine/file/open_data.h"

#include <string.h>

#include "engine/file/file.h"

static int no_memory(const char *path, iso_error *e)
{
    return iso_error_set(e, ISO_E_NOMEM, "%s: out of memory", path);
}

/* What all files of one call have in common. */
typedef struct opening {
    const char *format;
    const atomic_int *stop;
    const iso_alloc *alloc;
} opening;

/* One file to one data set. */
static int load_file(const char *path, iso_role role, const opening *o, iso_dataset *out, iso_error *e)
{
    iso_bytes bytes;
    *out = (iso_dataset){0};
    int status = iso_file_load(path, 0, o->stop, o->alloc, &bytes, NULL, e);
    if (status != ISO_OK)
        return status;
    const iso_read_options options = {
        .name = strcmp(path, "-") == 0 ? "standard input" : path, .format = o->format, .role = role};
    status = iso_data_read(&bytes, &options, o->alloc, out, e);
    iso_bytes_release(&bytes); /* empty when the data set took them */
    return status;
}

/* Other spellings of the file l->name[at] must hold the same: with other bytes nobody knows which one is meant. */
static int check_twins(const char *folder, const iso_listing *l, size_t at, const iso_alloc *a, iso_error *e)
{
    char *path = NULL;
    int status = ISO_OK;
    for (size_t i = 0; i < l->count && status == ISO_OK; i++) {
        if (i == at || !iso_folder_same(l->name[at], l->name[i]))
            continue;
        char *twin = iso_path_join(a, folder, l->name[i]);
        bool same = true;
        path = path ? path : iso_path_join(a, folder, l->name[at]);
        status = path && twin ? ISO_OK : no_memory(folder, e);
        if (status == ISO_OK && iso_path_kind_of(path) == ISO_PATH_FILE && iso_path_kind_of(twin) == ISO_PATH_FILE)
            status = iso_file_same(path, twin, a, &same, e);
        if (!same)
            status = iso_error_set(e, ISO_E_FORMAT,
                                   "%s and %s are two spellings of one file, but they do not hold the same; remove one of "
                                   "them, or name the files with data.path and data.labels",
                                   path, l->name[i]);
        iso_free(a, twin);
    }
    iso_free(a, path);
    return status;
}

static bool has_twin(const iso_listing *l, size_t at)
{
    bool usual = iso_folder_same(l->name[at], l->name[at]);
    for (size_t i = 0; usual && i < l->count; i++)
        if (i != at && l->name[i] && iso_folder_same(l->name[at], l->name[i]))
            return true;
    return false;
}

/* The names in a folder. A folder that is called like a file beside it is left out: archives are unpacked into such. */
static int list_files(const char *folder, const iso_alloc *a, iso_listing *l, iso_error *e)
{
    int status = iso_folder_list(folder, a, l, e);
    for (size_t i = 0; i < l->count && status == ISO_OK; i++) {
        if (!has_twin(l, i))
            continue;
        char *path = iso_path_join(a, folder, l->name[i]);
        if (!path) {
            status = no_memory(folder, e);
        } else if (iso_path_kind_of(path) == ISO_PATH_FOLDER) {
            iso_free(a, l->name[i]);
            l->name[i] = NULL;
        }
        iso_free(a, path);
    }
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->name[i])
            l->name[kept++] = l->name[i];
    l->count = kept;
    if (status != ISO_OK)
        iso_listing_free(l);
    return status;
}

/* Those of `samples` among the files of its folder, in a new string; *out stays NULL when there are none. */
static int choose_labels(const char *samples, const char *folder, const iso_listing *l, const iso_alloc *a, char **out,
                         iso_error *e)
{
    const char *name = iso_path_name(samples);
    size_t at = 0;
    while (at < l->count && !iso_folder_pairs(name, l->name[at])) /* in byte order the plain name comes before its .gz */
        at++;
    if (at == l->count)
        return ISO_OK;
    int status = check_twins(folder, l, at, a, e);
    if (status != ISO_OK)
        return status;
    *out = name == samples ? iso_strdup(a, l->name[at]) : iso_path_join(a, folder, l->name[at]);
    return *out ? ISO_OK : no_memory(samples, e);
}

/* The file of labels beside a file of samples, in a new string; *out is NULL when there is none. */
static int find_labels(const char *samples, const iso_alloc *a, char **out, iso_error *e)
{
    *out = NULL;
    if (strcmp(samples, "-") == 0)
        return ISO_OK;
    const char *name = iso_path_name(samples);
    char *folder = iso_strdup(a, name == samples ? "." : samples);
    if (!folder)
        return no_memory(samples, e);
    if (name != samples)
        folder[name == samples + 1 ? 1 : name - samples - 1] = '\0'; /* "/x" lies in "/" */
    iso_listing l;
    int status = list_files(folder, a, &l, e);
    if (status == ISO_E_IO) /* a folder that may not be listed just has no labels to find */
        status = ISO_OK;
    else if (status == ISO_OK)
        status = choose_labels(samples, folder, &l, a, out, e);
    iso_listing_free(&l);
    iso_free(a, folder);
    return status;
}

static int join_labels(iso_dataset *set, const char *labels, const opening *o, iso_error *e)
{
    iso_dataset l;
    int status = load_file(labels, ISO_ROLE_LABELS, o, &l, e);
    if (status == ISO_OK)
        status = iso_dataset_join(set, &l, e);
    iso_dataset_free(&l);
    return status;
}

/* Samples and labels; labels NULL: in the same file, or beside it under the usual name. */
static int load_set(const char *samples, const char *labels, bool want_labels, const opening *o, iso_dataset *out,
                    iso_error *e)
{
    char *beside = NULL;
    int status = load_file(samples, ISO_ROLE_SAMPLES, o, out, e);
    if (status == ISO_OK && !out->labels && !labels)
        status = find_labels(samples, o->alloc, &beside, e);
    if (status == ISO_OK && (labels || beside))
        status = join_labels(out, labels ? labels : beside, o, e);
    iso_free(o->alloc, beside);
    if (status == ISO_OK && want_labels && !out->labels)
        status = iso_error_set(
            e, ISO_E_FORMAT,
            "%s: has no labels, and no file of labels lies beside it under the usual name (images -> labels, idx3 -> "
            "idx1); name it with data.labels",
            samples);
    if (status != ISO_OK)
        iso_dataset_free(out);
    return status;
}

/* A folder's train or test set; *path (may be NULL) gets the samples' path. */
static int load_pair(const char *folder, const iso_listing *l, int64_t samples, int64_t labels, const opening *o,
                     iso_dataset *out, char **path, iso_error *e)
{
    const iso_alloc *a = o->alloc;
    char *s = iso_path_join(a, folder, l->name[samples]), *t = iso_path_join(a, folder, l->name[labels]);
    int status = s && t ? check_twins(folder, l, (size_t)samples, a, e) : no_memory(folder, e);
    if (status == ISO_OK)
        status = check_twins(folder, l, (size_t)labels, a, e);
    if (status == ISO_OK)
        status = load_set(s, t, true, o, out, e);
    if (status == ISO_OK && path) {
        *path = s;
        s = NULL;
    }
    iso_free(a, t);
    iso_free(a, s);
    return status;
}

static int find_in_folder(const char *folder, const iso_alloc *a, iso_listing *l, iso_folder *f, iso_error *e)
{
    int status = list_files(folder, a, l, e);
    if (status != ISO_OK)
        return status;
    status = iso_folder_find((const char *const *)l->name, l->count, f, e);
    if (status != ISO_OK)
        iso_error_prefix(e, "%s: ", folder);
    return status;
}

static int open_one(const char *path, const char *labels, bool want_labels, const opening *o, iso_dataset *out,
                    iso_data_part *part, iso_error *e)
{
    *out = (iso_dataset){0};
    *part = ISO_DATA_FILE;
    if (strcmp(path, "-") == 0 || iso_path_kind_of(path) != ISO_PATH_FOLDER)
        return load_set(path, labels, want_labels, o, out, e);
    iso_listing l;
    iso_folder f;
    int status = find_in_folder(path, o->alloc, &l, &f, e);
    if (status == ISO_OK) {
        *part = f.test_samples >= 0 ? ISO_DATA_TEST : ISO_DATA_TRAIN;
        status = *part == ISO_DATA_TEST ? load_pair(path, &l, f.test_samples, f.test_labels, o, out, NULL, e)
                                        : load_pair(path, &l, f.train_samples, f.train_labels, o, out, NULL, e);
    }
    iso_listing_free(&l);
    return status;
}

int iso_data_open_one(const char *path, const char *labels, const char *format, bool want_labels, const iso_alloc *a,
                      iso_dataset *out, iso_data_part *part, iso_error *e)
{
    iso_data_part ignored;
    return open_one(path, labels, want_labels, &(opening){.format = format, .alloc = a}, out, part ? part : &ignored, e);
}

/* data.path as a folder: train, and test unless the job names another. */
static int open_folder(const iso_data_source *s, const opening *o, iso_data *d, iso_error *e)
{
    iso_listing l;
    iso_folder f;
    int status = find_in_folder(s->path, d->alloc, &l, &f, e);
    if (status == ISO_OK && f.train_samples < 0)
        status = iso_error_set(e, ISO_E_FORMAT,
                               "%s: there is a test set (%s) but no training set (train-images-idx3-ubyte or its like)",
                               s->path, l.name[f.test_samples]);
    if (status == ISO_OK)
        status = load_pair(s->path, &l, f.train_samples, f.train_labels, o, &d->train, &d->train_path, e);
    if (status == ISO_OK && !s->test && f.test_samples >= 0) {
        status = load_pair(s->path, &l, f.test_samples, f.test_labels, o, &d->test, &d->test_path, e);
        d->has_test = status == ISO_OK;
    }
    iso_listing_free(&l);
    return status;
}

static int open_train(const iso_data_source *s, const opening *o, iso_data *d, iso_error *e)
{
    if (!s->path || !*s->path)
        return iso_error_set(e, ISO_E_ARGUMENT, "no data: name a file or a folder with data.path (--data)");
    if (strcmp(s->path, "-") != 0 && iso_path_kind_of(s->path) == ISO_PATH_FOLDER) {
        if (s->labels)
            return iso_error_set(e, ISO_E_ARGUMENT, "data.labels (%s) goes with a file, but data.path (%s) is a folder",
                                 s->labels, s->path);
        return open_folder(s, o, d, e);
    }
    d->train_path = iso_strdup(d->alloc, s->path);
    if (!d->train_path)
        return no_memory(s->path, e);
    return load_set(s->path, s->labels, true, o, &d->train, e);
}

static int open_extra(const char *path, const opening *o, iso_dataset *out, bool *has, iso_error *e)
{
    iso_data_part part;
    int status = open_one(path, NULL, true, o, out, &part, e);
    *has = status == ISO_OK;
    return status;
}

/* One shape and one number of classes for all sets. */
static int agree(iso_data *d, iso_error *e)
{
    iso_dataset *extra[2] = {d->has_test ? &d->test : NULL, d->has_validation ? &d->validation : NULL};
    for (int i = 0; i < 2; i++) {
        if (!extra[i])
            continue;
        int status = iso_dataset_check_shape(extra[i], d->train.shape, e);
        if (status == ISO_OK && d->train.class_names)
            status = iso_dataset_check_labels(extra[i], d->train.classes, e);
        if (status != ISO_OK)
            return status;
        if (extra[i]->classes > d->train.classes)
            d->train.classes = extra[i]->classes;
    }
    for (int i = 0; i < 2; i++)
        if (extra[i] && !extra[i]->class_names)
            extra[i]->classes = d->train.classes;
    return ISO_OK;
}

int iso_data_open(const iso_data_source *source, const iso_alloc *a, iso_data *out, iso_error *e)
{
    *out = (iso_data){.alloc = a};
    const opening o = {source->format, source->stop, a};
    int status = open_train(source, &o, out, e);
    if (status == ISO_OK && source->test) {
        out->test_path = iso_strdup(a, source->test);
        status = out->test_path ? open_extra(source->test, &o, &out->test, &out->has_test, e)
                                : no_memory(source->test, e);
    }
    if (status == ISO_OK && source->validation)
        status = open_extra(source->validation, &o, &out->validation, &out->has_validation, e);
    if (status == ISO_OK)
        status = agree(out, e);
    if (status != ISO_OK)
        iso_data_close(out);
    return status;
}

void iso_data_close(iso_data *d)
{
    if (!d)
        return;
    iso_dataset_free(&d->train);
    iso_dataset_free(&d->test);
    iso_dataset_free(&d->validation);
    iso_free(d->alloc, d->train_path);
    iso_free(d->alloc, d->test_path);
    *d = (iso_data){0};
}

/* SPDX-License-Identifier: Apache-2.0
 * isochron inspect: what a file or folder holds: data, a folder of data, tensors, a run. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/summary.h"
#include "engine/file/file.h"
#include "engine/file/open_data.h"
#include "engine/run/card.h"
#include "engine/run/folder.h"
#include "engine/run/summary.h"

#define CLASSES_SHOWN 40u

static const cli_option options[] = {
    {"data-format", "NAME", NULL, "auto looks at the content; or a format's name"},
    {"json", NULL, NULL, "the result as JSON"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

/* ---- data ---- */

static void print_set(const char *title, const iso_dataset *d, const iso_data_report *r)
{
    char name[16];
    printf("%-10s %s\n", title, d->source);
    if (d->values) {
        printf("           %s samples of %ux%ux%u %s\n", cli_grouped(d->count), d->shape.c, d->shape.h, d->shape.w,
               iso_dtype_name(d->dtype));
        printf("           values %s to %s, mean %s\n", cli_fixed(r->minimum, 4), cli_fixed(r->maximum, 4),
               cli_fixed(r->mean, 4));
        if (r->constant_channels)
            printf("           %u of %u channels are constant\n", r->constant_channels, d->shape.c);
    }
    if (!d->labels)
        return;
    printf("           %s labels from %d to %d, %u classes", cli_grouped(d->count), r->label_minimum, r->label_maximum,
           r->classes);
    if (r->empty_classes)
        printf(", %u of them without a sample", r->empty_classes);
    printf("\n");
    for (uint32_t k = 0; k < r->classes && k < CLASSES_SHOWN; k++)
        printf("           %-14s %s\n", iso_dataset_class_name(d, k, name), cli_grouped(r->class_counts[k]));
    if (r->classes > CLASSES_SHOWN)
        printf("           ... and %u classes more\n", r->classes - CLASSES_SHOWN);
}

static void doubt(void *context, const char *sentence)
{
    (void)context;
    cli_warning("%s", sentence);
}

/* What check and train warn of. */
static int tell_doubts(const iso_inspection *in, iso_error *e)
{
    iso_data_parts parts = {.training = iso_view_all(&in->set),
                            .classes = in->set.classes,
                            .constant_channels = in->report.constant_channels};
    if (in->has_test)
        parts.test = iso_view_all(&in->test);
    return iso_data_doubts(&parts, NULL, doubt, NULL, e);
}

static void set_json(cli_json *j, const char *key, const iso_dataset *d, const iso_data_report *r)
{
    char name[16];
    cli_json_open(j, key, '{');
    cli_json_text(j, "source", d->source);
    cli_json_whole(j, "count", d->count);
    if (d->values) {
        cli_json_open(j, "shape", '[');
        cli_json_whole(j, NULL, d->shape.c);
        cli_json_whole(j, NULL, d->shape.h);
        cli_json_whole(j, NULL, d->shape.w);
        cli_json_close(j, ']');
        cli_json_text(j, "dtype", iso_dtype_name(d->dtype));
        cli_json_number(j, "minimum", r->minimum);
        cli_json_number(j, "maximum", r->maximum);
        cli_json_number(j, "mean", r->mean);
        cli_json_whole(j, "constant_channels", r->constant_channels);
    }
    if (d->labels) {
        cli_json_open(j, "classes", '[');
        for (uint32_t k = 0; k < r->classes; k++) {
            cli_json_open(j, NULL, '{');
            cli_json_text(j, "name", iso_dataset_class_name(d, k, name));
            cli_json_whole(j, "count", r->class_counts[k]);
            cli_json_close(j, '}');
        }
        cli_json_close(j, ']');
    }
    cli_json_text(j, "warning", d->warning);
    cli_json_close(j, '}');
}

/* ---- tensors ---- */

static void dims_text(const iso_tensor_view *v, char out[200])
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < v->rank; i++)
        at += (size_t)snprintf(out + at, 200 - at, "%s%llu", i ? "x" : "", (unsigned long long)v->dim[i]);
}

/* Whether the tensors are what their check sums say. */
typedef struct soundness {
    bool has_sums, whole; /* a file of another program has none */
    iso_error why;        /* when it is not whole */
} soundness;

static void examine(soundness *s, const iso_tensors *t, const char *path)
{
    char sha256[ISO_SHA256_TEXT];
    bool ours = iso_tensors_metadata(t, "isochron") || iso_tensors_metadata(t, "crc32c");
    *s = (soundness){.has_sums = ours || iso_tensors_metadata(t, "weights_sha256")};
    int r = ours ? iso_card_verify(t, NULL, path, &s->why) : ISO_OK;
    if (!r)
        r = iso_card_sha256(t, path, NULL, sha256, &s->why);
    s->whole = !r;
}

static void print_tensors(const iso_inspection *in, const soundness *s)
{
    uint64_t values = 0;
    printf("%s: safetensors, %u tensors, %s\n", in->path, iso_tensors_count(in->tensors),
           !s->has_sums ? "no check sums in it" : s->whole ? "whole: its check sums fit" : "DAMAGED");
    for (uint32_t i = 0; i < iso_tensors_count(in->tensors); i++) {
        const iso_tensor_view *v = iso_tensors_at(in->tensors, i);
        char dims[200];
        dims_text(v, dims);
        int length = (int)strlen(v->name);
        printf("  ");
        cli_put_text(v->name, 0);
        printf("%*s %-8s %-18s %14s\n", length < 28 ? 28 - length : 0, "", iso_tensor_type_name(v->type),
               v->rank ? dims : "scalar", cli_grouped(v->count));
        values += v->count;
    }
    printf("  %-28s %-8s %-18s %14s\n", "all", "", "", cli_grouped(values));
    for (uint32_t i = 0; i < iso_tensors_metadata_count(in->tensors); i++) {
        const char *key, *value;
        iso_tensors_metadata_at(in->tensors, i, &key, &value);
        printf(i ? "  " : "metadata\n  ");
        cli_put_text(key, 4);
        printf(": ");
        cli_put_text(value, 4);
        printf("\n");
    }
}

static void tensors_json(cli_json *j, const iso_inspection *in, const soundness *s)
{
    if (s->has_sums)
        cli_json_bool(j, "whole", s->whole);
    else
        cli_json_text(j, "whole", NULL);
    cli_json_open(j, "tensors", '[');
    for (uint32_t i = 0; i < iso_tensors_count(in->tensors); i++) {
        const iso_tensor_view *v = iso_tensors_at(in->tensors, i);
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", v->name);
        cli_json_text(j, "dtype", iso_tensor_type_name(v->type));
        cli_json_open(j, "shape", '[');
        for (uint32_t k = 0; k < v->rank; k++)
            cli_json_whole(j, NULL, v->dim[k]);
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    cli_json_open(j, "metadata", '{');
    for (uint32_t i = 0; i < iso_tensors_metadata_count(in->tensors); i++) {
        const char *key, *value;
        iso_tensors_metadata_at(in->tensors, i, &key, &value);
        cli_json_text(j, key, value);
    }
    cli_json_close(j, '}');
}

/* ---- a run folder ---- */

static bool has_file(const char *folder, const char *name)
{
    char *path = iso_path_join(NULL, folder, name);
    bool there = path && iso_path_kind_of(path) == ISO_PATH_FILE;
    iso_free(NULL, path);
    return there;
}

/* Is it whole, if it is one of the files of weights? What is wrong is told. */
static bool file_is_whole(const char *folder, const char *name)
{
    uint64_t round;
    iso_bytes bytes = {0};
    iso_tensors *t = NULL;
    iso_error e = {0};
    if (strcmp(name, "model.safetensors") != 0 && strcmp(name, ISO_BEST_NAME) != 0 && !iso_checkpoint_round(name, &round))
        return true;
    char *path = iso_path_join(NULL, folder, name);
    soundness sound = {.whole = true};
    int r = path ? iso_file_read(path, 0, NULL, &bytes, &e) : iso_error_set(&e, ISO_E_NOMEM, "out of memory");
    if (!r)
        r = iso_tensors_read(&t, bytes.bytes, bytes.size, path, NULL, &e);
    if (!r) {
        examine(&sound, t, path);
        if (!sound.whole)
            r = (e = sound.why).code;
    }
    if (r)
        cli_failed(r, &e);
    iso_tensors_free(t);
    iso_bytes_release(&bytes);
    iso_free(NULL, path);
    return !r;
}

typedef struct run_folder {
    const char *path;
    bool finished;
    iso_summary summary; /* when finished */
    iso_listing files;
    bool *good; /* [files.count] */
} run_folder;

static int run_json(const run_folder *f)
{
    uint64_t round;
    cli_json j;
    cli_json_init(&j);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "kind", "run");
    cli_json_bool(&j, "finished", f->finished);
    cli_json_bool(&j, "model", has_file(f->path, "model.safetensors"));
    cli_json_open(&j, "checkpoints", '[');
    for (size_t i = 0; i < f->files.count; i++)
        if (iso_checkpoint_round(f->files.name[i], &round))
            cli_json_text(&j, NULL, f->files.name[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "damaged", '[');
    for (size_t i = 0; i < f->files.count; i++)
        if (!f->good[i])
            cli_json_text(&j, NULL, f->files.name[i]);
    cli_json_close(&j, ']');
    if (f->finished)
        cli_summary_json(&j, "summary", &f->summary, f->path);
    cli_json_close(&j, '}');
    return cli_json_end(&j);
}

static void print_run(const run_folder *f)
{
    printf("%s: a run, %s\n", f->path, f->finished ? "finished" : "not finished; --resume goes on with it");
    if (f->finished)
        cli_summary_print(&f->summary, f->path);
    for (size_t i = 0; i < f->files.count; i++)
        if (f->files.name[i][0] != '.') /* hidden */
            printf("  %s%s\n", f->files.name[i], f->good[i] ? "" : "  DAMAGED");
}

static int inspect_run(const char *folder, bool json)
{
    run_folder f = {.path = folder, .finished = has_file(folder, "summary.json")};
    iso_error e = {0};
    iso_summary_begin(&f.summary);
    int r = f.finished ? cli_summary_read(&f.summary, folder, &e) : ISO_OK, status = 0;
    if (!r)
        r = iso_folder_list(folder, NULL, &f.files, &e);
    if (!r && !(f.good = iso_new(NULL, f.files.count + 1, sizeof *f.good)))
        r = iso_error_set(&e, ISO_E_NOMEM, "out of memory");
    if (r) {
        status = cli_failed(r, &e);
    } else {
        for (size_t i = 0; i < f.files.count; i++)
            status |= !(f.good[i] = file_is_whole(folder, f.files.name[i]));
        if (json)
            status |= run_json(&f);
        else
            print_run(&f);
    }
    iso_free(NULL, f.good);
    iso_listing_free(&f.files);
    iso_summary_clear(&f.summary, NULL);
    return status;
}

/* ---- the command ---- */

static int inspection_json(const iso_inspection *in, const soundness *s)
{
    static const char *const kinds[] = {"data", "tensors", "folder"};
    cli_json j;
    cli_json_init(&j);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "kind", kinds[in->kind]);
    cli_json_bool(&j, "gzip", in->gzip);
    if (in->kind == ISO_INSPECT_TENSORS)
        tensors_json(&j, in, s);
    else
        set_json(&j, in->kind == ISO_INSPECT_FOLDER ? "train" : "set", &in->set, &in->report);
    if (in->has_test)
        set_json(&j, "test", &in->test, &in->test_report);
    cli_json_close(&j, '}');
    return cli_json_end(&j);
}

static int run(const cli_arguments *a)
{
    iso_inspection in;
    iso_error e = {0};
    const char *path = a->word[0];
    bool json = cli_given(a, "json");
    int code = iso_run_look(path, NULL, &e);
    if (code)
        return cli_failed(code, &e);
    if (iso_path_kind_of(path) == ISO_PATH_FOLDER && has_file(path, "job.yaml"))
        return inspect_run(path, json);
    int r = iso_inspect(path, cli_given(a, "data-format"), NULL, &in, &e);
    if (r)
        return cli_failed(r, &e);
    if (in.kind == ISO_INSPECT_FOLDER)
        r = tell_doubts(&in, &e);
    else if (in.kind == ISO_INSPECT_DATA && in.set.warning)
        cli_warning("%s", in.set.warning);
    int status = cli_failed(r, &e);
    if (status) {
        iso_inspection_free(&in);
        return status;
    }
    soundness sound = {.whole = true};
    if (in.kind == ISO_INSPECT_TENSORS)
        examine(&sound, in.tensors, path);
    if (json) {
        status = inspection_json(&in, &sound);
    } else if (in.kind == ISO_INSPECT_TENSORS) {
        print_tensors(&in, &sound);
    } else {
        print_set(in.kind == ISO_INSPECT_FOLDER ? "train" : "data", &in.set, &in.report);
        if (in.has_test)
            print_set("test", &in.test, &in.test_report);
    }
    iso_inspection_free(&in);
    if (!sound.whole)
        status = cli_failed(sound.why.code, &sound.why);
    return status;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .words = "FILE|FOLDER",
    .summary = "what a data file, a folder, a model or a run holds",
    .help = "Of a model, a checkpoint or a run also whether the weights are whole: held against their check sums; exit status 1\n"
            "when they are damaged.\n"
            "  isochron inspect /usr/share/datasets/fashion-mnist\n"
            "  isochron inspect runs/lenet5-fashion/model.safetensors",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};

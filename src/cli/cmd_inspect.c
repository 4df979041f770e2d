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

static void print_tensors(const iso_inspection *in)
{
    uint64_t values = 0;
    printf("%s: safetensors, %u tensors\n", in->path, iso_tensors_count(in->tensors));
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

static void tensors_json(cli_json *j, const iso_inspection *in)
{
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

static int inspect_run(const char *folder, bool json, iso_error *e)
{
    iso_summary s;
    iso_listing files;
    bool finished = has_file(folder, "summary.json");
    iso_summary_begin(&s);
    int r = finished ? cli_summary_read(&s, folder, e) : ISO_OK;
    if (r)
        return r;
    r = iso_folder_list(folder, NULL, &files, e);
    if (r) {
        iso_summary_clear(&s, NULL);
        return r;
    }
    if (json) {
        uint64_t round;
        cli_json j;
        cli_json_init(&j);
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "kind", "run");
        cli_json_bool(&j, "finished", finished);
        cli_json_bool(&j, "model", has_file(folder, "model.safetensors"));
        cli_json_open(&j, "checkpoints", '[');
        for (size_t i = 0; i < files.count; i++)
            if (iso_checkpoint_round(files.name[i], &round))
                cli_json_text(&j, NULL, files.name[i]);
        cli_json_close(&j, ']');
        if (finished)
            cli_summary_json(&j, "summary", &s, folder);
        cli_json_close(&j, '}');
        r = cli_json_flush(&j) == ISO_E_NOMEM ? iso_error_set(e, ISO_E_NOMEM, "out of memory") : ISO_OK;
        cli_json_fini(&j);
    } else {
        printf("%s: a run, %s\n", folder, finished ? "finished" : "not finished; --resume goes on with it");
        if (finished)
            cli_summary_print(&s, folder);
        for (size_t i = 0; i < files.count; i++)
            if (files.name[i][0] != '.') /* hidden */
                printf("  %s\n", files.name[i]);
    }
    iso_listing_free(&files);
    iso_summary_clear(&s, NULL);
    return r;
}

/* ---- the command ---- */

static int inspection_json(const iso_inspection *in)
{
    static const char *const kinds[] = {"data", "tensors", "folder"};
    cli_json j;
    cli_json_init(&j);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "kind", kinds[in->kind]);
    cli_json_bool(&j, "gzip", in->gzip);
    if (in->kind == ISO_INSPECT_TENSORS)
        tensors_json(&j, in);
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
    if (iso_path_kind_of(path) == ISO_PATH_FOLDER && has_file(path, "job.yaml"))
        return cli_failed(inspect_run(path, json, &e), &e);
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
    if (json) {
        status = inspection_json(&in);
    } else if (in.kind == ISO_INSPECT_TENSORS) {
        print_tensors(&in);
    } else {
        print_set(in.kind == ISO_INSPECT_FOLDER ? "train" : "data", &in.set, &in.report);
        if (in.has_test)
            print_set("test", &in.test, &in.test_report);
    }
    iso_inspection_free(&in);
    return status;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .words = "FILE|FOLDER",
    .summary = "what a data file, a folder, a model or a run holds",
    .help = "  isochron inspect /usr/share/datasets/fashion-mnist\n"
            "  isochron inspect runs/lenet5-fashion/model.safetensors",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};

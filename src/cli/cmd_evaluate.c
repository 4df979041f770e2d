/* SPDX-License-Identifier: Apache-2.0
 * isochron evaluate: loss, accuracy, confusion matrix, precision and recall of a trained model on data. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "engine/file/open_data.h"
#include "isochron/train.h"

#define MATRIX_MAX 30u /* classes: a wider matrix does not fit a screen */

static const cli_option options[] = {
    {"data", "PATH", NULL, "a data file, or a folder: its test set, else its training set; else what the job names"},
    {"labels", "PATH", NULL, "the labels, when they do not lie beside the data under the usual name"},
    {"data-format", "NAME", NULL, "auto looks at the content; or a format's name"},
    CLI_ISA_OPTION,
    {"json", NULL, NULL, "the result as JSON"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

/* What was evaluated, and on what. */
typedef struct subject {
    const iso_trained *model;
    const char *set; /* "test", "training" or "" */
    const char *source;
} subject;

static int result_json(const subject *s, const iso_evaluation *v)
{
    cli_json j;
    cli_json_init(&j);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "model", iso_model_path(s->model));
    cli_json_text(&j, "weights_sha256", iso_model_sha256(s->model));
    cli_json_text(&j, "source", s->source);
    cli_json_text(&j, "set", *s->set ? s->set : NULL);
    cli_json_number(&j, "loss", v->loss);
    cli_json_number(&j, "accuracy", v->accuracy);
    cli_json_whole(&j, "samples", v->samples);
    cli_json_whole(&j, "correct", v->correct);
    cli_json_open(&j, "confusion", '[');
    for (uint32_t row = 0; row < v->classes; row++) {
        cli_json_open(&j, NULL, '[');
        for (uint32_t column = 0; column < v->classes; column++)
            cli_json_whole(&j, NULL, v->confusion[(size_t)row * v->classes + column]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "classes", '[');
    for (uint32_t k = 0; k < v->classes; k++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", v->score[k].name);
        cli_json_number(&j, "precision", v->score[k].precision);
        cli_json_number(&j, "recall", v->score[k].recall);
        cli_json_whole(&j, "count", v->score[k].count);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    return cli_json_end(&j);
}

/* Of a column that holds the classes' names below a title. */
static int name_width(const iso_evaluation *v, const char *title)
{
    size_t width = strlen(title);
    for (uint32_t k = 0; k < v->classes; k++)
        if (strlen(v->score[k].name) > width)
            width = strlen(v->score[k].name);
    return (int)width;
}

static void print_classes(const iso_evaluation *v)
{
    int width = name_width(v, "class");
    printf("\n%-*s  precision  recall  count\n", width, "class");
    for (uint32_t k = 0; k < v->classes; k++)
        printf("%-*s  %9s  %6s  %5s\n", width, v->score[k].name, cli_fixed(v->score[k].precision, 4),
               cli_fixed(v->score[k].recall, 4), cli_grouped(v->score[k].count));
}

static void print_matrix(const iso_evaluation *v)
{
    if (v->classes > MATRIX_MAX) {
        printf("\nThe confusion matrix has %u classes; --json prints it.\n", v->classes);
        return;
    }
    int width = 3, names = name_width(v, "true");
    for (size_t i = 0; i < (size_t)v->classes * v->classes; i++) {
        int digits = snprintf(NULL, 0, "%llu", (unsigned long long)v->confusion[i]);
        width = digits > width ? digits : width;
    }
    printf("\n%-*s  predicted, by number of the class\n%-*s ", names, "true", names, "");
    for (uint32_t k = 0; k < v->classes; k++)
        printf(" %*u", width, k);
    for (uint32_t row = 0; row < v->classes; row++) {
        printf("\n%-*s ", names, v->score[row].name);
        for (uint32_t column = 0; column < v->classes; column++)
            printf(" %*llu", width, (unsigned long long)v->confusion[(size_t)row * v->classes + column]);
    }
    printf("\n");
}

static int evaluate(const cli_arguments *a, const iso_trained *m, const char *path)
{
    iso_dataset data;
    iso_evaluation v;
    iso_data_part part;
    iso_error e = {0};
    int code = iso_data_open_one(path, cli_given(a, "labels"), cli_given(a, "data-format"), true, NULL, &data, &part, &e);
    if (code)
        return cli_failed(code, &e);
    if (data.warning)
        cli_warning("%s", data.warning);
    cli_signals_catch();
    code = iso_evaluate(m, &data, &cli_stop, NULL, &v, &e);
    if (code) {
        iso_dataset_free(&data);
        return code == ISO_E_INTERRUPTED && atomic_load(&cli_stop) ? 128 + atomic_load(&cli_stop) : cli_failed(code, &e);
    }
    bool seen = data.fingerprint == iso_model_data(m); /* whatever it is called */
    if (seen)
        cli_warning("the model was trained on these samples: new ones may come out worse");
    const subject s = {m, seen || part == ISO_DATA_TRAIN ? "training" : part == ISO_DATA_TEST ? "test" : "", data.source};
    int status = 0;
    if (cli_given(a, "json")) {
        status = result_json(&s, &v);
    } else {
        printf("model     %s (sha256 %.12s)\ndata      %s%s%s\n", iso_model_path(m), iso_model_sha256(m), s.set,
               *s.set ? " set " : "", s.source);
        printf("accuracy  %s (%s of %s)\nloss      %s\n", cli_fixed(v.accuracy, 4), cli_grouped(v.correct),
               cli_grouped(v.samples), cli_fixed(v.loss, 4));
        print_classes(&v);
        print_matrix(&v);
    }
    iso_evaluation_clear(&v, NULL);
    iso_dataset_free(&data);
    return status;
}

static int run(const cli_arguments *a)
{
    iso_trained *m;
    int status = cli_model_open(a, &m);
    if (status)
        return status;
    const iso_job_data *own = &iso_model_job(m)->data;
    const char *path = cli_given(a, "data");
    status = evaluate(a, m, path ? path : own->test[0] ? own->test : own->path);
    iso_model_close(m);
    return status;
}

const cli_command cli_evaluate = {
    .name = "evaluate",
    .words = "MODEL|RUN [--data PATH]",
    .summary = "loss, accuracy, confusion matrix, precision and recall",
    .help = "MODEL is a model.safetensors, a best.safetensors or a checkpoint, RUN a run folder (its model.safetensors).\n"
            "The model file and the set that were used are named first.\n"
            "Precision is the share of right ones among what was called so, recall the share found of what is so.\n"
            "  isochron evaluate runs/lenet5-fashion --data /usr/share/datasets/fashion-mnist\n"
            "  isochron evaluate runs/lenet5-fashion/best.safetensors",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};

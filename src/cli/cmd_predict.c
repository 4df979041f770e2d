/* SPDX-License-Identifier: Apache-2.0
 * isochron predict: what a trained model says about each sample, one line each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/output.h"
#include "engine/file/open_data.h"
#include "isochron/train.h"

#define CHUNK 4096u /* samples between two writes: bounds memory whatever the data's size */

typedef enum form { FORM_CSV, FORM_JSON, FORM_JSONL } form;

static const cli_option options[] = {
    {"format", "NAME", NULL, "csv (default), json (one list) or jsonl (one object a line)"},
    {"top", "N", NULL, "the N likeliest classes of each sample; 1 unless given"},
    {"labels", "PATH", NULL, "the true labels; adds a column `true`"},
    {"data-format", "NAME", NULL, "auto looks at the content; or a format's name"},
    CLI_ISA_OPTION,
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

typedef struct predictor {
    const iso_trained *model;
    const iso_dataset *data;
    form form;
    uint32_t classes, top;
    bool truth;
    const char *value;            /* "probability", or "output" when the loss is not cross-entropy */
    float *out;                   /* [CHUNK][classes] */
    uint32_t *order;              /* [classes] */
    iso_buffer line;
    cli_json json;
} predictor;

/* The `top` largest of row, largest first; equal ones in the order of the classes. */
static void rank(predictor *p, const float *row)
{
    for (uint32_t i = 0; i < p->top; i++)
        p->order[i] = UINT32_MAX;
    for (uint32_t k = 0; k < p->classes; k++) {
        uint32_t at = p->top;
        while (at && (p->order[at - 1] == UINT32_MAX || row[k] > row[p->order[at - 1]]))
            at--;
        if (at == p->top)
            continue;
        memmove(p->order + at + 1, p->order + at, (p->top - at - 1) * sizeof *p->order);
        p->order[at] = k;
    }
}

/* A text as a CSV cell: in quotes when a comma, quote or line end is in it. */
static void csv_text(iso_buffer *b, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        iso_buffer_text(b, text);
        return;
    }
    iso_buffer_text(b, "\"");
    for (; *text; text++) {
        if (*text == '"')
            iso_buffer_text(b, "\"");
        iso_buffer_put(b, text, 1);
    }
    iso_buffer_text(b, "\"");
}

/* The class's own name, else its number: a label that the model does not know. */
static const char *class_name(const predictor *p, int32_t k, char number[16])
{
    const char *name = k >= 0 ? iso_model_class(p->model, (uint32_t)k) : NULL;
    if (!name)
        snprintf(number, 16, "%d", k);
    return name ? name : number;
}

static void csv_header(predictor *p)
{
    iso_buffer_format(&p->line, "index,%slabel,%s", p->truth ? "true," : "", p->value);
    for (uint32_t i = 2; i <= p->top; i++)
        iso_buffer_format(&p->line, ",label%u,%s%u", i, p->value, i);
    iso_buffer_text(&p->line, "\n");
}

static void csv_line(predictor *p, uint64_t index, const float *row)
{
    char number[ISO_NUMBER_TEXT];
    iso_buffer_format(&p->line, "%llu", (unsigned long long)index);
    if (p->truth) {
        iso_buffer_text(&p->line, ",");
        csv_text(&p->line, class_name(p, p->data->labels[index], number));
    }
    for (uint32_t i = 0; i < p->top; i++) {
        iso_buffer_text(&p->line, ",");
        csv_text(&p->line, class_name(p, (int32_t)p->order[i], number));
        iso_print_float(number, row[p->order[i]]);
        iso_buffer_format(&p->line, ",%s", number);
    }
    iso_buffer_text(&p->line, "\n");
}

static void json_object(predictor *p, uint64_t index, const float *row)
{
    char number[16];
    cli_json *j = &p->json;
    cli_json_open(j, NULL, '{');
    cli_json_whole(j, "index", index);
    if (p->truth)
        cli_json_text(j, "true", class_name(p, p->data->labels[index], number));
    cli_json_text(j, "label", class_name(p, (int32_t)p->order[0], number));
    cli_json_float(j, p->value, row[p->order[0]]);
    if (p->top > 1) {
        cli_json_open(j, "top", '[');
        for (uint32_t i = 0; i < p->top; i++) {
            cli_json_open(j, NULL, '{');
            cli_json_text(j, "label", class_name(p, (int32_t)p->order[i], number));
            cli_json_float(j, p->value, row[p->order[i]]);
            cli_json_close(j, '}');
        }
        cli_json_close(j, ']');
    }
    cli_json_close(j, '}');
    if (p->form == FORM_JSONL) {
        iso_buffer_text(&j->text, "\n");
        j->comma = false;
    }
}

/* Writes what is gathered. */
static int flush(predictor *p)
{
    iso_buffer *b = p->form == FORM_CSV ? &p->line : &p->json.text;
    if (b->failed)
        return ISO_E_NOMEM;
    fwrite(b->bytes, 1, b->size, stdout);
    b->size = 0;
    return cli_output_flush();
}

static int predict_all(predictor *p, iso_error *e)
{
    int r = ISO_OK;
    if (p->form == FORM_CSV)
        csv_header(p);
    else if (p->form == FORM_JSON)
        cli_json_open(&p->json, NULL, '[');
    for (uint64_t first = 0; first < p->data->count && !r; first += CHUNK) {
        uint64_t left = p->data->count - first, count = left < CHUNK ? left : CHUNK;
        r = iso_predict(p->model, p->data, first, count, p->out, NULL, e);
        for (uint64_t i = 0; i < count && !r; i++) {
            const float *row = p->out + i * p->classes;
            rank(p, row);
            if (p->form == FORM_CSV)
                csv_line(p, first + i, row);
            else
                json_object(p, first + i, row);
        }
        if (!r)
            r = flush(p);
    }
    if (!r && p->form == FORM_JSON) {
        cli_json_close(&p->json, ']');
        iso_buffer_text(&p->json.text, "\n");
        r = flush(p);
    }
    return r;
}

static int predict(const cli_arguments *a, predictor *p)
{
    iso_dataset data;
    iso_error e = {0};
    const char *labels = cli_given(a, "labels");
    iso_data_part part;
    int r = iso_data_open_one(a->word[1], labels, cli_given(a, "data-format"), labels, NULL, &data, &part, &e);
    if (r)
        return cli_failed(r, &e);
    if (part != ISO_DATA_FILE)
        fprintf(stderr, "%s set %s\n", part == ISO_DATA_TEST ? "test" : "training", data.source);
    if (data.warning)
        cli_warning("%s", data.warning);
    p->data = &data;
    p->truth = labels;
    p->classes = iso_net_classes(iso_model_net(p->model));
    p->top = p->top > p->classes ? p->classes : p->top;
    p->out = calloc((size_t)CHUNK * p->classes, sizeof *p->out);
    p->order = calloc(p->classes, sizeof *p->order);
    iso_buffer_init(&p->line, NULL, 0);
    cli_json_init(&p->json);
    r = p->out && p->order ? predict_all(p, &e) : iso_error_set(&e, ISO_E_NOMEM, "out of memory for the predictions");
    iso_buffer_fini(&p->line);
    cli_json_fini(&p->json);
    free(p->out);
    free(p->order);
    iso_dataset_free(&data);
    if (r == ISO_E_IO && cli_output_flush())
        return 0; /* main tells of a failed output */
    return cli_failed(r, &e);
}

static int run(const cli_arguments *a)
{
    iso_trained *m;
    uint64_t top = 1;
    const char *format = cli_given(a, "format"), *number = cli_given(a, "top");
    predictor p = {.form = FORM_CSV};
    if (format && !strcmp(format, "json"))
        p.form = FORM_JSON;
    else if (format && !strcmp(format, "jsonl"))
        p.form = FORM_JSONL;
    else if (format && strcmp(format, "csv")) {
        cli_error("--format: unknown word '%s'; there are csv, json, jsonl", format);
        return 2;
    }
    if (number && iso_parse_u64(number, strlen(number), 1, UINT32_MAX, &top) != ISO_PARSE_OK) {
        cli_error("--top wants a whole number from 1, found '%s'", number);
        return 2;
    }
    int status = cli_model_open(a, &m);
    if (status)
        return status;
    p.model = m;
    p.top = (uint32_t)top;
    p.value = iso_model_job(m)->loss == ISO_LOSS_CROSS_ENTROPY ? "probability" : "output";
    status = predict(a, &p);
    iso_model_close(m);
    return status;
}

const cli_command cli_predict = {
    .name = "predict",
    .words = "MODEL|RUN FILE|-",
    .summary = "what a trained model says about each sample of a file",
    .help = "MODEL is a model.safetensors, a best.safetensors or a checkpoint, RUN a run folder (its model.safetensors);\n"
            "FILE is a data file or folder, - standard input.\n"
            "  isochron predict runs/lenet5-fashion images.idx --top 3 --format jsonl",
    .options = options,
    .least = 2,
    .most = 2,
    .run = run,
};

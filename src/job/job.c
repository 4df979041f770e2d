/* SPDX-License-Identifier: Apache-2.0
 * A job's life between parsing and use: defaults, completion, the network it describes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "isochron/core.h"
#include "job/schema.h"
#include "job/words.h"

void iso_job_row_defaults(iso_job *job, const job_row *section)
{
    size_t length = section ? strlen(section->path) : 0;
    for (uint32_t i = 0; i < iso_job_row_count; i++) {
        const job_row *row = &iso_job_rows[i];
        if (row->type == JOB_SECTION ||
            (section && (strncmp(row->path, section->path, length) || row->path[length] != '.')))
            continue;
        if (row->standard[0])
            iso_job_value_set(job, row, row->standard, NULL);
        else if (row->type == JOB_WIDTHS)
            job->model.hidden_count = 0;
        else if (row->type == JOB_LAYERS)
            job->model.layers.count = 0;
        else
            *((char *)job + row->offset) = 0;
    }
}

void iso_job_default(iso_job *job)
{
    memset(job, 0, sizeof *job);
    iso_job_row_defaults(job, NULL);
}

int iso_job_error_at(const iso_job *job, iso_place place, iso_error *e)
{
    if (job->file[0] && place.line)
        iso_error_prefix(e, "%s:%u:%u: ", job->file, place.line, place.column);
    return e ? e->code : ISO_E_JOB;
}

/* The last part of a path without its endings: "d/lenet.yaml" -> "lenet", "x/train.csv.gz" -> "train". */
static void stem_of(const char *path, char *out, size_t size)
{
    size_t end = strlen(path);
    while (end && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/')
        begin--;
    const char *dot = begin < end ? memchr(path + begin + 1, '.', end - begin - 1) : NULL;
    size_t length = (dot ? (size_t)(dot - path) : end) - begin;
    if (length >= size)
        length = size - 1;
    while (length && length < end - begin && ((unsigned char)path[begin + length] & 0xC0) == 0x80)
        length--; /* a whole character */
    memcpy(out, path + begin, length);
    out[length] = 0;
    if (!strcmp(out, ".") || !strcmp(out, ".."))
        snprintf(out, size, "here");
}

static void finish_name(iso_job *job)
{
    char data[ISO_WORD_MAX];
    if (job->name[0])
        return;
    if (job->file[0] && strcmp(job->file, "-")) /* "-": standard input */
        stem_of(job->file, job->name, sizeof job->name);
    if (job->name[0])
        return;
    stem_of(job->data.path, data, sizeof data);
    snprintf(job->name, sizeof job->name, "%s%s%s", job->model.preset[0] ? job->model.preset : "net",
             data[0] ? "-" : "", data);
}

static int missing(const iso_job *job, const char *what, iso_error *e)
{
    iso_error_set(e, ISO_E_JOB, "%s", what);
    return iso_job_error_at(job, (iso_place){1, 1}, e);
}

static int finish_model(const iso_job *job, iso_error *e)
{
    const iso_job_net *m = &job->model;
    bool layers = m->layers.count;
    const char *both = m->preset[0]       ? "a preset"
                       : m->hidden_count  ? "hidden"
                       : m->activation[0] ? "activation"
                       : m->form[0]       ? "form"
                                          : NULL;
    if (!layers && !m->preset[0])
        return missing(job,
                       both ? "model has options but neither a preset nor layers"
                            : "model is missing: give model: NAME, {preset: NAME} or {layers: [...]} in the job file, "
                              "or --model NAME",
                       e);
    if (layers && both) {
        iso_error_set(e, ISO_E_JOB, "model has layers and %s as well; they exclude each other", both);
        return iso_job_error_at(job, job->model_at, e);
    }
    iso_model made;
    return iso_job_model(job, m->classes ? m->classes : 10, &made,
                         e); /* any class count shows what is wrong with the options */
}

/* Policy and parameters may have been written into the struct by hand. */
static int finish_policy(const iso_job *job, iso_policy_spec *out, iso_error *e)
{
    const iso_policy *found = iso_policy_find(job->policy);
    int r = ISO_E_JOB;
    if (!found) {
        iso_error_set(e, r, "there is no policy '%.40s'", job->policy);
    } else {
        iso_policy_spec_default(out, found);
        r = iso_policy_spec_parse(out, job->parameters, e);
    }
    if (r)
        iso_job_error_at(job, job->sync_at, e);
    return r;
}

/* What suits a batch of 64 or more; the rate of a smaller one shrinks with it (a batch of one diverges at the rate of 64). */
static double usual_rate(const iso_job *job, const iso_policy_spec *policy)
{
    double batch = (double)iso_policy_batch(policy, UINT64_MAX, job->batch);
    if (job->optimizer.kind == ISO_ADAM)
        return 0.001;
    return batch < 64 ? 0.05 * batch / 64 : 0.05;
}

int iso_job_finish(iso_job *job, iso_error *e)
{
    if (!job->data.path[0])
        return missing(job, "data is missing: give data: PATH or data: {path: PATH} in the job file, or --data PATH",
                       e);
    int r = finish_model(job, e);
    if (r)
        return r;
    iso_policy_spec policy;
    r = finish_policy(job, &policy, e);
    if (r)
        return r;
    if (isnan(job->optimizer.learning_rate))
        job->optimizer.learning_rate = usual_rate(job, &policy);
    finish_name(job);
    return ISO_OK;
}

int iso_job_model(const iso_job *job, uint32_t classes, iso_model *out, iso_error *e)
{
    const iso_job_net *m = &job->model;
    int r = ISO_OK;
    if (m->layers.count) {
        *out = m->layers;
    } else {
        iso_preset_options options = {.classes = m->classes ? m->classes : classes, .hidden_count = m->hidden_count};
        memcpy(options.hidden, m->hidden, sizeof options.hidden);
        options.activation = m->activation[0] ? m->activation : NULL;
        options.form = m->form[0] ? m->form : NULL;
        r = iso_model_preset(out, m->preset, &options, e);
    }
    if (r == ISO_E_ARGUMENT) {
        if (e)
            e->code = ISO_E_JOB;
        r = ISO_E_JOB;
    }
    if (r) {
        iso_job_error_at(job, job->model_at, e);
        return r;
    }
    out->loss = job->loss;
    if (m->init != ISO_INIT_AUTO) /* else the preset's */
        out->init = m->init;
    return ISO_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 * Making a plan (plan.h). The memory is an estimate from the library's own sizes: what one local run takes at its peak.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan.h"
#include "cli/output.h"
#include "engine/local/need.h"
#include "engine/machine/memory.h"
#include "isochron/core.h"
#include "isochron/train.h"

static void warn(cli_plan *p, const char *format, ...) ISO_PRINTF(2, 3);
static void warn(cli_plan *p, const char *format, ...)
{
    va_list list;
    if (p->warning_count == CLI_WARNINGS_MAX)
        return;
    va_start(list, format);
    vsnprintf(p->warning[p->warning_count++], sizeof p->warning[0], format, list);
    va_end(list);
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* The sets that there are: train first, then test and validation; NULL ends them. */
static void list_sets(const cli_plan *p, const iso_dataset *set[4])
{
    uint32_t n = 0;
    set[n++] = &p->data.train;
    if (p->data.has_test)
        set[n++] = &p->data.test;
    if (p->data.has_validation)
        set[n++] = &p->data.validation;
    set[n] = NULL;
}

static int open_data(cli_plan *p, iso_error *e)
{
    const iso_job_data *d = &p->job->data;
    iso_data_source source = {d->path, or_null(d->test), or_null(d->labels), or_null(d->validation_path),
                              or_null(d->format), NULL};
    int r = iso_data_open(&source, NULL, &p->data, e);
    if (r) {
        iso_job_error_at(p->job, p->job->path_at, e);
        return r;
    }
    p->classes = p->data.train.classes;
    iso_augment augment = {d->shift, d->flip};
    r = iso_augment_any(&augment) ? iso_augment_check(&augment, p->data.train.shape, e) : ISO_OK;
    if (r) {
        iso_job_error_at(p->job, p->job->data_at, e);
        return r;
    }
    r = iso_split_make(&p->data.train, p->data.has_validation ? 0 : d->validation, p->job->seed, NULL, &p->train_part,
                       &p->validation_part, e);
    if (r)
        return r;
    p->training = p->train_part.count;
    p->validation = p->data.has_validation ? p->data.validation.count : p->validation_part.count;
    return ISO_OK;
}

static void doubt(void *context, const char *sentence)
{
    warn(context, "%s", sentence);
}

/* What a person should know of the data before it is trained on. */
static int tell_doubts(cli_plan *p, uint32_t classes, iso_error *e)
{
    iso_data_parts parts = {.training = p->train_part, .validation = p->validation_part, .classes = classes};
    if (p->data.has_validation)
        parts.validation = iso_view_all(&p->data.validation);
    if (p->data.has_test)
        parts.test = iso_view_all(&p->data.test);
    iso_channel *channel = malloc(p->data.train.shape.c * sizeof *channel);
    int r = channel ? iso_normalize_measure(&p->train_part, ISO_NORMALIZE_NONE, channel, &parts.constant_channels, e)
                    : iso_error_set(e, ISO_E_NOMEM, "no memory for %u channels", p->data.train.shape.c);
    free(channel);
    return r ? r : iso_data_doubts(&parts, NULL, doubt, p, e);
}

static int build(cli_plan *p, iso_isa isa, iso_error *e)
{
    iso_model model;
    int r = iso_job_model(p->job, p->classes, &model, e);
    if (r)
        return r;
    uint32_t classes = p->job->model.classes ? p->job->model.classes : p->classes;
    const iso_dataset *set[4];
    list_sets(p, set);
    for (uint32_t i = 0; set[i] && !r; i++)
        r = iso_dataset_check_labels(set[i], classes, e);
    if (!r)
        r = tell_doubts(p, classes, e);
    if (!r)
        r = iso_net_new(&p->net, &model, p->data.train.shape, classes, isa, NULL, e);
    if (r == ISO_E_SHAPE || r == ISO_E_ARGUMENT)
        iso_job_error_at(p->job, p->job->model_at, e);
    if (r)
        return r;
    for (uint32_t i = 0; i < iso_net_layer_count(p->net); i++) {
        iso_layer_info l = iso_net_layer(p->net, i);
        if (l.unused_rows || l.unused_columns)
            warn(p, "%s leaves %u rows and %u columns of its %ux%u input unused", l.name, l.unused_rows,
                 l.unused_columns, l.in.h, l.in.w);
    }
    return ISO_OK;
}

static double set_bytes(const iso_dataset *d)
{
    return (double)d->count * ((double)iso_dataset_sample_bytes(d) + (d->labels ? 4 : 0));
}

static void estimate_memory(cli_plan *p)
{
    const iso_need need = iso_local_need(&(iso_need_of){.net = p->net,
                                                        .optimizer = &p->job->optimizer,
                                                        .batch = p->batch,
                                                        .unit = p->unit,
                                                        .workers = p->workers,
                                                        .best = p->validation > 0});
    const iso_dataset *set[4];
    list_sets(p, set);
    for (uint32_t i = 0; set[i]; i++)
        p->memory_data += set_bytes(set[i]);
    p->memory_parameters = need.parameters;
    p->memory_training = need.optimizer;
    p->memory_workers = need.workers;
    p->memory_all = p->memory_data + p->memory_parameters + p->memory_training + p->memory_workers;
    double allowed = (double)iso_memory_allowed();
    if (p->memory_all > allowed)
        warn(p, "the run needs about %s of memory, %s are allowed here", cli_bytes(p->memory_all), cli_bytes(allowed));
}

static int count_rounds(cli_plan *p, iso_error *e)
{
    const iso_job *job = p->job;
    iso_policy_spec policy;
    iso_policy_spec_default(&policy, iso_policy_find(job->policy)); /* it exists: the job is finished */
    int r = iso_policy_spec_parse(&policy, job->parameters, e);
    if (r)
        return r;
    uint32_t cores = iso_cores_allowed();
    p->workers = job->workers ? job->workers : cores;
    if (p->workers > cores)
        warn(p, "%u workers on %u cores: they take turns", p->workers, cores);
    p->batch = iso_policy_batch(&policy, p->training, job->batch);
    if (iso_policy_ignores_batch(policy.policy))
        warn(p, "%s ignores batch: it works with %s samples", job->policy, cli_grouped(p->batch));
    else if (job->batch > p->training)
        warn(p, "batch %s is larger than the training set: a round is all of its %s samples", cli_grouped(job->batch),
             cli_grouped(p->training));
    p->unit = job->unit ? job->unit : iso_net_unit(p->net, p->batch);
    p->rounds_per_epoch = iso_epoch_rounds(p->training, p->batch);
    p->rounds = p->rounds_per_epoch * job->epochs;
    return ISO_OK;
}

int cli_plan_make(cli_plan *p, const iso_job *job, iso_isa isa, iso_error *e)
{
    memset(p, 0, sizeof *p);
    p->job = job;
    int r = open_data(p, e);
    if (!r)
        r = build(p, isa, e);
    if (!r)
        r = count_rounds(p, e);
    if (r) {
        cli_plan_clear(p);
        return r;
    }
    estimate_memory(p);
    if (!p->data.has_test)
        warn(p, "no test set was found; data.test names one");
    return ISO_OK;
}

void cli_plan_clear(cli_plan *p)
{
    iso_net_free(p->net);
    p->net = NULL;
    iso_view_free(&p->train_part);
    iso_view_free(&p->validation_part);
    iso_data_close(&p->data);
}

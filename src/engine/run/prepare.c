/* SPDX-License-Identifier: Apache-2.0
 * What has to stand before the first round: data, network, engine, the state of an earlier call. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/file/file.h"
#include "engine/run/model.h"
#include "engine/run/session.h"

/* ---- data ---------------------------------------------------------------------------------------------- */

static const char *given(const char *path)
{
    return *path ? path : NULL;
}

static iso_normalize normalize_mode(iso_job_normalize mode)
{
    return mode == ISO_JOB_NORMALIZE_STANDARD ? ISO_NORMALIZE_STANDARD
           : mode == ISO_JOB_NORMALIZE_UNIT   ? ISO_NORMALIZE_UNIT
                                              : ISO_NORMALIZE_NONE;
}

static int split(iso_session *s)
{
    const iso_job_data *d = &s->job->data;
    iso_feed *f = &s->feed;
    int result = iso_split_make(&s->data.train, s->data.has_validation ? 0 : d->validation, s->job->seed, s->alloc,
                                &s->training_part, &s->validation_part, s->error);
    if (result)
        return result;
    f->view[ISO_FEED_TRAIN] = s->training_part;
    f->view[ISO_FEED_VALIDATION] = s->data.has_validation ? iso_view_all(&s->data.validation) : s->validation_part;
    if (s->data.has_test)
        f->view[ISO_FEED_TEST] = iso_view_all(&s->data.test);
    return 0;
}

static int normalize(iso_session *s)
{
    uint32_t channels = s->data.train.shape.c;
    s->channel = iso_new(s->alloc, channels, sizeof *s->channel);
    if (!s->channel)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the normalisation of %" PRIu32 " channels",
                             channels);
    return iso_normalize_measure(&s->training_part, normalize_mode(s->job->data.normalize), s->channel, NULL, s->error);
}

/* Data that a resume does not find may lie elsewhere now: where they were, and how to say where they are. */
static void tell_where_data_were(iso_session *s)
{
    const iso_job *now = s->job, *before = s->before ? s->before : s->job;
    const struct {
        const char *now, *before, *what, *flag;
    } place[] = {{now->data.path, before->data.path, "training data were", "--data NEW"},
                 {now->data.test, before->data.test, "test set was", "--set data.test=NEW"},
                 {now->data.labels, before->data.labels, "labels were", "--set data.labels=NEW"},
                 {now->data.validation_path, before->data.validation_path, "validation set was", "--set data.validation=NEW"}};
    size_t k = 0;
    while (k < sizeof place / sizeof place[0] && (!*place[k].now || iso_path_kind_of(place[k].now) != ISO_PATH_MISSING))
        k++;
    k = k < sizeof place / sizeof place[0] ? k : 0;
    const char *was = *place[k].before ? place[k].before : place[k].now;
    const iso_error found = *s->error;
    iso_error_set(s->error, found.code, "%.400s; the run's %s at %.200s%s: from elsewhere it goes on with --resume --out %.200s %s",
                  found.text, place[k].what, was, *was == '/' ? "" : " (from the folder it was started in)", s->run.path, place[k].flag);
}

int iso_session_data(iso_session *s)
{
    const iso_job_data *d = &s->job->data;
    iso_data_source source = {.path = d->path,
                              .test = given(d->test),
                              .labels = given(d->labels),
                              .validation = given(d->validation_path),
                              .format = d->format,
                              .stop = s->options->stop};
    int result = iso_data_open(&source, s->alloc, &s->data, s->error);
    if (result) {
        if (result != ISO_E_INTERRUPTED)
            iso_job_error_at(s->job, s->job->path_at, s->error);
        if (s->options->resume && (result == ISO_E_IO || result == ISO_E_FORMAT))
            tell_where_data_were(s);
        return result;
    }
    s->have_data = true;
    s->feed.augment = (iso_augment){.shift = d->shift, .flip = d->flip};
    s->feed.seed = s->job->seed;
    if (iso_augment_any(&s->feed.augment))
        result = iso_augment_check(&s->feed.augment, s->data.train.shape, s->error);
    if (result)
        return iso_job_error_at(s->job, s->job->data_at, s->error);
    result = split(s);
    return result ? result : normalize(s);
}

/* ---- network ------------------------------------------------------------------------------------------- */

static int check_labels(iso_session *s, uint32_t classes)
{
    const iso_dataset *set[] = {&s->data.train, s->data.has_validation ? &s->data.validation : NULL,
                                s->data.has_test ? &s->data.test : NULL};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        int result = set[i] ? iso_dataset_check_labels(set[i], classes, s->error) : 0;
        if (result)
            return result;
    }
    return 0;
}

static void doubt(void *context, const char *sentence)
{
    iso_tell(context, ISO_MESSAGE_WARNING, "%s", sentence);
}

/* What a person should know of the data before it is trained on. */
static int tell_doubts(iso_session *s, uint32_t classes)
{
    iso_data_parts parts = {.training = s->feed.view[ISO_FEED_TRAIN],
                            .validation = s->feed.view[ISO_FEED_VALIDATION],
                            .test = s->feed.view[ISO_FEED_TEST],
                            .classes = classes};
    for (uint32_t i = 0; i < s->data.train.shape.c; i++)
        parts.constant_channels += s->channel[i].constant;
    return iso_data_doubts(&parts, s->alloc, doubt, s, s->error);
}

/* Local steps and units must fit each other: one of them divides the other. */
static int unit_of_steps(iso_session *s)
{
    uint32_t step = s->plan.local_batch, unit = s->unit;
    if (step % unit == 0 || unit % step == 0)
        return 0;
    for (unit = s->job->unit ? ISO_UNIT_MAX + 1 : ISO_LANES; unit <= ISO_UNIT_MAX; unit += ISO_LANES)
        if (step % unit == 0 || unit % step == 0) {
            s->unit = unit;
            return 0;
        }
    return iso_error_set(s->error, ISO_E_ARGUMENT,
                         "local_batch: steps of %" PRIu32 " samples do not fit units of %s: one must divide the other; take 1, 2, "
                         "4, 8, 16 or a multiple of the unit",
                         step, s->job->unit ? "the job's size" : "16, 32, 48 or 64");
}

static void describe_sets(iso_session *s)
{
    iso_card *c = &s->card;
    c->set[ISO_CARD_TEST].there = s->data.has_test;
    c->set[ISO_CARD_TEST].fingerprint = s->data.test.fingerprint;
    c->set[ISO_CARD_VALIDATION].there = s->data.has_validation;
    c->set[ISO_CARD_VALIDATION].fingerprint = s->data.validation.fingerprint;
}

int iso_session_net(iso_session *s)
{
    uint32_t classes = s->job->model.classes ? s->job->model.classes : s->data.train.classes;
    int result = check_labels(s, classes);
    if (result == 0)
        result = tell_doubts(s, classes);
    if (result == 0)
        result = iso_card_make(&s->card, s->job, &s->data.train, classes, s->channel, s->alloc, s->error);
    if (result == 0)
        result = iso_card_net(&s->card, s->options->isa, &s->net, s->error);
    if (result)
        return result;
    describe_sets(s);
    s->feed.scale = s->card.scale;
    s->feed.shift = s->card.shift;
    s->batch = iso_policy_batch(&s->policy, s->training_part.count, s->job->batch);
    iso_policy_plan(&s->policy, s->training_part.count, s->job->batch, &s->plan);
    s->rounds_in_epoch = s->plan.whole_epoch ? 0 : iso_epoch_rounds(s->training_part.count, s->batch);
    s->unit = s->job->unit ? s->job->unit : iso_net_unit(s->net, s->batch);
    return s->plan.way == ISO_PLAN_LOCAL ? unit_of_steps(s) : 0;
}

/* ---- engine -------------------------------------------------------------------------------------------- */

/* What `init` leads to, internal layout. start: says so. */
static int weights_of_file(iso_session *s, bool start, float *w, char sha256[ISO_SHA256_TEXT])
{
    char *path = NULL;
    iso_bytes bytes = {0};
    iso_tensors *t = NULL;
    int result = iso_model_path_of(s->job->init, s->alloc, &path, s->error);
    if (result == 0)
        result = iso_file_read(path, 0, s->alloc, &bytes, s->error);
    if (result == 0)
        result = iso_tensors_read(&t, bytes.bytes, bytes.size, path, s->alloc, s->error);
    if (result == 0 && iso_tensors_metadata(t, "isochron"))
        result = iso_card_verify(t, NULL, path, s->error);
    if (result == 0)
        result = iso_weights_read(s->net, t, path, s->alloc, w, sha256, s->error);
    if (result == 0 && start)
        iso_tell(s, ISO_MESSAGE_INFO, "starts from the weights of %s (%.12s)", path, sha256);
    iso_tensors_free(t);
    iso_bytes_release(&bytes);
    iso_free(s->alloc, path);
    return result;
}

static int initial_weights(iso_session *s)
{
    float *w = iso_new(s->alloc, iso_net_values(s->net), sizeof *w);
    if (!w)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the first weights");
    int result = 0;
    if (s->job->init[0])
        result = weights_of_file(s, true, w, s->card.init);
    else
        iso_net_init(s->net, s->job->seed, w);
    if (result == 0)
        s->engine->take(s->self, w);
    iso_free(s->alloc, w);
    return result;
}

/* A resume needs the first weights no more: they are looked at only when they are said to be elsewhere. */
static int same_init(iso_session *s)
{
    char sha256[ISO_SHA256_TEXT];
    if (!s->before || strcmp(s->before->init, s->job->init) == 0)
        return 0;
    float *w = iso_new(s->alloc, iso_net_values(s->net), sizeof *w);
    if (!w)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the first weights");
    int result = weights_of_file(s, false, w, sha256);
    iso_free(s->alloc, w);
    if (result || strcmp(sha256, s->card.init) == 0)
        return result;
    return iso_error_set(s->error, ISO_E_MISMATCH,
                         "init was %.200s (weights %.12s) in the run to resume and is %.200s (weights %.12s) now; leave it out: the run "
                         "goes on from its checkpoint; other weights begin a new run",
                         s->before->init, s->card.init, s->job->init, sha256);
}

void iso_session_name(iso_session *s, uint32_t i, const char *name)
{
    snprintf(s->name[i], sizeof s->name[i], "\"%.*s\"", (int)sizeof s->name[i] - 3, name);
}

const char *iso_session_node(iso_session *s, uint32_t i)
{
    snprintf(s->shown, sizeof s->shown, "%.*s", (int)strlen(s->name[i]) - 2, s->name[i] + 1);
    return s->shown;
}

static int make_snapshot(iso_session *s)
{
    const char *names[ISO_STATES_MAX];
    uint32_t count = s->engine->arrays(s->self);
    for (uint32_t i = 0; i < count; i++)
        names[i] = s->engine->array_name(s->self, i);
    return iso_snapshot_init_named(&s->snapshot, s->net, names, count, s->engine->state_max(s->self), s->alloc, s->error);
}

int iso_session_engine(iso_session *s)
{
    s->name = iso_new(s->alloc, s->workers, sizeof *s->name);
    s->node = iso_new(s->alloc, s->workers, sizeof *s->node);
    if (!s->name || !s->node)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the names of %" PRIu32 " workers", s->workers);
    int result = iso_job_digest(s->job, s->alloc, &s->job_digest, s->error);
    if (result == 0)
        result = s->engine->open(s, s->job_digest);
    if (result == 0)
        result = make_snapshot(s);
    if (result == 0 && s->feed.view[ISO_FEED_VALIDATION].count) {
        s->best = iso_new(s->alloc, iso_net_parameters(s->net), sizeof *s->best);
        if (!s->best)
            result = iso_error_set(s->error, ISO_E_NOMEM, "no memory for the best weights");
    }
    return result;
}

static void skipped(void *context, const char *sentence)
{
    iso_tell(context, ISO_MESSAGE_WARNING, "%s; an older checkpoint is taken", sentence);
}

static int from_checkpoint(iso_session *s, bool *found)
{
    int result = iso_checkpoint_newest(&s->run, &s->card, s->net, &s->snapshot, found, skipped, s, s->error);
    if (result || !*found)
        return result;
    memcpy(s->card.init, s->snapshot.init, sizeof s->card.init);
    result = same_init(s);
    if (result == 0)
        result = s->engine->resume(s->self, &s->snapshot, s->error);
    if (result)
        return result;
    s->resumed_round = s->snapshot.round;
    memcpy(s->card.mark, s->snapshot.mark, sizeof s->card.mark);
    if (s->snapshot.run) {
        iso_summary before;
        result = iso_summary_parse(&before, s->snapshot.run, strlen(s->snapshot.run), "the checkpoint's figures",
                                   s->alloc, s->error);
        if (result)
            return result;
        iso_summary_clear(&s->total, s->alloc);
        s->total = before;
        s->earlier_seconds = before.seconds;
        s->earlier_training_seconds =
            before.samples_per_second > 0 ? (double)before.samples / before.samples_per_second : 0;
    }
    return 0;
}

int iso_session_state(iso_session *s)
{
    bool found = false;
    int result = s->options->resume ? from_checkpoint(s, &found) : 0;
    return result || found ? result : initial_weights(s);
}

void iso_session_fini(iso_session *s)
{
    if (s->self)
        s->engine->free(s->self);
    iso_snapshot_fini(&s->snapshot);
    iso_free(s->alloc, s->best);
    iso_net_free(s->net);
    iso_card_free(&s->card);
    iso_free(s->alloc, s->channel);
    iso_view_free(&s->training_part);
    iso_view_free(&s->validation_part);
    if (s->have_data)
        iso_data_close(&s->data);
    iso_free(s->alloc, s->name);
    iso_free(s->alloc, s->node);
    iso_summary_clear(&s->total, s->alloc);
    iso_buffer_fini(&s->metrics_text);
    iso_buffer_fini(&s->events_text);
    iso_buffer_fini(&s->ranges);
    iso_journal_close(&s->metrics, NULL);
    iso_journal_close(&s->events, NULL);
    iso_run_close(&s->run);
    iso_free(s->alloc, s->job);
    iso_free(s->alloc, s->before);
}

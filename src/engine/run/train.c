/* SPDX-License-Identifier: Apache-2.0
 * Training a job into a run folder: the steps of one call, and the calling thread's part while the workers train. */
#include "isochron/train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/file/file.h"
#include "engine/local/bell.h"
#include "engine/run/audit_line.h"
#include "engine/run/session.h"

#define POLL_NS 20000000         /* the stop flag is looked at so often */
#define FLUSH_NS 1000000000      /* metrics are written so often at least, */
#define FLUSH_BYTES (256u << 10) /* and when so much has come together */

void iso_train_options_default(iso_train_options *o)
{
    *o = (iso_train_options){.isa = ISO_ISA_AUTO};
}

/* ---- the folder ---------------------------------------------------------------------------------------- */

static int write_job(iso_session *s)
{
    size_t length = iso_job_write(s->job, NULL, 0);
    char *text = iso_new_raw(s->alloc, length + 1, 1);
    if (!text)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the job's text");
    iso_job_write(s->job, text, length + 1);
    int result = iso_run_put(&s->run, "job.yaml", text, length, s->error);
    iso_free(s->alloc, text);
    return result;
}

/* Is the folder's job.yaml the job of now? It stays in s->before. */
static int same_job(iso_session *s)
{
    unsigned char *text;
    size_t size;
    int result = iso_run_read(&s->run, "job.yaml", ISO_JOB_BYTES_MAX, &text, &size, s->error);
    if (result)
        return result;
    s->before = iso_new_raw(s->alloc, 1, sizeof *s->before);
    char *path = iso_path_join(s->alloc, s->run.path, "job.yaml");
    result = s->before && path ? 0 : iso_error_set(s->error, ISO_E_NOMEM, "no memory for the job of the run");
    if (result == 0) {
        iso_job_default(s->before);
        result = iso_job_parse(s->before, path, (const char *)text, size, s->alloc, s->error);
    }
    if (result == 0)
        result = iso_job_finish(s->before, s->error);
    if (result == 0) {
        snprintf(s->before->out, sizeof s->before->out, "%s", s->run.path); /* it may have been moved */
        result = iso_job_difference(s->before, s->job, s->error);
        if (result)
            iso_error_prefix(s->error, "%s: ", path);
    }
    iso_free(s->alloc, path);
    iso_free(s->alloc, text);
    return result;
}

/* A run that was done: its summary is the last file it wrote. */
static int read_finished(iso_session *s, iso_summary *summary)
{
    unsigned char *text;
    size_t size;
    int result = iso_run_read(&s->run, "summary.json", ISO_SUMMARY_BYTES_MAX, &text, &size, s->error);
    if (result)
        return result;
    iso_summary done;
    result = iso_summary_parse(&done, (const char *)text, size, "summary.json", s->alloc, s->error);
    iso_free(s->alloc, text);
    if (result)
        return iso_error_prefix(s->error, "%s/", s->run.path);
    iso_tell(s, ISO_MESSAGE_INFO,
             "%s is finished: %" PRIu32 " epochs, %" PRIu64 " rounds; there is nothing left to train", s->run.path,
             done.epochs, done.rounds);
    done.was_finished = true;
    if (summary)
        *summary = done;
    else
        iso_summary_clear(&done, s->alloc);
    return 0;
}

/* A run stopped before its first checkpoint goes on with the mark that its log begins with. */
static int mark_of_log(iso_session *s)
{
    unsigned char *text;
    size_t size;
    int result = iso_run_read(&s->run, "events.jsonl", SIZE_MAX - 1, &text, &size, s->error);
    if (result)
        return result;
    const unsigned char *end = memchr(text, '\n', size);
    iso_audit_line_read line = {.kind = ISO_AUDIT_OTHER};
    if (end && iso_audit_line_parse(&line, (const char *)text, (size_t)(end - text), s->alloc))
        result = iso_error_set(s->error, ISO_E_NOMEM, "no memory for the first line of %s/events.jsonl", s->run.path);
    memcpy(s->card.mark, line.mark, sizeof s->card.mark);
    iso_audit_line_fini(&line, s->alloc);
    iso_free(s->alloc, text);
    return result;
}

/* The mark that all files of the run bear: that of the checkpoint, of the log, or a new one. */
static int find_mark(iso_session *s)
{
    int result = 0;
    if (!s->card.mark[0] && s->options->resume && iso_run_has(&s->run, "events.jsonl"))
        result = mark_of_log(s);
    if (result || s->card.mark[0])
        return result;
    uint64_t mark;
    if (s->engine->mark)
        mark = s->engine->mark(s);
    else if (getrandom(&mark, sizeof mark, 0) != (ssize_t)sizeof mark)
        return iso_error_set(s->error, ISO_E_IO, "the system gives no random number to mark the run with: %s",
                             strerror_r(errno, (char[128]){0}, 128));
    snprintf(s->card.mark, sizeof s->card.mark, "%016" PRIx64, mark);
    return 0;
}

/* Opens a journal and cuts it behind what is kept. */
static int open_journal(iso_session *s, iso_journal *j, iso_trail *trail, const char *name, bool by_round)
{
    uint64_t keep = 0;
    iso_trail_begin(trail, s->card.mark, NULL, 0);
    if (iso_run_has(&s->run, name) && (s->resumed_round || !by_round)) {
        char *path = iso_path_join(s->alloc, s->run.path, name);
        iso_bytes bytes = {0};
        int result = path ? iso_file_read(path, 0, s->alloc, &bytes, s->error)
                          : iso_error_set(s->error, ISO_E_NOMEM, "no memory for a path");
        bool complete = true;
        if (result == 0)
            keep = by_round ? iso_metrics_upto((const char *)bytes.bytes, bytes.size, s->resumed_round, &complete)
                            : iso_lines_whole((const char *)bytes.bytes, bytes.size);
        if (result == 0)
            iso_trail_begin(trail, s->card.mark, bytes.bytes, (size_t)keep);
        iso_bytes_release(&bytes);
        iso_free(s->alloc, path);
        if (result)
            return result;
        if (!complete)
            iso_tell(s, ISO_MESSAGE_WARNING, "%s/%s lacks rounds before %" PRIu64 ": it goes on with a gap",
                     s->run.path, name, s->resumed_round + 1);
    }
    if (s->resumed_round && !iso_run_has(&s->run, name))
        iso_tell(s, ISO_MESSAGE_WARNING, "%s/%s is gone: it begins anew after round %" PRIu64, s->run.path, name,
                 s->resumed_round);
    return iso_journal_open(j, &s->run, name, keep, s->error);
}

int iso_session_flush(iso_session *s, bool sync)
{
    struct {
        iso_journal *journal;
        iso_buffer *text;
        iso_trail *trail;
    } part[] = {{&s->metrics, &s->metrics_text, &s->metrics_trail}, {&s->events, &s->events_text, &s->events_trail}};
    s->flushed_at = iso_clock_ns();
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (part[i].text->failed)
            return iso_error_set(s->error, ISO_E_NOMEM, "%s/%s: no memory for its lines", s->run.path,
                                 part[i].journal->name);
        int result = part[i].text->size
                         ? iso_journal_append(part[i].journal, part[i].text->bytes, part[i].text->size, s->error)
                         : 0;
        iso_trail_take(part[i].trail, part[i].text);
        iso_buffer_clear(part[i].text);
        if (result == 0 && sync)
            result = iso_journal_sync(part[i].journal, s->error);
        if (result)
            return result;
    }
    return 0;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

/* The figures of all calls up to the last round that was told. */
static void sum_up(iso_session *s)
{
    iso_summary *t = &s->total;
    double training = s->earlier_training_seconds + (double)s->training_ns * 1e-9,
           now = (double)s->training_ns * 1e-9;
    t->seconds = s->earlier_seconds + (double)(iso_session_now(s) - s->begun_at) * 1e-9;
    t->samples_per_second = training > 0 ? (double)t->samples / training : NAN;
    t->efficiency = s->alone > 0 && now > 0 ? (double)s->samples / now / s->alone : NAN;
    t->seed = s->job->seed;
    snprintf(t->engine, sizeof t->engine, "%s", s->engine->name);
    snprintf(t->sync, sizeof t->sync, "%s", iso_policy_name(s->policy.policy));
    memcpy(t->mark, s->card.mark, sizeof t->mark);
    for (uint32_t i = 0; i < t->node_count; i++)
        t->nodes[i].share = t->samples ? (double)t->nodes[i].samples / (double)t->samples : 0;
}

static int begin_figures(iso_session *s)
{
    for (uint32_t i = 0; i < s->workers; i++) {
        iso_node_summary *n = iso_summary_node(&s->total, iso_session_node(s, i), s->alloc);
        if (!n)
            return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the figures of %" PRIu32 " workers",
                                 s->workers);
        s->node[i] = (uint32_t)(n - s->total.nodes);
    }
    return 0;
}

/* ---- while the workers train --------------------------------------------------------------------------- */

static int save_checkpoint(iso_session *s, int64_t at)
{
    sum_up(s);
    iso_free(s->alloc, s->snapshot.run);
    s->snapshot.run = iso_summary_text(&s->total, true, s->alloc);
    if (!s->snapshot.run)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory for the figures of a checkpoint");
    char name[ISO_CHECKPOINT_NAME_MAX], more[ISO_CHECKPOINT_NAME_MAX + 16];
    iso_checkpoint_name(s->snapshot.round, name);
    snprintf(more, sizeof more, ",\"file\":\"%s\"", name);
    iso_tell_event(s, "checkpoint", at, s->snapshot.round, more);
    int result = iso_session_flush(s, true);
    if (result == 0)
        result = iso_checkpoint_write(&s->run, &s->card, s->net, &s->snapshot, s->job->checkpoint.keep, s->error);
    return result || s->snapshot.round == 0 ? result : iso_run_take_over(&s->run, s->error);
}

static int on_epoch(iso_session *s, const iso_note *n)
{
    iso_tell_progress(s, true);
    iso_tell_epoch(s, n);
    if (!n->epoch.best)
        return 0;
    char sha256[ISO_SHA256_TEXT];
    return iso_model_write(&s->run, ISO_BEST_NAME, &s->card, s->net, s->best, n->epoch.round, n->epoch.epoch + 1,
                           sha256, s->error);
}

/* One note. *over: it was the last. */
static int on_note(iso_session *s, const iso_note *n, bool *over, bool *stopped)
{
    switch (n->kind) {
    case ISO_NOTE_ROUND:
        iso_tell_round(s, n);
        iso_tell_progress(s, false);
        return s->metrics_text.size > FLUSH_BYTES ? iso_session_flush(s, false) : 0;
    case ISO_NOTE_EPOCH:
        return on_epoch(s, n);
    case ISO_NOTE_RECORD:
        iso_tell_record(s, &n->record, n->at);
        return 0;
    case ISO_NOTE_COUNTED:
        iso_tell_counted(s, n);
        return s->events_text.size > FLUSH_BYTES ? iso_session_flush(s, false) : 0;
    case ISO_NOTE_CHECKPOINT:
        return save_checkpoint(s, n->at);
    case ISO_NOTE_DONE:
        *over = true;
        *stopped = n->stopped;
        return 0;
    case ISO_NOTE_FAILED:
        *over = true;
        return s->failed ? 0 : (*s->error = *s->engine->error(s->self)).code;
    }
    return 0;
}

static bool is_stopped(const iso_session *s)
{
    return s->options->stop && atomic_load_explicit(s->options->stop, memory_order_relaxed);
}

/* Until the last note. A file that cannot be written stops the run; then nothing more is written. */
static int watch(iso_session *s, bool *stopped)
{
    bool over = false, asked = false;
    while (!over) {
        const iso_note *n = s->engine->next(s->self, iso_clock_ns() + POLL_NS);
        int result = 0;
        if (n) {
            if (s->failed)
                over = n->kind == ISO_NOTE_DONE || n->kind == ISO_NOTE_FAILED;
            else
                result = on_note(s, n, &over, stopped);
            s->engine->pop(s->self);
        } else if (!s->failed) {
            iso_tell_progress(s, false);
            if (iso_clock_ns() - s->flushed_at >= FLUSH_NS)
                result = iso_session_flush(s, false);
        }
        if (result)
            s->failed = result;
        bool wanted = s->failed || is_stopped(s);
        if (wanted && !asked && !over) {
            s->engine->stop(s->self);
            asked = true;
        }
    }
    s->engine->join(s->self);
    return s->failed;
}

/* ---- beginning and end --------------------------------------------------------------------------------- */

/* A step of few samples is noisy: a rate that suits a batch of 64 throws the weights away when every sample makes a step. */
static void warn_of_large_steps(iso_session *s)
{
    const double usual = 0.04; /* a sample, momentum included */
    const iso_optimizer *o = &s->job->optimizer;
    double rate = o->kind == ISO_ADAM ? 0 : o->learning_rate / (1 - o->momentum);
    char given[ISO_NUMBER_TEXT], momentum[ISO_NUMBER_TEXT];
    if (s->plan.way != ISO_PLAN_LOCAL || !(rate > usual * s->plan.local_batch))
        return;
    iso_print_double(given, o->learning_rate);
    iso_print_double(momentum, o->momentum);
    iso_tell(s, ISO_MESSAGE_WARNING,
             "%s makes steps of %" PRIu32 " %s: learning_rate %s with momentum %s is large for that; 0.01 and momentum 0 are usual for "
             "steps of one sample",
             iso_policy_name(s->policy.policy), s->plan.local_batch, s->plan.local_batch == 1 ? "sample" : "samples", given, momentum);
}

static int begin(iso_session *s)
{
    int result = begin_figures(s);
    if (result == 0)
        result = write_job(s);
    if (result == 0)
        result = find_mark(s);
    if (result == 0)
        result = open_journal(s, &s->metrics, &s->metrics_trail, "metrics.jsonl", true);
    if (result == 0)
        result = open_journal(s, &s->events, &s->events_trail, "events.jsonl", false);
    if (result)
        return result;
    iso_tell_begin(s);
    if (iso_run_is_pending(&s->run))
        iso_tell(s, ISO_MESSAGE_INFO, "%s holds an earlier run, which stands until this one has a checkpoint; till then this is in %s/%s",
                 s->run.path, s->run.path, ISO_RUN_PENDING);
    warn_of_large_steps(s);
    result = s->engine->greet ? s->engine->greet(s) : 0;
    if (result)
        return result;
    s->begun_at = s->epoch_begun_at = iso_session_now(s);
    s->flushed_at = s->told_at = iso_clock_ns();
    char more[400];
    snprintf(more, sizeof more,
             ",\"time\":%lld,\"engine\":\"%s\",\"sync\":\"%s\",\"workers\":%" PRIu32 ",\"seed\":%" PRIu64
             ",\"samples\":%" PRIu64 ",\"epochs\":%" PRIu32 ",\"batch\":%" PRIu64 ",\"mark\":\"%s\",\"job\":\"%016" PRIx64 "\"",
             (long long)time(NULL), s->engine->name, iso_policy_name(s->policy.policy), s->workers, s->job->seed, s->training_part.count,
             s->job->epochs, s->batch, s->card.mark, s->job_digest);
    iso_tell_event(s, s->resumed_round ? "resume" : "start", s->begun_at, s->resumed_round, more);
    return s->engine->start(s->self, &s->snapshot, s->best, s->error);
}

static int write_model(iso_session *s)
{
    float *published = iso_new_raw(s->alloc, iso_net_parameters(s->net), sizeof *published);
    if (!published)
        return iso_error_set(s->error, ISO_E_NOMEM, "no memory to write the model");
    s->engine->publish(s->self, published);
    int result = iso_model_write(&s->run, "model.safetensors", &s->card, s->net, published, s->total.rounds, s->total.epochs,
                                 s->total.weights_sha256, s->error);
    iso_free(s->alloc, published);
    return result;
}

/* The last line of the log vouches for summary.json, which comes after it. */
static int write_summary(iso_session *s)
{
    size_t size;
    char *text = iso_summary_file(&s->total, &size, s->alloc), more[32];
    if (!text)
        return iso_error_set(s->error, ISO_E_NOMEM, "%s/summary.json: no memory to write it", s->run.path);
    snprintf(more, sizeof more, ",\"summary\":\"%08" PRIx32 "\"", iso_crc32c(0, text, size));
    iso_tell_event(s, "done", iso_session_now(s), s->total.rounds, more);
    int result = iso_session_flush(s, true);
    if (result == 0)
        result = iso_journal_close(&s->metrics, s->error);
    if (result == 0)
        result = iso_journal_close(&s->events, s->error);
    if (result == 0)
        result = iso_run_put(&s->run, "summary.json", text, size, s->error);
    iso_free(s->alloc, text);
    return result;
}

static int finish(iso_session *s, iso_summary *summary)
{
    iso_summary *t = &s->total;
    sum_up(s);
    int result = !s->engine->has_model || s->engine->has_model(s) ? write_model(s) : 0;
    if (result == 0)
        result = write_summary(s);
    if (result == 0)
        result = iso_run_take_over(&s->run, s->error);
    if (result == 0 && summary) {
        *summary = *t;
        *t = (iso_summary){.nodes = NULL};
    }
    return result;
}

/* The run was stopped or failed: what was told is kept, but the first error counts. */
static void write_the_rest(iso_session *s, const char *event)
{
    iso_error ignored, *first = s->error;
    s->error = &ignored;
    iso_tell_event(s, event, iso_session_now(s), s->total.rounds, "");
    iso_session_flush(s, true);
    if (s->engine->close)
        s->engine->close(s);
    s->error = first;
}

static int train(iso_session *s, iso_summary *summary)
{
    int result = begin(s);
    bool stopped = false;
    if (result == 0)
        result = watch(s, &stopped);
    if (result == ISO_E_NONFINITE || result == ISO_E_WRONG || result == ISO_E_STUCK) {
        s->run.keep = true;
        write_the_rest(s, "failed");
    }
    if (result == 0 && s->engine->close)
        result = s->engine->close(s);
    if (result)
        return result;
    if (!stopped)
        return finish(s, summary);
    iso_tell_event(s, "stop", iso_session_now(s), s->total.rounds, "");
    result = iso_session_flush(s, true);
    if (result)
        return result;
    if (iso_run_is_pending(&s->run))
        return iso_error_set(s->error, ISO_E_INTERRUPTED, "stopped before the first checkpoint");
    if (s->progress.rounds == 0)
        return iso_error_set(s->error, ISO_E_INTERRUPTED, "stopped after round %" PRIu64 "; go on with --resume",
                             s->snapshot.round);
    return iso_error_set(s->error, ISO_E_INTERRUPTED,
                         "stopped after round %" PRIu64 " of %" PRIu64 "; go on with --resume", s->snapshot.round,
                         s->progress.rounds);
}

static int prepare(iso_session *s, bool *finished)
{
    const iso_train_options *o = s->options;
    *finished = false;
    if (o->resume && iso_run_has(&s->run, "job.yaml")) {
        int result = same_job(s);
        if (result)
            return result;
        *finished = iso_run_has(&s->run, "summary.json") && iso_run_has(&s->run, "model.safetensors");
        if (*finished)
            return 0;
    }
    int result = iso_session_data(s);
    if (result == 0)
        result = iso_session_net(s);
    if (result == 0)
        result = iso_session_engine(s);
    if (result == 0)
        result = iso_session_state(s);
    if (result == 0 && iso_run_is_pending(&s->run) && is_stopped(s))
        result = iso_error_set(s->error, ISO_E_INTERRUPTED, "stopped before the first round");
    if (result)
        return result;
    if (s->resumed_round)
        iso_tell(s, ISO_MESSAGE_INFO, "goes on after round %" PRIu64 "%s", s->resumed_round,
                 s->plan.way == ISO_PLAN_SUM ? "" : "; what workers remembered of their steps begins at zero");
    else if (o->resume)
        iso_tell(s, ISO_MESSAGE_INFO, "%s holds no checkpoint yet: starts from the beginning", s->run.path);
    return 0;
}

static int check_options(const iso_train_options *o, iso_error *e)
{
    if (o->resume && o->force)
        return iso_error_set(e, ISO_E_ARGUMENT, "resume goes on with a run, force replaces it: give one of the two");
    return 0;
}

int64_t iso_session_now(const iso_session *s)
{
    return s->engine->now ? s->engine->now(s->self) : iso_clock_ns();
}

int iso_session_run(const iso_engine *engine, const void *setting, const iso_job *job, const iso_train_options *options,
                    iso_summary *summary, iso_error *e)
{
    iso_train_options standard;
    iso_train_options_default(&standard);
    iso_error own;
    iso_session s = {.engine = engine, .setting = setting, .options = options ? options : &standard, .error = e ? e : &own};
    s.alloc = s.options->alloc ? s.options->alloc : iso_alloc_default();
    s.run = (iso_run){.root = -1, .fd = -1, .alloc = s.alloc};
    s.metrics.fd = s.events.fd = -1;
    *s.error = (iso_error){.code = 0};
    if (summary)
        *summary = (iso_summary){.nodes = NULL};
    iso_buffer_init(&s.metrics_text, s.alloc, 0);
    iso_buffer_init(&s.events_text, s.alloc, 0);
    iso_buffer_init(&s.ranges, s.alloc, 0);
    iso_summary_begin(&s.total);
    int result = check_options(s.options, s.error);
    if (result == 0 && !(s.job = iso_new_raw(s.alloc, 1, sizeof *s.job)))
        result = iso_error_set(s.error, ISO_E_NOMEM, "no memory for a copy of the job");
    bool finished = false;
    if (result == 0) {
        *s.job = *job;
        result = iso_job_finish(s.job, s.error);
    }
    if (result == 0) {
        iso_policy_spec_default(&s.policy, iso_policy_find(s.job->policy));
        result = iso_policy_spec_parse(&s.policy, s.job->parameters, s.error);
    }
    if (result == 0)
        result = engine->nodes(&s);
    if (result == 0) {
        iso_run_mode mode = s.options->resume ? ISO_RUN_RESUME : s.options->force ? ISO_RUN_FORCE : ISO_RUN_NEW;
        result = iso_run_open(&s.run, s.job->out, mode, s.options->faults, s.alloc, s.error);
    }
    if (result == 0 && s.run.unlocked)
        iso_tell(&s, ISO_MESSAGE_WARNING,
                 "%s: this file system has no locks; see to it that no other run uses the folder", s.run.path);
    if (result == 0)
        result = prepare(&s, &finished);
    if (result == 0)
        result = finished ? read_finished(&s, summary) : train(&s, summary);
    if (iso_run_is_pending(&s.run))
        iso_tell(&s, ISO_MESSAGE_INFO, "the earlier run in %s stands%s", s.run.path,
                 s.run.keep ? "; what this one wrote is in " ISO_RUN_PENDING " inside" : "");
    iso_session_fini(&s);
    if (result == 0)
        *s.error = (iso_error){.code = 0}; /* a damaged checkpoint that was passed over is no error any more */
    return result;
}

int iso_train(const struct iso_job *job, const iso_train_options *options, iso_summary *summary, iso_error *e)
{
    return iso_session_run(&iso_engine_local, NULL, job, options, summary, e);
}

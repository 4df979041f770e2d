/* SPDX-License-Identifier: Apache-2.0
 * The audit of a run folder: the log against every other file of the run, and those against each other. Files are read as
 * they are, without the folder's lock, so that a run that is going on can be looked at; the log is read last, since what
 * the others say has been in it before. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "engine/file/file.h"
#include "engine/run/audit.h"
#include "engine/run/card.h"
#include "engine/run/folder.h"
#include "engine/run/journal.h"
#include "engine/run/summary.h"
#include "isochron/format.h"
#include "isochron/job.h"

/* What a file of weights says. */
typedef struct weights_paper {
    bool there, whole;
    char mark[ISO_MARK_TEXT];
    uint64_t round;
    char sha256[ISO_SHA256_TEXT]; /* of the weights in it */
} weights_paper;

typedef struct checkpoint_mark {
    char file[ISO_CHECKPOINT_NAME_MAX], mark[ISO_MARK_TEXT];
} checkpoint_mark;

typedef struct papers {
    const char *folder;
    const iso_alloc *alloc;
    iso_buffer said; /* sentences, each behind an 'F' (fault) or 'M' (missing) and before a NUL */
    bool has_job, good_job;
    uint32_t epochs; /* of job.yaml */
    uint64_t job;    /* its digest */
    bool has_summary, good_summary;
    uint32_t summary_crc;
    iso_summary summary;
    weights_paper model, best, checkpoint; /* checkpoint: the newest one that is whole */
    uint64_t newest;                       /* round of the newest one, whole or not */
    iso_saved saved;                       /* of `checkpoint` */
    iso_buffer marks;                      /* checkpoint_mark, of all that are whole */
    char file[ISO_CHECKPOINT_NAME_MAX];    /* its name */
} papers;

static void say(papers *p, char kind, const char *format, ...) ISO_PRINTF(3, 4);
static void say(papers *p, char kind, const char *format, ...)
{
    char text[320];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    iso_buffer_put(&p->said, &kind, 1);
    iso_buffer_put(&p->said, text, strlen(text) + 1);
}

/* A file of the folder; *there is false, and no error, when it is absent. */
static int read_file(const papers *p, const char *name, size_t max, bool *there, iso_bytes *out, iso_error *e)
{
    *out = (iso_bytes){0};
    char *path = iso_path_join(p->alloc, p->folder, name);
    if (!path)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a path");
    *there = iso_path_kind_of(path) != ISO_PATH_MISSING;
    int r = *there ? iso_file_read(path, max, p->alloc, out, e) : ISO_OK;
    if (r == ISO_E_IO && iso_path_kind_of(path) == ISO_PATH_MISSING) { /* the run goes on, and has removed it */
        *there = false;
        r = ISO_OK;
    }
    iso_free(p->alloc, path);
    return r;
}

/* A file that is not what it should be is a fault; other errors end the audit. */
static int fault_of(papers *p, int code, const iso_error *e)
{
    if (code != ISO_E_FORMAT && code != ISO_E_JOB)
        return code;
    say(p, 'F', "%s", e->text);
    return ISO_OK;
}

static int read_job(papers *p, iso_error *e)
{
    iso_bytes bytes;
    int r = read_file(p, "job.yaml", ISO_JOB_BYTES_MAX, &p->has_job, &bytes, e);
    if (r || !p->has_job)
        return r;
    iso_job *job = iso_new_raw(p->alloc, 1, sizeof *job);
    r = job ? ISO_OK : iso_error_set(e, ISO_E_NOMEM, "no memory for the job of the run");
    if (!r) {
        iso_job_default(job);
        r = iso_job_parse(job, "job.yaml", bytes.bytes ? (const char *)bytes.bytes : "", bytes.size, p->alloc, e);
    }
    if (!r)
        r = iso_job_finish(job, e);
    if (!r)
        r = iso_job_digest(job, p->alloc, &p->job, e);
    p->good_job = !r;
    p->epochs = r ? 0 : job->epochs;
    iso_free(p->alloc, job);
    iso_bytes_release(&bytes);
    return fault_of(p, r, e);
}

static int read_summary(papers *p, iso_error *e)
{
    iso_bytes bytes;
    int r = read_file(p, "summary.json", ISO_SUMMARY_BYTES_MAX, &p->has_summary, &bytes, e);
    if (!r && p->has_summary) {
        p->summary_crc = iso_crc32c(0, bytes.bytes, bytes.size);
        r = iso_summary_parse(&p->summary, (const char *)bytes.bytes, bytes.size, "summary.json", p->alloc, e);
        p->good_summary = !r;
    }
    iso_bytes_release(&bytes);
    return fault_of(p, r, e);
}

/* saved: NULL, or where the state of a checkpoint goes. */
static int learn_weights(papers *p, const iso_tensors *t, const char *name, const char *kind, weights_paper *out, iso_saved *saved,
                         iso_error *e)
{
    int r = iso_card_verify(t, kind, name, e);
    if (!r)
        r = iso_card_number(t, "round", UINT64_MAX, name, &out->round, e);
    if (!r)
        r = iso_card_sha256(t, name, p->alloc, out->sha256, e);
    const char *mark = iso_tensors_metadata(t, "mark");
    snprintf(out->mark, sizeof out->mark, "%s", mark ? mark : "");
    const iso_tensor_view *state = r || !saved ? NULL : iso_tensors_find(t, "state.coordinator");
    if (!r && saved && !state)
        r = iso_error_set(e, ISO_E_FORMAT, "%s: no state of a coordinator in it", name);
    if (!r && saved && iso_saved_read(saved, state->data, state->bytes, e))
        r = iso_error_set(e, ISO_E_FORMAT, "%s: the state of the coordinator in it is damaged", name);
    return r;
}

/* A damaged file is told, and not whole. */
static int read_weights(papers *p, const char *name, const char *kind, weights_paper *out, iso_saved *saved, iso_error *e)
{
    iso_bytes bytes;
    iso_tensors *t = NULL;
    *out = (weights_paper){.there = false};
    int r = read_file(p, name, 0, &out->there, &bytes, e);
    if (!r && out->there) {
        r = iso_tensors_read(&t, bytes.bytes, bytes.size, name, p->alloc, e);
        if (!r)
            r = learn_weights(p, t, name, kind, out, saved, e);
        out->whole = !r;
    }
    iso_tensors_free(t);
    iso_bytes_release(&bytes);
    return fault_of(p, r, e);
}

/* All of them, the newest whole one is kept. */
static int read_checkpoints(papers *p, iso_error *e)
{
    iso_listing l;
    int r = iso_folder_list(p->folder, p->alloc, &l, e);
    if (r)
        return r;
    for (size_t i = 0; i < l.count && !r; i++) {
        weights_paper w;
        iso_saved saved;
        uint64_t round;
        if (!iso_checkpoint_round(l.name[i], &round))
            continue;
        r = read_weights(p, l.name[i], "checkpoint", &w, &saved, e);
        if (r || !w.there)
            continue;
        p->newest = round > p->newest ? round : p->newest;
        checkpoint_mark mark;
        snprintf(mark.file, sizeof mark.file, "%s", l.name[i]);
        memcpy(mark.mark, w.mark, sizeof mark.mark);
        if (w.whole && !iso_buffer_put(&p->marks, &mark, sizeof mark))
            r = iso_error_set(e, ISO_E_NOMEM, "%s: no memory to list its checkpoints", p->folder);
        if (w.whole && (w.round != round || saved.round != round))
            say(p, 'F', "%s holds the state after round %" PRIu64, l.name[i], w.round);
        else if (w.whole && (!p->checkpoint.there || round > p->checkpoint.round)) {
            p->checkpoint = w;
            p->saved = saved;
            snprintf(p->file, sizeof p->file, "%s", l.name[i]);
        }
    }
    iso_listing_free(&l);
    return r;
}

/* ---- the log against them ------------------------------------------------------------------------------ */

static void compare_mark(iso_audit *o, const char *name, const char *mark)
{
    if (mark[0] && strcmp(mark, o->mark) != 0)
        iso_audit_fault(o, "%s bears the mark %.20s, the log %s: it is of another run", name, mark, o->mark[0] ? o->mark : "none");
    else if (!mark[0] && o->marked)
        iso_audit_fault(o, "%s bears no mark, the log %s: it is not of this run", name, o->mark);
}

static void compare_job(const papers *p, iso_audit *o)
{
    if (!p->has_job)
        iso_audit_missing(o, "job.yaml is not there: the log was not held against the job");
    if (p->good_job && o->job && p->job != o->job)
        iso_audit_fault(o, "job.yaml is not the job that the log began with: a key that decides the numbers has another value");
}

static void compare_summary(const papers *p, iso_audit *o)
{
    const iso_summary *s = &p->summary;
    if (!p->has_summary && o->ended)
        iso_audit_missing(o, "summary.json is not there, though the log says that the run is done: the figures were not checked; train "
                             "--resume makes it anew");
    if (p->has_summary && !o->ended)
        iso_audit_missing(o, "events.jsonl lacks its end: no line says that the run is done, and nothing vouches for summary.json");
    if (o->ended && !o->vouches)
        iso_audit_missing(o, "events.jsonl: the line of the run's end does not vouch for summary.json");
    if (!p->good_summary)
        return;
    compare_mark(o, "summary.json", s->mark);
    if (o->ended && o->vouches && p->summary_crc != o->summary)
        iso_audit_fault(o, "summary.json is not as the run wrote it: its check sum is %08" PRIx32 ", the log has %08" PRIx32,
                        p->summary_crc, o->summary);
    if (p->good_job && s->epochs != p->epochs)
        iso_audit_fault(o, "summary.json has %" PRIu32 " epochs, job.yaml %" PRIu32, s->epochs, p->epochs);
    if (s->samples != o->samples * o->epochs)
        iso_audit_fault(o, "summary.json has %" PRIu64 " samples; %" PRIu32 " epochs of %" PRIu64 " are %" PRIu64,
                        s->samples, o->epochs, o->samples, o->samples * o->epochs);
    if (s->rounds != o->last_round)
        iso_audit_fault(o, "summary.json has %" PRIu64 " rounds, the last one of the audit log is %" PRIu64, s->rounds,
                        o->last_round);
}

static void compare_model(const papers *p, iso_audit *o)
{
    const iso_summary *s = &p->summary;
    bool wanted = p->good_summary && s->weights_sha256[0]; /* a run by the cost model alone has no weights */
    if (wanted && !p->model.there)
        iso_audit_missing(o, "model.safetensors is not there: its weights were not held against summary.json");
    if (!p->model.whole)
        return;
    compare_mark(o, "model.safetensors", p->model.mark);
    if (o->finished && p->model.round != o->last_round)
        iso_audit_fault(o, "model.safetensors is of round %" PRIu64 ", the last one of the audit log is %" PRIu64, p->model.round,
                        o->last_round);
    if (p->good_summary && strcmp(p->model.sha256, s->weights_sha256) != 0)
        iso_audit_fault(o, "model.safetensors has weights of SHA-256 %.12s..., summary.json says %.12s...", p->model.sha256,
                        wanted ? s->weights_sha256 : "none");
}

static void compare_best(const papers *p, iso_audit *o)
{
    if (o->best && !p->best.there)
        iso_audit_missing(o, "best.safetensors is not there: the best weights are those after round %" PRIu64, o->best);
    if (!p->best.whole)
        return;
    compare_mark(o, "best.safetensors", p->best.mark);
    if (o->finished && p->best.round != o->best)
        iso_audit_fault(o, "best.safetensors is of round %" PRIu64 ", the best epoch of the log ended with round %" PRIu64,
                        p->best.round, o->best);
}

static void compare_checkpoint(const papers *p, iso_audit *o)
{
    if (o->kept > p->newest)
        iso_audit_missing(o, "checkpoint-%" PRIu64 ".safetensors is not there, though the log has it: its state was not checked", o->kept);
    const checkpoint_mark *m = (const checkpoint_mark *)(const void *)p->marks.bytes;
    for (size_t i = 0; i < p->marks.size / sizeof *m; i++)
        compare_mark(o, m[i].file, m[i].mark);
    if (!p->checkpoint.there)
        return;
    if (p->saved.samples != o->samples)
        iso_audit_fault(o, "%s is of %" PRIu64 " training samples, the audit log of %" PRIu64, p->file,
                        p->saved.samples, o->samples);
    if (!o->finished && p->saved.samples_done != o->settled)
        iso_audit_fault(
            o, "%s stands behind %" PRIu64 " samples; the audit log counts %" PRIu64 " up to its round %" PRIu64,
            p->file, p->saved.samples_done, o->settled, p->saved.round);
}

static int compare(papers *p, iso_audit *o, iso_error *e)
{
    int r = o->ended && !p->has_summary ? read_summary(p, e) : ISO_OK; /* the run was just ending */
    if (r)
        return r;
    if (!o->mark[0])
        iso_audit_missing(o, "events.jsonl bears no mark: that the files are of one run, and as it wrote them, was not checked");
    compare_job(p, o);
    compare_summary(p, o);
    compare_model(p, o);
    compare_best(p, o);
    compare_checkpoint(p, o);
    return ISO_OK;
}

/* A log without a whole line. The journals are there before the first round, and both are written at once, metrics first. */
static int nothing_counted(const papers *p, bool has_events, bool rounds, iso_audit *out, iso_error *e)
{
    if (!has_events && !p->has_job)
        return iso_error_set(e, ISO_E_IO, "%s: holds no run: neither job.yaml nor events.jsonl is there", p->folder);
    const char *other = p->has_summary          ? "summary.json"
                        : p->model.there        ? "model.safetensors"
                        : p->newest             ? p->file
                        : rounds && !has_events ? "metrics.jsonl"
                                                : NULL;
    if (other)
        return iso_error_set(e, ISO_E_FORMAT, "%s/events.jsonl: %s, though %s says that rounds were done: nothing proves what was counted",
                             p->folder, has_events ? "no whole line in it" : "no such file", *other ? other : "a checkpoint");
    out->epochs = p->epochs;
    return ISO_OK;
}

static int check(papers *p, const iso_alloc *a, iso_audit *out, iso_error *e)
{
    iso_bytes events, metrics = {0};
    bool has_metrics = false, has_events;
    int r = read_file(p, "events.jsonl", 0, &has_events, &events, e);
    if (!r)
        r = read_file(p, "metrics.jsonl", 0, &has_metrics, &metrics, e);
    if (!r && !iso_lines_whole((const char *)events.bytes, events.size)) {
        r = nothing_counted(p, has_events, iso_lines_whole((const char *)metrics.bytes, metrics.size) > 0, out, e);
    } else if (!r) {
        r = iso_audit_check(&(iso_audit_input){.events_name = "events.jsonl",
                                               .events = (const char *)events.bytes,
                                               .events_size = events.size,
                                               .metrics_name = "metrics.jsonl",
                                               .metrics = has_metrics ? metrics.bytes ? (const char *)metrics.bytes : "" : NULL,
                                               .metrics_size = metrics.size,
                                               .samples = p->checkpoint.there ? p->saved.samples : 0,
                                               .epochs = p->epochs,
                                               .finished = p->has_summary,
                                               .border = p->checkpoint.there ? p->saved.round : 0,
                                               .alloc = a},
                            out, e);
        if (r == ISO_E_FORMAT)
            iso_error_prefix(e, "%s/", p->folder);
        if (!r)
            r = compare(p, out, e);
    }
    iso_bytes_release(&events);
    iso_bytes_release(&metrics);
    return r;
}

/* What was said of the files by themselves. */
static int tell(const papers *p, iso_audit *o, iso_error *e)
{
    if (p->said.failed)
        return iso_error_set(e, ISO_E_NOMEM, "%s: no memory for what is wrong with it", p->folder);
    for (size_t at = 0; at < p->said.size;) {
        const char *text = (const char *)p->said.bytes + at;
        if (*text == 'F')
            iso_audit_fault(o, "%s", text + 1);
        else
            iso_audit_missing(o, "%s", text + 1);
        at += strlen(text) + 1;
    }
    return ISO_OK;
}

int iso_audit_run(const char *folder, const iso_alloc *alloc, iso_audit *out, iso_error *e)
{
    *out = (iso_audit){.samples = 0};
    papers p = {.folder = folder, .alloc = alloc};
    iso_path_kind kind = iso_path_kind_of(folder);
    if (kind != ISO_PATH_FOLDER)
        return iso_error_set(e, ISO_E_IO, "%s: %s; a run folder is wanted", folder,
                             kind == ISO_PATH_MISSING ? "no such folder" : "no folder");
    iso_buffer_init(&p.said, alloc, 0);
    iso_buffer_init(&p.marks, alloc, 0);
    int r = iso_run_look(folder, alloc, e);
    if (!r)
        r = read_job(&p, e);
    if (!r)
        r = read_summary(&p, e);
    if (!r)
        r = read_weights(&p, "model.safetensors", "model", &p.model, NULL, e);
    if (!r)
        r = read_weights(&p, "best.safetensors", "model", &p.best, NULL, e);
    if (!r)
        r = read_checkpoints(&p, e);
    if (!r)
        r = check(&p, alloc, out, e);
    if (!r)
        r = tell(&p, out, e);
    iso_summary_clear(&p.summary, alloc);
    iso_buffer_fini(&p.said);
    iso_buffer_fini(&p.marks);
    return r;
}

/* SPDX-License-Identifier: Apache-2.0
 * The audit of a run folder: what job.yaml, summary.json and the newest checkpoint say should be in the log. Files are
 * read as they are, without the folder's lock, so that a run that is going on can be looked at. */
#include <inttypes.h>
#include <string.h>

#include "engine/file/file.h"
#include "engine/run/audit.h"
#include "engine/run/card.h"
#include "engine/run/folder.h"
#include "engine/run/summary.h"
#include "isochron/format.h"
#include "isochron/job.h"

typedef struct papers {
    const char *folder;
    const iso_alloc *alloc;
    uint32_t epochs; /* of job.yaml */
    bool finished;
    iso_summary summary; /* when finished */
    bool has_checkpoint;
    iso_saved saved; /* of the newest one that is whole */
    char file[ISO_CHECKPOINT_NAME_MAX];
} papers;

/* A file of the folder; *there is false, and no error, when it is absent and may be. */
static int read_file(const papers *p, const char *name, size_t max, bool *there, iso_bytes *out, iso_error *e)
{
    *out = (iso_bytes){0};
    char *path = iso_path_join(p->alloc, p->folder, name);
    if (!path)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a path");
    bool absent = iso_path_kind_of(path) == ISO_PATH_MISSING;
    int r = absent && there ? ISO_OK : iso_file_read(path, max, p->alloc, out, e);
    if (there)
        *there = !absent;
    iso_free(p->alloc, path);
    return r;
}

static int read_job(papers *p, iso_error *e)
{
    iso_bytes bytes;
    int r = read_file(p, "job.yaml", ISO_JOB_BYTES_MAX, NULL, &bytes, e);
    if (r)
        return r;
    iso_job *job = iso_new_raw(p->alloc, 1, sizeof *job);
    char *path = iso_path_join(p->alloc, p->folder, "job.yaml");
    r = job && path ? ISO_OK : iso_error_set(e, ISO_E_NOMEM, "no memory for the job of the run");
    if (!r) {
        iso_job_default(job);
        r = iso_job_parse(job, path, bytes.bytes ? (const char *)bytes.bytes : "", bytes.size, p->alloc, e);
        p->epochs = job->epochs;
    }
    iso_free(p->alloc, path);
    iso_free(p->alloc, job);
    iso_bytes_release(&bytes);
    return r;
}

static int read_summary(papers *p, iso_error *e)
{
    iso_bytes bytes;
    int r = read_file(p, "summary.json", ISO_SUMMARY_BYTES_MAX, &p->finished, &bytes, e);
    if (!r && p->finished)
        r = iso_summary_parse(&p->summary, (const char *)bytes.bytes, bytes.size, "summary.json", p->alloc, e);
    iso_bytes_release(&bytes);
    return r;
}

/* The coordinator's state in a checkpoint; ISO_E_FORMAT when the file is damaged. */
static int read_checkpoint(papers *p, const char *name, iso_error *e)
{
    iso_bytes bytes;
    iso_tensors *t = NULL;
    int r = read_file(p, name, 0, NULL, &bytes, e);
    if (!r)
        r = iso_tensors_read(&t, bytes.bytes, bytes.size, name, p->alloc, e);
    if (!r)
        r = iso_card_verify(t, "checkpoint", name, e);
    const iso_tensor_view *state = r ? NULL : iso_tensors_find(t, "state.coordinator");
    if (!r && !state)
        r = iso_error_set(e, ISO_E_FORMAT, "%s: no state of a coordinator in it", name);
    if (!r)
        r = iso_saved_read(&p->saved, state->data, state->bytes, e);
    iso_tensors_free(t);
    iso_bytes_release(&bytes);
    return r;
}

/* The newest one that is whole. The files come and go while the run is on, so each is tried once. */
static int find_checkpoint(papers *p, iso_error *e)
{
    iso_listing l;
    int r = iso_folder_list(p->folder, p->alloc, &l, e);
    if (r)
        return r;
    uint64_t below = UINT64_MAX;
    while (!r && !p->has_checkpoint) {
        uint64_t round, best = 0;
        bool any = false;
        for (size_t i = 0; i < l.count; i++)
            if (iso_checkpoint_round(l.name[i], &round) && round < below && (!any || round > best)) {
                best = round;
                any = true;
            }
        if (!any)
            break;
        below = best;
        iso_checkpoint_name(best, p->file);
        int found = read_checkpoint(p, p->file, e);
        p->has_checkpoint = !found;
        r = found == ISO_E_NOMEM ? found : ISO_OK;
    }
    iso_listing_free(&l);
    return r;
}

/* The log against the other files of the run. */
static void compare(const papers *p, iso_audit *o)
{
    const iso_summary *s = &p->summary;
    if (p->has_checkpoint && p->saved.samples != o->samples)
        iso_audit_fault(o, "%s is of %" PRIu64 " training samples, the audit log of %" PRIu64, p->file,
                        p->saved.samples, o->samples);
    if (p->finished && s->epochs != p->epochs)
        iso_audit_fault(o, "summary.json has %" PRIu32 " epochs, job.yaml %" PRIu32, s->epochs, p->epochs);
    if (p->finished && s->samples != o->samples * o->epochs)
        iso_audit_fault(o, "summary.json has %" PRIu64 " samples; %" PRIu32 " epochs of %" PRIu64 " are %" PRIu64,
                        s->samples, o->epochs, o->samples, o->samples * o->epochs);
    if (p->finished && s->rounds != o->last_round)
        iso_audit_fault(o, "summary.json has %" PRIu64 " rounds, the last one of the audit log is %" PRIu64, s->rounds,
                        o->last_round);
    if (!p->finished && p->has_checkpoint && p->saved.samples_done != o->settled)
        iso_audit_fault(
            o, "%s stands behind %" PRIu64 " samples; the audit log counts %" PRIu64 " up to its round %" PRIu64,
            p->file, p->saved.samples_done, o->settled, p->saved.round);
}

static int check(const papers *p, const iso_alloc *a, iso_audit *out, iso_error *e)
{
    iso_bytes events, metrics = {0};
    bool has_metrics = false;
    int r = read_file(p, "events.jsonl", 0, NULL, &events, e);
    if (!r)
        r = read_file(p, "metrics.jsonl", 0, &has_metrics, &metrics, e);
    if (!r)
        r = iso_audit_check(&(iso_audit_input){.events_name = "events.jsonl",
                                               .events = events.bytes ? (const char *)events.bytes : "",
                                               .events_size = events.size,
                                               .metrics_name = "metrics.jsonl",
                                               .metrics = has_metrics ? (const char *)metrics.bytes : NULL,
                                               .metrics_size = metrics.size,
                                               .samples = p->has_checkpoint ? p->saved.samples : 0,
                                               .epochs = p->epochs,
                                               .finished = p->finished,
                                               .border = p->has_checkpoint ? p->saved.round : 0,
                                               .alloc = a},
                            out, e);
    if (r == ISO_E_FORMAT)
        iso_error_prefix(e, "%s/", p->folder);
    iso_bytes_release(&events);
    iso_bytes_release(&metrics);
    return r;
}

int iso_audit_run(const char *folder, const iso_alloc *alloc, iso_audit *out, iso_error *e)
{
    *out = (iso_audit){.samples = 0};
    papers p = {.folder = folder, .alloc = alloc};
    iso_path_kind kind = iso_path_kind_of(folder);
    if (kind != ISO_PATH_FOLDER)
        return iso_error_set(e, ISO_E_IO, "%s: %s; a run folder is wanted", folder,
                             kind == ISO_PATH_MISSING ? "no such folder" : "no folder");
    int r = read_job(&p, e);
    if (!r)
        r = read_summary(&p, e);
    if (!r)
        r = find_checkpoint(&p, e);
    if (!r)
        r = check(&p, alloc, out, e);
    if (!r)
        compare(&p, out);
    iso_summary_clear(&p.summary, alloc);
    return r;
}

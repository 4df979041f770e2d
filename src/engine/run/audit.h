/* SPDX-License-Identifier: Apache-2.0
 * The audit log: which samples were counted, by whom, in which round; and the check that every one was counted once.
 *
 * A COUNTED record of the coordinator is one line of events.jsonl:
 *
 *   {"event":"counted","round":17,"epoch":2,"node":"a","positions":[[0,48],[96,16]]}
 *
 * round and epoch from 1 as in metrics.jsonl (record.round + 1, record.epoch + 1), so the line belongs to the metrics
 * line of the same round; positions: [first, count] of the epoch's permutation, ascending, apart. One line a
 * (round, node), rounds never falling.
 *
 * A run that goes on from a border writes {"event":"resume","round":R,...} (the engine) or "resumed" (the core's
 * record), and a run begun anew "start" with round 0: each takes back every counted line before it whose round is
 * above R. "start" and "resume" also carry "samples", "epochs" and "batch" of the training, the run's mark and the
 * digest of its job, so that a log cannot be taken for one of another job or run. Both logs have a trail (journal.h).
 *
 * What is wrong is a fault. What could not be checked because a witness is gone or short is no fault, and no proof
 * either: it is told as missing.
 *
 * Place: engine; every engine writes its log with iso_audit_line. Nothing but iso_audit_run opens files. Thread: one
 * at a time. */
#ifndef ISO_ENGINE_RUN_AUDIT_H
#define ISO_ENGINE_RUN_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "isochron/core.h"
#include "isochron/train.h"

/* ---- writing ------------------------------------------------------------------------------------------- */

/* Appends the line of an ISO_RECORD_COUNTED record, whose ranges must still be valid. name: the node's name as JSON
 * text with its quotes. A record that counts nothing gives no line. A buffer that could not grow is marked failed. */
void iso_audit_line(iso_buffer *b, const iso_record *r, const char *name);

/* ---- checking ------------------------------------------------------------------------------------------ */

#define ISO_AUDIT_FAULTS_MAX 20u /* faults kept as text; all are counted */

/* Samples of one epoch. once + more + never is the number of training samples. */
typedef struct iso_audit_epoch {
    uint64_t once, more, never;
} iso_audit_epoch;

/* What a check found. Faults are sentences, those of a line begin FILE:LINE: . The last lines are what the log says of the
 * other files. */
typedef struct iso_audit {
    uint64_t samples;       /* in the training set */
    uint32_t epochs;        /* of the job */
    bool finished;          /* the run is done, says summary.json or the log: every epoch has to be whole */
    uint32_t epoch_count;   /* epochs that are told: all when finished, else up to the last one with a count */
    iso_audit_epoch *epoch; /* [epochs], owned */
    uint32_t whole;         /* leading epochs that have every sample exactly once */
    uint64_t rounds;        /* with a line that stands */
    uint64_t lines;         /* counted lines that stand */
    uint64_t superseded;    /* counted lines that a later resume took back */
    uint64_t resumes;       /* behind a counted line */
    uint64_t border;        /* rounds that a checkpoint or the end of the run vouches for; those beyond are not settled */
    uint64_t last_round;    /* of a counted line that stands */
    uint64_t settled;       /* samples counted in rounds up to border, one counted twice is two */
    bool cut;               /* the last line is not whole: the run was killed while it wrote */
    uint64_t faults;
    uint32_t fault_count;   /* texts kept */
    char fault[ISO_AUDIT_FAULTS_MAX][320];
    uint64_t missing; /* the same of what could not be checked */
    uint32_t missing_count;
    char lack[ISO_AUDIT_FAULTS_MAX][320];
    char mark[ISO_MARK_TEXT]; /* of the run; "": the log bears none */
    bool marked;              /* it bears one from its first line on: so does every file of the run */
    uint64_t job;             /* iso_job_digest; 0: not said */
    bool ended;               /* its last word is that the run is done ... */
    bool vouches;             /* ... and that summary.json has this crc32c */
    uint32_t summary;
    uint64_t best;            /* rounds at the end of the best epoch; 0: none was the best */
    uint64_t kept;            /* rounds of the newest checkpoint that must have been written; 0: none */
} iso_audit;

/* What is checked against what. Texts are borrowed. */
typedef struct iso_audit_input {
    const char *events_name, *events; /* name for messages */
    size_t events_size;
    const char *metrics_name, *metrics; /* NULL: no metrics, nothing to hold each round against */
    size_t metrics_size;
    uint64_t samples;    /* 0: what the start line says */
    uint32_t epochs;     /* 0: the same */
    bool finished;       /* summary.json is there */
    uint64_t border;     /* of a run that is not finished: rounds of the newest checkpoint, 0 when there is none */
    const iso_alloc *alloc; /* NULL: the process heap */
} iso_audit_input;

/* Reads both logs and fills *out (cleared by the caller, also after an error). ISO_OK when the check was made: out->faults
 * says how it ended. Memory: two bits a sample for each epoch that is not whole, and a few words a resume.
 * Errors: ISO_E_FORMAT (nothing says how many samples and epochs there are, or no line is there at all), ISO_E_NOMEM. */
int iso_audit_check(const iso_audit_input *in, iso_audit *out, iso_error *e);
/* One more fault, or one more thing that could not be checked; the sentence is kept while there is room. */
void iso_audit_fault(iso_audit *a, const char *format, ...) ISO_PRINTF(2, 3);
void iso_audit_missing(iso_audit *a, const char *format, ...) ISO_PRINTF(2, 3);
void iso_audit_clear(iso_audit *a, const iso_alloc *alloc);

/* The same for a run folder: the log against every other file of the run, and those against each other. Nothing is
 * written, no lock is taken: the run may be going on. A run that was stopped before its first round is in order and has
 * no lines. Errors as above, ISO_E_IO (names the file). */
int iso_audit_run(const char *folder, const iso_alloc *alloc, iso_audit *out, iso_error *e);

#endif

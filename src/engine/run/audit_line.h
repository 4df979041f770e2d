/* SPDX-License-Identifier: Apache-2.0
 * One line of events.jsonl as the audit sees it. Our own form is read without a JSON reader, since a long run has
 * millions of lines; any other spelling of the same object (blanks, keys in another order) goes through one.
 * Place: engine. Thread: any. */
#ifndef ISO_ENGINE_RUN_AUDIT_LINE_H
#define ISO_ENGINE_RUN_AUDIT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/train.h"

typedef enum iso_audit_kind {
    ISO_AUDIT_OTHER, /* an event that counts nothing */
    ISO_AUDIT_COUNTED,
    ISO_AUDIT_RESUME, /* start, resume, resumed: takes back the rounds above `round` */
    ISO_AUDIT_EPOCH,  /* an epoch is over and evaluated */
    ISO_AUDIT_CHECKPOINT, /* one is about to be written */
    ISO_AUDIT_DONE,
    ISO_AUDIT_BAD     /* `why` says what is wrong */
} iso_audit_kind;

typedef struct iso_audit_span {
    uint64_t first, count; /* count >= 1 */
} iso_audit_span;

typedef struct iso_audit_line_read {
    iso_audit_kind kind;
    uint64_t round, epoch;    /* COUNTED: from 1; EPOCH and CHECKPOINT: rounds done; 0 when it does not say */
    uint64_t samples, epochs; /* RESUME: 0 when it does not say */
    char mark[ISO_MARK_TEXT]; /* RESUME: "" when it does not say */
    uint64_t job;             /* RESUME: iso_job_digest; 0 when it does not say */
    bool best;                /* EPOCH */
    bool vouches;             /* DONE: for a summary.json ... */
    uint32_t summary;         /* ... of this crc32c */
    char node[ISO_NODE_NAME_MAX];
    iso_audit_span *span; /* [spans], ascending and apart; a block of the allocator */
    size_t spans, room;
    char why[160];
} iso_audit_line_read;

/* Reads text[0, size), a line without its newline, over *l, which is zero at first and keeps its memory from line to
 * line. Errors: ISO_E_NOMEM; whatever the line holds is told by l->kind. */
int iso_audit_line_parse(iso_audit_line_read *l, const char *text, size_t size, const iso_alloc *a);
void iso_audit_line_fini(iso_audit_line_read *l, const iso_alloc *a);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * How often each sample of each epoch was counted: never, once, more than once.
 *
 * Two bits a sample, and only for epochs that are not whole: an epoch whose samples all have been counted once keeps no
 * memory. Place: engine (the audit of a log, the simulator's checker). Thread: one at a time. */
#ifndef ISO_ENGINE_RUN_TALLY_H
#define ISO_ENGINE_RUN_TALLY_H

#include <stdint.h>

#include "isochron/alloc.h"

typedef struct iso_tally_epoch {
    uint64_t *once;      /* a bit a sample that was counted; NULL: none was, or all were */
    uint64_t *more;      /* a bit a sample that was counted again; NULL: none */
    uint64_t counted;    /* bits of once */
    uint64_t more_count; /* bits of more */
} iso_tally_epoch;

typedef struct iso_tally {
    uint64_t samples;
    uint32_t epochs;
    iso_tally_epoch *epoch; /* [epochs] */
    const iso_alloc *alloc;
} iso_tally;

/* Nothing counted yet. Errors: ISO_E_NOMEM. */
int iso_tally_init(iso_tally *t, uint64_t samples, uint32_t epochs, const iso_alloc *a);
void iso_tally_fini(iso_tally *t);

/* Counts positions [first, first + count) of epoch `epoch` (from 0) once more. *again: how many of them had been
 * counted before, *first_again the first of these. Errors: ISO_E_ARGUMENT (beyond the epoch or the epochs),
 * ISO_E_NOMEM; then nothing was counted. Cost: O(count / 64), and samples / 64 when an epoch begins or becomes whole.
 */
int iso_tally_add(iso_tally *t, uint32_t epoch, uint64_t first, uint64_t count, uint64_t *again, uint64_t *first_again);

/* The first position at or after `from` that was counted never (times 0) or more than once (times 2), and how many in a
 * row; 0: none. */
uint64_t iso_tally_run(const iso_tally *t, uint32_t epoch, int times, uint64_t from, uint64_t *first);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The local engine: a coordinator and its workers as threads of one process.
 *
 *   worker thread    steps its own worker core, computes units, runs update slices. A frame for the coordinator is
 * delivered by the thread that has it: it takes the lock, steps the coordinator and executes the effects. So a round
 *                    needs no thread of the coordinator's and no hand-over.
 *   calling thread   waits; writes files; gives the coordinator its timers, the stop and the wish for a checkpoint.
 * It learns of rounds, epochs, events and checkpoints from a queue of *notes*, in their order, and works behind the
 *                    round's back: nothing it does delays a round unless the queue is full.
 *
 * Frames between them go by reference through an inbox of each worker. Sums stay where they are made; weights are
 * shared. A worker that was given work and has not finished it may read the weights it was given it for, whatever the
 * coordinator thinks of it by then. Invariant: an update never writes weights that such a worker may read; if there
 * is one, the update goes to another buffer. So a stalled worker costs a buffer, never a wrong number.
 *
 * Place: engine. Thread: all functions here are the calling thread's. */
#ifndef ISO_ENGINE_LOCAL_LOCAL_H
#define ISO_ENGINE_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/local/feed.h"
#include "engine/run/checkpoint.h"
#include "engine/run/journal.h"
#include "isochron/core.h"
#include "isochron/train.h"

typedef struct iso_local iso_local;

typedef struct iso_local_config {
    const iso_net *net;
    const iso_feed *feed;
    const iso_job *job;
    uint32_t workers, unit;
    const uint32_t *throttle; /* relative speeds; NULL: none */
    uint32_t throttle_count;
    iso_policy_spec policy;
    uint64_t job_digest, data_digest;
    const iso_train_faults *faults; /* may be NULL */
    const iso_alloc *alloc;
} iso_local_config;

/* Takes all memory. Errors: ISO_E_NOMEM (says how much was asked for), ISO_E_ARGUMENT. Pointers of the config are
 * borrowed. */
int iso_local_new(iso_local **out, const iso_local_config *config, iso_error *e);
/* Ends and joins the threads if they run. NULL is fine. */
void iso_local_free(iso_local *l);

/* Weights to begin with, internal layout [P'], before _start. */
void iso_local_set_weights(iso_local *l, const float *internal);
/* The weights of now, published [P]: before _start, or after _join the result. */
void iso_local_get_weights(const iso_local *l, float *published);

/* Bytes of a coordinator's saved state at most: for iso_snapshot_init. */
size_t iso_local_state_max(const iso_local *l);

/* The arrays beside the weights that a snapshot holds, by name: the optimiser's, or what nodes' differences are merged with. */
uint32_t iso_local_state_arrays(const iso_local *l);
const char *iso_local_state_name(const iso_local *l, uint32_t index);

/* Goes on from a snapshot. Errors as iso_coordinator_resume. */
int iso_local_resume(iso_local *l, const iso_snapshot *s, iso_error *e);

/* Samples a second of worker i alone: an engine of this one worker trains copies of the weights for half a second, the first tenth
 * uncounted. 0 when its weights blow up at once. It takes the memory of one more worker meanwhile. Before _start. Errors: ISO_E_NOMEM,
 * ISO_E_INTERRUPTED. */
int iso_local_calibrate(const iso_local *l, uint32_t worker, const atomic_int *stop, double *samples_per_second, iso_error *e);

/* Starts the threads. `snapshot` and `best` (NULL without validation) are where border states are put for the caller to write: see
 * ISO_NOTE_CHECKPOINT and ISO_NOTE_EPOCH; without a snapshot no border is kept. Errors: ISO_E_NOMEM when a thread cannot be started. */
int iso_local_start(iso_local *l, iso_snapshot *snapshot, float *best, iso_error *e);

typedef enum iso_note_kind {
    ISO_NOTE_ROUND,      /* round, node */
    ISO_NOTE_EPOCH,      /* epoch; when epoch.best the weights are in `best` until iso_local_pop */
    ISO_NOTE_RECORD,     /* record, any but COUNTED */
    ISO_NOTE_COUNTED,    /* record, whose ranges stand in iso_note_ranges; when more, the next note goes on with it */
    ISO_NOTE_CHECKPOINT, /* a border state is in `snapshot` until iso_local_pop */
    ISO_NOTE_DONE,       /* stopped; the last note */
    ISO_NOTE_FAILED      /* error; the last note */
} iso_note_kind;

typedef struct iso_note {
    iso_note_kind kind;
    bool stopped;
    bool more;  /* COUNTED: not all ranges of this node in this round */
    bool late;  /* inside the engine: the snapshot is filled when this note is reached */
    int64_t at; /* ns, of the event */
    uint64_t bytes_up, bytes_down, sent_up, sent_down; /* ROUND: iso_round_record; 0 where nothing leaves the process */
    double probe; /* ROUND: accuracy on the test set after it; 0: not probed */
    union {
        iso_round_result round;
        iso_epoch_result epoch;
        iso_record record;
    };
    iso_node_record node[]; /* ROUND: [workers]; COUNTED: iso_range[record.range_count] */
} iso_note;

static inline const iso_range *iso_note_ranges(const iso_note *n)
{
    return (const iso_range *)(const void *)n->node;
}

/* Waits until there is a note, until_ns has passed or a timer of the coordinator is due (then it is given to it).
 * Returns the first note, or NULL. */
const iso_note *iso_local_next(iso_local *l, int64_t until_ns);
/* The note is dealt with. */
void iso_local_pop(iso_local *l);
/* Why the run failed, after ISO_NOTE_FAILED. */
const iso_error *iso_local_error(const iso_local *l);

/* Tells the coordinator to stop at the last border. Once. */
void iso_local_stop(iso_local *l);

/* Waits for the threads to end, after the last note. */
void iso_local_join(iso_local *l);

#endif

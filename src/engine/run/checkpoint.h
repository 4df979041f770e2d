/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints: the whole state of a run at a round border as checkpoint-ROUND.safetensors, and the model files.
 *
 *   conv1.weight ...                 the weights, published layout
 *   state.momentum.conv1.weight ...  each array of the optimiser (or of a merge of differences), cut up like the weights
 *   state.coordinator                the coordinator's own state, bytes
 *   metadata                         the card (card.h), `run` and the check sum
 *
 * `latest` holds the name of the newest one; a resume does not trust it but looks for the newest whole file.
 * Place: engine. Thread: one at a time; a snapshot may be filled by another thread than the one that writes it, not
 * at once. */
#ifndef ISO_ENGINE_RUN_CHECKPOINT_H
#define ISO_ENGINE_RUN_CHECKPOINT_H

#include <stdint.h>

#include "engine/run/card.h"
#include "engine/run/folder.h"

#define ISO_STATES_MAX 4u

typedef struct iso_snapshot {
    uint64_t round; /* rounds done */
    uint32_t epoch; /* whole epochs done */
    uint32_t states;
    float *weights;               /* [P] published */
    float *state[ISO_STATES_MAX]; /* [P] published */
    const char *name[ISO_STATES_MAX]; /* "momentum", "error", ...: borrowed */
    uint8_t *core;                /* [core_bytes] */
    size_t core_bytes, core_capacity;
    char *run; /* JSON text of the figures so far; may be NULL */
    char mark[ISO_MARK_TEXT]; /* reading: of the run that wrote it; "": none */
    char init[ISO_SHA256_TEXT]; /* reading: of the weights that the run started from; "": drawn from the seed */
    const iso_alloc *alloc;
} iso_snapshot;

/* Takes all memory a snapshot of this network needs. Error: ISO_E_NOMEM. */
int iso_snapshot_init(iso_snapshot *s, const iso_net *net, const iso_optimizer *o, size_t core_capacity,
                      const iso_alloc *a, iso_error *e);
/* The same with arrays of any names, at most ISO_STATES_MAX, which must outlive the snapshot. */
int iso_snapshot_init_named(iso_snapshot *s, const iso_net *net, const char *const *names, uint32_t count,
                            size_t core_capacity, const iso_alloc *a, iso_error *e);
void iso_snapshot_fini(iso_snapshot *s);

/* Writes the checkpoint, then `latest`, then removes all but the newest `keep` files up to it. Errors: ISO_E_IO (the
 * older files stand), ISO_E_NOMEM. */
int iso_checkpoint_write(iso_run *run, const iso_card *card, const iso_net *net, const iso_snapshot *s, uint32_t keep,
                         iso_error *e);

/* Reads one back into an initialised snapshot. Errors: ISO_E_FORMAT (damaged, or not one), ISO_E_MISMATCH (belongs to another
 * job or other data: named with both fingerprints), ISO_E_UNSUPPORTED (of another version), ISO_E_IO, ISO_E_NOMEM. */
int iso_checkpoint_read(const iso_run *run, uint64_t round, const iso_card *card, const iso_net *net, iso_snapshot *s,
                        iso_error *e);

/* Told of each damaged checkpoint that is passed over. */
typedef void (*iso_checkpoint_skipped)(void *context, const char *sentence);

/* Reads the newest whole one; *found is false when there is none at all. A damaged one is told to `skipped` and the
 * next older one is taken; when all are damaged that is ISO_E_FORMAT. Other errors as iso_checkpoint_read. */
int iso_checkpoint_newest(const iso_run *run, const iso_card *card, const iso_net *net, iso_snapshot *s, bool *found,
                          iso_checkpoint_skipped skipped, void *context, iso_error *e);

/* Writes weights [P] published as a model file ("model.safetensors", "best.safetensors"); sha256 comes back. */
int iso_model_write(iso_run *run, const char *name, const iso_card *card, const iso_net *net, const float *published,
                    uint64_t round, uint32_t epoch, char sha256[ISO_SHA256_TEXT], iso_error *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The run folder: who may use it, and how its files are written.
 *
 * Place: engine. Everything a run writes goes through here, relative to one open folder, so that a kill or a full
 * disk at any moment leaves each file either as it was or complete:
 *
 *   replace   temporary file in the same folder -> write -> fsync -> close -> rename -> fsync of the folder
 *   append    journals (metrics.jsonl): whole lines; what a kill left of the last one is cut off at resume
 *
 * A new run in the place of an earlier one (--force) is pending until a checkpoint or a model of it is on the disk: its files
 * are in the folder .new-run inside, and the earlier run is not touched. takeover.c says how the one then replaces the other.
 *
 * Invariant: between iso_run_open and _close no other process has the folder open for a run (flock on the folder).
 * Thread: one at a time. */
#ifndef ISO_ENGINE_RUN_FOLDER_H
#define ISO_ENGINE_RUN_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/train.h"

typedef enum iso_run_mode {
    ISO_RUN_NEW,    /* must be absent or empty; where there are no locks, absent */
    ISO_RUN_FORCE,  /* a run in it is replaced, other files stay */
    ISO_RUN_RESUME, /* an earlier run's folder, an empty or an absent one */
} iso_run_mode;

#define ISO_RUN_PENDING ".new-run"

typedef struct iso_run {
    int root;   /* the folder, locked; -1: closed */
    int fd;     /* where the files of this run are: the same, or .new-run in it */
    char *path; /* as the user spelled it, for messages */
    const iso_alloc *alloc;
    const iso_train_faults *faults; /* may be NULL */
    size_t made;                    /* bytes of the part of path that this call made first; 0: all was there */
    bool unlocked;                  /* the file system has no locks: the caller warns */
    bool keep;                      /* what a pending run wrote stays, to be looked at */
} iso_run;

/* Opens the run folder, making it and its parents when absent, locks it, ends what a killed call had begun (iso_run_settle),
 * sweeps left-over temporary files and proves that files can be written. An earlier run in it is not touched. Errors:
 * ISO_E_BUSY (in use; not empty; holds other things than a run; is a file or closed to us: another name is wanted), ISO_E_IO
 * (names the path that is in the way), ISO_E_NOMEM. On an error *f is closed. */
int iso_run_open(iso_run *f, const char *path, iso_run_mode mode, const iso_train_faults *faults, const iso_alloc *a,
                 iso_error *e);

/* Unlocks. A pending run is thrown away (unless f->keep), folders that iso_run_open made are removed again when they are
 * empty. A closed one is fine. */
void iso_run_close(iso_run *f);

/* ---- a new run in the place of an earlier one (takeover.c) ---------------------------------------------- */

static inline bool iso_run_is_pending(const iso_run *f)
{
    return f->fd != f->root;
}

/* The pending run takes the place of the earlier one: call it when something to go on from, or the model, is on the disk. Not
 * pending: nothing to do. After an error the next iso_run_open or _look finishes it. Errors: ISO_E_IO. */
int iso_run_take_over(iso_run *f, iso_error *e);

/* For who only reads a run folder: finishes a takeover that was cut short, if there is one and no run holds the folder.
 * Errors: ISO_E_IO (says where the files are), ISO_E_NOMEM. */
int iso_run_look(const char *path, const iso_alloc *a, iso_error *e);

/* Parts of iso_run_open and _close. enter: opens and locks f->path, *why is the errno value. settle: finishes a takeover, or
 * throws away a pending run that nobody is writing any more. */
int iso_run_enter(iso_run *f, int *why, iso_error *e);
int iso_run_settle(iso_run *f, iso_error *e);
int iso_run_begin_pending(iso_run *f, iso_error *e);
void iso_run_end_pending(iso_run *f);

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Whether the folder has this file. */
bool iso_run_has(const iso_run *f, const char *name);

/* Whole file into a block of f->alloc (NUL added after the last byte). Errors: ISO_E_IO (absent too), ISO_E_FORMAT
 * when it is longer than limit, ISO_E_NOMEM. */
int iso_run_read(const iso_run *f, const char *name, size_t limit, unsigned char **bytes, size_t *size, iso_error *e);

/* Checkpoint rounds present (by name), newest first; a block of f->alloc. */
int iso_run_checkpoints(const iso_run *f, uint64_t **rounds, size_t *count, iso_error *e);

/* Calls each(context, name) for every entry of an open folder of the run but "." and ".."; stops at its first result that is
 * not 0 and returns it. */
int iso_run_each(const iso_run *f, int folder, int (*each)(void *context, const char *name), void *context, iso_error *e);

/* Whether a run writes a file of this name; whether it is ".NAME.tmp" of such a one, or of the writing test. */
bool iso_run_is_result(const char *name);
bool iso_run_is_temporary(const char *name);

#define ISO_BEST_NAME "best.safetensors" /* iso_best_epoch */
#define ISO_CHECKPOINT_NAME_MAX 64u
void iso_checkpoint_name(uint64_t round, char out[ISO_CHECKPOINT_NAME_MAX]);
/* The round of "checkpoint-120.safetensors", spelled exactly as iso_checkpoint_name does; false for other names. */
bool iso_checkpoint_round(const char *name, uint64_t *round);

/* ---- replacing a file ---------------------------------------------------------------------------------- */

typedef struct iso_replace {
    iso_run *folder;
    int fd; /* -1: none */
    char name[ISO_CHECKPOINT_NAME_MAX], temporary[ISO_CHECKPOINT_NAME_MAX + 8];
} iso_replace;

/* _begin, any number of _write, then _commit or _abort. After an error the temporary file is gone, the old file
 * stands, and only _abort (no effect) is left to call. Errors: ISO_E_IO with the path and the reason. */
int iso_replace_begin(iso_replace *r, iso_run *f, const char *name, iso_error *e);
int iso_replace_write(iso_replace *r, const void *bytes, size_t size, iso_error *e);
int iso_replace_commit(iso_replace *r, iso_error *e);
void iso_replace_abort(iso_replace *r);

/* The three in one. */
int iso_run_put(iso_run *f, const char *name, const void *bytes, size_t size, iso_error *e);

/* Removes a file; absent is fine. */
int iso_run_remove(iso_run *f, const char *name, iso_error *e);

/* The planted fault of a step, 0 without one; fsync of a folder, or the errno value of why not. */
int iso_run_planted(const iso_run *f, iso_file_step step, const char *name);
int iso_run_sync_folder(const iso_run *f, int folder);

/* ---- journals ------------------------------------------------------------------------------------------ */

typedef struct iso_journal {
    iso_run *folder;
    int fd; /* -1: none */
    char name[ISO_CHECKPOINT_NAME_MAX];
} iso_journal;

/* Opens for appending (made when absent) and cuts the file to its first `keep` bytes. */
int iso_journal_open(iso_journal *j, iso_run *f, const char *name, uint64_t keep, iso_error *e);
int iso_journal_append(iso_journal *j, const void *bytes, size_t size, iso_error *e);
int iso_journal_sync(iso_journal *j, iso_error *e);
/* Close errors are reported (a network file system tells of a full disk here). A closed one is fine. */
int iso_journal_close(iso_journal *j, iso_error *e);

/* ISO_E_IO: "FOLDER/NAME: what: reason of the errno value". */
int iso_run_error(const iso_run *f, const char *name, const char *what, int errno_value, iso_error *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Train a resolved job on this computer, and use what came out of it.
 *
 * Intended use
 *   1. Make an iso_job (isochron/job.h).  2. iso_train_options_default, set what differs, iso_train.
 *   3. Read the iso_summary, or open the run folder with iso_model_open and iso_evaluate or iso_predict.
 *
 * Thread rule: iso_train starts and joins its own worker threads; every callback of the observer comes on the thread
 * that called iso_train, so that an observer needs no locks. Two calls may run at once on different run folders.
 * Numbers that are not there (no test set, not calibrated) are NaN in these structs and null in the files. */
#ifndef ISOCHRON_TRAIN_H
#define ISOCHRON_TRAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/error.h"
#include "isochron/nn.h"

struct iso_job;     /* isochron/job.h */
struct iso_dataset; /* isochron/data.h */

#define ISO_WORKERS_MAX 1024u /* worker threads of one local run */
#define ISO_NODE_NAME_MAX 40u /* bytes of a node's name, with the NUL */
#define ISO_SHA256_TEXT 65u   /* 64 hexadecimal digits and the NUL */
#define ISO_MARK_TEXT 17u     /* 16 hexadecimal digits and the NUL */

/* ---- what an observer sees ----------------------------------------------------------------------------- */

/* Told once, before the first round. Pointers are valid during the call. */
typedef struct iso_train_begin {
    const char *out;  /* the run folder */
    const char *sync; /* name of the policy */
    iso_isa isa;      /* instruction set in use */
    uint32_t workers, unit;
    uint64_t batch; /* samples of a full round */
    size_t parameters;
    uint64_t train_samples, validation_samples, test_samples;
    uint32_t epochs;
    uint64_t rounds; /* of the whole run */
    uint64_t seed;
    uint64_t resumed_round; /* rounds done by earlier runs; 0 for a new one */
} iso_train_begin;

/* Told at most `progress_per_second` times a second, and at the end of each epoch. */
typedef struct iso_progress {
    uint64_t round, rounds;          /* finished, in all */
    uint32_t epoch, epochs;          /* the running one (from 1), in all */
    uint64_t samples, samples_total; /* trained since the start of the run (resumed part included), in all */
    double loss, accuracy;           /* mean over the running epoch so far */
    double rate;                     /* learning rate of the last round */
    double samples_per_second;       /* over about the last two seconds */
    double seconds, seconds_left;    /* of this call; left is NaN until it is known */
} iso_progress;

/* Told after each epoch, when it has been evaluated. */
typedef struct iso_epoch_report {
    uint32_t epoch, epochs; /* from 1 */
    uint64_t round;
    double train_loss, train_accuracy;
    double validation_loss, validation_accuracy;
    double test_loss, test_accuracy;
    double rate, seconds, samples_per_second; /* seconds of this epoch, evaluation included */
    bool best;                                /* the best validation loss so far */
} iso_epoch_report;

typedef enum iso_message_level { ISO_MESSAGE_INFO, ISO_MESSAGE_WARNING } iso_message_level;

/* Any member may be NULL. */
typedef struct iso_observer {
    void *context;
    void (*begin)(void *context, const iso_train_begin *b);
    void (*progress)(void *context, const iso_progress *p);
    void (*epoch)(void *context, const iso_epoch_report *r);
    void (*message)(void *context, iso_message_level level, const char *sentence);
} iso_observer;

/* ---- options ------------------------------------------------------------------------------------------- */

typedef enum iso_fault_kind { ISO_FAULT_NONE, ISO_FAULT_STALL, ISO_FAULT_DIE } iso_fault_kind;
typedef struct iso_fault {
    iso_fault_kind kind;
    uint32_t milliseconds; /* of a stall */
} iso_fault;

/* What happens to a file of the run folder, in this order; a test may fail any of them. */
typedef enum iso_file_step {
    ISO_FILE_OPEN,
    ISO_FILE_WRITE,
    ISO_FILE_SYNC,
    ISO_FILE_CLOSE,
    ISO_FILE_RENAME,
    ISO_FILE_SYNC_FOLDER,
    ISO_FILE_REMOVE,
    ISO_FILE_LOCK /* of the folder, when it is opened; a file system without locks fails with ENOLCK */
} iso_file_step;

/* Planted faults, for tests. Members may be NULL. */
typedef struct iso_train_faults {
    void *context;
    /* Before order number `order` (0, 1, ...) of each worker, on that worker's thread: go on, sleep first, or end the
     * thread without a word. */
    iso_fault (*worker)(void *context, uint32_t worker, uint64_t order);
    /* Before each step on a file: 0, or the errno value it shall fail with. May end the process. */
    int (*file)(void *context, iso_file_step step, const char *path);
    /* How many cores there are now, each time the engine looks (here: each millisecond), instead of what the machine says. */
    uint32_t (*cores)(void *context);
} iso_train_faults;

typedef struct iso_train_options {
    bool resume;              /* go on from the newest whole checkpoint of the run folder */
    bool force;               /* replace an earlier run in the run folder, once this one has a checkpoint or a model */
    bool calibrate;           /* measure each worker alone first, so that `efficiency` is known */
    uint32_t workers;         /* 0: as the job says; the job's auto: one for each core this process may use */
    const uint32_t *throttle; /* relative speeds of the workers, 8:4:2:1; the largest is full speed. NULL: none */
    uint32_t throttle_count;  /* fewer than workers: the list begins again */
    iso_isa isa;
    const iso_observer *observer; /* may be NULL */
    uint32_t progress_per_second; /* 0: 10 */
    const atomic_int *stop; /* not 0: abandon the round in flight, save the last border, return; a signal handler may
                               set it. May be NULL */
    const iso_train_faults *faults; /* NULL */
    const iso_alloc *alloc;         /* NULL: the process heap */
} iso_train_options;

/* Everything off, automatic or NULL. */
ISO_API void iso_train_options_default(iso_train_options *o);

/* ---- summary ------------------------------------------------------------------------------------------- */

typedef struct iso_node_summary {
    char name[ISO_NODE_NAME_MAX];
    double score; /* samples a second while busy */
    double share; /* of the samples of this run, 0..1 */
    uint64_t samples;
    double busy_seconds, idle_seconds;
} iso_node_summary;

/* What best.safetensors holds: the weights at the end of the epoch with the lowest validation loss of the run. */
typedef struct iso_best_epoch {
    uint32_t epoch; /* from 1; 0: there is no such file (no validation set) */
    double validation_loss, validation_accuracy;
} iso_best_epoch;

/* The keys of summary.json. samples, rounds and epochs count the whole run, resumed parts included; seconds, nodes,
 * bytes and samples_per_second are sums over all calls that made the run as well. */
typedef struct iso_summary {
    double train_loss, train_accuracy; /* of the last whole epoch */
    double validation_loss, validation_accuracy;
    double test_loss, test_accuracy;
    iso_best_epoch best;
    uint32_t epochs;
    uint64_t rounds, samples;
    double seconds, samples_per_second, efficiency;
    uint64_t bytes_up, bytes_down; /* payload and header bytes that left the process, exact sums counted as fp32: 0 in the
                                      local engine */
    uint64_t sent_up, sent_down;   /* bytes really sent */
    char weights_sha256[ISO_SHA256_TEXT];
    uint64_t seed;
    char engine[16], sync[32];
    char mark[ISO_MARK_TEXT]; /* of the run: all of its files bear it; "" in those of an earlier version */
    iso_node_summary *nodes;
    uint32_t node_count;
    bool was_finished; /* a resume of a run that was done: nothing was trained, the figures are the old ones */
} iso_summary;

/* Gives back what iso_train took for it (with the allocator of the options); the struct is zero afterwards. */
ISO_API void iso_summary_clear(iso_summary *s, const iso_alloc *a);

/* Trains the job into its run folder (job's `out`): opens the data, tests the folder for writing, then trains,
 * evaluates and saves. *summary may be NULL; filled on success only, and cleared by the caller. Errors, with the
 * reason in *e: ISO_E_INTERRUPTED  *stop was set: the last round border stands as a whole checkpoint, --resume goes
 * on from it (nothing stands when it was set while data came from a pipe)
 * ISO_E_NONFINITE    a loss, gradient or weight is not finite or beyond the grid; names layer and round;
 * no model is written, the last checkpoint stays ISO_E_BUSY         the run folder is in use by another process, or
 * holds files and neither resume nor force was given ISO_E_MISMATCH     the checkpoint does not belong to this job;
 * names the key that differs ISO_E_IO, _FORMAT, _SHAPE, _ARGUMENT, _NOMEM, _UNSUPPORTED, _JOB as their sentences say.
 */
ISO_API int iso_train(const struct iso_job *job, const iso_train_options *options, iso_summary *summary,
                      iso_error *e);

/* Cores this process may use: affinity mask and control-group quota (both versions), rounded up; at least 1. */
ISO_API uint32_t iso_cores_allowed(void);

/* ---- a trained model ----------------------------------------------------------------------------------- */

typedef struct iso_trained iso_trained;

/* Reads model.safetensors, a checkpoint of ours, or the model of a run folder. Errors: E_IO, E_FORMAT (not a model of
 * ours: says what is missing), E_SHAPE (tensors that do not fit the description are named), E_UNSUPPORTED (isa),
 * E_NOMEM. */
ISO_API int iso_model_open(iso_trained **out, const char *path, iso_isa isa, const iso_alloc *a, iso_error *e);
ISO_API void iso_model_close(iso_trained *m);

/* Immutable; any thread. */
ISO_API const iso_net *iso_model_net(const iso_trained *m);
ISO_API const float *iso_model_weights(const iso_trained *m);      /* internal layout, iso_net_values of them */
ISO_API const char *iso_model_path(const iso_trained *m);          /* the file that was read */
ISO_API const char *iso_model_name(const iso_trained *m);          /* the job's name */
ISO_API const struct iso_job *iso_model_job(const iso_trained *m); /* the job it was trained by */
ISO_API const char *iso_model_class(const iso_trained *m, uint32_t index); /* NULL past the last */
ISO_API const char *iso_model_sha256(const iso_trained *m);                /* recomputed from the weights */
ISO_API uint64_t iso_model_data(const iso_trained *m); /* fingerprint of the data set it was trained on */

typedef struct iso_class_score {
    const char *name;         /* the model's */
    double precision, recall; /* NaN when nothing was predicted as it, or nothing is of it */
    uint64_t count;           /* samples of this class */
} iso_class_score;

typedef struct iso_evaluation {
    double loss, accuracy;
    uint64_t samples, correct;
    uint32_t classes;
    uint64_t *confusion;    /* [classes true][classes predicted] */
    iso_class_score *score; /* [classes] */
} iso_evaluation;

/* Loss, accuracy and confusion matrix of a data set. *stop as in iso_train_options, may be NULL. Errors: E_SHAPE (the
 * data has another shape or more classes than the model: both are named), E_NOMEM, E_INTERRUPTED. *out is cleared by
 * the caller. */
ISO_API int iso_evaluate(const iso_trained *m, const struct iso_dataset *data, const atomic_int *stop,
                         const iso_alloc *a, iso_evaluation *out, iso_error *e);
ISO_API void iso_evaluation_clear(iso_evaluation *v, const iso_alloc *a);

/* Outputs of samples [first, first + count): out [count][classes], probabilities with cross-entropy, else raw. Labels
 * are not looked at. Errors as iso_evaluate; E_ARGUMENT when the range is beyond the data. */
ISO_API int iso_predict(const iso_trained *m, const struct iso_dataset *data, uint64_t first, uint64_t count,
                        float *out, const iso_alloc *a, iso_error *e);

#endif

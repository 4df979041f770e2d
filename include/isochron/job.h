/* SPDX-License-Identifier: Apache-2.0
 * The job: everything that decides what a run computes, as one flat value, and its text form, the job file (YAML).
 *
 * An iso_job owns no memory: copy it with =, keep it anywhere (it has about 50 KiB). One schema table
 * (src/job/schema.c) drives parsing, --set, writing, comparing and the help; a layer's options come from the table of
 * layer kinds, a policy's from the table of policies.
 *
 * Intended use
 *   1. iso_job_default; then iso_job_parse a file and iso_job_set flags over it, in any order: the last one wins.
 *   2. iso_job_finish: what must be given is there, what was left open gets its value, values fit each other.
 *   3. iso_job_model once the data's class count is known. iso_job_write makes the run folder's job.yaml.
 *
 * Errors are ISO_E_JOB with a text that begins "FILE:LINE:COLUMN: " (or "--set KEY=VALUE: "), names the key and, for a
 * wrong word, the right ones. Thread: any; a job belongs to one thread at a time. */
#ifndef ISOCHRON_JOB_H
#define ISOCHRON_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/error.h"
#include "isochron/nn.h"

#define ISO_PATH_MAX 4096u            /* bytes of a path with the NUL */
#define ISO_WORD_MAX 64u              /* bytes of a name or word with the NUL */
#define ISO_SYNC_MAX 512u             /* bytes of a policy's parameters with the NUL */
#define ISO_JOB_BYTES_MAX (1u << 20)  /* the largest job file */
#define ISO_JOB_DEPTH_MAX 16u         /* the deepest nesting in a job file */

/* The same values as iso_normalize of isochron/data.h. */
typedef enum iso_job_normalize {
    ISO_JOB_NORMALIZE_NONE,
    ISO_JOB_NORMALIZE_UNIT,
    ISO_JOB_NORMALIZE_STANDARD
} iso_job_normalize;
typedef enum iso_job_engine { ISO_JOB_ENGINE_LOCAL } iso_job_engine;

/* Where in the job file something stands; line 0: it did not come from a file. Both count from 1. */
typedef struct iso_place {
    uint32_t line, column;
} iso_place;

typedef struct iso_job_data {
    char path[ISO_PATH_MAX];          /* a file, or a folder that holds train and test in the usual names */
    char test[ISO_PATH_MAX];          /* "": what the folder tells */
    char labels[ISO_PATH_MAX];        /* "": beside the images by the usual name */
    char format[ISO_WORD_MAX];        /* "auto" or a reader's name */
    double validation;                /* a share of the training set in [0, 1); 0 when validation_path is given */
    char validation_path[ISO_PATH_MAX]; /* "": none */
    iso_job_normalize normalize;
    uint32_t shift;                   /* augmentation: pixels to each side */
    bool flip;                        /* augmentation: left and right swapped in half of the samples */
} iso_job_data;

/* A preset with its options (preset[0] != 0), or a list of layers (preset is "" and layers.count > 0), or nothing yet.
 */
typedef struct iso_job_net {
    char preset[ISO_WORD_MAX];
    uint32_t classes;                 /* 0: what the data tells */
    uint32_t hidden[16], hidden_count;
    char activation[ISO_WORD_MAX];    /* "": the preset's default */
    char form[ISO_WORD_MAX];          /* "": the preset's default */
    iso_init init;
    iso_model layers;                 /* kinds and options alone; loss and init come from the job */
} iso_job_net;

typedef struct iso_job_checkpoint {
    uint64_t every;                   /* rounds; 0: not by rounds */
    double seconds;                   /* 0: not by time */
    uint32_t keep;                    /* checkpoint files kept, 1 or more */
} iso_job_checkpoint;

typedef struct iso_job {
    char name[ISO_WORD_MAX * 2];
    iso_job_data data;
    iso_job_net model;
    iso_loss loss;
    iso_optimizer optimizer;          /* learning_rate is NaN until iso_job_finish when it was not given */
    iso_schedule schedule;
    uint64_t batch;                   /* the global batch, samples */
    uint32_t unit;                    /* 16, 32, 48, 64; 0: iso_net_unit decides */
    uint32_t epochs;
    char policy[ISO_WORD_MAX];        /* a row of the policy table */
    char parameters[ISO_SYNC_MAX];    /* "key=value:key=value", checked against the policy's table; "" */
    iso_job_engine engine;
    uint32_t workers;                 /* 0: the cores this process may use */
    iso_job_checkpoint checkpoint;
    uint64_t seed;
    char out[ISO_PATH_MAX];           /* the run folder; "": runs/NAME, chosen by the command line */
    char init[ISO_PATH_MAX]; /* weights to start from, a safetensors file or run folder; "": drawn from the seed */

    char file[ISO_PATH_MAX]; /* the job file, for messages; "" when there was none. Not compared, not written */
    iso_place data_at, path_at, model_at, sync_at; /* for messages. Not compared, not written */
} iso_job;

/* Every key at its default; data and model are open. */
ISO_API void iso_job_default(iso_job *job);

/* Lays a job file's text over *job: what the text does not name stays as it is, but a section that it names as a whole
 * (`model: mlp`, `optimizer: {name: adam}`) begins from its defaults; so do iso_job_set and iso_job_set_text.
 * file: its name, for messages and job->file. text: length bytes, need not end in NUL, borrowed. On an error *job is as
 * before. Errors: ISO_E_JOB (not YAML, several documents, unknown or repeated key, wrong type, word or bounds, too
 * long, too deep), ISO_E_NOMEM. Memory: at most a small multiple of length (which ISO_JOB_BYTES_MAX bounds), given back
 * before it returns. */
ISO_API int iso_job_parse(iso_job *job, const char *file, const char *text, size_t length, const iso_alloc *a,
                          iso_error *e);

/* "optimizer.learning_rate=0.1": one key, its value written as in the file ("model={preset: mlp, hidden: [5]}").
 * Errors as iso_job_parse; *job is as before. */
ISO_API int iso_job_set(iso_job *job, const char *assignment, const iso_alloc *a, iso_error *e);

/* The same for a value that is plain text whatever characters it has (a path from a flag). flag names it in messages
 * ("--data"). */
ISO_API int iso_job_set_text(iso_job *job, const char *flag, const char *key, const char *value, iso_error *e);

/* The last step before use: data.path and model are given, open values get theirs (name, learning_rate), the preset or
 * the layers and the policy exist, values fit each other. Idempotent. Errors: ISO_E_JOB. */
ISO_API int iso_job_finish(iso_job *job, iso_error *e);

/* The network of a finished job for data of `classes` classes, with the job's loss and initialisation.
 * Errors: ISO_E_JOB with the model's place in the file: preset or its options are wrong. */
ISO_API int iso_job_model(const iso_job *job, uint32_t classes, iso_model *out, iso_error *e);

/* Puts "FILE:LINE:COLUMN: " before e's text when job came from a file and place is in it; for errors that data, network
 * or policy report later. Returns e->code. */
ISO_API int iso_job_error_at(const iso_job *job, iso_place place, iso_error *e);

/* The job as a file with every key, in the schema's order; iso_job_parse of it over the defaults gives the same job.
 * Writes at most capacity bytes with the NUL and returns the length the whole text has, as snprintf does: call it with
 * (NULL, 0) to measure. Allocates nothing. */
ISO_API size_t iso_job_write(const iso_job *job, char *out, size_t capacity);

/* 0 when `now` may resume a run of `before`; else ISO_E_MISMATCH naming the keys that differ with both values, and the way to
 * train on otherwise (before->out is the run for it). name, engine, workers, checkpoint and out may differ; so may the paths of
 * data and init and the data's format: what they lead to has fingerprints, which iso_train compares. */
ISO_API int iso_job_difference(const iso_job *before, const iso_job *now, iso_error *e);

/* A number for all that iso_job_difference compares: equal where it finds none. Error: ISO_E_NOMEM. */
ISO_API int iso_job_digest(const iso_job *job, const iso_alloc *a, uint64_t *out, iso_error *e);

/* One key of the schema, for help texts; index 0.. until it returns false. Texts are static. */
typedef struct iso_job_key {
    const char *path;                 /* "optimizer.learning_rate" */
    const char *type;                 /* "number", "whole number", "word", "path", ... */
    const char *standard;             /* the default as the file would spell it; "" when there is none */
    const char *help;
} iso_job_key;
ISO_API bool iso_job_key_at(uint32_t index, iso_job_key *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * From the job file's `data` to data sets in memory. */
#ifndef ISO_ENGINE_FILE_OPEN_DATA_H
#define ISO_ENGINE_FILE_OPEN_DATA_H

#include <stdatomic.h>
#include <stdbool.h>

#include "isochron/data.h"
#include "isochron/format.h"

/* Paths as the job gives them; NULL where it gives none. */
typedef struct iso_data_source {
    const char *path;       /* a file, or a folder that holds train and test in the usual names */
    const char *test;       /* a file or a folder, when `path` does not tell */
    const char *labels;     /* of `path`, when its name does not tell */
    const char *validation; /* a file or a folder (a share is iso_split_make's business) */
    const char *format;     /* NULL or "auto", or a format's name */
    const atomic_int *stop; /* NULL, or what ends the wait for a pipe once it is not 0: ISO_E_INTERRUPTED */
} iso_data_source;

typedef struct iso_data {
    iso_dataset train, test, validation;
    bool has_test, has_validation;
    char *train_path, *test_path; /* the files the samples came from */
    const iso_alloc *alloc;
} iso_data;

/* Loads what a job needs: train (with labels), test and validation if they are there. All shapes are equal; classes is
 * made the same in all (the largest, or the names of train). Errors name file and byte: ISO_E_IO, ISO_E_FORMAT,
 * ISO_E_SHAPE, ISO_E_NOMEM. */
int iso_data_open(const iso_data_source *source, const iso_alloc *a, iso_data *out, iso_error *e);
void iso_data_close(iso_data *d);

/* Which set of a path that was. */
typedef enum iso_data_part { ISO_DATA_FILE, ISO_DATA_TEST, ISO_DATA_TRAIN } iso_data_part;

/* Loads one set for evaluate or predict: a file, or a folder (its test set, else its training set; *part, which may be
 * NULL, says which). Labels come along when they are given or lie beside it under the usual name; want_labels makes
 * their lack an error. "-" is standard input. */
int iso_data_open_one(const char *path, const char *labels, const char *format, bool want_labels, const iso_alloc *a,
                      iso_dataset *out, iso_data_part *part, iso_error *e);

/* What `inspect` can look at. */
typedef enum iso_inspect_kind { ISO_INSPECT_DATA, ISO_INSPECT_TENSORS, ISO_INSPECT_FOLDER } iso_inspect_kind;

typedef struct iso_inspection {
    iso_inspect_kind kind;
    const char *path;
    bool gzip;       /* the file was compressed */
    iso_dataset set; /* DATA: the file alone, labels are not looked for; FOLDER: train */
    iso_data_report report;
    iso_dataset test; /* FOLDER: if there is one */
    iso_data_report test_report;
    bool has_test;
    iso_tensors *tensors; /* TENSORS */
    iso_bytes bytes;      /* what tensors points into */
} iso_inspection;

/* Opens and measures a data file, a folder of data, or a safetensors file. `path` must outlive the result. Errors as
 * iso_data_open. */
int iso_inspect(const char *path, const char *format, const iso_alloc *a, iso_inspection *out, iso_error *e);
void iso_inspection_free(iso_inspection *i);

#endif

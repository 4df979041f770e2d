/* SPDX-License-Identifier: Apache-2.0
 * Data sets: reading from bytes, splitting, normalising, augmenting. Pure: whoever calls has the file's bytes in memory
 * already (src/engine/file opens, maps and decompresses). A data set is immutable once made and may be read by any
 * thread.
 *
 * Letters: N samples, C channels, H height, W width. A table of D columns has the shape {D, 1, 1}: its columns are
 * channels.
 *
 * Intended use
 *   1. iso_data_read the images and the labels, iso_dataset_join them (a file that holds both needs no join).
 *   2. iso_split_make: a view of the training part and one of the validation part.
 *   3. iso_normalize_measure on the training view gives scale and shift for iso_pass_load_*; keep them with the model.
 *   4. For each sample of a unit: iso_view_sample, iso_augment_sample into a buffer if asked, iso_pass_load_*.
 */
#ifndef ISOCHRON_DATA_H
#define ISOCHRON_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/error.h"
#include "isochron/shape.h"

/* Labels lie in [0, ISO_CLASSES_MAX): a larger one is a mistake, and a table of counts stays small. */
#define ISO_CLASSES_MAX ((uint32_t)1 << 20)

/* ---- bytes of a file, and who gives them back -------------------------------------------------------------------- */

/* size bytes at `bytes`; release(context, bytes, size) gives them back (NULL: nothing to do). */
typedef struct iso_bytes {
    const uint8_t *bytes;
    size_t size;
    void (*release)(void *context, const uint8_t *bytes, size_t size);
    void *context;
} iso_bytes;

/* Calls release if there is one and empties *b; an empty or NULL one is fine. */
ISO_API void iso_bytes_release(iso_bytes *b);

/* ---- a data set -------------------------------------------------------------------------------------------------- */

typedef enum iso_dtype { ISO_U8, ISO_F32 } iso_dtype;

ISO_API const char *iso_dtype_name(iso_dtype dtype); /* "u8", "f32" */
ISO_API size_t iso_dtype_bytes(iso_dtype dtype);

typedef struct iso_dataset {
    iso_shape shape;  /* of one sample; all 0 when there are labels only */
    uint64_t count;   /* N > 0 */
    uint32_t classes; /* largest label + 1, or the number of class names; 0 without labels */
    iso_dtype dtype;
    const void *values;             /* [N][C][H][W] of dtype; NULL when there are labels only */
    const int32_t *labels;          /* [N], each in [0, classes); NULL when there are none */
    const char *const *class_names; /* [classes], or NULL: the classes are called 0, 1, 2, ... */
    uint64_t fingerprint; /* of shape, count, values and labels in their order: equal data, equal number on any host */
    const char *source;   /* "FILE: IDX, 60000 x 28 x 28, u8"; never NULL */
    const char *warning;  /* what a person should know about this data, or NULL */
    const iso_alloc *alloc; /* the rest belongs to iso_dataset_free */
    void *owned[8];
    iso_bytes borrowed[2]; /* files whose bytes `values` or `labels` point into */
} iso_dataset;

/* Gives everything back, borrowed bytes too, and empties *d; an empty or NULL one is fine. */
ISO_API void iso_dataset_free(iso_dataset *d);

/* Bytes of one sample: C*H*W values. */
ISO_API size_t iso_dataset_sample_bytes(const iso_dataset *d);

/* The values of sample i < N. */
ISO_API const void *iso_dataset_sample(const iso_dataset *d, uint64_t i);

/* A data set on arrays of the caller's, which must outlive it (nothing is copied but names). labels may be NULL;
 * classes 0 means largest label + 1. Errors: ISO_E_ARGUMENT (names the item of a bad label), ISO_E_NOMEM. */
ISO_API int iso_dataset_wrap(iso_dataset *out, iso_shape shape, iso_dtype dtype, uint64_t count, const void *values,
                             const int32_t *labels, uint32_t classes, const iso_alloc *a, iso_error *e);

/* Moves the labels of *labels into *samples; on success *labels is empty. Errors: ISO_E_FORMAT when the counts differ
 * or either lacks its part; then both are as before. */
ISO_API int iso_dataset_join(iso_dataset *samples, iso_dataset *labels, iso_error *e);

/* Do the labels fit a model of `classes` outputs? ISO_E_FORMAT naming the first item that does not ("label 9 at item 2,
 * the model has 3 classes"). */
ISO_API int iso_dataset_check_labels(const iso_dataset *d, uint32_t classes, iso_error *e);

/* Has the data this shape? ISO_E_SHAPE with both shapes. */
ISO_API int iso_dataset_check_shape(const iso_dataset *d, iso_shape shape, iso_error *e);

/* Name of class k: its given name, or its number written into `out`. */
ISO_API const char *iso_dataset_class_name(const iso_dataset *d, uint32_t k, char out[16]);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* What the caller expects in the bytes; ANY takes what is there. */
typedef enum iso_role { ISO_ROLE_ANY, ISO_ROLE_SAMPLES, ISO_ROLE_LABELS } iso_role;

typedef struct iso_read_options {
    const char *name;   /* of the file, for messages and for guessing; NULL: "data" */
    const char *format; /* NULL or "auto": by content, then by name; else one of iso_format_at */
    iso_role role;
} iso_read_options;

/* Names and one-line descriptions of the formats, NULL past the end. */
ISO_API const char *iso_format_at(uint32_t index);
ISO_API const char *iso_format_help(const char *format);

/* Parses the bytes of one (decompressed) file. On success *out owns the bytes if it points into them (then *bytes is
 * emptied); otherwise, and on every error, they stay the caller's. Errors: ISO_E_FORMAT (file, byte, wanted, found,
 * what to do), ISO_E_ARGUMENT (unknown format, with the right words), ISO_E_NOMEM. Nothing is allocated from a length
 * that the size of the bytes does not prove. options may be NULL; a NULL allocator is the default one. */
ISO_API int iso_data_read(iso_bytes *bytes, const iso_read_options *options, const iso_alloc *a, iso_dataset *out,
                          iso_error *e);

/* ---- the usual names of a folder --------------------------------------------------------------------------------- */

/* Which of a folder's files are what: indexes into the given names, -1 where there is none. */
typedef struct iso_folder {
    int64_t train_samples, train_labels, test_samples, test_labels;
} iso_folder;

/* Finds [PREFIX-]{train|t10k|test}{-|.|_}{images|labels}{-|.|_}idxN-ubyte[.gz] and its like among `names`; hidden
 * files (a dot in front) are none. Of several spellings of one file (iso_folder_same) a plain one wins over a .gz, then
 * the first; whoever can read them sees to it that all hold the same. At least one of train and test is there, each
 * with its labels. Errors: ISO_E_FORMAT when there is neither (says what was looked for), when labels lack, or when
 * several sets (PREFIXes) are there (names two). Thread: any; allocates nothing. */
ISO_API int iso_folder_find(const char *const *names, size_t count, iso_folder *out, iso_error *e);

/* Are these two spellings of one file of a set ("train-images-idx3-ubyte" and "train-images.idx3-ubyte.gz")? False when
 * either is no usual name; a usual name is one with itself. */
ISO_API bool iso_folder_same(const char *one, const char *other);

/* Is `labels` the name that belongs to `samples` ("x-images-idx3-ubyte" and "x-labels-idx1-ubyte.gz")? */
ISO_API bool iso_folder_pairs(const char *samples, const char *labels);

/* ---- views and the validation split ------------------------------------------------------------------------------ */

/* Some samples of a data set, in ascending order; nothing is copied. The data set must outlive it. */
typedef struct iso_view {
    const iso_dataset *set;
    uint64_t count;
    const uint64_t *index; /* [count] into the set, or NULL: all of it */
    const iso_alloc *alloc;
} iso_view;

/* Everything in a set. Needs no free. */
ISO_API iso_view iso_view_all(const iso_dataset *d);
ISO_API void iso_view_free(iso_view *v);

/* Sample and label at place i < count of the view. */
ISO_API const void *iso_view_sample(const iso_view *v, uint64_t i);
ISO_API int32_t iso_view_label(const iso_view *v, uint64_t i);

/* Splits off `share` (0 <= share < 1) of the samples by a permutation of the seed: round(share*N) of them, at least one
 * when share is not 0, and at least one stays for training. Errors: ISO_E_ARGUMENT, ISO_E_NOMEM. share 0 gives an empty
 * validation view. */
ISO_API int iso_split_make(const iso_dataset *d, double share, uint64_t seed, const iso_alloc *a, iso_view *training,
                           iso_view *validation, iso_error *e);

/* Samples of each class in a view: counts [classes]. */
ISO_API void iso_view_class_counts(const iso_view *v, uint32_t classes, uint64_t *counts);

/* ---- normalisation ----------------------------------------------------------------------------------------------- */

typedef enum iso_normalize { ISO_NORMALIZE_NONE, ISO_NORMALIZE_UNIT, ISO_NORMALIZE_STANDARD } iso_normalize;

/* "none", "unit", "standard" <-> iso_normalize; ISO_E_ARGUMENT for another word. */
ISO_API int iso_normalize_parse(const char *word, iso_normalize *out);
ISO_API const char *iso_normalize_name(iso_normalize mode);

/* What is left of one channel (or column) and how to normalise it: value -> fma(value, scale, shift). */
typedef struct iso_channel {
    double minimum, maximum, mean, deviation;
    float scale, shift;
    bool constant; /* all values are equal: scale and shift are 0 (modes unit and standard) */
} iso_channel;

/* Measures a view and fills channel[C]. For u8 the sums are exact integers, so the result does not depend on any order;
 * for f32 they are doubles in the order of the view. none: scale 1, shift 0. unit: u8/255, f32 from minimum..maximum to
 * 0..1. standard: mean 0, deviation (of the population) 1. *constant (may be NULL): channels that are constant; the
 * caller warns. Errors: ISO_E_ARGUMENT (empty view), ISO_E_NONFINITE (names sample and channel). Allocates nothing. */
ISO_API int iso_normalize_measure(const iso_view *v, iso_normalize mode, iso_channel *channel, uint32_t *constant,
                                  iso_error *e);

/* ---- augmentation ------------------------------------------------------------------------------------------------ */

typedef struct iso_augment {
    uint32_t shift; /* pixels: dx and dy are uniform in [-shift, shift] */
    bool flip;      /* left-right, with probability 1/2 */
} iso_augment;

/* True when there is something to do. */
ISO_API bool iso_augment_any(const iso_augment *g);

/* ISO_E_SHAPE when samples of this shape cannot be shifted or flipped so (a table; a shift as large as the image). */
ISO_API int iso_augment_check(const iso_augment *g, iso_shape shape, iso_error *e);

/* Writes the copy of one sample that (seed, epoch, sample) calls for. in, out: C*H*W values, not overlapping. `sample`
 * is its index in the data set. Pixels shifted in from outside are 0 before normalisation (black). Wants
 * iso_augment_check to have passed. Thread: any; allocates nothing. */
ISO_API void iso_augment_sample(const iso_augment *g, iso_shape shape, iso_dtype dtype, uint64_t seed, uint32_t epoch,
                                uint64_t sample, const void *in, void *out);

/* ---- what speaks against training on some data ------------------------------------------------------------------ */

typedef struct iso_data_parts {
    iso_view training;         /* not empty */
    iso_view validation, test; /* count 0: there is none */
    uint32_t classes;          /* of the network; every label is below it */
    uint32_t constant_channels;
} iso_data_parts;

/* Calls tell with a sentence for each fact that a person should know first: what a reader warned of, constant channels,
 * one class alone, classes without a sample, very uneven ones, test or validation samples of classes that training
 * never has. Error: ISO_E_NOMEM. */
ISO_API int iso_data_doubts(const iso_data_parts *parts, const iso_alloc *a,
                            void (*tell)(void *context, const char *sentence), void *context, iso_error *e);

/* ---- looking at data (isochron inspect) -------------------------------------------------------------------------- */

typedef struct iso_data_report {
    const iso_dataset *set;
    double minimum, maximum, mean; /* over all values; 0 when there are labels only */
    int32_t label_minimum, label_maximum;
    uint32_t classes;
    uint32_t empty_classes; /* classes below `classes` without a sample */
    uint32_t constant_channels;
    uint64_t *class_counts; /* [classes]; NULL without labels */
    const iso_alloc *alloc;
} iso_data_report;

/* Measures a whole set. Errors: ISO_E_NOMEM, ISO_E_NONFINITE. */
ISO_API int iso_data_report_make(iso_data_report *out, const iso_dataset *d, const iso_alloc *a, iso_error *e);
ISO_API void iso_data_report_free(iso_data_report *r);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The card of a model: what, beside the weights, is needed to use it or to go on training it. It travels as the
 * metadata of model.safetensors, best.safetensors and the checkpoints:
 *
 *   isochron        "model 2" or "checkpoint 2": kind of file and version of this list
 *   job             the resolved job file; with `classes` and `input` it gives the network
 *   name seed       of the job, for people and other tools
 *   classes         "10"
 *   input           "1x28x28" (channels, height, width)
 *   class_names     JSON list of texts; absent when the classes are called 0, 1, 2, ...
 *   normalize       "standard", "unit" or "none"
 *   scale shift     JSON lists of numbers, one a channel: input value -> fma(value, scale, shift)
 *   data            16 hexadecimal digits: fingerprint of the training set
 *   test validation the same of the test set and of the validation file; absent when there was none
 *   init            SHA-256 of the weights it started from; absent when they were drawn from the seed
 *   round epoch     rounds and whole epochs done
 *   mark            of the run, 16 hexadecimal digits: its other files bear the same
 *   weights_sha256  model files: of the weights
 *   run             checkpoints: JSON, figures of the run so far (summary.h)
 *   crc32c          8 hexadecimal digits over all of the above and all tensors, whatever their order
 *
 * Place: engine. Nothing here opens files. */
#ifndef ISO_ENGINE_RUN_CARD_H
#define ISO_ENGINE_RUN_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "isochron/data.h"
#include "isochron/format.h"
#include "isochron/job.h"
#include "isochron/nn.h"
#include "isochron/train.h"

/* The sets that decide weights or figures. */
typedef enum iso_card_set { ISO_CARD_TRAINING, ISO_CARD_TEST, ISO_CARD_VALIDATION, ISO_CARD_SETS } iso_card_set;

typedef struct iso_card {
    iso_job *job; /* owned */
    uint32_t classes;
    iso_shape input;
    char **class_names;   /* [classes], owned; NULL: numbers */
    float *scale, *shift; /* [input.c], owned */
    struct {
        bool there;
        uint64_t fingerprint;
    } set[ISO_CARD_SETS];
    char init[ISO_SHA256_TEXT]; /* "": drawn from the seed */
    char mark[ISO_MARK_TEXT]; /* "": none */
    const iso_alloc *alloc;
} iso_card;

/* Copies what it is given; the other sets and init are the caller's to fill in. classes: outputs of the network; the data's
 * names are taken when there are as many. Error: ISO_E_NOMEM. */
int iso_card_make(iso_card *c, const iso_job *job, const iso_dataset *training, uint32_t classes,
                  const iso_channel *channel, const iso_alloc *a, iso_error *e);
void iso_card_free(iso_card *c);

/* The network of the card. Errors as iso_job_model and iso_net_new. */
int iso_card_net(const iso_card *c, iso_isa isa, iso_net **net, iso_error *e);

/* ---- writing ------------------------------------------------------------------------------------------- */

#define ISO_CARD_PAIRS 24u

typedef struct iso_card_text {
    iso_metadata pair[ISO_CARD_PAIRS];
    uint32_t count;
    iso_buffer text; /* what the pairs point into */
} iso_card_text;

/* kind: "model" or "checkpoint". extra_key: NULL, or one more pair. Error: ISO_E_NOMEM. */
int iso_card_write(const iso_card *c, const char *kind, uint64_t round, uint32_t epoch, const char *extra_key,
                   const char *extra, iso_card_text *out, iso_error *e);
/* Adds the last pair, crc32c, for these tensors. */
void iso_card_seal(iso_card_text *t, const iso_tensor_out *tensors, uint32_t count, char text[16]);
void iso_card_text_free(iso_card_text *t);

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Is this a file of ours, of this kind (NULL: any), whole? ISO_E_FORMAT says what is wrong; path is for messages. */
int iso_card_verify(const iso_tensors *t, const char *kind, const char *path, iso_error *e);
/* Errors: ISO_E_FORMAT (names path and key), ISO_E_NOMEM. On an error *c is empty. */
int iso_card_read(iso_card *c, const iso_tensors *t, const char *path, const iso_alloc *a, iso_error *e);
/* SHA-256 of the weights in a file, as iso_weights_sha256 makes it of a network's. Errors: ISO_E_FORMAT (the card says
 * another one), ISO_E_NOMEM. */
int iso_card_sha256(const iso_tensors *t, const char *path, const iso_alloc *a, char out[ISO_SHA256_TEXT],
                    iso_error *e);
/* A whole number of the metadata. */
int iso_card_number(const iso_tensors *t, const char *key, uint64_t max, const char *path, uint64_t *out,
                    iso_error *e);

/* ---- weights ------------------------------------------------------------------------------------------- */

/* SHA-256 over the tensors in the order of their names; published is [iso_net_parameters]. Error: ISO_E_NOMEM. */
int iso_weights_sha256(const iso_net *net, const float *published, const iso_alloc *a, char out[ISO_SHA256_TEXT],
                       iso_error *e);

/* Tensors of one published array, for the writer and for iso_tensors_check: out [iso_net_tensor_count]. prefix goes
 * before each name; names is a block the names are put into, ISO_TENSOR_NAME_MAX bytes each. data may be NULL. */
#define ISO_TENSOR_NAME_MAX (ISO_NAME_MAX + 32u)
void iso_weights_tensors(const iso_net *net, const float *published, const char *prefix,
                         char (*names)[ISO_TENSOR_NAME_MAX], iso_tensor_out *out);

#endif

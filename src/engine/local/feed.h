/* SPDX-License-Identifier: Apache-2.0
 * From positions to loaded samples. A position of a training epoch is a place in the epoch's permutation of the
 * training part; a position of an evaluation is the place itself. Nothing is stored but the data: a worker that is
 * told (epoch, first, count) finds its samples alone.
 *
 * Place: engine. Thread: a feed is immutable and shared; a feeder belongs to one thread. */
#ifndef ISO_ENGINE_LOCAL_FEED_H
#define ISO_ENGINE_LOCAL_FEED_H

#include "base/permutation.h"
#include "isochron/data.h"
#include "isochron/nn.h"

typedef struct iso_feed {
    iso_view view[3];           /* by iso_feed_part; the sets outlive the feed */
    const float *scale, *shift; /* [channels] */
    iso_augment augment;        /* of the training part */
    uint64_t seed;
} iso_feed;

typedef enum iso_feed_part { ISO_FEED_TRAIN, ISO_FEED_VALIDATION, ISO_FEED_TEST } iso_feed_part;

typedef struct iso_feeder {
    const iso_feed *feed;
    iso_permutation order; /* of `epoch`, when have_order */
    uint32_t epoch;
    bool have_order;
    unsigned char *copy; /* [ISO_UNIT_MAX] augmented samples; NULL without augmentation */
    size_t copy_stride;
    int32_t label[ISO_UNIT_MAX];
} iso_feeder;

/* Bytes of `copy` that a feeder needs; 0 without augmentation. */
size_t iso_feeder_bytes(const iso_feed *f);
/* memory: iso_feeder_bytes of them, aligned to ISO_ALIGN. */
void iso_feeder_init(iso_feeder *r, const iso_feed *f, void *memory);

/* Loads positions [first, first + n), n <= ISO_UNIT_MAX, into the pass; their labels are in r->label. */
void iso_feeder_load(iso_feeder *r, iso_feed_part part, uint32_t epoch, uint64_t first, uint32_t n, iso_pass *pass);

/* The same for training positions of a step of few samples, n <= ISO_NARROW_MAX. They are borrowed until the next load. */
void iso_feeder_load_narrow(iso_feeder *r, uint32_t epoch, uint64_t first, uint32_t n, iso_narrow *narrow);

#endif

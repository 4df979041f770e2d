/* SPDX-License-Identifier: Apache-2.0
 * How much memory a local run takes, said before it is taken: for `check`, and to refuse what the machine cannot hold
 * (the kernel would grant it, and kill the process, or another one, when the pages are used). */
#ifndef ISO_ENGINE_LOCAL_NEED_H
#define ISO_ENGINE_LOCAL_NEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/core.h"
#include "isochron/nn.h"

/* What decides it. */
typedef struct iso_need_of {
    const iso_net *net;
    const iso_optimizer *optimizer;
    uint64_t batch; /* samples of a full round */
    uint32_t unit, workers;
    bool best; /* a validation set: the best weights are kept */
    const iso_plan *plan;      /* NULL: exact sums */
    uint64_t samples;          /* of an epoch */
} iso_need_of;

/* Bytes, about. As doubles: no network is too large to be told its need. */
typedef struct iso_need {
    double parameters; /* the weights, and copies of them for checkpoints and for the best */
    double optimizer;  /* its arrays, and their copies for checkpoints */
    double workers;    /* sums and working memory of all workers */
} iso_need;

iso_need iso_local_need(const iso_need_of *of);

/* Keeping a batch's dense layers until the update saves writing their gradient; it costs a block a unit, in every
 * worker. True when `units` units of a round are kept; *bytes is the size of a block. */
bool iso_local_keeps(const iso_net *net, uint32_t unit, uint64_t units, size_t *bytes);

#endif

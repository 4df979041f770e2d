/* SPDX-License-Identifier: Apache-2.0
 * A built network. Immutable after iso_net_new. */
#ifndef ISO_NN_NET_H
#define ISO_NN_NET_H

#include "nn/layer.h"

struct iso_net {
    iso_alloc alloc;
    iso_shape input;
    uint32_t classes;
    iso_isa isa;
    const iso_kernels *kernels;
    iso_loss loss;
    size_t parameters, values;
    uint32_t layer_count, tensor_count;
    iso_layer *layer;             /* [layer_count] */
    iso_tensor *tensor;           /* [tensor_count] */
};

/* Offset of layer `index`'s x and dy rows in a kept block, in floats; false when it keeps nothing. */
bool iso_kept_place(const iso_net *net, uint32_t index, uint32_t unit, size_t *x, size_t *dy);

/* The bound on a value of one unit's gradient when so many units are merged: 2^62 on the grid, shared by them. */
float iso_gradient_limit(uint64_t units);

/* The optimiser's step as the kernels take it: `step` as in iso_update, bias: of a bias. */
iso_step iso_step_of(const iso_optimizer *o, double rate, uint64_t step, uint64_t samples, bool bias);

/* The layer that computes layer `index`'s output, itself or the one that absorbed it. */
static inline bool iso_layer_works(const iso_layer *l)
{
    return !l->absorbed && !l->kind->view;
}

#endif

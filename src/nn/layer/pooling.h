/* SPDX-License-Identifier: Apache-2.0
 * What the pooling layers share: options size and stride, output size by floor (pixels that no window reaches are unused). */
#ifndef ISO_NN_LAYER_POOLING_H
#define ISO_NN_LAYER_POOLING_H

#include "nn/layer.h"

enum { ISO_POOL_SIZE, ISO_POOL_STRIDE };
extern const iso_option iso_pooling_options[2];

/* Sets l->pool, out, flops and unused pixels. Errors: ISO_E_SHAPE. */
int iso_pooling_setup(iso_layer *l, iso_error *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Largest value of each window; of equal ones the first, row by row. */
#include "nn/layer/pooling.h"

static size_t saved_bytes(const iso_layer *l, uint32_t groups)
{
    return groups * iso_shape_values(l->out) * ISO_LANES * sizeof(uint16_t);
}

static void forward(const iso_layer *l, const iso_work *k, bool training)
{
    (void)training;
    k->kernels->max_pool_forward(&l->pool, k->groups, k->y, k->saved, k->x);
}

static void backward(const iso_layer *l, const iso_work *k)
{
    if (k->dx)
        k->kernels->max_pool_backward(&l->pool, k->groups, k->dx, k->dy, k->saved);
}

extern const iso_layer_kind iso_layer_max_pool;
const iso_layer_kind iso_layer_max_pool = {
    .name = "max_pool",
    .help = "largest value of each window",
    .options = iso_pooling_options,
    .option_count = 2,
    .wants = ISO_LAYOUT_LANES,
    .gives = ISO_LAYOUT_LANES,
    .setup = iso_pooling_setup,
    .saved_bytes = saved_bytes,
    .forward = forward,
    .backward = backward,
};

/* SPDX-License-Identifier: Apache-2.0
 * Mean of each window. */
#include "nn/layer/pooling.h"

static float factor(const iso_layer *l)
{
    return 1.0f / (float)(l->pool.window_rows * l->pool.window_columns);
}

static void forward(const iso_layer *l, const iso_work *k, bool training)
{
    (void)training;
    k->kernels->average_pool_forward(&l->pool, k->groups, k->y, k->x, factor(l));
}

static void backward(const iso_layer *l, const iso_work *k)
{
    if (k->dx)
        k->kernels->average_pool_backward(&l->pool, k->groups, k->dx, k->dy, factor(l));
}

extern const iso_layer_kind iso_layer_avg_pool;
const iso_layer_kind iso_layer_avg_pool = {
    .name = "avg_pool",
    .help = "mean of each window",
    .options = iso_pooling_options,
    .option_count = 2,
    .wants = ISO_LAYOUT_LANES,
    .gives = ISO_LAYOUT_LANES,
    .setup = iso_pooling_setup,
    .forward = forward,
    .backward = backward,
};

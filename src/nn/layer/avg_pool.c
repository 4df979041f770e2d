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

static void narrow_forward(const iso_layer *l, const iso_narrow_work *k)
{
    size_t in = iso_narrow_row(iso_shape_values(l->in)), out = iso_narrow_row(iso_shape_values(l->out));
    for (uint32_t i = 0; i < k->n; i++)
        k->kernels->narrow->average_pool_forward(&l->pool, k->y + i * out, k->x + i * in, factor(l));
}

static bool narrow_backward(const iso_layer *l, const iso_narrow_work *k)
{
    size_t in = iso_narrow_row(iso_shape_values(l->in)), out = iso_narrow_row(iso_shape_values(l->out));
    for (uint32_t i = 0; k->dx && i < k->n; i++)
        k->kernels->narrow->average_pool_backward(&l->pool, k->dx + i * in, k->dy + i * out, factor(l));
    return true;
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
    .narrow_forward = narrow_forward,
    .narrow_backward = narrow_backward,
};

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

static size_t narrow_saved(const iso_layer *l, uint32_t n)
{
    return n * iso_narrow_pool_arg(&l->pool) * sizeof(uint16_t);
}

static void narrow_forward(const iso_layer *l, const iso_narrow_work *k)
{
    size_t in = iso_narrow_row(iso_shape_values(l->in)), out = iso_narrow_row(iso_shape_values(l->out));
    for (uint32_t i = 0; i < k->n; i++)
        k->kernels->narrow->max_pool_forward(&l->pool, k->y + i * out, (uint16_t *)k->saved + i * iso_narrow_pool_arg(&l->pool),
                                             k->x + i * in);
}

static bool narrow_backward(const iso_layer *l, const iso_narrow_work *k)
{
    size_t in = iso_narrow_row(iso_shape_values(l->in)), out = iso_narrow_row(iso_shape_values(l->out));
    for (uint32_t i = 0; k->dx && i < k->n; i++)
        k->kernels->narrow->max_pool_backward(&l->pool, k->dx + i * in, k->dy + i * out,
                                              (const uint16_t *)k->saved + i * iso_narrow_pool_arg(&l->pool));
    return true;
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
    .narrow_saved = narrow_saved,
    .narrow_forward = narrow_forward,
    .narrow_backward = narrow_backward,
};

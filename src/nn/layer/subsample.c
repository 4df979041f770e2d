/* SPDX-License-Identifier: Apache-2.0
 * Trainable subsampling of LeNet-5 (LeCun et al. 1998, section II.B, layer S2): the sum of each window, times a coefficient of
 * the channel, plus a bias of the channel. The squashing function is a layer of its own behind it. */
#include "nn/layer/pooling.h"

static int setup(iso_layer *l, iso_error *e)
{
    int code = iso_pooling_setup(l, e);
    if (code)
        return code;
    iso_part_set(&l->part[ISO_WEIGHT], 1, &l->in.c, 1, 1);
    iso_part_set(&l->part[ISO_BIAS], 1, &l->in.c, 1, 1);
    l->flops += 2.0 * (double)iso_shape_values(l->out);
    return ISO_OK;
}

/* The window sums. */
static size_t saved_bytes(const iso_layer *l, uint32_t groups)
{
    return groups * iso_shape_values(l->out) * ISO_LANES * sizeof(float);
}

static void forward(const iso_layer *l, const iso_work *k, bool training)
{
    (void)training;
    k->kernels->average_pool_forward(&l->pool, k->groups, k->saved, k->x, 1.0f);
    k->kernels->scale_forward(k->y, k->saved, k->w + l->part[ISO_WEIGHT].offset, k->w + l->part[ISO_BIAS].offset, k->groups,
                              l->out.c, l->out.h * l->out.w);
}

static void backward(const iso_layer *l, const iso_work *k)
{
    k->kernels->scale_backward(k->dy, k->gradient + l->part[ISO_WEIGHT].offset, k->gradient + l->part[ISO_BIAS].offset, k->dy,
                               k->saved, k->w + l->part[ISO_WEIGHT].offset, k->groups, l->out.c, l->out.h * l->out.w);
    if (k->dx)
        k->kernels->average_pool_backward(&l->pool, k->groups, k->dx, k->dy, 1.0f);
}

static size_t narrow_saved(const iso_layer *l, uint32_t n)
{
    return n * iso_narrow_row(iso_shape_values(l->out)) * sizeof(float);
}

/* Gradients of the coefficients, then of the biases. */
static size_t narrow_scratch(const iso_layer *l, uint32_t n)
{
    return 2 * n * iso_round16(l->out.c) * sizeof(float);
}

static void narrow_forward(const iso_layer *l, const iso_narrow_work *k)
{
    size_t in = iso_narrow_row(iso_shape_values(l->in)), out = iso_narrow_row(iso_shape_values(l->out));
    float *sums = k->saved;
    for (uint32_t i = 0; i < k->n; i++)
        k->kernels->narrow->average_pool_forward(&l->pool, sums + i * out, k->x + i * in, 1.0f);
    k->kernels->narrow->scale_forward(k->y, sums, k->w + l->part[ISO_WEIGHT].offset, k->w + l->part[ISO_BIAS].offset, k->n, l->out.c,
                                      l->out.h * l->out.w);
}

static bool narrow_backward(const iso_layer *l, const iso_narrow_work *k)
{
    const iso_narrow_kernels *narrow = k->kernels->narrow;
    size_t in = iso_narrow_row(iso_shape_values(l->in)), out = iso_narrow_row(iso_shape_values(l->out));
    size_t channels = iso_round16(l->out.c);
    float *da = k->scratch, *db = da + k->n * channels;
    narrow->scale_backward(k->dy, da, db, k->dy, k->saved, k->w + l->part[ISO_WEIGHT].offset, k->n, l->out.c, l->out.h * l->out.w);
    for (uint32_t i = 0; k->dx && i < k->n; i++)
        narrow->average_pool_backward(&l->pool, k->dx + i * in, k->dy + i * out, 1.0f);
    narrow->tree(da, k->n, channels, channels);
    narrow->tree(db, k->n, channels, channels);
    bool good = iso_narrow_part(l, k, ISO_WEIGHT, da);
    return iso_narrow_part(l, k, ISO_BIAS, db) && good;
}

/* The coefficients begin as a mean: nothing is drawn. */
static float start(const iso_layer *l)
{
    return 1.0f / (float)(l->pool.window_rows * l->pool.window_columns);
}

extern const iso_layer_kind iso_layer_subsample;
const iso_layer_kind iso_layer_subsample = {
    .name = "subsample",
    .help = "trainable subsampling of 1998: coefficient and bias a channel",
    .options = iso_pooling_options,
    .option_count = 2,
    .wants = ISO_LAYOUT_LANES,
    .gives = ISO_LAYOUT_LANES,
    .setup = setup,
    .saved_bytes = saved_bytes,
    .forward = forward,
    .backward = backward,
    .narrow_saved = narrow_saved,
    .narrow_scratch = narrow_scratch,
    .narrow_forward = narrow_forward,
    .narrow_backward = narrow_backward,
    .start = start,
};

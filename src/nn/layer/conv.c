/* SPDX-License-Identifier: Apache-2.0
 * Convolution (cross-correlation, as every framework means it), alone, with the activation behind it, or with ReLU and 2x2 max
 * pooling in one. `connections: lenet5` is the partial third layer of LeCun et al. 1998, table I: the internal weights are whole,
 * with zeros that stay zero where there is no connection; the published ones are the connected ones alone, [60][R][S]. */
#include <math.h>
#include <string.h>

#include "nn/layer/elementwise.h"

enum { FILTERS, KERNEL, STRIDE, PADDING, CONNECTIONS };
static const char *const connection_words[] = {"all", "lenet5", NULL};
static const iso_option options[] = {
    {"filters", ISO_OPTION_INT, NAN, 1, 65536, NULL, "output channels"},
    {"kernel", ISO_OPTION_INT, NAN, 1, 1024, NULL, "rows and columns of a filter"},
    {"stride", ISO_OPTION_INT, 1, 1, 1024, NULL, "step between outputs"},
    {"padding", ISO_OPTION_INT, 0, 0, 1024, NULL, "zeros around the input"},
    {"connections", ISO_OPTION_CHOICE, 0, 0, 1, connection_words, "all, or lenet5: the partial third layer of 1998"},
};

enum { PARTIAL_FILTERS = 16, PARTIAL_CHANNELS = 6 };
/* Bit c of row k: filter k sees channel c. */
static const uint8_t partial[PARTIAL_FILTERS] = {
    0x07, 0x0e, 0x1c, 0x38, 0x31, 0x23, 0x0f, 0x1e, 0x3c, 0x39, 0x33, 0x27, 0x1b, 0x36, 0x2d, 0x3f,
};

static bool is_partial(const iso_layer *l)
{
    return l->value[CONNECTIONS] != 0;
}

static bool connected(const iso_layer *l, uint32_t filter, uint32_t channel)
{
    return !is_partial(l) || (partial[filter] >> channel & 1);
}

static int set_parts(iso_layer *l, iso_error *e)
{
    const iso_conv *c = &l->conv;
    uint32_t kernel = c->kernel_rows, pairs = 0;
    if (is_partial(l) && (c->filters != PARTIAL_FILTERS || c->channels != PARTIAL_CHANNELS))
        return iso_error_set(e, ISO_E_SHAPE, "%s: connections lenet5 joins %d channels with %d filters, here are %u and %u", l->name,
                             PARTIAL_CHANNELS, PARTIAL_FILTERS, c->channels, c->filters);
    size_t area = (size_t)kernel * kernel, whole = (size_t)c->filters * c->channels;
    if (whole > UINT32_MAX || whole * area > UINT32_MAX)
        return iso_error_set(e, ISO_E_SHAPE, "%s: %u filters of %ux%ux%u are too many weights", l->name, c->filters, c->channels,
                             kernel, kernel);
    if (is_partial(l)) {
        for (uint32_t k = 0; k < c->filters; k++)
            for (uint32_t ch = 0; ch < c->channels; ch++)
                pairs += connected(l, k, ch);
        iso_part_set(&l->part[ISO_WEIGHT], 3, (uint32_t[]){pairs, kernel, kernel}, pairs * area / c->filters,
                     pairs * area / c->channels);
    } else {
        iso_part_set(&l->part[ISO_WEIGHT], 4, (uint32_t[]){c->filters, c->channels, kernel, kernel}, c->channels * area,
                     c->filters * area);
    }
    l->part[ISO_WEIGHT].values = iso_round16(whole * area);
    iso_part_set(&l->part[ISO_BIAS], 1, &c->filters, 1, 1);
    l->flops = 2.0 * (double)l->part[ISO_WEIGHT].count * c->out_rows * c->out_columns;
    return ISO_OK;
}

static int setup(iso_layer *l, iso_error *e)
{
    uint32_t kernel = (uint32_t)l->value[KERNEL], stride = (uint32_t)l->value[STRIDE], padding = (uint32_t)l->value[PADDING];
    uint32_t rows, columns;
    int code = iso_window_axis(l, "kernel", kernel, stride, padding, l->in.h, &rows, &l->unused_rows, e);
    if (!code)
        code = iso_window_axis(l, "kernel", kernel, stride, padding, l->in.w, &columns, &l->unused_columns, e);
    if (code)
        return code;
    l->conv = (iso_conv){.channels = l->in.c, .rows = l->in.h, .columns = l->in.w, .filters = (uint32_t)l->value[FILTERS],
                         .kernel_rows = kernel, .kernel_columns = kernel, .stride = stride, .pad_rows = padding,
                         .pad_columns = padding};
    iso_conv_finish(&l->conv, false);
    l->out = (iso_shape){l->conv.filters, l->conv.out_rows, l->conv.out_columns};
    return set_parts(l, e);
}

static uint32_t absorb(iso_layer *l, const iso_layer *next, uint32_t count)
{
    uint32_t taken = iso_absorb_activation(l, next, count);
    if (taken && count > 1 && l->act == ISO_ACT_RELU && iso_layer_is_max_pool_2(next + 1)) {
        l->pooled = true;
        iso_conv_finish(&l->conv, true);
        taken++;
    }
    return taken;
}

/* Which pixel of each 2x2 window was the largest. */
static size_t saved_bytes(const iso_layer *l, uint32_t groups)
{
    return l->pooled ? groups * l->conv.y_group : 0;
}

static size_t scratch_bytes(const iso_layer *l, uint32_t groups)
{
    (void)groups;
    return iso_conv_scratch(&l->conv);
}

static void forward(const iso_layer *l, const iso_work *k, bool training)
{
    (void)training;
    const float *w = k->w + l->part[ISO_WEIGHT].offset, *bias = k->w + l->part[ISO_BIAS].offset;
    if (l->pooled) {
        k->kernels->conv_pool_forward(&l->conv, k->groups, k->y, k->saved, k->x, w, bias);
        return;
    }
    bool relu = l->act == ISO_ACT_RELU;
    k->kernels->conv_forward(&l->conv, k->groups, k->y, k->x, w, bias, relu ? ISO_ACT_RELU : ISO_ACT_NONE);
    if (l->act != ISO_ACT_NONE && !relu)
        k->kernels->act_forward(l->act, l->slope, k->y, k->y, k->groups * l->conv.y_group);
}

/* Weights that are not there have no gradient. */
static void cut(const iso_layer *l, float *dw)
{
    const iso_conv *c = &l->conv;
    size_t area = (size_t)c->kernel_rows * c->kernel_columns;
    for (uint32_t k = 0; is_partial(l) && k < c->filters; k++)
        for (uint32_t ch = 0; ch < c->channels; ch++)
            if (!connected(l, k, ch))
                memset(dw + ((size_t)k * c->channels + ch) * area, 0, area * sizeof(float));
}

static void backward(const iso_layer *l, const iso_work *k)
{
    const iso_conv *c = &l->conv;
    const float *w = k->w + l->part[ISO_WEIGHT].offset;
    float *dw = k->gradient + l->part[ISO_WEIGHT].offset, *db = k->gradient + l->part[ISO_BIAS].offset;
    if (l->pooled) {
        k->kernels->conv_pool_backward(c, k->groups, k->dx, dw, db, k->x, k->dy, k->saved, w, k->scratch);
    } else {
        k->kernels->act_backward(l->act, l->slope, k->dy, k->dy, k->y, k->groups * c->y_group);
        k->kernels->conv_weights(c, k->groups, dw, db, k->x, k->dy);
        if (k->dx)
            k->kernels->conv_data(c, k->groups, k->dx, k->dy, w, k->scratch);
    }
    cut(l, dw);
}

/* As saved_bytes. */
static size_t narrow_saved(const iso_layer *l, uint32_t n)
{
    return l->pooled ? n * iso_narrow_conv_arg(&l->conv) : 0;
}

/* The gradient of weights and biases, then the kernels' own. */
static size_t narrow_scratch(const iso_layer *l, uint32_t n)
{
    return (l->part[ISO_WEIGHT].values + l->part[ISO_BIAS].values) * sizeof(float) + iso_narrow_conv_scratch(&l->conv, n);
}

static void narrow_forward(const iso_layer *l, const iso_narrow_work *k)
{
    const float *w = k->w + l->part[ISO_WEIGHT].offset, *bias = k->w + l->part[ISO_BIAS].offset;
    bool relu = l->act == ISO_ACT_RELU;
    k->kernels->narrow->conv_forward(&l->conv, k->n, k->y, l->pooled ? k->saved : NULL, k->x, w, bias, relu, k->scratch);
    if (l->act != ISO_ACT_NONE && !relu)
        k->kernels->act_forward(l->act, l->slope, k->y, k->y, k->n * iso_narrow_row(iso_shape_values(l->out)));
}

/* What lies between a part's values and its room moves nothing: its gradient is 0. */
static bool narrow_backward(const iso_layer *l, const iso_narrow_work *k)
{
    const iso_conv *c = &l->conv;
    const float *w = k->w + l->part[ISO_WEIGHT].offset;
    size_t values = l->part[ISO_WEIGHT].values, weights = (size_t)c->filters * c->channels * c->kernel_rows * c->kernel_columns;
    float *dw = k->scratch, *db = dw + values, *rest = db + l->part[ISO_BIAS].values;
    memset(dw + weights, 0, (values - weights) * sizeof *dw);
    memset(db, 0, l->part[ISO_BIAS].values * sizeof *db);
    if (l->pooled) {
        k->kernels->narrow->conv_pool_backward(c, k->n, k->dx, dw, db, k->x, k->dy, k->saved, w, rest);
    } else {
        k->kernels->act_backward(l->act, l->slope, k->dy, k->dy, k->y, k->n * iso_narrow_row(iso_shape_values(l->out)));
        k->kernels->narrow->conv_backward(c, k->n, k->dx, dw, db, k->x, k->dy, w, rest);
    }
    cut(l, dw);
    bool good = iso_narrow_part(l, k, ISO_WEIGHT, dw);
    return iso_narrow_part(l, k, ISO_BIAS, db) && good;
}

/* Partial: the connected planes follow each other, filter by filter, channel by channel. */
static size_t place(const iso_layer *l, int part, size_t i)
{
    const iso_conv *c = &l->conv;
    size_t area = (size_t)c->kernel_rows * c->kernel_columns, wanted = i / area, plane = 0;
    if (part == ISO_BIAS || !is_partial(l))
        return i;
    for (size_t seen = 0;; plane++)
        if (connected(l, (uint32_t)(plane / c->channels), (uint32_t)(plane % c->channels)) && seen++ == wanted)
            return plane * area + i % area;
}

extern const iso_layer_kind iso_layer_conv;
const iso_layer_kind iso_layer_conv = {
    .name = "conv",
    .help = "convolution",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .wants = ISO_LAYOUT_LANES,
    .gives = ISO_LAYOUT_LANES,
    .setup = setup,
    .absorb = absorb,
    .saved_bytes = saved_bytes,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .backward = backward,
    .narrow_saved = narrow_saved,
    .narrow_scratch = narrow_scratch,
    .narrow_forward = narrow_forward,
    .narrow_backward = narrow_backward,
    .place = place,
};

/* SPDX-License-Identifier: Apache-2.0
 * Fully connected: y = W x + b. Weights stand in panels of 16 outputs, [out/16][in][16]; the weight gradient is not taken in the
 * backward pass but from the kept rows of x and dy, when the sum is made or in the optimiser's step itself. */
#include <math.h>
#include <string.h>

#include "nn/layer/elementwise.h"

enum { UNITS };
static const iso_option options[] = {
    {"units", ISO_OPTION_INT, NAN, 1, 1 << 20, NULL, "outputs"},
};

static int setup(iso_layer *l, iso_error *e)
{
    if (l->in.h != 1 || l->in.w != 1)
        return iso_error_set(e, ISO_E_SHAPE, "%s: its input is an image of %ux%ux%u; put flatten before it", l->name, l->in.c,
                             l->in.h, l->in.w);
    uint32_t in = l->in.c, out = (uint32_t)l->value[UNITS];
    if ((uint64_t)in * iso_round16(out) > UINT32_MAX)
        return iso_error_set(e, ISO_E_SHAPE, "%s: %u inputs by %u outputs are too many weights", l->name, in, out);
    l->out = (iso_shape){out, 1, 1};
    iso_part_set(&l->part[ISO_WEIGHT], 2, (uint32_t[]){out, in}, in, out);
    iso_part_set(&l->part[ISO_BIAS], 1, (uint32_t[]){out}, in, out);
    l->part[ISO_WEIGHT].values = iso_round16(out) * in;
    l->dense = (iso_dense){in, out, iso_round16(in), iso_round16(out)};
    l->flops = 2.0 * in * out;
    return ISO_OK;
}

/* The output gradient in lanes of whole panels. */
static size_t scratch_bytes(const iso_layer *l, uint32_t groups)
{
    return (size_t)groups * l->dense.ldy * ISO_LANES * sizeof(float);
}

static void forward(const iso_layer *l, const iso_work *k, bool training)
{
    (void)training;
    const iso_dense *d = &l->dense;
    const float *w = k->w + l->part[ISO_WEIGHT].offset, *bias = k->w + l->part[ISO_BIAS].offset;
    bool relu = l->act == ISO_ACT_RELU;
    uint32_t rows = k->groups * ISO_LANES;
    k->kernels->dense_forward(d, rows, k->y, k->x, w, bias, relu ? ISO_ACT_RELU : ISO_ACT_NONE);
    if (l->act == ISO_ACT_NONE || relu)
        return;
    k->kernels->act_forward(l->act, l->slope, k->y, k->y, rows * d->ldy);
    for (uint32_t row = 0; d->ldy > d->out && row < rows; row++)  /* the padding of a row stays 0 whatever f(0) is */
        memset(k->y + row * d->ldy + d->out, 0, (d->ldy - d->out) * sizeof(float));
}

static void backward(const iso_layer *l, const iso_work *k)
{
    const iso_dense *d = &l->dense;
    float *lanes = k->scratch;
    for (uint32_t g = 0; g < k->groups; g++)
        k->kernels->lanes_to_rows(k->kept_dy + g * ISO_LANES * d->ldy, d->ldy, k->dy + (size_t)g * d->out * ISO_LANES, d->out);
    k->kernels->act_backward(l->act, l->slope, k->kept_dy, k->kept_dy, k->y, k->groups * ISO_LANES * d->ldy);
    if (!k->dx)
        return;
    for (uint32_t g = 0; g < k->groups; g++)
        k->kernels->rows_to_lanes(lanes + g * d->ldy * ISO_LANES, k->kept_dy + g * ISO_LANES * d->ldy, d->ldy, d->out);
    k->kernels->dense_data(d, k->groups, k->dx, lanes, k->w + l->part[ISO_WEIGHT].offset);
}

/* The bias gradient. */
static size_t narrow_scratch(const iso_layer *l, uint32_t n)
{
    (void)n;
    return l->part[ISO_BIAS].values * sizeof(float);
}

/* The padding of a row is 0, whatever the activation makes of it. */
static void clear_padding(const iso_dense *d, uint32_t n, float *rows)
{
    for (uint32_t i = 0; d->ldy > d->out && i < n; i++)
        memset(rows + i * iso_narrow_row(d->out) + d->out, 0, (d->ldy - d->out) * sizeof *rows);
}

static void narrow_forward(const iso_layer *l, const iso_narrow_work *k)
{
    const iso_dense *d = &l->dense;
    bool relu = l->act == ISO_ACT_RELU;
    k->kernels->narrow->dense_forward(d, k->n, k->y, k->x, k->w + l->part[ISO_WEIGHT].offset, k->w + l->part[ISO_BIAS].offset,
                                      relu ? ISO_ACT_RELU : ISO_ACT_NONE);
    if (l->act != ISO_ACT_NONE && !relu)
        k->kernels->act_forward(l->act, l->slope, k->y, k->y, k->n * iso_narrow_row(d->out));
}

static bool narrow_backward(const iso_layer *l, const iso_narrow_work *k)
{
    const iso_dense *d = &l->dense;
    size_t offset = l->part[ISO_WEIGHT].offset, row = iso_narrow_row(d->out);
    float *db = k->scratch, *state[2] = {NULL, NULL};
    k->kernels->act_backward(l->act, l->slope, k->dy, k->dy, k->y, k->n * row);
    clear_padding(d, k->n, k->dy);
    for (size_t o = 0; o < l->part[ISO_BIAS].values; o++) {
        db[o] = k->dy[o];
        for (uint32_t i = 1; i < k->n; i++)
            db[o] += k->dy[i * row + o];
    }
    for (uint32_t i = 0; i < k->states; i++)
        state[i] = k->state[i] + offset;
    bool good = k->kernels->narrow->dense_backward(d, &k->step[ISO_WEIGHT], k->n, k->dx, k->x, k->dy, k->w + offset, state);
    return iso_narrow_part(l, k, ISO_BIAS, db) && good;
}

static bool gradient(const iso_layer *l, const iso_kernels *k, uint32_t n, const iso_dense_unit *unit, int64_t *sum, float limit)
{
    return k->dense_gradient(&l->dense, n, unit, sum + l->part[ISO_WEIGHT].offset, sum + l->part[ISO_BIAS].offset, limit);
}

static bool update(const iso_layer *l, const iso_kernels *k, int part, const iso_step *s, size_t begin, size_t end, uint32_t n,
                   const iso_dense_unit *unit, uint32_t units, float *w, float *const *state, float limit)
{
    return (part == ISO_WEIGHT ? k->dense_update : k->dense_update_bias)(&l->dense, s, begin, end, n, unit, units, w, state, NULL,
                                                                         0, limit);
}

static size_t place(const iso_layer *l, int part, size_t i)
{
    size_t in = l->dense.in, o = i / in;
    return part == ISO_BIAS ? i : (o / 16 * in + i % in) * 16 + o % 16;
}

extern const iso_layer_kind iso_layer_dense;
const iso_layer_kind iso_layer_dense = {
    .name = "dense",
    .help = "every output from every input",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .wants = ISO_LAYOUT_ROWS,
    .gives = ISO_LAYOUT_ROWS,
    .keeps = true,
    .setup = setup,
    .absorb = iso_absorb_activation,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .backward = backward,
    .narrow_scratch = narrow_scratch,
    .narrow_forward = narrow_forward,
    .narrow_backward = narrow_backward,
    .place = place,
    .gradient = gradient,
    .update = update,
};

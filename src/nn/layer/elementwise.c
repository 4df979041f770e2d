/* SPDX-License-Identifier: Apache-2.0
 * Elementwise layers that stand alone; most are absorbed by the layer before them. */
#include "nn/layer/elementwise.h"

int iso_elementwise_setup(iso_layer *l, iso_error *e)
{
    (void)e;
    l->out = l->in;
    l->act = l->kind->act;
    l->slope = l->act == ISO_ACT_LEAKY_RELU ? (float)l->value[0] : 0.0f;
    l->flops = (double)iso_shape_values(l->in);
    return ISO_OK;
}

static size_t values(const iso_layer *l, uint32_t groups)
{
    return (size_t)groups * iso_shape_values(l->out) * ISO_LANES;
}

void iso_elementwise_forward(const iso_layer *l, const iso_work *k, bool training)
{
    (void)training;
    k->kernels->act_forward(l->act, l->slope, k->y, k->x, values(l, k->groups));
}

void iso_elementwise_backward(const iso_layer *l, const iso_work *k)
{
    if (k->dx)
        k->kernels->act_backward(l->act, l->slope, k->dx, k->dy, k->y, values(l, k->groups));
}

static size_t narrow_values(const iso_layer *l, const iso_narrow_work *k)
{
    return k->n * iso_narrow_row(iso_shape_values(l->out));
}

void iso_elementwise_narrow_forward(const iso_layer *l, const iso_narrow_work *k)
{
    k->kernels->act_forward(l->act, l->slope, k->y, k->x, narrow_values(l, k));
}

bool iso_elementwise_narrow_backward(const iso_layer *l, const iso_narrow_work *k)
{
    if (k->dx)
        k->kernels->act_backward(l->act, l->slope, k->dx, k->dy, k->y, narrow_values(l, k));
    return true;
}

uint32_t iso_absorb_activation(iso_layer *l, const iso_layer *next, uint32_t count)
{
    if (!count || next->kind->act == ISO_ACT_NONE)
        return 0;
    l->act = next->act;
    l->slope = next->slope;
    return 1;
}

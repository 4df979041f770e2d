/* SPDX-License-Identifier: Apache-2.0
 * The optimiser's step on a slice of the internal values, layer by layer. */
#include "nn/net.h"
#include "nn/power.h"

enum { STATES_MAX = 2, SUMS_MAX = 64 };

iso_step iso_step_of(const iso_optimizer *o, double rate, uint64_t step, uint64_t samples, bool bias)
{
    iso_step s = {.kind = o->kind, .scale = 0x1p-40 / (double)samples, .rate = (float)rate};
    s.momentum = (float)o->momentum;
    s.decay = bias && !o->decay_bias ? 0.0f : (float)o->weight_decay;
    if (o->kind == ISO_ADAM) {
        s.rate = (float)(rate / (1 - iso_power(o->beta1, step)));
        s.beta1 = (float)o->beta1;
        s.one_minus_beta1 = (float)(1 - o->beta1);
        s.beta2 = (float)o->beta2;
        s.one_minus_beta2 = (float)(1 - o->beta2);
        s.inv_correction2 = (float)(1 / (1 - iso_power(o->beta2, step)));
        s.epsilon = (float)o->epsilon;
    }
    return s;
}

/* More sums than the kernel's list takes: the rest is added to the first. */
static uint32_t gather_sums(const iso_update *u, size_t begin, size_t end, int64_t **sum)
{
    for (uint32_t i = SUMS_MAX; i < u->sum_count; i++)
        for (size_t v = begin; v < end; v++) {
            u->sum[0][v] += u->sum[i][v];
            u->sum[i][v] = 0;
        }
    uint32_t count = u->sum_count < SUMS_MAX ? u->sum_count : SUMS_MAX;
    for (uint32_t i = 0; i < count; i++)
        sum[i] = u->sum[i] + begin;
    return count;
}

/* One part of one layer, internal values [begin, end) of the network. */
static bool update_part(const iso_net *net, const iso_update *u, const iso_layer *l, int part, size_t begin, size_t end)
{
    float *state[STATES_MAX] = {NULL, NULL};
    int64_t *sum[SUMS_MAX];
    iso_step s = iso_step_of(u->optimizer, u->rate, u->step, u->samples, part == ISO_BIAS);
    size_t offset = l->part[part].offset;
    bool from_kept = u->kept_count && l->kind->keeps;
    for (uint32_t i = 0; i < iso_optimizer_states(u->optimizer); i++)
        state[i] = u->state[i] + (from_kept ? offset : begin);
    if (!from_kept) {
        uint32_t count = gather_sums(u, begin, end, sum);
        return net->kernels->update(&s, end - begin, u->w + begin, state, sum, count);
    }
    iso_dense_unit unit[ISO_KEPT_MAX];
    size_t x, dy;
    iso_kept_place(net, l->index, u->unit, &x, &dy);
    for (uint32_t i = 0; i < u->kept_count; i++)
        unit[i] = (iso_dense_unit){(const float *)u->kept[i] + x, (const float *)u->kept[i] + dy};
    return l->kind->update(l, net->kernels, part, &s, begin - offset, end - offset, u->unit, unit, u->kept_count, u->w + offset,
                           state, iso_gradient_limit(u->units));
}

void iso_net_update(const iso_net *net, const iso_update *u, size_t begin, size_t end, int32_t *bad_layer)
{
    *bad_layer = -1;
    for (uint32_t i = 0; i < net->layer_count; i++)
        for (int part = 0; part < ISO_PARTS; part++) {
            const iso_layer *l = &net->layer[i];
            const iso_part *p = &l->part[part];
            size_t from = begin > p->offset ? begin : p->offset;
            size_t to = end < p->offset + p->values ? end : p->offset + p->values;
            if (from < to && !update_part(net, u, l, part, from, to) && *bad_layer < 0)
                *bad_layer = (int32_t)i;
        }
}

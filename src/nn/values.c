/* SPDX-License-Identifier: Apache-2.0
 * The weights as values: the first ones, and from one layout to the other. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/codec.h"

/* From published value v of a part on: where it lies, how far apart the values behind it are, and for how many that holds. Values
 * of one row of a tensor lie at equal distances. */
static size_t run_of(const iso_layer *l, int part, size_t v, size_t *at, size_t *step)
{
    const iso_part *p = &l->part[part];
    *at = p->offset + v;
    *step = 1;
    if (!l->kind->place)
        return p->count - v;
    size_t row = p->dim[p->rank - 1], left = row - v % row;
    *at = p->offset + l->kind->place(l, part, v);
    if (left > 1)
        *step = p->offset + l->kind->place(l, part, v + 1) - *at;
    return left;
}

/* Published values [begin, end) of layer l's part that lie in it: from `out` to w, or from w to `out`. */
static void move_part(const iso_layer *l, int part, size_t begin, size_t end, float *w, float *out, bool publish)
{
    const iso_part *p = &l->part[part];
    size_t from = begin > p->published ? begin : p->published;
    size_t to = end < p->published + p->count ? end : p->published + p->count;
    while (from < to) {
        size_t at, step, n = run_of(l, part, from - p->published, &at, &step);
        float *inside = w + at, *outside = out + (from - begin);
        n = n < to - from ? n : to - from;
        if (step == 1)
            memcpy(publish ? outside : inside, publish ? inside : outside, n * sizeof *w);
        else if (publish)
            for (size_t i = 0; i < n; i++)
                outside[i] = inside[i * step];
        else
            for (size_t i = 0; i < n; i++)
                inside[i * step] = outside[i];
        from += n;
    }
}

static void move(const iso_net *net, size_t begin, size_t end, float *w, float *out, bool publish)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        for (int part = 0; part < ISO_PARTS; part++)
            move_part(&net->layer[i], part, begin, end, w, out, publish);
}

void iso_net_publish_range(const iso_net *net, const float *w, size_t begin, size_t end, float *out)
{
    move(net, begin, end, (float *)(uintptr_t)w, out, true);
}

void iso_net_adopt_range(const iso_net *net, const float *published, size_t begin, size_t end, float *w)
{
    move(net, begin, end, w, (float *)(uintptr_t)published, false);
}

void iso_net_publish(const iso_net *net, const float *w, float *published)
{
    iso_net_publish_range(net, w, 0, net->parameters, published);
}

void iso_net_adopt(const iso_net *net, const float *published, float *w)
{
    memset(w, 0, net->values * sizeof *w);
    iso_net_adopt_range(net, published, 0, net->parameters, w);
}

static size_t place(const iso_layer *l, int part, size_t i)
{
    return l->kind->place ? l->kind->place(l, part, i) : i;
}

/* Half the width of the uniform distribution: variance 1/fan_in (LeCun), 2/fan_in (He), 2/(fan_in + fan_out) (Xavier). */
static double width(const iso_layer *l, const iso_part *p)
{
    double in = (double)p->fan_in, both = (double)(p->fan_in + p->fan_out);
    return l->init == ISO_INIT_HE ? sqrt(6 / in) : l->init == ISO_INIT_LECUN ? sqrt(3 / in) : sqrt(6 / both);
}

/* Published weight i is word i % 4 of the numbers of index i / 4: the value of a weight depends on its place alone. */
static void draw(const iso_layer *l, uint64_t seed, float *w)
{
    const iso_part *p = &l->part[ISO_WEIGHT];
    double half = width(l, p);
    uint32_t word[4];
    for (size_t i = 0; i < p->count; i++) {
        if (i % 4 == 0)
            iso_rng_block(&(iso_rng_key){.seed = seed, .purpose = ISO_PURPOSE_INIT, .layer = l->index, .index = i / 4}, 0, word);
        w[p->offset + place(l, ISO_WEIGHT, i)] = (float)((2 * (double)iso_rng_to_float(word[i % 4]) - 1) * half);
    }
}

void iso_net_init(const iso_net *net, uint64_t seed, float *w)
{
    memset(w, 0, net->values * sizeof *w);
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const iso_layer *l = &net->layer[i];
        const iso_part *p = &l->part[ISO_WEIGHT];
        if (p->count && !l->kind->start)
            draw(l, seed, w);
        for (size_t v = 0; l->kind->start && v < p->count; v++)
            w[p->offset + v] = l->kind->start(l);
    }
}

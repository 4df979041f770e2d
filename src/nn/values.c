/* SPDX-License-Identifier: Apache-2.0
 * The weights as values: the first ones, and from one layout to the other. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/net.h"

/* `rows` rows of weights, at most 16, from or to the first rows of a panel. A whole panel is transposed by tiles. */
static void move_panel(const iso_kernels *k, size_t rows, size_t row, float *panel, float *published, bool publish)
{
    size_t tiled = rows == ISO_LANES ? row / ISO_LANES * ISO_LANES : 0;
    if (publish && tiled)
        k->lanes_to_rows(published, row, panel, tiled);
    else if (tiled)
        k->rows_to_lanes(panel, published, row, tiled);
    for (size_t o = 0; o < rows; o++)
        for (size_t i = tiled; i < row; i++)
            if (publish)
                published[o * row + i] = panel[i * ISO_LANES + o];
            else
                panel[i * ISO_LANES + o] = published[o * row + i];
}

static size_t place(const iso_layer *l, int part, size_t i)
{
    return l->kind->place ? l->kind->place(l, part, i) : i;
}

/* One part: as it is, by panels, or value by value. */
static void move_part(const iso_kernels *k, const iso_layer *l, int part, float *inside, float *outside, bool publish)
{
    const iso_part *p = &l->part[part];
    size_t row = p->rank == 2 ? p->dim[1] : 0, panel = row * ISO_LANES;
    if (!l->kind->place) {
        memcpy(publish ? outside : inside, publish ? inside : outside, p->count * sizeof *inside);
    } else if (l->kind->keeps && row) {
        for (size_t at = 0; at < p->count; at += panel) {
            size_t left = p->count - at;
            move_panel(k, left < panel ? left / row : ISO_LANES, row, inside + at, outside + at, publish);
        }
    } else {
        for (size_t v = 0; v < p->count; v++)
            if (publish)
                outside[v] = inside[place(l, part, v)];
            else
                inside[place(l, part, v)] = outside[v];
    }
}

static void move(const iso_net *net, float *w, float *published, bool publish)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        for (int part = 0; part < ISO_PARTS; part++) {
            const iso_part *p = &net->layer[i].part[part];
            move_part(net->kernels, &net->layer[i], part, w + p->offset, published + p->published, publish);
        }
}

void iso_net_publish(const iso_net *net, const float *w, float *published)
{
    move(net, (float *)(uintptr_t)w, published, true);
}

void iso_net_adopt(const iso_net *net, const float *published, float *w)
{
    memset(w, 0, net->values * sizeof *w);
    move(net, w, (float *)(uintptr_t)published, false);
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

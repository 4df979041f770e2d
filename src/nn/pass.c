/* SPDX-License-Identifier: Apache-2.0
 * One computing unit, forward and backward. Where two layers want an activation in different layouts the pass converts; rows
 * that a layer keeps for its weight gradient lie in the kept block, everything else in the pass. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/size.h"
#include "nn/net.h"

/* A working layer's memory. */
typedef struct stage {
    const iso_layer *layer;
    float *x;                     /* own buffer for a converted input; NULL: reads the output of the stage before */
    float *y;                     /* own buffer; NULL: the next stage's rows in the kept block */
    void *saved;
    size_t kept_x, kept_dy;       /* floats from the start of the kept block, for layers that keep */
    bool wants_dx;
} stage;

typedef enum sample_type { NOTHING, U8, F32, COLUMNS } sample_type;

struct iso_pass {
    const iso_net *net;
    uint32_t unit, n, groups, stage_count; /* groups: those that n samples need */
    bool training;
    sample_type type;
    const void *sample[ISO_UNIT_MAX];
    const float *scale, *shift;   /* borrowed from load until the pass has run */
    stage *stage;
    float *kept;                  /* block used when the caller gives none */
    float *gradient;              /* unit gradient of the layers that do not keep, at internal offsets */
    float *dy[2];                 /* gradients between layers, LANES, in turn */
    float *lanes;                 /* last output and the input's detour, LANES */
    float *spread;                /* scale and shift of every value of a row */
    void *scratch;
};

#define KEPT_ALIGN (ISO_ALIGN / sizeof(float))

static bool keeps(const iso_layer *l)
{
    return iso_layer_works(l) && l->kind->keeps;
}

static size_t kept_row(const iso_layer *l, bool dy)
{
    return iso_shape_row(dy ? l->out_whole : l->in);
}

bool iso_kept_place(const iso_net *net, uint32_t index, uint32_t unit, size_t *x, size_t *dy)
{
    size_t at = 0;
    for (uint32_t i = 0; i < index; i++)
        if (keeps(&net->layer[i]))
            at += unit * (kept_row(&net->layer[i], false) + kept_row(&net->layer[i], true));
    *x = at;
    *dy = at + unit * kept_row(&net->layer[index], false);
    return keeps(&net->layer[index]);
}

size_t iso_kept_bytes(const iso_net *net, uint32_t unit)
{
    size_t x, dy, last = net->layer_count - 1;
    bool more = iso_kept_place(net, (uint32_t)last, unit, &x, &dy);
    size_t floats = more ? dy + unit * kept_row(&net->layer[last], true) : x;
    return floats ? floats * sizeof(float) : ISO_ALIGN;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

static size_t border_floats(const iso_layer *l, uint32_t groups)
{
    const iso_conv *c = &l->conv;
    return (size_t)groups * l->in.c * (l->in.h + 2 * (size_t)c->pad_rows) * (l->in.w + 2 * (size_t)c->pad_columns) * ISO_LANES;
}

static bool has_border(const iso_layer *l)
{
    return l->conv.pad_rows || l->conv.pad_columns;
}

/* Layers before the first one with parameters need no gradient of their input. */
static bool wants_dx(const iso_net *net, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (net->layer[i].part[ISO_WEIGHT].count)
            return true;
    return false;
}

static size_t gradient_values(const iso_net *net)
{
    size_t end = 0;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const iso_layer *l = &net->layer[i];
        if (!l->kind->keeps && l->part[ISO_WEIGHT].count)
            end = l->part[ISO_BIAS].offset + l->part[ISO_BIAS].values;
    }
    return end;
}

static void carve_stage(const iso_net *net, const iso_layer *l, const iso_layer *before, const iso_layer *next, uint32_t groups,
                        iso_arena *a, stage *s)
{
    stage place = {.layer = l, .wants_dx = wants_dx(net, l->index)};
    bool rows = l->kind->wants == ISO_LAYOUT_ROWS;
    bool differs = !before || before->kind->gives != l->kind->wants;
    if (!rows && (differs || has_border(l)))
        place.x = iso_arena_take_zeroed(a, border_floats(l, groups), sizeof(float));
    if (!(l->kind->gives == ISO_LAYOUT_ROWS && next && next->kind->wants == ISO_LAYOUT_ROWS)) {
        size_t values = l->kind->gives == ISO_LAYOUT_ROWS ? iso_shape_row(l->out_whole) : iso_shape_values(l->out_whole);
        place.y = iso_arena_take(a, groups * values * ISO_LANES, sizeof(float));
    }
    if (l->kind->saved_bytes)
        place.saved = iso_arena_take(a, l->kind->saved_bytes(l, groups), 1);
    if (rows)
        iso_kept_place(net, l->index, groups * ISO_LANES, &place.kept_x, &place.kept_dy);
    if (s)
        *s = place;
}

static const iso_layer *working(const iso_net *net, uint32_t from)
{
    while (from < net->layer_count && !iso_layer_works(&net->layer[from]))
        from++;
    return from < net->layer_count ? &net->layer[from] : NULL;
}

static iso_pass *carve(const iso_net *net, uint32_t unit, bool training, iso_arena *a)
{
    uint32_t groups = unit / ISO_LANES, count = 0;
    size_t widest = iso_shape_values(net->input), scratch = 0;
    iso_pass *p = iso_arena_take_zeroed(a, 1, sizeof *p);
    stage *stages = iso_arena_take(a, net->layer_count, sizeof *stages);
    const iso_layer *before = NULL, *l, *next;
    for (l = working(net, 0); l; before = l, l = next) {
        next = working(net, l->index + 1);
        carve_stage(net, l, before, next, groups, a, stages ? &stages[count] : NULL);
        count++;
        size_t bytes = l->kind->scratch_bytes ? l->kind->scratch_bytes(l, groups) : 0;
        scratch = bytes > scratch ? bytes : scratch;
        widest = iso_shape_values(l->in) > widest ? iso_shape_values(l->in) : widest;
        widest = iso_shape_values(l->out_whole) > widest ? iso_shape_values(l->out_whole) : widest;
    }
    float *kept = iso_arena_take_zeroed(a, iso_kept_bytes(net, unit), 1);
    float *lanes = iso_arena_take(a, groups * widest * ISO_LANES, sizeof(float));
    float *spread = iso_arena_take(a, 2 * iso_shape_row(net->input), sizeof(float));
    float *gradient = iso_arena_take_zeroed(a, training ? gradient_values(net) : 0, sizeof(float));
    float *dy0 = iso_arena_take(a, training ? groups * widest * ISO_LANES : 0, sizeof(float));
    float *dy1 = iso_arena_take(a, training ? groups * widest * ISO_LANES : 0, sizeof(float));
    void *rest = iso_arena_take(a, training ? scratch : 0, 1);
    if (p)
        *p = (iso_pass){.net = net, .unit = unit, .stage_count = count, .training = training, .stage = stages, .kept = kept,
                        .gradient = gradient, .dy = {dy0, dy1}, .lanes = lanes, .spread = spread, .scratch = rest};
    return p;
}

size_t iso_pass_bytes(const iso_net *net, uint32_t unit, bool training)
{
    size_t bytes;
    iso_arena a = iso_arena_sizing();
    carve(net, unit, training, &a);
    return iso_arena_size(&a, &bytes) ? bytes : SIZE_MAX;
}

iso_pass *iso_pass_init(const iso_net *net, uint32_t unit, bool training, void *memory)
{
    ISO_ASSERT(unit >= ISO_LANES && unit <= ISO_UNIT_MAX && unit % ISO_LANES == 0);
    iso_arena a = iso_arena_on(memory, iso_pass_bytes(net, unit, training));
    return carve(net, unit, training, &a);
}

/* ---- samples --------------------------------------------------------------------------------------------------------------- */

static void load(iso_pass *p, sample_type type, uint32_t n, const float *scale, const float *shift)
{
    ISO_ASSERT(n <= p->unit);
    p->type = type;
    p->n = n;
    p->groups = n ? (n + ISO_LANES - 1) / ISO_LANES : 1;
    p->scale = scale;
    p->shift = shift;
}

/* Samples lie anywhere in a large set: asked for all at once, their cache lines come side by side and not one after the other. */
static void expect(const void *sample, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += ISO_ALIGN)
        __builtin_prefetch((const char *)sample + at);
}

void iso_pass_load_u8(iso_pass *p, uint32_t n, const uint8_t *const *sample, const float *scale, const float *shift)
{
    load(p, U8, n, scale, shift);
    for (uint32_t i = 0; i < n; i++) {
        p->sample[i] = sample[i];
        expect(sample[i], iso_shape_values(p->net->input));
    }
}

static void load_floats(iso_pass *p, sample_type type, uint32_t n, const float *const *sample, const float *scale,
                        const float *shift)
{
    load(p, type, n, scale, shift);
    for (uint32_t i = 0; i < n; i++) {
        p->sample[i] = sample[i];
        expect(sample[i], iso_shape_values(p->net->input) * sizeof(float));
    }
}

void iso_pass_load_f32(iso_pass *p, uint32_t n, const float *const *sample, const float *scale, const float *shift)
{
    load_floats(p, F32, n, sample, scale, shift);
}

void iso_pass_load_columns(iso_pass *p, uint32_t n, const float *const *sample, const float *scale, const float *shift)
{
    load_floats(p, COLUMNS, n, sample, scale, shift);
}

/* Scale and shift of every value of a row. */
static void spread_scale(iso_pass *p, const float **scale, const float **shift)
{
    iso_shape s = p->net->input;
    size_t pixels = (size_t)s.h * s.w, values = pixels * s.c;
    if (p->type == COLUMNS || pixels == 1) {
        *scale = p->scale;
        *shift = p->shift;
        return;
    }
    float *a = p->spread, *b = p->spread + iso_shape_row(s);
    for (size_t i = 0; i < values; i++) {
        a[i] = p->scale[i / pixels];
        b[i] = p->shift[i / pixels];
    }
    *scale = a;
    *shift = b;
}

static void input_rows(iso_pass *p, float *rows)
{
    size_t values = iso_shape_values(p->net->input), ld = iso_round16(values);
    const float *scale, *shift;
    spread_scale(p, &scale, &shift);
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->type == U8)
            p->net->kernels->load_row_u8(rows + i * ld, (uint32_t)values, p->sample[i], scale, shift);
        else
            p->net->kernels->load_row_f32(rows + i * ld, (uint32_t)values, p->sample[i], scale, shift);
        memset(rows + i * ld + values, 0, (ld - values) * sizeof(float));
    }
    memset(rows + p->n * ld, 0, (p->groups * ISO_LANES - p->n) * ld * sizeof(float));
}

/* Straight into the border when the first layer wants one; by way of plain lanes when every column has its own scale, or when a
 * flatten before that layer has made another shape of the samples. */
static void input_lanes(iso_pass *p, const iso_layer *first, float *x)
{
    const iso_kernels *k = p->net->kernels;
    iso_shape s = p->net->input;
    bool columns = p->type == COLUMNS, reshaped = s.c != first->in.c || s.h != first->in.h;
    bool detour = has_border(first) && (columns || reshaped);
    iso_conv c = {.channels = s.c, .rows = s.h, .columns = s.w};
    if (columns)
        c = (iso_conv){.channels = (uint32_t)iso_shape_values(s), .rows = 1, .columns = 1};
    if (!detour) {
        c.pad_rows = first->conv.pad_rows;
        c.pad_columns = first->conv.pad_columns;
    }
    size_t group = columns ? iso_shape_values(s) * ISO_LANES : border_floats(first, 1);
    for (uint32_t g = 0; g < p->groups; g++) {
        uint32_t left = p->n > g * ISO_LANES ? p->n - g * ISO_LANES : 0, n = left < ISO_LANES ? left : ISO_LANES;
        float *to = detour ? p->lanes : x + g * group;
        if (p->type == U8)
            k->load_u8(to, &c, n, (const uint8_t *const *)&p->sample[g * ISO_LANES], p->scale, p->shift);
        else
            k->load_f32(to, &c, n, (const float *const *)&p->sample[g * ISO_LANES], p->scale, p->shift);
        if (detour)
            k->add_border(x + g * border_floats(first, 1), p->lanes, &first->conv);
    }
}

/* ---- forward --------------------------------------------------------------------------------------------------------------- */

static void to_lanes(const iso_pass *p, float *lanes, const float *rows, size_t values)
{
    size_t ld = iso_round16(values);
    for (uint32_t g = 0; g < p->groups; g++)
        p->net->kernels->rows_to_lanes(lanes + g * values * ISO_LANES, rows + g * ISO_LANES * ld, ld, values);
}

/* The input of stage i in the layout it wants. */
static const float *input_of(iso_pass *p, uint32_t i, float *kept)
{
    const stage *s = &p->stage[i], *before = i ? s - 1 : NULL;
    const iso_layer *l = s->layer;
    size_t values = iso_shape_values(l->in), ld = iso_round16(values);
    bool rows = l->kind->wants == ISO_LAYOUT_ROWS, from_rows = before && before->layer->kind->gives == ISO_LAYOUT_ROWS;
    float *x = rows ? kept + s->kept_x : s->x;
    if (!before) {
        if (rows)
            input_rows(p, x);
        else
            input_lanes(p, l, x);
        return x;
    }
    if (rows && from_rows)
        return x; /* written there */
    if (rows) {
        for (uint32_t g = 0; g < p->groups; g++)
            p->net->kernels->lanes_to_rows(x + g * ISO_LANES * ld, ld, before->y + g * values * ISO_LANES, values);
        return x;
    }
    const float *lanes = before->y;
    if (from_rows) {
        to_lanes(p, has_border(l) ? p->lanes : x, before->y, values);
        lanes = has_border(l) ? p->lanes : x;
    }
    for (uint32_t g = 0; has_border(l) && g < p->groups; g++)
        p->net->kernels->add_border(x + g * border_floats(l, 1), lanes + g * values * ISO_LANES, &l->conv);
    return has_border(l) ? x : lanes;
}

static float *output_of(const iso_pass *p, uint32_t i, float *kept)
{
    return p->stage[i].y ? p->stage[i].y : kept + p->stage[i + 1].kept_x;
}

static iso_work work_of(const iso_pass *p, const float *w)
{
    return (iso_work){.kernels = p->net->kernels, .groups = p->groups, .w = w, .scratch = p->scratch, .gradient = p->gradient};
}

/* Runs all layers; returns the outputs [G][classes][16]. x of stage i is remembered in input[i]. */
static const float *run_forward(iso_pass *p, const float *w, float *kept, const float **input)
{
    ISO_ASSERT(p->type != NOTHING);
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const stage *s = &p->stage[i];
        iso_work k = work_of(p, w);
        k.x = input[i] = input_of(p, i, kept);
        k.y = output_of(p, i, kept);
        k.saved = s->saved;
        s->layer->kind->forward(s->layer, &k, p->training);
    }
    const stage *last = &p->stage[p->stage_count - 1];
    if (last->layer->kind->gives == ISO_LAYOUT_LANES)
        return last->y;
    to_lanes(p, p->lanes, last->y, p->net->classes);
    return p->lanes;
}

/* Loss of all samples, on the grid; dz [G][classes][16] or NULL. False when one is not finite. */
static bool loss_of(const iso_pass *p, const float *z, float *dz, const int32_t *labels, iso_unit_result *r)
{
    const iso_net *net = p->net;
    size_t group = (size_t)net->classes * ISO_LANES;
    bool good = true;
    for (uint32_t g = 0; g < p->groups; g++) {
        uint32_t left = p->n - g * ISO_LANES, n = left < ISO_LANES ? left : ISO_LANES;
        float *to = dz ? dz + g * group : NULL;
        const int32_t *label = labels + g * ISO_LANES;
        if (net->loss == ISO_LOSS_CROSS_ENTROPY)
            good &= net->kernels->cross_entropy(net->classes, n, to, z + g * group, label, &r->loss, &r->correct);
        else
            good &= net->kernels->squared_error(net->classes, n, to, z + g * group, label, 1.0f, 0.0f, &r->loss, &r->correct);
    }
    return good;
}

/* The first layer whose output has a value that is not finite; the last one when it is the loss itself. */
static int32_t find_bad(const iso_pass *p, float *kept)
{
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const iso_layer *l = p->stage[i].layer;
        bool rows = l->kind->gives == ISO_LAYOUT_ROWS;
        size_t n = p->groups * ISO_LANES * (rows ? iso_shape_row(l->out_whole) : iso_shape_values(l->out_whole));
        const float *y = output_of(p, i, kept);
        for (size_t v = 0; v < n; v++)
            if (!isfinite(y[v]))
                return (int32_t)l->index;
    }
    return (int32_t)p->net->layer_count - 1;
}

static void begin(const iso_pass *p, iso_unit_result *r)
{
    *r = (iso_unit_result){.samples = p->n, .bad_layer = -1};
}

void iso_pass_evaluate(iso_pass *p, const float *w, const int32_t *labels, iso_unit_result *r)
{
    const float *input[ISO_LAYERS_MAX];
    begin(p, r);
    if (p->n && !loss_of(p, run_forward(p, w, p->kept, input), NULL, labels, r))
        r->bad_layer = find_bad(p, p->kept);
}

void iso_pass_predict(iso_pass *p, const float *w, float *out)
{
    const iso_net *net = p->net;
    const float *input[ISO_LAYERS_MAX];
    size_t group = (size_t)net->classes * ISO_LANES;
    const float *z = run_forward(p, w, p->kept, input);
    for (uint32_t g = 0; g < p->groups; g++) {
        const float *from = z + g * group;
        if (net->loss == ISO_LOSS_CROSS_ENTROPY) {
            net->kernels->softmax(net->classes, p->lanes, from);
            from = p->lanes;
        }
        for (uint32_t i = 0; i < ISO_LANES && g * ISO_LANES + i < p->n; i++)
            for (uint32_t c = 0; c < net->classes; c++)
                out[(size_t)(g * ISO_LANES + i) * net->classes + c] = from[c * ISO_LANES + i];
    }
}

/* ---- backward -------------------------------------------------------------------------------------------------------------- */

/* Rows of lane groups that this unit does not have: their output gradient must be 0 and their input finite. */
static void clear_absent(const iso_pass *p, const stage *s, float *kept)
{
    size_t absent = p->unit - p->groups * ISO_LANES, from = p->groups * ISO_LANES;
    size_t x = kept_row(s->layer, false), dy = kept_row(s->layer, true);
    memset(kept + s->kept_x + from * x, 0, absent * x * sizeof(float));
    memset(kept + s->kept_dy + from * dy, 0, absent * dy * sizeof(float));
}

static void run_backward(iso_pass *p, const float *w, float *kept, const float *const *input)
{
    uint32_t turn = 0;
    for (uint32_t i = p->stage_count; i-- > 0; turn ^= 1) {
        const stage *s = &p->stage[i];
        iso_work k = work_of(p, w);
        k.x = input[i];
        k.y = output_of(p, i, kept);
        k.saved = s->saved;
        k.dy = p->dy[turn];
        k.dx = s->wants_dx ? p->dy[turn ^ 1] : NULL;
        if (s->layer->kind->keeps) {
            k.kept_dy = kept + s->kept_dy;
            clear_absent(p, s, kept);
        }
        if (s->wants_dx || s->layer->part[ISO_WEIGHT].count)
            s->layer->kind->backward(s->layer, &k);
    }
}

void iso_pass_train(iso_pass *p, const float *w, const int32_t *labels, void *kept, iso_unit_result *r)
{
    const float *input[ISO_LAYERS_MAX];
    ISO_ASSERT(p->training && p->n);
    begin(p, r);
    if (!loss_of(p, run_forward(p, w, kept, input), p->dy[0], labels, r))
        r->bad_layer = find_bad(p, kept);
    run_backward(p, w, kept, input);
}

float iso_gradient_limit(uint64_t units)
{
    return (float)(0x1p22 / (double)(units ? units : 1));
}

void iso_pass_gradient(iso_pass *p, const void *kept, bool all, uint64_t units, int64_t *sum, iso_unit_result *r)
{
    const iso_net *net = p->net;
    float limit = iso_gradient_limit(units);
    bool known = r->bad_layer >= 0;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const stage *s = &p->stage[i];
        const iso_layer *l = s->layer;
        bool good = true;
        if (l->kind->keeps) {
            iso_dense_unit unit = {(const float *)kept + s->kept_x, (const float *)kept + s->kept_dy};
            good = !all || l->kind->gradient(l, net->kernels, p->groups * ISO_LANES, &unit, sum, limit);
        } else {
            for (int part = 0; part < ISO_PARTS; part++) {
                const iso_part *q = &l->part[part];
                good &= !q->count || net->kernels->grid_add(sum + q->offset, p->gradient + q->offset, q->values, limit);
            }
        }
        if (!good && !known) /* gradients go wrong from the back: the last layer is where it began */
            r->bad_layer = (int32_t)l->index;
    }
}

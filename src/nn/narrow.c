/* SPDX-License-Identifier: Apache-2.0
 * Steps of few samples: forward, loss, backward and the optimiser's step, layer by layer. The last layer is stepped first; dx of a layer
 * is taken from its old weights. Images stand as pixels [H][W][C], everything else as rows; flatten turns one into the other, since a
 * dense layer's inputs are in the order [C][H][W]. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "nn/net.h"

/* A working layer's memory. */
typedef struct stage {
    const iso_layer *layer;
    float *x;                     /* own buffer for a turned or bordered input; NULL: reads the output of the stage before */
    float *y;
    void *saved;
    bool wants_dx, turns;         /* turns: its input is a row, the stage before gives pixels of several channels */
} stage;

typedef enum sample_type { NOTHING, U8, F32, COLUMNS } sample_type;

struct iso_narrow {
    const iso_net *net;
    uint32_t most, n, stage_count;
    sample_type type;
    const void *sample[ISO_NARROW_MAX];
    const float *scale, *shift;   /* borrowed from load until the step has run */
    stage *stage;
    float *dy[2];                 /* gradients between layers, in turn */
    float *detour;                /* an input or output on its way to another layout */
    float *lanes, *dlanes;        /* outputs and their gradient, [classes][16] */
    float *spread;                /* scale and shift of every value of a row */
    void *scratch;
};

static size_t row_of(iso_shape s)
{
    return iso_narrow_row(iso_shape_values(s));
}

/* Pixels and row are the same. */
static bool flat(iso_shape s)
{
    return s.c == 1 || (uint64_t)s.h * s.w == 1;
}

static bool same_shape(iso_shape a, iso_shape b)
{
    return a.c == b.c && a.h == b.h && a.w == b.w;
}

static bool has_border(const iso_layer *l)
{
    return l->conv.pad_rows || l->conv.pad_columns;
}

/* Floats between samples of a layer's input, border and all. */
static size_t input_row(const iso_layer *l)
{
    return has_border(l) ? iso_narrow_row(iso_narrow_conv_in(&l->conv)) : row_of(l->in);
}

bool iso_narrow_part(const iso_layer *l, const iso_narrow_work *k, int part, const float *g)
{
    const iso_part *p = &l->part[part];
    float *state[2] = {NULL, NULL};
    for (uint32_t i = 0; i < k->states; i++)
        state[i] = k->state[i] + p->offset;
    return k->kernels->narrow->step(&k->step[part], p->values, k->w + p->offset, state, g);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

/* Layers before the first one with parameters need no gradient of their input. */
static bool wants_dx(const iso_net *net, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (net->layer[i].part[ISO_WEIGHT].count)
            return true;
    return false;
}

static const iso_layer *working(const iso_net *net, uint32_t from)
{
    while (from < net->layer_count && !iso_layer_works(&net->layer[from]))
        from++;
    return from < net->layer_count ? &net->layer[from] : NULL;
}

static stage carve_stage(const iso_net *net, const iso_layer *l, const iso_layer *before, uint32_t most, iso_arena *a)
{
    stage s = {.layer = l, .wants_dx = wants_dx(net, l->index)};
    s.turns = before && !flat(before->out_whole) && !same_shape(before->out_whole, l->in);
    if (!before || s.turns || has_border(l))
        s.x = iso_arena_take_zeroed(a, most * input_row(l), sizeof(float));
    s.y = iso_arena_take_zeroed(a, most * row_of(l->out_whole), sizeof(float));
    if (l->kind->narrow_saved)
        s.saved = iso_arena_take_zeroed(a, l->kind->narrow_saved(l, most), 1);
    return s;
}

static iso_narrow *carve(const iso_net *net, uint32_t most, iso_arena *a)
{
    uint32_t count = 0;
    size_t widest = row_of(net->input), scratch = 0, lanes = (size_t)net->classes * ISO_LANES;
    iso_narrow *p = iso_arena_take_zeroed(a, 1, sizeof *p);
    stage *stages = iso_arena_take(a, net->layer_count, sizeof *stages);
    for (const iso_layer *l = working(net, 0), *before = NULL; l; before = l, l = working(net, l->index + 1)) {
        stage s = carve_stage(net, l, before, most, a);
        if (stages)
            stages[count] = s;
        count++;
        size_t bytes = l->kind->narrow_scratch ? l->kind->narrow_scratch(l, most) : 0;
        scratch = bytes > scratch ? bytes : scratch;
        widest = row_of(l->in) > widest ? row_of(l->in) : widest;
        widest = row_of(l->out_whole) > widest ? row_of(l->out_whole) : widest;
    }
    iso_narrow own = {.net = net, .most = most, .stage_count = count, .stage = stages};
    for (int i = 0; i < 2; i++)
        own.dy[i] = iso_arena_take_zeroed(a, most * widest, sizeof(float));
    own.detour = iso_arena_take_zeroed(a, most * widest, sizeof(float));
    own.lanes = iso_arena_take_zeroed(a, lanes, sizeof(float));
    own.dlanes = iso_arena_take_zeroed(a, lanes, sizeof(float));
    own.spread = iso_arena_take(a, 2 * row_of(net->input), sizeof(float));
    own.scratch = iso_arena_take_zeroed(a, scratch, 1);
    if (p)
        *p = own;
    return p;
}

size_t iso_narrow_bytes(const iso_net *net, uint32_t b)
{
    size_t bytes;
    iso_arena a = iso_arena_sizing();
    ISO_ASSERT(b >= 1 && b <= ISO_NARROW_MAX);
    carve(net, b, &a);
    return iso_arena_size(&a, &bytes) ? bytes : SIZE_MAX;
}

iso_narrow *iso_narrow_init(const iso_net *net, uint32_t b, void *memory)
{
    iso_arena a = iso_arena_on(memory, iso_narrow_bytes(net, b));
    return carve(net, b, &a);
}

/* ---- samples --------------------------------------------------------------------------------------------------------------- */

/* Samples lie anywhere in a large set: asked for all at once, their cache lines come side by side and not one after the other. */
static void load(iso_narrow *p, sample_type type, uint32_t n, const void *const *sample, const float *scale, const float *shift)
{
    ISO_ASSERT(n >= 1 && n <= p->most);
    size_t bytes = iso_shape_values(p->net->input) * (type == U8 ? 1 : sizeof(float));
    p->type = type;
    p->n = n;
    p->scale = scale;
    p->shift = shift;
    for (uint32_t i = 0; i < n; i++) {
        p->sample[i] = sample[i];
        for (size_t at = 0; at < bytes; at += ISO_ALIGN)
            __builtin_prefetch((const char *)sample[i] + at);
    }
}

void iso_narrow_load_u8(iso_narrow *p, uint32_t n, const uint8_t *const *sample, const float *scale, const float *shift)
{
    load(p, U8, n, (const void *const *)sample, scale, shift);
}

void iso_narrow_load_f32(iso_narrow *p, uint32_t n, const float *const *sample, const float *scale, const float *shift)
{
    load(p, F32, n, (const void *const *)sample, scale, shift);
}

void iso_narrow_load_columns(iso_narrow *p, uint32_t n, const float *const *sample, const float *scale, const float *shift)
{
    load(p, COLUMNS, n, (const void *const *)sample, scale, shift);
}

/* Scale and shift of every value of a row. */
static void spread_scale(const iso_narrow *p, const float **scale, const float **shift)
{
    iso_shape s = p->net->input;
    size_t pixels = (size_t)s.h * s.w;
    *scale = p->scale;
    *shift = p->shift;
    if (p->type == COLUMNS || pixels == 1)
        return;
    float *a = p->spread, *b = p->spread + row_of(s);
    for (size_t i = 0; i < iso_shape_values(s); i++) {
        a[i] = p->scale[i / pixels];
        b[i] = p->shift[i / pixels];
    }
    *scale = a;
    *shift = b;
}

static void input_rows(const iso_narrow *p, float *rows)
{
    const iso_kernels *k = p->net->kernels;
    uint32_t values = (uint32_t)iso_shape_values(p->net->input);
    const float *scale, *shift;
    spread_scale(p, &scale, &shift);
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->type == U8)
            k->load_row_u8(rows + i * row_of(p->net->input), values, p->sample[i], scale, shift);
        else
            k->load_row_f32(rows + i * row_of(p->net->input), values, p->sample[i], scale, shift);
    }
}

/* ---- layouts --------------------------------------------------------------------------------------------------------------- */

/* [C][H][W] from [H][W][C] of every sample, and back. */
static void pixels_to_rows(const iso_narrow *p, iso_shape s, float *rows, const float *pixels)
{
    size_t count = (size_t)s.h * s.w, step = row_of(s);
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t c = 0; c < s.c; c++)
            for (size_t at = 0; at < count; at++)
                rows[i * step + c * count + at] = pixels[i * step + at * s.c + c];
}

static void rows_to_pixels(const iso_narrow *p, iso_shape s, float *pixels, const float *rows)
{
    size_t count = (size_t)s.h * s.w, step = row_of(s);
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t c = 0; c < s.c; c++)
            for (size_t at = 0; at < count; at++)
                pixels[i * step + at * s.c + c] = rows[i * step + c * count + at];
}

/* The inside of a border that is 0 from the start. */
static void into_border(const iso_narrow *p, const iso_layer *l, float *padded, const float *x)
{
    const iso_conv *c = &l->conv;
    size_t line = (size_t)c->columns * c->channels, width = (c->columns + 2 * (size_t)c->pad_columns) * c->channels;
    for (uint32_t i = 0; i < p->n; i++)
        for (size_t row = 0; row < c->rows; row++)
            memcpy(padded + i * input_row(l) + (row + c->pad_rows) * width + (size_t)c->pad_columns * c->channels,
                   x + i * row_of(l->in) + row * line, line * sizeof *x);
}

/* The first layer's input. Images go straight to their place; what has a scale a value, or another shape, by way of a row. */
static void input_first(const iso_narrow *p, const iso_layer *l, float *x)
{
    const iso_narrow_kernels *k = p->net->kernels->narrow;
    iso_shape s = p->net->input;
    bool border = has_border(l), direct = p->type != COLUMNS && same_shape(s, l->in) && (border || !flat(s));
    if (direct) {
        iso_conv c = {.channels = s.c, .rows = s.h, .columns = s.w, .pad_rows = l->conv.pad_rows, .pad_columns = l->conv.pad_columns};
        for (uint32_t i = 0; i < p->n; i++) {
            if (p->type == U8)
                k->load_u8(x + i * input_row(l), &c, p->sample[i], p->scale, p->shift);
            else
                k->load_f32(x + i * input_row(l), &c, p->sample[i], p->scale, p->shift);
        }
        return;
    }
    bool turned = same_shape(s, l->in) && !flat(s);
    float *rows = border || turned ? p->detour : x;
    input_rows(p, rows);
    if (turned) {
        rows_to_pixels(p, s, border ? p->dy[0] : x, rows);
        rows = p->dy[0];
    }
    if (border)
        into_border(p, l, x, rows);
}

/* The input of stage i in the layout it wants. */
static const float *input_of(const iso_narrow *p, uint32_t i)
{
    const stage *s = &p->stage[i];
    const iso_layer *l = s->layer;
    if (i == 0) {
        input_first(p, l, s->x);
        return s->x;
    }
    const float *x = s[-1].y;
    if (s->turns) {
        float *rows = has_border(l) ? p->detour : s->x;
        pixels_to_rows(p, s[-1].layer->out_whole, rows, x);
        x = rows;
    }
    if (has_border(l)) {
        into_border(p, l, s->x, x);
        x = s->x;
    }
    return x;
}

/* ---- the step -------------------------------------------------------------------------------------------------------------- */

/* Loss of the outputs y; their gradient to dy. False when a loss is not finite. */
static bool loss_of(const iso_narrow *p, const iso_layer *last, const float *y, float *dy, const int32_t *labels, iso_unit_result *r)
{
    const iso_net *net = p->net;
    iso_shape s = last->out_whole;
    bool good;
    if (!flat(s)) {
        pixels_to_rows(p, s, p->detour, y);
        y = p->detour;
    }
    memset(p->lanes, 0, (size_t)net->classes * ISO_LANES * sizeof *p->lanes);
    for (uint32_t c = 0; c < net->classes; c++)
        for (uint32_t i = 0; i < p->n; i++)
            p->lanes[c * ISO_LANES + i] = y[i * row_of(s) + c];
    if (net->loss == ISO_LOSS_CROSS_ENTROPY)
        good = net->kernels->cross_entropy(net->classes, p->n, p->dlanes, p->lanes, labels, &r->loss, &r->correct);
    else
        good = net->kernels->squared_error(net->classes, p->n, p->dlanes, p->lanes, labels, 1.0f, 0.0f, &r->loss, &r->correct);
    float *rows = flat(s) ? dy : p->detour;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t c = 0; c < net->classes; c++)
            rows[i * row_of(s) + c] = p->dlanes[c * ISO_LANES + i];
    if (!flat(s))
        rows_to_pixels(p, s, dy, rows);
    return good;
}

/* The first layer whose output has a value that is not finite; the last one when it is the loss itself. */
static int32_t find_bad(const iso_narrow *p)
{
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const iso_layer *l = p->stage[i].layer;
        for (uint32_t n = 0; n < p->n; n++)
            for (size_t v = 0; v < iso_shape_values(l->out_whole); v++)
                if (!isfinite(p->stage[i].y[n * row_of(l->out_whole) + v]))
                    return (int32_t)l->index;
    }
    return (int32_t)p->net->layer_count - 1;
}

/* From the last layer to the first; each takes its step once dx is made. */
static void run_backward(const iso_narrow *p, iso_narrow_work k, const float *const *input, iso_unit_result *r)
{
    uint32_t turn = 0;
    for (uint32_t i = p->stage_count; i-- > 0;) {
        const stage *s = &p->stage[i];
        if (!s->wants_dx && !s->layer->part[ISO_WEIGHT].count)
            return;
        k.x = input[i];
        k.y = s->y;
        k.saved = s->saved;
        k.dy = p->dy[turn];
        k.dx = s->wants_dx ? p->dy[turn ^ 1] : NULL;
        if (!s->layer->kind->narrow_backward(s->layer, &k) && r->bad_layer < 0)
            r->bad_layer = (int32_t)s->layer->index;
        if (s->wants_dx && s->turns)
            rows_to_pixels(p, s[-1].layer->out_whole, k.dy, k.dx);
        else
            turn ^= 1;
    }
}

void iso_narrow_step(iso_narrow *p, const int32_t *labels, const iso_update *u, iso_unit_result *r)
{
    const iso_net *net = p->net;
    const float *input[ISO_LAYERS_MAX];
    const stage *last = &p->stage[p->stage_count - 1];
    iso_step step[ISO_PARTS];
    ISO_ASSERT(p->type != NOTHING);
    *r = (iso_unit_result){.samples = p->n, .bad_layer = -1};
    for (int part = 0; part < ISO_PARTS; part++)
        step[part] = iso_step_of(u->optimizer, u->rate, u->step, p->n, part == ISO_BIAS);
    iso_narrow_work k = {.kernels = net->kernels, .n = p->n, .states = iso_optimizer_states(u->optimizer), .w = u->w,
                         .state = u->state, .step = step, .scratch = p->scratch};
    for (uint32_t i = 0; i < p->stage_count; i++) {
        k.x = input[i] = input_of(p, i);
        k.y = p->stage[i].y;
        k.saved = p->stage[i].saved;
        p->stage[i].layer->kind->narrow_forward(p->stage[i].layer, &k);
    }
    if (loss_of(p, last->layer, last->y, p->dy[0], labels, r))
        run_backward(p, k, input, r);
    else
        r->bad_layer = find_bad(p);
}

/* SPDX-License-Identifier: Apache-2.0
 * Backward through 2x2 max pooling, ReLU and a convolution at once.
 *
 * A pooled gradient reaches one of its window's four pixels, and none where ReLU cut it: three quarters and more of the
 * convolution's dy are exact zeros, in another place for every sample. So samples become rows [pixel][channel], and what is not
 * zero becomes short lists, a list a sample:
 *   weights  per filter the values and the places of their patches; a patch is R runs of S C floats, added to R rows of sums
 *            that stay in registers for the whole list.
 *   data     per window the values and their filters' weights, those of the upper row first; a window's (R + 1) x (S + 1) C
 *            frame of dx stays in registers while the list is added.
 */
#include "nn/kernel/isa/conv_patch.h"
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/transpose.h"
#include "nn/kernel/scratch.h"

typedef struct pool_call {
    const iso_conv *c;
    iso_conv_pool_scratch s;
    uint32_t pooled_rows, pooled_columns;
    size_t pooled;            /* pixels of a pooled plane */
    size_t width;             /* floats of a row of a sample: (W + 2pc) C */
    size_t x_pixels;          /* pixels of a bordered plane */
} pool_call;

/* ---- samples as rows ---------------------------------------------------------------------------------------------------- */

/* Places in the lanes of 16 values from `first` on in the order [pixel][channel]; beyond the end the last one again. */
static void list_values(const pool_call *call, size_t first, size_t *at)
{
    size_t channels = call->c->channels, pixel = first / channels, channel = first % channels;
    for (size_t i = 0; i < 16; i++) {
        at[i] = (channel * call->x_pixels + pixel) * 16;
        if (channel + 1 < channels) {
            channel++;
        } else if (pixel + 1 < call->x_pixels) {
            channel = 0;
            pixel++;
        }
    }
}

static void samples_to_rows(const pool_call *call, const float *x)
{
    size_t values = call->x_pixels * call->c->channels, at[16];
    for (size_t i = 0; i < values; i += 16) {
        list_values(call, i, at);
        transpose16(call->s.x + i, call->s.sample, x, at);
    }
    size_t end = iso_round16(values);
    for (size_t i = 0; i < 16; i++)
        memset(call->s.x + i * call->s.sample + end, 0, (call->s.sample - end) * sizeof *x);
}

/* The gradient back into lanes; what fell on the border is left out. */
static void rows_to_samples(const pool_call *call, float *dx)
{
    const iso_conv *c = call->c;
    size_t at[16];
    for (size_t i = 0; i < 16; i++)
        at[i] = i * call->s.sample;
    float tile[256] __attribute__((aligned(64)));
    size_t channel = 0, plane = (size_t)c->rows * c->columns;
    uint32_t row = 0, column = 0, last_column = c->columns + 2 * c->pad_columns;
    size_t values = call->x_pixels * c->channels;
    for (size_t first = 0; first < values; first += 16) {
        transpose16(tile, 16, call->s.dx + first, at);
        for (size_t i = 0; i < 16 && first + i < values; i++) {
            uint32_t y = row - c->pad_rows, x = column - c->pad_columns; /* a border's wraps around and is too large */
            if (y < c->rows && x < c->columns)
                memcpy(dx + (channel * plane + (size_t)y * c->columns + x) * 16, tile + 16 * i, 16 * sizeof *dx);
            if (++channel == c->channels) {
                channel = 0;
                if (++column == last_column) {
                    column = 0;
                    row++;
                }
            }
        }
    }
}

/* ---- gradients that are not zero ------------------------------------------------------------------------------------------ */

/* Values of filter f at pooled pixel i: 0 where cut, tiny ones flushed. */
ISO_INLINE vf pooled_gradient(const float *dy, vi arg)
{
    return v_flush(v_select(i_eq(arg, i_set((int32_t)ISO_POOL_DEAD)), v_zero(), v_load(dy)));
}

ISO_INLINE vi when(vi arg, int32_t bit, int32_t value)
{
    return i_select(i_eq(i_and(arg, i_set(bit)), i_set(bit)), i_set(value), i_set(0));
}

static const size_t rows_of_16[16] = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240};

/* Appends the non-zero values of `tile` [16][samples], transposed, to 16 lists. */
static void append_lists(float *const value_tile, float *const at_tile, float *value, int32_t *at, size_t list, uint32_t *count,
                         size_t count_step)
{
    float values[256] __attribute__((aligned(64))), places[256] __attribute__((aligned(64)));
    transpose16(values, 16, value_tile, rows_of_16);
    transpose16(places, 16, at_tile, rows_of_16);
    for (size_t sample = 0; sample < 16; sample++) {
        size_t n = count[sample * count_step];
        for (size_t part = 0; part < 16; part += VL) {
            vf v = v_load(values + 16 * sample + part);
            vi a = i_bits(v_load(places + 16 * sample + part));
            n += v_keep(value + sample * list + n, at + sample * list + n, v, a, v_nonzero(v));
        }
        count[sample * count_step] = (uint32_t)n;
    }
}

/* Lists of one filter over all windows; adds to its bias gradient. */
static void list_filter(const pool_call *call, uint32_t filter, uint32_t slot, const float *dy, const uint8_t *arg)
{
    const iso_conv *c = call->c;
    const iso_conv_pool_scratch *s = &call->s;
    int32_t right = (int32_t)(c->stride * c->channels), down = (int32_t)(c->stride * call->width);
    float value_tile[256] __attribute__((aligned(64))), at_tile[256] __attribute__((aligned(64)));
    uint32_t row = 0, column = 0;
    dy += filter * call->pooled * 16;
    arg += filter * call->pooled * 16;
    for (size_t sample = 0; sample < 16; sample++)
        s->count[sample * s->filters + slot] = 0;
    for (size_t first = 0; first < call->pooled; first += 16) {
        size_t n = call->pooled - first < 16 ? call->pooled - first : 16;
        if (n < 16)
            memset(value_tile, 0, sizeof value_tile);
        for (size_t i = 0; i < n; i++, dy += 16, arg += 16) {
            vi base = i_set((int32_t)(2 * row) * down + (int32_t)(2 * column) * right);
            for (size_t part = 0; part < 16; part += VL) {
                vi where = i_load_u8(arg + part);
                vf v = pooled_gradient(dy + part, where), bias = v_load(s->bias + filter * 16 + part);
                v_store(s->bias + filter * 16 + part, v_add(bias, v));
                v_store(value_tile + 16 * i + part, v);
                v_store(at_tile + 16 * i + part, v_bits(i_add(base, i_add(when(where, 1, right), when(where, 2, down)))));
            }
            if (++column == call->pooled_columns) {
                column = 0;
                row++;
            }
        }
        append_lists(value_tile, at_tile, s->value + slot * s->list, s->at + slot * s->list, s->filters * s->list,
                     s->count + slot, s->filters);
    }
}

/* ---- weights ---------------------------------------------------------------------------------------------------------------- */

/* One sample's list of one filter. */
static void add_patches(const pool_call *call, uint32_t sample, uint32_t filter, uint32_t slot, bool fresh)
{
    const iso_conv *c = call->c;
    const iso_conv_pool_scratch *s = &call->s;
    size_t list = (sample * (size_t)s->filters + slot) * s->list;
    add_list(c, (patch_sum){.n = s->count[sample * s->filters + slot], .value = s->value + list, .at = s->at + list,
                            .x = s->x + sample * s->sample, .x_row = call->width, .to_row = s->row, .fresh = fresh,
                            .sums = s->sums + (sample * (size_t)c->filters + filter) * c->kernel_rows * s->row});
}

/* tree16 over the samples, and [r][s][c] -> [c][r][s]. */
static void gather_weights(const pool_call *call, float *dw, float *db)
{
    const iso_conv *c = call->c;
    const iso_conv_pool_scratch *s = &call->s;
    size_t one = (size_t)c->filters * c->kernel_rows * s->row;
    float *sums = s->sums;
    for (size_t i = 0; i < one; i += VL) {
#define ISO_PAIR(l) v_add(v_load(sums + (l) * one + i), v_load(sums + ((l) + 8) * one + i))
        vf s0 = v_add(ISO_PAIR(0), ISO_PAIR(4)), s1 = v_add(ISO_PAIR(1), ISO_PAIR(5));
        vf s2 = v_add(ISO_PAIR(2), ISO_PAIR(6)), s3 = v_add(ISO_PAIR(3), ISO_PAIR(7));
#undef ISO_PAIR
        v_store(sums + i, v_add(v_add(s0, s2), v_add(s1, s3)));
    }
    for (uint32_t f = 0; f < c->filters; f++) {
        for (uint32_t channel = 0; channel < c->channels; channel++)
            for (uint32_t r = 0; r < c->kernel_rows; r++)
                for (uint32_t k = 0; k < c->kernel_columns; k++)
                    *dw++ = sums[(f * (size_t)c->kernel_rows + r) * s->row + k * (size_t)c->channels + channel];
        db[f] = tree16(s->bias + f * 16);
    }
}

/* ---- data ------------------------------------------------------------------------------------------------------------------- */

/* Lists of one window: value and weights of every filter it has, upper row and lower row apart. */
static void list_window(const pool_call *call, size_t window, const float *dy, const uint8_t *arg, uint32_t *count)
{
    const iso_conv *c = call->c;
    const iso_conv_pool_scratch *s = &call->s;
    size_t weights = c->kernel_rows * s->frame;
    int32_t shifted = (int32_t)(c->filters * weights);
    float upper[256] __attribute__((aligned(64))), lower[256] __attribute__((aligned(64)));
    float at[256] __attribute__((aligned(64)));
    memset(count, 0, 32 * sizeof *count);
    for (uint32_t first = 0; first < c->filters; first += 16) {
        uint32_t n = c->filters - first < 16 ? c->filters - first : 16;
        if (n < 16) {
            memset(upper, 0, sizeof upper);
            memset(lower, 0, sizeof lower);
        }
        for (uint32_t i = 0; i < n; i++) {
            size_t from = ((first + i) * call->pooled + window) * 16;
            for (size_t part = 0; part < 16; part += VL) {
                vi where = i_load_u8(arg + from + part);
                vf v = pooled_gradient(dy + from + part, where);
                vm below = i_eq(i_and(where, i_set(2)), i_set(2));
                v_store(upper + 16 * i + part, v_select(below, v_zero(), v));
                v_store(lower + 16 * i + part, v_select(below, v, v_zero()));
                v_store(at + 16 * i + part, v_bits(i_add(i_set((int32_t)((first + i) * weights)), when(where, 1, shifted))));
            }
        }
        append_lists(upper, at, s->value, s->at, s->near, count, 1);
        append_lists(lower, at, s->value + 16 * s->near, s->at + 16 * s->near, s->near, count + 16, 1);
    }
}

static void data_gradient(const pool_call *call, float *dx, const float *dy, const uint8_t *arg)
{
    const iso_conv *c = call->c;
    const iso_conv_pool_scratch *s = &call->s;
    uint32_t count[32];
    memset(s->dx, 0, 16 * s->sample * sizeof *s->dx);
    frame_sum f = {.frames = s->frames, .w_row = s->frame, .dx_row = call->width};
    for (uint32_t row = 0; row < call->pooled_rows; row++) {
        for (uint32_t column = 0; column < call->pooled_columns; column++) {
            list_window(call, (size_t)row * call->pooled_columns + column, dy, arg, count);
            size_t place = 2 * c->stride * (row * call->width + column * (size_t)c->channels);
            for (size_t sample = 0; sample < 16; sample++) {
                f.n[0] = count[sample];
                f.n[1] = count[16 + sample];
                for (size_t half = 0; half < 2; half++) {
                    f.value[half] = s->value + (16 * half + sample) * s->near;
                    f.at[half] = s->at + (16 * half + sample) * s->near;
                }
                f.dx = s->dx + sample * s->sample + place;
                add_frame(c, &f, s->frame);
            }
        }
    }
    rows_to_samples(call, dx);
}

void ISO_K(conv_pool_backward)(const iso_conv *c, uint32_t groups, float *dx, float *dw, float *db, const float *x,
                               const float *dy, const uint8_t *arg, const float *w, void *scratch)
{
    pool_call call = {.c = c, .s = iso_conv_pool_layout(c, scratch), .pooled_rows = c->out_rows / 2,
                      .pooled_columns = c->out_columns / 2};
    call.pooled = (size_t)call.pooled_rows * call.pooled_columns;
    call.width = (c->columns + 2 * (size_t)c->pad_columns) * c->channels;
    call.x_pixels = (c->rows + 2 * (size_t)c->pad_rows) * (c->columns + 2 * (size_t)c->pad_columns);
    memset(call.s.bias, 0, 16 * (size_t)c->filters * sizeof *call.s.bias);
    if (dx != NULL)
        make_frames(c, call.s.frames, call.s.frame, w);
    for (uint32_t g = 0; g < groups; g++) {
        const float *dy_group = dy + g * c->y_group;
        const uint8_t *arg_group = arg + g * c->y_group;
        samples_to_rows(&call, x + g * c->x_group);
        for (uint32_t first = 0; first < c->filters; first += call.s.filters) {
            uint32_t n = c->filters - first < call.s.filters ? c->filters - first : call.s.filters;
            for (uint32_t i = 0; i < n; i++)
                list_filter(&call, first + i, i, dy_group, arg_group);
            for (uint32_t sample = 0; sample < 16; sample++)
                for (uint32_t i = 0; i < n; i++)
                    add_patches(&call, sample, first + i, i, g == 0);
        }
        if (dx != NULL)
            data_gradient(&call, dx + g * c->dx_group, dy_group, arg_group);
    }
    gather_weights(&call, dw, db);
}

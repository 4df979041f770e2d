/* SPDX-License-Identifier: Apache-2.0
 * Convolution backward to its input: the forward tile on dy with channels in the place of filters.
 *
 * An input pixel is reached by the taps (r, s) with (pixel + pad - r) a multiple of the stride. Pixels of equal remainder (a
 * phase) share their taps, so each phase is an ordinary tile loop. dy gets zero columns at both sides and needs no column
 * limits; its rows are limited by the list of taps.
 */
#include "nn/kernel/isa/conv_tile.h"
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/scratch.h"

typedef struct data_ends {
    const float *from[CONV_PIXELS]; /* NULL: from 0 */
    float *to[CONV_PIXELS];
    size_t plane;
} data_ends;

#define ISO_D_START(p, m) vf c##m##_##p = e->from[p] == NULL ? v_zero() : v_load(e->from[p] + (m) * e->plane);
#define ISO_D_STORE(p, m) v_store(e->to[p] + (m) * e->plane, c##m##_##p);
#define ISO_D_ROW_START(m, x_) ISO_COLUMNS_4(ISO_D_START, m)
#define ISO_D_ROW_STORE(m, x_) ISO_COLUMNS_4(ISO_D_STORE, m)
#define ISO_DEFINE_DATA(M) \
    static void data_tile_##M(const conv_sum *s, const data_ends *e) \
    { \
        ISO_ROWS_##M(ISO_D_ROW_START, ~) \
        ISO_CONV_LOOP(M, const float *w_tap = w + s->w_at[k]) \
        ISO_ROWS_##M(ISO_D_ROW_STORE, ~) \
    }

ISO_DEFINE_DATA(1)
ISO_DEFINE_DATA(2)
ISO_DEFINE_DATA(3)
#if CONV_ROWS == 6
ISO_DEFINE_DATA(4)
ISO_DEFINE_DATA(5)
ISO_DEFINE_DATA(6)
static void (*const tiles[])(const conv_sum *, const data_ends *) = {data_tile_1, data_tile_2, data_tile_3,
                                                                     data_tile_4, data_tile_5, data_tile_6};
#else
static void (*const tiles[])(const conv_sum *, const data_ends *) = {data_tile_1, data_tile_2, data_tile_3};
#endif

/* One block of filters: their packed weights and the taps that are valid for the row at hand. */
typedef struct data_call {
    const iso_conv *c;
    size_t left, width;         /* zero columns before a row of dy; columns of a padded row */
    const float *padded;        /* [K][P][width][16] */
    uint32_t filter, filters;   /* the block */
    uint32_t rows;              /* channels of the tile */
    const float *packed;        /* [filters][R][S][rows] */
    uint32_t tap_first, tap_count; /* valid r: tap_first + i * stride, i < tap_count, as listed below */
    uint32_t listed_phase;
    size_t n;
    int32_t *x_at, *w_at;
} data_call;

/* dy with zero columns, one lane group. */
static void pad_columns(const data_call *call, float *padded, const float *dy)
{
    const iso_conv *c = call->c;
    size_t line = (size_t)c->out_columns * 16, right = call->width - call->left - c->out_columns;
    for (size_t row = 0; row < (size_t)c->filters * c->out_rows; row++, dy += line) {
        memset(padded, 0, call->left * 16 * sizeof *padded);
        memcpy(padded + call->left * 16, dy, line * sizeof *padded);
        memset(padded + call->left * 16 + line, 0, right * 16 * sizeof *padded);
        padded += call->width * 16;
    }
}

/* w [K][C][R][S] -> [filters][R][S][rows] for the block's filters and the tile's channels. */
static void pack_weights(const data_call *call, uint32_t channel, float *packed, const float *w)
{
    const iso_conv *c = call->c;
    size_t area = (size_t)c->kernel_rows * c->kernel_columns;
    for (uint32_t f = 0; f < call->filters; f++) {
        const float *from = w + ((size_t)(call->filter + f) * c->channels + channel) * area;
        for (size_t tap = 0; tap < area; tap++)
            for (uint32_t m = 0; m < call->rows; m++)
                *packed++ = from[m * area + tap];
    }
}

/* Lists taps in the order (filter, r, s). Offsets are from dy's padded pixel of tap r = tap_first, s = phase. */
static void list_taps(data_call *call, uint32_t tap_first, uint32_t tap_count, uint32_t phase)
{
    const iso_conv *c = call->c;
    if (call->n != 0 && call->tap_first == tap_first && call->tap_count == tap_count && call->listed_phase == phase)
        return;
    call->tap_first = tap_first;
    call->tap_count = tap_count;
    call->listed_phase = phase;
    size_t row = call->width * 16, plane = c->out_rows * row, n = 0;
    for (uint32_t f = 0; f < call->filters; f++) {
        for (uint32_t i = 0; i < tap_count; i++) {
            uint32_t r = tap_first + i * c->stride;
            for (uint32_t s = phase, j = 0; s < c->kernel_columns; s += c->stride, j++) {
                call->x_at[n] = (int32_t)(f * plane) - (int32_t)(i * row) - (int32_t)(j * 16);
                call->w_at[n++] = (int32_t)(((f * c->kernel_rows + r) * c->kernel_columns + s) * call->rows);
            }
        }
    }
    call->n = n;
}

/* The pixels of one phase in one row of dx. base: dy's padded row of tap_first, for the block's first filter. */
static void data_row(const data_call *call, float *dx, const float *base, uint32_t phase)
{
    const iso_conv *c = call->c;
    uint32_t stride = c->stride, start = (phase + stride - c->pad_columns % stride) % stride;
    conv_sum s = {.n = call->n, .x_at = call->x_at, .w = call->packed, .w_row = 1, .w_at = call->w_at};
    data_ends e = {.plane = (size_t)c->rows * c->columns * 16};
    for (uint32_t column = start; column < c->columns; column += CONV_PIXELS * stride) {
        for (uint32_t p = 0, at = column; p < CONV_PIXELS; p++) {
            s.x[p] = base + (call->left + (at + c->pad_columns) / stride) * 16;
            e.to[p] = dx + (size_t)at * 16;
            e.from[p] = call->filter == 0 ? NULL : e.to[p];
            if (at + stride < c->columns)
                at += stride;
        }
        tiles[call->rows - 1](&s, &e);
    }
}

/* All pixels of some channels from one block of filters. */
static void data_block(data_call *call, float *dx)
{
    const iso_conv *c = call->c;
    for (uint32_t row = 0; row < c->rows; row++) {
        uint32_t reach = row + c->pad_rows, r = reach % c->stride;
        /* dy's row is (reach - r) / stride: above the last one at first, below 0 at the end */
        while (r < c->kernel_rows && r <= reach && (reach - r) / c->stride >= c->out_rows)
            r += c->stride;
        uint32_t count = 0;
        while (r + count * c->stride < c->kernel_rows && r + count * c->stride <= reach)
            count++;
        for (uint32_t phase = 0; phase < c->stride; phase++) {
            list_taps(call, r, count, phase);
            size_t line = count == 0 ? 0 : (reach - r) / c->stride;
            const float *base = call->padded + (call->filter * c->out_rows + line) * call->width * 16;
            for (size_t part = 0; part < 16; part += VL)
                data_row(call, dx + (size_t)row * c->columns * 16 + part, base + part, phase);
        }
    }
}

void ISO_K(conv_data)(const iso_conv *c, uint32_t groups, float *dx, const float *dy, const float *w, void *scratch)
{
    iso_conv_data_scratch at = iso_conv_data_layout(c, scratch);
    data_call call = {.c = c, .left = at.left, .width = at.width, .padded = at.padded, .packed = at.packed};
    call.x_at = at.taps;
    call.w_at = at.taps + at.most_taps;
    uint32_t block = (uint32_t)(at.most_taps / ((size_t)c->kernel_rows * c->kernel_columns));
    for (uint32_t g = 0; g < groups; g++) {
        pad_columns(&call, at.padded, dy + g * c->y_group);
        for (uint32_t channel = 0; channel < c->channels; channel += call.rows) {
            call.rows = conv_rows_at(c->channels, channel);
            for (call.filter = 0; call.filter < c->filters; call.filter += block) {
                call.filters = c->filters - call.filter < block ? c->filters - call.filter : block;
                call.n = 0;
                pack_weights(&call, channel, at.packed, w);
                data_block(&call, dx + g * c->dx_group + (size_t)channel * c->rows * c->columns * 16);
            }
        }
    }
}

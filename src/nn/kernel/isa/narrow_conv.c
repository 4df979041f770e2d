/* SPDX-License-Identifier: Apache-2.0
 * Convolutions of few samples, forward and backward, lane = filter (backward to the input: channel). Weights are packed into panels
 * [outputs/16][taps][16]; a tile is 8 pixels by some registers of outputs, a pixel's values broadcast. Pixels come in pairs that
 * lie in one row; four pairs make a tile, from anywhere, or two pairs a pooling window and two windows a tile.
 */
#include "nn/kernel/isa/conv_tile.h"
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/narrow_image.h"
#include "nn/kernel/isa/narrow_pack.h"
#include "nn/kernel/isa/narrow_simd.h"
#include "nn/kernel/isa/repeat.h"
#include "nn/kernel/scratch.h"

#if defined ISO_ISA_avx512
#define COLUMNS 2
#else
#define COLUMNS 1
#endif
#define TAPS 8 /* of a tile of weight gradients */

typedef struct narrow_sum {
    size_t n;
    const int32_t *at;      /* [n] offsets of the taps from a pixel's own place */
    const float *x[4];      /* the first pixel of each pair */
    size_t o;               /* where the other one lies behind it */
    const float *w[2], *start[2];
    size_t keep[2];         /* outputs in each register */
    float *to[8];           /* pooled: to[0], to[1], the second NULL when there is one window */
    uint8_t *arg[2];
    bool relu;
    uint32_t have;          /* pairs gathered for the next tile */
} narrow_sum;

#define ISO_X_AT_0 p0[0]
#define ISO_X_AT_1 p0[o]
#define ISO_X_AT_2 p1[0]
#define ISO_X_AT_3 p1[o]
#define ISO_X_AT_4 p2[0]
#define ISO_X_AT_5 p2[o]
#define ISO_X_AT_6 p3[0]
#define ISO_X_AT_7 p3[o]
#define ISO_X_START(v, m) vf c##m##_##v = v_load(s->start[v]);
#define ISO_X_POINTER(v, x_) const float *w##v = s->w[v];
#define ISO_X_LOAD(v, x_) vf col##v = v_load(w##v); w##v += 16;
#define ISO_X_FMA(v, m) c##m##_##v = v_fma(row##m, col##v, c##m##_##v);
#define ISO_X_STORE(v, m) v_store_part(s->to[m] + (v) * VL, s->relu ? v_relu(c##m##_##v) : c##m##_##v, s->keep[v]);
#define ISO_X_ROW_START(m, N) ISO_COLUMNS_##N(ISO_X_START, m)
#define ISO_X_ROW_FMA(m, N) vf row##m = v_set(ISO_X_AT_##m); ISO_COLUMNS_##N(ISO_X_FMA, m)
#define ISO_X_ROW_STORE(m, N) ISO_COLUMNS_##N(ISO_X_STORE, m)
#define ISO_X_POOL(v, x_) \
    if (s->to[1] != NULL) \
        pool_window(c4_##v, c5_##v, c6_##v, c7_##v, s->to[1] + (v) * VL, s->arg[1] + (v) * VL, s->keep[v]); \
    pool_window(c0_##v, c1_##v, c2_##v, c3_##v, s->to[0] + (v) * VL, s->arg[0] + (v) * VL, s->keep[v]);

#define ISO_X_LOOP(N) \
    ISO_ROWS_8(ISO_X_ROW_START, N) \
    { \
        const float *x0 = s->x[0], *x1 = s->x[1], *x2 = s->x[2], *x3 = s->x[3]; \
        const size_t o = s->o, n = s->n; \
        const int32_t *at = s->at; \
        ISO_COLUMNS_##N(ISO_X_POINTER, ~) \
        for (size_t k = 0; k < n; k++) { \
            const ptrdiff_t tap = at[k]; \
            const float *p0 = x0 + tap, *p1 = x1 + tap, *p2 = x2 + tap, *p3 = x3 + tap; \
            ISO_COLUMNS_##N(ISO_X_LOAD, ~) \
            ISO_ROWS_8(ISO_X_ROW_FMA, N) \
        } \
    }

ISO_INLINE void pool_window(vf a, vf b, vf c, vf d, float *y, uint8_t *arg, size_t keep)
{
    vi where;
    v_store_part(y, window_largest(a, b, c, d, &where), keep);
    i_store_u8(arg, where);
}

#define ISO_DEFINE_TILES(N) \
    static void store_##N(const narrow_sum *s) \
    { \
        ISO_X_LOOP(N) \
        ISO_ROWS_8(ISO_X_ROW_STORE, N) \
    } \
    static void pool_##N(const narrow_sum *s) \
    { \
        ISO_X_LOOP(N) \
        ISO_COLUMNS_##N(ISO_X_POOL, ~) \
    }
ISO_DEFINE_TILES(1)
#if COLUMNS == 2
ISO_DEFINE_TILES(2)
static void (*const store_tiles[])(const narrow_sum *) = {store_1, store_2}, (*const pool_tiles[])(const narrow_sum *) = {pool_1, pool_2};
#else
static void (*const store_tiles[])(const narrow_sum *) = {store_1}, (*const pool_tiles[])(const narrow_sum *) = {pool_1};
#endif

/* ---- registers of outputs ------------------------------------------------------------------------------------------------- */

static const float zeros[16] __attribute__((aligned(64)));

ISO_INLINE size_t registers_of(size_t outputs) { return (outputs + VL - 1) / VL; }

/* Registers [first, first + count) of panels of `taps` taps. start: a value an output, or NULL for 0. */
static void set_registers(narrow_sum *s, size_t first, size_t count, size_t outputs, size_t taps, const float *packed,
                          const float *start)
{
    for (size_t v = 0; v < count; v++) {
        size_t output = (first + v) * VL;
        s->w[v] = packed + output / 16 * taps * 16 + output % 16;
        s->start[v] = start == NULL ? zeros : start + output;
        s->keep[v] = outputs - output < VL ? outputs - output : VL;
    }
}

/* ---- pixels in pairs ---------------------------------------------------------------------------------------------------------- */

/* Runs a tile that is not full with its first pair again. */
static void flush_pairs(narrow_sum *s, size_t registers)
{
    if (s->have == 0)
        return;
    for (uint32_t i = s->have; i < 4; i++) {
        s->x[i] = s->x[0];
        s->to[2 * i] = s->to[0];
        s->to[2 * i + 1] = s->to[1];
    }
    store_tiles[registers - 1](s);
    s->have = 0;
}

/* One row of `columns` pixels, x_step and to_step apart. The last pair overlaps the one before; a single pixel is a pair with itself. */
static void row_of_pairs(narrow_sum *s, size_t registers, const float *x, size_t x_step, float *to, size_t to_step, size_t columns)
{
    s->o = columns == 1 ? 0 : x_step;
    for (size_t j = 0; j < columns; j += 2) {
        size_t first = j + 2 <= columns || columns == 1 ? j : columns - 2;
        s->x[s->have] = x + first * x_step;
        s->to[2 * s->have] = to + first * to_step;
        s->to[2 * s->have + 1] = columns == 1 ? to : to + (first + 1) * to_step;
        if (++s->have == 4)
            flush_pairs(s, registers);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------------------------------ */

static void pool_pixels(const iso_conv *c, narrow_sum *s, size_t registers, float *y, uint8_t *arg, const float *x, size_t width)
{
    size_t rows = c->out_rows / 2, columns = c->out_columns / 2, step = (size_t)c->stride * c->channels;
    uint32_t have = 0;
    s->o = step;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            const float *upper = x + 2 * (i * c->stride * width + j * step);
            s->x[2 * have] = upper;
            s->x[2 * have + 1] = upper + c->stride * width;
            s->to[have] = y + (i * columns + j) * c->filters;
            s->arg[have] = arg + (i * columns + j) * iso_round16(c->filters);
            if (++have == 2) {
                pool_tiles[registers - 1](s);
                have = 0;
            }
        }
    }
    if (have != 0) {
        s->x[2] = s->x[0];
        s->x[3] = s->x[1];
        s->to[1] = NULL;
        pool_tiles[registers - 1](s);
    }
}

/* k = (c, r, s) */
static void list_taps(const iso_conv *c, int32_t *at, size_t width)
{
    for (uint32_t channel = 0; channel < c->channels; channel++)
        for (uint32_t r = 0; r < c->kernel_rows; r++)
            for (uint32_t k = 0; k < c->kernel_columns; k++)
                *at++ = (int32_t)(r * width + (size_t)k * c->channels + channel);
}

void ISO_K(narrow_conv_forward)(const iso_conv *c, uint32_t n, float *y, uint8_t *arg, const float *x, const float *w,
                                const float *bias, bool relu, void *scratch)
{
    iso_narrow_conv_places at = iso_narrow_conv_layout(c, n, scratch);
    size_t taps = (size_t)c->channels * c->kernel_rows * c->kernel_columns, total = registers_of(c->filters);
    size_t width = (c->columns + 2 * (size_t)c->pad_columns) * c->channels, step = (size_t)c->stride * c->channels;
    size_t x_sample = iso_narrow_row(iso_narrow_conv_in(c)), y_sample = iso_narrow_row(iso_narrow_conv_out(c, arg != NULL));
    list_taps(c, at.taps, width);
    if (arg != NULL && narrow_image_fits(c)) {
        for (uint32_t i = 0; i < n; i++)
            ISO_K(narrow_image)(c, y + i * y_sample, arg + i * iso_narrow_conv_arg(c), x + i * x_sample, w, bias, at.taps);
        return;
    }
    for (size_t f = 0; f < c->filters; f += 16)
        pack_lanes(at.packed + f * taps, w + f * taps, taps, c->filters - f < 16 ? c->filters - f : 16, taps);
    narrow_sum s = {.n = taps, .at = at.taps, .relu = relu};
    for (size_t first = 0; first < total; first += COLUMNS) {
        size_t count = total - first < COLUMNS ? total - first : COLUMNS;
        set_registers(&s, first, count, c->filters, taps, at.packed, bias);
        for (uint32_t i = 0; i < n; i++) {
            const float *from = x + i * x_sample;
            float *to = y + i * y_sample + first * VL;
            if (arg != NULL) {
                pool_pixels(c, &s, count, to, arg + i * iso_narrow_conv_arg(c) + first * VL, from, width);
                continue;
            }
            for (size_t row = 0; row < c->out_rows; row++)
                row_of_pairs(&s, count, from + row * c->stride * width, step, to + row * c->out_columns * c->filters, c->filters,
                             c->out_columns);
            flush_pairs(&s, count);
        }
    }
}

/* ---- backward to the input ----------------------------------------------------------------------------------------------------- */

/* Pixels (i, j) with (i + pad) % stride = down and (j + pad) % stride = right share their taps. Packs those, k = (f, r, s), and lists
 * their offsets from the padded dy at tap (down, right). Returns how many there are. */
static size_t pack_phase(const iso_conv *c, const iso_narrow_conv_places *at, uint32_t down, uint32_t right, const float *w)
{
    size_t area = (size_t)c->kernel_rows * c->kernel_columns, n = 0;
    size_t rows = c->kernel_rows > down ? (c->kernel_rows - 1 - down) / c->stride + 1 : 0;
    size_t columns = c->kernel_columns > right ? (c->kernel_columns - 1 - right) / c->stride + 1 : 0, taps = c->filters * rows * columns;
    for (size_t f = 0; f < c->filters; f++)
        for (size_t t = 0; t < rows; t++)
            for (size_t u = 0; u < columns; u++)
                at->taps[n++] = (int32_t)f - (int32_t)((t * at->width + u) * c->filters);
    for (size_t channel = 0; channel < c->channels; channel += 16) {
        float *to = at->packed + channel * taps;
        size_t lanes = c->channels - channel < 16 ? c->channels - channel : 16;
        for (size_t f = 0; f < c->filters; f++) {
            const float *from = w + (f * c->channels + channel) * area;
            if (c->stride == 1) {
                pack_lanes(to, from, area, lanes, area);
                to += area * 16;
                continue;
            }
            for (size_t t = 0; t < rows; t++)
                for (size_t u = 0; u < columns; u++, to += 16)
                    pack_lanes(to, from + (down + t * c->stride) * c->kernel_columns + right + u * c->stride, area, lanes, 1);
        }
    }
    return taps;
}

static void pad_dy(const iso_conv *c, const iso_narrow_conv_places *at, const float *dy)
{
    size_t line = (size_t)c->out_columns * c->filters, full = at->width * c->filters;
    memset(at->padded, 0, at->height * full * sizeof *dy);
    for (size_t p = 0; p < c->out_rows; p++)
        memcpy(at->padded + (at->top + p) * full + at->left * c->filters, dy + p * line, line * sizeof *dy);
}

static void data_phase(const iso_conv *c, const iso_narrow_conv_places *at, uint32_t down, uint32_t right, float *dx, size_t taps)
{
    size_t total = registers_of(c->channels), filters = c->filters, stride = c->stride;
    size_t first_row = (down + stride - c->pad_rows % stride) % stride, first_column = (right + stride - c->pad_columns % stride) % stride;
    if (first_row >= c->rows || first_column >= c->columns)
        return;
    size_t columns = (c->columns - 1 - first_column) / stride + 1;
    narrow_sum s = {.n = taps, .at = at->taps};
    for (size_t first = 0; first < total; first += COLUMNS) {
        size_t count = total - first < COLUMNS ? total - first : COLUMNS;
        set_registers(&s, first, count, c->channels, taps, at->packed, NULL);
        for (size_t row = first_row; row < c->rows; row += stride) {
            size_t line = at->top + (row + c->pad_rows) / stride, column = at->left + (first_column + c->pad_columns) / stride;
            row_of_pairs(&s, count, at->padded + (line * at->width + column) * filters, filters,
                         dx + (row * c->columns + first_column) * c->channels + first * VL, stride * c->channels, columns);
        }
        flush_pairs(&s, count);
    }
}

static void data_gradient(const iso_conv *c, const iso_narrow_conv_places *at, uint32_t n, float *dx, const float *dy, const float *w)
{
    size_t dx_sample = iso_narrow_row((size_t)c->rows * c->columns * c->channels);
    size_t dy_sample = iso_narrow_row(iso_narrow_conv_out(c, false));
    for (uint32_t down = 0; down < c->stride; down++) {
        for (uint32_t right = 0; right < c->stride; right++) {
            size_t taps = pack_phase(c, at, down, right, w);
            for (uint32_t i = 0; i < n; i++) {
                pad_dy(c, at, dy + i * dy_sample);
                data_phase(c, at, down, right, dx + i * dx_sample, taps);
            }
        }
    }
}

/* ---- weights -------------------------------------------------------------------------------------------------------------------- */

typedef struct narrow_weights {
    const float *x, *dy;       /* dy: the first register of filters */
    size_t at[TAPS];           /* offsets of the taps */
    size_t rows, columns;
    size_t x_row, x_step, filters;
    float *to[2];              /* [TAPS][16] of each register */
} narrow_weights;

#define ISO_W_START(v, m) vf c##m##_##v = v_zero();
#define ISO_W_LOAD(v, x_) vf col##v = v_load(dy + (v) * VL);
#define ISO_W_FMA(v, m) c##m##_##v = v_fma(row##m, col##v, c##m##_##v);
#define ISO_W_STORE(v, m) v_store(s->to[v] + (m) * 16, c##m##_##v);
#define ISO_W_ROW_PLACE(m, N) const size_t at##m = s->at[m];
#define ISO_W_ROW_START(m, N) ISO_COLUMNS_##N(ISO_W_START, m)
#define ISO_W_ROW_FMA(m, N) vf row##m = v_set(x[at##m]); ISO_COLUMNS_##N(ISO_W_FMA, m)
#define ISO_W_ROW_STORE(m, N) ISO_COLUMNS_##N(ISO_W_STORE, m)
#define ISO_DEFINE_WEIGHTS(N) \
    static void weights_##N(const narrow_weights *s) \
    { \
        const float *dy = s->dy; \
        ISO_ROWS_8(ISO_W_ROW_PLACE, N) \
        ISO_ROWS_8(ISO_W_ROW_START, N) \
        for (size_t i = 0; i < s->rows; i++) { \
            const float *x = s->x + i * s->x_row; \
            for (size_t j = s->columns; j != 0; j--, x += s->x_step, dy += s->filters) { \
                ISO_COLUMNS_##N(ISO_W_LOAD, ~) \
                ISO_ROWS_8(ISO_W_ROW_FMA, N) \
            } \
        } \
        ISO_ROWS_8(ISO_W_ROW_STORE, N) \
    }
ISO_DEFINE_WEIGHTS(1)
#if COLUMNS == 2
ISO_DEFINE_WEIGHTS(2)
static void (*const weights_tiles[])(const narrow_weights *) = {weights_1, weights_2};
#else
static void (*const weights_tiles[])(const narrow_weights *) = {weights_1};
#endif

/* One sample: sums [K/16][taps][16] and bias [round16(K)]. */
static void weight_sums(const iso_conv *c, const int32_t *at, float *sums, float *bias, const float *x, const float *dy)
{
    size_t taps = (size_t)c->channels * c->kernel_rows * c->kernel_columns, total = registers_of(c->filters);
    size_t pixels = (size_t)c->out_rows * c->out_columns, width = (c->columns + 2 * (size_t)c->pad_columns) * c->channels;
    float tile[2 * TAPS * 16] __attribute__((aligned(64)));
    narrow_weights s = {.x = x, .rows = c->out_rows, .columns = c->out_columns, .x_row = c->stride * width,
                        .x_step = (size_t)c->stride * c->channels, .filters = c->filters, .to = {tile, tile + TAPS * 16}};
    for (size_t first = 0; first < total; first += COLUMNS) {
        size_t count = total - first < COLUMNS ? total - first : COLUMNS;
        s.dy = dy + first * VL;
        for (size_t tap = 0; tap < taps; tap += TAPS) {
            for (size_t t = 0; t < TAPS; t++)
                s.at[t] = (size_t)at[tap + t < taps ? tap + t : taps - 1];
            weights_tiles[count - 1](&s);
            for (size_t v = 0; v < count; v++) {
                size_t output = (first + v) * VL;
                float *to = sums + (output / 16 * taps + tap) * 16 + output % 16;
                for (size_t t = 0; t < TAPS && tap + t < taps; t++)
                    v_store(to + t * 16, v_load(s.to[v] + t * 16));
            }
        }
    }
    for (size_t v = 0; v < total; v++) {
        vf chain = v_zero();
        for (size_t i = 0; i < pixels; i++)
            chain = v_add(chain, v_load(dy + i * c->filters + v * VL));
        v_store(bias + v * VL, chain);
    }
}

void ISO_K(narrow_conv_backward)(const iso_conv *c, uint32_t n, float *dx, float *dw, float *db, const float *x, const float *dy,
                                 const float *w, void *scratch)
{
    iso_narrow_conv_places at = iso_narrow_conv_layout(c, n, scratch);
    size_t taps = (size_t)c->channels * c->kernel_rows * c->kernel_columns, filters = iso_round16(c->filters);
    size_t x_sample = iso_narrow_row(iso_narrow_conv_in(c)), dy_sample = iso_narrow_row(iso_narrow_conv_out(c, false));
    list_taps(c, at.taps, (c->columns + 2 * (size_t)c->pad_columns) * c->channels);
    for (uint32_t i = 0; i < n; i++)
        weight_sums(c, at.taps, at.sums + i * at.sample, at.bias + i * filters, x + i * x_sample, dy + i * dy_sample);
    ISO_K(narrow_tree)(at.sums, n, at.sample, filters * taps);
    ISO_K(narrow_tree)(at.bias, n, filters, filters);
    for (size_t f = 0; f < c->filters; f += 16)
        unpack_lanes(dw + f * taps, at.sums + f * taps, taps, c->filters - f < 16 ? c->filters - f : 16, taps);
    memcpy(db, at.bias, c->filters * sizeof *db);
    if (dx != NULL)
        data_gradient(c, &at, n, dx, dy, w);
}

/* SPDX-License-Identifier: Apache-2.0
 * Convolution forward: alone or with ReLU, or with ReLU and 2x2 max pooling while the window is still in registers.
 */
#include "nn/kernel/isa/conv_tile.h"
#include "nn/kernel/isa/isa.h"

/* Where a tile's accumulators start and end. bias NULL: they are read from `part` (the sums of an earlier block of taps). */
typedef struct conv_ends {
    const float *bias;
    const float *part[CONV_PIXELS];
    float *y[CONV_PIXELS];
    size_t part_plane, y_plane;  /* floats between filters */
    bool relu;
    uint8_t *arg;    /* pooled: y[0] and arg are one pooled value */
} conv_ends;

#define ISO_C_START(p, m) vf c##m##_##p = e->bias != NULL ? v_set(e->bias[m]) : v_load(e->part[p] + (m) * e->part_plane);
#define ISO_C_STORE(p, m) v_store(e->y[p] + (m) * e->y_plane, e->relu ? v_relu(c##m##_##p) : c##m##_##p);
#define ISO_C_ROW_START(m, x_) ISO_COLUMNS_4(ISO_C_START, m)
#define ISO_C_ROW_STORE(m, x_) ISO_COLUMNS_4(ISO_C_STORE, m)
#define ISO_C_ROW_POOL(m, x_) \
    pool_window(c##m##_0, c##m##_1, c##m##_2, c##m##_3, e->y[0] + (m) * e->y_plane, e->arg + (m) * e->y_plane);

ISO_INLINE void pool_window(vf a, vf b, vf c, vf d, float *y, uint8_t *arg)
{
    vi where;
    v_store(y, window_largest(a, b, c, d, &where));
    i_store_u8(arg, where);
}

#define ISO_DEFINE_CONV(M) \
    static void conv_store_##M(const conv_sum *s, const conv_ends *e) \
    { \
        ISO_ROWS_##M(ISO_C_ROW_START, ~) \
        ISO_CONV_LOOP(M, const float *w_tap = w + k) \
        ISO_ROWS_##M(ISO_C_ROW_STORE, ~) \
    } \
    static void conv_pool_##M(const conv_sum *s, const conv_ends *e) \
    { \
        ISO_ROWS_##M(ISO_C_ROW_START, ~) \
        ISO_CONV_LOOP(M, const float *w_tap = w + k) \
        ISO_ROWS_##M(ISO_C_ROW_POOL, ~) \
    }

typedef void conv_tile(const conv_sum *, const conv_ends *);
ISO_DEFINE_CONV(1)
ISO_DEFINE_CONV(2)
ISO_DEFINE_CONV(3)
#if CONV_ROWS == 6
ISO_DEFINE_CONV(4)
ISO_DEFINE_CONV(5)
ISO_DEFINE_CONV(6)
static conv_tile *const store_tiles[] = {conv_store_1, conv_store_2, conv_store_3, conv_store_4, conv_store_5, conv_store_6};
static conv_tile *const pool_tiles[] = {conv_pool_1, conv_pool_2, conv_pool_3, conv_pool_4, conv_pool_5, conv_pool_6};
#else
static conv_tile *const store_tiles[] = {conv_store_1, conv_store_2, conv_store_3};
static conv_tile *const pool_tiles[] = {conv_pool_1, conv_pool_2, conv_pool_3};
#endif

/* What all tiles of one call share. */
typedef struct conv_call {
    const iso_conv *c;
    size_t taps, x_row, x_plane; /* taps of a filter; floats of a bordered row and plane */
    const float *w, *bias;
    bool relu;
} conv_call;

/* Offsets of taps [first, first + count), k = (c, r, s). */
static void list_taps(const conv_call *call, size_t first, size_t count, int32_t *at)
{
    const iso_conv *c = call->c;
    size_t area = (size_t)c->kernel_rows * c->kernel_columns, channel = first / area;
    size_t r = first % area / c->kernel_columns, s = first % c->kernel_columns;
    for (size_t i = 0; i < count; i++) {
        at[i] = (int32_t)(channel * call->x_plane + r * call->x_row + s * 16);
        if (++s == c->kernel_columns) {
            s = 0;
            if (++r == c->kernel_rows) {
                r = 0;
                channel++;
            }
        }
    }
}

/* Filters [filter, filter + rows) at up to 4 pixels from `pixel` on; a short tile computes the last pixel more than once. */
static void store_pixels(const conv_call *call, conv_sum *s, uint32_t filter, uint32_t rows, size_t pixel, size_t first, bool last,
                         float *y, const float *x)
{
    const iso_conv *c = call->c;
    size_t pixels = (size_t)c->out_rows * c->out_columns;
    conv_ends e = {.bias = first == 0 ? call->bias + filter : NULL,
                   .part_plane = pixels * 16, .y_plane = pixels * 16, .relu = last && call->relu};
    size_t row = pixel / c->out_columns, column = pixel % c->out_columns;
    for (size_t p = 0; p < CONV_PIXELS; p++) {
        s->x[p] = x + row * c->stride * call->x_row + column * c->stride * 16;
        e.y[p] = y + filter * e.y_plane + pixel * 16;
        e.part[p] = e.y[p];
        if (pixel + 1 < pixels) {
            pixel++;
            if (++column == c->out_columns) {
                column = 0;
                row++;
            }
        }
    }
    s->w = call->w + filter * call->taps + first;
    store_tiles[rows - 1](s, &e);
}

void ISO_K(conv_forward)(const iso_conv *c, uint32_t groups, float *y, const float *x, const float *w, const float *bias,
                         iso_act act)
{
    int32_t at[CONV_TAPS];
    conv_call call = {.c = c, .w = w, .bias = bias, .relu = act == ISO_ACT_RELU};
    call.taps = (size_t)c->channels * c->kernel_rows * c->kernel_columns;
    call.x_row = (c->columns + 2 * (size_t)c->pad_columns) * 16;
    call.x_plane = (c->rows + 2 * (size_t)c->pad_rows) * call.x_row;
    size_t pixels = (size_t)c->out_rows * c->out_columns;
    for (size_t first = 0; first < call.taps; first += CONV_TAPS) {
        size_t count = call.taps - first < CONV_TAPS ? call.taps - first : CONV_TAPS;
        bool last = first + count == call.taps;
        list_taps(&call, first, count, at);
        conv_sum s = {.n = count, .x_at = at, .w_row = call.taps};
        for (uint32_t g = 0; g < groups; g++) {
            for (uint32_t filter = 0, rows; filter < c->filters; filter += rows) {
                rows = conv_rows_at(c->filters, filter);
                for (size_t part = 0; part < 16; part += VL)
                    for (size_t pixel = 0; pixel < pixels; pixel += CONV_PIXELS)
                        store_pixels(&call, &s, filter, rows, pixel, first, last, y + g * c->y_group + part, x + g * c->x_group + part);
            }
        }
    }
}

/* One pooled pixel of some filters, over all taps: block after block, the sums in between kept in a small buffer. */
static void pool_pixel(const conv_call *call, const int32_t *at, uint32_t filter, uint32_t rows, float *y, uint8_t *arg,
                       const float *x)
{
    const iso_conv *c = call->c;
    float kept[CONV_ROWS * CONV_PIXELS * VL];
    int32_t later[CONV_TAPS];
    conv_sum s = {.x_at = at, .w_row = call->taps};
    for (size_t p = 0; p < CONV_PIXELS; p++)
        s.x[p] = x + p / 2 * c->stride * call->x_row + p % 2 * c->stride * 16;
    conv_ends e = {.bias = call->bias + filter, .part_plane = CONV_PIXELS * VL};
    size_t first = 0;
    for (; call->taps - first > CONV_TAPS; first += CONV_TAPS) {
        if (first != 0) {
            list_taps(call, first, CONV_TAPS, later);
            s.x_at = later;
        }
        s.n = CONV_TAPS;
        s.w = call->w + filter * call->taps + first;
        e.y_plane = CONV_PIXELS * VL;
        for (size_t p = 0; p < CONV_PIXELS; p++)
            e.y[p] = kept + p * VL;
        store_tiles[rows - 1](&s, &e);
        e.bias = NULL;
        for (size_t p = 0; p < CONV_PIXELS; p++)
            e.part[p] = kept + p * VL;
    }
    s.n = call->taps - first;
    s.w = call->w + filter * call->taps + first;
    if (first != 0) {
        list_taps(call, first, s.n, later);
        s.x_at = later;
    }
    e.y_plane = (size_t)(c->out_rows / 2) * (c->out_columns / 2) * 16;
    e.y[0] = y + filter * e.y_plane;
    e.arg = arg + filter * e.y_plane;
    pool_tiles[rows - 1](&s, &e);
}

void ISO_K(conv_pool_forward)(const iso_conv *c, uint32_t groups, float *y, uint8_t *arg, const float *x, const float *w,
                              const float *bias)
{
    int32_t at[CONV_TAPS];
    conv_call call = {.c = c, .w = w, .bias = bias};
    call.taps = (size_t)c->channels * c->kernel_rows * c->kernel_columns;
    call.x_row = (c->columns + 2 * (size_t)c->pad_columns) * 16;
    call.x_plane = (c->rows + 2 * (size_t)c->pad_rows) * call.x_row;
    list_taps(&call, 0, call.taps < CONV_TAPS ? call.taps : CONV_TAPS, at);
    uint32_t pooled_rows = c->out_rows / 2, pooled_columns = c->out_columns / 2;
    for (uint32_t g = 0; g < groups; g++) {
        for (uint32_t i = 0; i < pooled_rows; i++) {
            for (uint32_t j = 0; j < pooled_columns; j++) {
                size_t from = g * c->x_group + 2 * i * c->stride * call.x_row + 2 * j * c->stride * 16;
                size_t to = g * c->y_group + ((size_t)i * pooled_columns + j) * 16;
                for (size_t part = 0; part < 16; part += VL)
                    for (uint32_t filter = 0, rows; filter < c->filters; filter += rows) {
                        rows = conv_rows_at(c->filters, filter);
                        pool_pixel(&call, at, filter, rows, y + to + part, arg + to + part, x + from + part);
                    }
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * Backward through 2x2 max pooling, ReLU and a convolution at once, of few samples. As conv_pool.c, whose tiles it uses, but samples are
 * rows [pixel][channel] from the start and the filters of a pixel lie side by side.
 */
#include "nn/kernel/isa/conv_patch.h"
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/narrow_simd.h"
#include "nn/kernel/scratch.h"

typedef struct pool_call {
    const iso_conv *c;
    iso_narrow_conv_places at;
    size_t rows, columns;     /* of pooled pixels */
    size_t width;             /* floats of a row of a sample: (W + 2pc) C */
} pool_call;

/* A pooled pixel's gradients: 0 where cut, beyond the last filter, and where tiny. */
ISO_INLINE vf pooled_gradient(const float *dy, vi arg, vm there)
{
    vm alive = m_and(there, m_not(i_eq(arg, i_set((int32_t)ISO_POOL_DEAD))));
    return v_flush(v_select(alive, v_load(dy), v_zero()));
}

ISO_INLINE vi when(vi arg, int32_t bit, int32_t value)
{
    return i_select(i_eq(i_and(arg, i_set(bit)), i_set(bit)), i_set(value), i_set(0));
}

static const float ascending[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Lanes of filters from `first` on that there are. */
ISO_INLINE vm filters_there(const iso_conv *c, size_t first)
{
    return v_lt(v_load(ascending), v_set((float)(c->filters - first)));
}

/* ---- weights ---------------------------------------------------------------------------------------------------------------- */

/* One list a filter: what is not zero, and the place of its patch. */
static void list_filters(const pool_call *call, const float *dy, const uint8_t *arg)
{
    const iso_conv *c = call->c;
    size_t list = call->at.list;
    int32_t right = (int32_t)(c->stride * c->channels), down = (int32_t)(c->stride * call->width);
    float value[VL], place[VL];
    memset(call->at.count, 0, c->filters * sizeof *call->at.count);
    for (size_t row = 0; row < call->rows; row++) {
        for (size_t column = 0; column < call->columns; column++, dy += c->filters, arg += iso_round16(c->filters)) {
            vi base = i_set((int32_t)(2 * row) * down + (int32_t)(2 * column) * right);
            for (size_t first = 0; first < c->filters; first += VL) {
                vi where = i_load_u8(arg + first);
                size_t n = c->filters - first < VL ? c->filters - first : VL;
                v_store(value, pooled_gradient(dy + first, where, filters_there(c, first)));
                v_store(place, v_bits(i_add(base, i_add(when(where, 1, right), when(where, 2, down)))));
                for (size_t i = 0; i < n; i++) {
                    uint32_t *count = &call->at.count[first + i];
                    size_t to = (first + i) * list + *count;
                    call->at.value[to] = value[i];
                    memcpy(&call->at.at[to], &place[i], sizeof place[i]);
                    *count += value[i] != 0.0f;
                }
            }
        }
    }
}

/* One sample: sums [K][R][row] and bias [K]. */
static void weight_sums(const pool_call *call, float *sums, float *bias, const float *x)
{
    const iso_conv *c = call->c;
    for (size_t f = 0; f < c->filters; f++) {
        const float *value = call->at.value + f * call->at.list;
        add_list(c, (patch_sum){.n = call->at.count[f], .value = value, .at = call->at.at + f * call->at.list, .x = x,
                                .x_row = call->width, .to_row = call->at.row, .fresh = true,
                                .sums = sums + f * c->kernel_rows * call->at.row});
        float chain = 0.0f;
        for (size_t i = 0; i < call->at.count[f]; i++)
            chain += value[i];
        bias[f] = chain;
    }
}

/* [r][s][c] -> [c][r][s] */
static void gather_weights(const pool_call *call, float *dw)
{
    const iso_conv *c = call->c;
    for (size_t f = 0; f < c->filters; f++)
        for (size_t channel = 0; channel < c->channels; channel++)
            for (size_t r = 0; r < c->kernel_rows; r++)
                for (size_t k = 0; k < c->kernel_columns; k++)
                    *dw++ = call->at.sums[(f * c->kernel_rows + r) * call->at.row + k * c->channels + channel];
}

/* ---- data ------------------------------------------------------------------------------------------------------------------- */

/* Lists of one window: values and places in the frames of its filters, upper row and lower row apart. */
static void list_window(const pool_call *call, const float *dy, const uint8_t *arg, uint32_t *count)
{
    const iso_conv *c = call->c;
    size_t weights = c->kernel_rows * call->at.frame, near = call->at.near;
    int32_t shifted = (int32_t)(c->filters * weights);
    count[0] = count[1] = 0;
    for (size_t first = 0; first < c->filters; first += VL) {
        vi where = i_load_u8(arg + first);
        vf v = pooled_gradient(dy + first, where, filters_there(c, first));
        int32_t own[VL];
        for (size_t i = 0; i < VL; i++)
            own[i] = (int32_t)((first + i) * weights);
        vi at = i_add(i_bits(v_load((const float *)(const void *)own)), when(where, 1, shifted));
        vm below = i_eq(i_and(where, i_set(2)), i_set(2)), some = v_nonzero(v);
        count[0] += (uint32_t)v_keep(call->at.value + count[0], call->at.at + count[0], v, at, m_and(some, m_not(below)));
        count[1] += (uint32_t)v_keep(call->at.value + near + count[1], call->at.at + near + count[1], v, at, m_and(some, below));
    }
}

static void data_gradient(const pool_call *call, float *dx, const float *dy, const uint8_t *arg)
{
    const iso_conv *c = call->c;
    size_t near = call->at.near, line = (size_t)c->columns * c->channels;
    memset(call->at.dx, 0, (iso_narrow_conv_in(c) + call->at.frame) * sizeof *dx);
    frame_sum f = {.frames = call->at.frames, .w_row = call->at.frame, .dx_row = call->width,
                   .value = {call->at.value, call->at.value + near}, .at = {call->at.at, call->at.at + near}};
    for (size_t row = 0; row < call->rows; row++) {
        for (size_t column = 0; column < call->columns; column++, dy += c->filters, arg += iso_round16(c->filters)) {
            list_window(call, dy, arg, f.n);
            f.dx = call->at.dx + 2 * c->stride * (row * call->width + column * (size_t)c->channels);
            add_frame(c, &f, call->at.frame);
        }
    }
    for (size_t row = 0; row < c->rows; row++)
        memcpy(dx + row * line, call->at.dx + (row + c->pad_rows) * call->width + (size_t)c->pad_columns * c->channels, line * sizeof *dx);
}

void ISO_K(narrow_conv_pool_backward)(const iso_conv *c, uint32_t n, float *dx, float *dw, float *db, const float *x, const float *dy,
                                      const uint8_t *arg, const float *w, void *scratch)
{
    pool_call call = {.c = c, .at = iso_narrow_conv_layout(c, n, scratch), .rows = c->out_rows / 2, .columns = c->out_columns / 2,
                      .width = (c->columns + 2 * (size_t)c->pad_columns) * c->channels};
    size_t filters = iso_round16(c->filters), sums = iso_round16(c->filters * c->kernel_rows * call.at.row);
    size_t x_sample = iso_narrow_row(iso_narrow_conv_in(c)), dy_sample = iso_narrow_row(iso_narrow_conv_out(c, true));
    size_t dx_sample = iso_narrow_row((size_t)c->rows * c->columns * c->channels), arg_sample = iso_narrow_conv_arg(c);
    if (dx != NULL)
        make_frames(c, call.at.frames, call.at.frame, w);
    for (uint32_t i = 0; i < n; i++) {
        list_filters(&call, dy + i * dy_sample, arg + i * arg_sample);
        weight_sums(&call, call.at.sums + i * call.at.sample, call.at.bias + i * filters, x + i * x_sample);
        if (dx != NULL)
            data_gradient(&call, dx + i * dx_sample, dy + i * dy_sample, arg + i * arg_sample);
    }
    ISO_K(narrow_tree)(call.at.sums, n, call.at.sample, sums);
    ISO_K(narrow_tree)(call.at.bias, n, filters, filters);
    gather_weights(&call, dw);
    memcpy(db, call.at.bias, c->filters * sizeof *db);
}

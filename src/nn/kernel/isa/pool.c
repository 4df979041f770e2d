/* SPDX-License-Identifier: Apache-2.0
 * Pooling windows of any size and stride, sample = lane: a window is a loop over pixels, each a few registers.
 */
#include "nn/kernel/isa/isa.h"

void ISO_K(max_pool_forward)(const iso_pool *p, uint32_t groups, float *y, uint16_t *arg, const float *x)
{
    size_t plane = (size_t)p->rows * p->columns * 16;
    for (size_t channel = 0; channel < (size_t)groups * p->channels; channel++, x += plane) {
        for (uint32_t i = 0; i < p->out_rows; i++) {
            for (uint32_t j = 0; j < p->out_columns; j++, y += 16, arg += 16) {
                const float *window = x + ((size_t)i * p->stride_rows * p->columns + (size_t)j * p->stride_columns) * 16;
                for (size_t part = 0; part < 16; part += VL) {
                    vf best = v_load(window + part);
                    vi where = i_set(0);
                    for (uint32_t r = 0; r < p->window_rows; r++) {
                        for (uint32_t s = 0; s < p->window_columns; s++) {
                            vf value = v_load(window + ((size_t)r * p->columns + s) * 16 + part);
                            where = i_select(v_gt(value, best), i_set((int32_t)(r * p->window_columns + s)), where);
                            best = v_max(value, best);
                        }
                    }
                    v_store(y + part, best);
                    i_store_u16(arg + part, where);
                }
            }
        }
    }
}

void ISO_K(max_pool_backward)(const iso_pool *p, uint32_t groups, float *dx, const float *dy, const uint16_t *arg)
{
    size_t plane = (size_t)p->rows * p->columns * 16;
    memset(dx, 0, (size_t)groups * p->channels * plane * sizeof *dx);
    for (size_t channel = 0; channel < (size_t)groups * p->channels; channel++, dx += plane) {
        for (uint32_t i = 0; i < p->out_rows; i++) {
            for (uint32_t j = 0; j < p->out_columns; j++, dy += 16, arg += 16) {
                float *window = dx + ((size_t)i * p->stride_rows * p->columns + (size_t)j * p->stride_columns) * 16;
                for (size_t part = 0; part < 16; part += VL) {
                    vf d = v_load(dy + part);
                    vi where = i_load_u16(arg + part);
                    for (uint32_t r = 0; r < p->window_rows; r++) {
                        for (uint32_t s = 0; s < p->window_columns; s++) {
                            float *to = window + ((size_t)r * p->columns + s) * 16 + part;
                            vm here = i_eq(where, i_set((int32_t)(r * p->window_columns + s)));
                            v_store(to, v_add(v_load(to), v_select(here, d, v_zero())));
                        }
                    }
                }
            }
        }
    }
}

void ISO_K(average_pool_forward)(const iso_pool *p, uint32_t groups, float *y, const float *x, float factor)
{
    size_t plane = (size_t)p->rows * p->columns * 16;
    for (size_t channel = 0; channel < (size_t)groups * p->channels; channel++, x += plane) {
        for (uint32_t i = 0; i < p->out_rows; i++) {
            for (uint32_t j = 0; j < p->out_columns; j++, y += 16) {
                const float *window = x + ((size_t)i * p->stride_rows * p->columns + (size_t)j * p->stride_columns) * 16;
                for (size_t part = 0; part < 16; part += VL) {
                    vf sum = v_zero();
                    for (uint32_t r = 0; r < p->window_rows; r++)
                        for (uint32_t s = 0; s < p->window_columns; s++)
                            sum = v_add(sum, v_load(window + ((size_t)r * p->columns + s) * 16 + part));
                    v_store(y + part, v_mul(sum, v_set(factor)));
                }
            }
        }
    }
}

void ISO_K(average_pool_backward)(const iso_pool *p, uint32_t groups, float *dx, const float *dy, float factor)
{
    size_t plane = (size_t)p->rows * p->columns * 16;
    memset(dx, 0, (size_t)groups * p->channels * plane * sizeof *dx);
    for (size_t channel = 0; channel < (size_t)groups * p->channels; channel++, dx += plane) {
        for (uint32_t i = 0; i < p->out_rows; i++) {
            for (uint32_t j = 0; j < p->out_columns; j++, dy += 16) {
                float *window = dx + ((size_t)i * p->stride_rows * p->columns + (size_t)j * p->stride_columns) * 16;
                for (size_t part = 0; part < 16; part += VL) {
                    vf d = v_mul(v_load(dy + part), v_set(factor));
                    for (uint32_t r = 0; r < p->window_rows; r++) {
                        for (uint32_t s = 0; s < p->window_columns; s++) {
                            float *to = window + ((size_t)r * p->columns + s) * 16 + part;
                            v_store(to, v_add(v_load(to), d));
                        }
                    }
                }
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * Elementwise kernels: activations and their gradients from outputs, and one factor and offset a channel.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/transpose.h"
#include "nn/kernel/isa/vmath.h"

#define LECUN_A 1.7159f
#define LECUN_B 0.66666667f

#define ISO_MAP(expression) \
    for (size_t i = 0; i < n; i += VL) { \
        vf a = v_load(x + i); \
        v_store(y + i, (expression)); \
    }

void ISO_K(act_forward)(iso_act act, float slope, float *y, const float *x, size_t n)
{
    switch (act) {
    case ISO_ACT_NONE:
        if (y != x)
            memcpy(y, x, n * sizeof *y);
        break;
    case ISO_ACT_RELU:
        ISO_MAP(v_relu(a))
        break;
    case ISO_ACT_LEAKY_RELU:
        ISO_MAP(v_select(v_gt(a, v_zero()), a, v_mul(v_set(slope), a)))
        break;
    case ISO_ACT_SIGMOID:
        ISO_MAP(v_sigmoid(a))
        break;
    case ISO_ACT_TANH:
        ISO_MAP(v_tanh(a))
        break;
    case ISO_ACT_LECUN_TANH:
        ISO_MAP(v_mul(v_set(LECUN_A), v_tanh(v_mul(v_set(LECUN_B), a))))
        break;
    }
}

#define ISO_MAP2(expression) \
    for (size_t i = 0; i < n; i += VL) { \
        vf d = v_load(dy + i), v = v_load(y + i); \
        v_store(dx + i, v_flush(expression)); \
    }

void ISO_K(act_backward)(iso_act act, float slope, float *dx, const float *dy, const float *y, size_t n)
{
    const vf one = v_set(1.0f);
    switch (act) {
    case ISO_ACT_NONE:
        for (size_t i = 0; i < n; i += VL)
            v_store(dx + i, v_flush(v_load(dy + i)));
        break;
    case ISO_ACT_RELU:
        ISO_MAP2(v_select(v_gt(v, v_zero()), d, v_zero()))
        break;
    case ISO_ACT_LEAKY_RELU:
        ISO_MAP2(v_select(v_gt(v, v_zero()), d, v_mul(v_set(slope), d)))
        break;
    case ISO_ACT_SIGMOID: /* y (1 - y) */
        ISO_MAP2(v_mul(d, v_mul(v, v_sub(one, v))))
        break;
    case ISO_ACT_TANH: /* 1 - y^2 */
        ISO_MAP2(v_mul(d, v_sub(one, v_mul(v, v))))
        break;
    case ISO_ACT_LECUN_TANH: /* a b - (b / a) y^2 */
        ISO_MAP2(v_mul(d, v_fma(v_mul(v, v), v_set(-LECUN_B / LECUN_A), v_set(LECUN_A * LECUN_B))))
        break;
    }
}

void ISO_K(scale_forward)(float *y, const float *x, const float *a, const float *b, uint32_t groups, uint32_t channels,
                          uint32_t pixels)
{
    for (uint32_t g = 0; g < groups; g++) {
        for (uint32_t c = 0; c < channels; c++) {
            vf factor = v_set(a[c]), offset = v_set(b[c]);
            for (size_t i = 0; i < (size_t)pixels * 16; i += VL, x += VL, y += VL)
                v_store(y, v_fma(v_load(x), factor, offset));
        }
    }
}

void ISO_K(scale_backward)(float *dx, float *da, float *db, const float *dy, const float *x, const float *a, uint32_t groups,
                           uint32_t channels, uint32_t pixels)
{
    size_t plane = (size_t)pixels * 16, group = channels * plane;
    for (uint32_t c = 0; c < channels; c++) {
        float sum_a[16], sum_b[16];
        vf factor = v_set(a[c]);
        for (size_t part = 0; part < 16; part += VL) {
            vf chain_a = v_zero(), chain_b = v_zero();
            for (uint32_t g = 0; g < groups; g++) {
                for (size_t i = g * group + c * plane + part, end = i + plane; i < end; i += 16) {
                    vf d = v_load(dy + i);
                    chain_a = v_fma(d, v_load(x + i), chain_a);
                    chain_b = v_add(chain_b, d);
                    v_store(dx + i, v_flush(v_mul(d, factor)));
                }
            }
            v_store(sum_a + part, chain_a);
            v_store(sum_b + part, chain_b);
        }
        da[c] = tree16(sum_a);
        db[c] = tree16(sum_b);
    }
}

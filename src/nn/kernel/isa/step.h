/* SPDX-License-Identifier: Apache-2.0
 * The optimiser's step on VL values: from their summed gradient (integers) to the new weights and states.
 */
#ifndef ISO_NN_KERNEL_STEP_H
#define ISO_NN_KERNEL_STEP_H

#include "nn/kernel/isa/grid.h"
#include "nn/kernel/kernel.h"

ISO_INLINE vf v_flush_to(vf x, float least) { return v_select(v_lt(v_abs(x), v_set(least)), v_zero(), x); }

/* w, state: this register's values. kind and whether there is decay are constants of the caller's loop. */
ISO_INLINE void step_values(const iso_step *s, iso_optimizer_kind kind, float *w, float *state0, float *state1, vq sum, vm *bad)
{
    vf g = v_from_d(d_from_q(sum), s->scale, bad), weight = v_load(w);
    if (s->decay != 0.0f)
        g = v_fma(v_set(s->decay), weight, g);
    if (kind == ISO_ADAM) {
        vf m = v_fma(v_set(s->beta1), v_load(state0), v_mul(v_set(s->one_minus_beta1), g));
        vf v = v_fma(v_set(s->beta2), v_load(state1), v_mul(v_mul(v_set(s->one_minus_beta2), g), g));
        m = v_flush(m);
        v = v_flush_to(v, 0x1p-100f);
        v_store(state0, m);
        v_store(state1, v);
        vf root = v_sqrt(v_mul(v, v_set(s->inv_correction2)));
        weight = v_fma(v_set(-s->rate), v_div(m, v_add(root, v_set(s->epsilon))), weight);
    } else if (state0 == NULL) {
        weight = v_fma(v_set(-s->rate), g, weight);
    } else {
        vf v = v_flush(v_fma(v_set(s->momentum), v_load(state0), g));
        v_store(state0, v);
        vf direction = kind == ISO_NESTEROV ? v_fma(v_set(s->momentum), v, g) : v;
        weight = v_fma(v_set(-s->rate), direction, weight);
    }
    weight = v_flush_to(weight, 0x1p-100f);
    *bad = m_or(*bad, m_not(v_lt(v_abs(weight), v_set(__builtin_inff()))));
    v_store(w, weight);
}

/* Sum of several arrays at one place; each is set back to 0. */
ISO_INLINE vq take_sums(int64_t *const *sum, uint32_t count, size_t at)
{
    vq total = q_zero();
    for (uint32_t k = 0; k < count; k++) {
        total = q_add(total, q_load(sum[k] + at));
        q_store(sum[k] + at, q_zero());
    }
    return total;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The optimiser's step on VL values: from their summed gradient (integers) to the new weights and states.
 */
#ifndef ISO_NN_KERNEL_STEP_H
#define ISO_NN_KERNEL_STEP_H

#include "nn/kernel/isa/grid.h"
#include "nn/kernel/kernel.h"

ISO_INLINE vf v_flush_to(vf x, float least) { return v_select(v_lt(v_abs(x), v_set(least)), v_zero(), x); }

/* What a loop of steps has seen: the largest |gradient| and, by a NaN, whether a weight was not finite. */
typedef struct step_seen {
    vf largest, wrong;
} step_seen;

ISO_INLINE step_seen step_seen_none(void) { return (step_seen){v_zero(), v_zero()}; }

/* True when all sums were below 2^62 and all weights are finite. */
ISO_INLINE bool step_good(const iso_step *s, step_seen seen)
{
    vm good = m_and(v_lt(seen.largest, v_set((float)(0x1p62 * s->scale))), v_lt(v_abs(seen.wrong), v_set(1.0f)));
    return !m_any(m_not(good));
}

/* One register of values from their mean gradient g. kind is a constant of the caller's loop; state0 is NULL without momentum. s
 * lies where no store of the loop can reach it, so that its numbers stay in registers. bounded: g is known not to be too large. */
ISO_INLINE void step_gradient(const iso_step *s, iso_optimizer_kind kind, float *w, float *state0, float *state1, vf g, bool bounded,
                              step_seen *seen)
{
    vf weight = v_load(w), minus_rate = v_set(-s->rate);
    if (!bounded)
        seen->largest = v_max(v_abs(g), seen->largest);
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
        weight = v_fma(minus_rate, v_div(m, v_add(root, v_set(s->epsilon))), weight);
    } else if (state0 == NULL) {
        weight = v_fma(minus_rate, g, weight);
    } else {
        vf v = v_flush(v_fma(v_set(s->momentum), v_load(state0), g));
        v_store(state0, v);
        vf direction = kind == ISO_NESTEROV ? v_fma(v_set(s->momentum), v, g) : v;
        weight = v_fma(minus_rate, direction, weight);
    }
    weight = v_flush_to(weight, 0x1p-100f);
    seen->wrong = v_fma(weight, v_zero(), seen->wrong);
    v_store(w, weight);
}

/* The same from the sum of gradients on the grid. */
ISO_INLINE void step_values(const iso_step *s, iso_optimizer_kind kind, float *w, float *state0, float *state1, vq sum,
                            step_seen *seen)
{
    step_gradient(s, kind, w, state0, state1, v_from_d(d_from_q(sum), s->scale), false, seen);
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

/* n values from `at` on. sum_count arrays join `total` (NULL: nothing but them). */
ISO_INLINE void step_run(const iso_step *s, size_t at, size_t n, float *w, float *const *state, const int64_t *total,
                         int64_t *const *sum, uint32_t sum_count, step_seen *seen)
{
    const iso_step numbers = *s;
    step_seen so_far = *seen;
#define ISO_STEPS(KIND, STATE0, STATE1) \
    for (size_t i = 0; i < n; i += VL) { \
        vq all = take_sums(sum, sum_count, at + i); \
        if (total != NULL) \
            all = q_add(all, q_load(total + i)); \
        step_values(&numbers, KIND, w + at + i, STATE0, STATE1, all, &so_far); \
    }
    if (s->kind == ISO_ADAM) {
        ISO_STEPS(ISO_ADAM, state[0] + at + i, state[1] + at + i)
    } else if (s->momentum == 0.0f) {
        ISO_STEPS(ISO_SGD, NULL, NULL)
    } else if (s->kind == ISO_NESTEROV) {
        ISO_STEPS(ISO_NESTEROV, state[0] + at + i, NULL)
    } else {
        ISO_STEPS(ISO_SGD, state[0] + at + i, NULL)
    }
#undef ISO_STEPS
    *seen = so_far;
}

#endif

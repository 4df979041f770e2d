/* SPDX-License-Identifier: Apache-2.0
 * Gradients onto the integer grid, and the optimiser's step from integer sums.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/step.h"

bool ISO_K(grid_add)(int64_t *sum, const float *g, size_t n, float limit)
{
    vm bad = m_none();
    vf top = v_set(limit);
    for (size_t i = 0; i < n; i += VL)
        q_store(sum + i, q_add(q_load(sum + i), q_grid(v_load(g + i), top, &bad)));
    return !m_any(bad);
}

#define ISO_UPDATE(KIND, STATE0, STATE1) \
    for (size_t i = 0; i < n; i += VL) \
        step_values(s, KIND, w + i, STATE0, STATE1, take_sums(sum, sum_count, i), &bad);

bool ISO_K(update)(const iso_step *s, size_t n, float *w, float *const *state, int64_t *const *sum, uint32_t sum_count)
{
    vm bad = m_none();
    if (s->kind == ISO_ADAM) {
        ISO_UPDATE(ISO_ADAM, state[0] + i, state[1] + i)
    } else if (s->momentum == 0.0f) {
        ISO_UPDATE(ISO_SGD, NULL, NULL)
    } else if (s->kind == ISO_NESTEROV) {
        ISO_UPDATE(ISO_NESTEROV, state[0] + i, NULL)
    } else {
        ISO_UPDATE(ISO_SGD, state[0] + i, NULL)
    }
    return !m_any(bad);
}

/* SPDX-License-Identifier: Apache-2.0
 * Gradients onto the integer grid, and the optimiser's step from integer sums.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/step.h"

bool ISO_K(grid_add)(int64_t *sum, const float *g, size_t n, float limit)
{
    float scaled[256] __attribute__((aligned(64)));
    bool good = true;
    for (size_t first = 0; first < n; first += 256) {
        size_t count = n - first < 256 ? n - first : 256;
        vf squares = v_zero();
        for (size_t i = 0; i < count; i += VL) {
            vf x = v_mul(v_load(g + first + i), v_set(GRID_SCALE));
            squares = v_fma(x, x, squares);
            v_store(scaled + i, x);
        }
        grid_take(sum + first, scaled, count, squares, limit, &good);
    }
    return good;
}

bool ISO_K(update)(const iso_step *s, size_t n, float *w, float *const *state, int64_t *const *sum, uint32_t sum_count)
{
    step_seen seen = step_seen_none();
    step_run(s, 0, n, w, state, NULL, sum, sum_count, &seen);
    return step_good(s, seen);
}

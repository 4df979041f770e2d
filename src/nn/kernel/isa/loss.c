/* SPDX-License-Identifier: Apache-2.0
 * Losses of one lane group: 16 samples side by side, the classes one after another.
 */
#include "nn/kernel/isa/grid.h"
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/vmath.h"

/* Per lane: the label as a float (or -1 beyond n), and 1 where the lane holds a sample. */
static void lane_labels(uint32_t n, const int32_t *label, float *wanted, float *present)
{
    for (uint32_t i = 0; i < 16; i++) {
        wanted[i] = i < n ? (float)label[i] : -1.0f;
        present[i] = i < n ? 1.0f : 0.0f;
    }
}

ISO_INLINE vm v_eq(vf a, vf b) { return m_not(m_or(v_lt(a, b), v_gt(a, b))); }

/* Largest value and its first class, as a float. */
ISO_INLINE vf largest(uint32_t classes, const float *z, vf *first)
{
    vf best = v_load(z), where = v_zero();
    for (uint32_t c = 1; c < classes; c++) {
        vf value = v_load(z + (size_t)c * 16);
        where = v_select(v_gt(value, best), v_set((float)c), where);
        best = v_max(value, best);
    }
    *first = where;
    return best;
}

/* The loss of a sample ends here, far beyond any that learns, so that 64 of them, a unit's, stay below 2^62 on the grid. */
#define LOSS_LIMIT 0x1p16f

static bool add_losses(uint32_t n, const float *losses, const float *hits, int64_t *loss, uint32_t *correct)
{
    int64_t grid[16] = {0};
    float scaled[16];
    bool good = true;
    for (size_t i = 0; i < 16; i++)
        scaled[i] = losses[i] * GRID_SCALE;
    grid_take(grid, scaled, 16, v_set(__builtin_inff()), LOSS_LIMIT, &good);
    for (uint32_t i = 0; i < n; i++) {
        *loss += grid[i];
        *correct += hits[i] != 0.0f;
    }
    return good;
}

bool ISO_K(cross_entropy)(uint32_t classes, uint32_t n, float *dz, const float *z, const int32_t *label, int64_t *loss,
                          uint32_t *correct)
{
    float wanted[16], present[16], losses[16], hits[16];
    lane_labels(n, label, wanted, present);
    for (size_t part = 0; part < 16; part += VL) {
        const float *at = z + part;
        vf first, best = largest(classes, at, &first), target = v_load(wanted + part), here = v_load(present + part);
        vf sum = v_zero(), chosen = v_zero();
        for (uint32_t c = 0; c < classes; c++) {
            vf shifted = v_sub(v_load(at + (size_t)c * 16), best), e = v_exp(shifted);
            sum = v_add(sum, e);
            chosen = v_select(v_eq(target, v_set((float)c)), shifted, chosen);
            if (dz != NULL)
                v_store(dz + (size_t)c * 16 + part, e);
        }
        v_store(losses + part, v_mul(here, v_sub(v_log(sum), chosen)));
        v_store(hits + part, v_select(v_eq(first, target), here, v_zero()));
        if (dz == NULL)
            continue;
        vf inverse = v_div(v_set(1.0f), sum);
        for (uint32_t c = 0; c < classes; c++) {
            float *to = dz + (size_t)c * 16 + part;
            vf minus = v_select(v_eq(target, v_set((float)c)), v_set(-1.0f), v_zero());
            v_store(to, v_flush(v_mul(here, v_fma(v_load(to), inverse, minus))));
        }
    }
    return add_losses(n, losses, hits, loss, correct);
}

bool ISO_K(squared_error)(uint32_t classes, uint32_t n, float *dz, const float *z, const int32_t *label, float hit, float miss,
                          int64_t *loss, uint32_t *correct)
{
    float wanted[16], present[16], losses[16], hits[16];
    lane_labels(n, label, wanted, present);
    for (size_t part = 0; part < 16; part += VL) {
        vf first, target = v_load(wanted + part), here = v_load(present + part), sum = v_zero();
        largest(classes, z + part, &first);
        for (uint32_t c = 0; c < classes; c++) {
            vf goal = v_select(v_eq(target, v_set((float)c)), v_set(hit), v_set(miss));
            vf d = v_sub(v_load(z + (size_t)c * 16 + part), goal);
            sum = v_fma(d, d, sum);
            if (dz != NULL)
                v_store(dz + (size_t)c * 16 + part, v_flush(v_mul(here, d)));
        }
        v_store(losses + part, v_mul(here, v_mul(v_set(0.5f), sum)));
        v_store(hits + part, v_select(v_eq(first, target), here, v_zero()));
    }
    return add_losses(n, losses, hits, loss, correct);
}

void ISO_K(softmax)(uint32_t classes, float *p, const float *z)
{
    for (size_t part = 0; part < 16; part += VL) {
        vf first, best = largest(classes, z + part, &first), sum = v_zero();
        for (uint32_t c = 0; c < classes; c++) {
            vf e = v_exp(v_sub(v_load(z + (size_t)c * 16 + part), best));
            sum = v_add(sum, e);
            v_store(p + (size_t)c * 16 + part, e);
        }
        vf inverse = v_div(v_set(1.0f), sum);
        for (uint32_t c = 0; c < classes; c++)
            v_store(p + (size_t)c * 16 + part, v_mul(v_load(p + (size_t)c * 16 + part), inverse));
    }
}

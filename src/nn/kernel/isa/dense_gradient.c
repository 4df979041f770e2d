/* SPDX-License-Identifier: Apache-2.0
 * Weight gradients of dense layers. A tile is some inputs of one panel: its chains over the samples of a unit stay in
 * registers, go to the integer grid, and either join the sums or, with all units of the batch, become the step at once.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/step.h"
#include "nn/kernel/isa/tile.h"

/* TILE inputs by 16 outputs; x rows are padded to 16, so that a tile may reach over the last input. */
#if defined ISO_ISA_avx512
#define TILE 16
ISO_DEFINE_TILE(16, 1)
#define tile_of tile_16x1
#elif defined ISO_ISA_avx2
#define TILE 4
ISO_DEFINE_TILE(4, 2)
#define tile_of tile_4x2
#else
#define TILE 4
ISO_DEFINE_TILE(4, 4)
#define tile_of tile_4x4
#endif

/* g [TILE][16] = the unit's gradient of inputs from `input` on and the outputs of `panel`. */
static void unit_gradient(const iso_dense *d, uint32_t n, const iso_dense_unit *unit, size_t panel, size_t input, float *g)
{
    static const float zeros[16] __attribute__((aligned(64)));
    const float *b[ISO_PARTS], *from[ISO_PARTS];
    float *to[ISO_PARTS];
    for (size_t v = 0; v < ISO_PARTS; v++) {
        b[v] = unit->dy + panel * 16 + v * VL;
        from[v] = zeros;
        to[v] = g + v * VL;
    }
    tile_sum sum = {.outer = 1, .n = n, .a = unit->x + input, .a_row = 1, .ak = d->ldx, .b = b, .bk = d->ldy};
    tile_ends ends = {.from = from, .from_row = 0, .to = to, .to_row = 16};
    tile_of(&sum, &ends);
}

/* The bias gradient of one panel. */
static void unit_bias(const iso_dense *d, uint32_t n, const iso_dense_unit *unit, size_t panel, float *g)
{
    for (size_t part = 0; part < 16; part += VL) {
        vf chain = v_zero();
        const float *dy = unit->dy + panel * 16 + part;
        for (uint32_t i = 0; i < n; i++)
            chain = v_add(chain, v_load(dy + i * d->ldy));
        v_store(g + part, chain);
    }
}

bool ISO_K(dense_gradient)(const iso_dense *d, uint32_t n, const iso_dense_unit *unit, int64_t *sum_w, int64_t *sum_b, float limit)
{
    float g[TILE * 16] __attribute__((aligned(64)));
    vm bad = m_none();
    vf top = v_set(limit);
    for (size_t panel = 0; panel * 16 < d->out; panel++) {
        for (size_t input = 0; input < d->in; input += TILE) {
            unit_gradient(d, n, unit, panel, input, g);
            size_t inputs = d->in - input < TILE ? d->in - input : TILE;
            int64_t *to = sum_w + (panel * d->in + input) * 16;
            for (size_t i = 0; i < inputs * 16; i += VL)
                q_store(to + i, q_add(q_load(to + i), q_grid(v_load(g + i), top, &bad)));
        }
        unit_bias(d, n, unit, panel, g);
        for (size_t i = 0; i < 16; i += VL)
            q_store(sum_b + panel * 16 + i, q_add(q_load(sum_b + panel * 16 + i), q_grid(v_load(g + i), top, &bad)));
    }
    return !m_any(bad);
}

/* One step on `count` values from `at` on, whose gradients were summed in total. */
ISO_INLINE void step_tile(const iso_step *s, size_t at, size_t count, float *w, float *const *state, const int64_t *total, vm *bad)
{
    for (size_t i = 0; i < count; i += VL) {
        float *s0 = s->kind == ISO_ADAM || s->momentum != 0.0f ? state[0] + at + i : NULL;
        float *s1 = s->kind == ISO_ADAM ? state[1] + at + i : NULL;
        step_values(s, s->kind, w + at + i, s0, s1, q_load(total + i), bad);
    }
}

bool ISO_K(dense_update)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n, const iso_dense_unit *unit,
                         uint32_t units, float *w, float *const *state, int64_t *const *sum, uint32_t sum_count, float limit)
{
    float g[TILE * 16] __attribute__((aligned(64)));
    int64_t total[TILE * 16] __attribute__((aligned(64)));
    vm bad = m_none();
    vf top = v_set(limit);
    size_t row = begin / 16, last = end / 16; /* rows of 16 outputs: panel after panel, an input each */
    while (row < last) {
        size_t panel = row / d->in, input = row % d->in, count = d->in - input;
        count = count < TILE ? count : TILE;
        count = count < last - row ? count : last - row;
        for (size_t i = 0; i < count * 16; i += VL)
            q_store(total + i, take_sums(sum, sum_count, row * 16 + i));
        for (uint32_t u = 0; u < units; u++) {
            unit_gradient(d, n, unit + u, panel, input, g);
            for (size_t i = 0; i < count * 16; i += VL)
                q_store(total + i, q_add(q_load(total + i), q_grid(v_load(g + i), top, &bad)));
        }
        step_tile(s, row * 16, count * 16, w, state, total, &bad);
        row += count;
    }
    return !m_any(bad);
}

bool ISO_K(dense_update_bias)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n,
                              const iso_dense_unit *unit, uint32_t units, float *w, float *const *state, int64_t *const *sum,
                              uint32_t sum_count, float limit)
{
    float g[16] __attribute__((aligned(64)));
    int64_t total[16] __attribute__((aligned(64)));
    vm bad = m_none();
    vf top = v_set(limit);
    for (size_t at = begin; at < end; at += 16) {
        for (size_t i = 0; i < 16; i += VL)
            q_store(total + i, take_sums(sum, sum_count, at + i));
        for (uint32_t u = 0; u < units; u++) {
            unit_bias(d, n, unit + u, at / 16, g);
            for (size_t i = 0; i < 16; i += VL)
                q_store(total + i, q_add(q_load(total + i), q_grid(v_load(g + i), top, &bad)));
        }
        step_tile(s, at, 16, w, state, total, &bad);
    }
    return !m_any(bad);
}

/* SPDX-License-Identifier: Apache-2.0
 * Weight gradients of dense layers. A tile is some inputs of one panel: its chains over the samples of a unit stay in
 * registers, go to the integer grid, and either join the sums or, with all units of the batch, become the step at once.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/repeat.h"
#include "nn/kernel/isa/step.h"

/* TILE inputs by PARTS registers of outputs; x rows are padded to 16, so that a tile may reach over the last input. */
#if defined ISO_ISA_avx512
#define TILE 16
#define ISO_G_ROWS ISO_ROWS_16
#define ISO_G_COLUMNS ISO_COLUMNS_1
#elif defined ISO_ISA_avx2
#define TILE 4
#define ISO_G_ROWS ISO_ROWS_4
#define ISO_G_COLUMNS ISO_COLUMNS_2
#else
#define TILE 4
#define ISO_G_ROWS ISO_ROWS_4
#define ISO_G_COLUMNS ISO_COLUMNS_4
#endif

#define AHEAD 2 /* tiles */
#define NEXT 16 /* inputs: a tile walks down a column, a cache line a sample; the lines of the next tiles are asked for */
#define ISO_G_START(v, m) vf c##m##_##v = v_zero();
#define ISO_G_LOAD(v, x_) vf col##v = v_load(dy + (v) * VL);
#define ISO_G_FMA(v, m) c##m##_##v = v_fma(row##m, col##v, c##m##_##v);
#define ISO_G_STORE(v, m) \
    c##m##_##v = v_mul(c##m##_##v, v_set(GRID_SCALE)); \
    if ((m) % 4 == 0) \
        squares0 = v_fma(c##m##_##v, c##m##_##v, squares0); \
    else if ((m) % 4 == 1) \
        squares1 = v_fma(c##m##_##v, c##m##_##v, squares1); \
    else if ((m) % 4 == 2) \
        squares2 = v_fma(c##m##_##v, c##m##_##v, squares2); \
    else \
        squares3 = v_fma(c##m##_##v, c##m##_##v, squares3); \
    v_store(to + (m) * 16 + (v) * VL, c##m##_##v);
#define ISO_G_ROW_START(m, x_) ISO_G_COLUMNS(ISO_G_START, m)
#define ISO_G_ROW_FMA(m, x_) vf row##m = v_set(x[m]); ISO_G_COLUMNS(ISO_G_FMA, m)
#define ISO_G_ROW_STORE(m, x_) ISO_G_COLUMNS(ISO_G_STORE, m)

/* to [TILE][16]: the unit's gradient times GRID_SCALE of inputs from x[0] on and 16 outputs from dy[0] on; returns the sum of
 * its squares. */
static vf unit_gradient(size_t n, const float *x, size_t ldx, const float *dy, size_t ldy, float *to)
{
    vf squares0 = v_zero(), squares1 = squares0, squares2 = squares0, squares3 = squares0; /* four short chains, not a long one */
    ISO_G_ROWS(ISO_G_ROW_START, ~)
    for (; n != 0; n--) {
        __builtin_prefetch(x + NEXT);
        ISO_G_COLUMNS(ISO_G_LOAD, ~)
        ISO_G_ROWS(ISO_G_ROW_FMA, ~)
        x += ldx;
        dy += ldy;
    }
    ISO_G_ROWS(ISO_G_ROW_STORE, ~)
    return v_add(v_add(squares0, squares1), v_add(squares2, squares3));
}

/* The same of the bias of one panel. */
static vf unit_bias(size_t n, const float *dy, size_t ldy, float *to)
{
    vf squares = v_zero();
    for (size_t part = 0; part < 16; part += VL) {
        vf chain = v_zero();
        for (size_t i = 0; i < n; i++)
            chain = v_add(chain, v_load(dy + i * ldy + part));
        chain = v_mul(chain, v_set(GRID_SCALE));
        squares = v_fma(chain, chain, squares);
        v_store(to + part, chain);
    }
    return squares;
}

bool ISO_K(dense_gradient)(const iso_dense *d, uint32_t n, const iso_dense_unit *unit, int64_t *sum_w, int64_t *sum_b, float limit)
{
    float g[TILE * 16] __attribute__((aligned(64)));
    bool good = true;
    for (size_t panel = 0; panel * 16 < d->out; panel++) {
        const float *dy = unit->dy + panel * 16;
        for (size_t input = 0; input < d->in; input += TILE) {
            size_t inputs = d->in - input < TILE ? d->in - input : TILE;
            vf squares = unit_gradient(n, unit->x + input, d->ldx, dy, d->ldy, g);
            grid_take(sum_w + (panel * d->in + input) * 16, g, inputs * 16, squares, limit, &good);
        }
        vf squares = unit_bias(n, dy, d->ldy, g);
        grid_take(sum_b + panel * 16, g, 16, squares, limit, &good);
    }
    return good;
}

/* Asks for the inputs of a tile, a cache line of every kept row. Half of the rows were written by another core: asked for ahead,
 * they come while other tiles are computed. */
static void expect_inputs(const iso_dense *d, size_t input, uint32_t n, const iso_dense_unit *unit, uint32_t units)
{
    for (uint32_t u = 0; u < units; u++)
        for (uint32_t i = 0; i < n; i++)
            __builtin_prefetch(unit[u].x + i * d->ldx + input);
}

/* total [values] = the gradients of all units on the grid, of the tile at `input` and `output`. */
static void all_gradients(const iso_dense *d, size_t n, const iso_dense_unit *unit, size_t units, size_t input, size_t output,
                          size_t values, int64_t *total, float limit, bool *good)
{
    float g[TILE * 16] __attribute__((aligned(64))), h[TILE * 16] __attribute__((aligned(64)));
    size_t u = 0;
    if (units % 2 != 0) {
        vf squares = unit_gradient(n, unit->x + input, d->ldx, unit->dy + output, d->ldy, g);
        memset(total, 0, values * sizeof *total);
        grid_take(total, g, values, squares, limit, good);
        u = 1;
    }
    for (; u < units; u += 2) {
        vf squares = unit_gradient(n, unit[u].x + input, d->ldx, unit[u].dy + output, d->ldy, g);
        vf more = unit_gradient(n, unit[u + 1].x + input, d->ldx, unit[u + 1].dy + output, d->ldy, h);
        grid_take2(total, u == 0, g, h, values, v_add(squares, more), limit, good);
    }
}

bool ISO_K(dense_update)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n, const iso_dense_unit *unit,
                         uint32_t units, float *w, float *const *state, int64_t *const *sum, uint32_t sum_count, float limit)
{
    int64_t total[TILE * 16] __attribute__((aligned(64)));
    bool good = true;
    step_seen seen = step_seen_none();
    size_t row = begin / 16, last = end / 16; /* rows of 16 outputs: panel after panel, an input each */
    const size_t first = row;
    while (row < last) {
        size_t panel = row / d->in, input = row % d->in, count = d->in - input;
        count = count < TILE ? count : TILE;
        count = count < last - row ? count : last - row;
        if (row - first < d->in) /* later panels find them in the cache */
            expect_inputs(d, (row + AHEAD * TILE) % d->in, n, unit, units);
        all_gradients(d, n, unit, units, input, panel * 16, count * 16, total, limit, &good);
        step_run(s, row * 16, count * 16, w, state, total, sum, sum_count, &seen);
        row += count;
    }
    return good && step_good(s, seen);
}

bool ISO_K(dense_update_bias)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n,
                              const iso_dense_unit *unit, uint32_t units, float *w, float *const *state, int64_t *const *sum,
                              uint32_t sum_count, float limit)
{
    float g[16] __attribute__((aligned(64)));
    int64_t total[16] __attribute__((aligned(64)));
    bool good = true;
    step_seen seen = step_seen_none();
    for (size_t at = begin; at < end; at += 16) {
        memset(total, 0, sizeof total);
        for (uint32_t u = 0; u < units; u++) {
            vf squares = unit_bias(n, unit[u].dy + at, d->ldy, g);
            grid_take(total, g, 16, squares, limit, &good);
        }
        step_run(s, at, 16, w, state, total, sum, sum_count, &seen);
    }
    return good && step_good(s, seen);
}

/* SPDX-License-Identifier: Apache-2.0
 * Stands in for src/nn/kernel/isa/dense_gradient.c in the variant with float sums (bench/float_sums.py): the same tiles, but a
 * chain goes on from the sum instead of beginning at 0, so that with all units of a batch nothing leaves the registers between
 * them.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/repeat.h"
#include "nn/kernel/isa/step.h"

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
#define NEXT 16 /* inputs */
#define ISO_G_START(v, m) vf c##m##_##v = v_load(from + (m) * 16 + (v) * VL);
#define ISO_G_LOAD(v, x_) vf col##v = v_load(dy + (v) * VL);
#define ISO_G_FMA(v, m) c##m##_##v = v_fma(row##m, col##v, c##m##_##v);
#define ISO_G_STORE(v, m) v_store(to + (m) * 16 + (v) * VL, c##m##_##v);
#define ISO_G_ROW_START(m, x_) ISO_G_COLUMNS(ISO_G_START, m)
#define ISO_G_ROW_FMA(m, x_) vf row##m = v_set(x[m]); ISO_G_COLUMNS(ISO_G_FMA, m)
#define ISO_G_ROW_STORE(m, x_) ISO_G_COLUMNS(ISO_G_STORE, m)

/* to [TILE][16] = from + the gradient of some units, of inputs from `input` on and 16 outputs from `output` on. */
static void tile_gradient(size_t n, const iso_dense_unit *unit, size_t units, const iso_dense *d, size_t input, size_t output,
                          const float *from, float *to)
{
    ISO_G_ROWS(ISO_G_ROW_START, ~)
    for (size_t u = 0; u < units; u++) {
        const float *x = unit[u].x + input, *dy = unit[u].dy + output;
        for (size_t left = n; left != 0; left--) {
            __builtin_prefetch(x + NEXT);
            ISO_G_COLUMNS(ISO_G_LOAD, ~)
            ISO_G_ROWS(ISO_G_ROW_FMA, ~)
            x += d->ldx;
            dy += d->ldy;
        }
    }
    ISO_G_ROWS(ISO_G_ROW_STORE, ~)
}

static void bias_gradient(size_t n, const iso_dense_unit *unit, size_t units, const iso_dense *d, size_t output, float *sum)
{
    for (size_t part = 0; part < 16; part += VL) {
        vf chain = v_load(sum + part);
        for (size_t u = 0; u < units; u++)
            for (size_t i = 0; i < n; i++)
                chain = v_add(chain, v_load(unit[u].dy + i * d->ldy + output + part));
        v_store(sum + part, chain);
    }
}

bool ISO_K(dense_gradient)(const iso_dense *d, uint32_t n, const iso_dense_unit *unit, float *sum_w, float *sum_b, float limit)
{
    static const float zeros[TILE * 16] __attribute__((aligned(64)));
    float last[TILE * 16] __attribute__((aligned(64)));
    (void)limit;
    for (size_t panel = 0; panel * 16 < d->out; panel++) {
        for (size_t input = 0; input < d->in; input += TILE) {
            float *sum = sum_w + (panel * d->in + input) * 16;
            if (input + TILE <= d->in) {
                tile_gradient(n, unit, 1, d, input, panel * 16, sum, sum);
                continue;
            }
            tile_gradient(n, unit, 1, d, input, panel * 16, zeros, last);
            grid_take(sum, last, (d->in - input) * 16, v_zero(), 0, NULL);
        }
        bias_gradient(n, unit, 1, d, panel * 16, sum_b + panel * 16);
    }
    return true;
}

/* Asks for the inputs of a tile, a cache line of every kept row, as the original does. */
static void expect_inputs(const iso_dense *d, size_t input, uint32_t n, const iso_dense_unit *unit, uint32_t units)
{
    for (uint32_t u = 0; u < units; u++)
        for (uint32_t i = 0; i < n; i++)
            __builtin_prefetch(unit[u].x + i * d->ldx + input);
}

bool ISO_K(dense_update)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n, const iso_dense_unit *unit,
                         uint32_t units, float *w, float *const *state, float *const *sum, uint32_t sum_count, float limit)
{
    static const float zeros[TILE * 16] __attribute__((aligned(64)));
    float total[TILE * 16] __attribute__((aligned(64)));
    step_seen seen = step_seen_none();
    size_t row = begin / 16, last = end / 16;
    const size_t first = row;
    (void)limit;
    while (row < last) {
        size_t panel = row / d->in, input = row % d->in, count = d->in - input;
        count = count < TILE ? count : TILE;
        count = count < last - row ? count : last - row;
        if (row - first < d->in)
            expect_inputs(d, (row + AHEAD * TILE) % d->in, n, unit, units);
        tile_gradient(n, unit, units, d, input, panel * 16, zeros, total);
        step_run(s, row * 16, count * 16, w, state, total, sum, sum_count, &seen);
        row += count;
    }
    return step_good(s, seen);
}

bool ISO_K(dense_update_bias)(const iso_dense *d, const iso_step *s, size_t begin, size_t end, uint32_t n,
                              const iso_dense_unit *unit, uint32_t units, float *w, float *const *state, float *const *sum,
                              uint32_t sum_count, float limit)
{
    float total[16] __attribute__((aligned(64)));
    step_seen seen = step_seen_none();
    (void)limit;
    for (size_t at = begin; at < end; at += 16) {
        memset(total, 0, sizeof total);
        bias_gradient(n, unit, units, d, at, total);
        step_run(s, at, 16, w, state, total, sum, sum_count, &seen);
    }
    return step_good(s, seen);
}

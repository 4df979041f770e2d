/* SPDX-License-Identifier: Apache-2.0
 * Register tiles of dense layers: M x N accumulators c[m][v] = fma(a[m], b[v], c[m][v]) over k ascending, a broadcast, b a register.
 *
 * Accumulators are named variables made by macros, not an array: gcc 12 keeps an indexed array of registers in memory and
 * stores at every fma. The tile's shape is a matter of speed alone; it never changes a bit.
 */
#ifndef ISO_NN_KERNEL_TILE_H
#define ISO_NN_KERNEL_TILE_H

#include "nn/kernel/isa/repeat.h"
#include "nn/kernel/simd.h"

/* The sums of a tile: `outer` runs of `n` steps; a step moves by ak and bk, a run by a_run and b_run. */
typedef struct tile_sum {
    size_t outer, n;
    const float *a;
    size_t a_row, ak, a_run;
    const float *const *b; /* one pointer a column register */
    size_t bk, b_run;
    const float *ahead[2]; /* a tile with LOOK asks for a cache line from here on at each step: what is needed later */
} tile_sum;

/* Where the accumulators come from and go to: row m, column v is at from[v] + m * from_row. */
typedef struct tile_ends {
    const float *const *from;
    size_t from_row;
    float *const *to;
    size_t to_row;
    bool relu;
} tile_ends;

#define ISO_T_OPEN(v, m, N) vf c##m##_##v = v_load(e->from[v] + (m) * e->from_row);
#define ISO_T_POINTER(v, x) const float *b##v = s->b[v];
#define ISO_T_LOAD(v, x) vf col##v = v_load(b##v); b##v += bk;
#define ISO_T_FMA(v, m) c##m##_##v = v_fma(row##m, col##v, c##m##_##v);
#define ISO_T_RUN(v, x) b##v += b_skip;
#define ISO_T_CLOSE(v, m) v_store(e->to[v] + (m) * e->to_row, e->relu ? v_relu(c##m##_##v) : c##m##_##v);

#define ISO_T_ROW_OPEN(m, N) ISO_COLUMNS_##N(ISO_T_OPEN, m, N)
#define ISO_T_ROW_FMA(m, N) vf row##m = v_set(a[(m) * a_row]); ISO_COLUMNS_##N(ISO_T_FMA, m)
#define ISO_T_ROW_CLOSE(m, N) ISO_COLUMNS_##N(ISO_T_CLOSE, m)

#define ISO_T_LOOK __builtin_prefetch(ahead0, 0, 2); __builtin_prefetch(ahead1, 0, 2); ahead0 += 16; ahead1 += 16;
#define ISO_T_LOOK_NOWHERE (void)ahead0; (void)ahead1;

/* A_ROW: floats between rows of a; a constant where it is one, so that rows are displacements and not pointers. LOOK: one of
 * the two above. */
#define ISO_DEFINE_TILE(NAME, M, N, A_ROW) ISO_DEFINE_TILE_THAT(ISO_T_LOOK_NOWHERE, NAME, M, N, A_ROW)
#define ISO_DEFINE_TILE_THAT(LOOK, NAME, M, N, A_ROW) \
    static void NAME##_##M##x##N(const tile_sum *s, const tile_ends *e) \
    { \
        ISO_ROWS_##M(ISO_T_ROW_OPEN, N) \
        ISO_COLUMNS_##N(ISO_T_POINTER, ~) \
        const float *a = s->a, *ahead0 = s->ahead[0], *ahead1 = s->ahead[1]; \
        const size_t a_row = A_ROW, ak = s->ak, bk = s->bk, n = s->n; \
        const ptrdiff_t a_skip = (ptrdiff_t)(s->a_run - n * ak), b_skip = (ptrdiff_t)(s->b_run - n * bk); \
        for (size_t run = s->outer; run != 0; run--) { \
            for (size_t k = n; k != 0; k--) { \
                LOOK \
                ISO_COLUMNS_##N(ISO_T_LOAD, ~) \
                ISO_ROWS_##M(ISO_T_ROW_FMA, N) \
                a += ak; \
            } \
            a += a_skip; \
            ISO_COLUMNS_##N(ISO_T_RUN, ~) \
        } \
        ISO_ROWS_##M(ISO_T_ROW_CLOSE, N) \
    }

#endif

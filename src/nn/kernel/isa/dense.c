/* SPDX-License-Identifier: Apache-2.0
 * Dense layers forward (samples x panels of 16 outputs) and backward to their inputs (inputs x sample lanes).
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/tile.h"

typedef void dense_tile(const tile_sum *, const tile_ends *);

/* Tiles: as many accumulators as registers allow beside one row of b and one broadcast. */
#define FORWARD(M, N) ISO_DEFINE_TILE_THAT(ISO_T_LOOK, forward, M, N, s->a_row)
#define DATA(M, N) ISO_DEFINE_TILE(data, M, N, 16)
#if defined ISO_ISA_avx512
#define FORWARD_ROWS 8
#define FORWARD_COLUMNS 3
#define DATA_COLUMNS 3
FORWARD(8, 1)
FORWARD(8, 2)
FORWARD(8, 3)
DATA(24, 1)
DATA(12, 2)
DATA(8, 3)
DATA(1, 1)
DATA(1, 2)
DATA(1, 3)
static dense_tile *const forward_tiles[] = {forward_8x1, forward_8x2, forward_8x3};
static dense_tile *const data_tiles[] = {data_24x1, data_12x2, data_8x3}, *const edge_tiles[] = {data_1x1, data_1x2, data_1x3};
static const uint32_t data_rows[] = {24, 12, 8};
#elif defined ISO_ISA_avx2
#define FORWARD_ROWS 4
#define FORWARD_COLUMNS 3
#define DATA_COLUMNS 2
FORWARD(4, 1)
FORWARD(4, 2)
FORWARD(4, 3)
DATA(12, 1)
DATA(6, 2)
DATA(1, 1)
DATA(1, 2)
static dense_tile *const forward_tiles[] = {forward_4x1, forward_4x2, forward_4x3};
static dense_tile *const data_tiles[] = {data_12x1, data_6x2}, *const edge_tiles[] = {data_1x1, data_1x2};
static const uint32_t data_rows[] = {12, 6};
#else
#define FORWARD_ROWS 4
#define FORWARD_COLUMNS 4
#define DATA_COLUMNS 4
FORWARD(4, 1)
FORWARD(4, 2)
FORWARD(4, 3)
FORWARD(4, 4)
DATA(4, 1)
DATA(4, 2)
DATA(4, 3)
DATA(4, 4)
DATA(1, 1)
DATA(1, 2)
DATA(1, 3)
DATA(1, 4)
static dense_tile *const forward_tiles[] = {forward_4x1, forward_4x2, forward_4x3, forward_4x4};
static dense_tile *const data_tiles[] = {data_4x1, data_4x2, data_4x3, data_4x4};
static dense_tile *const edge_tiles[] = {data_1x1, data_1x2, data_1x3, data_1x4};
static const uint32_t data_rows[] = {4, 4, 4, 4};
#endif

#define MOST_COLUMNS 4
#define FORWARD_BLOCK 256 /* inputs a block at most: three panels of it stay in the first cache levels for all rows of the unit */

/* Inputs [first, first + count) of `columns` registers of outputs from `column` on. */
typedef struct block {
    size_t column, columns, first, count;
} block;

/* The block at (column, first), cut to what the layer has. */
static block block_at(const iso_dense *d, size_t column, size_t first)
{
    size_t total = iso_round16(d->out) / VL, blocks = (d->in + FORWARD_BLOCK - 1) / FORWARD_BLOCK;
    size_t count = (d->in + blocks - 1) / blocks; /* nearly equal ones: each has time to ask for the next */
    return (block){.column = column,
                   .columns = total - column < FORWARD_COLUMNS ? total - column : FORWARD_COLUMNS,
                   .first = first,
                   .count = d->in - first < count ? d->in - first : count};
}

/* The one after it; false: it was the last. */
static bool block_next(const iso_dense *d, const block *b, block *next)
{
    bool more = b->first + b->count < d->in;
    size_t column = more ? b->column : b->column + b->columns;
    if (column * VL >= iso_round16(d->out))
        return false;
    *next = block_at(d, column, more ? b->first + b->count : 0);
    return true;
}

static const float *panel_of(const iso_dense *d, const block *b, size_t panel, const float *w)
{
    return w + ((b->column * VL / 16 + panel) * d->in + b->first) * 16;
}

/* While the tile `tile` of `tiles` of a block is worked off, its share of the next one's panels is asked for: another core may have
 * written them. Evenly, since all that is under way at once holds the tile up. */
static void look_ahead(const iso_dense *d, const block *next, uint32_t tile, uint32_t tiles, const float *w, tile_sum *sum)
{
    size_t panels = next ? (next->columns * VL + 15) / 16 : 0, panel = tile * panels / tiles, end = (tile + 1) * panels / tiles;
    for (size_t i = 0; i < 2; i++, panel++)
        sum->ahead[i] = panel < end ? panel_of(d, next, panel, w) : sum->b[0];
}

/* One block for all n samples. */
static void forward_block(const iso_dense *d, const block *now, const block *next, uint32_t n, float *y, const float *x,
                          const float *w, const float *bias, bool relu)
{
    const float *panel[MOST_COLUMNS], *from[MOST_COLUMNS];
    float *to[MOST_COLUMNS];
    for (size_t v = 0; v < now->columns; v++) {
        size_t output = (now->column + v) * VL;
        panel[v] = w + (output / 16 * d->in + now->first) * 16 + output % 16;
        from[v] = bias + output;
        to[v] = y + output;
    }
    tile_sum sum = {.outer = 1, .n = now->count, .a_row = d->ldx, .ak = 1, .b = panel, .bk = 16};
    tile_ends ends = {.to = to, .to_row = d->ldy, .from = from, .from_row = 0, .relu = relu};
    if (now->first != 0) {
        ends.from = (const float *const *)to;
        ends.from_row = d->ldy;
    }
    for (uint32_t row = 0; row < n; row += FORWARD_ROWS) {
        sum.a = x + row * d->ldx + now->first;
        look_ahead(d, next, row / FORWARD_ROWS, (n + FORWARD_ROWS - 1) / FORWARD_ROWS, w, &sum);
        forward_tiles[now->columns - 1](&sum, &ends);
        for (size_t v = 0; v < now->columns; v++) {
            to[v] += FORWARD_ROWS * d->ldy;
        }
    }
}

void ISO_K(dense_forward)(const iso_dense *d, uint32_t n, float *y, const float *x, const float *w, const float *bias, iso_act act)
{
    block now = block_at(d, 0, 0), next;
    for (bool more = true; more; now = next) {
        more = block_next(d, &now, &next);
        bool relu = act == ISO_ACT_RELU && now.first + now.count == d->in;
        forward_block(d, &now, more ? &next : NULL, n, y, x, w, bias, relu);
    }
}

/* Inputs [row, row + rows of the tile) of some lane registers: whole panels of outputs first, then the rest of the last one. */
static void data_tile(const iso_dense *d, dense_tile *tile, size_t row, size_t columns,
                      const float *const *dy, float *const *lanes, const float *w)
{
    static const float zeros[16] __attribute__((aligned(64)));
    const float *from[MOST_COLUMNS], *b[MOST_COLUMNS];
    float *to[MOST_COLUMNS];
    size_t panels = d->out / 16, rest = d->out % 16, panel = (size_t)d->in * 16;
    for (size_t v = 0; v < columns; v++) {
        from[v] = zeros;
        b[v] = dy[v];
        to[v] = lanes[v] + row * 16;
    }
    tile_sum sum = {.outer = panels, .n = 16, .a = w + row * 16, .ak = 1, .a_run = panel, .b = b, .bk = 16, .b_run = 256};
    tile_ends ends = {.from = from, .from_row = 0, .to = to, .to_row = 16};
    if (panels != 0)
        tile(&sum, &ends);
    if (rest == 0)
        return;
    if (panels != 0) {
        ends.from = (const float *const *)to;
        ends.from_row = 16;
    }
    sum.outer = 1;
    sum.n = rest;
    sum.a += panels * panel;
    for (size_t v = 0; v < columns; v++)
        b[v] += panels * 256;
    tile(&sum, &ends);
}

void ISO_K(dense_data)(const iso_dense *d, uint32_t groups, float *dx, const float *dy, const float *w)
{
    size_t total = (size_t)groups * ISO_PARTS, dx_group = (size_t)d->in * 16, dy_group = iso_round16(d->out) * 16;
    for (size_t column = 0; column < total; column += DATA_COLUMNS) {
        size_t columns = total - column < DATA_COLUMNS ? total - column : DATA_COLUMNS, rows = data_rows[columns - 1];
        const float *from[MOST_COLUMNS];
        float *to[MOST_COLUMNS];
        for (size_t v = 0; v < columns; v++) {
            size_t group = (column + v) / ISO_PARTS, part = (column + v) % ISO_PARTS * VL;
            from[v] = dy + group * dy_group + part;
            to[v] = dx + group * dx_group + part;
        }
        if (d->in < rows) {
            for (size_t row = 0; row < d->in; row++)
                data_tile(d, edge_tiles[columns - 1], row, columns, from, to, w);
            continue;
        }
        /* The last tile overlaps the one before: the same values are computed again. */
        for (size_t row = 0; row < d->in; row += rows)
            data_tile(d, data_tiles[columns - 1], row + rows <= d->in ? row : d->in - rows, columns, from, to, w);
    }
}

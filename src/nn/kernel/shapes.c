/* SPDX-License-Identifier: Apache-2.0
 * Derived numbers of a convolution: output size, strides, scratch. The same for every instruction set.
 */
#include "nn/kernel/kernel.h"
#include "nn/kernel/scratch.h"

void iso_conv_finish(iso_conv *c, bool pooled)
{
    size_t padded_rows = c->rows + 2 * (size_t)c->pad_rows, padded_columns = c->columns + 2 * (size_t)c->pad_columns;
    c->out_rows = (uint32_t)((padded_rows - c->kernel_rows) / c->stride + 1);
    c->out_columns = (uint32_t)((padded_columns - c->kernel_columns) / c->stride + 1);
    size_t y_pixels = pooled ? (size_t)(c->out_rows / 2) * (c->out_columns / 2) : (size_t)c->out_rows * c->out_columns;
    c->x_group = c->channels * padded_rows * padded_columns * 16;
    c->y_group = c->filters * y_pixels * 16;
    c->dx_group = (size_t)c->channels * c->rows * c->columns * 16;
}

/* The next `count` values of `size` bytes, aligned to 64; *used grows. */
static void *carve(void *scratch, size_t *used, size_t count, size_t size)
{
    size_t at = *used;
    *used += (count * size + 63) & ~(size_t)63;
    return scratch == NULL ? NULL : (char *)scratch + at;
}

iso_conv_data_scratch iso_conv_data_layout(const iso_conv *c, void *scratch)
{
    iso_conv_data_scratch s = {.bytes = 0};
    size_t area = (size_t)c->kernel_rows * c->kernel_columns;
    size_t reach = (c->columns - 1 + (size_t)c->pad_columns) / c->stride + 1;
    s.left = (c->kernel_columns - 1) / c->stride;
    s.width = s.left + (reach > c->out_columns ? reach : c->out_columns);
    s.most_taps = area > 640 ? area : 640;
    s.padded = carve(scratch, &s.bytes, c->filters * (size_t)c->out_rows * s.width * 16, sizeof *s.padded);
    s.packed = carve(scratch, &s.bytes, s.most_taps * 6, sizeof *s.packed);
    s.taps = carve(scratch, &s.bytes, s.most_taps * 2, sizeof *s.taps);
    return s;
}

iso_conv_pool_scratch iso_conv_pool_layout(const iso_conv *c, void *scratch)
{
    iso_conv_pool_scratch s = {.bytes = 0};
    size_t pooled = (size_t)(c->out_rows / 2) * (c->out_columns / 2);
    size_t values = (c->rows + 2 * (size_t)c->pad_rows) * (c->columns + 2 * (size_t)c->pad_columns) * c->channels;
    s.row = iso_round16((size_t)c->kernel_columns * c->channels);
    s.frame = iso_round16((c->kernel_columns + (size_t)c->stride) * c->channels);
    s.sample = iso_round16(values + s.frame + 16);
    s.list = iso_round16(pooled) + 16;
    s.near = iso_round16(c->filters) + 16;
    /* Lists of about 256 KiB at a time: they and the samples stay in the second-level cache. */
    size_t filters = ((size_t)256 << 10) / (16 * s.list * 8);
    s.filters = filters == 0 ? 1 : filters < c->filters ? (uint32_t)filters : c->filters;
    size_t listed = 16 * s.filters * s.list;
    if (listed < 32 * s.near)
        listed = 32 * s.near;
    s.x = carve(scratch, &s.bytes, 16 * s.sample, sizeof *s.x);
    s.dx = carve(scratch, &s.bytes, 16 * s.sample, sizeof *s.dx);
    s.sums = carve(scratch, &s.bytes, 16 * (size_t)c->filters * c->kernel_rows * s.row, sizeof *s.sums);
    s.bias = carve(scratch, &s.bytes, 16 * (size_t)c->filters, sizeof *s.bias);
    s.frames = carve(scratch, &s.bytes, 2 * (size_t)c->filters * c->kernel_rows * s.frame, sizeof *s.frames);
    s.value = carve(scratch, &s.bytes, listed, sizeof *s.value);
    s.at = carve(scratch, &s.bytes, listed, sizeof *s.at);
    s.count = carve(scratch, &s.bytes, 16 * (size_t)s.filters, sizeof *s.count);
    return s;
}

size_t iso_conv_scratch(const iso_conv *c)
{
    size_t data = iso_conv_data_layout(c, NULL).bytes, pool = iso_conv_pool_layout(c, NULL).bytes;
    return data > pool ? data : pool;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

iso_narrow_conv_places iso_narrow_conv_layout(const iso_conv *c, uint32_t n, void *scratch)
{
    iso_narrow_conv_places s = {.bytes = 0};
    size_t area = (size_t)c->kernel_rows * c->kernel_columns, filters = c->filters, channels = c->channels;
    size_t pooled = (size_t)(c->out_rows / 2) * (c->out_columns / 2);
    s.left = (c->kernel_columns - 1) / c->stride;
    s.top = (c->kernel_rows - 1) / c->stride;
    s.width = s.left + larger((c->columns - 1 + (size_t)c->pad_columns) / c->stride + 1, c->out_columns);
    s.height = s.top + larger((c->rows - 1 + (size_t)c->pad_rows) / c->stride + 1, c->out_rows);
    s.row = iso_round16(c->kernel_columns * channels);
    s.frame = iso_round16((c->kernel_columns + (size_t)c->stride) * channels);
    s.list = iso_round16(pooled) + 16;
    s.near = iso_round16(filters) + 16;
    s.sample = larger(iso_round16(filters) * channels * area, iso_round16(filters * c->kernel_rows * s.row));
    s.taps = carve(scratch, &s.bytes, larger(channels, filters) * area, sizeof *s.taps);
    s.packed = carve(scratch, &s.bytes, larger(iso_round16(filters) * channels, iso_round16(channels) * filters) * area,
                     sizeof *s.packed);
    s.padded = carve(scratch, &s.bytes, s.height * s.width * filters, sizeof *s.padded);
    s.sums = carve(scratch, &s.bytes, n * s.sample, sizeof *s.sums);
    s.bias = carve(scratch, &s.bytes, n * iso_round16(filters), sizeof *s.bias);
    s.frames = carve(scratch, &s.bytes, 2 * filters * c->kernel_rows * s.frame, sizeof *s.frames);
    s.dx = carve(scratch, &s.bytes, iso_narrow_row(iso_narrow_conv_in(c)) + s.frame, sizeof *s.dx);
    s.value = carve(scratch, &s.bytes, larger(filters * s.list, 2 * s.near), sizeof *s.value);
    s.at = carve(scratch, &s.bytes, larger(filters * s.list, 2 * s.near), sizeof *s.at);
    s.count = carve(scratch, &s.bytes, filters, sizeof *s.count);
    return s;
}

size_t iso_narrow_conv_scratch(const iso_conv *c, uint32_t n)
{
    return iso_narrow_conv_layout(c, n, NULL).bytes;
}

/* SPDX-License-Identifier: Apache-2.0
 * Derived numbers of a convolution: output size, strides, scratch. The same for every instruction set.
 */
#include "nn/kernel/kernel.h"

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

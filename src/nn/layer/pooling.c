/* SPDX-License-Identifier: Apache-2.0
 * Windows of the pooling layers. */
#include "nn/layer/pooling.h"

const iso_option iso_pooling_options[2] = {
    {"size", ISO_OPTION_INT, 2, 1, 255, NULL, "rows and columns of a window"},
    {"stride", ISO_OPTION_INT, 0, 0, 255, NULL, "step between windows; 0: the size"},
};

int iso_pooling_setup(iso_layer *l, iso_error *e)
{
    uint32_t size = (uint32_t)l->value[ISO_POOL_SIZE], stride = (uint32_t)l->value[ISO_POOL_STRIDE], rows, columns;
    stride = stride ? stride : size;
    int code = iso_window_axis(l, "window", size, stride, 0, l->in.h, &rows, &l->unused_rows, e);
    if (!code)
        code = iso_window_axis(l, "window", size, stride, 0, l->in.w, &columns, &l->unused_columns, e);
    if (code)
        return code;
    l->pool = (iso_pool){l->in.c, l->in.h, l->in.w, size, size, stride, stride, rows, columns};
    l->out = (iso_shape){l->in.c, rows, columns};
    l->flops = (double)size * size * (double)iso_shape_values(l->out);
    return ISO_OK;
}

bool iso_layer_is_max_pool_2(const iso_layer *l)
{
    const iso_pool *p = &l->pool;
    return l->kind == iso_layer_kind_find("max_pool") && p->window_rows == 2 && p->window_columns == 2 && p->stride_rows == 2 &&
           p->stride_columns == 2;
}

/* SPDX-License-Identifier: Apache-2.0
 * Channels, rows and columns become one row of features, in that order. Only the shape changes. */
#include "nn/layer.h"

static int setup(iso_layer *l, iso_error *e)
{
    size_t values = iso_shape_values(l->in);
    if (values > UINT32_MAX)
        return iso_error_set(e, ISO_E_SHAPE, "%s: %ux%ux%u values are too many", l->name, l->in.c, l->in.h, l->in.w);
    l->out = (iso_shape){(uint32_t)values, 1, 1};
    return ISO_OK;
}

extern const iso_layer_kind iso_layer_flatten;
const iso_layer_kind iso_layer_flatten = {.name = "flatten", .help = "images to rows of features", .view = true, .setup = setup};

/* SPDX-License-Identifier: Apache-2.0
 * Helpers for the setup of layers. */
#include "nn/layer.h"

void iso_part_set(iso_part *p, uint32_t rank, const uint32_t *dim, size_t fan_in, size_t fan_out)
{
    *p = (iso_part){.count = 1, .rank = rank, .fan_in = fan_in, .fan_out = fan_out};
    for (uint32_t i = 0; i < rank; i++) {
        p->dim[i] = dim[i];
        p->count *= dim[i];
    }
    p->values = iso_round16(p->count);
}

int iso_window_axis(const iso_layer *l, const char *what, uint32_t window, uint32_t stride, uint32_t padding, uint32_t in,
                    uint32_t *out, uint32_t *unused, iso_error *e)
{
    uint64_t padded = (uint64_t)in + 2 * (uint64_t)padding;
    if (window > padded)
        return iso_error_set(e, ISO_E_SHAPE, "%s: %s %u is larger than its input %ux%u with padding %u", l->name, what, window,
                             l->in.h, l->in.w, padding);
    uint64_t steps = (padded - window) / stride, over = padded - window - steps * stride;
    *out = (uint32_t)(steps + 1);
    *unused = over > padding ? (uint32_t)(over - padding) : 0;
    return ISO_OK;
}

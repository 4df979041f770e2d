/* SPDX-License-Identifier: Apache-2.0
 * Optimisers: what they keep. Their arithmetic is in the kernels (iso_step). */
#include "isochron/nn.h"

uint32_t iso_optimizer_states(const iso_optimizer *o)
{
    return o->kind == ISO_ADAM ? 2 : o->momentum != 0 ? 1 : 0;
}

const char *iso_optimizer_state_name(const iso_optimizer *o, uint32_t index)
{
    static const char *const adam[] = {"mean", "square"};
    if (index >= iso_optimizer_states(o))
        return NULL;
    return o->kind == ISO_ADAM ? adam[index] : "velocity";
}

/* SPDX-License-Identifier: Apache-2.0
 * Weights of a convolution into panels of 16 outputs and back.
 */
#ifndef ISO_NN_KERNEL_NARROW_PACK_H
#define ISO_NN_KERNEL_NARROW_PACK_H

#include "nn/kernel/isa/transpose.h"

/* to[k * 16 + i] = from[i * step + k] for k < count and i < lanes, 0 for the other lanes of 16. */
ISO_INLINE void pack_lanes(float *to, const float *from, size_t step, size_t lanes, size_t count)
{
    size_t at[16], k = 0;
    if (lanes == 16) {
        for (size_t i = 0; i < 16; i++)
            at[i] = i * step;
        for (; k + 16 <= count; k += 16)
            transpose16(to + k * 16, 16, from + k, at);
    }
    for (; k < count; k++) {
        for (size_t i = 0; i < lanes; i++)
            to[k * 16 + i] = from[i * step + k];
        for (size_t i = lanes; i < 16; i++)
            to[k * 16 + i] = 0.0f;
    }
}

/* The way back: to[i * step + k] = from[k * 16 + i]. */
ISO_INLINE void unpack_lanes(float *to, const float *from, size_t step, size_t lanes, size_t count)
{
    size_t at[16], k = 0;
    if (lanes == 16) {
        for (size_t i = 0; i < 16; i++)
            at[i] = 16 * i;
        for (; k + 16 <= count; k += 16)
            transpose16(to + k, step, from + k * 16, at);
    }
    for (; k < count; k++)
        for (size_t i = 0; i < lanes; i++)
            to[i * step + k] = from[k * 16 + i];
}

#endif

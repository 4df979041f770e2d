/* SPDX-License-Identifier: Apache-2.0
 * The first layer of images of one channel: few filters, long rows. There the lane is a pixel.
 */
#ifndef ISO_NN_KERNEL_NARROW_IMAGE_H
#define ISO_NN_KERNEL_NARROW_IMAGE_H

#include "nn/kernel/isa/isa.h"

/* One channel, no stride, and rows long enough: tiles of 2 VL pixels read up to 16 values beyond a row. */
ISO_INLINE bool narrow_image_fits(const iso_conv *c)
{
    size_t pooled = c->out_columns / 2, reach = (pooled + VL - 1) / VL * VL;
    return c->channels == 1 && c->stride == 1 && 2 * reach <= (size_t)c->out_columns + 16;
}

/* Convolution, ReLU and 2x2 max pooling of one sample: y [P/2][Q/2][K], arg [P/2][Q/2][round16(K)]. taps: offsets of (r, s). */
void ISO_K(narrow_image)(const iso_conv *c, float *y, uint8_t *arg, const float *x, const float *w, const float *bias,
                         const int32_t *taps);

#endif

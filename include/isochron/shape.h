/* SPDX-License-Identifier: Apache-2.0
 * The shape of one sample or activation: channels, height, width. A flat vector of D features is {D, 1, 1}. */
#ifndef ISOCHRON_SHAPE_H
#define ISOCHRON_SHAPE_H

#include <stdint.h>

typedef struct iso_shape {
    uint32_t c, h, w;
} iso_shape;

#endif

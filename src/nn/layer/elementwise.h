/* SPDX-License-Identifier: Apache-2.0
 * What the elementwise layers share: each of their files is one row made with ISO_ELEMENTWISE. */
#ifndef ISO_NN_LAYER_ELEMENTWISE_H
#define ISO_NN_LAYER_ELEMENTWISE_H

#include "nn/layer.h"

int iso_elementwise_setup(iso_layer *l, iso_error *e);
void iso_elementwise_forward(const iso_layer *l, const iso_work *k, bool training);
void iso_elementwise_backward(const iso_layer *l, const iso_work *k);
void iso_elementwise_narrow_forward(const iso_layer *l, const iso_narrow_work *k);
bool iso_elementwise_narrow_backward(const iso_layer *l, const iso_narrow_work *k);

#define ISO_ELEMENTWISE(word, activation, text)                                                                 \
    .name = (word), .help = (text), .wants = ISO_LAYOUT_LANES, .gives = ISO_LAYOUT_LANES, .act = (activation),  \
    .setup = iso_elementwise_setup, .forward = iso_elementwise_forward, .backward = iso_elementwise_backward,   \
    .narrow_forward = iso_elementwise_narrow_forward, .narrow_backward = iso_elementwise_narrow_backward

/* The activation that follows a layer, taken over by it: for absorb. Returns 1 when there was one, else 0. */
uint32_t iso_absorb_activation(iso_layer *l, const iso_layer *next, uint32_t count);

#endif

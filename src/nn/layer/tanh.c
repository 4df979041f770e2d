/* SPDX-License-Identifier: Apache-2.0
 * hyperbolic tangent. */
#include "nn/layer/elementwise.h"

extern const iso_layer_kind iso_layer_tanh;
const iso_layer_kind iso_layer_tanh = {ISO_ELEMENTWISE("tanh", ISO_ACT_TANH, "hyperbolic tangent")};

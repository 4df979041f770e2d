/* SPDX-License-Identifier: Apache-2.0
 * max(x, 0). */
#include "nn/layer/elementwise.h"

extern const iso_layer_kind iso_layer_relu;
const iso_layer_kind iso_layer_relu = {ISO_ELEMENTWISE("relu", ISO_ACT_RELU, "max(x, 0)")};

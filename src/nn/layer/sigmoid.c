/* SPDX-License-Identifier: Apache-2.0
 * 1 / (1 + exp(-x)). */
#include "nn/layer/elementwise.h"

extern const iso_layer_kind iso_layer_sigmoid;
const iso_layer_kind iso_layer_sigmoid = {ISO_ELEMENTWISE("sigmoid", ISO_ACT_SIGMOID, "1 / (1 + exp(-x))")};

/* SPDX-License-Identifier: Apache-2.0
 * 1.7159 tanh(2x/3), LeCun et al. 1998. */
#include "nn/layer/elementwise.h"

extern const iso_layer_kind iso_layer_lecun_tanh;
const iso_layer_kind iso_layer_lecun_tanh = {ISO_ELEMENTWISE("lecun_tanh", ISO_ACT_LECUN_TANH, "1.7159 tanh(2x/3), LeCun et al. 1998")};

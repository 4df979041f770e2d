/* SPDX-License-Identifier: Apache-2.0
 * x where x > 0, slope x elsewhere. */
#include "nn/layer/elementwise.h"

static const iso_option options[] = {
    {"slope", ISO_OPTION_FLOAT, 0.01, 1e-6, 1, NULL, "factor of negative values"},
};

extern const iso_layer_kind iso_layer_leaky_relu;
const iso_layer_kind iso_layer_leaky_relu = {ISO_ELEMENTWISE("leaky_relu", ISO_ACT_LEAKY_RELU, "x, or slope x below 0"),
                                             .options = options, .option_count = 1};

/* SPDX-License-Identifier: Apache-2.0
 * Names of one instruction set's kernels. ISO_K(conv_forward) is iso_conv_forward_avx512 and so on; the prototypes come from
 * the table's own members, so the two cannot drift apart.
 */
#ifndef ISO_NN_KERNEL_ISA_H
#define ISO_NN_KERNEL_ISA_H

#include "nn/kernel/kernel.h"
#include "nn/kernel/narrow.h"
#include "nn/kernel/simd.h"

#define ISO_PASTE_(name, isa) iso_##name##_##isa
#define ISO_PASTE(name, isa) ISO_PASTE_(name, isa)
#define ISO_K(name) ISO_PASTE(name, ISO_ISA)

#define ISO_KERNEL_LIST(X) \
    X(load_u8) X(load_f32) X(load_row_u8) X(load_row_f32) X(lanes_to_rows) X(rows_to_lanes) X(add_border) \
    X(conv_forward) X(conv_pool_forward) X(conv_data) X(conv_weights) X(conv_pool_backward) \
    X(max_pool_forward) X(max_pool_backward) X(average_pool_forward) X(average_pool_backward) \
    X(act_forward) X(act_backward) X(scale_forward) X(scale_backward) \
    X(dense_forward) X(dense_data) X(dense_gradient) X(dense_update) X(dense_update_bias) \
    X(cross_entropy) X(squared_error) X(softmax) X(grid_add) X(update) \
    X(pack) X(unpack) X(weigh) X(mean) X(outer) X(distance)

#define ISO_DECLARE(name) __typeof__(*((iso_kernels *)0)->name) ISO_K(name);
ISO_KERNEL_LIST(ISO_DECLARE)
#undef ISO_DECLARE

#define ISO_NARROW_LIST(X) \
    X(load_u8) X(load_f32) X(conv_forward) X(conv_backward) X(conv_pool_backward) \
    X(max_pool_forward) X(max_pool_backward) X(average_pool_forward) X(average_pool_backward) \
    X(scale_forward) X(scale_backward) X(tree) X(dense_forward) X(dense_backward) X(step)

#define ISO_DECLARE(name) __typeof__(*((iso_narrow_kernels *)0)->name) ISO_K(narrow_##name);
ISO_NARROW_LIST(ISO_DECLARE)
#undef ISO_DECLARE

extern const iso_kernels ISO_K(kernels);
extern const iso_narrow_kernels ISO_K(narrow_kernels);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The table of one instruction set's kernels.
 */
#include "nn/kernel/isa/isa.h"

#define ISO_QUOTE_(word) #word
#define ISO_QUOTE(word) ISO_QUOTE_(word)
#define ISO_MEMBER(member) .member = ISO_K(member),

#define ISO_NARROW_MEMBER(member) .member = ISO_K(narrow_##member),

const iso_narrow_kernels ISO_K(narrow_kernels) = {ISO_NARROW_LIST(ISO_NARROW_MEMBER)};
const iso_kernels ISO_K(kernels) = {.name = ISO_QUOTE(ISO_ISA), .narrow = &ISO_K(narrow_kernels), ISO_KERNEL_LIST(ISO_MEMBER)};

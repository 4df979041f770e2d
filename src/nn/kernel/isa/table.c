/* SPDX-License-Identifier: Apache-2.0
 * The table of one instruction set's kernels.
 */
#include "nn/kernel/isa/isa.h"

#define ISO_QUOTE_(word) #word
#define ISO_QUOTE(word) ISO_QUOTE_(word)
#define ISO_MEMBER(member) .member = ISO_K(member),

const iso_kernels ISO_K(kernels) = {.name = ISO_QUOTE(ISO_ISA), ISO_KERNEL_LIST(ISO_MEMBER)};

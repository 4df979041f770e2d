/* SPDX-License-Identifier: Apache-2.0
 * Element types, private part. */
#ifndef ISO_FORMAT_TENSOR_TYPE_H
#define ISO_FORMAT_TENSOR_TYPE_H

#include "isochron/format.h"

/* The type of a name ("F32"). */
bool iso_tensor_type_find(const char *name, iso_tensor_type *out);

/* Copies elements of `each` bytes between little-endian and host order (the same thing both ways). */
void iso_tensor_swap(void *to, const void *from, size_t bytes, size_t each);

#endif

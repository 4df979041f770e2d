/* SPDX-License-Identifier: Apache-2.0
 * The element types of safetensors, and their byte order in memory. */
#include <string.h>

#include "base/assert.h"
#include "format/tensor_type.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [ISO_TENSOR_BOOL] = {"BOOL", 1}, [ISO_TENSOR_U8] = {"U8", 1},           [ISO_TENSOR_I8] = {"I8", 1},
    [ISO_TENSOR_I16] = {"I16", 2},   [ISO_TENSOR_F8_E5M2] = {"F8_E5M2", 1}, [ISO_TENSOR_F8_E4M3] = {"F8_E4M3", 1},
    [ISO_TENSOR_U16] = {"U16", 2},   [ISO_TENSOR_F16] = {"F16", 2},         [ISO_TENSOR_BF16] = {"BF16", 2},
    [ISO_TENSOR_I32] = {"I32", 4},   [ISO_TENSOR_U32] = {"U32", 4},         [ISO_TENSOR_F32] = {"F32", 4},
    [ISO_TENSOR_F64] = {"F64", 8},   [ISO_TENSOR_I64] = {"I64", 8},         [ISO_TENSOR_U64] = {"U64", 8},
};
#define TYPE_COUNT (sizeof types / sizeof *types)

const char *iso_tensor_type_name(iso_tensor_type type)
{
    ISO_ASSERT((size_t)type < TYPE_COUNT);
    return types[type].name;
}

size_t iso_tensor_type_bytes(iso_tensor_type type)
{
    ISO_ASSERT((size_t)type < TYPE_COUNT);
    return types[type].bytes;
}

bool iso_tensor_type_find(const char *name, iso_tensor_type *out)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *out = (iso_tensor_type)i;
            return true;
        }
    }
    return false;
}

void iso_tensor_swap(void *to, const void *from, size_t bytes, size_t each)
{
    if (bytes == 0)
        return;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)each;
    memcpy(to, from, bytes);
#else
    const unsigned char *p = from;
    unsigned char *q = to;
    for (size_t i = 0; i < bytes; i += each)
        for (size_t k = 0; k < each; k++)
            q[i + k] = p[i + each - 1 - k];
#endif
}

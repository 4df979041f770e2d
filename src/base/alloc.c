/* SPDX-License-Identifier: Apache-2.0
 * The default allocator (the process heap, blocks aligned to ISO_ALIGN) and the helpers on any allocator. */
#include "isochron/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static void *heap_alloc(void *context, size_t bytes)
{
    (void)context;
    size_t rounded;
    if (!iso_size_round_up(bytes, ISO_ALIGN, &rounded))
        return NULL;
    return aligned_alloc(ISO_ALIGN, rounded);
}

static void heap_free(void *context, void *block)
{
    (void)context;
    free(block);
}

const iso_alloc *iso_alloc_default(void)
{
    static const iso_alloc heap = {heap_alloc, heap_free, NULL};
    return &heap;
}

void *iso_new_raw(const iso_alloc *a, size_t count, size_t size)
{
    size_t bytes;
    if (!iso_size_mul(count, size, &bytes))
        return NULL;
    if (!a)
        a = iso_alloc_default();
    return a->alloc(a->context, bytes ? bytes : 1);
}

void *iso_new(const iso_alloc *a, size_t count, size_t size)
{
    void *block = iso_new_raw(a, count, size);
    if (block)
        memset(block, 0, count * size);
    return block;
}

void iso_free(const iso_alloc *a, void *block)
{
    if (!block)
        return;
    if (!a)
        a = iso_alloc_default();
    a->free(a->context, block);
}

char *iso_strdup(const iso_alloc *a, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = iso_new_raw(a, bytes, 1);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

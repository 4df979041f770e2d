/* SPDX-License-Identifier: Apache-2.0
 * One block carved into aligned parts; see arena.h. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/size.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_GAPS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_GAPS 1
#endif
#endif
#ifndef ARENA_GAPS
#define ARENA_GAPS 0
#endif

#if ARENA_GAPS
#include <sanitizer/asan_interface.h>
#define GAP_BYTES ((size_t)ISO_ALIGN)
#define POISON(address, bytes) ASAN_POISON_MEMORY_REGION((address), (bytes))
#define UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION((address), (bytes))
#else
#define GAP_BYTES ((size_t)0)
#define POISON(address, bytes) ((void)0)
#define UNPOISON(address, bytes) ((void)0)
#endif

iso_arena iso_arena_sizing(void)
{
    return (iso_arena){NULL, SIZE_MAX, 0, false};
}

iso_arena iso_arena_on(void *block, size_t bytes)
{
    ISO_ASSERT(block != NULL);
    ISO_ASSERT((uintptr_t)block % ISO_ALIGN == 0);
    UNPOISON(block, bytes);
    return (iso_arena){block, bytes, 0, false};
}

void *iso_arena_take(iso_arena *a, size_t count, size_t size)
{
    size_t bytes, end;
    if (a->failed)
        return NULL;
    if (!iso_size_mul(count, size, &bytes) || !iso_size_round_up(bytes, ISO_ALIGN, &end) ||
        !iso_size_add(end, GAP_BYTES, &end) || !iso_size_add(a->used, end, &end) || end > a->size) {
        a->failed = true;
        return NULL;
    }
    size_t begin = a->used;
    a->used = end;
    if (!a->base)
        return NULL;
    POISON(a->base + begin + bytes, end - begin - bytes);
    return a->base + begin;
}

void *iso_arena_take_zeroed(iso_arena *a, size_t count, size_t size)
{
    void *part = iso_arena_take(a, count, size);
    if (part)
        memset(part, 0, count * size);
    return part;
}

bool iso_arena_size(const iso_arena *a, size_t *bytes)
{
    if (a->failed)
        return false;
    *bytes = a->used;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * Carves one block into aligned parts. The same code runs twice: first on an arena without memory, which only adds up,
 * then on the block itself; so the size and the layout cannot drift apart.
 *
 *     iso_arena a = iso_arena_sizing();              iso_arena a = iso_arena_on(block, bytes);
 *     carve(&a, &parts);                             carve(&a, &parts);
 *     if (!iso_arena_size(&a, &bytes)) -> too big    (parts now points into the block)
 *
 * Under the address sanitizer a poisoned gap stands between the parts. Thread: one caller at a time. */
#ifndef ISO_BASE_ARENA_H
#define ISO_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "isochron/alloc.h"

typedef struct iso_arena {
    unsigned char *base; /* NULL while sizing */
    size_t size, used;   /* bytes; size is SIZE_MAX while sizing */
    bool failed;         /* a size overflowed, or the block was too small */
} iso_arena;

/* An arena that only counts. */
iso_arena iso_arena_sizing(void);

/* An arena on caller memory of `bytes`, aligned to ISO_ALIGN; the memory stays the caller's. */
iso_arena iso_arena_on(void *block, size_t bytes);

/* count * size bytes aligned to ISO_ALIGN, contents undefined; NULL while sizing and when it does not fit (then failed
 * is set). A part of 0 bytes is not NULL on a block but may not be read. */
void *iso_arena_take(iso_arena *a, size_t count, size_t size);

/* The same, filled with zeros. */
void *iso_arena_take_zeroed(iso_arena *a, size_t count, size_t size);

/* Bytes taken so far; false when any size overflowed. */
bool iso_arena_size(const iso_arena *a, size_t *bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Memory comes from an allocator the caller passes in. Objects compute what they need, take it at init and allocate nothing
 * later. All blocks are aligned to 64 bytes. */
#ifndef ISOCHRON_ALLOC_H
#define ISOCHRON_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "isochron/error.h"

#define ISO_ALIGN 64u /* bytes: a cache line and the widest vector */

/* alloc returns a block of at least `bytes` (> 0) bytes aligned to ISO_ALIGN, contents undefined, or NULL.
 * free takes what alloc gave, never NULL. Both must be safe from any thread. */
typedef struct iso_alloc {
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *block);
    void *context;
} iso_alloc;

/* The process heap. Thread: any. */
ISO_API const iso_alloc *iso_alloc_default(void);

/* count * size bytes, zeroed; NULL when out of memory or when the product overflows. NULL allocator: the default one. */
ISO_API void *iso_new(const iso_alloc *a, size_t count, size_t size);

/* As iso_new, contents undefined. */
ISO_API void *iso_new_raw(const iso_alloc *a, size_t count, size_t size);

/* Gives a block back; NULL is fine. */
ISO_API void iso_free(const iso_alloc *a, void *block);

/* A copy of a string; NULL when out of memory. */
ISO_API char *iso_strdup(const iso_alloc *a, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Checks of the fuzz targets, and an allocator whose k-th allocation fails: the input decides which. */
#ifndef ISO_FUZZ_CHECK_H
#define ISO_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "isochron/alloc.h"

#define FUZZ_CHECK(condition)                                                         \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

typedef struct fuzz_heap {
    iso_alloc alloc;
    size_t calls, fail_at, live, largest;
} fuzz_heap;

static void *fuzz_alloc(void *context, size_t bytes)
{
    fuzz_heap *h = context;
    if (bytes > h->largest)
        h->largest = bytes;
    if (++h->calls == h->fail_at)
        return NULL;
    h->live++;
    return iso_new_raw(NULL, bytes, 1);
}

static void fuzz_free(void *context, void *block)
{
    fuzz_heap *h = context;
    h->live--;
    iso_free(NULL, block);
}

/* fail_at 0: none fails. */
static inline void fuzz_heap_init(fuzz_heap *h, size_t fail_at)
{
    *h = (fuzz_heap){.fail_at = fail_at};
    h->alloc = (iso_alloc){fuzz_alloc, fuzz_free, h};
}

#endif

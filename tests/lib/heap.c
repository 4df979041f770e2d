/* SPDX-License-Identifier: Apache-2.0
 * A heap that counts and can fail. Each block has a header of one cache line that holds its size and a mark, so that a
 * wrong or doubled free is found. */
#include "test.h"

#define MARK ((size_t)0x1505C4A05EEDF00D)

typedef struct header {
    size_t mark, bytes;
} header;

static void *counted_alloc(void *context, size_t bytes)
{
    test_heap *heap = context;
    heap->calls++;
    if (bytes > heap->largest)
        heap->largest = bytes;
    if (heap->calls == heap->fail_at) {
        heap->failed = true;
        return NULL;
    }
    assert_true(bytes > 0);
    void *block = NULL;
    if (posix_memalign(&block, ISO_ALIGN, ISO_ALIGN + bytes) != 0)
        return NULL;
    *(header *)block = (header){MARK, bytes};
    heap->live_blocks++;
    heap->live_bytes += bytes;
    if (heap->live_bytes > heap->peak_bytes)
        heap->peak_bytes = heap->live_bytes;
    memset((char *)block + ISO_ALIGN, 0xA5, bytes);
    return (char *)block + ISO_ALIGN;
}

static void counted_free(void *context, void *block)
{
    test_heap *heap = context;
    header *h = (header *)(void *)((char *)block - ISO_ALIGN);
    assert_true(h->mark == MARK);
    h->mark = 0;
    heap->live_blocks--;
    heap->live_bytes -= h->bytes;
    free(h);
}

void test_heap_init(test_heap *heap, size_t fail_at)
{
    *heap = (test_heap){.fail_at = fail_at};
    heap->alloc = (iso_alloc){counted_alloc, counted_free, heap};
}

void test_heap_expect_empty(const test_heap *heap)
{
    if (heap->live_blocks != 0)
        fail_msg("%zu blocks of %zu bytes were not given back", heap->live_blocks, heap->live_bytes);
}

size_t test_every_allocation(int (*run)(const iso_alloc *a, void *context), void *context)
{
    for (size_t k = 1;; k++) {
        test_heap heap;
        test_heap_init(&heap, k);
        int status = run(&heap.alloc, context);
        if (heap.live_blocks != 0)
            fail_msg("allocation %zu failed: %zu blocks were not given back", k, heap.live_blocks);
        if (!heap.failed) {
            assert_int_equal(status, 0);
            return k - 1;
        }
        if (status != ISO_E_NOMEM)
            fail_msg("allocation %zu failed: status %d (%s), wanted E_NOMEM", k, status, iso_status_name(status));
    }
}

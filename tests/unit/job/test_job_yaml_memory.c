/* SPDX-License-Identifier: Apache-2.0
 * libyaml takes its memory from malloc, not from our allocator: each of those allocations fails once too, and nothing
 * leaks or crashes. malloc is replaced in this program, so the test steps aside under sanitizers, which replace it
 * themselves. */
#include <errno.h>

#include "test.h"

#include "isochron/job.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define SANITIZED 1
#endif

#ifndef SANITIZED
#define VISIBLE __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static bool counting;             /* only while the code under test runs */
static size_t calls, fail_at;
static long live;

static bool fails(void)
{
    if (!counting || ++calls != fail_at)
        return false;
    errno = ENOMEM;
    return true;
}

VISIBLE void *malloc(size_t bytes)
{
    if (fails())
        return NULL;
    live += counting;
    return __libc_malloc(bytes);
}

VISIBLE void *calloc(size_t count, size_t bytes)
{
    if (fails())
        return NULL;
    live += counting;
    return __libc_calloc(count, bytes);
}

VISIBLE void *realloc(void *block, size_t bytes)
{
    if (fails())
        return NULL;
    live += counting && !block;
    return __libc_realloc(block, bytes);
}

/* Our own allocator's way: counted, so that its frees are not taken for libyaml's, but never failed here. */
VISIBLE int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    *block = __libc_memalign(alignment, bytes);
    live += counting && *block;
    return *block ? 0 : ENOMEM;
}

VISIBLE void free(void *block)
{
    live -= counting && block;
    __libc_free(block);
}

static const char text[] = "data: {path: /d, augment: {shift: 2}}\nmodel:\n  layers: [conv: {filters: 6, kernel: 5}, "
                           "relu, flatten, dense: 10]\n"
                           "# comment\nname: \"quoted \\u00e9\"\nout: 'x'\nsync: {policy: nns}\n";

static void each_allocation_of_libyaml_may_fail(void **state)
{
    (void)state;
    static iso_job job, before;
    static const char *const wrong = "data: {path: [\nmodel";
    test_heap heap;
    size_t failures = 0;
    for (size_t k = 1;; k++) {
        iso_error e = {0};
        test_heap_init(&heap, 0);
        iso_job_default(&job);
        before = job;
        calls = 0, fail_at = k, live = 0;
        counting = true;
        int r = iso_job_parse(&job, "job.yaml", text, sizeof text - 1, &heap.alloc, &e);
        counting = false;
        assert_int_equal(live, 0);
        if (calls < k) {
            assert_int_equal(r, ISO_OK);
            break;
        }
        failures++;
        assert_int_equal(r, ISO_E_NOMEM);
        assert_true(e.text[0]);
        assert_memory_equal(&job, &before, sizeof job);
    }
    assert_true(failures > 20);
    for (size_t k = 1; k <= failures; k++) { /* on the way to a syntax error too */
        iso_error e = {0};
        test_heap_init(&heap, 0);
        calls = 0, fail_at = k, live = 0;
        counting = true;
        int r = iso_job_parse(&job, "job.yaml", wrong, strlen(wrong), &heap.alloc, &e);
        counting = false;
        assert_int_equal(live, 0);
        assert_true(r == ISO_E_NOMEM || r == ISO_E_JOB);
    }
}
#else
static void each_allocation_of_libyaml_may_fail(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_of_libyaml_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

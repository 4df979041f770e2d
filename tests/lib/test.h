/* SPDX-License-Identifier: Apache-2.0
 * What every test may use: cmocka, a counting heap that can fail, scratch folders (scratch.h), case files, builders of
 * bytes, seeds. */
#ifndef ISO_TESTS_TEST_H
#define ISO_TESTS_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isochron/alloc.h"
#include "isochron/error.h"
#include "scratch.h"

#define TEST_COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- a heap that counts and can fail (heap.c) -------------------------------------------------------------------- */

/* Not for several threads at once. */
typedef struct test_heap {
    iso_alloc alloc;                                     /* give &heap.alloc to the code under test */
    size_t calls;                                        /* allocations asked for so far */
    size_t fail_at;                                      /* the call that fails: 1, 2, ...; 0: none */
    bool failed;                                         /* it has failed */
    size_t live_blocks, live_bytes, peak_bytes, largest; /* largest: bytes of the largest request */
} test_heap;

/* Sets up a heap whose `fail_at`th allocation fails (0: none). */
void test_heap_init(test_heap *heap, size_t fail_at);

/* Fails the test unless everything was given back. */
void test_heap_expect_empty(const test_heap *heap);

/* Runs `run` with a heap that fails at its 1st, 2nd, ... allocation until it succeeds (returns 0) without having met a
 * failure. Expects ISO_E_NOMEM and an empty heap after each failure, and an empty heap at the end; returns the number
 * of allocations. `run` frees what it made. */
size_t test_every_allocation(int (*run)(const iso_alloc *a, void *context), void *context);

/* ---- the case files (cases.c); scratch folders are in scratch.h -------------------------------------------------- */

/* A file of tests/cases by its name in the manifest ("idx/trailing"): its path, its bytes in malloc memory. */
const char *test_case_path(const char *name, char out[512]);
uint8_t *test_case_read(const char *name, size_t *size);
/* The manifest's answer for a case ("error: short header"); fails the test when the case is not listed. */
const char *test_case_answer(const char *name, char out[256]);

/* ---- bytes to order (builder.c) ---------------------------------------------------------------------------------- */

/* Bytes in exactly sized malloc memory, so that a sanitizer sees every read beyond them. */
typedef struct test_bytes {
    uint8_t *bytes;
    size_t size;
} test_bytes;

void test_bytes_free(test_bytes *b);
void test_put(test_bytes *b, const void *bytes, size_t size);
void test_put_text(test_bytes *b, const char *text);
void test_put_u8(test_bytes *b, uint8_t v);
void test_put_u32_be(test_bytes *b, uint32_t v);
void test_put_u64_le(test_bytes *b, uint64_t v);
/* A copy of the first `size` bytes, exactly sized. */
test_bytes test_bytes_copy(const void *bytes, size_t size);
/* An IDX file: 0 0 type rank, the dimensions, the data as it is. */
test_bytes test_idx(uint8_t type, uint32_t rank, const uint32_t *dim, const void *data, size_t size);
/* gzip: one member, by zlib. */
test_bytes test_gzip(const void *bytes, size_t size);
/* safetensors: length, the header text as it is, the data. */
test_bytes test_safetensors(const char *header, const void *data, size_t size);

/* ---- seeds (seed.c) ---------------------------------------------------------------------------------------------- */

/* The seed of this run: ISO_SEED of the environment, else 1. Prints the command that replays the test. */
uint64_t test_seed(const char *test);

/* A small generator for test data; state is any number. */
uint64_t test_random(uint64_t *state);
uint64_t test_random_below(uint64_t *state, uint64_t bound);

/* Fails the test with the text unless `word` is part of `text`. */
void test_expect_word(const char *text, const char *word);

#endif

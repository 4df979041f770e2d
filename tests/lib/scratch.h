/* SPDX-License-Identifier: Apache-2.0
 * Scratch folders for tests, and small file helpers. Failures end the test by cmocka's asserts. */
#ifndef ISO_TESTS_SCRATCH_H
#define ISO_TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

/* A new empty folder; the caller frees the name with scratch_remove. */
char *scratch_make(void);
/* Removes the folder with all that is in it, and frees the name. */
void scratch_remove(char *folder);

/* "FOLDER/NAME" in one of eight rotating static buffers. */
const char *scratch_path(const char *folder, const char *name);

void scratch_write(const char *path, const void *bytes, size_t size);
/* Whole file with a NUL behind it; the caller frees. *size may be NULL. */
char *scratch_read(const char *path, size_t *size);
bool scratch_exists(const char *path);
/* Number of entries but "." and "..", hidden ones included. */
int scratch_entries(const char *folder);

#endif

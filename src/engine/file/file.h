/* SPDX-License-Identifier: Apache-2.0
 * Files of the outside world as bytes in memory: mapped or read whole, decompressed by content, folders listed. */
#ifndef ISO_ENGINE_FILE_FILE_H
#define ISO_ENGINE_FILE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/data.h"
#include "isochron/error.h"

#define ISO_FILE_MAX ((size_t)1 << 40)   /* bytes: more than this is taken for a mistake */
#define ISO_DEVICE_MAX ((size_t)1 << 20) /* bytes of a device that is not a disk's file: a job typed on a terminal */

/* The whole content of a file, a pipe or (path "-") standard input, at most `max` bytes (0: ISO_FILE_MAX). A large
 * regular file is mapped (do not cut it while it is in use), the rest is read. What may never end is bounded: a pipe by
 * half of the memory this process may use, a device (a terminal, /dev/zero) by ISO_DEVICE_MAX. Give it back by
 * iso_bytes_release. Errors: ISO_E_IO with the path and the system's reason (a folder, no such file, ...), ISO_E_NOMEM,
 * ISO_E_FORMAT when it is larger than that. Thread: any. */
int iso_file_read(const char *path, size_t max, const iso_alloc *a, iso_bytes *out, iso_error *e);

/* The same, and gunzip when the content begins like gzip, whatever the name: to half of the allowed memory at most.
 * *was_gzip may be NULL. stop (NULL: none) is looked at between reads of a pipe or device and when a signal cut a wait
 * short: once it is not 0 the call ends with ISO_E_INTERRUPTED, so that a pipe that gives nothing holds nobody. */
int iso_file_load(const char *path, size_t max, const atomic_int *stop, const iso_alloc *a, iso_bytes *out,
                  bool *was_gzip, iso_error *e);

/* Does it begin with the magic number of gzip? */
bool iso_is_gzip(const void *bytes, size_t size);

/* Decompresses gzip: members are joined. `name` is for messages. The size is bounded by max and by deflate's own limit
 * of 1032 to 1, never by the trailer. Errors: ISO_E_FORMAT (cut, damaged, wrong check sum, something behind the end:
 * with the byte), ISO_E_NOMEM. */
int iso_gunzip(const void *bytes, size_t size, const char *name, size_t max, const iso_alloc *a, iso_bytes *out,
               iso_error *e);

/* Do two files hold the same bytes once decompressed? They are read side by side, a piece at a time. Errors: ISO_E_IO,
 * ISO_E_FORMAT (one of them is damaged), ISO_E_NOMEM, each with the path. */
int iso_file_same(const char *one, const char *other, const iso_alloc *a, bool *same, iso_error *e);

/* What a path leads to; a symbolic link is followed. */
typedef enum iso_path_kind { ISO_PATH_MISSING, ISO_PATH_FILE, ISO_PATH_FOLDER, ISO_PATH_OTHER } iso_path_kind;
iso_path_kind iso_path_kind_of(const char *path);

/* Names in a folder in byte order, without "." and "..". */
typedef struct iso_listing {
    char **name; /* [count] */
    size_t count;
    const iso_alloc *alloc;
} iso_listing;

/* Errors: ISO_E_IO with the path and the reason, ISO_E_NOMEM. */
int iso_folder_list(const char *path, const iso_alloc *a, iso_listing *out, iso_error *e);
void iso_listing_free(iso_listing *l);

/* "folder/name" in a new string, NULL when out of memory; the last part of a path (never empty unless the path is). */
char *iso_path_join(const iso_alloc *a, const char *folder, const char *name);
const char *iso_path_name(const char *path);

#endif

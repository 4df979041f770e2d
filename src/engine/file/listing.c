/* SPDX-License-Identifier: Apache-2.0
 * The names in a folder, in the order of their bytes: neither the locale nor the file system decides. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "engine/file/file.h"

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Copies of all names into l->name, by way of a growing buffer of pointers. */
static int collect(DIR *folder, const char *path, iso_listing *l, iso_error *e)
{
    iso_buffer names;
    iso_buffer_init(&names, l->alloc, 0);
    int status = ISO_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno)
                status = iso_error_set(e, ISO_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *copy = iso_strdup(l->alloc, entry->d_name);
        if (!copy || !iso_buffer_put(&names, &copy, sizeof copy)) {
            iso_free(l->alloc, copy);
            status = iso_error_set(e, ISO_E_NOMEM, "%s: out of memory after %zu names", path, names.size / sizeof copy);
            break;
        }
    }
    l->name = (char **)(void *)names.bytes;
    l->count = names.size / sizeof *l->name;
    return status;
}

int iso_folder_list(const char *path, const iso_alloc *a, iso_listing *out, iso_error *e)
{
    *out = (iso_listing){.alloc = a};
    DIR *folder = opendir(path);
    if (!folder)
        return iso_error_set(e, ISO_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
    int status = collect(folder, path, out, e);
    closedir(folder);
    if (status != ISO_OK)
        iso_listing_free(out);
    else if (out->count > 1)
        qsort(out->name, out->count, sizeof *out->name, by_bytes);
    return status;
}

void iso_listing_free(iso_listing *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++)
        iso_free(l->alloc, l->name[i]);
    iso_free(l->alloc, l->name);
    *l = (iso_listing){0};
}

char *iso_path_join(const iso_alloc *a, const char *folder, const char *name)
{
    size_t n = strlen(folder), m = strlen(name);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    char *path = iso_new_raw(a, n + m + 2, 1);
    if (!path)
        return NULL;
    memcpy(path, folder, n);
    path[n] = '/';
    memcpy(path + n + (n > 0 && folder[n - 1] == '/' ? 0 : 1), name, m + 1);
    return path;
}

const char *iso_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

char *scratch_make(void)
{
    const char *base = getenv("TMPDIR");
    char name[512];
    snprintf(name, sizeof name, "%s/iso-test-XXXXXX", base && *base ? base : P_tmpdir);
    assert_non_null(mkdtemp(name));
    char *copy = strdup(name);
    assert_non_null(copy);
    return copy;
}

static void remove_tree(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        struct stat info;
        assert_int_equal(lstat(path, &info), 0);
        if (S_ISDIR(info.st_mode))
            remove_tree(path);
        else
            assert_int_equal(unlink(path), 0);
    }
    closedir(dir);
    assert_int_equal(rmdir(folder), 0);
}

void scratch_remove(char *folder)
{
    remove_tree(folder);
    free(folder);
}

const char *scratch_path(const char *folder, const char *name)
{
    static char buffer[8][1024];
    static unsigned next;
    char *out = buffer[next++ % 8];
    snprintf(out, sizeof buffer[0], "%s/%s", folder, name);
    return out;
}

void scratch_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *scratch_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length >= 0);
    rewind(file);
    char *bytes = malloc((size_t)length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
    assert_int_equal(fclose(file), 0);
    bytes[length] = 0;
    if (size)
        *size = (size_t)length;
    return bytes;
}

bool scratch_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

int scratch_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int count = -2;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* SPDX-License-Identifier: Apache-2.0
 * Scratch folders, and the case files of the repository. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

test_scratch test_scratch_make(void)
{
    test_scratch scratch;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch.path, sizeof scratch.path, "%.180s/iso-test-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(scratch.path))
        fail_msg("no scratch folder %s: %s", scratch.path, strerror(errno));
    return scratch;
}

static void remove_tree(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    if (!S_ISDIR(info.st_mode)) {
        unlink(path);
        return;
    }
    chmod(path, 0700);
    DIR *folder = opendir(path);
    if (folder) {
        for (struct dirent *entry; (entry = readdir(folder));) {
            char child[1024];
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
            remove_tree(child);
        }
        closedir(folder);
    }
    rmdir(path);
}

void test_scratch_remove(const test_scratch *scratch)
{
    remove_tree(scratch->path);
}

const char *test_scratch_path(const test_scratch *scratch, const char *name, char out[512])
{
    snprintf(out, 512, "%.255s/%.250s", scratch->path, name);
    return out;
}

void test_write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        fail_msg("%s: %s", path, strerror(errno));
    if (size)
        assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

uint8_t *test_read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long length = ftell(f);
    assert_true(length >= 0);
    rewind(f);
    uint8_t *bytes = malloc(length ? (size_t)length : 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, f), (size_t)length);
    fclose(f);
    *size = (size_t)length;
    return bytes;
}

const char *test_case_path(const char *name, char out[512])
{
    snprintf(out, 512, ISO_TEST_ROOT "/cases/%s", name);
    return out;
}

uint8_t *test_case_read(const char *name, size_t *size)
{
    char path[512];
    return test_read_file(test_case_path(name, path), size);
}

const char *test_case_answer(const char *name, char out[256])
{
    FILE *f = fopen(ISO_TEST_ROOT "/cases/MANIFEST.tsv", "r");
    if (!f)
        fail_msg("%s: %s", ISO_TEST_ROOT "/cases/MANIFEST.tsv", strerror(errno));
    char line[512], file[256];
    int found = 0;
    while (!found && fgets(line, sizeof line, f))
        found = sscanf(line, "%255[^\t]\t%*u\t%255[^\n]", file, out) == 2 && strcmp(file, name) == 0;
    fclose(f);
    if (!found)
        fail_msg("%s is not in the manifest", name);
    return out;
}

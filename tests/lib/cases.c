/* SPDX-License-Identifier: Apache-2.0
 * The case files of the repository and the manifest's answers. */
#include "test.h"

#define MANIFEST ISO_TEST_ROOT "/cases/MANIFEST.tsv"

const char *test_case_path(const char *name, char out[512])
{
    snprintf(out, 512, ISO_TEST_ROOT "/cases/%s", name);
    return out;
}

uint8_t *test_case_read(const char *name, size_t *size)
{
    char path[512];
    return (uint8_t *)scratch_read(test_case_path(name, path), size);
}

const char *test_case_answer(const char *name, char out[256])
{
    FILE *f = fopen(MANIFEST, "r");
    if (!f)
        fail_msg("%s cannot be opened", MANIFEST);
    char line[512], file[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, f))
        found = sscanf(line, "%255[^\t]\t%*u\t%255[^\n]", file, out) == 2 && strcmp(file, name) == 0;
    fclose(f);
    if (!found)
        fail_msg("%s is not in the manifest", name);
    return out;
}

/* SPDX-License-Identifier: Apache-2.0
 * The job file's fuzz target over its corpus, and over seeded mutations of it: cut, bytes turned, pieces exchanged. The
 * target aborts when one of its promises is broken. */
#include <dirent.h>

#include "test.h"

#include "../../../fuzz/fuzz_job.c"

#define MUTANTS 300 /* of each file */

static test_bytes corpus[256];
static size_t corpus_count;

static void load(void)
{
    DIR *folder = opendir(ISO_TEST_ROOT "/../fuzz/corpus/job");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && corpus_count < TEST_COUNT(corpus);) {
        char path[1024];
        size_t size;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/../fuzz/corpus/job/%s", ISO_TEST_ROOT, entry->d_name);
        char *bytes = scratch_read(path, &size);
        corpus[corpus_count++] = test_bytes_copy(bytes, size);
        free(bytes);
    }
    closedir(folder);
    assert_true(corpus_count >= 30);
}

static void every_file_of_the_corpus_holds(void **state)
{
    (void)state;
    load();
    for (size_t i = 0; i < corpus_count; i++)
        LLVMFuzzerTestOneInput(corpus[i].bytes, corpus[i].size);
}

static void mutate(uint64_t *random, const test_bytes *from, test_bytes *out)
{
    static const char special[] = "[]{}:,&*!|>'\"#%@`-?\n\t \\\xff\x00";
    test_put(out, from->bytes, from->size);
    for (uint64_t changes = 1 + test_random_below(random, 4); changes && out->size; changes--) {
        size_t at = test_random_below(random, out->size);
        switch (test_random_below(random, 4)) {
        case 0:
            out->size = at;
            break;
        case 1:
            out->bytes[at] = (uint8_t)test_random(random);
            break;
        case 2:
            out->bytes[at] = (uint8_t)special[test_random_below(random, sizeof special - 1)];
            break;
        default: { /* the rest of another file */
            const test_bytes *other = &corpus[test_random_below(random, corpus_count)];
            size_t begin = other->size ? test_random_below(random, other->size) : 0;
            out->size = at;
            test_put(out, other->bytes + begin, other->size - begin);
        }
        }
    }
}

static void mutants_of_the_corpus_hold(void **state)
{
    (void)state;
    uint64_t random = test_seed("test_job_corpus");
    for (size_t i = 0; i < corpus_count; i++)
        for (int m = 0; m < MUTANTS; m++) {
            test_bytes mutant = {0};
            mutate(&random, &corpus[i], &mutant);
            test_bytes exact = test_bytes_copy(mutant.bytes, mutant.size);
            LLVMFuzzerTestOneInput(exact.bytes, exact.size);
            test_bytes_free(&exact);
            test_bytes_free(&mutant);
        }
}

static int give_back(void **state)
{
    (void)state;
    while (corpus_count)
        test_bytes_free(&corpus[--corpus_count]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_of_the_corpus_holds),
        cmocka_unit_test(mutants_of_the_corpus_hold),
    };
    return cmocka_run_group_tests(tests, NULL, give_back);
}

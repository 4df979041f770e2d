/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: the job file, and --set. Whatever the bytes: no crash, an error has a sentence, an error changes
 * nothing, and a job that is accepted reads back as itself from what it is written as. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isochron/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_job: %s\n", what);
    abort();
}

static void check_written(const iso_job *job)
{
    static iso_job again;
    iso_error e = {0};
    size_t length = iso_job_write(job, NULL, 0);
    char *one = malloc(length + 1), *two = malloc(length + 1);
    if (one && two) {
        iso_job_write(job, one, length + 1);
        iso_job_default(&again);
        hold(!iso_job_parse(&again, "again", one, length, NULL, &e), e.text);
        hold(!iso_job_finish(&again, &e), e.text);
        hold(iso_job_write(&again, two, length + 1) == length && !strcmp(one, two),
             "written, read and written again differs");
        hold(!iso_job_difference(job, &again, &e), e.text);
    }
    free(one);
    free(two);
}

static void check_set(iso_job *job, const uint8_t *data, size_t size)
{
    static iso_job before;
    iso_error e = {0};
    char *text = malloc(size + 1);
    if (!text)
        return;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    before = *job;
    if (iso_job_set(job, text, NULL, &e)) {
        hold(e.text[0] != 0, "an error without a sentence");
        hold(!memcmp(job, &before, sizeof before), "a wrong --set changed the job");
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static iso_job job, before;
    iso_error e = {0};
    iso_job_default(&job);
    check_set(&job, data, size);
    before = job;
    if (iso_job_parse(&job, "fuzz", (const char *)data, size, NULL, &e)) {
        hold(e.text[0] != 0, "an error without a sentence");
        hold(!memcmp(&job, &before, sizeof job), "a wrong file changed the job");
        return 0;
    }
    if (iso_job_finish(&job, &e))
        hold(e.text[0] != 0, "an error without a sentence");
    else
        check_written(&job);
    return 0;
}

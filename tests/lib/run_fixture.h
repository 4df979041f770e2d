/* SPDX-License-Identifier: Apache-2.0
 * For tests that train: a small data set in IDX files, a job from text, a run with its figures. Header only, since it
 * needs more than the lowest layers' tests link. */
#ifndef ISO_TESTS_RUN_FIXTURE_H
#define ISO_TESTS_RUN_FIXTURE_H

#include "isochron/job.h"
#include "isochron/train.h"
#include "test.h"

#define FIXTURE_SIDE 8u
#define FIXTURE_CLASSES 3u

/* n images of 8 x 8: a bar at a place that depends on the class, in noise. Classes are learnable, not trivially. */
static inline void fixture_images(const char *folder, const char *stem, uint32_t n, uint64_t seed)
{
    uint32_t dim[3] = {n, FIXTURE_SIDE, FIXTURE_SIDE};
    uint8_t *pixel = malloc((size_t)n * FIXTURE_SIDE * FIXTURE_SIDE), *label = malloc(n);
    assert_non_null(pixel);
    assert_non_null(label);
    for (uint32_t i = 0; i < n; i++) {
        label[i] = (uint8_t)(i < FIXTURE_CLASSES ? i : test_random_below(&seed, FIXTURE_CLASSES));
        for (uint32_t k = 0; k < FIXTURE_SIDE * FIXTURE_SIDE; k++) {
            uint32_t row = k / FIXTURE_SIDE, noise = (uint32_t)test_random_below(&seed, 200);
            pixel[(size_t)i * FIXTURE_SIDE * FIXTURE_SIDE + k] = (uint8_t)(noise + (row / 2 == label[i] ? 55 : 0));
        }
    }
    char name[128];
    test_bytes images = test_idx(8, 3, dim, pixel, (size_t)n * FIXTURE_SIDE * FIXTURE_SIDE),
               labels = test_idx(8, 1, dim, label, n);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", stem);
    scratch_write(scratch_path(folder, name), images.bytes, images.size);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", stem);
    scratch_write(scratch_path(folder, name), labels.bytes, labels.size);
    test_bytes_free(&images);
    test_bytes_free(&labels);
    free(pixel);
    free(label);
}

/* A scratch folder with train and test files. */
static inline char *fixture_data(uint32_t train, uint32_t test)
{
    char *folder = scratch_make();
    fixture_images(folder, "train", train, 11);
    fixture_images(folder, "t10k", test, 12);
    return folder;
}

/* The defaults, data and model, then `more`: lines of a job file, and of the form data.KEY=VALUE. */
static inline iso_job *fixture_job(const char *data, const char *out, const char *more)
{
    iso_job *job = malloc(sizeof *job);
    iso_error e = {0};
    char text[4096];
    assert_non_null(job);
    iso_job_default(job);
    snprintf(text, sizeof text, "data: {path: \"%s\"}\nmodel: {preset: mlp, hidden: [12]}\nout: \"%s\"\nseed: 5\n",
             data, out);
    int result = iso_job_parse(job, "job.yaml", text, strlen(text), NULL, &e);
    text[0] = 0;
    for (const char *line = more, *end; result == 0 && *line; line = end + 1) {
        char part[1024];
        end = strchr(line, '\n');
        assert_non_null(end);
        snprintf(part, sizeof part, "%.*s", (int)(end - line), line);
        if (strncmp(part, "data.", 5) == 0)
            result = iso_job_set(job, part, NULL, &e);
        else
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", part);
    }
    if (result || (*text && iso_job_parse(job, "more.yaml", text, strlen(text), NULL, &e)) || iso_job_finish(job, &e))
        fail_msg("%s", e.text);
    return job;
}

/* Trains; the result, with the text in *e. */
static inline int fixture_train(const iso_job *job, const iso_train_options *o, iso_summary *s, iso_error *e)
{
    int result = iso_train(job, o, s, e);
    if (result != e->code)
        fail_msg("result %d, error %d %s", result, e->code, e->text);
    return result;
}

/* Trains and must succeed; weights_sha256 in out. */
static inline void fixture_hash(const iso_job *job, const iso_train_options *o, char out[ISO_SHA256_TEXT])
{
    iso_summary s;
    iso_error e;
    if (fixture_train(job, o, &s, &e))
        fail_msg("%s", e.text);
    assert_int_equal(strlen(s.weights_sha256), 64);
    memcpy(out, s.weights_sha256, ISO_SHA256_TEXT);
    iso_summary_clear(&s, NULL);
}

#endif

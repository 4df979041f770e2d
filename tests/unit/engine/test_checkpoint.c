/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints and model files: a file cut at any length or with any bit turned is never taken for a whole one; every
 * allocation of a training run, of opening a model and of using it may fail. */
#include <unistd.h>

#include "engine/run/audit.h"
#include "engine/run/checkpoint.h"
#include "isochron/data.h"
#include "run_fixture.h"

static char *data, *folder;
static iso_job *job;
static iso_summary summary;

static int setup(void **state)
{
    (void)state;
    data = fixture_data(20, 5);
    folder = scratch_make();
    job = fixture_job(
        data, scratch_path(folder, "run"),
        "batch: 8\nepochs: 2\nmodel: {preset: mlp, hidden: [2]}\ncheckpoint: {every: 1, seconds: 0, keep: 1}\n");
    iso_error e;
    if (fixture_train(job, &(iso_train_options){.workers = 1}, &summary, &e))
        fail_msg("%s", e.text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    iso_summary_clear(&summary, NULL);
    free(job);
    scratch_remove(folder);
    scratch_remove(data);
    return 0;
}

/* What reading a checkpoint needs. */
typedef struct reader {
    iso_run run;
    iso_card card;
    iso_net *net;
    iso_snapshot snapshot;
    uint64_t round;
} reader;

static void reader_init(reader *r)
{
    iso_error e;
    iso_bytes bytes;
    iso_dataset set;
    uint64_t *rounds = NULL;
    size_t count = 0, size;
    char *images = scratch_read(scratch_path(data, "train-images-idx3-ubyte"), &size);
    bytes = (iso_bytes){.bytes = (const uint8_t *)images, .size = size};
    assert_int_equal(iso_data_read(&bytes, NULL, NULL, &set, &e), 0);
    set.classes = FIXTURE_CLASSES;
    iso_channel channel = {.scale = 1};
    assert_int_equal(iso_card_make(&r->card, job, &set, FIXTURE_CLASSES, &channel, iso_alloc_default(), &e), 0);
    iso_dataset_free(&set);
    free(images);
    if (iso_card_net(&r->card, ISO_ISA_AUTO, &r->net, &e) ||
        iso_snapshot_init(&r->snapshot, r->net, &job->optimizer, 1, iso_alloc_default(), &e) ||
        iso_run_open(&r->run, job->out, ISO_RUN_RESUME, NULL, iso_alloc_default(), &e) ||
        iso_run_checkpoints(&r->run, &rounds, &count, &e))
        fail_msg("%s", e.text);
    assert_int_equal(count, 1);
    r->round = rounds[0];
    iso_free(NULL, rounds);
}

static void reader_fini(reader *r)
{
    iso_run_close(&r->run);
    iso_snapshot_fini(&r->snapshot);
    iso_net_free(r->net);
    iso_card_free(&r->card);
}

/* The fingerprints of the file itself, so that a whole file is taken. */
static void take_fingerprint(reader *r, const char *path)
{
    size_t size;
    iso_tensors *t;
    iso_card card;
    iso_error e;
    char *bytes = scratch_read(path, &size);
    assert_int_equal(iso_tensors_read(&t, bytes, size, path, NULL, &e), 0);
    assert_int_equal(iso_card_read(&card, t, path, iso_alloc_default(), &e), 0);
    memcpy(r->card.set, card.set, sizeof card.set);
    iso_card_free(&card);
    iso_tensors_free(t);
    free(bytes);
}

static void a_checkpoint_cut_or_turned_is_found_out(void **state)
{
    (void)state;
    reader r;
    char name[ISO_CHECKPOINT_NAME_MAX];
    reader_init(&r);
    iso_checkpoint_name(r.round, name);
    char *path = strdup(scratch_path(job->out, name));
    take_fingerprint(&r, path);
    size_t size;
    iso_error e;
    char *bytes = scratch_read(path, &size);
    if (iso_checkpoint_read(&r.run, r.round, &r.card, r.net, &r.snapshot, &e))
        fail_msg("%s", e.text);
    assert_int_equal(r.snapshot.round, r.round);
    for (size_t cut = 0; cut < size; cut++) {
        scratch_write(path, bytes, cut);
        if (iso_checkpoint_read(&r.run, r.round, &r.card, r.net, &r.snapshot, &e) != ISO_E_FORMAT)
            fail_msg("cut to %zu of %zu bytes: %d", cut, size, e.code);
        test_expect_word(e.text, name);
    }
    uint64_t random = test_seed("engine/test_checkpoint");
    for (size_t at = 0; at < size; at++) {
        char bit = (char)(1 << test_random_below(&random, 8));
        bytes[at] ^= bit;
        scratch_write(path, bytes, size);
        bytes[at] ^= bit;
        int result = iso_checkpoint_read(&r.run, r.round, &r.card, r.net, &r.snapshot, &e);
        bool same_text = bit == 0x20 && at >= 5 &&
                         memcmp(bytes + at - 5, "\\u000", 5) == 0; /* \u000a and \u000A are one character */
        if (result != ISO_E_FORMAT && !(same_text && result == 0))
            fail_msg("bit %d of byte %zu turned: %d: %.40s", bit, at, result, bytes + (at > 20 ? at - 20 : 0));
    }
    scratch_write(path, bytes, size);
    assert_int_equal(iso_checkpoint_read(&r.run, r.round, &r.card, r.net, &r.snapshot, &e), 0);
    free(bytes);
    free(path);
    reader_fini(&r);
}

static int to_buffer(void *context, const void *bytes, size_t size, iso_error *e)
{
    return iso_buffer_put(context, bytes, size) ? 0 : iso_error_set(e, ISO_E_NOMEM, "no memory");
}

/* A whole file of another version is told as that: it is not damaged, and no older one is taken for it. */
static void another_version_is_told(void **state)
{
    (void)state;
    reader r;
    iso_card_text text;
    iso_buffer file;
    iso_error e;
    char crc[16];
    reader_init(&r);
    iso_buffer_init(&file, NULL, 0);
    assert_int_equal(iso_card_write(&r.card, "checkpoint", 1, 0, NULL, NULL, &text, &e), 0);
    assert_string_equal(text.pair[0].key, "isochron");
    text.pair[0].value = "checkpoint 1";
    const float weight[1] = {0};
    const iso_tensor_out tensor = {.name = "w", .type = ISO_TENSOR_F32, .rank = 1, .dim = {1}, .data = weight};
    iso_card_seal(&text, &tensor, 1, crc);
    assert_int_equal(iso_tensors_write(&tensor, 1, text.pair, text.count, to_buffer, &file, NULL, NULL, &e), 0);
    iso_card_text_free(&text);
    char name[ISO_CHECKPOINT_NAME_MAX];
    iso_checkpoint_name(r.round, name);
    size_t size;
    char *kept = scratch_read(scratch_path(job->out, name), &size);
    scratch_write(scratch_path(job->out, name), file.bytes, file.size);
    bool found;
    assert_int_equal(iso_checkpoint_newest(&r.run, &r.card, r.net, &r.snapshot, &found, NULL, NULL, &e), ISO_E_UNSUPPORTED);
    test_expect_word(e.text, "'checkpoint 1'");
    scratch_write(scratch_path(job->out, name), kept, size);
    free(kept);
    iso_buffer_fini(&file);
    reader_fini(&r);
}

static void a_model_cut_or_turned_is_found_out(void **state)
{
    (void)state;
    size_t size;
    iso_error e;
    iso_trained *m;
    const char *path = scratch_path(folder, "cut.safetensors");
    char *bytes = scratch_read(scratch_path(job->out, "model.safetensors"), &size), *copy = strdup(path);
    for (size_t cut = 0; cut < size; cut += 1 + cut % 3) {
        scratch_write(copy, bytes, cut);
        assert_int_equal(iso_model_open(&m, copy, ISO_ISA_AUTO, NULL, &e), ISO_E_FORMAT);
        assert_null(m);
        test_expect_word(e.text, "cut.safetensors");
    }
    for (size_t at = 0; at < size; at += 1 + at % 3) {
        bytes[at] ^= 4;
        scratch_write(copy, bytes, size);
        bytes[at] ^= 4;
        assert_int_equal(iso_model_open(&m, copy, ISO_ISA_AUTO, NULL, &e), ISO_E_FORMAT);
    }
    free(bytes);
    free(copy);
}

static void what_is_no_model_is_told(void **state)
{
    (void)state;
    iso_error e;
    iso_trained *m;
    char *empty = scratch_make();
    assert_int_equal(iso_model_open(&m, scratch_path(folder, "absent"), ISO_ISA_AUTO, NULL, &e), ISO_E_IO);
    test_expect_word(e.text, "absent");
    assert_int_equal(iso_model_open(&m, empty, ISO_ISA_AUTO, NULL, &e), ISO_E_IO);
    test_expect_word(e.text, "model.safetensors");
    assert_int_equal(iso_model_open(&m, scratch_path(data, "train-labels-idx1-ubyte"), ISO_ISA_AUTO, NULL, &e),
                     ISO_E_FORMAT);
    test_bytes plain =
        test_safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "\0\0\0\0", 4);
    scratch_write(scratch_path(empty, "x.safetensors"), plain.bytes, plain.size);
    assert_int_equal(iso_model_open(&m, scratch_path(empty, "x.safetensors"), ISO_ISA_AUTO, NULL, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "isochron");
    test_bytes_free(&plain);

    /* a checkpoint serves as a model, and a folder without a model gives its newest checkpoint */
    assert_int_equal(iso_model_open(&m, job->out, ISO_ISA_AUTO, NULL, &e), 0);
    assert_string_equal(iso_model_sha256(m), summary.weights_sha256);
    iso_model_close(m);
    assert_int_equal(rename(scratch_path(job->out, "model.safetensors"), scratch_path(empty, "kept")), 0);
    assert_int_equal(iso_model_open(&m, job->out, ISO_ISA_AUTO, NULL, &e), 0);
    test_expect_word(iso_model_path(m), "checkpoint-");
    iso_model_close(m);
    assert_int_equal(rename(scratch_path(empty, "kept"), scratch_path(job->out, "model.safetensors")), 0);
    scratch_remove(empty);
}

/* Weights to start from: the run's own result gives that result after 0 useful steps; another net's are refused by
 * name. */
static void weights_to_start_from(void **state)
{
    (void)state;
    iso_error e;
    char *s = scratch_make(), text[8192];
    snprintf(text, sizeof text,
             "batch: 8\nepochs: 1\nmodel: {preset: mlp, hidden: [2]}\noptimizer: {learning_rate: 1e-30, momentum: "
             "0}\ninit: \"%s\"\n",
             job->out);
    iso_job *next = fixture_job(data, scratch_path(s, "run"), text);
    char hash[ISO_SHA256_TEXT];
    fixture_hash(next, &(iso_train_options){.workers = 1}, hash);
    assert_string_equal(hash, summary.weights_sha256);
    free(next);
    snprintf(text, sizeof text, "batch: 8\nepochs: 1\nmodel: {preset: mlp, hidden: [4]}\ninit: \"%s\"\n", job->out);
    next = fixture_job(data, scratch_path(s, "other"), text);
    assert_int_equal(fixture_train(next, &(iso_train_options){.workers = 1}, NULL, &e), ISO_E_SHAPE);
    test_expect_word(e.text, "dense1.weight");
    free(next);
    scratch_remove(s);
}

/* ---- allocations --------------------------------------------------------------------------------------- */

static int train_once(const iso_alloc *a, void *context)
{
    (void)context;
    char *s = scratch_make();
    iso_job copy = *job;
    iso_summary made;
    snprintf(copy.out, sizeof copy.out, "%s/run", s);
    int result = iso_train(&copy, &(iso_train_options){.workers = 1, .alloc = a}, &made, NULL);
    iso_summary_clear(&made, a);
    if (result == 0)
        result = iso_train(&copy, &(iso_train_options){.workers = 1, .alloc = a, .resume = true}, NULL, NULL);
    scratch_remove(s);
    return result;
}

static int resume_once(const iso_alloc *a, void *context)
{
    (void)context;
    assert_int_equal(rename(scratch_path(job->out, "summary.json"), scratch_path(folder, "summary.json")), 0);
    int result = iso_train(job, &(iso_train_options){.workers = 1, .alloc = a, .resume = true}, NULL, NULL);
    assert_int_equal(rename(scratch_path(folder, "summary.json"), scratch_path(job->out, "summary.json")), 0);
    return result;
}

static int use_once(const iso_alloc *a, void *context)
{
    iso_trained *m;
    iso_evaluation v;
    float out[20 * FIXTURE_CLASSES];
    int result = iso_model_open(&m, job->out, ISO_ISA_AUTO, a, NULL);
    if (result)
        return result;
    result = iso_evaluate(m, context, NULL, a, &v, NULL);
    if (result == 0) {
        iso_evaluation_clear(&v, a);
        result = iso_predict(m, context, 0, 20, out, a, NULL);
    }
    iso_model_close(m);
    return result;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_every_allocation(train_once, NULL) > 50);
    assert_true(test_every_allocation(resume_once, NULL) > 50);
    uint8_t values[20 * 64];
    int32_t labels[20];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)i;
    for (int i = 0; i < 20; i++)
        labels[i] = i % 3;
    iso_dataset set;
    assert_int_equal(iso_dataset_wrap(&set, (iso_shape){1, 8, 8}, ISO_U8, 20, values, labels, 3, NULL, NULL), 0);
    assert_true(test_every_allocation(use_once, &set) > 10);
    iso_dataset_free(&set);
}

static int audit_with(const iso_alloc *alloc, void *context)
{
    (void)context;
    iso_audit a;
    iso_error e;
    int r = iso_audit_run(job->out, alloc, &a, &e);
    if (r == 0 && (a.faults || a.missing))
        fail_msg("%s", a.faults ? a.fault[0] : a.lack[0]);
    iso_audit_clear(&a, alloc);
    return r;
}

static void every_allocation_of_an_audit_may_fail(void **state)
{
    (void)state;
    assert_true(test_every_allocation(audit_with, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_an_audit_may_fail),
        cmocka_unit_test(a_checkpoint_cut_or_turned_is_found_out),
        cmocka_unit_test(another_version_is_told),
        cmocka_unit_test(a_model_cut_or_turned_is_found_out),
        cmocka_unit_test(what_is_no_model_is_told),
        cmocka_unit_test(weights_to_start_from),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

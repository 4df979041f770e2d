/* SPDX-License-Identifier: Apache-2.0
 * The local engine: the same weights from any number of workers, throttled, stalled or dying ones, and honest files
 * about it. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "isochron/data.h"
#include "run_fixture.h"

static char *data;

static int setup(void **state)
{
    (void)state;
    data = fixture_data(333, 70);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(data);
    return 0;
}

static const char plain[] = "batch: 100\nepochs: 2\nunit: 16\n";

/* The weights of `more` with these options, in a run folder of its own. */
static void weights(const char *more, const iso_train_options *o, char out[ISO_SHA256_TEXT])
{
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), more);
    fixture_hash(job, o, out);
    free(job);
    scratch_remove(s);
}

static void expect_same(const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) != 0)
        fail_msg("%s: weights %.12s, wanted %.12s", what, b, a);
}

static void any_number_of_workers(void **state)
{
    (void)state;
    static const char *const jobs[] = {
        "batch: 100\nepochs: 2\nunit: 16\n",
        "batch: 100\nepochs: 2\nunit: 16\noptimizer: {name: adam, learning_rate: 0.01}\nschedule: {name: cosine, "
        "warmup_epochs: 1}\n",
        "batch: 48\nepochs: 2\nunit: 16\ndata.augment={shift: 1, flip: true}\ndata.validation=0.2\n"
        "model: {layers: [conv: {filters: 3, kernel: 3}, relu, max_pool: 2, flatten, dense: 3]}\n",
        "batch: 333\nepochs: 2\nunit: 32\noptimizer: {name: nesterov, learning_rate: 0.05, momentum: 0.9, "
        "weight_decay: 0.001}\n",
        "sync: cumulative\nepochs: 3\nunit: 16\n",
        "sync: online\nepochs: 1\nunit: 16\n",
    };
    for (size_t j = 0; j < TEST_COUNT(jobs); j++) {
        char first[ISO_SHA256_TEXT], other[ISO_SHA256_TEXT];
        iso_train_options o;
        iso_train_options_default(&o);
        o.workers = 1;
        weights(jobs[j], &o, first);
        for (uint32_t workers = 2; workers <= 7; workers += workers == 3 ? 4 : 1) {
            o.workers = workers;
            weights(jobs[j], &o, other);
            expect_same(jobs[j], first, other);
        }
    }
}

static void policies_and_throttle(void **state)
{
    (void)state;
    char first[ISO_SHA256_TEXT], other[ISO_SHA256_TEXT];
    iso_train_options o;
    iso_train_options_default(&o);
    o.workers = 1;
    weights(plain, &o, first);
    o.workers = 3;
    weights("batch: 100\nepochs: 2\nunit: 16\nsync: bsp\n", &o, other);
    expect_same("bsp", first, other);
    const uint32_t speeds[] = {8, 4, 1};
    o.throttle = speeds;
    o.throttle_count = TEST_COUNT(speeds);
    weights(plain, &o, other);
    expect_same("throttled", first, other);
    o.throttle = (const uint32_t[]){3, 0};
    o.throttle_count = 2;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), plain);
    iso_error e;
    assert_int_equal(fixture_train(job, &o, NULL, &e), ISO_E_ARGUMENT);
    test_expect_word(e.text, "throttle");
    assert_false(scratch_exists(scratch_path(s, "run")));
    free(job);
    scratch_remove(s);
    weights("batch: 100\nepochs: 2\nunit: 16\nseed: 6\n", &(iso_train_options){.workers = 2}, other);
    assert_string_not_equal(first, other);
}

/* ---- workers in trouble -------------------------------------------------------------------------------- */

typedef struct trouble {
    uint32_t worker;
    uint64_t order;
    iso_fault fault;
    atomic_int met;
} trouble;

/* Until it is met the other workers take their time: on a busy machine they might do all the work before. */
static iso_fault worker_fault(void *context, uint32_t worker, uint64_t order)
{
    trouble *t = context;
    if (worker != t->worker && atomic_load(&t->met) == 0)
        return (iso_fault){.kind = ISO_FAULT_STALL, .milliseconds = 5};
    if (worker != t->worker || order != t->order)
        return (iso_fault){.kind = ISO_FAULT_NONE};
    atomic_fetch_add(&t->met, 1);
    return t->fault;
}

typedef struct heard {
    int warnings, backs;
    char text[4096];
} heard;

static void hear(void *context, iso_message_level level, const char *sentence)
{
    heard *h = context;
    h->warnings += level == ISO_MESSAGE_WARNING;
    strncat(h->text, sentence, sizeof h->text - strlen(h->text) - 1);
    strncat(h->text, "\n", sizeof h->text - strlen(h->text) - 1);
}

/* A worker sleeps past its deadline, or its thread ends without a word, early or late: nothing is lost, and it is
 * told. */
static void stalled_and_dying_workers(void **state)
{
    (void)state;
    char first[ISO_SHA256_TEXT], other[ISO_SHA256_TEXT];
    /* long enough that the stalled one comes back before the end: it sleeps 2.5 s, its deadline is a little more than
     * 1 s */
    static const char job[] = "batch: 100\nepochs: 2\nunit: 16\n";
    weights(job, &(iso_train_options){.workers = 1}, first);
    const trouble cases[] = {
        {.worker = 1, .order = 3, .fault = {.kind = ISO_FAULT_STALL, .milliseconds = 2500}},
        {.worker = 0, .order = 0, .fault = {.kind = ISO_FAULT_STALL, .milliseconds = 100}},
        {.worker = 1, .order = 2, .fault = {.kind = ISO_FAULT_DIE}},
        {.worker = 0, .order = 5, .fault = {.kind = ISO_FAULT_DIE}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        trouble t = cases[i];
        iso_train_faults faults = {.context = &t, .worker = worker_fault};
        heard h = {.warnings = 0};
        iso_observer observer = {.context = &h, .message = hear};
        iso_train_options o = {.workers = 2, .faults = &faults, .observer = &observer};
        weights(job, &o, other);
        expect_same("a worker in trouble", first, other);
        assert_int_equal(atomic_load(&t.met), 1);
        if (t.fault.kind == ISO_FAULT_DIE || t.fault.milliseconds > 1000)
            test_expect_word(h.text, t.worker ? "worker-1 did not answer" : "worker-0 did not answer");
    }
}

static iso_fault straggle(void *context, uint32_t worker, uint64_t order)
{
    (void)context;
    if (worker == 1 && order == 3)
        return (iso_fault){.kind = ISO_FAULT_STALL, .milliseconds = 1400};
    return (iso_fault){.kind = worker == 0 ? ISO_FAULT_STALL : ISO_FAULT_NONE, .milliseconds = 10};
}

/* A worker is declared dead, wakes up while the others train on, computes its old work against the old weights, joins
 * again and works: the thread sanitizer sees that its reading and the updates do not meet. */
static void a_straggler_comes_back(void **state)
{
    (void)state;
    char first[ISO_SHA256_TEXT], other[ISO_SHA256_TEXT];
    static const char job[] = "batch: 100\nepochs: 8\nunit: 16\n";
    weights(job, &(iso_train_options){.workers = 1}, first);
    iso_train_faults faults = {.worker = straggle};
    heard h = {.warnings = 0};
    iso_observer observer = {.context = &h, .message = hear};
    weights(job, &(iso_train_options){.workers = 2, .faults = &faults, .observer = &observer}, other);
    test_expect_word(h.text, "worker-1 did not answer");
    test_expect_word(h.text, "worker-1 is back");
    expect_same("a straggler", first, other);
}

static iso_fault all_die(void *context, uint32_t worker, uint64_t order)
{
    (void)context;
    (void)worker;
    return (iso_fault){.kind = order >= 2 ? ISO_FAULT_DIE : ISO_FAULT_NONE};
}

static void all_workers_die(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), plain);
    iso_train_faults faults = {.worker = all_die};
    iso_error e;
    assert_int_equal(fixture_train(job, &(iso_train_options){.workers = 2, .faults = &faults}, NULL, &e),
                     ISO_E_STATE);
    test_expect_word(e.text, "all worker threads");
    assert_false(scratch_exists(scratch_path(s, "run/model.safetensors")));
    free(job);
    scratch_remove(s);
}

/* ---- the files ----------------------------------------------------------------------------------------- */

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        fail_msg("'%s' is no number", key);
    return json_number_value(v);
}

/* metrics.jsonl has each round once; its samples, loss and nodes add up to what summary.json and the observer say. */
static void files_agree(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job =
        fixture_job(data, scratch_path(s, "run"), "batch: 100\nepochs: 3\nunit: 16\ndata.validation=0.1\n");
    iso_summary summary;
    iso_error e;
    if (fixture_train(job, &(iso_train_options){.workers = 2}, &summary, &e))
        fail_msg("%s", e.text);
    const uint64_t training = 333 - 33;
    assert_int_equal(summary.rounds, 9);
    assert_int_equal(summary.samples, 3 * training);
    assert_int_equal(summary.epochs, 3);
    assert_int_equal(summary.seed, 5);
    assert_int_equal(summary.node_count, 2);
    assert_int_equal(summary.nodes[0].samples + summary.nodes[1].samples, 3 * training);
    assert_true(fabs(summary.nodes[0].share + summary.nodes[1].share - 1) < 1e-9);
    assert_true(summary.samples_per_second > 0 && summary.seconds > 0);
    assert_true(isnan(summary.efficiency));
    assert_true(summary.test_accuracy >= 0 && summary.test_accuracy <= 1 && summary.validation_loss > 0 &&
                summary.train_loss > 0);

    char *text = scratch_read(scratch_path(s, "run/metrics.jsonl"), NULL), *rest = text;
    uint64_t round = 0, samples = 0, nodes = 0;
    double last_epoch = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        assert_int_equal(number(o, "round"), ++round);
        assert_int_equal(number(o, "epoch"), (round - 1) / 3 + 1);
        samples += (uint64_t)number(o, "samples");
        last_epoch += number(o, "epoch") == 3 ? number(o, "loss") * number(o, "samples") : 0;
        json_t *list = json_object_get(o, "nodes");
        for (size_t i = 0; i < json_array_size(list); i++)
            nodes += (uint64_t)number(json_array_get(list, i), "samples");
        json_decref(o);
    }
    assert_int_equal(round, 9);
    assert_int_equal(samples, 3 * training);
    assert_int_equal(nodes, 3 * training);
    assert_true(fabs(last_epoch / (double)training - summary.train_loss) < 1e-6);
    free(text);

    text = scratch_read(scratch_path(s, "run/summary.json"), NULL);
    json_t *o = json_loads(text, 0, NULL);
    static const char *const keys[] = {"train_loss", "test_loss", "test_accuracy", "epochs",
                                       "rounds",     "samples",   "seconds",       "samples_per_second",
                                       "efficiency", "bytes_up",  "bytes_down",    "weights_sha256",
                                       "seed",       "engine",    "sync",          "nodes"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++)
        if (!json_object_get(o, keys[i]))
            fail_msg("summary.json lacks %s", keys[i]);
    assert_true(json_is_null(json_object_get(o, "efficiency")));
    assert_string_equal(json_string_value(json_object_get(o, "weights_sha256")), summary.weights_sha256);
    json_decref(o);
    free(text);
    static const char *const files[] = {"job.yaml",     "metrics.jsonl",     "events.jsonl",
                                        "summary.json", "model.safetensors", "best.safetensors"};
    for (size_t i = 0; i < TEST_COUNT(files); i++)
        if (!scratch_exists(scratch_path(scratch_path(s, "run"), files[i])))
            fail_msg("%s is not there", files[i]);
    iso_summary_clear(&summary, NULL);
    free(job);
    scratch_remove(s);
}

/* What training said of the test set is what the saved model says, and predict agrees with evaluate. */
static void the_saved_model_agrees(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), "batch: 32\nepochs: 12\nunit: 16\n");
    iso_summary summary;
    iso_error e;
    if (fixture_train(job, &(iso_train_options){.workers = 2}, &summary, &e))
        fail_msg("%s", e.text);
    assert_true(summary.test_accuracy > 0.6);

    iso_trained *m;
    if (iso_model_open(&m, scratch_path(s, "run"), ISO_ISA_AUTO, NULL, &e))
        fail_msg("%s", e.text);
    assert_string_equal(iso_model_sha256(m), summary.weights_sha256);
    assert_string_equal(iso_model_class(m, 2), "2");
    assert_null(iso_model_class(m, 3));
    size_t size;
    char *images = scratch_read(scratch_path(data, "t10k-images-idx3-ubyte"), &size),
         *labels = scratch_read(scratch_path(data, "t10k-labels-idx1-ubyte"), NULL);
    int32_t label[70];
    for (int i = 0; i < 70; i++)
        label[i] = labels[8 + i];
    iso_dataset set;
    assert_int_equal(iso_dataset_wrap(&set, (iso_shape){1, 8, 8}, ISO_U8, 70, images + 16, label, 3, NULL, NULL), 0);
    iso_evaluation v;
    assert_int_equal(iso_evaluate(m, &set, NULL, NULL, &v, &e), 0);
    assert_true(v.accuracy == summary.test_accuracy);
    assert_true(fabs(v.loss - summary.test_loss) < 1e-12);
    uint64_t all = 0, right = 0;
    for (uint32_t i = 0; i < 9; i++)
        all += v.confusion[i];
    for (uint32_t k = 0; k < 3; k++)
        right += v.confusion[k * 4];
    assert_int_equal(all, 70);
    assert_int_equal(right, v.correct);

    float *out = calloc(70 * 3, sizeof *out);
    assert_int_equal(iso_predict(m, &set, 0, 70, out, NULL, &e), 0);
    uint64_t agreed = 0;
    for (int i = 0; i < 70; i++) {
        float *row = out + i * 3, total = row[0] + row[1] + row[2];
        assert_true(fabsf(total - 1) < 1e-5f);
        int best = row[1] > row[0] ? 1 : 0;
        best = row[2] > row[best] ? 2 : best;
        agreed += best == label[i];
    }
    assert_int_equal(agreed, v.correct);
    float part[6];
    assert_int_equal(iso_predict(m, &set, 68, 2, part, NULL, &e), 0);
    assert_memory_equal(part, out + 68 * 3, sizeof part);
    assert_int_equal(iso_predict(m, &set, 69, 2, part, NULL, &e), ISO_E_ARGUMENT);
    iso_evaluation_clear(&v, NULL);
    iso_dataset_free(&set);
    assert_int_equal(iso_dataset_wrap(&set, (iso_shape){1, 7, 8}, ISO_U8, 70, images + 16, label, 3, NULL, NULL), 0);
    assert_int_equal(iso_evaluate(m, &set, NULL, NULL, &v, &e), ISO_E_SHAPE);
    iso_dataset_free(&set);
    iso_model_close(m);
    free(out);
    free(images);
    free(labels);
    iso_summary_clear(&summary, NULL);
    free(job);
    scratch_remove(s);
}

/* ---- odd sizes ----------------------------------------------------------------------------------------- */

static void few_samples_many_workers_large_batches(void **state)
{
    (void)state;
    char *tiny = fixture_data(5, 3);
    const struct {
        const char *more;
        uint64_t rounds;
    } cases[] = {{"batch: 4\nepochs: 1\nunit: 16\n", 2},
                 {"batch: 1000\nepochs: 1\nunit: 16\n", 1},
                 {"batch: 5\nepochs: 1\nunit: 64\n", 1},
                 {"batch: 1\nepochs: 1\n", 5}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char first[ISO_SHA256_TEXT] = "";
        for (uint32_t workers = 1; workers <= 11; workers += 5) {
            char *s = scratch_make();
            iso_job *job = fixture_job(tiny, scratch_path(s, "run"), cases[i].more);
            iso_summary summary;
            iso_error e;
            if (fixture_train(job, &(iso_train_options){.workers = workers}, &summary, &e))
                fail_msg("%s", e.text);
            assert_int_equal(summary.samples, 5);
            assert_int_equal(summary.rounds, cases[i].rounds);
            if (*first)
                expect_same(cases[i].more, first, summary.weights_sha256);
            memcpy(first, summary.weights_sha256, sizeof first);
            iso_summary_clear(&summary, NULL);
            free(job);
            scratch_remove(s);
        }
    }
    scratch_remove(tiny);
}

/* The efficiency is the run's speed as a share of what the workers do alone, and a throttled worker is measured as throttled. How
 * fast they are depends on what else the machine does. */
static void calibration_gives_an_efficiency(void **state)
{
    (void)state;
    static const char job_text[] = "batch: 100\nepochs: 20\nunit: 16\n";
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), job_text);
    heard h = {.warnings = 0};
    iso_observer observer = {.context = &h, .message = hear};
    const uint32_t speeds[] = {8, 1};
    iso_train_options o = {
        .workers = 2, .calibrate = true, .throttle = speeds, .throttle_count = TEST_COUNT(speeds), .observer = &observer};
    iso_summary summary;
    iso_error e;
    char first[ISO_SHA256_TEXT];
    if (fixture_train(job, &o, &summary, &e))
        fail_msg("%s", e.text);
    double alone[2];
    for (int i = 0; i < 2; i++) {
        const char *said = strstr(h.text, i ? "worker-1 alone: " : "worker-0 alone: ");
        if (!said || sscanf(said, "%*s alone: %lf", &alone[i]) != 1)
            fail_msg("no speed of worker-%d in: %s", i, h.text);
    }
    assert_true(alone[0] > 2 * alone[1] && alone[1] > 0);
    double wanted = summary.samples_per_second / (alone[0] + alone[1]);
    if (!(fabs(summary.efficiency / wanted - 1) < 0.01)) /* the messages are rounded */
        fail_msg("efficiency %g, wanted %g", summary.efficiency, wanted);
    weights(job_text, &(iso_train_options){.workers = 1}, first);
    expect_same("calibrated", first, summary.weights_sha256);
    iso_summary_clear(&summary, NULL);
    free(job);
    scratch_remove(s);
}

/* A number that blows up stops the run at that round, names it, and nothing is saved as a model; when it has blown up before, while
 * the workers were measured, it is told all the same. */
static void numbers_that_blow_up(void **state)
{
    const bool calibrate = *state != NULL;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"),
                               "batch: 100\nepochs: 5\nunit: 16\noptimizer: {name: sgd, learning_rate: 1e30}\n");
    iso_error e;
    assert_int_equal(fixture_train(job, &(iso_train_options){.workers = 2, .calibrate = calibrate}, NULL, &e), ISO_E_NONFINITE);
    test_expect_word(e.text, "dense");
    test_expect_word(e.text, "round");
    assert_false(scratch_exists(scratch_path(s, "run/model.safetensors")));
    assert_false(scratch_exists(scratch_path(s, "run/summary.json")));
    char *events = scratch_read(scratch_path(s, "run/events.jsonl"), NULL);
    test_expect_word(events, "\"failed\"");
    free(events);
    free(job);
    scratch_remove(s);
}

int main(void)
{
    static bool calibrated = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_workers),
        cmocka_unit_test(policies_and_throttle),
        cmocka_unit_test(stalled_and_dying_workers),
        cmocka_unit_test(a_straggler_comes_back),
        cmocka_unit_test(all_workers_die),
        cmocka_unit_test(files_agree),
        cmocka_unit_test(the_saved_model_agrees),
        cmocka_unit_test(few_samples_many_workers_large_batches),
        cmocka_unit_test(calibration_gives_an_efficiency),
        cmocka_unit_test(numbers_that_blow_up),
        cmocka_unit_test_prestate(numbers_that_blow_up, &calibrated),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

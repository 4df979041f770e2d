/* SPDX-License-Identifier: Apache-2.0
 * Mistakes in a job file: each is found, at the exact line and column, with a message that helps; and the job stays as
 * it was. */
#include "test.h"

#include "isochron/core.h"
#include "isochron/job.h"

#define D "data: d\nmodel: lenet5\n"

typedef struct mistake {
    const char *text;
    unsigned line, column;
    const char *word[5];          /* what the message must hold */
} mistake;

static const mistake mistakes[] = {
    /* keys */
    {D "optimizer: {learning_rat: 0.1}\n", 3, 13, {"optimizer", "'learning_rat'", "did you mean 'learning_rate'"}},
    {D "optimiser: adam\n", 3, 1, {"'optimiser'", "did you mean 'optimizer'"}},
    {D "zzzzzz: 1\n", 3, 1, {"'zzzzzz'", "epochs", "workers"}},
    {D "batch: 3\nepochs: 2\nbatch: 4\n", 5, 1, {"batch", "twice"}},
    {"data: {path: d, path: e}\nmodel: lenet5\n", 1, 17, {"data.path", "twice"}},
    {D "? [a, b]\n: 1\n", 3, 3, {"key"}},
    {D "<<: {a: 1}\n", 3, 1, {"'<<'"}},
    {D "data.path: x\n", 3, 1, {"'data.path'", "path stands inside data"}},
    {D "data.augment.shift: 2\n", 3, 1, {"'data.augment.shift'", "shift stands inside data.augment"}},
    {D "learning_rat: 0.1\n", 3, 1, {"'learning_rat'", "did you mean 'optimizer.learning_rate'"}},
    {D "optimizer: {warmup_epoch: 1}\n", 3, 13, {"'warmup_epoch'", "did you mean 'schedule.warmup_epochs'"}},
    /* whole numbers */
    {D "batch: -4\n", 3, 8, {"batch", "'-4'", "1 to 1000000000"}},
    {D "batch: many\n", 3, 8, {"batch", "'many'", "whole number"}},
    {D "batch: 1e3\n", 3, 8, {"batch", "'1e3'", "write 1000"}},
    {D "batch: 64.0\n", 3, 8, {"batch", "write 64"}},
    {D "batch: 64.5\n", 3, 8, {"batch", "'64.5'"}},
    {D "batch: 0\n", 3, 8, {"batch", "'0'"}},
    {D "batch: 0x10\n", 3, 8, {"batch", "'0x10'"}},
    {D "batch: 1000000001\n", 3, 8, {"batch", "1000000000"}},
    {D "batch: 99999999999999999999999\n", 3, 8, {"batch"}},
    {D "batch: [64]\n", 3, 8, {"batch", "a list"}},
    {D "batch: {n: 64}\n", 3, 8, {"batch", "keys with values"}},
    {D "batch:\n", 3, 7, {"batch", "no value"}},
    {D "batch: ~\n", 3, 8, {"batch", "no value"}},
    {D "batch: null\n", 3, 8, {"batch", "no value"}},
    {D "batch: \"\"\n", 3, 8, {"batch", "no value"}},
    {D "batch: auto\n", 3, 8, {"batch", "'auto'"}},
    {D "unit: 20\n", 3, 7, {"unit", "'20'", "multiple of 16", "auto"}},
    {D "unit: 80\n", 3, 7, {"unit", "16 to 64"}},
    {D "epochs: 0\n", 3, 9, {"epochs"}},
    {D "workers: 0\n", 3, 10, {"workers", "auto"}},
    {D "seed: -1\n", 3, 7, {"seed", "18446744073709551615"}},
    {D "checkpoint: {keep: 0}\n", 3, 20, {"checkpoint.keep"}},
    /* numbers */
    {D "optimizer: {learning_rate: fast}\n", 3, 28, {"optimizer.learning_rate", "'fast'", "number"}},
    {D "optimizer: {learning_rate: 0}\n", 3, 28, {"from 1e-30"}},
    {D "optimizer: {learning_rate: -0.1}\n", 3, 28, {"from 1e-30"}},
    {D "optimizer: {learning_rate: 1e-50}\n", 3, 28, {"from 1e-30"}}, /* would be 0 in the step's floats */
    {D "optimizer: {learning_rate: nan}\n", 3, 28, {"'nan'"}},
    {D "optimizer: {learning_rate: .nan}\n", 3, 28, {"'.nan'"}},
    {D "optimizer: {learning_rate: .inf}\n", 3, 28, {"'.inf'"}},
    {D "optimizer: {learning_rate: 1e400}\n", 3, 28, {"'1e400'"}},
    {D "optimizer:\n  learning_rate: 0,1\n", 4, 18, {"'0,1'"}},
    {D "optimizer: {momentum: 1}\n", 3, 23, {"below 1"}},
    {D "optimizer: {epsilon: 0}\n", 3, 22, {"from 1e-30"}},
    {D "schedule: {gamma: 0}\n", 3, 19, {"above 0"}},
    {D "schedule: {warmup_epochs: -1}\n", 3, 27, {"schedule.warmup_epochs"}},
    {"data: {path: d, validation: 1}\nmodel: lenet5\n", 1, 29, {"data.validation", "below 1"}},
    {"data: {path: d, validation: -0.1}\nmodel: lenet5\n", 1, 29, {"data.validation"}},
    /* words */
    {D "loss: mze\n", 3, 7, {"loss", "'mze'", "did you mean 'mse'", "cross-entropy"}},
    {D "schedule: cosin\n", 3, 11, {"schedule.name", "'cosin'", "did you mean 'cosine'", "step"}},
    {D "optimizer: {name: sdg}\n", 3, 19, {"'sdg'", "sgd", "adam"}},
    {D "optimizer: {decay_bias: yes}\n", 3, 25, {"true or false", "'yes'"}},
    {D "engine: flink\n", 3, 9, {"engine.name", "'flink'", "local"}},
    {D "sync: fast\n", 3, 7, {"sync", "'fast'", "nns", "online", "cumulative"}},
    {D "sync: {policy: fast}\n", 3, 16, {"'fast'", "nns"}},
    {D "sync: {polici: nns}\n", 3, 7, {"policy"}},
    {D "sync: {policy: nns, policy: bsp}\n", 3, 21, {"twice"}},
    {D "sync: {policy: nns, no_such: 4}\n", 3, 30, {"no_such"}},
    {D "sync: nns:no_such=4\n", 3, 7, {"no_such"}},
    {D "sync: [nns]\n", 3, 7, {"sync", "a list"}},
    {"data: {path: d, normalize: yes}\nmodel: lenet5\n", 1, 28, {"data.normalize", "standard", "none"}},
    {D "name: a/b\n", 3, 7, {"name", "slash"}},
    {D "name: ..\n", 3, 7, {"name"}},
    /* sections */
    {D "optimizer: [adam]\n", 3, 12, {"optimizer", "a list"}},
    {D "optimizer:\n", 3, 11, {"optimizer", "no value"}},
    {"data: {path: d, augment: 2}\nmodel: lenet5\n", 1, 26, {"data.augment", "keys with values"}},
    /* model */
    {"data: d\nmodel: lenet6\n", 2, 8, {"'lenet6'", "did you mean 'lenet5'", "mlp"}},
    {"data: d\nmodel: {preset: lenet6}\n", 2, 17, {"'lenet6'", "lenet5"}},
    {"data: d\nmodel: {hidden: [5]}\n", 1, 1, {"model", "preset"}},
    {"data: d\nmodel: {preset: mlp, hidden: [5, many]}\n", 2, 34, {"model.hidden", "'many'"}},
    {"data: d\nmodel: {preset: mlp, hidden: [5, -1]}\n", 2, 34, {"model.hidden"}},
    {"data: d\nmodel: {preset: mlp, hidden: [[5]]}\n", 2, 31, {"model.hidden", "a list"}},
    {"data: d\nmodel: {preset: mlp, hidden: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n", 2, 63, {"16"}},
    {"data: d\nmodel: {preset: mlp, activation: rely}\n", 2, 1, {"rely", "relu"}},
    {"data: d\nmodel: {preset: mlp, layers: [relu]}\n", 2, 1, {"layers", "preset"}},
    {"data: d\nmodel: {layers: [relu], hidden: [5]}\n", 2, 1, {"layers", "hidden"}},
    {"data: d\nmodel: {layers: []}\n", 2, 17, {"empty"}},
    {"data: d\nmodel: {layers: relu}\n", 2, 17, {"model.layers", "list"}},
    {"data: d\nmodel: {layers: [rely]}\n", 2, 18, {"'rely'", "did you mean 'relu'", "dense", "conv"}},
    {"data: d\nmodel: {layers: [conv: {filters: 6, kernal: 5}]}\n",
     2,
     37,
     {"conv", "'kernal'", "did you mean 'kernel'"}},
    {"data: d\nmodel: {layers: [conv: {filters: six, kernel: 5}]}\n", 2, 34, {"conv.filters", "'six'"}},
    {"data: d\nmodel: {layers: [conv: {filters: -3, kernel: 5}]}\n", 2, 34, {"conv.filters", "'-3'"}},
    {"data: d\nmodel: {layers: [conv: {filters: 6, kernel: [5, 5]}]}\n", 2, 45, {"conv.kernel", "a list"}},
    {"data: d\nmodel: {layers: [conv: {filters: 6, filters: 7, kernel: 5}]}\n", 2, 37, {"twice"}},
    {"data: d\nmodel: {layers: [conv: {kernel: 5}]}\n", 2, 18, {"conv", "filters"}},
    {"data: d\nmodel: {layers: [dense]}\n", 2, 18, {"dense"}},
    {"data: d\nmodel: {layers: [relu: 4]}\n", 2, 24, {"relu", "'4'"}},
    {"data: d\nmodel: {layers: [[relu]]}\n", 2, 18, {"layer"}},
    {"data: d\nmodel: {layers: [{}]}\n", 2, 18, {"layer"}},
    {"data: d\nmodel: {layers: [{dense: 4, relu: 1}]}\n", 2, 18, {"layer"}},
    {"data: d\nmodel: {layers: [conv: {filters: 6, kernel: 5, name: a/b}]}\n", 2, 54, {"name", "'a/b'"}},
    {"data: d\nmodel: {layers: [conv: {filters: 6, kernel: 5, name: }]}\n", 2, 54, {"name"}},
    /* what is missing */
    {"", 1, 1, {"data"}},
    {"# nothing but a comment\n", 1, 1, {"data"}},
    {"---\n", 1, 1, {"data"}},
    {"model: lenet5\n", 1, 1, {"data"}},
    {"data: {normalize: unit}\nmodel: lenet5\n", 1, 1, {"data"}},
    {"data: d\n", 1, 1, {"model"}},
    /* not a map, not YAML */
    {"- a\n- b\n", 1, 1, {"map"}},
    {"lenet5\n", 1, 1, {"map"}},
    {"data: [\n", 2, 1, {"not YAML"}},
    {"data: {path: d\nmodel: lenet5\n", 2, 6, {"not YAML"}},
    {"data: 'd\n", 2, 1, {"not YAML"}},
    {"data: d\n\tmodel: lenet5\n", 2, 1, {"not YAML"}},
    {"data: d\n model: lenet5\n", 2, 7, {"not YAML"}},
    {"data: %d\n", 1, 7, {"not YAML"}},
    {"data: \"\\q\"\n", 1, 8, {"not YAML"}},
    {"\x01", 1, 1, {"control characters"}},
    {D "name: \xff\xfe\n", 3, 7, {"not a YAML text"}},
    {D "---\nbatch: 4\n", 3, 1, {"second document"}},
    {"data: &a d\nmodel: lenet5\nname: *a\n", 1, 7, {"anchors"}},
    {"data: d\nmodel: lenet5\nname: *a\n", 3, 7, {"aliases"}},
    {"data: &a {path: d}\n", 1, 7, {"anchors"}},
    {"data: &a [d]\n", 1, 7, {"anchors"}},
    {"data: !!str d\n", 1, 7, {"tags"}},
    {"data: !x {path: d}\n", 1, 7, {"tags"}},
    {"data: \"a\\0b\"\n", 1, 7, {"NUL"}},
    {"data: [[[[[[[[[[[[[[[[[[[[d]]]]]]]]]]]]]]]]]]]]\n", 1, 22, {"deep"}},
};

static int read_job(iso_job *job, const char *text, size_t length, iso_error *e)
{
    test_bytes exact = test_bytes_copy(text, length);
    int r = iso_job_parse(job, "bad.yaml", (const char *)exact.bytes, length, NULL, e);
    test_bytes_free(&exact);
    return r ? r : iso_job_finish(job, e);
}

static void each_mistake_is_named_at_its_place(void **state)
{
    (void)state;
    static iso_job job;
    unsigned bad = 0;
    for (size_t i = 0; i < TEST_COUNT(mistakes); i++) {
        const mistake *m = &mistakes[i];
        iso_error e = {0};
        char place[64];
        iso_job_default(&job);
        int r = read_job(&job, m->text, strlen(m->text), &e);
        snprintf(place, sizeof place, "bad.yaml:%u:%u: ", m->line, m->column);
        if (r != ISO_E_JOB || e.code != ISO_E_JOB || strncmp(e.text, place, strlen(place)))
            bad++, print_error("%s\nwanted %s, result %d, message: %s\n", m->text, place, r, e.text);
        for (size_t w = 0; w < TEST_COUNT(m->word) && m->word[w]; w++)
            if (!strstr(e.text, m->word[w]))
                bad++, print_error("%s\nno \"%s\" in: %s\n", m->text, m->word[w], e.text);
    }
    assert_int_equal(bad, 0);
}

static void a_wrong_file_leaves_the_job_as_it_was(void **state)
{
    (void)state;
    static iso_job job, before;
    for (size_t i = 0; i < TEST_COUNT(mistakes); i++) {
        iso_job_default(&job);
        assert_int_equal(iso_job_set(&job, "epochs=77", NULL, NULL), ISO_OK);
        before = job;
        if (iso_job_parse(&job, "bad.yaml", mistakes[i].text, strlen(mistakes[i].text), NULL, NULL))
            assert_memory_equal(&job, &before, sizeof job);
    }
}

/* What a file says reaches a terminal without control characters, and cut. */
static void messages_are_safe_to_print(void **state)
{
    (void)state;
    static iso_job job;
    static char text[70000];
    iso_error e = {0};
    const char *hostile = D "batch: \"\\e[31m\\r\\n\\x7f\"\n";
    iso_job_default(&job);
    assert_int_equal(read_job(&job, hostile, strlen(hostile), &e), ISO_E_JOB);
    for (const char *c = e.text; *c; c++)
        assert_true((unsigned char)*c >= 32 && *c != 127);
    int length = snprintf(text, sizeof text, D "batch: ");
    memset(text + length, 'x', sizeof text - 1 - (size_t)length);
    assert_int_equal(read_job(&job, text, sizeof text - 1, &e), ISO_E_JOB);
    assert_true(strlen(e.text) < 300);
    test_expect_word(e.text, "...");
}

static void a_nul_byte_is_named(void **state)
{
    (void)state;
    static iso_job job;
    iso_error e = {0};
    iso_job_default(&job);
    assert_int_equal(read_job(&job, "\x00\x01", 2, &e), ISO_E_JOB);
    test_expect_word(e.text, "bad.yaml:1:1: ");
    test_expect_word(e.text, "NUL");
    assert_int_equal(read_job(&job, "data: d\nmo\0del: x\n", 18, &e), ISO_E_JOB);
    test_expect_word(e.text, "bad.yaml:2:3: ");
}

/* Inputs made to cost: all are refused, in time and memory bounded by their own size. */
static void large_and_deep_files_are_refused(void **state)
{
    (void)state;
    static iso_job job;
    static char text[ISO_JOB_BYTES_MAX + 2];
    static const struct {
        const char *repeat, *word;
    } bombs[] = {{"[", "deep"},        {"{", "key"},           {"- ", "deep"},       {"? ", "key"},
                 {"a: [", "deep"},     {"[a,", "deep"},        {"a\n", "bad.yaml:"}, {"x", "longer"},
                 {"#", "data"},        {" ", "data"},          {"\n", "data"},       {"[],", "bad.yaml:"},
                 {"&a ", "bad.yaml:"}, {"\"", "bad.yaml:"},    {"'", "bad.yaml:"},   {"- a\n", "too many"},
                 {"%", "bad.yaml:"},   {"---\n", "bad.yaml:"}, {"|", "bad.yaml:"},   {"!a ", "bad.yaml:"}};
    for (size_t i = 0; i < TEST_COUNT(bombs); i++) {
        test_heap heap;
        test_heap_init(&heap, 0);
        iso_error e = {0};
        size_t unit = strlen(bombs[i].repeat), length = 0;
        for (; length + unit <= ISO_JOB_BYTES_MAX; length += unit)
            memcpy(text + length, bombs[i].repeat, unit);
        iso_job_default(&job);
        int r = iso_job_parse(&job, "bad.yaml", text, length, &heap.alloc, &e);
        if (!r)
            r = iso_job_finish(&job, &e);
        if (r != ISO_E_JOB || (strcmp(bombs[i].word, "longer") && !strstr(e.text, bombs[i].word)))
            fail_msg("a mebibyte of \"%s\": result %d, %s", bombs[i].repeat, r, e.text);
        assert_true(heap.peak_bytes < 16u * ISO_JOB_BYTES_MAX);
        test_heap_expect_empty(&heap);
    }
    iso_error e = {0};
    memset(text, '#', ISO_JOB_BYTES_MAX + 1);
    assert_int_equal(iso_job_parse(&job, "bad.yaml", text, ISO_JOB_BYTES_MAX + 1, NULL, &e), ISO_E_JOB);
    test_expect_word(e.text, "1 MiB");
}

static void long_values_are_refused(void **state)
{
    (void)state;
    static iso_job job;
    static char text[10000];
    static const struct {
        const char *key;
        size_t most;
    } keys[] = {{"name", 2 * ISO_WORD_MAX - 1}, {"out", ISO_PATH_MAX - 1}, {"init", ISO_PATH_MAX - 1}};
    for (size_t i = 0; i < TEST_COUNT(keys); i++)
        for (size_t more = 0; more < 2; more++) {
            iso_error e = {0};
            int length = snprintf(text, sizeof text, D "%s: ", keys[i].key);
            memset(text + length, 'a', keys[i].most + more);
            iso_job_default(&job);
            int r = read_job(&job, text, (size_t)length + keys[i].most + more, &e);
            assert_int_equal(r, more ? ISO_E_JOB : ISO_OK);
            if (more)
                test_expect_word(e.text, "longer");
        }
    size_t at = (size_t)snprintf(text, sizeof text, "data: d\nmodel: {layers: [");
    for (unsigned i = 0; i <= ISO_LAYERS_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "relu,");
    at += (size_t)snprintf(text + at, sizeof text - at, "]}\n");
    iso_error e = {0};
    iso_job_default(&job);
    assert_int_equal(read_job(&job, text, at, &e), ISO_E_JOB);
    test_expect_word(e.text, "128 layers");
}

/* Every prefix of a good file is refused with a message or is itself a good file; nothing crashes (a sanitizer
 * watches). */
static void every_cut_is_handled(void **state)
{
    (void)state;
    static iso_job job;
    static const char whole[] =
        "name: \"x\"\ndata: {path: 'd', augment: {shift: 2}}\nmodel:\n  layers: [conv: {filters: 6, kernel: 5}, "
        "relu, flatten, dense: 10]\nsync: {policy: nns}\n# end\n";
    unsigned refused = 0;
    for (size_t length = 0; length < sizeof whole; length++) {
        iso_error e = {0};
        iso_job_default(&job);
        int r = read_job(&job, whole, length, &e);
        assert_true(r == ISO_OK || (r == ISO_E_JOB && e.text[0]));
        refused += r != ISO_OK;
    }
    assert_true(refused > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_named_at_its_place),
        cmocka_unit_test(a_wrong_file_leaves_the_job_as_it_was),
        cmocka_unit_test(messages_are_safe_to_print),
        cmocka_unit_test(a_nul_byte_is_named),
        cmocka_unit_test(large_and_deep_files_are_refused),
        cmocka_unit_test(long_values_are_refused),
        cmocka_unit_test(every_cut_is_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

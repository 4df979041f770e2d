/* SPDX-License-Identifier: Apache-2.0
 * What a job file may say and what it means: short forms equal long ones, what is written reads back as the same job,
 * --set and flags go over the file, resumes are compared key by key, every allocation may fail. */
#include <math.h>

#include "test.h"

#include "base/text.h"
#include "isochron/core.h"
#include "isochron/job.h"

#define ROOM 65536

static void must(int r, const iso_error *e)
{
    if (r)
        fail_msg("result %d: %s", r, e->text);
}

/* The finished job of a text; the words after it are --set assignments, up to NULL. */
static void read_job(iso_job *job, const char *text, const char *const *sets)
{
    iso_error e = {0};
    iso_job_default(job);
    must(iso_job_parse(job, "job.yaml", text, strlen(text), NULL, &e), &e);
    for (; sets && *sets; sets++)
        must(iso_job_set(job, *sets, NULL, &e), &e);
    must(iso_job_finish(job, &e), &e);
}

static const char *written(const iso_job *job, char *out)
{
    assert_true(iso_job_write(job, out, ROOM) < ROOM);
    return out;
}

static void expect_same(const char *one, const char *two)
{
    static iso_job a, b;
    static char x[ROOM], y[ROOM];
    read_job(&a, one, NULL);
    read_job(&b, two, NULL);
    if (strcmp(written(&a, x), written(&b, y)))
        fail_msg("%s\nand\n%s\ndiffer:\n%s\n%s", one, two, x, y);
}

static void short_forms_equal_long_ones(void **state)
{
    (void)state;
    expect_same("data: d\nmodel: lenet5\n", "data: {path: d}\nmodel: {preset: lenet5}\n");
    expect_same("data: d\nmodel: lenet5\noptimizer: adam\n", "data: d\nmodel: lenet5\noptimizer: {name: adam}\n");
    expect_same("data: d\nmodel: lenet5\nschedule: step\n", "data: d\nmodel: lenet5\nschedule:\n  name: step\n");
    expect_same("data: d\nmodel: lenet5\nengine: local\n", "data: d\nmodel: lenet5\nengine: {name: local}\n");
    expect_same("data: d\nmodel: lenet5\ncheckpoint: 20\n", "data: d\nmodel: lenet5\ncheckpoint: {every: 20}\n");
    expect_same("data: d\nmodel: lenet5\nsync: bsp\n", "data: d\nmodel: lenet5\nsync: {policy: bsp}\n");
    expect_same("data: d\nmodel: {preset: mlp, hidden: 5}\n", "data: d\nmodel: {preset: mlp, hidden: [5]}\n");
    expect_same("data: d\nmodel: {layers: [conv: {filters: 6, kernel: 5}, relu, flatten, dense: 10]}\n",
                "data: d\nmodel:\n  layers:\n    - conv:\n        kernel: 5\n        filters: 6\n    - relu\n    - "
                "flatten\n    - {dense: 10}\n");
    /* what an editor may leave behind: CRLF, comments, no last newline, a byte order mark, document marks, quotes */
    expect_same("data: d\nmodel: lenet5\nbatch: 32\n", "data: d\r\nmodel: lenet5 # net\r\n\r\n# c\r\nbatch: 32");
    expect_same("data: d\nmodel: lenet5\nbatch: 32\n",
                "\xef\xbb\xbf---\ndata: 'd'\nmodel: \"lenet5\"\nbatch: \"32\"\n...\n");
    expect_same("data: d\nmodel: lenet5\n", "{\"data\": {\"path\": \"d\"}, \"model\": \"lenet5\"}");
}

static void values_arrive(void **state)
{
    (void)state;
    static iso_job j;
    iso_job_default(&j);
    assert_true(isnan(j.optimizer.learning_rate));
    read_job(&j,
             "data: {path: /x/d, test: t, labels: l, format: idx, validation: 0.1, normalize: unit, augment: {shift: "
             "2, flip: true}}\n"
             "model: {preset: mlp, hidden: [256, 128], activation: tanh, init: xavier, classes: 12}\n"
             "loss: mse\n"
             "optimizer: {name: nesterov, learning_rate: 0.3, momentum: 0.8, weight_decay: 1e-4, decay_bias: true}\n"
             "schedule: {name: step, warmup_epochs: 0.5, step_epochs: 3, gamma: 0.5}\n"
             "batch: 128\nunit: 32\nepochs: 7\nsync: bsp\nworkers: 3\ncheckpoint: {every: 9, seconds: 1.5, keep: 4}\n"
             "seed: 18446744073709551615\nout: runs/x\ninit: m.safetensors\n",
             NULL);
    assert_string_equal(j.name, "job");
    assert_string_equal(j.data.path, "/x/d");
    assert_string_equal(j.data.test, "t");
    assert_string_equal(j.data.labels, "l");
    assert_string_equal(j.data.format, "idx");
    assert_true(j.data.validation == 0.1 && !j.data.validation_path[0]);
    assert_int_equal(j.data.normalize, ISO_JOB_NORMALIZE_UNIT);
    assert_true(j.data.shift == 2 && j.data.flip);
    assert_string_equal(j.model.preset, "mlp");
    assert_true(j.model.hidden_count == 2 && j.model.hidden[0] == 256 && j.model.hidden[1] == 128);
    assert_string_equal(j.model.activation, "tanh");
    assert_true(j.model.init == ISO_INIT_XAVIER && j.model.classes == 12);
    assert_int_equal(j.loss, ISO_LOSS_MSE);
    assert_true(j.optimizer.kind == ISO_NESTEROV && j.optimizer.learning_rate == 0.3 && j.optimizer.momentum == 0.8);
    assert_true(j.optimizer.weight_decay == 1e-4 && j.optimizer.decay_bias);
    assert_true(j.schedule.kind == ISO_STEP && j.schedule.warmup_epochs == 0.5 && j.schedule.step_epochs == 3);
    assert_true(j.schedule.gamma == 0.5);
    assert_true(j.batch == 128 && j.unit == 32 && j.epochs == 7 && j.workers == 3);
    assert_string_equal(j.policy, "bsp");
    assert_true(j.checkpoint.every == 9 && j.checkpoint.seconds == 1.5 && j.checkpoint.keep == 4);
    assert_true(j.seed == UINT64_MAX);
    assert_string_equal(j.out, "runs/x");
    assert_string_equal(j.init, "m.safetensors");
    read_job(&j, "data: {path: d, validation: ./v}\nmodel: lenet5\n", NULL);
    assert_string_equal(j.data.validation_path, "./v");
}

static void open_values_are_resolved(void **state)
{
    (void)state;
    static iso_job j;
    static const struct {
        const char *file, *text, *name;
    } names[] = {
        {"", "data: /x/fashion-mnist/\nmodel: lenet5\n", "lenet5-fashion-mnist"},
        {"", "data: train.csv.gz\nmodel: mlp\n", "mlp-train"},
        {"", "data: ..\nmodel: mlp\n", "mlp-here"},
        {"-", "data: d\nmodel: mlp\n", "mlp-d"},
        {"a/lenet.v2.yaml", "data: d\nmodel: mlp\n", "lenet"},
        {"a/.yaml", "data: d\nmodel: mlp\n", ".yaml"},
        {"x.yaml", "data: d\nmodel: mlp\nname: mine\n", "mine"},
    };
    read_job(&j, "data: d\nmodel: lenet5\n", NULL);
    assert_true(j.optimizer.learning_rate == 0.05);
    read_job(&j, "data: d\nmodel: lenet5\noptimizer: adam\n", NULL);
    assert_true(j.optimizer.learning_rate == 0.001);
    read_job(&j, "data: d\nmodel: lenet5\nbatch: 32\n", NULL);
    assert_true(j.optimizer.learning_rate == 0.025);
    read_job(&j, "data: d\nmodel: lenet5\nsync: online\n", NULL);
    assert_true(j.optimizer.learning_rate == 0.05 / 64);
    read_job(&j, "data: d\nmodel: lenet5\nsync: cumulative\nbatch: 1\n", NULL);
    assert_true(j.optimizer.learning_rate == 0.05);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        iso_error e = {0};
        iso_job_default(&j);
        must(iso_job_parse(&j, names[i].file, names[i].text, strlen(names[i].text), NULL, &e), &e);
        must(iso_job_finish(&j, &e), &e);
        assert_string_equal(j.name, names[i].name);
    }
}

/* --set goes over the file; a section given as a whole begins from its defaults, a key inside one leaves the others. */
static void later_settings_win(void **state)
{
    (void)state;
    static iso_job j;
    static const char file[] =
        "data: {path: d, normalize: none}\nmodel: {preset: mlp, hidden: [5]}\noptimizer: {learning_rate: 0.3}\n";
    read_job(&j, file, (const char *const[]){"optimizer.momentum=0", "batch=12", "data.path=x", NULL});
    assert_true(j.optimizer.learning_rate == 0.3 && j.optimizer.momentum == 0 && j.batch == 12);
    assert_true(j.data.normalize == ISO_JOB_NORMALIZE_NONE && !strcmp(j.data.path, "x"));
    read_job(&j, file, (const char *const[]){"optimizer=adam", "model=lenet5", "data.augment={shift: 3}", NULL});
    assert_true(j.optimizer.learning_rate == 0.001 && !j.model.hidden_count && j.data.shift == 3);
    read_job(&j, file, (const char *const[]){"model={layers: [flatten, dense: 10]}", "name=a=b", NULL});
    assert_true(j.model.layers.count == 2 && !j.model.preset[0]);
    assert_string_equal(j.name, "a=b");
    read_job(&j, file, NULL);
    iso_error e = {0};
    must(iso_job_set_text(&j, "--data", "data.path", "odd: {path} #1 'x'", &e), &e);
    must(iso_job_set_text(&j, "--model", "model", "lenet5", &e), &e);
    assert_string_equal(j.data.path, "odd: {path} #1 'x'");
    assert_true(!strcmp(j.model.preset, "lenet5") && !j.model.hidden_count);
}

static void wrong_settings_are_named(void **state)
{
    (void)state;
    static iso_job j, before;
    static const struct {
        const char *set, *word[3];
    } wrong[] = {
        {"batch", {"--set 'batch'", "KEY=VALUE"}},
        {"=4", {"KEY=VALUE"}},
        {"batch=", {"--set 'batch='", "no value"}},
        {"batch=many", {"--set 'batch=many': batch wants a whole number"}},
        {"batch=[", {"--set 'batch=['", "not YAML"}},
        {"learning_rate=0.1", {"unknown key", "did you mean 'optimizer.learning_rate'"}},
        {"data.learning_rate=0.1", {"did you mean 'optimizer.learning_rate'"}},
        {"optimizer.learning_rat=0.1", {"did you mean 'optimizer.learning_rate'"}},
        {"model={preset: lenet6}", {"lenet6", "lenet5"}},
        {"model=\x01", {"control characters"}},
        {"optimizer={beta3: 1}", {"beta3", "beta2"}},
    };
    read_job(&j, "data: d\nmodel: lenet5\n", NULL);
    before = j;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        iso_error e = {0};
        assert_int_equal(iso_job_set(&j, wrong[i].set, NULL, &e), ISO_E_JOB);
        for (size_t w = 0; w < 3 && wrong[i].word[w]; w++)
            test_expect_word(e.text, wrong[i].word[w]);
        assert_memory_equal(&j, &before, sizeof j);
    }
    iso_error e = {0};
    assert_int_equal(iso_job_set_text(&j, "--epochs", "epochs", "-1", &e), ISO_E_JOB);
    test_expect_word(e.text, "--epochs: epochs wants");
    assert_int_equal(iso_job_set_text(&j, "--data", "data.path", "\xff", &e), ISO_E_JOB);
    test_expect_word(e.text, "UTF-8");
    assert_int_equal(iso_job_set_text(&j, "--x", "no.such", "1", NULL), ISO_E_JOB);
    assert_memory_equal(&j, &before, sizeof j);
}

/* A text from a small alphabet of what YAML could stumble over. */
static void odd_text(uint64_t *state, char *out, size_t most)
{
    static const char *const pieces[] = {"a",
                                         "Z",
                                         "0",
                                         " ",
                                         ":",
                                         "#",
                                         "'",
                                         "\"",
                                         "\\",
                                         "{",
                                         "]",
                                         ",",
                                         "\n",
                                         "\t",
                                         "\x01",
                                         "\x7f",
                                         "-",
                                         "~",
                                         "null",
                                         "true",
                                         "&",
                                         "*",
                                         "!",
                                         "%",
                                         "@",
                                         "`",
                                         "|",
                                         ">",
                                         "?",
                                         "=",
                                         ".",
                                         "\xc3\xa9",
                                         "\xc2\x85",
                                         "\xe2\x80\xa8",
                                         "\xef\xbb\xbf",
                                         "\xf0\x9f\x98\x80",
                                         "\xef\xbf\xbf",
                                         "1e3"};
    size_t count = test_random_below(state, most);
    out[0] = 0;
    for (size_t i = 0; i < count; i++)
        strcat(out, pieces[test_random_below(state, TEST_COUNT(pieces))]);
}

static void random_job(uint64_t *state, iso_job *j)
{
    static const char *const models[] = {
        "lenet5", "{preset: mlp, hidden: [5, 6]}", "{layers: [flatten, dense: 10]}",
        "{layers: [conv: {filters: 3, kernel: 3, name: first}, relu, max_pool: 2, flatten, dense: 4]}"};
    static const char *const numbers[] = {"optimizer.learning_rate", "schedule.gamma", "optimizer.weight_decay",
                                          "checkpoint.seconds"};
    static const char *const words[] = {
        "optimizer.name=adam",    "schedule=step", "loss=mse",  "data.normalize=none", "sync=bsp",
        "data.augment.flip=true", "unit=48",       "workers=5", "model.init=he",       "data.validation=0.25"};
    iso_error e = {0};
    char text[400], assignment[100];
    iso_job_default(j);
    odd_text(state, text, 20);
    strcat(text, "d"); /* never empty */
    must(iso_job_set_text(j, "--data", "data.path", text, &e), &e);
    odd_text(state, text, 20);
    must(iso_job_set_text(j, "--out", "out", text, &e), &e);
    odd_text(state, text, 8);
    must(iso_job_set_text(j, "--test", "data.test", text, &e), &e);
    snprintf(assignment, sizeof assignment, "model=%s", models[test_random_below(state, TEST_COUNT(models))]);
    must(iso_job_set(j, assignment, NULL, &e), &e);
    for (int i = 0; i < 4; i++)
        must(iso_job_set(j, words[test_random_below(state, TEST_COUNT(words))], NULL, &e), &e);
    snprintf(assignment, sizeof assignment, "%s=%.17ge%d", numbers[test_random_below(state, TEST_COUNT(numbers))],
             (double)(test_random(state) >> 12) * 0x1p-52 + 0x1p-60, -(int)test_random_below(state, 20));
    must(iso_job_set(j, assignment, NULL, &e), &e);
    snprintf(assignment, sizeof assignment, "seed=%llu", (unsigned long long)test_random(state));
    must(iso_job_set(j, assignment, NULL, &e), &e);
    must(iso_job_finish(j, &e), &e);
}

/* parse(write(job)) is the job: by its writing, and by the comparison of resumes. */
static void what_is_written_reads_back(void **state)
{
    (void)state;
    static iso_job j, again;
    static char one[ROOM], two[ROOM];
    uint64_t random = test_seed("test_job_forms");
    for (int i = 0; i < 2000; i++) {
        iso_error e = {0};
        random_job(&random, &j);
        written(&j, one);
        iso_job_default(&again);
        int r = iso_job_parse(&again, "again.yaml", one, strlen(one), NULL, &e);
        if (!r)
            r = iso_job_finish(&again, &e);
        if (r || strcmp(written(&again, two), one))
            fail_msg("case %d, result %d %s:\n%s\nbecame\n%s", i, r, e.text, one, two);
        assert_string_equal(again.out, j.out);
        assert_string_equal(again.data.path, j.data.path);
        must(iso_job_difference(&j, &again, &e), &e);
    }
}

static void writing_respects_its_room(void **state)
{
    (void)state;
    static iso_job j;
    static char whole[ROOM], part[ROOM];
    read_job(&j, "data: d\nmodel: {layers: [flatten, dense: 10]}\n", NULL);
    size_t length = iso_job_write(&j, NULL, 0);
    assert_int_equal(iso_job_write(&j, whole, ROOM), length);
    assert_int_equal(strlen(whole), length);
    for (size_t room = 1; room <= length + 2; room++) {
        memset(part, 'x', sizeof part);
        assert_int_equal(iso_job_write(&j, part, room), length);
        size_t fits = room - 1 < length ? room - 1 : length;
        assert_true(!memcmp(part, whole, fits) && !part[fits] && part[room] == 'x');
    }
}

/* The table's defaults, spelled out in a file, are the defaults. */
static void defaults_are_what_the_help_says(void **state)
{
    (void)state;
    static iso_job j, d;
    static char one[ROOM], two[ROOM];
    iso_job_key key;
    unsigned count = 0;
    iso_job_default(&d);
    written(&d, two);
    for (uint32_t i = 0; iso_job_key_at(i, &key); i++) {
        char assignment[200];
        assert_true(key.help[0] && key.type[0] && strlen(key.help) < 110);
        if (!key.standard[0])
            continue;
        iso_error e = {0};
        iso_job_default(&j);
        snprintf(assignment, sizeof assignment, "%s=%s", key.path, key.standard);
        must(iso_job_set(&j, assignment, NULL, &e), &e);
        assert_string_equal(written(&j, one), two);
        count++;
    }
    assert_true(count > 25);
}

static void a_resume_names_what_differs(void **state)
{
    (void)state;
    static const struct {
        const char *set, *key; /* NULL: may differ */
    } changes[] = {
        {"workers=3", NULL},
        {"checkpoint={every: 3, seconds: 0, keep: 9}", NULL},
        {"out=elsewhere", NULL},
        {"engine=local", NULL},
        {"batch=65", "batch was 64 in the run to resume and is 65 now"},
        {"epochs=11", "epochs"},
        {"seed=2", "seed"},
        {"data.path=e", NULL},
        {"data.test=t", NULL},
        {"data.labels=t", NULL},
        {"data.format=idx", NULL},
        {"data.validation=0.1", "data.validation"},
        {"data.validation=./v", "data.validation"},
        {"data.normalize=none", "data.normalize"},
        {"data.augment.shift=1", "data.augment.shift"},
        {"data.augment.flip=true", "data.augment.flip"},
        {"model=mlp", "model.preset"},
        {"model.classes=11", "model.classes"},
        {"model.init=he", "model.init"},
        {"model={layers: [flatten, dense: 10]}", "model.preset"},
        {"loss=mse", "loss"},
        {"optimizer=adam", "optimizer.name"},
        {"optimizer.learning_rate=0.1", "optimizer.learning_rate"},
        {"optimizer.momentum=0", "optimizer.momentum"},
        {"schedule=step", "schedule.name"},
        {"schedule.warmup_epochs=1", "schedule.warmup_epochs"},
        {"unit=32", "unit"},
        {"sync=bsp", "sync"},
        {"init=m", "init"},
        {"name=x", NULL},
    };
    static iso_job before, now;
    read_job(&before, "data: d\nmodel: lenet5\n", NULL);
    for (size_t i = 0; i < TEST_COUNT(changes); i++) {
        iso_error e = {0};
        read_job(&now, "data: d\nmodel: lenet5\n", (const char *const[]){changes[i].set, NULL});
        int r = iso_job_difference(&before, &now, &e);
        assert_int_equal(r, changes[i].key ? ISO_E_MISMATCH : ISO_OK);
        if (changes[i].key && strncmp(e.text, changes[i].key, strlen(changes[i].key)))
            fail_msg("%s: %s", changes[i].set, e.text);
        uint64_t digest[2];
        assert_int_equal(iso_job_digest(&before, NULL, &digest[0], &e), ISO_OK);
        assert_int_equal(iso_job_digest(&now, NULL, &digest[1], &e), ISO_OK);
        assert_int_equal(digest[0] != digest[1], r != ISO_OK);
    }
    read_job(&before, "data: d\nmodel: {layers: [flatten, dense: 10]}\n", NULL);
    read_job(&now, "data: d\nmodel: {layers: [flatten, dense: 11]}\n", NULL);
    iso_error e = {0};
    assert_int_equal(iso_job_difference(&before, &now, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "model.layers was [ ");
    read_job(&before, "data: d\nmodel: {preset: mlp, hidden: [5]}\n", NULL);
    read_job(&now, "data: d\nmodel: {preset: mlp, hidden: [6]}\n", NULL);
    assert_int_equal(iso_job_difference(&before, &now, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "model.hidden was [5] in the run to resume and is [6] now");
    read_job(&before, "data: d\nmodel: lenet5\nbatch: 16\n", NULL); /* a key that follows another does not hide it */
    read_job(&now, "data: d\nmodel: lenet5\nbatch: 32\n", NULL);
    assert_int_equal(iso_job_difference(&before, &now, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "optimizer.learning_rate was 0.0125");
    test_expect_word(e.text, "batch was 16");
    read_job(&now, "data: d\nmodel: {layers: [flatten, dense: 120, relu, dense: 84, relu, dense: 60, relu, dense: 10]}\nbatch: 32\n", NULL);
    memset(now.out, 'x', sizeof now.out - 1); /* many and long ones fit the message */
    memset(now.data.validation_path, 'x', sizeof now.data.validation_path - 1);
    memset(now.init, 'x', sizeof now.init - 1);
    assert_int_equal(iso_job_difference(&before, &now, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "and more; only name");
}

/* A path that was given may lead elsewhere now, and a policy may be spelled otherwise; none and another are differences. */
static void names_of_one_thing_are_no_difference(void **state)
{
    (void)state;
    static const struct {
        const char *before, *now;
        bool same;
    } cases[] = {
        {"init: m\n", "init: /elsewhere/m\n", true},
        {"init: m\n", "", false},
        {"data: {path: d, validation: ./v}\n", "data: {path: d, validation: ./w}\n", true},
        {"data: {path: d, validation: ./v}\n", "data: {path: d, validation: 0.5}\n", false},
        {"data: {path: d, validation: 0.10}\n", "data: {path: d, validation: 0.1}\n", true},
        {"sync: lb-bsp\n", "", false},
        {"sync: {policy: hmdspt, payload: int4, local_batch: 8}\n", "sync: hmdspt:local_batch=8.0:payload=int4\n", true},
        {"sync: hmdspt:payload=int8\n", "sync: hmdspt:payload=int4\n", false},
        {"optimizer: {learning_rate: 0.050}\n", "", true},
    };
    static iso_job job[2];
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint64_t digest[2];
        iso_error e = {0};
        for (int k = 0; k < 2; k++) {
            const char *own = k ? cases[i].now : cases[i].before;
            char text[300];
            snprintf(text, sizeof text, "%smodel: lenet5\n%s", strstr(own, "data:") ? "" : "data: d\n", own);
            read_job(&job[k], text, NULL);
            must(iso_job_digest(&job[k], NULL, &digest[k], &e), &e);
        }
        assert_int_equal(iso_job_difference(&job[0], &job[1], &e), cases[i].same ? ISO_OK : ISO_E_MISMATCH);
        assert_int_equal(digest[0] == digest[1], cases[i].same);
    }
}

static void the_network_follows_the_job(void **state)
{
    (void)state;
    static iso_job j;
    static iso_model m;
    iso_error e = {0};
    read_job(&j, "data: d\nmodel: {layers: [flatten, dense: 10], init: he}\nloss: mse\n", NULL);
    must(iso_job_model(&j, 10, &m, &e), &e);
    assert_true(m.count == 2 && m.loss == ISO_LOSS_MSE && m.init == ISO_INIT_HE);
    assert_string_equal(iso_layer_kind_name(m.layer[0].kind), "flatten");
    read_job(&j, "data: d\nmodel: lenet5\n", NULL);
    must(iso_job_model(&j, 7, &m, &e), &e);
    assert_true(m.layer[m.count - 1].value[0] == 7 && m.loss == ISO_LOSS_CROSS_ENTROPY);
    read_job(&j, "data: d\nmodel: {preset: lenet5, classes: 12}\n", NULL);
    must(iso_job_model(&j, 7, &m, &e), &e);
    assert_true(m.layer[m.count - 1].value[0] == 12);
    strcpy(j.model.preset, "lenet6");
    assert_int_equal(iso_job_model(&j, 7, &m, &e), ISO_E_JOB);
    test_expect_word(e.text, "job.yaml:2:1: ");
}

/* An option's value as a file spells it: its default, or its least value when it has none. */
static void spell(const iso_option *o, char *out, size_t size)
{
    char number[ISO_NUMBER_TEXT];
    double value = isnan(o->standard) ? o->min : o->standard;
    iso_print_double(number, value);
    snprintf(out, size, "%s",
             o->type == ISO_OPTION_CHOICE ? o->choices[(int)value]
             : o->type == ISO_OPTION_BOOL ? (value != 0 ? "true" : "false")
                                          : number);
}

/* Whatever the tables of layers and policies hold, now and later, the job file can say, and reads back what it writes.
 */
static void all_of_the_tables_can_be_said(void **state)
{
    (void)state;
    static iso_job j, again;
    static char one[ROOM], two[ROOM];
    char text[4000], value[64];
    assert_true(iso_layer_kind_count() >= 5 && iso_policy_count() >= 4);
    for (uint32_t i = 0; i < iso_layer_kind_count() + iso_policy_count(); i++) {
        bool layer = i < iso_layer_kind_count();
        const iso_layer_kind *kind = layer ? iso_layer_kind_at(i) : NULL;
        const iso_policy *policy = layer ? NULL : iso_policy_at(i - iso_layer_kind_count());
        uint32_t count;
        const iso_option *o = layer ? iso_layer_kind_options(kind, &count) : iso_policy_parameters(policy, &count);
        size_t at =
            (size_t)(layer ? snprintf(text, sizeof text, "data: d\nmodel: {layers: [%s: {", iso_layer_kind_name(kind))
                           : snprintf(text, sizeof text, "data: d\nmodel: mlp\nsync: {policy: %s",
                                      iso_policy_name(policy)));
        for (uint32_t k = 0; k < count; k++) {
            spell(&o[k], value, sizeof value);
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s: %s", layer && !k ? "" : ", ", o[k].name, value);
        }
        snprintf(text + at, sizeof text - at, layer ? "}]}\n" : "}\n");
        read_job(&j, text, NULL);
        read_job(&again, written(&j, one), NULL);
        assert_string_equal(written(&again, two), one);
        for (uint32_t k = 0; layer && k < count; k++)
            assert_true(j.model.layers.layer[0].value[k] == (isnan(o[k].standard) ? o[k].min : o[k].standard));
    }
}

static int parse_with(const iso_alloc *a, void *context)
{
    static iso_job j;
    iso_error e = {0};
    const char *text = context;
    iso_job_default(&j);
    int r = iso_job_parse(&j, "job.yaml", text, strlen(text), a, &e);
    if (!r)
        r = iso_job_set(&j, "model={layers: [flatten, dense: 10]}", a, &e);
    assert_true(!r || e.text[0]);
    return r;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static char text[20000];
    size_t at = (size_t)snprintf(text, sizeof text, "data: d\nmodel:\n  layers:\n");
    for (int i = 0; i < 100; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "    - conv: {filters: 6, kernel: 5, padding: 2}\n");
    assert_true(test_every_allocation(parse_with, text) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_forms_equal_long_ones),   cmocka_unit_test(values_arrive),
        cmocka_unit_test(open_values_are_resolved),      cmocka_unit_test(later_settings_win),
        cmocka_unit_test(wrong_settings_are_named),      cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(writing_respects_its_room),     cmocka_unit_test(defaults_are_what_the_help_says),
        cmocka_unit_test(a_resume_names_what_differs),   cmocka_unit_test(names_of_one_thing_are_no_difference),
        cmocka_unit_test(the_network_follows_the_job),
        cmocka_unit_test(all_of_the_tables_can_be_said), cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

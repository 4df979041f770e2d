/* SPDX-License-Identifier: Apache-2.0
 * Going on after a stop, a kill or a full disk: the same bytes as an unbroken run, whatever the moment and the number
 * of workers. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_fixture.h"

static char *data;
static char unbroken[ISO_SHA256_TEXT];

/* Adam and a schedule: whatever is not restored shows. 4 rounds an epoch. */
#define JOB                                                                                                          \
    "batch: 100\nepochs: 5\nunit: 16\noptimizer: {name: adam, learning_rate: 0.01}\nschedule: {name: cosine, "       \
    "warmup_epochs: 1}\n"
static const char steady[] = JOB "checkpoint: {every: 3, seconds: 0, keep: 2}\n";

static int setup(void **state)
{
    (void)state;
    data = fixture_data(333, 40);
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
    fixture_hash(job, &(iso_train_options){.workers = 2}, unbroken);
    free(job);
    scratch_remove(s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(data);
    return 0;
}

/* ---- stopping in the middle ---------------------------------------------------------------------------- */

/* Slows the workers down, so that what another thread does comes in the middle. */
static iso_fault slow(void *context, uint32_t worker, uint64_t order)
{
    (void)context;
    (void)worker;
    (void)order;
    return (iso_fault){.kind = ISO_FAULT_STALL, .milliseconds = 2};
}

/* Sets the stop flag before the given order of all workers, then holds them up until it is heard. */
typedef struct stopper {
    atomic_int stop;
    atomic_uint orders;
    uint32_t last;
} stopper;

static iso_fault stop_then(void *context, uint32_t worker, uint64_t order)
{
    (void)worker;
    (void)order;
    stopper *s = context;
    bool now = atomic_fetch_add(&s->orders, 1) >= s->last;
    if (now)
        atomic_store(&s->stop, 1);
    return (iso_fault){.kind = ISO_FAULT_STALL, .milliseconds = now ? 100 : 1};
}

static void train_until_stopped(const iso_job *job, uint32_t workers, bool resume, uint32_t orders)
{
    stopper stop = {.last = orders};
    iso_train_faults faults = {.context = &stop, .worker = stop_then};
    iso_error e;
    if (orders == 0)
        atomic_store(&stop.stop, 1); /* before anything was done */
    iso_train_options o = {.workers = workers, .resume = resume, .stop = &stop.stop, .faults = &faults};
    if (fixture_train(job, &o, NULL, &e) != ISO_E_INTERRUPTED)
        fail_msg("not stopped before order %u: %s", orders, e.text);
    test_expect_word(e.text, "--resume");
    assert_false(scratch_exists(scratch_path(job->out, "model.safetensors")));
}

static void say(void *context, iso_message_level level, const char *sentence)
{
    (void)level;
    strncat(context, sentence, 2000);
    strncat(context, "\n", 2);
}

/* Each line of metrics.jsonl once and in order. */
static void expect_rounds(const char *run, uint64_t rounds)
{
    char *text = scratch_read(scratch_path(run, "metrics.jsonl"), NULL), *rest = text;
    uint64_t round = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        assert_int_equal(json_integer_value(json_object_get(o, "round")), ++round);
        json_decref(o);
    }
    assert_int_equal(round, rounds);
    free(text);
}

/* Resumes to the end: the bytes of the unbroken run, all figures of the whole, nothing left over. */
static void expect_resumes(iso_job *job, uint32_t workers)
{
    iso_summary s;
    iso_error e;
    if (fixture_train(job, &(iso_train_options){.resume = true, .workers = workers}, &s, &e))
        fail_msg("%s", e.text);
    assert_string_equal(s.weights_sha256, unbroken);
    assert_int_equal(s.rounds, 20);
    assert_int_equal(s.samples, 5 * 333);
    uint64_t samples = 0;
    for (uint32_t i = 0; i < s.node_count; i++)
        samples += s.nodes[i].samples;
    assert_int_equal(samples, 5 * 333);
    assert_false(s.was_finished);
    iso_summary_clear(&s, NULL);
    expect_rounds(job->out, 20);
    assert_false(scratch_exists(scratch_path(job->out, ".latest.tmp")));
}

static void stopped_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t orders = 0; orders < 36; orders += 5) {
        char *s = scratch_make();
        iso_job *job = fixture_job(data, scratch_path(s, "run"), JOB "checkpoint: {every: 0, seconds: 0}\n");
        train_until_stopped(job, 2, false, orders);
        char *latest = scratch_read(scratch_path(job->out, "latest"), NULL);
        latest[strcspn(latest, "\n")] = 0;
        assert_true(scratch_exists(scratch_path(job->out, latest)));
        free(latest);
        expect_resumes(job, 1 + orders % 4);
        free(job);
        scratch_remove(s);
    }
}

/* Stopped and resumed again and again, with another number of workers and another checkpointing each time. */
static void stopped_many_times(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
    for (uint32_t i = 0; i < 5; i++) {
        job->checkpoint.every = 2 + i;
        train_until_stopped(job, 1 + i % 3, i > 0, 7);
    }
    expect_resumes(job, 2);
    free(job);
    scratch_remove(s);
}

/* ---- killed -------------------------------------------------------------------------------------------- */

typedef struct cut {
    int at, count, error; /* error < 0: the process is killed */
    iso_file_step step;
    bool any;
} cut;

static int file_fault(void *context, iso_file_step step, const char *path)
{
    (void)path;
    cut *c = context;
    if (!c->any && step != c->step)
        return 0;
    if (c->count++ != c->at)
        return 0;
    if (c->error < 0)
        kill(getpid(), SIGKILL);
    return c->error;
}

/* kill -9 at every single step on any file of the run; the resume ends with the same bytes. */
static void killed_at_every_write(void **state)
{
    (void)state;
    int ended = 0;
    for (int at = 0;; at += 1 + at / 40) {
        char *s = scratch_make();
        iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            cut c = {.at = at, .error = -1, .any = true};
            iso_train_faults faults = {.context = &c, .file = file_fault};
            iso_error e;
            int result =
                iso_train(job, &(iso_train_options){.workers = 1 + (uint32_t)at % 2, .faults = &faults}, NULL, &e);
            _exit(result ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        bool done = WIFEXITED(status);
        if (done)
            assert_int_equal(WEXITSTATUS(status), 0);
        if (!done) {
            assert_int_equal(WTERMSIG(status), SIGKILL);
            iso_summary summary;
            iso_error e;
            if (fixture_train(job, &(iso_train_options){.resume = true, .workers = 2}, &summary, &e))
                fail_msg("killed at step %d: %s", at, e.text);
            if (strcmp(summary.weights_sha256, unbroken) != 0)
                fail_msg("killed at step %d: other weights", at);
            iso_summary_clear(&summary, NULL);
            expect_rounds(job->out, 20);
            ended++;
        }
        free(job);
        scratch_remove(s);
        if (done)
            break;
    }
    assert_true(ended > 30);
}

/* ---- damaged and foreign checkpoints ------------------------------------------------------------------- */

/* A run folder stopped in the middle, with two checkpoints. */
static iso_job *stopped_run(char *s)
{
    iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
    train_until_stopped(job, 2, false, 10); /* a round has 7 units, so this is round 1 at least */
    train_until_stopped(job, 2, true, 10);
    return job;
}

static void newest(const iso_job *job, char name[64])
{
    char *latest = scratch_read(scratch_path(job->out, "latest"), NULL);
    snprintf(name, 64, "%.*s", (int)strcspn(latest, "\n"), latest);
    free(latest);
}

static void a_damaged_checkpoint_falls_back(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        char *s = scratch_make(), name[64];
        iso_job *job = stopped_run(s);
        newest(job, name);
        const char *path = scratch_path(job->out, name);
        size_t size;
        char *bytes = scratch_read(path, &size);
        if (kind == 0)
            scratch_write(path, bytes, size - 1); /* cut */
        if (kind == 1)
            scratch_write(path, bytes, 0); /* empty */
        bytes[size - 5] ^= 1;              /* one bit of a weight */
        if (kind == 2)
            scratch_write(path, bytes, size);
        free(bytes);
        char heard[4096] = "";
        iso_observer observer = {.context = heard, .message = say};
        iso_summary summary;
        iso_error e;
        if (fixture_train(job, &(iso_train_options){.resume = true, .workers = 3, .observer = &observer}, &summary,
                          &e))
            fail_msg("%s", e.text);
        assert_string_equal(summary.weights_sha256, unbroken);
        test_expect_word(heard, name);
        test_expect_word(heard, "older checkpoint");
        iso_summary_clear(&summary, NULL);
        expect_rounds(job->out, 20);
        free(job);
        scratch_remove(s);
    }
}

static void all_checkpoints_damaged(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
    iso_error e;
    assert_int_equal(fixture_train(job, &(iso_train_options){.workers = 1}, NULL, &e), 0);
    assert_int_equal(unlink(scratch_path(job->out, "summary.json")), 0);
    for (int round = 1; round <= 20; round++) {
        char name[64];
        snprintf(name, sizeof name, "checkpoint-%d.safetensors", round);
        if (scratch_exists(scratch_path(job->out, name)))
            scratch_write(scratch_path(job->out, name), "damaged", 7);
    }
    assert_int_equal(fixture_train(job, &(iso_train_options){.resume = true}, NULL, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "checkpoint-");
    free(job);
    scratch_remove(s);
}

/* What may not change is named; what may change does not matter. */
static void another_job_is_refused(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = stopped_run(s);
    iso_error e;
    static const struct {
        const char *set, *word;
    } cases[] = {{"seed=6", "seed"},
                 {"batch=99", "batch"},
                 {"epochs=6", "epochs"},
                 {"optimizer.learning_rate=0.02", "learning_rate"},
                 {"model={preset: mlp, hidden: [13]}", "hidden"},
                 {"sync=bsp", "sync"},
                 {"unit=32", "unit"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        iso_job other = *job;
        assert_int_equal(iso_job_set(&other, cases[i].set, NULL, &e), 0);
        assert_int_equal(fixture_train(&other, &(iso_train_options){.resume = true}, NULL, &e), ISO_E_MISMATCH);
        test_expect_word(e.text, cases[i].word);
        /* nor by the checkpoint alone, when job.yaml is gone */
        char *yaml = scratch_read(scratch_path(job->out, "job.yaml"), NULL);
        assert_int_equal(unlink(scratch_path(job->out, "job.yaml")), 0);
        assert_int_equal(fixture_train(&other, &(iso_train_options){.resume = true}, NULL, &e), ISO_E_MISMATCH);
        test_expect_word(e.text, cases[i].word);
        scratch_write(scratch_path(job->out, "job.yaml"), yaml, strlen(yaml));
        free(yaml);
    }
    assert_int_equal(fixture_train(job, &(iso_train_options){.workers = 1}, NULL, &e), ISO_E_BUSY);
    test_expect_word(e.text, "--resume");
    assert_int_equal(fixture_train(job, &(iso_train_options){.resume = true, .force = true}, NULL, &e),
                     ISO_E_ARGUMENT);

    /* other training data under the same name */
    char *images = scratch_read(scratch_path(data, "train-images-idx3-ubyte"), NULL);
    const size_t size = 16 + 333 * 64;
    images[size - 1] ^= 1;
    scratch_write(scratch_path(data, "train-images-idx3-ubyte"), images, size);
    assert_int_equal(fixture_train(job, &(iso_train_options){.resume = true}, NULL, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "training set");
    test_expect_word(e.text, "fingerprint");
    images[size - 1] ^= 1;
    scratch_write(scratch_path(data, "train-images-idx3-ubyte"), images, size);
    free(images);

    job->workers = 3;
    job->checkpoint = (iso_job_checkpoint){.every = 1, .keep = 1};
    expect_resumes(job, 0);
    free(job);
    scratch_remove(s);
}

static void resuming_what_is_done_or_not_begun(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
    char heard[4096] = "";
    iso_observer observer = {.context = heard, .message = say};
    iso_summary first, again;
    iso_error e;
    /* an absent folder: from the beginning, and it says so */
    assert_int_equal(
        fixture_train(job, &(iso_train_options){.resume = true, .workers = 2, .observer = &observer}, &first, &e), 0);
    test_expect_word(heard, "from the beginning");
    assert_string_equal(first.weights_sha256, unbroken);
    heard[0] = 0;
    assert_int_equal(fixture_train(job, &(iso_train_options){.resume = true, .observer = &observer}, &again, &e), 0);
    test_expect_word(heard, "finished");
    assert_true(again.was_finished);
    assert_string_equal(again.weights_sha256, first.weights_sha256);
    assert_int_equal(again.rounds, first.rounds);
    assert_int_equal(again.node_count, first.node_count);
    iso_summary_clear(&again, NULL);
    job->epochs = 6;
    assert_int_equal(fixture_train(job, &(iso_train_options){.resume = true}, NULL, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "epochs");
    job->epochs = 5;
    /* force begins again */
    assert_int_equal(fixture_train(job, &(iso_train_options){.force = true}, &again, &e), 0);
    assert_false(again.was_finished);
    assert_string_equal(again.weights_sha256, unbroken);
    iso_summary_clear(&again, NULL);
    iso_summary_clear(&first, NULL);
    free(job);
    scratch_remove(s);
}

/* ---- full disks ---------------------------------------------------------------------------------------- */

/* A full disk at each write, sync, close and rename: an error that names the file, and what is there can be resumed.
 */
static void a_full_disk_at_every_step(void **state)
{
    (void)state;
    for (int step = ISO_FILE_OPEN; step <= ISO_FILE_REMOVE; step++) {
        int failures = 0;
        for (int at = 0;; at += 1 + at / 8) {
            char *s = scratch_make();
            iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
            cut c = {.at = at, .error = ENOSPC, .step = (iso_file_step)step};
            /* Files are removed when there are more checkpoints than are kept: a fast run writes too few. */
            iso_train_faults faults = {
                .context = &c, .file = file_fault, .worker = step == ISO_FILE_REMOVE ? slow : NULL};
            iso_error e;
            int result = fixture_train(job, &(iso_train_options){.workers = 2, .faults = &faults}, NULL, &e);
            if (result) {
                assert_int_equal(result, ISO_E_IO);
                test_expect_word(e.text, job->out);
                test_expect_word(e.text, "free space");
                iso_summary summary;
                if (fixture_train(job, &(iso_train_options){.resume = true, .workers = 2}, &summary, &e))
                    fail_msg("step %d, time %d: %s", step, at, e.text);
                assert_string_equal(summary.weights_sha256, unbroken);
                iso_summary_clear(&summary, NULL);
                failures++;
            }
            free(job);
            scratch_remove(s);
            if (!result && c.count <= at)
                break;
        }
        assert_true(failures > 0);
    }
}

static void the_folder_is_locked_while_in_use(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_job *job = fixture_job(data, scratch_path(s, "run"), steady);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        iso_train_faults faults = {.worker = slow};
        iso_error e;
        assert_int_equal(write(ready[1], "x", 1), 1);
        _exit(iso_train(job, &(iso_train_options){.workers = 1, .faults = &faults}, NULL, &e) ? 1 : 0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    iso_error e;
    for (int i = 0; i < 1000 && !scratch_exists(scratch_path(job->out, "metrics.jsonl")); i++)
        usleep(1000);
    assert_int_equal(fixture_train(job, &(iso_train_options){.resume = true}, NULL, &e), ISO_E_BUSY);
    test_expect_word(e.text, "in use");
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    free(job);
    scratch_remove(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_any_moment),
        cmocka_unit_test(stopped_many_times),
        cmocka_unit_test(killed_at_every_write),
        cmocka_unit_test(a_damaged_checkpoint_falls_back),
        cmocka_unit_test(all_checkpoints_damaged),
        cmocka_unit_test(another_job_is_refused),
        cmocka_unit_test(resuming_what_is_done_or_not_begun),
        cmocka_unit_test(a_full_disk_at_every_step),
        cmocka_unit_test(the_folder_is_locked_while_in_use),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

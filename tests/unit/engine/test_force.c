/* SPDX-License-Identifier: Apache-2.0
 * A new run in the place of an earlier one: whatever fails and whenever the process ends, one of the two is whole, and it is the
 * earlier one until the new one has a checkpoint on the disk. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/run/audit.h"
#include "engine/run/folder.h"
#include "run_fixture.h"

static const char *const earlier[] = {"job.yaml",      "metrics.jsonl",    "events.jsonl", "summary.json",           "model.safetensors",
                                      "latest",        "best.safetensors", "trace.json",   "checkpoint-7.safetensors"};
static const char *const newer[] = {"job.yaml", "events.jsonl", "checkpoint-3.safetensors", "latest"};
static const char *const foreign[] = {"notes.txt", ".new-run.txt", "checkpoint-7.bak"};

/* ---- steps --------------------------------------------------------------------------------------------- */

typedef struct plan {
    int at, count, error; /* the at-th step fails with error; -1: the process ends there */
    char trace[4096];     /* of the steps: "rename NAME\n" */
} plan;

static int fault(void *context, iso_file_step step, const char *name)
{
    static const char *const word[] = {"open", "write", "sync", "close", "rename", "folder", "remove", "lock"};
    plan *p = context;
    size_t n = strlen(p->trace);
    snprintf(p->trace + n, sizeof p->trace - n, "%s %s\n", word[step], name);
    if (p->count++ != p->at)
        return 0;
    if (p->error < 0)
        _exit(42);
    return p->error;
}

static void fill(const char *folder)
{
    for (size_t i = 0; i < TEST_COUNT(earlier); i++)
        scratch_write(scratch_path(folder, earlier[i]), "earlier", 7);
    for (size_t i = 0; i < TEST_COUNT(foreign); i++)
        scratch_write(scratch_path(folder, foreign[i]), "foreign", 7);
}

/* What --force does to a folder, as a run does it. Returns the result; *stands: the new run has been on the disk. */
static int replace_run(const char *folder, plan *p, bool *stands)
{
    iso_train_faults faults = {.context = p, .file = fault};
    iso_run f;
    *stands = false;
    int result = iso_run_open(&f, folder, ISO_RUN_FORCE, &faults, iso_alloc_default(), NULL);
    for (size_t i = 0; result == 0 && i < TEST_COUNT(newer); i++)
        result = iso_run_put(&f, newer[i], "newer", 5, NULL);
    *stands = result == 0;
    if (result == 0)
        result = iso_run_take_over(&f, NULL);
    iso_run_close(&f);
    return result;
}

static bool holds(const char *path, const char *text)
{
    char *bytes = scratch_exists(path) ? scratch_read(path, NULL) : NULL;
    bool same = bytes && strcmp(bytes, text) == 0;
    free(bytes);
    return same;
}

/* Is it exactly one of the two runs, and what others put there? */
static bool is_earlier(const char *folder, int at)
{
    bool first = holds(scratch_path(folder, "job.yaml"), "earlier");
    size_t wanted = first ? TEST_COUNT(earlier) : TEST_COUNT(newer);
    for (size_t i = 0; i < wanted; i++) {
        const char *name = first ? earlier[i] : newer[i];
        if (!holds(scratch_path(folder, name), first ? "earlier" : "newer"))
            fail_msg("step %d: %s is not of the %s run", at, name, first ? "earlier" : "newer");
    }
    for (size_t i = 0; i < TEST_COUNT(foreign); i++)
        assert_true(holds(scratch_path(folder, foreign[i]), "foreign"));
    int left = scratch_exists(scratch_path(folder, ".new-run")) + scratch_exists(scratch_path(folder, ".write-test.tmp"));
    if (scratch_entries(folder) != (int)(wanted + TEST_COUNT(foreign)) + left)
        fail_msg("step %d: %d files", at, scratch_entries(folder));
    return first;
}

static void a_new_run_replaces_the_earlier_one(void **state)
{
    (void)state;
    char *s = scratch_make();
    bool stands;
    plan p = {.at = -1};
    fill(s);
    assert_int_equal(replace_run(s, &p, &stands), 0);
    assert_false(is_earlier(s, 0));
    assert_false(scratch_exists(scratch_path(s, ".new-run")));
    /* a name is on the disk before anything is done under it, and what was done before the next name is */
    static const char *const order[] = {"rename .new-run\nfolder \nremove ", "folder \nrename .new-run-stands\nfolder \nrename "};
    for (size_t i = 0; i < TEST_COUNT(order); i++)
        if (!strstr(p.trace, order[i]))
            fail_msg("not in this order: %s", p.trace);
    assert_string_equal(p.trace + strlen(p.trace) - strlen("folder \n"), "folder \n");
    scratch_remove(s);
}

/* The process ends at every step, and so does each of those that find it so: all that was whole before is whole after. */
static void the_process_may_end_at_every_step(void **state)
{
    (void)state;
    int ended = 0, forward = 0;
    for (int at = 0, done = 0; !done; at++)
        for (int again = -1; again < 40; again += 1) {
            char *s = scratch_make();
            bool stands;
            fill(s);
            fflush(NULL);
            for (int k = 0; k < (again < 0 ? 1 : 2); k++) {
                pid_t child = fork();
                assert_true(child >= 0);
                if (child == 0) {
                    plan p = {.at = k ? again : at, .error = -1};
                    iso_train_faults faults = {.context = &p, .file = fault};
                    iso_run f;
                    if (k == 0)
                        _exit(replace_run(s, &p, &stands) ? 2 : 0);
                    int result = iso_run_open(&f, s, ISO_RUN_RESUME, &faults, iso_alloc_default(), NULL);
                    iso_run_close(&f);
                    _exit(result ? 2 : 0);
                }
                int status;
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_true(WIFEXITED(status));
                assert_true(WEXITSTATUS(status) == 42 || WEXITSTATUS(status) == 0);
                done = k == 0 ? WEXITSTATUS(status) == 0 : done;
                ended += WEXITSTATUS(status) == 42;
                again = k && WEXITSTATUS(status) == 0 ? 40 : again; /* it has no more steps */
            }
            iso_error e = {0};
            if (iso_run_look(s, NULL, &e))
                fail_msg("step %d: %s", at, e.text);
            bool first = is_earlier(s, at);
            forward += !first;
            iso_run f;
            assert_int_equal(iso_run_open(&f, s, ISO_RUN_RESUME, NULL, iso_alloc_default(), NULL), 0);
            iso_run_close(&f);
            assert_false(scratch_exists(scratch_path(s, ".new-run")) || scratch_exists(scratch_path(s, ".write-test.tmp")));
            assert_int_equal(is_earlier(s, at), first);
            scratch_remove(s);
        }
    assert_true(ended > 200 && forward > 20);
}

/* The same with a step that fails: the earlier run before there is a checkpoint of the new one, one of the two after. */
static void every_step_may_fail(void **state)
{
    (void)state;
    int failures = 0, late = 0;
    for (int at = 0;; at++) {
        char *s = scratch_make();
        bool stands;
        plan p = {.at = at, .error = ENOSPC};
        fill(s);
        int result = replace_run(s, &p, &stands);
        bool locks = strncmp(p.trace, "lock", 4) == 0 && at == 0;
        if (!result && !locks && p.count <= at) {
            scratch_remove(s);
            break;
        }
        if (!stands) {
            assert_true(is_earlier(s, at));
            assert_false(scratch_exists(scratch_path(s, ".new-run")));
        }
        iso_error e = {0};
        if (iso_run_look(s, NULL, &e))
            fail_msg("step %d: %s", at, e.text);
        late += !is_earlier(s, at);
        failures += result != 0;
        scratch_remove(s);
    }
    assert_true(failures > 30 && late > 10);
}

static void what_is_in_the_way_is_told_before(void **state)
{
    (void)state;
    char *s = scratch_make(), *other = scratch_make();
    iso_run f;
    iso_error e = {0};
    scratch_write(scratch_path(s, "job.yaml"), "earlier", 7);
    scratch_write(scratch_path(other, "job.yaml"), "other", 5);
    /* a link must not lead the run elsewhere */
    assert_int_equal(symlink(other, scratch_path(s, ".new-run")), 0);
    assert_int_equal(iso_run_open(&f, s, ISO_RUN_FORCE, NULL, iso_alloc_default(), &e), ISO_E_IO);
    test_expect_word(e.text, ".new-run");
    assert_true(holds(scratch_path(other, "job.yaml"), "other"));
    assert_int_equal(unlink(scratch_path(s, ".new-run")), 0);
    assert_int_equal(mkdir(scratch_path(s, "latest"), 0777), 0);
    assert_int_equal(iso_run_open(&f, s, ISO_RUN_FORCE, NULL, iso_alloc_default(), &e), ISO_E_BUSY);
    test_expect_word(e.text, "latest is a folder");
    assert_true(holds(scratch_path(s, "job.yaml"), "earlier"));
    assert_int_equal(rmdir(scratch_path(s, "latest")), 0);
    /* what somebody put into the pending folder stays there */
    assert_int_equal(mkdir(scratch_path(s, ".new-run"), 0777), 0);
    scratch_write(scratch_path(s, ".new-run/mine"), "foreign", 7);
    scratch_write(scratch_path(s, ".new-run/latest"), "x", 1);
    assert_int_equal(iso_run_open(&f, s, ISO_RUN_FORCE, NULL, iso_alloc_default(), &e), 0);
    assert_int_equal(scratch_entries(scratch_path(s, ".new-run")), 1);
    assert_int_equal(iso_run_put(&f, "job.yaml", "newer", 5, &e), 0);
    iso_run_close(&f);
    assert_true(holds(scratch_path(s, ".new-run/mine"), "foreign"));
    assert_true(holds(scratch_path(s, "job.yaml"), "earlier"));
    scratch_remove(s);
    scratch_remove(other);
}

/* ---- whole runs ---------------------------------------------------------------------------------------- */

static char *data;
static const char job_text[] = "batch: 100\nepochs: 3\nunit: 16\ncheckpoint: {every: 2, seconds: 0, keep: 2}\n";

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

/* A finished run of seed 5 in S/run. */
static iso_job *finished_run(const char *s, char sha256[ISO_SHA256_TEXT])
{
    iso_job *job = fixture_job(data, scratch_path(s, "run"), job_text);
    fixture_hash(job, NULL, sha256);
    scratch_write(scratch_path(job->out, "notes.txt"), "mine", 4);
    return job;
}

/* The weights of the model of a run. */
static void weights_of(const char *run, char sha256[ISO_SHA256_TEXT])
{
    iso_trained *m;
    iso_error e = {0};
    if (iso_model_open(&m, run, ISO_ISA_AUTO, NULL, &e))
        fail_msg("%s", e.text);
    memcpy(sha256, iso_model_sha256(m), ISO_SHA256_TEXT);
    iso_model_close(m);
}

/* The finished run is there with all its files, and nothing else. */
static void expect_untouched(const char *run, const char *sha256)
{
    char now[ISO_SHA256_TEXT];
    iso_audit audit = {0};
    iso_error e = {0};
    weights_of(run, now);
    assert_string_equal(now, sha256);
    if (iso_audit_run(run, NULL, &audit, &e) || audit.faults)
        fail_msg("%s%s", e.text, audit.fault[0]);
    assert_true(audit.finished);
    iso_audit_clear(&audit, NULL);
    assert_true(scratch_exists(scratch_path(run, "notes.txt")));
    assert_false(scratch_exists(scratch_path(run, ".new-run")));
}

static int all_die(void *context, iso_file_step step, const char *name)
{
    (void)context;
    return step == ISO_FILE_OPEN && strcmp(name, "events.jsonl") == 0 ? EROFS : 0;
}

/* Everything that can be wrong with a job before its first checkpoint leaves the earlier run as it was. */
static void a_job_that_cannot_be_trained_takes_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {"data.path=/no/such\n",
                                        "data.test=/no/such\n",
                                        "data.labels=/no/such\n",
                                        "data.augment={shift: 9}\n",
                                        "model: {layers: [conv: {filters: 3, kernel: 30}, flatten, dense: 3]}\n",
                                        "model: {layers: [flatten, dense: 2]}\n",
                                        "init: /no/such\n",
                                        "init: \"/dev/null\"\n",
                                        "batch: 100\noptimizer: {name: sgd, learning_rate: 1e30, momentum: 0}\n"};
    char *s = scratch_make(), sha256[ISO_SHA256_TEXT];
    iso_job *job = finished_run(s, sha256);
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        iso_job *bad = fixture_job(data, scratch_path(s, "run"), wrong[i]);
        iso_error e;
        iso_train_options o = {.force = true, .workers = 2};
        if (fixture_train(bad, &o, NULL, &e) == 0)
            fail_msg("was trained: %s", wrong[i]);
        if (scratch_exists(scratch_path(job->out, ".new-run"))) { /* figures of a run that blew up may be looked at */
            assert_int_equal(e.code, ISO_E_NONFINITE);
            assert_true(scratch_exists(scratch_path(job->out, ".new-run/metrics.jsonl")));
            iso_run f;
            assert_int_equal(iso_run_open(&f, job->out, ISO_RUN_RESUME, NULL, iso_alloc_default(), &e), 0);
            iso_run_close(&f);
        }
        expect_untouched(job->out, sha256);
        free(bad);
    }
    iso_error e;
    uint32_t speeds[2] = {1, 0};
    atomic_int stop = 15;
    iso_train_faults faults = {.file = all_die};
    const struct {
        iso_train_options o;
        int code;
    } options[] = {
        {{.workers = ISO_WORKERS_MAX + 1}, ISO_E_ARGUMENT},
        {{.workers = 2, .throttle = speeds, .throttle_count = 2}, ISO_E_ARGUMENT},
        {{.workers = 2, .faults = &faults}, ISO_E_IO},
        {{.workers = 2, .stop = &stop}, ISO_E_INTERRUPTED},
    };
    for (size_t i = 0; i < TEST_COUNT(options); i++) {
        iso_train_options o = options[i].o;
        o.force = true;
        assert_int_equal(fixture_train(job, &o, NULL, &e), options[i].code);
        expect_untouched(job->out, sha256);
    }
    free(job);
    scratch_remove(s);
}

/* Weights are read before anything goes: a run may begin with those of the run that it replaces, and it can be gone on with though
 * they are gone. */
static void trains_in_place(void **state)
{
    (void)state;
    static const char *const init[] = {"", "/model.safetensors", "/checkpoint-12.safetensors"};
    char *s = scratch_make(), first[ISO_SHA256_TEXT], apart[ISO_SHA256_TEXT], in_place[ISO_SHA256_TEXT];
    for (size_t i = 0; i < TEST_COUNT(init); i++) {
        iso_job *job = finished_run(s, first);
        iso_error e;
        snprintf(job->init, sizeof job->init, "%s%s", job->out, init[i]);
        snprintf(job->out, sizeof job->out, "%s/apart", s);
        fixture_hash(job, &(iso_train_options){.force = true}, apart);
        assert_string_not_equal(first, apart);
        snprintf(job->out, sizeof job->out, "%s/run", s);
        plan p = {.at = 60, .error = ENOSPC}; /* behind the first checkpoint */
        iso_train_faults faults = {.context = &p, .file = fault};
        assert_int_equal(fixture_train(job, &(iso_train_options){.force = true, .faults = &faults}, NULL, &e), ISO_E_IO);
        assert_false(scratch_exists(scratch_path(job->out, "model.safetensors")));
        fixture_hash(job, &(iso_train_options){.resume = true}, in_place);
        assert_string_equal(in_place, apart);
        assert_true(scratch_exists(scratch_path(job->out, "notes.txt")));
        assert_int_equal(iso_run_look(job->out, NULL, &e), 0);
        fixture_hash(job, &(iso_train_options){.force = true}, in_place); /* once more, over itself */
        assert_string_not_equal(in_place, apart);
        free(job);
        scratch_remove(s);
        s = scratch_make();
    }
    scratch_remove(s);
}

/* kill -9 at every step on a file while one run replaces another: then there is the earlier one, or the new one goes on and ends
 * with the bytes of an unbroken one. */
static void killed_at_every_write(void **state)
{
    (void)state;
    char *s = scratch_make(), before[ISO_SHA256_TEXT], after[ISO_SHA256_TEXT], now[ISO_SHA256_TEXT];
    iso_job *other = fixture_job(data, scratch_path(s, "other"), job_text);
    other->seed = 6;
    fixture_hash(other, NULL, after);
    int stood = 0, replaced = 0;
    for (int at = 0, done = 0; !done; at += 1 + at / 60) {
        iso_job *job = finished_run(s, before);
        snprintf(other->out, sizeof other->out, "%s/run", s);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            plan p = {.at = at, .error = -1};
            iso_train_faults faults = {.context = &p, .file = fault};
            iso_error e;
            _exit(iso_train(other, &(iso_train_options){.force = true, .faults = &faults}, NULL, &e) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 42 || WEXITSTATUS(status) == 0));
        done = WEXITSTATUS(status) == 0;
        weights_of(job->out, now);
        iso_error e;
        iso_train_options resume = {.resume = true};
        if (strcmp(now, before) == 0) {
            assert_int_equal(iso_train(job, &resume, NULL, &e), 0);
            expect_untouched(job->out, before);
            stood++;
        } else {
            fixture_hash(other, &resume, now);
            assert_string_equal(now, after);
            expect_untouched(job->out, after);
            replaced++;
        }
        free(job);
        scratch_remove(s);
        s = scratch_make();
    }
    assert_true(stood > 10 && replaced > 10);
    free(other);
    scratch_remove(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_run_replaces_the_earlier_one),
        cmocka_unit_test(the_process_may_end_at_every_step),
        cmocka_unit_test(every_step_may_fail),
        cmocka_unit_test(what_is_in_the_way_is_told_before),
        cmocka_unit_test(a_job_that_cannot_be_trained_takes_nothing),
        cmocka_unit_test(trains_in_place),
        cmocka_unit_test(killed_at_every_write),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

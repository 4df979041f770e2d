/* SPDX-License-Identifier: Apache-2.0
 * The run folder: who may use it, and that a file is the old or the new one whatever step fails or ends the process.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/run/folder.h"
#include "test.h"

static iso_run open_ok(const char *path, iso_run_mode mode)
{
    iso_run f;
    iso_error e = {0};
    int result = iso_run_open(&f, path, mode, NULL, iso_alloc_default(), &e);
    if (result)
        fail_msg("%s", e.text);
    return f;
}

static void open_fails(const char *path, iso_run_mode mode, int code, const char *word)
{
    iso_run f;
    iso_error e = {0};
    assert_int_equal(iso_run_open(&f, path, mode, NULL, iso_alloc_default(), &e), code);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, word))
        fail_msg("'%s' is not in: %s", word, e.text);
    assert_int_equal(f.fd, -1);
}

/* Parents are made; a folder made for nothing is taken away again with the parents made for it; a filled one stays, and so does
 * what was there. */
static void makes_and_takes_away(void **state)
{
    (void)state;
    char *s = scratch_make();
    static const char *const spelled[] = {"a/b/run", "a//b/run/", "run"};
    for (size_t i = 0; i < TEST_COUNT(spelled); i++) {
        const char *path = scratch_path(s, spelled[i]);
        iso_run f = open_ok(path, ISO_RUN_NEW);
        assert_true(f.made > strlen(s));
        assert_int_equal(scratch_entries(path), 0);
        iso_run_close(&f);
        iso_run_close(&f);
        assert_int_equal(scratch_entries(s), 0);
    }
    const char *path = scratch_path(s, "a/b/run");
    assert_int_equal(mkdir(scratch_path(s, "a"), 0777), 0);
    iso_run f = open_ok(path, ISO_RUN_NEW);
    iso_run_close(&f);
    assert_true(scratch_exists(scratch_path(s, "a")));
    assert_int_equal(scratch_entries(scratch_path(s, "a")), 0);

    f = open_ok(path, ISO_RUN_RESUME);
    assert_int_equal(iso_run_put(&f, "latest", "x", 1, NULL), 0);
    iso_run_close(&f);
    assert_int_equal(scratch_entries(path), 1);
    scratch_remove(s);
}

static void refuses_what_is_in_the_way(void **state)
{
    (void)state;
    char *s = scratch_make();
    scratch_write(scratch_path(s, "file"), "", 0);
    open_fails(scratch_path(s, "file"), ISO_RUN_NEW, ISO_E_BUSY, "file is a file");
    open_fails(scratch_path(s, "file/x"), ISO_RUN_NEW, ISO_E_IO, scratch_path(s, "file is a file"));
    open_fails(scratch_path(s, "file/x/y"), ISO_RUN_FORCE, ISO_E_IO, scratch_path(s, "file is a file"));
    open_fails("", ISO_RUN_NEW, ISO_E_ARGUMENT, "--out");
    open_fails("/proc/no/such", ISO_RUN_NEW, ISO_E_IO, "/proc/no");
    open_fails(s, ISO_RUN_NEW, ISO_E_BUSY, "not empty (file)");
    open_fails(s, ISO_RUN_RESUME, ISO_E_BUSY, "no run to resume");
    if (getuid() != 0) {
        char *closed = strdup(scratch_path(s, "closed"));
        assert_int_equal(mkdir(closed, 0555), 0);
        open_fails(closed, ISO_RUN_NEW, ISO_E_IO, "write-test");
        free(closed);
    }
    scratch_remove(s);
}

/* What a run writes is known from what others put there; left-over temporary files go in every mode. */
static void knows_its_own_files(void **state)
{
    (void)state;
    static const char *const own[] = {"job.yaml",
                                      "metrics.jsonl",
                                      "events.jsonl",
                                      "summary.json",
                                      "model.safetensors",
                                      "best.safetensors",
                                      "latest",
                                      "trace.json",
                                      "checkpoint-0.safetensors",
                                      "checkpoint-120.safetensors"};
    static const char *const foreign[] = {"notes.txt",
                                          "checkpoint-07.safetensors",
                                          "checkpoint-.safetensors",
                                          "checkpoint-1.safetensors.bak",
                                          ".notes.tmp",
                                          "checkpoint-99999999999999999999999.safetensors",
                                          "checkpoint--1.safetensors"};
    static const char *const swept[] = {".latest.tmp", ".checkpoint-140.safetensors.tmp", ".write-test.tmp"};
    char *s = scratch_make();
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        scratch_write(scratch_path(s, own[i]), "o", 1);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        scratch_write(scratch_path(s, foreign[i]), "f", 1);
    for (size_t i = 0; i < sizeof swept / sizeof swept[0]; i++)
        scratch_write(scratch_path(s, swept[i]), "t", 1);
    open_fails(s, ISO_RUN_NEW, ISO_E_BUSY, "--resume");
    iso_run f = open_ok(s, ISO_RUN_RESUME);
    for (size_t i = 0; i < sizeof swept / sizeof swept[0]; i++)
        assert_false(scratch_exists(scratch_path(s, swept[i])));
    assert_int_equal(scratch_entries(s), sizeof own / sizeof own[0] + sizeof foreign / sizeof foreign[0]);

    uint64_t *rounds;
    size_t count;
    assert_int_equal(iso_run_checkpoints(&f, &rounds, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_int_equal(rounds[0], 120);
    assert_int_equal(rounds[1], 0);
    iso_free(iso_alloc_default(), rounds);
    iso_run_close(&f);
    assert_int_equal(scratch_entries(s), sizeof own / sizeof own[0] + sizeof foreign / sizeof foreign[0]);
    scratch_remove(s);
}

static void only_one_run_at_a_time(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_run f = open_ok(s, ISO_RUN_NEW);
    assert_false(f.unlocked);
    open_fails(s, ISO_RUN_NEW, ISO_E_BUSY, "in use");
    open_fails(s, ISO_RUN_RESUME, ISO_E_BUSY, "in use");
    open_fails(s, ISO_RUN_FORCE, ISO_E_BUSY, "in use");
    iso_run_close(&f);
    f = open_ok(s, ISO_RUN_NEW);
    iso_run_close(&f);
    scratch_remove(s);
}

/* ---- several at once ----------------------------------------------------------------------------------- */

/* A file system without locks: an empty folder may be one that another run has just made. */
static int no_locks(void *context, iso_file_step step, const char *path)
{
    (void)context;
    (void)path;
    return step == ISO_FILE_LOCK ? ENOLCK : 0;
}

static void without_locks_only_the_maker_has_it(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_train_faults faults = {.file = no_locks};
    iso_run f, other;
    iso_error e = {0};
    const char *path = scratch_path(s, "run");
    assert_int_equal(iso_run_open(&f, path, ISO_RUN_NEW, &faults, iso_alloc_default(), &e), 0);
    assert_true(f.unlocked);
    assert_int_equal(iso_run_open(&other, path, ISO_RUN_NEW, &faults, iso_alloc_default(), &e), ISO_E_BUSY);
    test_expect_word(e.text, "no locks");
    assert_true(scratch_exists(path));
    iso_run_close(&f);
    assert_false(scratch_exists(path));
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(iso_run_open(&f, path, ISO_RUN_FORCE, &faults, iso_alloc_default(), &e), 0);
    iso_run_close(&f);
    scratch_remove(s);
}

typedef struct remover {
    const char *path;
    int left;
} remover;

static int remove_before_the_lock(void *context, iso_file_step step, const char *path)
{
    (void)path;
    remover *r = context;
    if (step == ISO_FILE_LOCK && r->left-- > 0)
        assert_int_equal(rmdir(r->path), 0);
    return 0;
}

/* Who made the folder may fail and remove it while another one waits for the lock: that one must not train into a folder that is no
 * more. */
static void a_folder_that_goes_before_the_lock_is_made_again(void **state)
{
    (void)state;
    char *s = scratch_make();
    remover r = {scratch_path(s, "run"), 3};
    iso_train_faults faults = {.context = &r, .file = remove_before_the_lock};
    iso_run f;
    iso_error e = {0};
    assert_int_equal(mkdir(r.path, 0777), 0);
    assert_int_equal(iso_run_open(&f, r.path, ISO_RUN_NEW, &faults, iso_alloc_default(), &e), 0);
    assert_int_equal(iso_run_put(&f, "latest", "x", 1, &e), 0);
    iso_run_close(&f);
    assert_int_equal(scratch_entries(r.path), 1);
    scratch_remove(s);
}

/* Twenty processes try one name until they have it, and give it back as often: nobody writes into a folder that another one has
 * removed. */
static void many_at_once_have_it_in_turn(void **state)
{
    (void)state;
    enum { JOBS = 20, TURNS = 20 };
    char *s = scratch_make();
    const char *path = scratch_path(s, "a/b/run");
    pid_t child[JOBS];
    fflush(NULL);
    for (int i = 0; i < JOBS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        for (int turn = 0; child[i] == 0;) {
            iso_run f;
            iso_error e = {0};
            int result = iso_run_open(&f, path, ISO_RUN_NEW, NULL, iso_alloc_default(), &e);
            if (result && result != ISO_E_BUSY)
                _exit(1);
            if (result)
                continue;
            bool good = iso_run_put(&f, "latest", "x", 1, &e) == 0 && iso_run_remove(&f, "latest", &e) == 0;
            iso_run_close(&f);
            if (!good || ++turn == TURNS)
                _exit(good ? 0 : 2);
        }
    }
    for (int i = 0; i < JOBS; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    scratch_remove(s);
}

/* ---- faults -------------------------------------------------------------------------------------------- */

typedef struct plan {
    int at, count, error; /* the at-th step fails with error; -1: the process ends there */
    int seen[ISO_FILE_LOCK + 1];
} plan;

static int fault(void *context, iso_file_step step, const char *path)
{
    (void)path;
    plan *p = context;
    p->seen[step]++;
    if (p->count++ != p->at)
        return 0;
    if (p->error < 0)
        _exit(42);
    return p->error;
}

static int put_in_pieces(iso_run *f, const char *text, iso_error *e)
{
    iso_replace r;
    int result = iso_replace_begin(&r, f, "latest", e);
    for (; result == 0 && *text; text++)
        result = iso_replace_write(&r, text, 1, e);
    if (result == 0)
        result = iso_replace_commit(&r, e);
    else
        iso_replace_abort(&r);
    return result;
}

/* Every step of a replacement fails once with a full disk: an error that names the file, the old bytes stay unless
 * the rename was done, and no temporary file is left. */
static void every_step_may_fail(void **state)
{
    (void)state;
    char *s = scratch_make();
    int steps = 0;
    for (int at = 0;; at++) {
        plan p = {.at = at, .error = ENOSPC};
        iso_train_faults faults = {.context = &p, .file = fault};
        scratch_write(scratch_path(s, "latest"), "old", 3);
        iso_run f = open_ok(s, ISO_RUN_RESUME);
        f.faults = &faults;
        iso_error e = {0};
        int result = put_in_pieces(&f, "newer", &e);
        f.faults = NULL;
        iso_run_close(&f);
        assert_int_equal(scratch_entries(s), 1);
        char *now = scratch_read(scratch_path(s, "latest"), NULL);
        if (result == 0) {
            assert_string_equal(now, "newer");
            for (int i = ISO_FILE_OPEN; i <= ISO_FILE_SYNC_FOLDER; i++)
                assert_true(p.seen[i] > 0);
            free(now);
            break;
        }
        assert_int_equal(result, ISO_E_IO);
        assert_non_null(strstr(e.text, scratch_path(s, "latest")));
        assert_non_null(strstr(e.text, "free space"));
        assert_string_equal(now, p.seen[ISO_FILE_SYNC_FOLDER] ? "newer" : "old");
        free(now);
        steps++;
    }
    assert_int_equal(steps, 10); /* open, five writes, sync, close, rename, folder */
    scratch_remove(s);
}

/* The process ends at every step: the next one finds the old or the new bytes and sweeps the rest. */
static void the_process_may_end_at_every_step(void **state)
{
    (void)state;
    char *s = scratch_make();
    int ended = 0;
    for (int at = 0;; at++) {
        scratch_write(scratch_path(s, "latest"), "old", 3);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            plan p = {.at = at, .error = -1};
            iso_train_faults faults = {.context = &p, .file = fault};
            iso_run f;
            if (iso_run_open(&f, s, ISO_RUN_RESUME, NULL, iso_alloc_default(), NULL))
                _exit(1);
            f.faults = &faults;
            _exit(put_in_pieces(&f, "newer", NULL) ? 2 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        int code = WEXITSTATUS(status);
        assert_true(code == 42 || code == 0);
        char *now = scratch_read(scratch_path(s, "latest"), NULL);
        assert_true(strcmp(now, "old") == 0 || strcmp(now, "newer") == 0);
        assert_true(code != 0 || strcmp(now, "newer") == 0);
        free(now);
        iso_run f = open_ok(s, ISO_RUN_RESUME);
        assert_int_equal(scratch_entries(s), 1);
        iso_run_close(&f);
        if (code == 0)
            break;
        ended++;
    }
    assert_int_equal(ended, 10);
    scratch_remove(s);
}

static void a_failed_trial_write_is_told_before_training(void **state)
{
    (void)state;
    char *s = scratch_make();
    for (int at = 1; at < 3; at++) { /* the lock is the first step */
        plan p = {.at = at, .error = EROFS};
        iso_train_faults faults = {.context = &p, .file = fault};
        iso_run f;
        iso_error e = {0};
        const char *path = scratch_path(s, "run");
        assert_int_equal(iso_run_open(&f, path, ISO_RUN_NEW, &faults, iso_alloc_default(), &e), ISO_E_IO);
        assert_non_null(strstr(e.text, "run/write-test"));
        assert_false(scratch_exists(path));
    }
    scratch_remove(s);
}

/* ---- journals and reading ------------------------------------------------------------------------------ */

static void journals_append_and_cut(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_run f = open_ok(s, ISO_RUN_NEW);
    iso_journal j;
    assert_int_equal(iso_journal_open(&j, &f, "metrics.jsonl", 0, NULL), 0);
    assert_int_equal(iso_journal_append(&j, "one\ntwo\nth", 10, NULL), 0);
    assert_int_equal(iso_journal_sync(&j, NULL), 0);
    assert_int_equal(iso_journal_close(&j, NULL), 0);
    assert_int_equal(iso_journal_close(&j, NULL), 0);
    assert_int_equal(iso_journal_open(&j, &f, "metrics.jsonl", 4, NULL), 0);
    assert_int_equal(iso_journal_append(&j, "2\n", 2, NULL), 0);
    plan p = {.at = 0, .error = ENOSPC};
    iso_train_faults faults = {.context = &p, .file = fault};
    f.faults = &faults;
    iso_error e = {0};
    assert_int_equal(iso_journal_append(&j, "3\n", 2, &e), ISO_E_IO);
    assert_non_null(strstr(e.text, "metrics.jsonl"));
    p.at = p.count;
    assert_int_equal(iso_journal_close(&j, &e), ISO_E_IO);
    f.faults = NULL;
    unsigned char *bytes;
    size_t size;
    assert_int_equal(iso_run_read(&f, "metrics.jsonl", 100, &bytes, &size, NULL), 0);
    assert_int_equal(size, 6);
    assert_string_equal((char *)bytes, "one\n2\n");
    iso_free(f.alloc, bytes);
    assert_int_equal(iso_run_read(&f, "metrics.jsonl", 5, &bytes, &size, &e), ISO_E_FORMAT);
    assert_null(bytes);
    assert_int_equal(iso_run_read(&f, "absent", 5, &bytes, &size, &e), ISO_E_IO);
    assert_non_null(strstr(e.text, "absent"));
    assert_int_equal(mkdir(scratch_path(s, "sub"), 0777), 0);
    assert_int_equal(iso_run_read(&f, "sub", 5, &bytes, &size, &e), ISO_E_FORMAT);
    iso_run_close(&f);
    scratch_remove(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_and_takes_away),
        cmocka_unit_test(refuses_what_is_in_the_way),
        cmocka_unit_test(knows_its_own_files),
        cmocka_unit_test(only_one_run_at_a_time),
        cmocka_unit_test(without_locks_only_the_maker_has_it),
        cmocka_unit_test(a_folder_that_goes_before_the_lock_is_made_again),
        cmocka_unit_test(many_at_once_have_it_in_turn),
        cmocka_unit_test(every_step_may_fail),
        cmocka_unit_test(the_process_may_end_at_every_step),
        cmocka_unit_test(a_failed_trial_write_is_told_before_training),
        cmocka_unit_test(journals_append_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

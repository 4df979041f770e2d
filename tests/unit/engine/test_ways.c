/* SPDX-License-Identifier: Apache-2.0
 * Workers with weights of their own in the local engine: local steps, encoded gradients, answers applied as they come. Every
 * sample counts exactly once, whoever dies or is stopped; a lone worker is serial SGD, bit for bit. */
#include "engine/run/audit.h"
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

static const char *const policies[] = {
    "lb-bsp, payload: int8, batch: 96", "local-sgd, period: 3",        "local-sgd, payload: int4, local_batch: 4, period: 10",
    "post-local, period: 4",            "adacomm, period: 4",          "fda, theta: 0.0001",
    "fda, theta: 1000, h_max: 5",       "diloco, period: 5",           "hmdspt, h_min: 1, h_max: 8",
    "hmdspt, payload: fp32",            "mixbp, period: 40",           "mixbp, local_batch: 4, period: 64",
    "asp",                              "asp, payload: int8",          "ssp",
    "ssp, staleness: 0",                "local-sgd, local_batch: 48, period: 1",
};

/* Lines of a job with this policy. */
static void job_text(char out[512], const char *policy, const char *more)
{
    snprintf(out, 512, "epochs: 2\nbatch: 96\nsync: {policy: %s}\n%s", policy, more);
}

static void expect_in_order(const char *policy, const char *folder, uint32_t epochs)
{
    iso_audit a = {0};
    iso_error e;
    if (iso_audit_run(folder, NULL, &a, &e))
        fail_msg("%s: %s", policy, e.text);
    if (a.faults || a.whole != epochs || !a.finished)
        fail_msg("%s: %u of %u epochs are whole; %s", policy, a.whole, epochs, a.fault_count ? a.fault[0] : "");
    iso_audit_clear(&a, NULL);
}

/* Trains to the end in a folder of its own and holds its log against the data. */
static void train(const char *policy, const char *more, const iso_train_options *o, char hash[ISO_SHA256_TEXT])
{
    char text[512], *s = scratch_make();
    job_text(text, policy, more);
    iso_job *job = fixture_job(data, scratch_path(s, "run"), text);
    fixture_hash(job, o, hash);
    expect_in_order(policy, job->out, 2);
    free(job);
    scratch_remove(s);
}

static void each_sample_counts_once(void **state)
{
    (void)state;
    char hash[ISO_SHA256_TEXT];
    for (size_t i = 0; i < TEST_COUNT(policies); i++)
        for (uint32_t workers = 1; workers <= 3; workers++)
            train(policies[i], "", &(iso_train_options){.workers = workers}, hash);
    const uint32_t speeds[] = {4, 1};
    iso_train_options o = {.workers = 2, .throttle = speeds, .throttle_count = 2, .calibrate = true};
    train("hmdspt, h_min: 1, h_max: 8", "", &o, hash);
    train("ssp", "data.augment={shift: 1, flip: true}\ndata.validation=0.2\n", &o, hash);
}

static void alone_it_is_serial(void **state)
{
    (void)state;
    static const char more[] = "optimizer: {name: sgd, learning_rate: 0.005, momentum: 0.9, weight_decay: 0.001}\n"
                               "schedule: {name: cosine, warmup_epochs: 1}\nunit: 16\n";
    static const struct {
        uint32_t batch;
        const char *policy;
    } cases[] = {{16, "local-sgd, period: 3"}, {16, "hmdspt, h_min: 1, h_max: 8"}, {16, "fda"},
                 {16, "adacomm"},              {4, "mixbp, local_batch: 4"},       {1, "mixbp, payload: int4"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char text[1024], serial[ISO_SHA256_TEXT], own[ISO_SHA256_TEXT], *s = scratch_make();
        snprintf(text, sizeof text, "epochs: 2\nbatch: %u\n%s", cases[i].batch, more);
        iso_job *job = fixture_job(data, scratch_path(s, "run"), text);
        fixture_hash(job, &(iso_train_options){.workers = 1}, serial);
        free(job);
        scratch_remove(s);
        train(cases[i].policy, more, &(iso_train_options){.workers = 1}, own);
        if (strcmp(serial, own) != 0)
            fail_msg("%s: weights %.12s, serial SGD gives %.12s", cases[i].policy, own, serial);
    }
}

/* ---- trouble ------------------------------------------------------------------------------------------- */

typedef struct trouble {
    uint64_t order;
    iso_fault_kind kind;
    atomic_int met;
} trouble;

/* The others wait for the trouble: on a busy machine they might do all the work before. */
static iso_fault trouble_of_one(void *context, uint32_t worker, uint64_t order)
{
    trouble *t = context;
    if (worker != 1)
        return (iso_fault){.kind = atomic_load(&t->met) ? ISO_FAULT_NONE : ISO_FAULT_STALL, .milliseconds = 5};
    if (order != t->order)
        return (iso_fault){.kind = ISO_FAULT_NONE};
    atomic_fetch_add(&t->met, 1);
    return (iso_fault){.kind = t->kind, .milliseconds = 1500};
}

static void the_dead_lose_nothing(void **state)
{
    (void)state;
    static const char *const some[] = {"local-sgd, period: 1", "hmdspt, h_min: 1, h_max: 2", "lb-bsp, payload: int8", "asp",
                                       "ssp, staleness: 1"};
    for (size_t i = 0; i < TEST_COUNT(some); i++) {
        trouble t = {.order = 4 + i % 3, .kind = i % 2 ? ISO_FAULT_STALL : ISO_FAULT_DIE};
        iso_train_faults faults = {.context = &t, .worker = trouble_of_one};
        char hash[ISO_SHA256_TEXT];
        train(some[i], "", &(iso_train_options){.workers = 3, .faults = &faults}, hash);
        assert_int_equal(atomic_load(&t.met), 1);
    }
}

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

/* Stopped twice and gone on with, by another number of workers when that makes no difference to the question. */
static void resume(const char *policy, const char *more, uint32_t workers, uint32_t then, char hash[ISO_SHA256_TEXT])
{
    char text[512], *s = scratch_make();
    job_text(text, policy, more);
    iso_job *job = fixture_job(data, scratch_path(s, "run"), text);
    for (uint32_t i = 0; i < 2; i++) {
        stopper stop = {.last = 3};
        iso_train_faults faults = {.context = &stop, .worker = stop_then};
        iso_train_options o = {.workers = workers, .resume = i > 0, .stop = &stop.stop, .faults = &faults};
        iso_error e;
        if (fixture_train(job, &o, NULL, &e) != ISO_E_INTERRUPTED)
            fail_msg("%s: not stopped: %s", policy, e.text);
    }
    fixture_hash(job, &(iso_train_options){.workers = then, .resume = true}, hash);
    expect_in_order(policy, job->out, 2);
    free(job);
    scratch_remove(s);
}

static void a_stop_loses_nothing(void **state)
{
    (void)state;
    static const char *const some[] = {"local-sgd, period: 1", "hmdspt, h_min: 1, h_max: 2", "lb-bsp, payload: int8", "asp",
                                       "diloco, period: 2"};
    char whole[ISO_SHA256_TEXT], pieces[ISO_SHA256_TEXT];
    for (size_t i = 0; i < TEST_COUNT(some); i++)
        resume(some[i], "", 2, 3, pieces);
    /* What the coordinator has is all there is: the optimiser's state with gradients, none at all with plain local steps. */
    static const char plain[] = "optimizer: {name: sgd, learning_rate: 0.05, momentum: 0}\n", adam[] = "optimizer: {name: adam}\n";
    const char *const exact[][2] = {{"local-sgd, period: 1", plain}, {"asp, payload: exact", adam}};
    for (size_t i = 0; i < TEST_COUNT(exact); i++) {
        train(exact[i][0], exact[i][1], &(iso_train_options){.workers = 1}, whole);
        resume(exact[i][0], exact[i][1], 1, 1, pieces);
        if (strcmp(whole, pieces) != 0)
            fail_msg("%s: weights %.12s after stops, %.12s without", exact[i][0], pieces, whole);
    }
}

/* ---- fewer and more cores ------------------------------------------------------------------------------ */

typedef struct tide {
    uint64_t seed;
    uint32_t before;
    atomic_uint changes;
} tide;

static uint32_t cores_of_tide(void *context)
{
    tide *t = context;
    uint32_t now = 1 + (uint32_t)test_random_below(&t->seed, 4);
    atomic_fetch_add(&t->changes, now != t->before);
    t->before = now;
    return now;
}

/* So slow that the cores change many times in a run. */
static iso_fault slow(void *context, uint32_t worker, uint64_t order)
{
    (void)context;
    (void)worker;
    (void)order;
    return (iso_fault){.kind = ISO_FAULT_STALL, .milliseconds = 2};
}

/* Workers are sent away and called back at every round's beginning: nothing is lost, and exact sums do not notice. */
static void workers_come_and_go(void **state)
{
    (void)state;
    static const char *const some[] = {"nns", "bsp", "local-sgd, period: 1", "hmdspt, h_min: 1, h_max: 2", "lb-bsp, payload: int8",
                                       "asp", "ssp, staleness: 1"};
    char still[ISO_SHA256_TEXT], moved[ISO_SHA256_TEXT];
    train("nns", "unit: 16\n", &(iso_train_options){.workers = 1}, still);
    for (size_t i = 0; i < TEST_COUNT(some); i++) {
        tide t = {.seed = 77 + i};
        iso_train_faults faults = {.context = &t, .worker = slow, .cores = cores_of_tide};
        train(some[i], "unit: 16\n", &(iso_train_options){.workers = 4, .faults = &faults}, moved);
        if (atomic_load(&t.changes) < 5)
            fail_msg("%s: the cores changed %u times, seed %llu", some[i], atomic_load(&t.changes), 77ull + i);
        if (i < 2 && strcmp(still, moved) != 0)
            fail_msg("%s: weights %.12s with workers that come and go, %.12s with one", some[i], moved, still);
    }
}

static void what_does_not_fit_is_told(void **state)
{
    (void)state;
    char *s = scratch_make();
    iso_error e;
    iso_job *job = fixture_job(data, scratch_path(s, "run"), "sync: {policy: local-sgd, local_batch: 5}\n");
    assert_int_equal(fixture_train(job, &(iso_train_options){.workers = 1}, NULL, &e), ISO_E_ARGUMENT);
    test_expect_word(e.text, "local_batch");
    free(job);
    scratch_remove(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_counts_once), cmocka_unit_test(alone_it_is_serial),
        cmocka_unit_test(the_dead_lose_nothing),   cmocka_unit_test(a_stop_loses_nothing),
        cmocka_unit_test(workers_come_and_go),     cmocka_unit_test(what_does_not_fit_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

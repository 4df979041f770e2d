/* SPDX-License-Identifier: Apache-2.0
 * isochron simulate: a job on a cluster that is not there. Exit status beside the usual ones: 10 a checker found a wrong
 * result, 11 the run does not get on any more. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/summary.h"
#include "engine/file/file.h"
#include "isochron/core.h"
#include "isochron/simulate.h"

enum { STATUS_WRONG = 10, STATUS_STUCK = 11 };

static const cli_option options[] = {
    CLI_JOB_OPTIONS,
    {"cluster", "FILE", NULL, "the machines and links to simulate; required"},
    {"fault-seed", "N", NULL, "draw losses, crashes and pauses from this seed, for a while"},
    {"fault-seeds", "A..B", NULL, "one run a seed, each with its faults; the first that fails ends it"},
    {"cost-model", NULL, NULL, "no arithmetic: time and frames alone, for thousands of machines"},
    {"canary", "FAULT", NULL, "plant double-count, bit-flip or lost-wakeup, which must be found"},
    {"trace", NULL, NULL, "write trace.json, the timeline of all machines, for Perfetto or chrome://tracing"},
    {"resume", NULL, NULL, "go on with the run in the run folder, from its newest checkpoint"},
    {"force", NULL, NULL, "replace an earlier run in the run folder"},
    CLI_ISA_OPTION,
    {"quiet", NULL, NULL, "no progress, no summary; warnings and errors alone"},
    {"json", NULL, NULL, "JSON lines on standard output: begin, progress, epoch, summary"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

typedef struct request {
    const cli_arguments *a;
    iso_job job;
    iso_cluster cluster;
    iso_train_options train;
    iso_simulate_options simulate;
    bool quiet, json, many;
    unsigned number;      /* of the run folder to try next; 0: it has its name */
    uint64_t first, last; /* fault seeds */
    char weights[ISO_SHA256_TEXT]; /* of the last run */
} request;

/* ---- reading ------------------------------------------------------------------------------------------- */

static int read_cluster(request *q)
{
    const char *path = cli_given(q->a, "cluster");
    iso_error e = {0};
    iso_bytes bytes = {0};
    if (!path) {
        cli_error("simulate wants --cluster FILE; examples/clusters has some");
        return 2;
    }
    int r = iso_file_read(path, (size_t)ISO_JOB_BYTES_MAX + 1, NULL, &bytes, &e);
    if (r == ISO_OK)
        r = iso_cluster_parse(&q->cluster, path, bytes.bytes ? (const char *)bytes.bytes : "", bytes.size, NULL, &e);
    iso_bytes_release(&bytes);
    return r == ISO_E_IO || r == ISO_E_FORMAT ? cli_failed(ISO_E_ARGUMENT, &e) : cli_failed(r, &e);
}

static bool is_seed(const char *text, size_t length, uint64_t *out)
{
    return iso_parse_u64(text, length, 0, UINT64_MAX, out) == ISO_PARSE_OK;
}

static int read_seeds(request *q)
{
    const char *one = cli_given(q->a, "fault-seed"), *many = cli_given(q->a, "fault-seeds");
    const char *dots = many ? strstr(many, "..") : NULL;
    if (one && many) {
        cli_error("--fault-seed and --fault-seeds exclude each other");
        return 2;
    }
    if (one && !is_seed(one, strlen(one), &q->first)) {
        cli_error("--fault-seed wants a whole number from 0 on, found '%s'", one);
        return 2;
    }
    if (many && (!dots || !is_seed(many, (size_t)(dots - many), &q->first) || !is_seed(dots + 2, strlen(dots + 2), &q->last) ||
                 q->last < q->first)) {
        cli_error("--fault-seeds wants two whole numbers, the first not above the second, 1..200, found '%s'", many);
        return 2;
    }
    q->many = many;
    q->simulate.draw_faults = one || many;
    q->simulate.fault_seed = q->first;
    return 0;
}

static int read_canary(request *q)
{
    static const char *const words[] = {"double-count", "bit-flip", "lost-wakeup"};
    const char *word = cli_given(q->a, "canary");
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) {
            q->simulate.canary = (iso_canary)(i + 1);
            return 0;
        }
    if (!word)
        return 0;
    const char *near = iso_nearest_word(word, words, sizeof words / sizeof *words);
    cli_error("--canary: unknown word '%s'; %s%s%sthere are double-count, bit-flip, lost-wakeup", word, near ? "did you mean '" : "",
              near ? near : "", near ? "'? " : "");
    return 2;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static int status_of(int code, const iso_error *e, const char *out, bool quiet)
{
    int number = atomic_load(&cli_stop);
    if (code == ISO_E_INTERRUPTED && number) {
        if (!quiet)
            fprintf(stderr, "stopped by signal %d; the run folder is %s\n", number, out);
        return 128 + number;
    }
    int status = cli_failed(code, e);
    return code == ISO_E_WRONG ? STATUS_WRONG : code == ISO_E_STUCK ? STATUS_STUCK : status;
}

static int run_one(request *q, bool quiet, bool tells)
{
    cli_progress progress;
    iso_summary summary;
    iso_error e = {0};
    cli_progress_init(&progress, quiet, q->json && tells);
    q->train.observer = &progress.observer;
    q->train.progress_per_second = cli_progress_rate(&progress);
    int code;
    do {
        if (q->number)
            cli_number_out(&q->job, q->number++);
        code = iso_simulate(&q->job, &q->train, &q->simulate, &summary, &e);
    } while (code == ISO_E_BUSY && q->number && q->number < CLI_NUMBERS);
    q->number = 0;
    if (!code && q->json && tells) {
        cli_summary_json(&progress.json, NULL, &summary, q->job.out);
        cli_json_flush(&progress.json);
    }
    cli_progress_end(&progress);
    if (code)
        return status_of(code, &e, q->job.out, quiet);
    snprintf(q->weights, sizeof q->weights, "%s", summary.weights_sha256);
    if (tells && !quiet && !q->json)
        cli_summary_print(&summary, q->job.out);
    iso_summary_clear(&summary, NULL);
    return 0;
}

/* Exact sums give the same weights whatever happens. */
static bool is_exact(const request *q)
{
    iso_policy_spec spec;
    iso_plan plan;
    iso_policy_spec_default(&spec, iso_policy_find(q->job.policy));
    if (iso_policy_spec_parse(&spec, q->job.parameters, NULL))
        return false;
    iso_policy_plan(&spec, q->job.batch, q->job.batch, &plan);
    return plan.way == ISO_PLAN_SUM;
}

/* Each seed in the same folder, so that the one that fails is there to be looked at. */
static int run_many(request *q)
{
    uint64_t done = 0;
    char right[ISO_SHA256_TEXT] = "";
    bool exact = is_exact(q);
    for (uint64_t seed = q->first;; seed++) {
        q->simulate.fault_seed = seed;
        int status = run_one(q, true, false);
        q->train.force = true;
        if (!status && exact && done && strcmp(right, q->weights) != 0) {
            cli_error("the weights of fault seed %" PRIu64 " are not those of %" PRIu64, seed, q->first);
            status = STATUS_WRONG;
        }
        memcpy(right, q->weights, sizeof right);
        if (status) {
            cli_error("fault seed %" PRIu64 " failed; again: --fault-seed %" PRIu64 " --seed %" PRIu64, seed, seed, q->job.seed);
            return status;
        }
        done++;
        if (!q->quiet)
            fprintf(stderr, "fault seed %" PRIu64 ": right\n", seed);
        if (seed == q->last)
            break;
    }
    printf("%" PRIu64 " fault seeds, all right\n", done);
    return 0;
}

static int run(const cli_arguments *a)
{
    static request q;
    const char *sync = cli_given(a, "sync");
    q.a = a;
    q.quiet = cli_given(a, "quiet");
    q.json = cli_given(a, "json");
    iso_train_options_default(&q.train);
    if (sync && !strcmp(sync, "help")) {
        cli_print_policies();
        return 0;
    }
    q.train.resume = cli_given(a, "resume");
    q.train.force = cli_given(a, "force");
    q.simulate.cost_model = cli_given(a, "cost-model");
    q.simulate.trace = cli_given(a, "trace");
    q.simulate.cluster = &q.cluster;
    q.train.stop = &cli_stop;
    if (q.train.resume && q.train.force) {
        cli_error("--resume and --force exclude each other");
        return 2;
    }
    int status = read_seeds(&q);
    if (!status)
        status = read_canary(&q);
    if (!status)
        status = cli_isa_read(a, &q.train.isa);
    if (!status)
        status = read_cluster(&q);
    if (!status)
        status = cli_job_read(a, a->word_count ? a->word[0] : NULL, &q.job);
    if (!status) {
        q.number = q.job.out[0] ? 0 : 1;
        q.train.force = q.train.force && !q.number; /* a number of its own replaces nothing */
        cli_signals_catch();
        status = q.many ? run_many(&q) : run_one(&q, q.quiet, true);
    }
    iso_cluster_clear(&q.cluster);
    return status;
}

const cli_command cli_simulate = {
    .name = "simulate",
    .words = "[JOB.yaml]",
    .summary = "train on a cluster that is not there, in virtual time",
    .help = "The run folder is that of `train`; all times in it are virtual. Equal seeds give equal runs.\n"
            "Exit status 10: a checker found a wrong result; 11: the run does not get on any more.\n"
            "  isochron simulate examples/lenet5-fashion.yaml --cluster examples/clusters/uneven4.yaml --sync hmdspt\n"
            "  isochron simulate examples/lenet5-fashion.yaml --cluster examples/clusters/flaky.yaml --fault-seeds 1..200 --out runs/swarm",
    .options = options,
    .most = 1,
    .run = run,
};

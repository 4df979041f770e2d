/* SPDX-License-Identifier: Apache-2.0
 * isochron compare: one job on one simulated cluster with several ways to synchronise, side by side. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/compare_run.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "engine/file/file.h"
#include "engine/run/folder.h"
#include "isochron/core.h"
#include "isochron/train.h"

#define POLICIES_MAX 64u
#define SEEDS_MAX 1000u
#define FOLDER_MAX (ISO_PATH_MAX + CLI_SYNC_MAX + 64u)

static const cli_option options[] = {
    {"cluster", "FILE", NULL, "the machines and links to simulate"},
    {"sync", "A,B,...", NULL, "the policies, for example bsp,lb-bsp:payload=int8:batch=256,hmdspt"},
    {"seeds", "N", NULL, "runs of each policy, with the job's seed and those behind it [1]"},
    {"accuracy", "A,B,...", NULL, "accuracies whose times are told [0.97,0.98]"},
    {"jobs", "N", NULL, "simulations at once [one a core]"},
    {"out", "FOLDER", NULL, "keep the run folders in it, and compare.json; it must be absent or empty"},
    {"from", "FOLDER", NULL, "run nothing: compare the runs that are in the folder"},
    {"plot", "FILE", NULL, "draw accuracy over time into FILE.svg or FILE.png"},
    {"time", "AXIS", NULL, "linear or log: the plot's time axis [log when the runs differ much]"},
    {"data", "PATH", "data.path", "a data file, or a folder that holds train and test"},
    {"model", "NAME", "model", "a ready network by name"},
    {"epochs", "N", "epochs", "times through the training set"},
    {"batch", "N", "batch", "samples in an update, over all nodes; a policy may say its own: bsp:batch=256"},
    {"unit", "N", "unit", "samples in a computing unit"},
    {"seed", "N", "seed", "of every random number; the first of the seeds"},
    {"init", "MODEL", "init", "start from the weights of a model file or run folder"},
    {"set", "KEY=VALUE", NULL, "any key of the job file"},
    {"fault-seed", "N", NULL, "of the cluster's noise and faults, as for simulate"},
    {"csv", NULL, NULL, "CSV on standard output, a row a run"},
    {"json", NULL, NULL, "JSON on standard output, a list of runs"},
    {"quiet", NULL, NULL, "no progress; warnings and errors alone"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

/* A policy as it was asked for. */
typedef struct entry {
    char sync[CLI_SYNC_MAX]; /* as given */
    char file[FOLDER_MAX];   /* its job file */
} entry;

/* A run to make. */
typedef struct order {
    char folder[FOLDER_MAX], seed[24], name[CLI_SYNC_MAX + 32];
    const entry *policy;
} order;

typedef struct plan {
    const cli_arguments *arguments;
    cli_comparison comparison;
    iso_job job;
    entry entry[POLICIES_MAX];
    unsigned entries;
    uint64_t seeds;
    unsigned jobs;
    char folder[ISO_PATH_MAX];
    order *order; /* [comparison.count], in the order of its results */
    cli_task *task;
    bool quiet;
} plan;

/* ---- arguments ----------------------------------------------------------------------------------------- */

static int number(const cli_arguments *a, const char *name, uint64_t max, uint64_t standard, uint64_t *out)
{
    const char *text = cli_given(a, name);
    *out = standard;
    if (!text || iso_parse_u64(text, strlen(text), 1, max, out) == ISO_PARSE_OK)
        return 0;
    cli_error("--%s wants a whole number from 1 to %llu, found '%s'", name, (unsigned long long)max, text);
    return 2;
}

static int read_axis(const cli_arguments *a, cli_axis *axis)
{
    const char *text = cli_given(a, "time");
    *axis = CLI_AXIS_AUTO;
    if (!text)
        return 0;
    if (strcmp(text, "linear") && strcmp(text, "log")) {
        cli_error("--time: unknown word '%s'; there are linear, log", text);
        return 2;
    }
    *axis = !strcmp(text, "log") ? CLI_AXIS_LOG : CLI_AXIS_LINEAR;
    return 0;
}

static bool has_parameter(const iso_policy *p, const char *name)
{
    uint32_t count = 0;
    const iso_option *o = p ? iso_policy_parameters(p, &count) : NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(o[i].name, name))
            return true;
    return false;
}

/* "bsp:batch=256": takes batch=... out of the text when it is no parameter of the policy, for it is the job's key then.
 */
static void take_batch(const char *sync, char policy[CLI_SYNC_MAX], char batch[32])
{
    char name[ISO_WORD_MAX];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(sync, ":"), sync);
    snprintf(policy, CLI_SYNC_MAX, "%s", sync);
    batch[0] = 0;
    char *at = strstr(policy, ":batch=");
    if (!at || has_parameter(iso_policy_find(name), "batch"))
        return;
    size_t length = 1 + strcspn(at + 1, ":");
    snprintf(batch, 32, "%.*s", (int)(length - 7), at + 7);
    memmove(at, at + length, strlen(at + length) + 1);
}

/* The job of one policy over the job of all. */
static int job_of(const iso_job *all, const char *sync, iso_job *out)
{
    char policy[CLI_SYNC_MAX], batch[32];
    iso_error e = {0};
    take_batch(sync, policy, batch);
    *out = *all;
    int r = iso_job_set_text(out, "--sync", "sync", policy, &e);
    if (!r && batch[0])
        r = iso_job_set_text(out, "--sync", "batch", batch, &e);
    if (!r)
        r = iso_job_finish(out, &e);
    return r ? cli_failed(r, &e) : 0;
}

/* bsp,hmdspt:payload=int4 */
static int read_policies(plan *p, const char *text)
{
    static iso_job job;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (p->entries == POLICIES_MAX || !length || length >= CLI_SYNC_MAX) {
            cli_error("--sync wants 1 to %u policies with commas between, found '%s'", POLICIES_MAX, text);
            return 2;
        }
        entry *one = &p->entry[p->entries++];
        snprintf(one->sync, sizeof one->sync, "%.*s", (int)length, at);
        for (unsigned i = 0; i + 1 < p->entries; i++)
            if (!strcmp(p->entry[i].sync, one->sync)) {
                cli_error("--sync: '%s' is there twice", one->sync);
                return 2;
            }
        int status = job_of(&p->job, one->sync, &job);
        if (status)
            return status;
        at += length;
        if (!*at)
            return 0;
    }
}

/* ---- folders ------------------------------------------------------------------------------------------- */

/* Characters of a file name. */
static void slug(char *out, size_t room, const char *text)
{
    size_t n = 0;
    for (; *text && n + 1 < room; text++)
        out[n++] = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._", *text) ? *text : '-';
    out[n] = 0;
}

/* The folder of all runs: the user's, or a scratch folder. */
static int make_folder(plan *p)
{
    const char *out = cli_given(p->arguments, "out"), *scratch = getenv("TMPDIR");
    iso_listing l;
    iso_error e = {0};
    if (!out) {
        snprintf(p->folder, sizeof p->folder, "%s/isochron-XXXXXX", scratch && scratch[0] ? scratch : P_tmpdir);
        if (mkdtemp(p->folder))
            return 0;
        cli_error("%s: no scratch folder can be made there: %s; give --out FOLDER", p->folder, strerror(errno));
        return 1;
    }
    snprintf(p->folder, sizeof p->folder, "%s", out);
    if (!mkdir(out, 0777))
        return 0;
    if (errno != EEXIST) {
        cli_error("%s: the folder cannot be made: %s", out, strerror(errno));
        return 1;
    }
    int r = iso_folder_list(out, NULL, &l, &e);
    if (r)
        return cli_failed(r, &e);
    bool empty = !l.count;
    iso_listing_free(&l);
    if (!empty)
        cli_error("%s is not empty: give another --out; --from compares the runs that are in a folder", out);
    return empty ? 0 : 1;
}

static int write_text(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "w");
    bool good = f && fwrite(text, 1, size, f) == size;
    int why = errno;
    if (f && fclose(f) && good) {
        good = false;
        why = errno;
    }
    if (!good)
        cli_error("%s: cannot be written: %s", path, strerror(why));
    return good ? 0 : 1;
}

/* FOLDER/02-hmdspt-payload-int4.yaml */
static int write_job(plan *p, unsigned index)
{
    static iso_job job;
    entry *one = &p->entry[index];
    char name[CLI_SYNC_MAX];
    slug(name, sizeof name, one->sync);
    snprintf(one->file, sizeof one->file, "%s/%02u-%s.yaml", p->folder, index + 1, name);
    int status = job_of(&p->job, one->sync, &job);
    if (status)
        return status;
    size_t size = iso_job_write(&job, NULL, 0);
    char *text = malloc(size + 1);
    if (!text) {
        cli_error("out of memory");
        return 1;
    }
    iso_job_write(&job, text, size + 1);
    status = write_text(one->file, text, size);
    free(text);
    return status;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static void make_task(plan *p, size_t index)
{
    order *o = &p->order[index];
    cli_task *t = &p->task[index];
    const char *fault_seed = cli_given(p->arguments, "fault-seed");
    size_t stem = strlen(o->policy->file) - strlen(".yaml");
    uint64_t seed = p->job.seed + index % p->seeds;
    snprintf(o->seed, sizeof o->seed, "%llu", (unsigned long long)seed);
    snprintf(o->folder, sizeof o->folder, "%.*s-seed%s", (int)stem, o->policy->file, o->seed);
    snprintf(o->name, sizeof o->name, "%s, seed %s", o->policy->sync, o->seed);
    unsigned n = 0;
    const char *words[] = {"simulate", o->policy->file, "--cluster", cli_given(p->arguments, "cluster"),
                           "--seed",   o->seed,         "--out",     o->folder,
                           "--json"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        t->argument[n++] = words[i];
    if (fault_seed) {
        t->argument[n++] = "--fault-seed";
        t->argument[n++] = fault_seed;
    }
    t->name = o->name;
}

static int make_tasks(plan *p)
{
    size_t count = p->entries * p->seeds;
    p->order = calloc(count, sizeof *p->order);
    p->task = calloc(count, sizeof *p->task);
    p->comparison.result = calloc(count, sizeof *p->comparison.result);
    if (!p->order || !p->task || !p->comparison.result) {
        cli_error("no memory for %zu runs", count);
        return 1;
    }
    p->comparison.count = count;
    for (size_t i = 0; i < count; i++) {
        p->order[i].policy = &p->entry[i / p->seeds];
        make_task(p, i);
    }
    return 0;
}

/* A run has ended well: its figures, while the others go on. */
static int on_ended(void *context, size_t index)
{
    plan *p = context;
    cli_result *r = &p->comparison.result[index];
    iso_error e = {0};
    int code = cli_result_read(r, p->order[index].folder, p->order[index].policy->sync, &e);
    if (code)
        return cli_failed(code, &e);
    if (!p->quiet)
        fprintf(stderr, "%s: %s s virtual, accuracy %s, E %s (took %s)\n", p->order[index].name,
                cli_fixed(r->seconds, 2), cli_fixed(r->test_accuracy, 4), cli_fixed(r->efficiency, 4),
                cli_duration(p->task[index].took));
    return 0;
}

/* The scratch folder with all in it: run folders are flat. */
static void remove_scratch(const plan *p)
{
    iso_listing all, inside;
    if (cli_given(p->arguments, "out") || iso_folder_list(p->folder, NULL, &all, NULL))
        return;
    for (size_t i = 0; i < all.count; i++) {
        char path[FOLDER_MAX * 2];
        snprintf(path, sizeof path, "%s/%s", p->folder, all.name[i]);
        if (!remove(path) || iso_folder_list(path, NULL, &inside, NULL))
            continue;
        for (size_t k = 0; k < inside.count; k++) {
            char file[FOLDER_MAX * 3];
            snprintf(file, sizeof file, "%s/%s", path, inside.name[k]);
            remove(file);
        }
        iso_listing_free(&inside);
        remove(path);
    }
    iso_listing_free(&all);
    remove(p->folder);
}

static int make_runs(plan *p)
{
    int status = make_folder(p);
    if (status)
        return status;
    for (unsigned i = 0; i < p->entries && !status; i++)
        status = write_job(p, i);
    if (!status)
        status = make_tasks(p);
    if (!status) {
        cli_signals_catch();
        status = cli_tasks_run(p->task, p->comparison.count, p->jobs, p->quiet, on_ended, p);
    }
    if (!status && cli_given(p->arguments, "out")) {
        char path[FOLDER_MAX];
        cli_json j;
        cli_json_init(&j);
        cli_comparison_times(&p->comparison);
        cli_comparison_json(&j, &p->comparison);
        iso_buffer_text(&j.text, "\n");
        snprintf(path, sizeof path, "%s/compare.json", p->folder);
        status = j.text.failed ? 1 : write_text(path, (const char *)j.text.bytes, j.text.size);
        cli_json_fini(&j);
    }
    remove_scratch(p);
    return status;
}

/* ---- runs that are there ------------------------------------------------------------------------------- */

typedef struct placed {
    cli_result result;
    size_t policy; /* where this policy stood first */
} placed;

static int by_place(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->policy != y->policy)
        return x->policy < y->policy ? -1 : 1;
    return x->result.seed < y->result.seed ? -1 : x->result.seed > y->result.seed;
}

/* The runs of a folder by their names, policies together. */
static int sort_results(cli_comparison *c)
{
    placed *p = calloc(c->count, sizeof *p);
    if (!p) {
        cli_error("out of memory");
        return 1;
    }
    for (size_t i = 0; i < c->count; i++) {
        p[i] = (placed){c->result[i], i};
        for (size_t k = 0; k < i; k++)
            if (!strcmp(p[k].result.sync, p[i].result.sync)) {
                p[i].policy = p[k].policy;
                break;
            }
    }
    qsort(p, c->count, sizeof *p, by_place);
    for (size_t i = 0; i < c->count; i++)
        c->result[i] = p[i].result;
    free(p);
    return 0;
}

static int read_runs(plan *p, const char *folder)
{
    iso_listing l;
    iso_error e = {0};
    int code = iso_folder_list(folder, NULL, &l, &e);
    if (code)
        return cli_failed(code, &e);
    p->comparison.result = calloc(l.count ? l.count : 1, sizeof *p->comparison.result);
    code = p->comparison.result ? ISO_OK : iso_error_set(&e, ISO_E_NOMEM, "out of memory");
    for (size_t i = 0; i < l.count && !code; i++) {
        char run[FOLDER_MAX], summary[FOLDER_MAX + 16];
        if (l.name[i][0] == '.') /* hidden: not one of the runs */
            continue;
        snprintf(run, sizeof run, "%s/%s", folder, l.name[i]);
        snprintf(summary, sizeof summary, "%s/summary.json", run);
        code = iso_run_look(run, NULL, &e);
        if (code || iso_path_kind_of(summary) != ISO_PATH_FILE)
            continue;
        code = cli_result_read(&p->comparison.result[p->comparison.count], run, NULL, &e);
        p->comparison.count += !code;
    }
    iso_listing_free(&l);
    if (code)
        return cli_failed(code, &e);
    if (p->comparison.count)
        return sort_results(&p->comparison);
    cli_error("%s: no finished run in it", folder);
    return 1;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int show(plan *p, cli_axis axis)
{
    const char *plot = cli_given(p->arguments, "plot");
    cli_comparison *c = &p->comparison;
    iso_error e = {0};
    int status = 0;
    cli_comparison_times(c);
    if (c->count)
        c->virtual_time = c->result[0].virtual_time;
    if (cli_given(p->arguments, "json")) {
        cli_json j;
        cli_json_init(&j);
        cli_comparison_json(&j, c);
        status = cli_json_end(&j);
    } else if (cli_given(p->arguments, "csv")) {
        cli_comparison_csv(c);
    } else {
        cli_comparison_print(c);
    }
    int code = plot ? cli_comparison_plot(c, plot, axis, &e) : ISO_OK;
    return code ? cli_failed(code, &e) : status;
}

static void make_title(plan *p)
{
    const char *from = cli_given(p->arguments, "from"), *cluster = cli_given(p->arguments, "cluster");
    const char *name = cluster ? iso_path_name(cluster) : "", *end = strrchr(name, '.');
    size_t length = end && end > name ? (size_t)(end - name) : strlen(name);
    char seeds[48] = "";
    if (p->seeds > 1)
        snprintf(seeds, sizeof seeds, ", mean of %llu seeds", (unsigned long long)p->seeds);
    if (from)
        snprintf(p->comparison.title, sizeof p->comparison.title, "Accuracy over time: %.200s", iso_path_name(from));
    else
        snprintf(p->comparison.title, sizeof p->comparison.title, "%.100s on %.*s%s", p->job.name,
                 length < 100 ? (int)length : 100, name, seeds);
}

/* Everything that can be wrong before hours of work. */
static int read_plan(plan *p, cli_axis *axis)
{
    const cli_arguments *a = p->arguments;
    const char *sync = cli_given(a, "sync"), *plot = cli_given(a, "plot"), *accuracy = cli_given(a, "accuracy");
    const char *from = cli_given(a, "from");
    uint64_t jobs;
    iso_error e = {0};
    int code = plot ? cli_plot_check(plot, &e) : ISO_OK;
    if (!code)
        code = cli_targets_read(&p->comparison, accuracy ? accuracy : "0.97,0.98", &e);
    if (code)
        return cli_failed(code, &e);
    int status = read_axis(a, axis);
    if (!status)
        status = number(a, "seeds", SEEDS_MAX, 1, &p->seeds);
    if (!status)
        status = number(a, "jobs", 4096, iso_cores_allowed(), &jobs);
    if (status)
        return status;
    p->jobs = (unsigned)jobs;
    p->quiet = cli_given(a, "quiet");
    if (from)
        return 0;
    if (!cli_given(a, "cluster") || !sync) {
        cli_error("compare wants --cluster FILE and --sync A,B,..., or --from FOLDER with runs in it");
        return 2;
    }
    status = cli_job_read(a, a->word_count ? a->word[0] : NULL, &p->job);
    return status ? status : read_policies(p, sync);
}

static int run(const cli_arguments *a)
{
    static plan p;
    const char *sync = cli_given(a, "sync"), *from = cli_given(a, "from");
    cli_axis axis;
    if (sync && !strcmp(sync, "help")) {
        cli_print_policies();
        return 0;
    }
    p.arguments = a;
    int status = read_plan(&p, &axis);
    if (!status)
        make_title(&p);
    if (!status)
        status = from ? read_runs(&p, from) : make_runs(&p);
    if (!status)
        status = show(&p, axis);
    cli_comparison_clear(&p.comparison);
    free(p.order);
    free(p.task);
    return status;
}

const cli_command cli_compare = {
    .name = "compare",
    .words = "[JOB.yaml]",
    .summary = "several policies on one simulated cluster, side by side",
    .help = "Simulates the job on the cluster once a policy and seed, and prints samples a second, efficiency E (of "
            "the sum of\n"
            "what the nodes do alone), seconds of virtual time to the given accuracies, the accuracy at the end, the "
            "times that\n"
            "the nodes synchronised, bytes to and from the coordinator (with fp32 values, whatever was really sent).\n"
            "`--sync help` lists the policies.\n"
            "  isochron compare examples/lenet5-fashion.yaml --cluster examples/clusters/uneven4.yaml \\\n"
            "      --sync bsp,lb-bsp,hmdspt --epochs 2 --accuracy 0.8,0.85 --plot compare.svg\n"
            "  isochron compare --from FOLDER --plot compare.png",
    .options = options,
    .most = 1,
    .run = run,
};

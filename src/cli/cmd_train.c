/* SPDX-License-Identifier: Apache-2.0
 * isochron train: a job into a run folder. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/summary.h"
#include "isochron/train.h"

static const cli_option options[] = {
    CLI_JOB_OPTIONS,
    {"resume", NULL, NULL, "go on with the run in the run folder, from its newest checkpoint"},
    {"force", NULL, NULL, "replace an earlier run in the run folder"},
    {"throttle", "8:4:2:1", NULL, "slow the workers down to these relative speeds"},
    {"calibrate", NULL, NULL, "measure each worker alone first, so that efficiency is known"},
    CLI_ISA_OPTION,
    {"quiet", NULL, NULL, "no progress, no summary; warnings and errors alone"},
    {"json", NULL, NULL, "JSON lines on standard output: begin, progress, epoch, summary"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

/* 8:4:2:1 */
static int read_throttle(const char *text, uint32_t *speed, uint32_t *count)
{
    *count = 0;
    for (const char *at = text;;) {
        size_t length = strcspn(at, ":");
        uint64_t value;
        if (*count == ISO_WORKERS_MAX || iso_parse_u64(at, length, 1, 1000000, &value) != ISO_PARSE_OK) {
            cli_error("--throttle wants whole numbers from 1 to 1000000 with colons between, 8:4:2:1, found '%s'",
                      text);
            return 2;
        }
        speed[(*count)++] = (uint32_t)value;
        if (!at[length])
            return 0;
        at += length + 1;
    }
}

/* The exit status of a run that did not end well. */
static int explain(int code, const iso_error *e, const iso_job *job, bool quiet)
{
    int number = atomic_load(&cli_stop);
    if (code != ISO_E_INTERRUPTED || !number)
        return cli_job_failed(code, e);
    if (quiet || number == SIGPIPE)
        return 128 + number;
    if (strstr(e->text, "--resume")) /* there is something to go on from */
        fprintf(stderr, "stopped by signal %d; go on with: isochron train --resume --out %s\n", number, job->out);
    else
        fprintf(stderr, "stopped by signal %d before the training began\n", number);
    return 128 + number;
}

static int run(const cli_arguments *a)
{
    static uint32_t throttle[ISO_WORKERS_MAX];
    static iso_job job;
    const char *sync = cli_given(a, "sync"), *speeds = cli_given(a, "throttle");
    bool resume = cli_given(a, "resume"), force = cli_given(a, "force");
    bool quiet = cli_given(a, "quiet"), json = cli_given(a, "json");
    iso_train_options o;
    iso_train_options_default(&o);
    if (sync && !strcmp(sync, "help")) {
        cli_print_policies();
        return 0;
    }
    if (resume && force) {
        cli_error("--resume and --force exclude each other");
        return 2;
    }
    int status = cli_isa_read(a, &o.isa);
    if (!status && speeds)
        status = read_throttle(speeds, throttle, &o.throttle_count);
    if (!status)
        status = cli_run_job_read(a, resume, &job);
    if (status)
        return status;
    unsigned number = job.out[0] ? 0 : 1;

    cli_progress progress;
    cli_progress_init(&progress, quiet, json);
    cli_signals_catch();
    o.resume = resume;
    o.force = force && !number; /* a number of its own replaces nothing */
    o.calibrate = cli_given(a, "calibrate");
    o.throttle = speeds ? throttle : NULL;
    o.observer = &progress.observer;
    o.progress_per_second = cli_progress_rate(&progress);
    o.stop = &cli_stop;
    iso_summary summary;
    iso_error e = {0};
    int code;
    do {
        if (number)
            cli_number_out(&job, number++);
        code = iso_train(&job, &o, &summary, &e);
    } while (code == ISO_E_BUSY && number && number < CLI_NUMBERS);
    if (!code && json) {
        cli_summary_json(&progress.json, NULL, &summary, job.out);
        cli_json_flush(&progress.json);
    }
    cli_progress_end(&progress);
    if (code)
        return explain(code, &e, &job, quiet);
    if (!quiet && !json)
        cli_summary_print(&summary, job.out);
    iso_summary_clear(&summary, NULL);
    return 0;
}

const cli_command cli_train = {
    .name = "train",
    .words = "[JOB.yaml]",
    .summary = "train a network from files",
    .help = "Without a job file --model and --data say what to train; options go over the file.\n"
            "`isochron help job` lists the keys of a job file.\n"
            "The run folder gets model.safetensors, the weights at the end; with data.validation also best.safetensors,\n"
            "those of the epoch with the lowest validation loss.\n"
            "  isochron train --model lenet5 --data /usr/share/datasets/fashion-mnist\n"
            "  isochron train examples/lenet5-fashion.yaml --epochs 5 --set optimizer.learning_rate=0.1\n"
            "--resume needs no job file: it reads the run's own job, and options go over that. Data that are the same may lie elsewhere\n"
            "(--data PATH); workers may change; other epochs begin a new run: --init RUN.\n"
            "  isochron train --resume --out runs/lenet5-fashion",
    .options = options,
    .most = 1,
    .run = run,
};

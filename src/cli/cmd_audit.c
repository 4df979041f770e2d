/* SPDX-License-Identifier: Apache-2.0
 * isochron audit: was every sample of every epoch counted exactly once? */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/output.h"
#include "engine/run/audit.h"

#define STATUS_MISSING 3 /* nothing is wrong, but not all that a run leaves behind is there */

static const cli_option options[] = {
    {"json", NULL, NULL, "JSON on standard output"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

/* The epoch that an unfinished run is in, from 1; 0: there is none. */
static uint32_t running_epoch(const iso_audit *a)
{
    return !a->finished && a->epoch_count && a->epoch[a->epoch_count - 1].never ? a->epoch_count : 0;
}

static bool same_counts(const iso_audit_epoch *a, const iso_audit_epoch *b)
{
    return a->once == b->once && a->more == b->more && a->never == b->never;
}

/* Neighbours with the same counts share a line. */
static void print_table(const iso_audit *a)
{
    printf("%-12s %14s %14s %14s\n", "epoch", "once", "more than once", "never");
    for (uint32_t i = 0, next; i < a->epoch_count; i = next) {
        const iso_audit_epoch *e = &a->epoch[i];
        char name[40];
        for (next = i + 1; next < a->epoch_count && same_counts(e, &a->epoch[next]); next++)
            ;
        if (next == i + 1)
            snprintf(name, sizeof name, "%u", next);
        else
            snprintf(name, sizeof name, "%u to %u", i + 1, next);
        printf("%-12s %14s %14s %14s\n", name, cli_grouped(e->once), cli_grouped(e->more), cli_grouped(e->never));
    }
}

static void print_notes(const iso_audit *a)
{
    if (a->resumes)
        printf("The run was taken up again %s %s; %s counted lines behind the border were taken back.\n",
               cli_grouped(a->resumes), a->resumes == 1 ? "time" : "times", cli_grouped(a->superseded));
    if (!a->finished && a->last_round > a->border)
        printf("No checkpoint holds rounds %s to %s yet: a resume does them again.\n", cli_grouped(a->border + 1),
               cli_grouped(a->last_round));
    if (!a->finished && a->cut)
        printf("The last line is cut: the run was killed, or is on, while it wrote.\n");
}

static void print_verdict(const iso_audit *a)
{
    uint32_t running = running_epoch(a);
    if (a->faults) {
        printf("NOT in order: %s %s.\n", cli_grouped(a->faults), a->faults == 1 ? "fault" : "faults");
        return;
    }
    if (a->missing)
        printf("Not all could be checked: %s %s missing. As far as it goes:\n", cli_grouped(a->missing),
               a->missing == 1 ? "witness is" : "witnesses are");
    if (!a->lines) {
        printf("In order so far: the run has not finished its first round, nothing was counted yet.\n");
    } else if (a->finished) {
        printf("In order: each of %s samples was counted exactly once in ", cli_grouped(a->samples));
        printf(a->epochs == 1 ? "the one epoch.\n" : "each of %u epochs.\n", a->epochs);
    } else {
        printf("In order so far: the run is not finished, %u of %u epochs are whole", a->whole, a->epochs);
        if (running)
            printf("; epoch %u is incomplete, %s of its %s samples have been counted, each once", running,
                   cli_grouped(a->epoch[running - 1].once), cli_grouped(a->samples));
        printf(".\n");
    }
}

static void print_faults(const iso_audit *a)
{
    for (uint32_t i = 0; i < a->fault_count; i++)
        fprintf(stderr, "%s\n", a->fault[i]);
    if (a->faults > a->fault_count)
        fprintf(stderr, "and %s more\n", cli_grouped(a->faults - a->fault_count));
    for (uint32_t i = 0; i < a->missing_count; i++)
        fprintf(stderr, "missing: %s\n", a->lack[i]);
}

static int print_json(const iso_audit *a, const char *run)
{
    cli_json j;
    cli_json_init(&j);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "run", run);
    cli_json_text(&j, "verdict", a->faults ? "faults" : a->missing ? "unproven" : a->finished ? "whole" : "incomplete");
    cli_json_text(&j, "mark", a->mark[0] ? a->mark : NULL);
    cli_json_bool(&j, "finished", a->finished);
    cli_json_whole(&j, "samples", a->samples);
    cli_json_open(&j, "epochs", '[');
    for (uint32_t i = 0; i < a->epoch_count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_whole(&j, "epoch", i + 1);
        cli_json_whole(&j, "once", a->epoch[i].once);
        cli_json_whole(&j, "more", a->epoch[i].more);
        cli_json_whole(&j, "never", a->epoch[i].never);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_whole(&j, "rounds", a->rounds);
    cli_json_whole(&j, "lines", a->lines);
    cli_json_whole(&j, "resumes", a->resumes);
    cli_json_whole(&j, "taken_back", a->superseded);
    cli_json_whole(&j, "border", a->finished ? a->last_round : a->border);
    cli_json_bool(&j, "cut", a->cut);
    cli_json_whole(&j, "fault_count", a->faults);
    cli_json_open(&j, "faults", '[');
    for (uint32_t i = 0; i < a->fault_count; i++)
        cli_json_text(&j, NULL, a->fault[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "missing", '[');
    for (uint32_t i = 0; i < a->missing_count; i++)
        cli_json_text(&j, NULL, a->lack[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    return cli_json_end(&j);
}

static int run(const cli_arguments *a)
{
    static iso_audit audit;
    iso_error e = {0};
    int r = iso_audit_run(a->word[0], NULL, &audit, &e);
    if (r) {
        cli_failed(r, &e);
        iso_audit_clear(&audit, NULL);
        return 1;
    }
    int status = audit.faults ? 1 : audit.missing ? STATUS_MISSING : 0;
    if (cli_given(a, "json")) {
        int written = print_json(&audit, a->word[0]);
        status = written ? written : status;
    } else {
        print_table(&audit);
        print_notes(&audit);
        print_verdict(&audit);
        cli_output_flush();
        print_faults(&audit);
    }
    iso_audit_clear(&audit, NULL);
    return status;
}

const cli_command cli_audit = {
    .name = "audit",
    .words = "RUN",
    .summary = "prove from a run's log that every sample of every epoch counted once",
    .help = "Reads events.jsonl of a run folder: how many samples of which epochs were counted once, more than once,\n"
            "never. Each round is held against metrics.jsonl, the whole against job.yaml, summary.json, the models and\n"
            "the checkpoints, and all of them bear one run's mark. Exit status 0: each sample was counted exactly once\n"
            "(of a run that was stopped, in the epochs that are over) and every file is as the run wrote it; 1: not so;\n"
            "3: nothing is wrong, but a file or a part of it is missing, so that not all could be checked.\n"
            "  isochron audit runs/lenet5-fashion",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};

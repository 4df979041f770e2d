/* SPDX-License-Identifier: Apache-2.0
 * The commands by table: one row and one file each. */
#ifndef ISO_CLI_COMMAND_H
#define ISO_CLI_COMMAND_H

#include "cli/arguments.h"
#include "isochron/job.h"

typedef struct cli_command {
    const char *name;
    const char *words;            /* what stands behind the name, for --help: "[JOB.yaml]" */
    const char *summary;          /* half a line */
    const char *help;             /* lines for --help, below the summary */
    const cli_option *options;
    size_t least, most;           /* words it takes */
    int (*run)(const cli_arguments *a); /* returns the exit status, has printed why */
} cli_command;

extern const cli_command cli_train, cli_evaluate, cli_predict, cli_check, cli_inspect, cli_audit, cli_compare, cli_simulate,
    cli_help;
/* All of them, NULL at the end. */
extern const cli_command *const cli_commands[];

const cli_command *cli_command_find(const char *name);
/* What `COMMAND --help` prints, to standard output. */
void cli_command_print(const cli_command *c);

/* Options that set keys of a job, shared by train and check; --set takes any key. */
#define CLI_JOB_OPTIONS                                                                                              \
    {"data", "PATH", "data.path", "a data file, or a folder that holds train and test"},                              \
    {"model", "NAME", "model", "a ready network by name, for example lenet5; `help layers` lists them"},              \
    {"epochs", "N", "epochs", "times through the training set"},                                                      \
    {"batch", "N", "batch", "samples in an update, over all workers"},                                                \
    {"unit", "N", "unit", "samples in a computing unit: 16, 32, 48, 64 or auto"},                                     \
    {"workers", "N", "workers", "threads that compute; auto: one a core"},                                            \
    {"sync", "POLICY", "sync", "how workers agree; `--sync help` lists the policies"},                                \
    {"seed", "N", "seed", "of every random number"},                                                                  \
    {"out", "FOLDER", "out", "the run folder; else runs/NAME, numbered when that is taken"},                          \
    {"init", "MODEL", "init", "start from the weights of a model file or run folder"},                                \
    {"set", "KEY=VALUE", NULL, "any key of the job file, for example optimizer.learning_rate=0.1"}

/* The finished job of a command line: defaults, then the file `file` (NULL: none), then the options in their order. Prints what
 * is wrong; returns an exit status. */
int cli_job_read(const cli_arguments *a, const char *file, iso_job *job);

/* The same for a command that makes runs: a file is its first word, if there is one. A resume without a job file, or with a run
 * folder in its place, has the run's own job.yaml for it; the options go over that too. */
int cli_run_job_read(const cli_arguments *a, bool resume, iso_job *job);

/* The n-th run folder that a job tries which names none: runs/NAME, runs/NAME-2, ... Whether it is free, the run alone can tell,
 * by taking it: ISO_E_BUSY means the next one. */
#define CLI_NUMBERS 1000000u
void cli_number_out(iso_job *job, unsigned n);

/* --isa; *out is AUTO without it. Returns an exit status. */
#define CLI_ISA_OPTION {"isa", "NAME", NULL, "auto, avx512, avx2 or scalar; the results do not depend on it"}
int cli_isa_read(const cli_arguments *a, iso_isa *out);

/* The list of policies and their parameters, to standard output. */
void cli_print_policies(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Simulations side by side: each a process of its own, so that one that fails, or needs much memory, harms no other,
 * and cores are used without a word about threads. */
#ifndef ISO_CLI_COMPARE_RUN_H
#define ISO_CLI_COMPARE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "isochron/job.h"

#define CLI_TASK_ARGUMENTS 24u

/* One process. The caller fills the first part and keeps what it points to. */
typedef struct cli_task {
    const char *argument[CLI_TASK_ARGUMENTS]; /* of this program: "simulate", ..., NULL */
    const char *name;                         /* for progress and messages: "hmdspt, seed 2" */
    /* the runner's own */
    pid_t pid;    /* 0: not running */
    int out, err; /* -1: closed */
    bool over;
    int status;              /* exit status, 128 + n when a signal ended it */
    double part;             /* done, 0 .. 1 */
    double began, took;      /* seconds */
    iso_buffer lines, words; /* standard output since its last line; the end of standard error */
} cli_task;

/* Told when a task has ended well. Returns an exit status; not 0 ends the others. */
typedef int (*cli_task_ended)(void *context, size_t index);

/* Runs all, at most `jobs` at once, in their order, with a progress bar when standard error is a terminal and not
 * quiet. The first that fails ends all: its words are printed. A signal (cli/signals.h) ends all. Returns an exit
 * status. */
int cli_tasks_run(cli_task *task, size_t count, unsigned jobs, bool quiet, cli_task_ended ended, void *context);

#endif

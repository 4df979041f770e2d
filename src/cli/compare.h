/* SPDX-License-Identifier: Apache-2.0
 * Runs side by side: what came out of each, and the ways to show them. compare_read.c fills a comparison from run
 * folders, compare_table.c prints it, compare_plot.c draws it, compare_run.c makes the runs.
 *
 * Runs of one policy (the same `sync` text) stand together, one a seed. Numbers that are not there are NaN. */
#ifndef ISO_CLI_COMPARE_H
#define ISO_CLI_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/json.h"
#include "isochron/error.h"
#include "isochron/job.h"

#define CLI_TARGETS_MAX 8u
#define CLI_SYNC_MAX (ISO_WORD_MAX + ISO_SYNC_MAX)

/* Accuracy on the test set, or a part of it, after so many seconds of training. */
typedef struct cli_point {
    double seconds, accuracy;
} cli_point;

/* One run. seconds are the engine's: virtual ones of a simulation; evaluation is not in them. */
typedef struct cli_result {
    char sync[CLI_SYNC_MAX];
    uint64_t seed;
    double seconds, samples_per_second, efficiency, test_accuracy;
    double time_to[CLI_TARGETS_MAX]; /* of the first point at or above the target */
    uint64_t syncs, bytes_up, bytes_down;
    bool virtual_time;
    cli_point *point; /* [points], seconds ascending, owned */
    size_t points;
} cli_result;

typedef struct cli_comparison {
    double target[CLI_TARGETS_MAX]; /* accuracies, 0.97 */
    unsigned targets;
    cli_result *result; /* [count], owned */
    size_t count;
    char title[256];   /* of a plot */
    bool virtual_time; /* seconds are those of a simulation */
} cli_comparison;

void cli_comparison_clear(cli_comparison *c);

/* The policy that starts at result `first` has results [first, returned). */
size_t cli_policy_end(const cli_comparison *c, size_t first);

/* ---- compare_read.c ------------------------------------------------------------------------------------ */

/* Accuracies with commas between: "0.97,0.98"; "97%" is the same as "0.97". Errors: ISO_E_ARGUMENT. */
int cli_targets_read(cli_comparison *c, const char *text, iso_error *e);

/* Fills *r from a finished run folder: summary.json, the probes of metrics.jsonl, or without any the test accuracies of
 * the epochs in events.jsonl. sync NULL: what job.yaml says. Errors: ISO_E_IO, _FORMAT, _JOB, _NOMEM; *r is clear then.
 */
int cli_result_read(cli_result *r, const char *folder, const char *sync, iso_error *e);

/* Sets time_to of every result for the comparison's targets. */
void cli_comparison_times(cli_comparison *c);

/* ---- compare_table.c ----------------------------------------------------------------------------------- */

/* A row a policy: means over its seeds, +- the standard deviation where there are several. To standard output. */
void cli_comparison_print(const cli_comparison *c);
/* A row a run. */
void cli_comparison_csv(const cli_comparison *c);
/* A list of all runs; keys: sync seed seconds samples_per_second efficiency time_to
 * test_accuracy syncs bytes_up bytes_down. */
void cli_comparison_json(cli_json *j, const cli_comparison *c);

/* ---- compare_plot.c ------------------------------------------------------------------------------------ */

typedef enum cli_axis { CLI_AXIS_AUTO, CLI_AXIS_LINEAR, CLI_AXIS_LOG } cli_axis;

/* Accuracy over time, a line a policy (the mean of its seeds, and a band from the lowest to the highest), into an SVG
 * or PNG file by the end of its name. time AUTO: logarithmic when the policies' lengths are far apart. Errors:
 * ISO_E_ARGUMENT (another ending, no run has points), ISO_E_IO, ISO_E_UNSUPPORTED (built without cairo). */
int cli_comparison_plot(const cli_comparison *c, const char *path, cli_axis time, iso_error *e);
/* The same checks, before hours of work. */
int cli_plot_check(const char *path, iso_error *e);

#endif

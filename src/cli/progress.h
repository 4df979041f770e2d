/* SPDX-License-Identifier: Apache-2.0
 * What a person or a program sees of a running training: a bar on a terminal, plain lines in a pipe, JSON lines on demand. */
#ifndef ISO_CLI_PROGRESS_H
#define ISO_CLI_PROGRESS_H

#include <stdbool.h>

#include "cli/json.h"
#include "isochron/train.h"

typedef struct cli_progress {
    iso_observer observer;        /* give this to iso_train */
    bool quiet, lines_json, terminal, colour, utf8;
    bool drawn;                   /* a bar stands in the last line of the terminal */
    double last_line;             /* seconds of the run when something was last said */
    double epoch_seconds;         /* of all epochs so far */
    cli_json json;
} cli_progress;

/* quiet: warnings alone. json: lines on standard output. The struct must stay where it is. */
void cli_progress_init(cli_progress *p, bool quiet, bool json);
/* Takes the bar away, whatever happened. */
void cli_progress_end(cli_progress *p);
/* Times a second that the observer wants to be told. */
unsigned cli_progress_rate(const cli_progress *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The command line by table: one row an option. The rows drive parsing, --help and "did you mean". */
#ifndef ISO_CLI_ARGUMENTS_H
#define ISO_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "isochron/error.h"

typedef struct cli_option {
    const char *name;             /* "epochs" for --epochs; a row with NULL ends a table */
    const char *argument;         /* "N": what stands behind it; NULL: a switch */
    const char *key;              /* the job's key that it sets; NULL: the command itself looks at it */
    const char *help;
} cli_option;

/* What a command was given: options in the order of the command line, the rest in `word`. Strings are argv's. */
typedef struct cli_arguments {
    struct {
        const cli_option *option;
        const char *value;        /* NULL for a switch */
    } *given;
    const char **word;
    size_t given_count, word_count;
} cli_arguments;

/* Reads argv[0..argc). Forms: --name value, --name=value, --switch; -h is --help; a lone "-" is a word; "--" ends the options.
 * Errors: ISO_E_ARGUMENT with the sentence, ISO_E_NOMEM. */
int cli_arguments_read(cli_arguments *a, const cli_option *table, int argc, char **argv, iso_error *e);
void cli_arguments_clear(cli_arguments *a);

/* The last value of an option, "" for a switch that was given, NULL when it was not. */
const char *cli_given(const cli_arguments *a, const char *name);

/* The options of a table for --help, two columns. */
void cli_options_print(const cli_option *table);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Standard output and standard error as the commands use them: results go out, messages go to error. A reader that has gone
 * (`isochron ... | head`) ends the command quietly; a full disk is an error. */
#ifndef ISO_CLI_OUTPUT_H
#define ISO_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "isochron/error.h"

/* Flushes standard output: ISO_OK, or ISO_E_IO and the reason is remembered for cli_output_end. */
int cli_output_flush(void);
/* The exit status when a command would end with `status`: flushes, and turns a failed output into its own status and message. */
int cli_output_end(int status);

/* What standard error is. */
bool cli_error_is_terminal(void);   /* a terminal that can go back in the line (not TERM=dumb) */
bool cli_error_has_colour(void);    /* a terminal and NO_COLOR is not set */
int cli_error_width(void);          /* columns, asked anew each time; 80 when unknown */

/* "isochron: text" and "warning: text" to standard error. */
void cli_error(const char *format, ...) ISO_PRINTF(1, 2);
void cli_warning(const char *format, ...) ISO_PRINTF(1, 2);

/* The exit status of a result: 0, 2 for a wrong job or argument, else 1; prints the sentence. */
int cli_failed(int code, const iso_error *e);
/* The same for a command that works a job off: shapes that do not fit together are the job's fault, 2. */
int cli_job_failed(int code, const iso_error *e);

/* Prints a text out of a file: control characters as '?', lines of a longer one indented by `indent`. */
void cli_put_text(const char *text, int indent);

/* 61706 -> "61,706"; static storage, eight results live at a time. */
const char *cli_grouped(uint64_t number);
/* Bytes as "232.6 MiB", seconds as "1:02:03" or "12.3 s", or as "0:12" however few; the same storage. */
const char *cli_bytes(double bytes);
const char *cli_duration(double seconds);
const char *cli_clock(double seconds);
/* A number with digits behind the point, "-" when it is not finite; the same storage. */
const char *cli_fixed(double value, int digits);

#endif

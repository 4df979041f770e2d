/* SPDX-License-Identifier: Apache-2.0
 * The figures of a run, for a person and as JSON. The words are those of summary.json. */
#ifndef ISO_CLI_SUMMARY_H
#define ISO_CLI_SUMMARY_H

#include "cli/json.h"
#include "isochron/train.h"

/* To standard output. out: the run folder. */
void cli_summary_print(const iso_summary *s, const char *out);
/* Reads FOLDER/summary.json; give it back by iso_summary_clear. Errors: ISO_E_IO, _FORMAT, _NOMEM; *s is empty then. */
int cli_summary_read(iso_summary *s, const char *folder, iso_error *e);
/* An object under `key`, or with key NULL the last line of a stream, {"event": "summary", ...}; the caller flushes. */
void cli_summary_json(cli_json *j, const char *key, const iso_summary *s, const char *out);

#endif

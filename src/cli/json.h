/* SPDX-License-Identifier: Apache-2.0
 * JSON to standard output, piece by piece: commas come by themselves, numbers are the shortest that read back the same, what is
 * not finite is null. */
#ifndef ISO_CLI_JSON_H
#define ISO_CLI_JSON_H

#include <stdint.h>

#include "base/buffer.h"

typedef struct cli_json {
    iso_buffer text;
    bool comma;                   /* a comma is due before the next value */
} cli_json;

void cli_json_init(cli_json *j);
/* Writes what has been gathered and a newline to standard output, flushes, and starts anew. Errors: ISO_E_NOMEM,
 * ISO_E_IO (output.h). */
int cli_json_flush(cli_json *j);
void cli_json_fini(cli_json *j);
/* Both, at the end of a command. Returns its exit status: 1 when memory was short, which it says; a failed output is cli_output_end's
 * to tell. */
int cli_json_end(cli_json *j);

/* key NULL: an element of a list, or the outermost value. open is '{' or '[', close its partner. */
void cli_json_open(cli_json *j, const char *key, char open);
void cli_json_close(cli_json *j, char close);
void cli_json_text(cli_json *j, const char *key, const char *value); /* NULL: null */
void cli_json_number(cli_json *j, const char *key, double value);
void cli_json_float(cli_json *j, const char *key, float value);
void cli_json_whole(cli_json *j, const char *key, uint64_t value);
void cli_json_bool(cli_json *j, const char *key, bool value);

#endif

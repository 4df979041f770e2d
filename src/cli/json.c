/* SPDX-License-Identifier: Apache-2.0
 * JSON writer (json.h). */
#include "cli/json.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/output.h"

void cli_json_init(cli_json *j)
{
    iso_buffer_init(&j->text, NULL, 0);
    j->comma = false;
}

void cli_json_fini(cli_json *j)
{
    iso_buffer_fini(&j->text);
}

int cli_json_flush(cli_json *j)
{
    iso_buffer_text(&j->text, "\n");
    int r = j->text.failed ? ISO_E_NOMEM : ISO_OK;
    if (!r) {
        fwrite(j->text.bytes, 1, j->text.size, stdout);
        r = cli_output_flush();
    }
    iso_buffer_clear(&j->text);
    j->comma = false;
    return r;
}

int cli_json_end(cli_json *j)
{
    int r = cli_json_flush(j);
    cli_json_fini(j);
    return r == ISO_E_NOMEM ? cli_failed(r, NULL) : 0;
}

static void begin(cli_json *j, const char *key)
{
    if (j->comma)
        iso_buffer_text(&j->text, ",");
    if (key) {
        iso_buffer_json(&j->text, key);
        iso_buffer_text(&j->text, ":");
    }
    j->comma = true;
}

void cli_json_open(cli_json *j, const char *key, char open)
{
    begin(j, key);
    iso_buffer_put(&j->text, &open, 1);
    j->comma = false;
}

void cli_json_close(cli_json *j, char close)
{
    iso_buffer_put(&j->text, &close, 1);
    j->comma = true;
}

void cli_json_text(cli_json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        iso_buffer_json(&j->text, value);
    else
        iso_buffer_text(&j->text, "null");
}

void cli_json_number(cli_json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        iso_buffer_number(&j->text, value);
    else
        iso_buffer_text(&j->text, "null");
}

void cli_json_float(cli_json *j, const char *key, float value)
{
    char text[ISO_NUMBER_TEXT];
    begin(j, key);
    iso_print_float(text, value);
    iso_buffer_text(&j->text, isfinite(value) ? text : "null");
}

void cli_json_whole(cli_json *j, const char *key, uint64_t value)
{
    begin(j, key);
    iso_buffer_format(&j->text, "%llu", (unsigned long long)value);
}

void cli_json_bool(cli_json *j, const char *key, bool value)
{
    begin(j, key);
    iso_buffer_text(&j->text, value ? "true" : "false");
}

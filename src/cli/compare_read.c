/* SPDX-License-Identifier: Apache-2.0
 * What came out of a run, from its folder (compare.h). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/compare.h"
#include "cli/summary.h"
#include "engine/file/file.h"

static void result_clear(cli_result *r)
{
    free(r->point);
    memset(r, 0, sizeof *r);
}

void cli_comparison_clear(cli_comparison *c)
{
    for (size_t i = 0; i < c->count; i++)
        result_clear(&c->result[i]);
    free(c->result);
    c->result = NULL;
    c->count = 0;
}

size_t cli_policy_end(const cli_comparison *c, size_t first)
{
    size_t end = first;
    while (end < c->count && !strcmp(c->result[end].sync, c->result[first].sync))
        end++;
    return end;
}

int cli_targets_read(cli_comparison *c, const char *text, iso_error *e)
{
    c->targets = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ","), digits = length;
        double value, scale = 1;
        if (digits && at[digits - 1] == '%') {
            digits--;
            scale = 0.01;
        }
        if (iso_parse_double(at, digits, &value) != ISO_PARSE_OK || !(value > 0 && value * scale < 1))
            return iso_error_set(
                e, ISO_E_ARGUMENT,
                "--accuracy wants numbers between 0 and 1 with commas between, 0.97,0.98, found '%.*s'", (int)length,
                at);
        if (c->targets == CLI_TARGETS_MAX)
            return iso_error_set(e, ISO_E_ARGUMENT, "--accuracy: %u at most", CLI_TARGETS_MAX);
        c->target[c->targets++] = scale < 1 ? value / 100 : value;
        at += length;
        if (!*at)
            return ISO_OK;
    }
}

/* ---- points -------------------------------------------------------------------------------------------- */

static int add_point(cli_result *r, size_t *room, double seconds, double accuracy)
{
    if (r->points == *room) {
        size_t more = *room ? *room * 2 : 64;
        cli_point *p = realloc(r->point, more * sizeof *p);
        if (!p)
            return ISO_E_NOMEM;
        r->point = p;
        *room = more;
    }
    r->point[r->points++] = (cli_point){seconds, accuracy};
    return ISO_OK;
}

/* Lines of a journal, one at a time; a last one without newline is left out. False at the end. */
static bool next_line(const iso_bytes *b, size_t *at, json_t **object)
{
    const char *text = (const char *)b->bytes + *at;
    const char *end = *at < b->size ? memchr(text, '\n', b->size - *at) : NULL;
    if (!end)
        return false;
    *object = json_loadb(text, (size_t)(end - text), 0, NULL);
    *at += (size_t)(end - text) + 1;
    return true;
}

static double real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Probes: the time of a point is the sum of its rounds. */
static int points_of_metrics(cli_result *r, const iso_bytes *b)
{
    size_t at = 0, room = 0;
    double seconds = 0;
    json_t *o;
    int result = ISO_OK;
    while (!result && next_line(b, &at, &o)) {
        double more = real(o, "seconds"), accuracy = real(o, "probe_accuracy");
        seconds += more > 0 ? more : 0;
        if (isfinite(accuracy))
            result = add_point(r, &room, seconds, accuracy);
        json_decref(o);
    }
    return result;
}

/* The epochs' test accuracies. Their time is that of the run, in which resumes begin anew: it never goes back. */
static int points_of_events(cli_result *r, const iso_bytes *b)
{
    size_t at = 0, room = r->points;
    double before = 0, last = 0;
    json_t *o;
    int result = ISO_OK;
    while (!result && next_line(b, &at, &o)) {
        const char *event = json_string_value(json_object_get(o, "event"));
        double seconds = real(o, "seconds"), accuracy = real(o, "test_accuracy");
        if (event && !strcmp(event, "resume"))
            before = last;
        if (event && !strcmp(event, "epoch") && isfinite(accuracy) && seconds >= 0) {
            last = before + seconds;
            result = add_point(r, &room, last, accuracy);
        }
        json_decref(o);
    }
    return result;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static int read_file(const char *folder, const char *name, size_t max, iso_bytes *out, iso_error *e)
{
    *out = (iso_bytes){0};
    char *path = iso_path_join(NULL, folder, name);
    int r = path ? iso_file_read(path, max, NULL, out, e) : iso_error_set(e, ISO_E_NOMEM, "out of memory");
    iso_free(NULL, path);
    return r;
}

static int read_summary(cli_result *r, const char *folder, iso_error *e)
{
    iso_summary s;
    int code = cli_summary_read(&s, folder, e);
    if (code)
        return code;
    r->seed = s.seed;
    r->seconds = s.seconds;
    r->samples_per_second = s.samples_per_second;
    r->efficiency = s.efficiency;
    r->test_accuracy = s.test_accuracy;
    r->syncs = s.rounds;
    r->bytes_up = s.bytes_up;
    r->bytes_down = s.bytes_down;
    r->virtual_time = strcmp(s.engine, "local") != 0;
    iso_summary_clear(&s, NULL);
    return ISO_OK;
}

/* "hmdspt:payload=int4" as job.yaml has it. */
static int read_sync(cli_result *r, const char *folder, iso_error *e)
{
    iso_bytes bytes;
    iso_job *job = malloc(sizeof *job);
    if (!job)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory");
    int code = read_file(folder, "job.yaml", ISO_JOB_BYTES_MAX, &bytes, e);
    if (!code) {
        iso_job_default(job);
        code = iso_job_parse(job, "job.yaml", (const char *)bytes.bytes, bytes.size, NULL, e);
        if (code)
            iso_error_prefix(e, "%s/", folder);
    }
    if (!code)
        snprintf(r->sync, sizeof r->sync, "%s%s%s", job->policy, job->parameters[0] ? ":" : "", job->parameters);
    iso_bytes_release(&bytes);
    free(job);
    return code;
}

static int read_points(cli_result *r, const char *folder, iso_error *e)
{
    iso_bytes bytes;
    int code = read_file(folder, "metrics.jsonl", 0, &bytes, e);
    if (!code && points_of_metrics(r, &bytes))
        code = iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its probes", folder);
    iso_bytes_release(&bytes);
    if (code || r->points)
        return code;
    code = read_file(folder, "events.jsonl", 0, &bytes, e);
    if (!code && points_of_events(r, &bytes))
        code = iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its epochs", folder);
    iso_bytes_release(&bytes);
    return code;
}

int cli_result_read(cli_result *r, const char *folder, const char *sync, iso_error *e)
{
    memset(r, 0, sizeof *r);
    int code = read_summary(r, folder, e);
    if (!code && sync)
        snprintf(r->sync, sizeof r->sync, "%s", sync);
    else if (!code)
        code = read_sync(r, folder, e);
    if (!code)
        code = read_points(r, folder, e);
    if (code)
        result_clear(r);
    return code;
}

void cli_comparison_times(cli_comparison *c)
{
    for (size_t i = 0; i < c->count; i++)
        for (unsigned t = 0; t < c->targets; t++) {
            cli_result *r = &c->result[i];
            r->time_to[t] = NAN;
            for (size_t k = 0; k < r->points && isnan(r->time_to[t]); k++)
                if (r->point[k].accuracy >= c->target[t])
                    r->time_to[t] = r->point[k].seconds;
        }
}

/* SPDX-License-Identifier: Apache-2.0
 * A comparison as a table for people, as CSV and as JSON (compare.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/compare.h"
#include "cli/output.h"

/* ---- means --------------------------------------------------------------------------------------------- */

typedef double (*figure)(const cli_result *r, unsigned index);

static double samples_per_second(const cli_result *r, unsigned i)
{
    (void)i;
    return r->samples_per_second;
}

static double efficiency(const cli_result *r, unsigned i)
{
    (void)i;
    return r->efficiency;
}

static double time_to(const cli_result *r, unsigned i)
{
    return r->time_to[i];
}

static double test_accuracy(const cli_result *r, unsigned i)
{
    (void)i;
    return r->test_accuracy;
}

static double syncs(const cli_result *r, unsigned i)
{
    (void)i;
    return (double)r->syncs;
}

static double bytes_up(const cli_result *r, unsigned i)
{
    (void)i;
    return (double)r->bytes_up;
}

static double bytes_down(const cli_result *r, unsigned i)
{
    (void)i;
    return (double)r->bytes_down;
}

typedef struct spread {
    unsigned runs, there; /* there: runs that have the figure */
    double mean, deviation;
} spread;

/* Mean and standard deviation of those that have it. */
static spread spread_of(const cli_comparison *c, size_t first, size_t end, figure get, unsigned index)
{
    spread s = {.runs = (unsigned)(end - first)};
    double sum = 0, squares = 0;
    for (size_t i = first; i < end; i++)
        if (isfinite(get(&c->result[i], index))) {
            sum += get(&c->result[i], index);
            s.there++;
        }
    s.mean = s.there ? sum / s.there : NAN;
    for (size_t i = first; i < end; i++) {
        double value = get(&c->result[i], index);
        squares += isfinite(value) ? (value - s.mean) * (value - s.mean) : 0;
    }
    s.deviation = s.there > 1 ? sqrt(squares / (s.there - 1)) : 0;
    return s;
}

/* ---- a table ------------------------------------------------------------------------------------------- */

#define COLUMNS_MAX (8u + CLI_TARGETS_MAX)
#define CELL 48u

typedef struct table {
    char (*cell)[COLUMNS_MAX][CELL];
    char (*name)[CLI_SYNC_MAX]; /* the first column */
    size_t rows, columns;
} table;

/* What a column has the figures of, how many digits stand behind the point. */
typedef struct column {
    char head[CELL];
    figure get;
    unsigned index;
    int digits; /* -1: whole with commas, -2: bytes */
    bool deviation;
} column;

static unsigned columns_of(const cli_comparison *c, column out[COLUMNS_MAX])
{
    unsigned n = 0;
    out[n++] = (column){"samples/s", samples_per_second, 0, -1, false};
    out[n++] = (column){"E", efficiency, 0, 4, true};
    for (unsigned t = 0; t < c->targets; t++) {
        char number[ISO_NUMBER_TEXT];
        iso_print_double(number, c->target[t]);
        out[n] = (column){.get = time_to, .index = t, .digits = 2, .deviation = true};
        snprintf(out[n++].head, CELL, "s to %s", number);
    }
    out[n++] = (column){"accuracy", test_accuracy, 0, 4, true};
    out[n++] = (column){"syncs", syncs, 0, -1, false};
    out[n++] = (column){"up", bytes_up, 0, -2, false};
    out[n++] = (column){"down", bytes_down, 0, -2, false};
    return n;
}

static void write_cell(char out[CELL], const spread *s, const column *k)
{
    if (!s->there)
        snprintf(out, CELL, "-");
    else if (s->there < s->runs)
        snprintf(out, CELL, "%u of %u", s->there, s->runs);
    else if (k->digits == -2)
        snprintf(out, CELL, "%s", cli_bytes(s->mean));
    else if (k->digits == -1)
        snprintf(out, CELL, "%s", cli_grouped(s->mean > 0 ? (uint64_t)(s->mean + 0.5) : 0));
    else if (k->deviation && s->runs > 1)
        snprintf(out, CELL, "%s +-%s", cli_fixed(s->mean, k->digits), cli_fixed(s->deviation, k->digits));
    else
        snprintf(out, CELL, "%s", cli_fixed(s->mean, k->digits));
}

static void fill(table *t, const cli_comparison *c, const column *k)
{
    for (size_t i = 0, end; i < c->count; i = end) {
        end = cli_policy_end(c, i);
        snprintf(t->name[t->rows], CLI_SYNC_MAX, "%s", c->result[i].sync);
        for (unsigned j = 0; j < t->columns; j++) {
            spread s = spread_of(c, i, end, k[j].get, k[j].index);
            write_cell(t->cell[t->rows][j], &s, &k[j]);
        }
        t->rows++;
    }
}

static void print(const table *t, const column *k)
{
    int first = 4, width[COLUMNS_MAX];
    for (size_t i = 0; i < t->rows; i++)
        first = (int)strlen(t->name[i]) > first ? (int)strlen(t->name[i]) : first;
    printf("%-*s", first, "sync");
    for (size_t j = 0; j < t->columns; j++) {
        width[j] = (int)strlen(k[j].head);
        for (size_t i = 0; i < t->rows; i++)
            width[j] = (int)strlen(t->cell[i][j]) > width[j] ? (int)strlen(t->cell[i][j]) : width[j];
        printf("  %*s", width[j], k[j].head);
    }
    printf("\n");
    for (size_t i = 0; i < t->rows; i++) {
        printf("%-*s", first, t->name[i]);
        for (size_t j = 0; j < t->columns; j++)
            printf("  %*s", width[j], t->cell[i][j]);
        printf("\n");
    }
}

void cli_comparison_print(const cli_comparison *c)
{
    column k[COLUMNS_MAX];
    table t = {.columns = columns_of(c, k)};
    t.cell = calloc(c->count, sizeof *t.cell);
    t.name = calloc(c->count, sizeof *t.name);
    if (t.cell && t.name) {
        fill(&t, c, k);
        print(&t, k);
    } else if (c->count) {
        cli_error("out of memory");
    }
    free(t.cell);
    free(t.name);
}

/* ---- CSV ----------------------------------------------------------------------------------------------- */

static void csv_number(double value)
{
    char text[ISO_NUMBER_TEXT] = "";
    if (isfinite(value))
        iso_print_double(text, value);
    printf(",%s", text);
}

void cli_comparison_csv(const cli_comparison *c)
{
    printf("sync,seed,seconds,samples_per_second,efficiency");
    for (unsigned t = 0; t < c->targets; t++) {
        char number[ISO_NUMBER_TEXT];
        iso_print_double(number, c->target[t]);
        printf(",time_to_%s", number);
    }
    printf(",test_accuracy,syncs,bytes_up,bytes_down\n");
    for (size_t i = 0; i < c->count; i++) {
        const cli_result *r = &c->result[i];
        printf("%s,%llu", r->sync, (unsigned long long)r->seed); /* a policy's text has no comma and no quote */
        csv_number(r->seconds);
        csv_number(r->samples_per_second);
        csv_number(r->efficiency);
        for (unsigned t = 0; t < c->targets; t++)
            csv_number(r->time_to[t]);
        csv_number(r->test_accuracy);
        printf(",%llu,%llu,%llu\n", (unsigned long long)r->syncs, (unsigned long long)r->bytes_up,
               (unsigned long long)r->bytes_down);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

void cli_comparison_json(cli_json *j, const cli_comparison *c)
{
    cli_json_open(j, NULL, '[');
    for (size_t i = 0; i < c->count; i++) {
        const cli_result *r = &c->result[i];
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "sync", r->sync);
        cli_json_whole(j, "seed", r->seed);
        cli_json_number(j, "seconds", r->seconds);
        cli_json_number(j, "samples_per_second", r->samples_per_second);
        cli_json_number(j, "efficiency", r->efficiency);
        cli_json_open(j, "time_to", '{');
        for (unsigned t = 0; t < c->targets; t++) {
            char number[ISO_NUMBER_TEXT];
            iso_print_double(number, c->target[t]);
            cli_json_number(j, number, r->time_to[t]);
        }
        cli_json_close(j, '}');
        cli_json_number(j, "test_accuracy", r->test_accuracy);
        cli_json_whole(j, "syncs", r->syncs);
        cli_json_whole(j, "bytes_up", r->bytes_up);
        cli_json_whole(j, "bytes_down", r->bytes_down);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

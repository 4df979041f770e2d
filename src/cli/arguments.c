/* SPDX-License-Identifier: Apache-2.0
 * Reading argv (arguments.h). */
#include "cli/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "isochron/job.h"

static const cli_option *find(const cli_option *table, const char *name, size_t length)
{
    for (const cli_option *o = table; o->name; o++)
        if (strlen(o->name) == length && !memcmp(o->name, name, length))
            return o;
    return NULL;
}

static bool same_word(const char *a, const char *b)
{
    while (*a && (*a == *b || (*a == '-' && *b == '_')))
        a++, b++;
    return !*a && !*b;
}

/* The job's key that such an option would set: --learning-rate -> optimizer.learning_rate. NULL: none. */
static const char *key_of(const cli_option *table, const char *name)
{
    static iso_job_key key;
    if (!find(table, "set", 3))
        return NULL;
    for (uint32_t i = 0; iso_job_key_at(i, &key); i++) {
        const char *dot = strrchr(key.path, '.');
        const char *word = dot ? dot + 1 : key.path;
        if (dot && same_word(name, word))
            return key.path;
    }
    return NULL;
}

static int unknown(const cli_option *table, const char *word, size_t length, iso_error *e)
{
    const char *names[64];
    char name[64];
    size_t count = 0;
    for (const cli_option *o = table; o->name && count < 64; o++)
        names[count++] = o->name;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word);
    const char *key = key_of(table, name);
    if (key)
        return iso_error_set(e, ISO_E_ARGUMENT, "unknown option --%s; --set %s=VALUE sets that key of the job", name,
                             key);
    const char *near = iso_nearest_word(name, names, count);
    return iso_error_set(e, ISO_E_ARGUMENT, "unknown option --%s%s%s%s", name, near ? "; did you mean --" : "",
                         near ? near : "", near ? "?" : "");
}

/* One --option at argv[*at]; *at moves on when its value is the next word. */
static int read_option(cli_arguments *a, const cli_option *table, int argc, char **argv, int *at, iso_error *e)
{
    const char *word = argv[*at] + 2, *sign = strchr(word, '='), *value = NULL;
    size_t length = sign ? (size_t)(sign - word) : strlen(word);
    const cli_option *o = find(table, word, length);
    if (!o)
        return unknown(table, word, length, e);
    if (!o->argument && sign)
        return iso_error_set(e, ISO_E_ARGUMENT, "--%s takes no value", o->name);
    if (o->argument) {
        if (sign)
            value = sign + 1;
        else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2))
            value = argv[++*at];
        else
            return iso_error_set(e, ISO_E_ARGUMENT, "--%s wants a value: --%s %s", o->name, o->name, o->argument);
    }
    a->given[a->given_count].option = o;
    a->given[a->given_count++].value = value;
    return ISO_OK;
}

int cli_arguments_read(cli_arguments *a, const cli_option *table, int argc, char **argv, iso_error *e)
{
    memset(a, 0, sizeof *a);
    size_t room = (size_t)argc + 1;
    a->given = calloc(room, sizeof *a->given);
    a->word = calloc(room, sizeof *a->word);
    int r = a->given && a->word ? ISO_OK : iso_error_set(e, ISO_E_NOMEM, "out of memory");
    bool options = true;
    for (int i = 0; i < argc && !r; i++) {
        if (!options || argv[i][0] != '-' || !argv[i][1])
            a->word[a->word_count++] = argv[i];
        else if (!strcmp(argv[i], "--"))
            options = false;
        else if (!strcmp(argv[i], "-h") && find(table, "help", 4))
            a->given[a->given_count++].option = find(table, "help", 4);
        else if (argv[i][1] != '-')
            r = iso_error_set(e, ISO_E_ARGUMENT, "unknown option %s; options have two dashes", argv[i]);
        else
            r = read_option(a, table, argc, argv, &i, e);
    }
    if (r)
        cli_arguments_clear(a);
    return r;
}

void cli_arguments_clear(cli_arguments *a)
{
    free(a->given);
    free(a->word);
    memset(a, 0, sizeof *a);
}

const char *cli_given(const cli_arguments *a, const char *name)
{
    for (size_t i = a->given_count; i-- > 0;)
        if (!strcmp(a->given[i].option->name, name))
            return a->given[i].value ? a->given[i].value : "";
    return NULL;
}

void cli_options_print(const cli_option *table)
{
    for (const cli_option *o = table; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

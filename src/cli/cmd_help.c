/* SPDX-License-Identifier: Apache-2.0
 * isochron help: commands, keys of the job file, layers, policies, all out of their tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "isochron/core.h"
#include "isochron/data.h"

const cli_command *const cli_commands[] = {
    &cli_train, &cli_evaluate, &cli_predict, &cli_check, &cli_inspect, &cli_audit, &cli_simulate, &cli_compare, &cli_help, NULL,
};

static const cli_option options[] = {
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (!strcmp((*c)->name, name))
            return *c;
    return NULL;
}

void cli_command_print(const cli_command *c)
{
    printf("isochron %s%s%s [OPTIONS]\n%s\n\n%s\n\nOptions:\n", c->name, c->words[0] ? " " : "", c->words, c->summary,
           c->help);
    cli_options_print(c->options);
}

static void print_overview(void)
{
    printf("isochron COMMAND ...\nTrains feed-forward networks on machines that are not equally fast, to the same bits "
           "on any number "
           "of workers.\n\nCommands:\n");
    for (const cli_command *const *c = cli_commands; *c; c++)
        printf("  %-10s %s\n", (*c)->name, (*c)->summary);
    printf("\n`isochron COMMAND --help` tells more; `isochron help job`, `help layers`, `help sync`, `help formats` "
           "list what a job\n"
           "file can say. Exit status: 0 done, 1 failed, 2 wrong arguments or job file, 3 an audit that lacks a witness,\n"
           "10 or 11 a simulation that found a fault, 128+n stopped by signal n.\n\n"
           "  isochron train --model lenet5 --data /usr/share/datasets/fashion-mnist\n");
}

static void print_job(void)
{
    iso_job_key key;
    printf("Keys of a job file (YAML). data and model are required; --set KEY=VALUE sets any of them.\n\n");
    for (uint32_t i = 0; iso_job_key_at(i, &key); i++) {
        printf("%-26s %s", key.path, key.help);
        if (key.standard[0])
            printf(" [%s]", key.standard);
        printf("\n");
    }
}

/* One option of a layer or a policy: bounds or words, default, help. */
static void print_option(const iso_option *o)
{
    char min[ISO_NUMBER_TEXT], max[ISO_NUMBER_TEXT], standard[ISO_NUMBER_TEXT];
    printf("    %-14s ", o->name);
    if (o->type == ISO_OPTION_CHOICE) {
        for (uint32_t i = 0; o->choices[i]; i++)
            printf("%s%s", i ? "|" : "", o->choices[i]);
    } else if (o->type == ISO_OPTION_BOOL) {
        printf("true|false");
    } else {
        iso_print_double(min, o->min);
        iso_print_double(max, o->max);
        printf("%s %s..%s", o->type == ISO_OPTION_INT ? "whole" : "number", min, max);
    }
    if (isnan(o->standard))
        printf(", required");
    else if (o->type == ISO_OPTION_CHOICE)
        printf(" [%s]", o->choices[(uint32_t)o->standard]);
    else if (o->type == ISO_OPTION_BOOL)
        printf(" [%s]", o->standard != 0 ? "true" : "false");
    else if (iso_print_double(standard, o->standard))
        printf(" [%s]", standard);
    printf(": %s\n", o->help);
}

static void print_layers(void)
{
    printf("Layers of model.layers, with their options [default]. `dense: 120` is short for its first option.\n\n");
    for (uint32_t i = 0; i < iso_layer_kind_count(); i++) {
        const iso_layer_kind *kind = iso_layer_kind_at(i);
        uint32_t count;
        const iso_option *o = iso_layer_kind_options(kind, &count);
        printf("%-18s %s\n", iso_layer_kind_name(kind), iso_layer_kind_help(kind));
        for (uint32_t k = 0; k < count; k++)
            print_option(&o[k]);
    }
    printf("\nPresets of `model`:");
    for (uint32_t i = 0; iso_preset_at(i); i++)
        printf(" %s", iso_preset_at(i));
    printf("\n");
}

/* A line a policy, to choose by; then what each can be told. */
void cli_print_policies(void)
{
    printf("Policies of `sync`: how the nodes agree on the weights, and where each comes from.\n\n");
    for (uint32_t i = 0; i < iso_policy_count(); i++) {
        const iso_policy *p = iso_policy_at(i);
        printf("%-12s %s\n%12s from: %s\n", iso_policy_name(p), iso_policy_summary(p), "", iso_policy_source(p));
    }
    printf("\nTheir parameters [default]: --sync NAME:KEY=VALUE:KEY=VALUE, or sync: {policy: NAME, KEY: VALUE}.\n\n");
    for (uint32_t i = 0; i < iso_policy_count(); i++) {
        const iso_policy *p = iso_policy_at(i);
        uint32_t count;
        const iso_option *o = iso_policy_parameters(p, &count);
        if (count)
            printf("  %s\n", iso_policy_name(p));
        for (uint32_t k = 0; k < count; k++)
            print_option(&o[k]);
    }
}

static void print_formats(void)
{
    printf("Formats of `data.format`; auto looks at the content.\n\n");
    for (uint32_t i = 0; iso_format_at(i); i++)
        printf("%-14s %s\n", iso_format_at(i), iso_format_help(iso_format_at(i)));
}

static int run(const cli_arguments *a)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } topics[] = {
        {"job", print_job}, {"layers", print_layers}, {"sync", cli_print_policies}, {"formats", print_formats}};
    if (!a->word_count) {
        print_overview();
        return 0;
    }
    const cli_command *c = cli_command_find(a->word[0]);
    if (c) {
        cli_command_print(c);
        return 0;
    }
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (!strcmp(a->word[0], topics[i].name)) {
            topics[i].print();
            return 0;
        }
    cli_error("no help on '%s'; there is help on the commands and on job, layers, sync, formats", a->word[0]);
    return 2;
}

const cli_command cli_help = {
    .name = "help",
    .words = "[COMMAND|job|layers|sync|formats]",
    .summary = "what there is",
    .help = "Without a word: the commands.",
    .options = options,
    .most = 1,
    .run = run,
};

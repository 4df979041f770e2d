/* SPDX-License-Identifier: Apache-2.0
 * isochron: the command. Finds the command's row, reads its arguments, runs it. Exit status: 0 done, 1 failed, 2 wrong
 * arguments or job file, 128+n stopped by signal n. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"

#ifndef ISO_VERSION
#error "the build gives ISO_VERSION"
#endif

static int unknown_command(const char *name)
{
    const char *words[16];
    size_t count = 0;
    for (const cli_command *const *c = cli_commands; *c; c++)
        words[count++] = (*c)->name;
    const char *near = iso_nearest_word(name, words, count);
    if (near)
        cli_error("unknown command '%s'; did you mean '%s'?", name, near);
    else
        cli_error("unknown command '%s'; `isochron help` lists the commands", name);
    return 2;
}

static int run_command(const cli_command *c, int argc, char **argv)
{
    cli_arguments a;
    iso_error e = {0};
    if (cli_arguments_read(&a, c->options, argc, argv, &e)) {
        cli_error("%s\ntry: isochron %s --help", e.text, c->name);
        return e.code == ISO_E_NOMEM ? 1 : 2;
    }
    int status = 2;
    if (cli_given(&a, "help")) {
        cli_command_print(c);
        status = 0;
    } else if (a.word_count > c->most) {
        cli_error("%s: '%s' is one word too many\nusage: isochron %s %s [OPTIONS]", c->name, a.word[c->most], c->name,
                  c->words);
    } else if (a.word_count < c->least) {
        cli_error("usage: isochron %s %s [OPTIONS]\ntry: isochron %s --help", c->name, c->words, c->name);
    } else {
        status = c->run(&a);
    }
    cli_arguments_clear(&a);
    return status;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an error of the write: output.h */
    signal(SIGXFSZ, SIG_IGN); /* so is a file beyond `ulimit -f`: it is told with its path, and nothing half is left */
    int status = 2;
    if (argc < 2) {
        char *none[] = {NULL};
        fprintf(stderr, "isochron: a command is missing\n");
        run_command(&cli_help, 0, none);
    } else if (!strcmp(argv[1], "--version")) {
        printf("isochron %s\n", ISO_VERSION);
        status = 0;
    } else if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        status = run_command(&cli_help, argc - 2, argv + 2);
    } else {
        const cli_command *c = cli_command_find(argv[1]);
        status = c ? run_command(c, argc - 2, argv + 2) : unknown_command(argv[1]);
    }
    return cli_output_end(status);
}

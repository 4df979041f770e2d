/* SPDX-License-Identifier: Apache-2.0
 * isochron check: what a job would do. Reads the data, builds the network, counts; trains nothing and writes nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "cli/plan.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/output.h"
#include "isochron/train.h"

static const cli_option options[] = {
    CLI_JOB_OPTIONS,
    CLI_ISA_OPTION,
    {"json", NULL, NULL, "the result as JSON"},
    {"help", NULL, NULL, "this text"},
    {NULL, NULL, NULL, NULL},
};

static void shape_text(iso_shape s, char out[40])
{
    if (s.h == 1 && s.w == 1)
        snprintf(out, 40, "%u", s.c);
    else
        snprintf(out, 40, "%ux%ux%u", s.c, s.h, s.w);
}

static void print_layers(const iso_net *net)
{
    double flops = 0;
    printf("\n%-16s %-14s %-14s %12s %14s\n", "layer", "in", "out", "parameters", "FLOPs/sample");
    for (uint32_t i = 0; i < iso_net_layer_count(net); i++) {
        iso_layer_info l = iso_net_layer(net, i);
        char in[40], out[40];
        shape_text(l.in, in);
        shape_text(l.out, out);
        printf("%-16s %-14s %-14s %12s %14s\n", l.name, in, out, cli_grouped(l.parameters),
               cli_grouped((uint64_t)l.flops));
        flops += l.flops;
    }
    printf("%-16s %-14s %-14s %12s %14s\n", "all", "", "", cli_grouped(iso_net_parameters(net)),
           cli_grouped((uint64_t)flops));
}

static void print_data(const cli_plan *p)
{
    char shape[40];
    shape_text(p->data.train.shape, shape);
    printf("data          %s\n", p->data.train.source);
    printf("              %s samples of %s, %u classes: %s train", cli_grouped(p->data.train.count), shape, p->classes,
           cli_grouped(p->training));
    if (p->validation)
        printf(", %s validation", cli_grouped(p->validation));
    if (p->data.has_test)
        printf(", %s test", cli_grouped(p->data.test.count));
    printf("\n");
}

static void print_plan(const cli_plan *p)
{
    const iso_job *job = p->job;
    printf("job           %s\n", job->name);
    print_data(p);
    print_layers(p->net);
    printf("\nround         batch %s in units of %u: %s round%s an epoch, %s in all, %u epochs\n",
           cli_grouped(p->batch), p->unit, cli_grouped(p->rounds_per_epoch), p->rounds_per_epoch == 1 ? "" : "s",
           cli_grouped(p->rounds), job->epochs);
    printf("policy        %s, %u %s, %s\n", job->policy, p->workers, p->workers == 1 ? "worker" : "workers",
           iso_isa_name(iso_net_isa(p->net)));
    printf("memory        about %s: data %s, parameters %s, optimiser %s, workers %s\n", cli_bytes(p->memory_all),
           cli_bytes(p->memory_data), cli_bytes(p->memory_parameters), cli_bytes(p->memory_training),
           cli_bytes(p->memory_workers));
    if (job->out[0])
        printf("run folder    %s\n", job->out);
    else
        printf("run folder    runs/%s, numbered when that is taken\n", job->name);
}

static void layers_json(cli_json *j, const iso_net *net)
{
    cli_json_open(j, "layers", '[');
    for (uint32_t i = 0; i < iso_net_layer_count(net); i++) {
        iso_layer_info l = iso_net_layer(net, i);
        const iso_shape shapes[2] = {l.in, l.out};
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", l.name);
        cli_json_text(j, "kind", l.kind);
        for (int s = 0; s < 2; s++) {
            cli_json_open(j, s ? "out" : "in", '[');
            cli_json_whole(j, NULL, shapes[s].c);
            cli_json_whole(j, NULL, shapes[s].h);
            cli_json_whole(j, NULL, shapes[s].w);
            cli_json_close(j, ']');
        }
        cli_json_whole(j, "parameters", l.parameters);
        cli_json_whole(j, "flops", (uint64_t)l.flops);
        cli_json_whole(j, "unused_rows", l.unused_rows);
        cli_json_whole(j, "unused_columns", l.unused_columns);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static int plan_json(const cli_plan *p)
{
    cli_json j;
    cli_json_init(&j);
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "name", p->job->name);
    cli_json_whole(&j, "parameters", iso_net_parameters(p->net));
    layers_json(&j, p->net);
    cli_json_open(&j, "data", '{');
    cli_json_whole(&j, "train", p->training);
    cli_json_whole(&j, "validation", p->validation);
    cli_json_whole(&j, "test", p->data.has_test ? p->data.test.count : 0);
    cli_json_whole(&j, "classes", p->classes);
    cli_json_text(&j, "source", p->data.train.source);
    cli_json_close(&j, '}');
    cli_json_open(&j, "memory", '{');
    cli_json_number(&j, "all", p->memory_all);
    cli_json_number(&j, "data", p->memory_data);
    cli_json_number(&j, "parameters", p->memory_parameters);
    cli_json_number(&j, "training", p->memory_training);
    cli_json_number(&j, "workers", p->memory_workers);
    cli_json_close(&j, '}');
    cli_json_whole(&j, "batch", p->batch);
    cli_json_whole(&j, "unit", p->unit);
    cli_json_whole(&j, "rounds_per_epoch", p->rounds_per_epoch);
    cli_json_whole(&j, "rounds", p->rounds);
    cli_json_whole(&j, "epochs", p->job->epochs);
    cli_json_whole(&j, "workers", p->workers);
    cli_json_text(&j, "sync", p->job->policy);
    cli_json_text(&j, "isa", iso_isa_name(iso_net_isa(p->net)));
    cli_json_text(&j, "out", p->job->out[0] ? p->job->out : NULL);
    cli_json_open(&j, "warnings", '[');
    for (uint32_t i = 0; i < p->warning_count; i++)
        cli_json_text(&j, NULL, p->warning[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    return cli_json_end(&j);
}

static int run(const cli_arguments *a)
{
    static iso_job job;
    static cli_plan plan;
    iso_isa isa;
    iso_error e = {0};
    if (cli_given(a, "sync") && !strcmp(cli_given(a, "sync"), "help")) {
        cli_print_policies();
        return 0;
    }
    int status = cli_isa_read(a, &isa);
    if (!status)
        status = cli_job_read(a, a->word_count ? a->word[0] : NULL, &job);
    if (status)
        return status;
    int r = cli_plan_make(&plan, &job, isa, &e);
    if (r)
        return cli_job_failed(r, &e);
    for (uint32_t i = 0; i < plan.warning_count; i++)
        cli_warning("%s", plan.warning[i]);
    if (cli_given(a, "json"))
        status = plan_json(&plan);
    else
        print_plan(&plan);
    cli_plan_clear(&plan);
    return status;
}

const cli_command cli_check = {
    .name = "check",
    .words = "[JOB.yaml]",
    .summary = "what a job would do: shapes, parameters, memory; trains nothing",
    .help = "Takes what train takes. Reads all data, builds the network, and writes nothing.\n"
            "  isochron check examples/lenet5-fashion.yaml",
    .options = options,
    .most = 1,
    .run = run,
};

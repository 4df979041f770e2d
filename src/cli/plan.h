/* SPDX-License-Identifier: Apache-2.0
 * The plan of a job: everything that can be said before a training. */
#ifndef ISO_CLI_PLAN_H
#define ISO_CLI_PLAN_H

#include "engine/file/open_data.h"
#include "isochron/job.h"

#define CLI_WARNINGS_MAX 32u

typedef struct cli_plan {
    const iso_job *job;
    iso_data data;
    iso_view train_part, validation_part; /* of the training set */
    iso_net *net;
    uint32_t classes, unit, workers;
    uint64_t training, validation; /* samples */
    uint64_t batch;               /* of a full round, as the policy sees it */
    uint64_t rounds_per_epoch, rounds;
    double memory_data, memory_parameters, memory_training, memory_workers, memory_all; /* bytes, about */
    char warning[CLI_WARNINGS_MAX][800];
    uint32_t warning_count;
} cli_plan;

/* Opens the data and builds the network of a finished job, which must outlive the plan. Errors as those of iso_data_open and
 * iso_net_new, with the place in the job file in front. */
int cli_plan_make(cli_plan *p, const iso_job *job, iso_isa isa, iso_error *e);
void cli_plan_clear(cli_plan *p);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Train a job on a cluster that is not there: the protocol core and (unless told otherwise) the real arithmetic, in virtual
 * time, on one thread. The same job, cluster and seeds give the same run folder, byte for byte but for the time of day.
 *
 * Intended use: as iso_train (isochron/train.h), with a cluster of isochron/cluster.h. The run folder is the same; all times
 * in it are virtual. While it runs, checkers look at every event: samples count exactly once, replicas are equal, rounds only
 * grow, and something happens within a bounded time.
 *
 * Thread rule: as iso_train. */
#ifndef ISOCHRON_SIMULATE_H
#define ISOCHRON_SIMULATE_H

#include "isochron/cluster.h"
#include "isochron/train.h"

/* Faults planted in the engine, that its own checkers have to find. */
typedef enum iso_canary {
    ISO_CANARY_NONE,
    ISO_CANARY_DOUBLE_COUNT, /* a unit is counted twice */
    ISO_CANARY_BIT_FLIP,     /* one bit of a node's weights turns after receipt */
    ISO_CANARY_LOST_WAKEUP   /* a frame is lost, and the timer that would repeat it */
} iso_canary;

typedef struct iso_simulate_options {
    const iso_cluster *cluster; /* borrowed */
    bool draw_faults;           /* losses, crashes and pauses drawn from fault_seed come on top of the cluster's own ... */
    uint64_t fault_seed;        /* ... for a while; then everything heals. Also the seed of noise; else the job's is */
    bool cost_model;            /* no arithmetic: time passes, frames travel, weights stay as they are, no model is written */
    iso_canary canary;
    bool trace;                 /* trace.json in the run folder */
} iso_simulate_options;

/* As iso_train; options: its workers, throttle, calibrate have no meaning here. Errors beside those of iso_train:
 * ISO_E_WRONG  a checker found that something is not right; the text says what, and when
 * ISO_E_STUCK  nothing that counts happened for so long that nothing will */
ISO_API int iso_simulate(const struct iso_job *job, const iso_train_options *options, const iso_simulate_options *simulate,
                         iso_summary *summary, iso_error *e);

#endif

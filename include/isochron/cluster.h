/* SPDX-License-Identifier: Apache-2.0
 * A cluster to be simulated: machines that are not equally fast, the links between them and the coordinator, and what happens
 * to them. Read from a cluster file (YAML); examples/clusters shows all of it.
 *
 *     link: {bandwidth: 1Gbit, latency: 0.5ms, loss: 2/1000, duplicate: 0, reorder: 5/1000}
 *     coordinator: {bandwidth: 10Gbit}
 *     nodes:
 *       - {name: a, speed: 4000, overhead: 20us, memory: 4GiB}
 *       - {name: w, count: 250, speed: 500, noise: 0.05, outliers: {rate: 1/100, factor: 4}}
 *       - {name: c, speed: 1000, drift: {shape: sine, amplitude: 0.5, period: 20s}}
 *       - {name: d, speed: 500, bursts: {every: 10s, length: 2s, factor: 0.4},
 *          events: [{at: 10s, speed: 125}, {at: 20s, pause: 3s}, {at: 30s, crash: true}, {at: 40s, join: true}]}
 *
 * Units are written: bit kbit Mbit Gbit B kB MB GB (a second) for bandwidths, ns us ms s min h for times, B kB MB GB KiB MiB GiB
 * for sizes; probabilities are ratios of whole numbers, so that a simulation replays bit for bit on every machine. A link is
 * 1 Gbit and 0.5 ms unless the file says otherwise; the coordinator's own has the bandwidth of `link`.
 *
 * Thread: a cluster is immutable once it is read; any thread. */
#ifndef ISOCHRON_CLUSTER_H
#define ISOCHRON_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/error.h"

#define ISO_CLUSTER_NODES_MAX 65536u     /* machines */
#define ISO_CLUSTER_NAME_MAX 32u         /* bytes of a machine's name with the NUL */

/* A probability: numerator of denominator, denominator > 0, numerator <= denominator. */
typedef struct iso_ratio {
    uint32_t numerator, denominator;
} iso_ratio;

/* A machine's way to the coordinator and back; both directions are alike and do not disturb each other. */
typedef struct iso_link {
    double bandwidth;                    /* bytes a second; 0: unlimited */
    int64_t latency;                     /* ns */
    iso_ratio loss, duplicate, reorder;  /* of each packet; a reordered one comes some latencies late */
} iso_link;

typedef enum iso_drift_shape { ISO_DRIFT_NONE, ISO_DRIFT_SINE, ISO_DRIFT_TRIANGLE, ISO_DRIFT_SQUARE } iso_drift_shape;

typedef enum iso_machine_event_kind {
    ISO_MACHINE_SPEED,                   /* from now on `speed` */
    ISO_MACHINE_PAUSE,                   /* stands still for `length` */
    ISO_MACHINE_CRASH,                   /* is gone, with all it holds */
    ISO_MACHINE_JOIN                     /* comes back; comes, when there is no crash before */
} iso_machine_event_kind;

typedef struct iso_machine_event {
    iso_machine_event_kind kind;
    int64_t at;                          /* ns */
    double speed;                        /* SPEED: samples a second */
    int64_t length;                      /* PAUSE: ns */
} iso_machine_event;

typedef struct iso_machine {
    char name[ISO_CLUSTER_NAME_MAX];
    double speed;                        /* samples a second of the job's model, > 0 */
    int64_t overhead;                    /* ns before the first sample of a lease */
    uint64_t memory;                     /* bytes; 0: enough */
    double noise;                        /* a lease's time is multiplied by e^(noise x), x normally distributed */
    iso_ratio outliers;                  /* so many leases take ... */
    double outlier_factor;               /* ... so many times as long */
    iso_drift_shape drift;               /* speed * (1 + amplitude shape(time / period)) */
    double amplitude;                    /* 0 .. below 1 */
    int64_t period;                      /* ns */
    int64_t burst_every, burst_length;   /* a neighbour works once in each `every` ns, for `length`; 0: none */
    double burst_factor;                 /* speed is multiplied by it meanwhile */
    iso_link link;
    uint32_t event, events;              /* place and number in iso_cluster.event; by time */
} iso_machine;

typedef struct iso_cluster {
    double bandwidth;                    /* of the coordinator's own link, bytes a second each way; 0: unlimited */
    iso_machine *machine;                /* [count], names are unique */
    uint32_t count;
    iso_machine_event *event;            /* of all machines; those of one `count` share theirs */
    uint32_t event_count;
    const iso_alloc *alloc;
} iso_cluster;

/* Reads a cluster file's text. file: its name, for messages. text: length bytes, borrowed. *out is cleared by the caller, and
 * holds nothing after an error. Errors: ISO_E_JOB ("FILE:LINE:COLUMN: " and what is wrong: not YAML, unknown or repeated key,
 * wrong unit or bounds, no nodes), ISO_E_NOMEM. */
ISO_API int iso_cluster_parse(iso_cluster *out, const char *file, const char *text, size_t length, const iso_alloc *a,
                              iso_error *e);
ISO_API void iso_cluster_clear(iso_cluster *c);

/* Sum of the machines' speeds at the start, samples a second. */
ISO_API double iso_cluster_speed(const iso_cluster *c);

#endif

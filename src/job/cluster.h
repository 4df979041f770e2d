/* SPDX-License-Identifier: Apache-2.0
 * Values of a cluster file: numbers with units. Place: job, between the tree and cluster.c. Pure. */
#ifndef ISO_JOB_CLUSTER_H
#define ISO_JOB_CLUSTER_H

#include "isochron/cluster.h"

typedef enum cluster_type {
    CLUSTER_NAME,                 /* char[ISO_CLUSTER_NAME_MAX] */
    CLUSTER_COUNT,                /* uint32_t */
    CLUSTER_NUMBER,               /* double */
    CLUSTER_TIME,                 /* int64_t, ns */
    CLUSTER_SIZE,                 /* uint64_t, bytes */
    CLUSTER_BANDWIDTH,            /* double, bytes a second */
    CLUSTER_RATIO,                /* iso_ratio */
    CLUSTER_SHAPE,                /* iso_drift_shape */
    CLUSTER_TRUE                  /* bool: the word true */
} cluster_type;

/* One key of a map of the file. */
typedef struct cluster_key {
    const char *name;
    cluster_type type;
    size_t offset;                /* in the struct that the map fills */
    double min, max;              /* of COUNT, NUMBER, TIME (ns), SIZE, BANDWIDTH */
} cluster_key;

/* Sets the member of `key` in *to from a scalar's text. where: "nodes.speed", begins the message. Errors: ISO_E_JOB, without a
 * place. */
int iso_cluster_value(const cluster_key *key, void *to, const char *where, const char *text, iso_error *e);

#endif

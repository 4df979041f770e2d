/* SPDX-License-Identifier: Apache-2.0
 * What is going to happen, by time; what comes at the same time comes in the order in which it was put in.
 *
 * Place: engine/simulate. Thread: one at a time. */
#ifndef ISO_ENGINE_SIMULATE_QUEUE_H
#define ISO_ENGINE_SIMULATE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "isochron/alloc.h"

typedef enum sim_kind {
    SIM_PACKET,  /* the first byte of a message has come to the second wire of its way; what: its index, serial: 1 up, 0 down */
    SIM_MESSAGE, /* all of it has arrived; as before */
    SIM_UNIT,    /* a node has done the next unit of its order; serial: the order's */
    SIM_TIMER,   /* serial: of the WAKE */
    SIM_UPDATED, /* what: slice */
    SIM_FATE,    /* what: index of the node's event */
    SIM_LOST,    /* the coordinator is told that a node is gone */
    SIM_HEAL     /* the fault phase is over */
} sim_kind;

typedef struct sim_event {
    int64_t at;
    uint64_t sequence, serial;
    sim_kind kind;
    uint32_t node; /* ISO_COORDINATOR: the coordinator */
    uint32_t what;
} sim_event;

typedef struct sim_queue {
    sim_event *event; /* a heap */
    uint32_t count, capacity;
    uint64_t sequence;
    const iso_alloc *alloc;
} sim_queue;

/* false: no memory. */
bool sim_queue_put(sim_queue *q, const sim_event *event);
/* The first one; false when there is none. */
bool sim_queue_take(sim_queue *q, sim_event *out);

#endif

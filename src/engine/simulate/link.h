/* SPDX-License-Identifier: Apache-2.0
 * When bytes arrive: a star of links, each node's own one and the coordinator's, which all share. A link carries one packet
 * after the other; a packet goes on as its first byte has come (it need not be whole), so the slower link decides.
 *
 * Place: engine/simulate. Pure. Thread: one at a time. */
#ifndef ISO_ENGINE_SIMULATE_LINK_H
#define ISO_ENGINE_SIMULATE_LINK_H

#include <stdint.h>

#include "isochron/cluster.h"

/* One direction of one link. */
typedef struct sim_wire {
    int64_t busy_until;
} sim_wire;

/* Sends `bytes` at `now` over `first` (bandwidth `first_rate` bytes a second, 0: unlimited), `latency`, then `second`; returns
 * when the last byte is there, and takes the wires for it. */
int64_t sim_wire_send(sim_wire *first, double first_rate, sim_wire *second, double second_rate, int64_t latency, int64_t now,
                      double bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * When bytes arrive: a star of links, each node's own one and the coordinator's, which all share. A packet crosses two wires
 * with the latency between them. A wire is taken by transmission alone, never by a packet that is still under way: it carries
 * one packet after the other, in the order in which their first bytes come to it. Bytes go on as they come (a packet need not be
 * whole to be sent on), so of two wires that are free the slower one decides.
 *
 * A packet of `bytes` whose first byte comes at `first` and whose last one comes at `last` to a wire of `rate` bytes a second
 *     begins  at max(first, when the wire is free), and takes the wire for bytes / rate
 *     is over at max(begin + bytes / rate, last)
 * It leaves the sender at first = last = now, and the latency is added to both between the wires. Whose turn it is on the
 * second wire is known only when the first byte is there: that is an event of its own (SIM_PACKET).
 *
 * Place: engine/simulate. Pure. Thread: one at a time. */
#ifndef ISO_ENGINE_SIMULATE_LINK_H
#define ISO_ENGINE_SIMULATE_LINK_H

#include <stdint.h>

/* One direction of one link. */
typedef struct sim_wire {
    int64_t busy_until;
} sim_wire;

/* When the first and the last byte of a packet are at a place. */
typedef struct sim_passage {
    int64_t first, last;
} sim_passage;

/* Takes the wire for a packet of `bytes` that comes as `comes` says, first bytes in order; rate 0: unlimited. Returns when it
 * leaves the wire's other end. Times stay below 2^62 ns, more than a century, however slow the wire. */
sim_passage sim_wire_carry(sim_wire *wire, double rate, sim_passage comes, double bytes);

#endif

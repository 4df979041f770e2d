/* SPDX-License-Identifier: Apache-2.0
 * Times on wires (link.h). */
#include "engine/simulate/link.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ns_of(double bytes, double rate)
{
    double ns = rate > 0 ? bytes * 1e9 / rate : 0;
    return ns < 1e18 ? (int64_t)(ns + 0.5) : (int64_t)1e18;
}

int64_t sim_wire_send(sim_wire *first, double first_rate, sim_wire *second, double second_rate, int64_t latency, int64_t now,
                      double bytes)
{
    int64_t begin = later(now, first->busy_until), sent = begin + ns_of(bytes, first_rate);
    first->busy_until = sent;
    int64_t comes = later(begin + latency, second->busy_until), taken = comes + ns_of(bytes, second_rate);
    second->busy_until = taken;
    return later(taken, sent + latency);
}

/* SPDX-License-Identifier: Apache-2.0
 * Times on wires (link.h). */
#include "engine/simulate/link.h"

#define LATEST ((int64_t)1 << 62) /* later than any run; sums of it and a latency stay in 64 bits */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t after(int64_t begin, double bytes, double rate)
{
    double ns = rate > 0 ? bytes * 1e9 / rate : 0;
    return ns < (double)(LATEST - begin) ? begin + (int64_t)(ns + 0.5) : LATEST;
}

sim_passage sim_wire_carry(sim_wire *wire, double rate, sim_passage comes, double bytes)
{
    int64_t begin = later(comes.first, wire->busy_until);
    wire->busy_until = after(begin, bytes, rate);
    return (sim_passage){begin, later(wire->busy_until, comes.last)};
}

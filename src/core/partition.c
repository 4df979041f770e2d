/* SPDX-License-Identifier: Apache-2.0
 * Whole units for uneven nodes: see partition.h. */
#include "core/partition.h"

#include <math.h>

static bool usable(const iso_share *s)
{
    return s->unit_ns > 0 && s->unit_ns < (double)INFINITY && s->fixed_ns >= 0 && s->fixed_ns < (double)INFINITY;
}

/* Units a node gets done until `end`, in parts too. */
static double done_by(const iso_share *s, double end)
{
    if (!usable(s))
        return s->least;
    double units = (end - s->fixed_ns) / s->unit_ns;
    return units < s->least ? s->least : units < s->most ? units : s->most;
}

static double all_done_by(const iso_share *share, uint32_t count, double end)
{
    double units = 0;
    for (uint32_t i = 0; i < count; i++)
        units += done_by(&share[i], end);
    return units;
}

/* A time by which at most `units` units are done, and but for the rounding of the search no fewer: the chord of the bracket
 * (with its stuck end weighed down: the Illinois rule) until it holds a thousandth of a unit a node, which takes a handful of
 * sweeps; halving in between keeps it from ever taking many. */
static double equal_finish(const iso_share *share, uint32_t count, double units)
{
    double low = 0, high = 0, rate = 0, work = units;
    for (uint32_t i = 0; i < count; i++) {
        if (!usable(&share[i]))
            continue;
        rate += 1 / share[i].unit_ns;
        work += share[i].fixed_ns / share[i].unit_ns;
        double full = share[i].fixed_ns + share[i].unit_ns * (units < share[i].most ? units : share[i].most);
        high = full > high ? full : high;
    }
    if (!(rate > 0))
        return 0;
    const double close = 1e-3 * count;
    double below = units - all_done_by(share, count, low), above = all_done_by(share, count, high) - units;
    double guess = work / rate; /* exact when no bound holds */
    if (below <= 0)
        return low;
    for (int sweep = 0; sweep < 100 && above > 0; sweep++) {
        if (!(guess > low && guess < high))
            guess = low + (high - low) / 2;
        double more = all_done_by(share, count, guess) - units;
        if (more <= 0) {
            low = guess;
            below = -more;
            if (below <= close)
                return low;
        } else {
            high = guess;
            above = more;
        }
        guess = sweep % 3 == 2 ? low + (high - low) / 2 : low + (high - low) * (below / (below + above));
        guess = sweep % 3 == 0 ? guess - (guess - low) * 1e-9 : guess;
    }
    return above > 0 ? low : high;
}

/* ---- the left-over units: a heap of nodes by when they would end one more ---- */

static bool sooner(const iso_share *share, uint32_t a, uint32_t b)
{
    double ends_a = iso_share_end(&share[a], share[a].units + 1), ends_b = iso_share_end(&share[b], share[b].units + 1);
    return ends_a < ends_b || (ends_a == ends_b && a < b);
}

static void sink(const iso_share *share, uint32_t *heap, uint32_t count, uint32_t at)
{
    uint32_t moved = heap[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && sooner(share, heap[child + 1], heap[child]))
            child++;
        if (!sooner(share, heap[child], moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static uint64_t give_rest(iso_share *share, uint32_t count, uint64_t rest, uint32_t *heap)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        if (usable(&share[i]) && share[i].units < share[i].most)
            heap[size++] = i;
    for (uint32_t i = size / 2; i-- > 0;)
        sink(share, heap, size, i);
    for (; rest > 0 && size > 0; rest--) {
        iso_share *first = &share[heap[0]];
        if (++first->units == first->most)
            heap[0] = heap[--size];
        sink(share, heap, size, 0);
    }
    return rest;
}

uint64_t iso_partition(iso_share *share, uint32_t count, uint64_t units, uint32_t *heap)
{
    uint64_t given = 0;
    double end = equal_finish(share, count, (double)units);
    for (uint32_t i = 0; i < count; i++) {
        share[i].units = (uint32_t)done_by(&share[i], end);
        given += share[i].units;
    }
    if (given >= units)
        return given;
    return units - give_rest(share, count, units - given, heap);
}

double iso_partition_makespan(const iso_share *share, uint32_t count)
{
    double longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        double end = iso_share_end(&share[i], share[i].units);
        longest = end > longest ? end : longest;
    }
    return longest;
}

bool iso_partition_keep(double before, double best)
{
    return best > before * (1 - ISO_SHARE_GAIN);
}

/* ---- parking ---- */

bool iso_parking_skip(iso_parking *p)
{
    if (p->wait == 0)
        p->wait = ISO_PARKED_ROUNDS;
    if (++p->rounds < p->wait)
        return false;
    p->rounds = 0;
    p->wait = p->wait < ISO_PARKED_MOST ? 2 * p->wait : ISO_PARKED_MOST;
    return true;
}

void iso_parking_join(iso_parking *p)
{
    *p = (iso_parking){0, ISO_PARKED_ROUNDS};
}

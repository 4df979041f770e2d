/* SPDX-License-Identifier: Apache-2.0
 * Speeds over time (speed.h). */
#include "engine/simulate/speed.h"

#include "base/elementary.h"
#include "base/rng.h"

#define DRIFT_STEPS 64   /* a period is so many pieces of constant speed */
#define MANY_PERIODS 100 /* so many whole ones and more are gone through at once, at their mean speed */
#define MANY_BURSTS 1000

enum { STREAM_ORDER, STREAM_BURST };

static iso_rng stream(uint64_t seed, uint32_t id, uint32_t what, uint64_t index)
{
    return iso_rng_make(&(iso_rng_key){.seed = seed, .purpose = ISO_PURPOSE_NOISE, .epoch = id, .index = index, .layer = what});
}

/* One period of each shape over x in 0..1, between -1 and 1. The sine is Bhaskara's: near enough, and the same everywhere. */
static double shape_at(iso_drift_shape shape, double x)
{
    double half = x < 0.5 ? x * 2 : x * 2 - 1, sign = x < 0.5 ? 1 : -1, bow = half * (1 - half);
    switch (shape) {
    case ISO_DRIFT_SINE:
        return sign * 16 * bow / (5 - 4 * bow);
    case ISO_DRIFT_TRIANGLE:
        return sign * (half < 0.5 ? 2 * half : 2 - 2 * half);
    case ISO_DRIFT_SQUARE:
        return sign;
    case ISO_DRIFT_NONE:
        break;
    }
    return 0;
}

static void sooner(int64_t *until, int64_t at)
{
    if (at < *until)
        *until = at;
}

static double drift(const iso_machine *m, int64_t t, int64_t *until)
{
    if (m->drift == ISO_DRIFT_NONE || m->period <= 0)
        return 1;
    int64_t step = m->period / DRIFT_STEPS > 0 ? m->period / DRIFT_STEPS : 1, piece = t / step;
    sooner(until, (piece + 1) * step);
    double x = ((double)(piece % DRIFT_STEPS) + 0.5) / DRIFT_STEPS;
    return 1 + m->amplitude * shape_at(m->drift, x);
}

static double burst(const iso_machine *m, uint64_t seed, uint32_t id, int64_t t, int64_t *until)
{
    if (m->burst_every <= 0)
        return 1;
    int64_t window = t / m->burst_every, begin = window * m->burst_every;
    iso_rng r = stream(seed, id, STREAM_BURST, (uint64_t)window & ISO_RNG_INDEX_MAX);
    int64_t from = begin + iso_rng_between(&r, 0, m->burst_every - m->burst_length), to = from + m->burst_length;
    sooner(until, begin + m->burst_every);
    if (t < from)
        sooner(until, from);
    else if (t < to)
        sooner(until, to);
    return t >= from && t < to ? m->burst_factor : 1;
}

/* Samples a second by the events alone, 0 in a pause. */
static double by_events(const iso_machine *m, const iso_fate *fate, int64_t t, int64_t *until)
{
    double speed = m->speed;
    bool paused = false;
    for (uint32_t i = 0; i < fate->count; i++) {
        const iso_machine_event *e = &fate->event[i];
        if (e->at > t) {
            sooner(until, e->at);
            break;
        }
        if (e->kind == ISO_MACHINE_SPEED)
            speed = e->speed;
        if (e->kind == ISO_MACHINE_PAUSE && t < e->at + e->length) {
            paused = true;
            sooner(until, e->at + e->length);
        }
    }
    return paused ? 0 : speed;
}

double iso_speed_at(const iso_machine *m, const iso_fate *fate, uint64_t seed, uint32_t id, int64_t t, int64_t *until)
{
    *until = ISO_FOREVER;
    double speed = by_events(m, fate, t, until);
    return speed > 0 ? speed * drift(m, t, until) * burst(m, seed, id, t, until) : 0;
}

/* Goes through whole cycles of a mean speed, when there are `many` before `until` and before nothing is left; true: it did. */
static bool skip(int64_t cycle, double mean, double many, int64_t until, int64_t *t, double *left)
{
    if (cycle <= 0)
        return false;
    double count = *left * 1e9 / mean / (double)cycle, room = ((double)until - (double)*t) / (double)cycle;
    count = (count < room ? count : room) * 0.999 - 1;
    if (!(count >= many) || count * (double)cycle > 8e18 - (double)*t)
        return false;
    int64_t whole = (int64_t)count * cycle;
    *left -= mean * (double)whole * 1e-9;
    *t += whole;
    return true;
}

/* Short periods over long work would be that many steps: a microsecond's bursts in an order of hours. */
static bool skip_cycles(const iso_machine *m, const iso_fate *fate, int64_t *t, double *left)
{
    int64_t events = ISO_FOREVER, step = m->period / DRIFT_STEPS > 0 ? m->period / DRIFT_STEPS : 1;
    double busy = m->burst_every > 0 ? (double)m->burst_length / (double)m->burst_every : 0;
    double mean = by_events(m, fate, *t, &events) * (1 - busy * (1 - m->burst_factor));
    if (mean <= 0)
        return false;
    if (m->drift != ISO_DRIFT_NONE && skip(m->period > 0 ? step * DRIFT_STEPS : 0, mean, MANY_PERIODS, events, t, left))
        return true;
    mean *= drift(m, *t, &events);
    return skip(m->burst_every, mean, MANY_BURSTS, events, t, left);
}

int64_t iso_speed_end(const iso_machine *m, const iso_fate *fate, uint64_t seed, uint32_t id, int64_t t, double samples, double factor)
{
    double left = samples * factor;
    for (;;) {
        int64_t until;
        if (skip_cycles(m, fate, &t, &left))
            continue;
        double speed = iso_speed_at(m, fate, seed, id, t, &until), ns = speed > 0 ? left * 1e9 / speed : 0;
        if (speed > 0 && (until == ISO_FOREVER || ns <= (double)(until - t)))
            return ns < 9e18 - (double)t ? t + (int64_t)(ns + 0.5) : ISO_FOREVER;
        if (until == ISO_FOREVER || t > (int64_t)8e18)
            return ISO_FOREVER;
        left -= speed * (double)(until - t) * 1e-9;
        t = until;
    }
}

double iso_speed_factor(const iso_machine *m, uint64_t seed, uint32_t id, uint64_t order)
{
    if (m->noise <= 0 && m->outliers.numerator == 0)
        return 1;
    iso_rng r = stream(seed, id, STREAM_ORDER, order & ISO_RNG_INDEX_MAX);
    double x = -6;
    for (int i = 0; i < 12; i++) /* the sum of 12 uniform numbers is as good as normal */
        x += iso_rng_double(&r);
    double factor = m->noise > 0 ? iso_exp(m->noise * x) : 1;
    return iso_rng_chance(&r, m->outliers.numerator, m->outliers.denominator) ? factor * m->outlier_factor : factor;
}

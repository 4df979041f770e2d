/* SPDX-License-Identifier: Apache-2.0
 * How fast a node is: see score.h. */
#include "core/score.h"

#include <math.h>

#include "base/elementary.h"

static const double walk = 1e-3;              /* q: variance that a measurement's time adds */
static const double noise_first = 0.05, noise_least = 0.02, noise_most = 1;
static const double gate = 4;                 /* standard deviations; further away is an outlier */
static const double normal_mad = 1.4826 / 1.4142135623730951; /* standard deviation over the median |difference| of two */
static const double spread_step = 0.05;      /* of the running median, a measurement */
static const double hint_deviation = 0.5;     /* of a speed measured in another run, and of a cold start */
enum { PROBE_KEPT = 3, PROBE_MOST = 6 };      /* segments that make a start; no more than so many, the first one included */

static bool positive(double v)
{
    return v > 0 && v < (double)INFINITY;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void move_to(iso_score *s, double x)
{
    s->x = x;
    s->ns = iso_exp(x);
}

double iso_score_noise(const iso_score *s)
{
    double deviation = s->deviation > 0 ? normal_mad * s->deviation : noise_first;
    deviation = larger(deviation, noise_least);
    deviation = deviation < noise_most ? deviation : noise_most;
    return deviation * deviation;
}

static double median_of_three(const double v[3])
{
    double low = v[0] < v[1] ? v[0] : v[1], high = larger(v[0], v[1]);
    return v[2] < low ? low : v[2] > high ? high : v[2];
}

/* The first segment is cold: it serves until there is a second one. */
static void probe(iso_score *s, double z, double ns)
{
    uint32_t kept = s->probes++;
    if (kept == 0) {
        move_to(s, z);
    } else {
        s->probe[(kept - 1) % PROBE_KEPT] = z;
        move_to(s, kept == 1   ? z
                   : kept == 2 ? (s->probe[0] + s->probe[1]) / 2
                               : median_of_three(s->probe));
    }
    s->last = z;
    s->p = kept == 0 ? hint_deviation * hint_deviation : iso_score_noise(s) / (kept < PROBE_KEPT ? kept : PROBE_KEPT);
    s->settled = kept >= PROBE_KEPT && (ns >= ISO_PROBE_NS || s->probes >= PROBE_MOST);
    if (ns < ISO_PROBE_NS)
        s->probe_units++;
}

/* A step of the running median: up when the value is above it, down when below, in proportion to itself. */
static void learn_noise(iso_score *s, double z)
{
    double difference = fabs(z - s->last);
    s->last = z;
    if (!(s->deviation > 0))
        s->deviation = noise_first / normal_mad;
    s->deviation *= difference > s->deviation ? 1 + spread_step : 1 / (1 + spread_step);
    double least = noise_least / normal_mad, most = noise_most / normal_mad;
    s->deviation = s->deviation < least ? least : s->deviation > most ? most : s->deviation;
}

static void hold_out(iso_score *s, double z, int32_t side)
{
    if (s->side == side) {
        move_to(s, (s->held + z) / 2);
        s->p = 2 * iso_score_noise(s);
        s->last = z;
        s->side = 0;
        return;
    }
    s->held = z;
    s->side = side;
}

void iso_score_measure(iso_score *s, double samples, double ns)
{
    if (!positive(samples) || !positive(ns))
        return;
    double z = iso_ln(ns / samples);
    if (!(z == z))
        return;
    if (!s->settled) {
        probe(s, z, ns);
        return;
    }
    double r = iso_score_noise(s), e = z - s->x;
    s->p += walk;
    if (e * e > gate * gate * (s->p + r)) {
        hold_out(s, z, e > 0 ? 1 : -1);
        return;
    }
    s->side = 0;
    learn_noise(s, z);
    double gain = s->p / (s->p + r);
    s->p *= 1 - gain;
    move_to(s, s->x + gain * e);
}

void iso_score_hint(iso_score *s, double ns)
{
    if (!positive(ns))
        return;
    double x = iso_ln(ns);
    if (!(x == x))
        return;
    *s = (iso_score){.ns = ns, .x = x, .last = x, .p = hint_deviation * hint_deviation, .settled = true};
}

uint32_t iso_score_probe_units(const iso_score *s)
{
    if (s->settled)
        return 0;
    return s->probe_units < 6 ? (uint32_t)1 << s->probe_units : ISO_PROBE_UNITS_MAX;
}

void iso_overhead_note(iso_overhead *o, double ns)
{
    if (!(ns >= 0 && ns < (double)INFINITY))
        return;
    o->last[o->count % ISO_OVERHEADS] = (float)ns;
    o->count = o->count + 1 < 2 * ISO_OVERHEADS ? o->count + 1 : ISO_OVERHEADS;
}

double iso_overhead_ns(const iso_overhead *o)
{
    uint32_t count = o->count < ISO_OVERHEADS ? o->count : ISO_OVERHEADS;
    float least = count > 0 ? o->last[0] : 0;
    for (uint32_t i = 1; i < count; i++)
        least = o->last[i] < least ? o->last[i] : least;
    return (double)least;
}

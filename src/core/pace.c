/* SPDX-License-Identifier: Apache-2.0
 * How long a round of local steps is: see pace.h. */
#include "core/pace.h"

#include <math.h>

#include "base/elementary.h"

enum { H_FIRST = 8 };
static const double sync_share = 19; /* steps a step's worth of synchronising: it then takes a twentieth of the time */
static const double smoothing = 0.1; /* of the loss, a round */
static const double theta_least = 0.1;

static uint32_t clamp(double steps, const iso_plan *plan)
{
    if (!(steps > plan->h_min)) /* NaN too */
        return plan->h_min;
    return steps < plan->h_max ? (uint32_t)steps : plan->h_max;
}

static double fallen(const iso_pace *p)
{
    return p->first_loss > 0 && p->loss > 0 ? sqrt(p->loss / p->first_loss) : 1;
}

uint32_t iso_pace_steps(const iso_pace *p, const iso_plan *plan, double rate)
{
    switch (plan->trigger) {
    case ISO_TRIGGER_FIXED:
        return plan->h_max;
    case ISO_TRIGGER_SWITCH:
        return p->peak_rate > 0 && rate < p->peak_rate * (1 - 1e-9) ? plan->h_max : 1;
    case ISO_TRIGGER_LOSS: {
        double steps = iso_ceil(plan->h_max * fallen(p));
        return steps < 1 ? 1 : steps < plan->h_max ? (uint32_t)steps : plan->h_max;
    }
    case ISO_TRIGGER_VARIANCE:
        /* twice the last one at most: what is cut off goes back and lies in pieces */
        return clamp(p->rounds == 0 ? H_FIRST : 2.0 * p->steps, plan);
    case ISO_TRIGGER_MICRO:
        if (p->calibrating == 0)
            return clamp(H_FIRST, plan);
        return clamp(p->theta > 0 ? 2.0 * p->steps : p->calibrating, plan);
    }
    return plan->h_max;
}

void iso_pace_begin(iso_pace *p, uint32_t steps)
{
    p->steps = steps;
    p->weight = p->norm2 = p->dot = 0;
}

void iso_pace_pulse(iso_pace *p, uint64_t samples_before, const iso_figures *before, uint64_t samples, const iso_figures *now)
{
    double was = (double)samples_before, is = (double)samples;
    p->weight += is - was;
    p->norm2 += is * now->norm2 - was * before->norm2;
    p->dot += is * now->dot - was * before->dot;
}

double iso_pace_variance(const iso_pace *p)
{
    if (!(p->weight > 0))
        return 0;
    double mean = p->dot / p->weight, variance = p->norm2 / p->weight - mean * mean;
    return variance > 0 ? variance : 0;
}

double iso_pace_threshold(const iso_pace *p, const iso_plan *plan)
{
    if (plan->trigger == ISO_TRIGGER_VARIANCE)
        return plan->theta;
    if (plan->trigger != ISO_TRIGGER_MICRO || !(p->theta > 0))
        return INFINITY;
    double part = fallen(p);
    return plan->theta * p->theta * (part > theta_least ? part : theta_least);
}

bool iso_pace_due(const iso_pace *p, const iso_plan *plan, double steps)
{
    return steps >= plan->h_min && iso_pace_variance(p) > iso_pace_threshold(p, plan);
}

void iso_pace_end(iso_pace *p, const iso_plan *plan, uint32_t steps, double loss, double rate, double sync_ns, double step_ns)
{
    if (p->rounds == 0)
        p->first_loss = p->loss = loss > 0 ? loss : 0;
    if (rate > p->peak_rate) /* a warm-up is no fall */
        p->peak_rate = rate;
    p->loss += smoothing * ((loss > 0 ? loss : 0) - p->loss);
    p->steps = steps;
    p->rounds++;
    if (plan->trigger != ISO_TRIGGER_MICRO || p->theta > 0)
        return;
    if (p->calibrating == 0 && step_ns > 0) {
        double wanted = iso_ceil(sync_share * sync_ns / step_ns);
        p->calibrating = clamp(wanted > H_FIRST ? wanted : H_FIRST, plan);
    } else if (p->calibrating > 0) {
        p->theta = iso_pace_variance(p);
    }
}

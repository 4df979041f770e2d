/* SPDX-License-Identifier: Apache-2.0
 * How long a round of local steps is: the trigger of a plan as a small state. Pure arithmetic; docs/algorithms.md 6.2.
 * Steps are local steps of the fastest node. */
#ifndef ISO_CORE_PACE_H
#define ISO_CORE_PACE_H

#include "isochron/core.h"

typedef struct iso_pace {
    /* kept over rounds, and in checkpoints */
    double first_loss, loss;      /* of the first round; smoothed. 0: none yet */
    double peak_rate, theta;      /* the largest learning rate so far; MICRO: calibrated threshold before its fall, 0: not yet */
    uint32_t rounds;              /* measured */
    uint32_t steps;               /* of the last round as planned, or as cut */
    uint32_t calibrating;         /* MICRO: steps of the round that calibrates; 0: not known yet */
    /* the running round */
    double weight, norm2, dot;    /* sums over the nodes' last pulses: samples, samples |delta|^2, samples <xi, delta> */
} iso_pace;

/* Steps the next round is to have. rate: learning rate at its beginning. */
uint32_t iso_pace_steps(const iso_pace *p, const iso_plan *plan, double rate);
/* A round begins with so many steps. */
void iso_pace_begin(iso_pace *p, uint32_t steps);
/* A node's pulse; before: what it said before in this round, zeros when nothing. */
void iso_pace_pulse(iso_pace *p, uint64_t samples_before, const iso_figures *before, uint64_t samples, const iso_figures *now);
/* Upper bound of the weighted variance between the nodes, from the pulses so far; 0 without. */
double iso_pace_variance(const iso_pace *p);
/* The threshold now; infinite while there is none. */
double iso_pace_threshold(const iso_pace *p, const iso_plan *plan);
/* Is the round to end, `steps` steps after its beginning? */
bool iso_pace_due(const iso_pace *p, const iso_plan *plan, double steps);
/* The round was merged. steps: as it was; loss: mean of its samples; sync_ns: what was not compute of the busiest node;
 * step_ns: one step of the fastest. */
void iso_pace_end(iso_pace *p, const iso_plan *plan, uint32_t steps, double loss, double rate, double sync_ns, double step_ns);

#endif

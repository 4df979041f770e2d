/* SPDX-License-Identifier: Apache-2.0
 * What happens to machines and links: the cluster's own events, and a fault phase drawn from the seed. The phase has an end;
 * then links are whole again, every machine that a drawn fault took is back, and the run has to get on.
 *
 * All that is drawn is said in whole numbers, so that a line of output is enough to build the same faults again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/simulate/inside.h"

#define DRAWN_MAX 3u /* drawn events of a machine */
#define IN 1000u     /* all probabilities are of 1000 */

static int by_time(const void *a, const void *b)
{
    const iso_machine_event *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (int)x->kind - (int)y->kind;
}

static iso_rng stream(const iso_sim *s, uint64_t index)
{
    return iso_rng_make(&(iso_rng_key){.seed = s->seed, .purpose = ISO_PURPOSE_FAULT, .index = index});
}

/* Zero in a third of the seeds, so that faults come alone as well. */
static iso_ratio ratio(iso_rng *r, uint32_t most)
{
    bool none = iso_rng_below32(r, 3) == 0;
    uint32_t numerator = iso_rng_below32(r, most + 1);
    return (iso_ratio){none ? 0 : numerator, IN};
}

static void draw_options(iso_sim *s)
{
    iso_rng r = stream(s, 0);
    sim_drawn *d = &s->drawn;
    s->loss = ratio(&r, 60);
    s->duplicate = ratio(&r, 60);
    s->reorder = ratio(&r, 100);
    d->crash = ratio(&r, 500);
    d->told = ratio(&r, IN);
    d->pause = ratio(&r, 500);
    double speed = iso_cluster_speed(s->config.options->cluster);
    double expected = (double)s->core.samples * s->core.epochs / speed * 1e9;
    d->parts = 1 + iso_rng_below32(&r, 8);
    s->heals_at = (int64_t)(expected / 4 * d->parts) + 20000000;
}

/* A crash with its return, or a pause, within the phase. */
static uint32_t draw_events(const iso_sim *s, uint32_t id, iso_machine_event *out)
{
    uint32_t count = 0;
    iso_rng r = stream(s, (uint64_t)id + 1);
    const sim_drawn *d = &s->drawn;
    bool crash = iso_rng_chance(&r, d->crash.numerator, IN), pause = iso_rng_chance(&r, d->pause.numerator, IN);
    int64_t gone = iso_rng_between(&r, 0, s->heals_at - 1), back = iso_rng_between(&r, gone + 1, s->heals_at);
    int64_t still = iso_rng_between(&r, 0, s->heals_at - 1), until = iso_rng_between(&r, still + 1, s->heals_at);
    if (crash) {
        out[count++] = (iso_machine_event){.kind = ISO_MACHINE_CRASH, .at = gone};
        out[count++] = (iso_machine_event){.kind = ISO_MACHINE_JOIN, .at = back};
    }
    if (pause)
        out[count++] = (iso_machine_event){.kind = ISO_MACHINE_PAUSE, .at = still, .length = until - still};
    return count;
}

/* A machine whose first coming or going is a join was not there before. */
static bool there_at_first(const iso_machine *m, const iso_machine_event *event)
{
    for (uint32_t i = 0; i < m->events; i++) {
        if (event[i].kind == ISO_MACHINE_CRASH)
            return true;
        if (event[i].kind == ISO_MACHINE_JOIN)
            return false;
    }
    return true;
}

int iso_sim_faults_init(iso_sim *s, iso_error *e)
{
    const iso_cluster *c = s->config.options->cluster;
    bool drawn = s->config.options->draw_faults;
    size_t all = 0, at = 0;
    const iso_ratio never = {0, 1};
    s->loss = s->duplicate = s->reorder = never;
    for (uint32_t i = 0; i < s->count; i++)
        all += c->machine[i].events + DRAWN_MAX;
    s->fate = iso_new(s->alloc, all, sizeof *s->fate);
    if (!s->fate)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for what happens to %u machines", s->count);
    if (drawn)
        draw_options(s);
    else
        s->healed = true;
    for (uint32_t i = 0; i < s->count; i++) {
        sim_node *n = &s->node[i];
        const iso_machine *m = n->machine;
        iso_machine_event *event = s->fate + at;
        if (m->events)
            memcpy(event, c->event + m->event, m->events * sizeof *event);
        n->absent = !there_at_first(m, event);
        n->fate = (iso_fate){event, m->events + (drawn ? draw_events(s, i, event + m->events) : 0)};
        qsort(event, n->fate.count, sizeof *event, by_time);
        at += n->fate.count;
        s->lossy |= m->link.loss.numerator || m->link.duplicate.numerator || m->link.reorder.numerator;
    }
    return 0;
}

bool iso_sim_told(const iso_sim *s, uint32_t id, uint64_t life)
{
    iso_rng r = iso_rng_make(&(iso_rng_key){
        .seed = s->seed, .purpose = ISO_PURPOSE_FAULT, .epoch = 2, .index = id, .layer = (uint32_t)life & 0xFFFF});
    return iso_rng_chance(&r, s->drawn.told.numerator, IN);
}

bool iso_sim_drawn(const iso_sim *s, uint32_t index, char out[200])
{
    const iso_simulate_options *o = s->config.options;
    uint32_t crashes = 0, pauses = 0;
    if (index == 0) {
        snprintf(out, 200, "seed %llu, %s seed %llu, %u machines, %.6g samples a second together", (unsigned long long)s->core.seed,
                 o->draw_faults ? "fault" : "noise", (unsigned long long)s->seed, s->count, iso_cluster_speed(o->cluster));
        return true;
    }
    if (!o->draw_faults || index > 2)
        return false;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->node[i].fate.count; k++) {
            crashes += s->node[i].fate.event[k].kind == ISO_MACHINE_CRASH;
            pauses += s->node[i].fate.event[k].kind == ISO_MACHINE_PAUSE;
        }
    if (index == 1)
        snprintf(out, 200, "drawn: loss %u/1000, duplicate %u/1000, reorder %u/1000, crash %u/1000, told %u/1000, pause %u/1000",
                 s->loss.numerator, s->duplicate.numerator, s->reorder.numerator, s->drawn.crash.numerator, s->drawn.told.numerator,
                 s->drawn.pause.numerator);
    else
        snprintf(out, 200, "fault phase: %lld ns, with %u crashes and %u pauses; then everything heals", (long long)s->heals_at, crashes,
                 pauses);
    return true;
}

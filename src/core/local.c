/* SPDX-License-Identifier: Apache-2.0
 * Rounds of local steps: every node gets one lease, as long as the others' by its speed; the monitor or the clock may end
 * them early, at a moment when all of them are at a unit's border.
 *
 * The pool is the epoch: what a cut lease leaves undone, or a dead node had, goes back and is worked in a later round. */
#include "core/coordinator.h"

#include "base/elementary.h"

static const double box_slack = 1.15; /* of its planned time, before those who still work are called */

/* ns of one local step of the fastest node. */
static double step_ns(const iso_coordinator *c)
{
    return c->fastest > 0 ? c->plan.local_batch / c->fastest : 0;
}

static double rate_now(const iso_coordinator *c)
{
    const iso_core_config *config = &c->config;
    return iso_schedule_rate(&config->schedule, &config->optimizer, c->epoch * config->samples + c->settled, c->plan.local_batch,
                             config->samples, config->samples * config->epochs);
}

/* The longest time of one unit among nodes that can do one within `ns`; 0: nobody can. */
static double slowest_unit(const iso_coordinator *c, double ns)
{
    double longest = 0;
    for (uint32_t i = 0; i < c->live_count; i++) {
        const node *n = &c->nodes[c->live[i]];
        double unit = iso_share_unit_ns(c, n);
        if (n->score.ns > 0 && unit <= ns && unit > longest)
            longest = unit;
    }
    return longest;
}

/* A time of at least `ns` at whose end the slowest node that takes part is at a unit's border. One that needs a little more
 * than `ns` for its first unit takes part too. */
static double at_border(const iso_coordinator *c, double ns)
{
    const double patience = 1.5;
    double unit = slowest_unit(c, ns * patience);
    return unit > 0 ? iso_ceil(ns / unit - 1e-6) * unit : ns;
}

static void plan_quotas(iso_coordinator *c)
{
    double ns = at_border(c, c->pace.steps * step_ns(c));
    uint64_t units = iso_shares_within(c, ns);
    if (units == 0 || units >= c->pool.free) { /* the epoch's last round, or one that nobody is fast enough for */
        iso_shares_of(c, c->pool.free < UINT32_MAX && units > 0 ? c->pool.free : 1);
        return;
    }
    /* what is left after some more rounds like this one is spread over them, so that the last one is no scrap */
    uint64_t rounds = (c->pool.free + units / 2) / units;
    if (rounds > 0 && rounds < 8) {
        uint64_t even = (c->pool.free + rounds - 1) / rounds;
        iso_shares_of(c, (uint32_t)even);
    }
}

/* As many units as whole local steps have, where a step has several: at least one step. */
static uint32_t whole_steps(const iso_coordinator *c, uint32_t units)
{
    uint32_t step = c->plan.local_batch > c->pool.unit ? c->plan.local_batch / c->pool.unit : 1;
    return units < step ? step : units - units % step;
}

static void grant_all(iso_coordinator *c)
{
    bool alone = c->live_count == 1;
    for (uint32_t i = 0; i < c->live_count && c->pool.free > 0; i++) {
        node *n = &c->nodes[c->live[i]];
        uint32_t units = n->quota;
        n->pulse_samples = 0;
        n->figures = (iso_figures){0, 0};
        if (units > 0)
            iso_lease_grant(c, c->live[i], whole_steps(c, units), true, alone || c->plan.up == ISO_PAYLOAD_EXACT);
    }
}

/* Only the fastest node works; those that nobody has measured yet do one unit first. */
static void grant_one(iso_coordinator *c)
{
    uint32_t best = c->live[0];
    for (uint32_t i = 1; i < c->live_count && c->nodes[best].score.ns > 0; i++)
        if (c->nodes[c->live[i]].score.ns < c->nodes[best].score.ns)
            best = c->live[i];
    uint64_t units = iso_units_in((uint64_t)c->plan.h_max * c->plan.local_batch, c->pool.unit);
    iso_lease_grant(c, best, c->nodes[best].score.ns > 0 ? (uint32_t)units : 1, true, true);
}

void iso_local_begin(iso_coordinator *c)
{
    if (c->live_count == 0 || c->pool.free == 0)
        return;
    c->cut = false;
    c->box_at = ISO_NEVER;
    iso_pace_begin(&c->pace, iso_pace_steps(&c->pace, &c->plan, rate_now(c)));
    if (c->plan.one_node) {
        grant_one(c);
        return;
    }
    plan_quotas(c);
    grant_all(c);
    if (c->plan.boxed && c->pool.free > 0 && c->known_count > 1) {
        c->box_at = iso_later(c->now, box_slack * c->pace.steps * step_ns(c) + 2e6);
        iso_arm(c, c->box_at);
    }
}

/* ---- ending a round early ---- */

static double longest_overhead(const iso_coordinator *c)
{
    double longest = 0;
    for (uint32_t i = 0; i < c->live_count; i++) {
        const node *n = &c->nodes[c->live[i]];
        if (n->key == c->key && n->held > 0 && n->clean_overhead > longest)
            longest = n->clean_overhead;
    }
    return longest;
}

/* All end together at a border that is still to come. */
static void cut_round(iso_coordinator *c)
{
    double passed = (double)(c->now - c->pass_started), end = at_border(c, passed + longest_overhead(c) / 2);
    c->cut = true;
    for (uint32_t i = 0; i < c->live_count; i++) {
        node *n = &c->nodes[c->live[i]];
        if (n->key != c->key || n->held == 0)
            continue;
        double whole = n->score.ns > 0 ? end / iso_share_unit_ns(c, n) + 0.02 : 1;
        uint32_t units = whole_steps(c, whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX);
        if (units < n->lease[0].units)
            iso_lease_cut(c, c->live[i], units);
    }
    c->pace.steps = (uint32_t)iso_ceil(end / step_ns(c));
    if (c->plan.boxed) {
        c->box_at = iso_later(c->pass_started, box_slack * end + 2e6);
        iso_arm(c, c->box_at);
    }
}

void iso_local_pulse(iso_coordinator *c, const iso_frame *f)
{
    body_pulse b;
    node *n = &c->nodes[f->from];
    if (!iso_body_get_pulse(f, &b)) {
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, f->from)->reason = f->kind;
        return;
    }
    bool present = c->phase == ISO_PHASE_WORK && c->purpose == ISO_PASS_TRAIN && c->plan.way == ISO_PLAN_LOCAL &&
                   n->key == c->key && pass_key(f->round, ISO_PASS_TRAIN) == c->key && b.part == n->part && n->held > 0 &&
                   b.number == n->given && b.samples > n->pulse_samples && b.samples <= n->lease[0].samples;
    if (!present)
        return;
    iso_pace_pulse(&c->pace, n->pulse_samples, &n->figures, b.samples, &b.figures);
    n->pulse_samples = b.samples;
    n->figures = b.figures;
    double steps = step_ns(c) > 0 ? (double)(c->now - c->pass_started) / step_ns(c) : 0;
    if (!c->cut && iso_pace_due(&c->pace, &c->plan, steps))
        cut_round(c);
}

void iso_local_timer(iso_coordinator *c)
{
    if (c->purpose != ISO_PASS_TRAIN || c->plan.way != ISO_PLAN_LOCAL || c->box_at == ISO_NEVER)
        return;
    if (c->now < c->box_at) {
        iso_arm(c, c->box_at);
        return;
    }
    c->box_at = ISO_NEVER;
    c->cut = true;
    for (uint32_t i = 0; i < c->live_count; i++)
        if (c->nodes[c->live[i]].key == c->key && c->nodes[c->live[i]].held > 0)
            iso_lease_cut(c, c->live[i], 0);
}

/* ---- the border ---- */

void iso_local_tell_counted(iso_coordinator *c, uint32_t id)
{
    const lease *l = &c->nodes[id].finished;
    iso_record *r = iso_emit_record(c, ISO_RECORD_COUNTED, id);
    r->range = l->range;
    r->range_count = l->range_count;
    r->units = l->units;
    r->first = c->pool.first;
    r->end = c->pool.end;
    r->unit = c->pool.unit;
}

void iso_local_settle(iso_coordinator *c)
{
    int64_t busiest = 0;
    for (uint32_t i = 0; i < c->sum_count; i++) {
        const node *n = &c->nodes[c->sums[i]];
        iso_pool_settle(&c->pool, n->finished.range, n->finished.range_count);
        if (c->config.audit)
            iso_local_tell_counted(c, c->sums[i]);
        if (n->counted.busy > busiest)
            busiest = n->counted.busy;
    }
    const iso_totals *t = &c->pass_totals;
    double loss = iso_wide_loss(t->loss) / (double)t->samples, step = step_ns(c);
    double sync = (double)(c->now - c->pass_started - busiest);
    iso_pace_end(&c->pace, &c->plan, c->pace.steps, loss, c->rate, sync > 0 ? sync : 0, step);
}

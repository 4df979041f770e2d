/* SPDX-License-Identifier: Apache-2.0
 * Answers that are applied as they come (ssp, asp). Every lease is a gradient of its own against the weights it was given
 * for, its base; answers wait in a queue for their update, and a round is one of them applied.
 *
 * Invariant: a node has one lease or one answer in the queue, never both. Tags in the pool: part 0 is leased, part 1 waits in
 * the queue, which outlives its node. Frames are held against the node's base, not against the coordinator's round. */
#include "core/coordinator.h"

#include "base/assert.h"

enum { LEASED, QUEUED };

/* Leases that the slowest live node has had answered. */
static uint64_t slowest_clock(const iso_coordinator *c)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < c->live_count; i++)
        if (c->nodes[c->live[i]].clock < least)
            least = c->nodes[c->live[i]].clock;
    return least;
}

static bool may_run(const iso_coordinator *c, const node *n, uint64_t slowest)
{
    return n->clock - slowest <= c->plan.staleness;
}

static void offer(iso_coordinator *c, uint32_t id, uint64_t slowest)
{
    node *n = &c->nodes[id];
    if (n->held > 0 || n->queued || c->pool.free == 0 || !may_run(c, n, slowest))
        return;
    uint64_t units = iso_units_in(c->plan.batch, c->pool.unit);
    n->key = 0; /* begins its pass anew: leases are numbered from 1 */
    n->base = c->round;
    if (n->weights_sent != c->round + 1 && !c->config.shared_weights)
        iso_member_weights(c, id);
    iso_lease_grant(c, id, units < c->pool.free ? (uint32_t)units : c->pool.free, true, false);
}

void iso_free_offer(iso_coordinator *c)
{
    uint64_t slowest = slowest_clock(c);
    for (uint32_t i = 0; i < c->live_count && c->pool.free > 0; i++)
        offer(c, c->live[i], slowest);
}

/* A node that comes in the middle is level with the slowest. */
void iso_free_joined(iso_coordinator *c, node *n)
{
    uint64_t slowest = UINT64_MAX;
    for (uint32_t i = 0; i < c->live_count; i++) {
        const node *other = &c->nodes[c->live[i]];
        if (other != n && other->clock < slowest)
            slowest = other->clock;
    }
    n->clock = slowest == UINT64_MAX ? 0 : slowest;
    n->weights_sent = 0;
}

/* It cannot have begun: it lacks the weights. Those of its base may be gone, so it gets newer ones and the lease for them. */
void iso_free_need(iso_coordinator *c, uint32_t id)
{
    node *n = &c->nodes[id];
    iso_member_weights(c, id);
    if (n->key != c->key || n->held == 0)
        return;
    n->base = c->round;
    iso_lease_repeat(c, id);
}

void iso_free_answer(iso_coordinator *c, const iso_frame *f)
{
    body_answer b;
    uint32_t id = f->from;
    node *n = &c->nodes[id];
    if (!iso_body_get_answer(f, &b)) {
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, id)->reason = f->kind;
        return;
    }
    bool present = n->key == c->key && n->held == 1 && f->round == n->base && b.purpose == ISO_PASS_TRAIN && b.part == LEASED &&
                   b.number == 1 && f->kind == ISO_FRAME_SUM;
    if (!present)
        return;
    if (!iso_lease_retire(c, n, &b)) {
        iso_lease_bad_totals(c, id);
        return;
    }
    if (b.totals.bad_layer >= 0) {
        iso_course_fail(c, b.totals.bad_layer);
        return;
    }
    iso_pool_retag(&c->pool, id, QUEUED, n->finished.range, n->finished.range_count);
    n->counted = n->totals;
    n->queued = true;
    n->sums++;
    n->clock++;
    n->deadline = n->resend_at = ISO_NEVER;
    c->queue[(c->queue_first + c->queue_count++) % c->config.nodes_max] = id;
    iso_emit(c, ISO_EFFECT_TAKE)->take = (iso_take){.node = id, .samples = n->totals.samples};
    if (c->phase == ISO_PHASE_WORK) /* else at the border: there are no weights to send meanwhile */
        iso_free_offer(c);          /* the slowest may have moved on */
}

bool iso_free_next(iso_coordinator *c, uint64_t *staleness)
{
    if (c->queue_count == 0)
        return false;
    uint32_t id = c->queue[c->queue_first];
    c->queue_first = (c->queue_first + 1) % c->config.nodes_max;
    c->queue_count--;
    const node *n = &c->nodes[id];
    c->sums[0] = id;
    c->sum_count = 1;
    c->pass_totals = n->counted;
    *staleness = c->round - n->base;
    return true;
}

void iso_free_settle(iso_coordinator *c)
{
    ISO_ASSERT(c->sum_count == 1);
    node *n = &c->nodes[c->sums[0]];
    iso_pool_settle(&c->pool, n->finished.range, n->finished.range_count);
    if (c->config.audit)
        iso_local_tell_counted(c, c->sums[0]);
    n->queued = false;
    c->applied = c->sums[0];
    c->applied_totals = c->pass_totals;
}

void iso_free_go_on(iso_coordinator *c)
{
    c->phase = ISO_PHASE_WORK;
    c->pass_started = c->now;
    iso_free_offer(c);
    iso_lease_timer(c);
}

/* SPDX-License-Identifier: Apache-2.0
 * Who computes what, and until when: handing out units, answers, revoking, deadlines and repeats.
 *
 * Leases of a node in a pass are numbered 1, 2, ... and answered in that order; an answer names the last finished
 * number and carries totals over all of them, so a repeated, late or overtaken answer says nothing new. */
#include "core/coordinator.h"

#include "base/assert.h"

enum {
    DOUBLINGS_MAX = 6, /* of the wait before a repeat */
    LONGER_MAX = 8     /* doublings of a deadline: a node that got slower for good must come to answer once */
};

/* ---- handing out ---- */

static void clear_part(node *n)
{
    n->units = 0;
    n->samples_done = 0;
    iso_totals_clear(&n->totals);
}

/* Makes the node's pass fields those of the present pass. */
static void enter_pass(iso_coordinator *c, node *n)
{
    if (n->key == c->key)
        return;
    if (n->key % 4 == pass_key(0, ISO_PASS_TRAIN) % 4) {
        n->last_key = n->key;
        n->last_samples = n->counted.samples;
        n->last_busy = n->counted.busy;
    }
    n->key = c->key;
    n->given = n->done = n->held = n->part = 0;
    n->taken = n->collecting = n->listed = n->cutting = false;
    n->cut_units = 0;
    clear_part(n);
    iso_totals_clear(&n->counted);
}

/* Free answers are held against the weights that their lease was given for. */
static iso_frame *frame_to(iso_coordinator *c, iso_frame_kind kind, uint32_t id)
{
    iso_frame *f = iso_emit_frame(c, kind, id);
    if (c->plan.free && c->purpose == ISO_PASS_TRAIN)
        f->round = c->nodes[id].base;
    return f;
}

static void send_work(iso_coordinator *c, uint32_t id, const lease *l)
{
    body_work b = {
        .purpose = c->purpose,
        .final = l->final,
        .exact = l->exact,
        .epoch = iso_course_epoch(c),
        .number = l->number,
        .part = c->nodes[id].part,
        .unit = c->pool.unit,
        .pass_units = c->pool.units,
        .range_count = l->range_count,
        .first = c->pool.first,
        .end = c->pool.end,
    };
    for (uint32_t i = 0; i < l->range_count; i++)
        b.range[i] = l->range[i];
    iso_body_put_work(frame_to(c, ISO_FRAME_WORK, id), &b);
}

static void send_collect(iso_coordinator *c, uint32_t id)
{
    const node *n = &c->nodes[id];
    iso_body_put_collect(frame_to(c, ISO_FRAME_COLLECT, id),
                         &(body_collect){.number = n->given, .part = n->part, .cut = n->cutting, .units = n->cut_units});
}

/* ns of compute the node holds. */
static double held_work(const node *n)
{
    uint64_t samples = 0;
    for (uint32_t i = 0; i < n->held; i++)
        samples += n->lease[i].samples;
    return (double)samples * n->score.ns;
}

static void watch(iso_coordinator *c, node *n)
{
    n->tries = 0;
    n->asked = c->now;
    if (n->held == 0 && !n->collecting) {
        n->deadline = n->resend_at = ISO_NEVER;
        return;
    }
    bool learned = n->score.ns > 0 && (n->sums > 0 || c->config.sums_in_place);
    double work = held_work(n),
           late = c->config.deadline_factor * (work + n->overhead) + (double)c->config.deadline_floor;
    double first_wait = (double)c->config.deadline_first; /* a speed that was only told is a hint, but slow is not dead */
    double longest = learned || late > first_wait ? late : first_wait;
    n->deadline = iso_later(c->now, longest * (double)((uint32_t)1 << n->overdue));
    double first = (double)c->config.resend * (double)((uint32_t)1 << n->patience);
    n->resend_at = c->config.resend > 0 ? iso_later(c->now, 1.5 * (work + n->clean_overhead) + first) : ISO_NEVER;
    iso_arm(c, n->deadline < n->resend_at ? n->deadline : n->resend_at);
}

/* A node whose SUM counted gets more: in place the same sum grows on, else a new one begins. */
static void reopen(iso_coordinator *c, node *n)
{
    n->taken = false;
    if (c->config.sums_in_place) {
        c->counted -= n->units;
        iso_totals_clear(&n->counted);
    }
}

void iso_lease_grant(iso_coordinator *c, uint32_t id, uint32_t want, bool final, bool exact)
{
    node *n = &c->nodes[id];
    enter_pass(c, n);
    if (n->taken)
        reopen(c, n);
    n->collecting = n->cutting = false;
    n->cut_units = 0;
    lease *l = &n->lease[n->held];
    l->units = iso_pool_take(&c->pool, id, n->part, want, l->range, &l->range_count);
    ISO_ASSERT(l->units > 0);
    l->number = ++n->given;
    l->samples = iso_pool_samples(&c->pool, l->range, l->range_count);
    l->final = final;
    l->exact = exact;
    n->units += l->units;
    n->leases++;
    c->leased += l->units;
    c->held++;
    if (n->held++ == 0)
        c->idle--;
    send_work(c, id, l);
    watch(c, n);
}

/* The last lease of a training pass brings the sum: it saves the COLLECT. */
static void grant(iso_coordinator *c, uint32_t id, uint32_t want)
{
    iso_lease_grant(c, id, want, c->purpose == ISO_PASS_TRAIN && want >= c->pool.free, false);
}

void iso_lease_cut(iso_coordinator *c, uint32_t id, uint32_t units)
{
    node *n = &c->nodes[id];
    if (n->cutting && n->cut_units <= units)
        return;
    n->cutting = true;
    n->cut_units = units;
    send_collect(c, id);
    watch(c, n);
}

static uint32_t wanted(iso_coordinator *c, node *n)
{
    double unknown = c->known_count > 0 ? c->known_speed / c->known_count : 0;
    iso_asking a = {
        .units = c->pool.units,
        .free = c->pool.free,
        .leased = c->leased,
        .live = c->live_count,
        .idle = c->idle,
        .holding = n->held,
        .speed = n->score.ns > 0 ? 1 / n->score.ns : 0,
        .total_speed = c->known_speed + unknown * (c->live_count - c->known_count),
        .fastest = c->fastest,
    };
    if (n->part + 1 >= POOL_PART_MAX) /* no tags left in the pool: others died that often in this pass */
        return 0;
    const iso_policy *policy = c->config.policy.policy;
    bool own = c->purpose == ISO_PASS_TRAIN && policy->units;
    uint32_t units = own ? policy->units(&c->config.policy, &a) : iso_share_guided(&a);
    if (units > 0)
        iso_parking_join(&n->parking);
    else if (n->held == 0 && iso_member_try_again(c, n))
        units = 1;
    return units;
}

/* Its leases are handed out by local.c or free.c. */
static bool hands_out(const iso_coordinator *c)
{
    return c->purpose != ISO_PASS_TRAIN || !c->plan.whole_epoch;
}

/* One offer to one node; when nothing is left for it, what it has done is collected. */
static void serve(iso_coordinator *c, uint32_t id)
{
    node *n = &c->nodes[id];
    if (!hands_out(c))
        return;
    enter_pass(c, n);
    if (c->pool.free > 0 && n->held < c->config.depth) {
        uint32_t units = wanted(c, n);
        if (units > 0) {
            grant(c, id, units);
            return;
        }
    }
    if (n->held == 0 && c->purpose == ISO_PASS_TRAIN && n->units > 0 && !n->taken && !n->collecting) {
        n->collecting = true;
        send_collect(c, id);
        watch(c, n);
    }
}

static void force_fastest(iso_coordinator *c)
{
    uint32_t best = c->live[0];
    for (uint32_t i = 1; i < c->live_count; i++) {
        const node *n = &c->nodes[c->live[i]], *b = &c->nodes[best];
        bool faster = n->score.ns > 0 && (b->score.ns <= 0 || n->score.ns < b->score.ns);
        if (b->part + 1 >= POOL_PART_MAX || (faster && n->part + 1 < POOL_PART_MAX))
            best = c->live[i];
    }
    node *n = &c->nodes[best];
    enter_pass(c, n);
    if (n->part + 1 < POOL_PART_MAX)
        grant(c, best, 1);
}

void iso_lease_share(iso_coordinator *c)
{
    c->share = false;
    if (c->live_count == 0) {
        if (!c->waiting_told)
            iso_emit_record(c, ISO_RECORD_WAITING, ISO_COORDINATOR);
        c->waiting_told = true;
        return;
    }
    if (!hands_out(c)) {
        if (c->plan.free)
            iso_free_offer(c);
        else if (c->held == 0 && c->sum_count == 0)
            iso_local_begin(c);
        return;
    }
    for (uint32_t depth = 1; depth <= c->config.depth; depth++)
        for (uint32_t i = 0; i < c->live_count && c->pool.free > 0; i++)
            if (c->nodes[c->live[i]].key != c->key || c->nodes[c->live[i]].held < depth)
                serve(c, c->live[i]);
    if (c->pool.free > 0 && c->held == 0)
        force_fastest(c);
}

/* ---- answers ---- */

/* Repeats are not allowed to teach when to repeat (Karn's rule): the wait before a repeat would feed itself. */
static void learn(iso_coordinator *c, node *n, uint64_t samples, int64_t busy)
{
    if (c->purpose == ISO_PASS_TRAIN && samples > 0 && busy > 0)
        iso_member_learn(c, n, (double)samples, (double)busy);
    n->overdue = 0;
    double rest = (double)(c->now - n->asked - busy), most = 4 * n->overhead + (double)c->config.resend + 1e6;
    if (rest < 0)
        rest = 0;
    if (n->tries == 0) {
        iso_overhead_note(&n->fixed, rest);
        double fading = n->clean_overhead * 0.9 + rest * 0.1;
        n->clean_overhead = rest > fading ? rest : fading;
        n->patience -= n->patience > 0;
    } else if (n->patience < DOUBLINGS_MAX) {
        n->patience++;
    }
    n->overhead += ((rest < most ? rest : most) - n->overhead) / 4;
}

/* Of a lease that was cut only the first `units` units are done; the rest is free again. */
static void shorten(iso_coordinator *c, node *n, lease *l, uint32_t units)
{
    uint32_t keep = units, count = 0;
    for (uint32_t i = 0; i < l->range_count; i++) {
        iso_range *r = &l->range[i], rest = *r;
        uint32_t kept = r->count < keep ? r->count : keep;
        keep -= kept;
        rest.first += kept;
        rest.count -= kept;
        if (rest.count > 0)
            iso_pool_return(&c->pool, &rest, 1);
        r->count = kept;
        count += kept > 0;
    }
    c->leased -= l->units - units;
    n->units -= l->units - units;
    l->units = units;
    l->range_count = count;
    l->samples = iso_pool_samples(&c->pool, l->range, count);
}

/* The last of the leases that an answer retires may be shorter than it was given. */
static bool fits_last(const iso_coordinator *c, const lease *l, const body_answer *b)
{
    return b->units == l->units || (c->purpose == ISO_PASS_TRAIN && c->plan.way == ISO_PLAN_LOCAL && b->units < l->units);
}

bool iso_lease_retire(iso_coordinator *c, node *n, const body_answer *b)
{
    uint32_t count = b->number - n->done;
    uint64_t samples = 0;
    if (count > 0 && !fits_last(c, &n->lease[count - 1], b))
        return false;
    if (count > 0 && b->units < n->lease[count - 1].units)
        shorten(c, n, &n->lease[count - 1], b->units);
    for (uint32_t i = 0; i < count; i++)
        samples += n->lease[i].samples;
    if (b->totals.samples != n->samples_done + samples || b->totals.busy < n->totals.busy ||
        b->totals.correct < n->totals.correct)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        c->leased -= n->lease[i].units;
        if (c->purpose == ISO_PASS_TRAIN)
            continue;
        iso_pool_settle(&c->pool, n->lease[i].range, n->lease[i].range_count);
        c->counted += n->lease[i].units;
    }
    if (c->purpose != ISO_PASS_TRAIN) {
        iso_totals more = b->totals;
        more.samples -= n->totals.samples;
        more.correct -= n->totals.correct;
        more.loss = iso_wide_subtract(more.loss, n->totals.loss);
        more.busy -= n->totals.busy;
        iso_totals_add(&c->pass_totals, &more);
    }
    if (count > 0) {
        learn(c, n, samples, b->totals.busy - n->totals.busy);
        n->finished = n->lease[count - 1];
    }
    for (uint32_t i = count; i < n->held; i++)
        n->lease[i - count] = n->lease[i];
    n->samples_done += samples;
    n->done = b->number;
    n->held -= count;
    c->held -= count;
    if (count > 0 && n->held == 0)
        c->idle++;
    n->totals = b->totals;
    return true;
}

static void take(iso_coordinator *c, uint32_t id)
{
    node *n = &c->nodes[id];
    if (n->collecting)
        learn(c, n, 0, 0);
    n->collecting = false;
    n->taken = true;
    n->sums++;
    c->counted += n->units;
    if (!n->listed)
        c->sums[c->sum_count++] = id;
    n->listed = true;
    iso_emit(c, ISO_EFFECT_TAKE)->take = (iso_take){.node = id, .samples = n->totals.samples};
    if (c->config.sums_in_place) {
        n->counted = n->totals;
    } else {
        iso_totals_add(&n->counted, &n->totals);
        n->part++;
        clear_part(n);
    }
}

void iso_lease_bad_totals(iso_coordinator *c, uint32_t id)
{
    node *n = &c->nodes[id];
    uint32_t session = n->session;
    iso_member_drop(c, id, ISO_NODE_DEAD, ISO_RECORD_BAD_TOTALS);
    iso_member_reset(c, id, &(body_reset){.incarnation = c->incarnation, .session = session});
}

void iso_lease_answer(iso_coordinator *c, const iso_frame *f)
{
    bool training = c->purpose == ISO_PASS_TRAIN && (c->phase == ISO_PHASE_WORK || c->phase == ISO_PHASE_UPDATE);
    if (c->plan.free && training) {
        iso_free_answer(c, f);
        return;
    }
    body_answer b;
    uint32_t id = f->from;
    node *n = &c->nodes[id];
    if (!iso_body_get_answer(f, &b)) {
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, id)->reason = f->kind;
        return;
    }
    bool present = c->phase == ISO_PHASE_WORK && n->key == c->key && pass_key(f->round, b.purpose) == c->key;
    if (!present || b.part != n->part || b.number < n->done)
        return; /* of an earlier pass or part, or overtaken */
    if (b.number > n->given) {
        iso_lease_bad_totals(c, id);
        return;
    }
    bool sum = f->kind == ISO_FRAME_SUM && c->purpose == ISO_PASS_TRAIN && b.number == n->given && n->units > 0 &&
               b.units > 0 && !n->taken;
    if (b.number == n->done && !sum)
        return; /* repeated */
    bool progress = b.number > n->done;
    if (!iso_lease_retire(c, n, &b)) {
        iso_lease_bad_totals(c, id);
        return;
    }
    if (b.totals.bad_layer >= 0) {
        iso_course_fail(c, b.totals.bad_layer);
        return;
    }
    if (sum)
        take(c, id);
    if (progress || sum)
        watch(c, n);
    serve(c, id);
    if (c->pool.free > 0 && c->held == 0)
        c->share = true;
}

/* ---- revoking ---- */

void iso_lease_revoke(iso_coordinator *c, uint32_t id)
{
    node *n = &c->nodes[id];
    if (n->taken && c->config.sums_in_place)
        reopen(c, n);
    for (uint32_t i = 0; i < n->held; i++)
        c->leased -= n->lease[i].units;
    c->held -= n->held;
    if (n->held > 0)
        c->idle++;
    uint32_t units = iso_pool_revoke(&c->pool, id, n->part);
    if (units > 0)
        iso_emit_record(c, ISO_RECORD_REVOKE, id)->units = units;
    n->given = n->done = n->held = 0;
    n->taken = n->collecting = n->cutting = false;
    clear_part(n);
}

/* ---- time ---- */

void iso_lease_repeat(iso_coordinator *c, uint32_t id)
{
    node *n = &c->nodes[id];
    for (uint32_t i = 0; i < n->held; i++)
        send_work(c, id, &n->lease[i]);
    if (n->held == 0 || n->cutting)
        send_collect(c, id);
    uint32_t doubled = n->tries + n->patience < DOUBLINGS_MAX ? n->tries + n->patience : DOUBLINGS_MAX;
    n->tries++;
    n->resend_at = iso_later(c->now, held_work(n) / 2 + (double)c->config.resend * (double)((uint32_t)1 << doubled));
}

void iso_lease_timer(iso_coordinator *c)
{
    for (uint32_t i = c->live_count; i-- > 0;) { /* downwards: a drop moves the last one here */
        uint32_t id = c->live[i];
        node *n = &c->nodes[id];
        if (n->key != c->key || (n->held == 0 && !n->collecting))
            continue;
        if (c->now >= n->deadline) {
            uint32_t session = n->session;
            n->overdue += n->overdue < LONGER_MAX;
            iso_member_drop(c, id, ISO_NODE_DEAD, ISO_RECORD_DEAD);
            iso_member_reset(c, id, &(body_reset){.incarnation = c->incarnation, .session = session});
            continue;
        }
        if (c->now >= n->resend_at)
            iso_lease_repeat(c, id);
        iso_arm(c, n->deadline < n->resend_at ? n->deadline : n->resend_at);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * Who takes part: joining, sessions, leaving, and the sums of the members' speeds.
 *
 * A node numbers its lives; every HELLO names one. A larger life than the last known begins a new session, the same one
 * is a repeated HELLO and gets the same WELCOME, a smaller one is a leftover and gets RESET with the floor above which
 * it is welcome. Sessions are never reused within an incarnation, so whatever an old session says can be told from what
 * the new one says. */
#include "core/coordinator.h"

void iso_member_reset(iso_coordinator *c, uint32_t to, const body_reset *b)
{
    iso_frame *f = iso_emit_frame(c, ISO_FRAME_RESET, to);
    iso_body_put_reset(f, b);
}

void iso_member_weights(iso_coordinator *c, uint32_t to)
{
    /* Session 0 whoever gets them: the same bytes for all, and one order of versions at the receiver. */
    iso_emit_frame(c, ISO_FRAME_WEIGHTS, to)->session = 0;
    if (to < c->config.nodes_max)
        c->nodes[to].weights_sent = c->round + 1;
    else
        for (uint32_t i = 0; i < c->live_count; i++)
            c->nodes[c->live[i]].weights_sent = c->round + 1;
}

void iso_member_news(iso_coordinator *c)
{
    if (c->plan.way == ISO_PLAN_SUM || c->plan.free)
        iso_member_weights(c, ISO_EVERYONE);
    else
        iso_emit_frame(c, ISO_FRAME_DELTA, ISO_EVERYONE)->session = 0;
}

/* ---- speeds ---- */

void iso_member_speeds(iso_coordinator *c)
{
    c->known_speed = c->fastest = 0;
    c->known_count = 0;
    c->speeds_stale = false;
    for (uint32_t i = 0; i < c->live_count; i++) {
        double ns = c->nodes[c->live[i]].score.ns;
        if (ns <= 0)
            continue;
        c->known_speed += 1 / ns;
        c->known_count++;
        if (1 / ns > c->fastest)
            c->fastest = 1 / ns;
    }
}

void iso_member_learn(iso_coordinator *c, node *n, double samples, double ns)
{
    double before = n->score.ns;
    iso_score_measure(&n->score, samples, ns);
    double now = n->score.ns;
    if (now == before)
        return;
    c->known_count += before <= 0;
    c->known_speed += 1 / now - (before > 0 ? 1 / before : 0);
    c->speeds_stale |= before > 0 && now > before && 1 / before >= c->fastest;
    if (1 / now > c->fastest)
        c->fastest = 1 / now;
}

bool iso_member_try_again(iso_coordinator *c, node *n)
{
    if (n->parked_key == c->key)
        return false;
    n->parked_key = c->key;
    bool unsure = n->score.side < 0; /* the last try was so much faster that it takes a second one to believe it */
    return iso_parking_skip(&n->parking) || unsure;
}

/* ---- joining ---- */

static iso_refusal why_not(const iso_coordinator *c, const body_hello *b)
{
    if (b->program != c->config.program)
        return ISO_REFUSAL_PROGRAM;
    if (b->job_digest != c->config.job_digest)
        return ISO_REFUSAL_JOB;
    if (b->samples != c->config.samples || b->data_digest != c->config.data_digest)
        return ISO_REFUSAL_DATA;
    return ISO_REFUSAL_NONE;
}

static void refuse(iso_coordinator *c, const iso_frame *f, uint64_t life, iso_refusal reason)
{
    iso_frame *answer = iso_emit_frame(c, ISO_FRAME_REFUSE, f->from);
    answer->session = 0;
    iso_body_put_refuse(answer, &(body_refuse){.life = life, .reason = reason});
    iso_emit_record(c, ISO_RECORD_REFUSED, f->from)->reason = reason;
}

static void welcome(iso_coordinator *c, uint32_t id)
{
    iso_frame *f = iso_emit_frame(c, ISO_FRAME_WELCOME, id);
    iso_body_put_welcome(f, &(body_welcome){.life = c->nodes[id].life});
    if (!c->config.shared_weights && c->phase != ISO_PHASE_UPDATE)
        iso_member_weights(c, id);
}

static void join(iso_coordinator *c, uint32_t id, uint64_t life)
{
    node *n = &c->nodes[id];
    bool returns = n->known;
    n->life = life;
    n->known = true;
    n->session = ++c->sessions;
    n->state = ISO_NODE_LIVE;
    n->joined = c->now;
    n->live_index = c->live_count;
    n->deadline = n->resend_at = ISO_NEVER;
    c->live[c->live_count++] = id;
    c->idle++;
    c->waiting_told = false;
    c->shared_units = 0;
    iso_member_speeds(c);
    iso_emit_record(c, returns ? ISO_RECORD_RETURN : ISO_RECORD_JOIN, id);
    if (c->plan.free)
        iso_free_joined(c, n);
    welcome(c, id);
    c->share = true;
    if (c->phase == ISO_PHASE_GATHER)
        iso_course_gather(c);
}

void iso_member_hello(iso_coordinator *c, const iso_frame *f)
{
    body_hello b;
    if (!iso_body_get_hello(f, &b)) {
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, f->from)->reason = f->kind;
        return;
    }
    iso_refusal refusal = f->from < c->config.nodes_max ? why_not(c, &b) : ISO_REFUSAL_FULL;
    if (refusal != ISO_REFUSAL_NONE) {
        refuse(c, f, b.life, refusal);
        return;
    }
    node *n = &c->nodes[f->from];
    if (n->known && b.life == n->life && n->state == ISO_NODE_LIVE) {
        welcome(c, f->from);
        return;
    }
    if (n->known && b.life <= n->life) {
        iso_emit_record(c, ISO_RECORD_STALE, f->from)->reason = f->kind;
        iso_member_reset(c, f->from,
                         &(body_reset){.life = b.life, .floor = n->life + 1, .incarnation = f->incarnation});
        return;
    }
    if (n->state == ISO_NODE_LIVE) /* it began a new life before we noticed the end of the old one */
        iso_member_drop(c, f->from, ISO_NODE_LOST, ISO_RECORD_LOST);
    join(c, f->from, b.life);
}

/* ---- leaving ---- */

void iso_member_drop(iso_coordinator *c, uint32_t id, iso_node_state state, iso_record_kind why)
{
    node *n = &c->nodes[id];
    bool working = (c->phase == ISO_PHASE_WORK || (c->phase == ISO_PHASE_UPDATE && c->plan.free)) && n->key == c->key;
    iso_emit_record(c, why, id);
    if (working)
        iso_lease_revoke(c, id);
    uint32_t last = c->live[--c->live_count];
    c->live[n->live_index] = last;
    c->nodes[last].live_index = n->live_index;
    c->idle--; /* revoking has made it idle */
    n->state = state;
    n->present += c->now - n->joined;
    if (state != ISO_NODE_LEFT)
        n->deaths++;
    n->deadline = n->resend_at = ISO_NEVER;
    c->shared_units = 0;
    iso_member_speeds(c);
    c->share = true;
}

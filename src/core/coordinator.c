/* SPDX-License-Identifier: Apache-2.0
 * The coordinator: configuration, memory, the step and the views on it. What an event means is decided in member.c,
 * lease.c and course.c; here stands only who is asked, and in which order. */
#include "core/coordinator.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"

/* ---- configuration ---- */

void iso_core_config_default(iso_core_config *c)
{
    memset(c, 0, sizeof *c);
    c->epochs = 1;
    iso_policy_spec_default(&c->policy, iso_policy_find("nns"));
    c->nodes_max = c->nodes_first = 1;
    c->first_wait = ISO_NEVER;
    c->slices = 1;
    c->depth = 1;
    c->deadline_factor = 8;
    c->deadline_floor = (int64_t)1000000000;
    c->deadline_first = (int64_t)60000000000;
}

static int between(const char *name, uint64_t value, uint64_t min, uint64_t max, iso_error *e)
{
    if (value >= min && value <= max)
        return ISO_OK;
    return iso_error_set(e, ISO_E_ARGUMENT, "core config: %s is %llu, expected %llu to %llu", name,
                         (unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
}

static int not_negative(const char *name, int64_t value, iso_error *e)
{
    if (value >= 0)
        return ISO_OK;
    return iso_error_set(e, ISO_E_ARGUMENT, "core config: %s is negative", name);
}

static uint64_t units_max(const iso_core_config *c)
{
    iso_plan plan;
    iso_policy_plan(&c->policy, c->samples, c->batch, &plan);
    uint64_t batch = plan.whole_epoch || plan.batch > c->samples ? c->samples : plan.batch;
    uint64_t units = iso_units_in(batch, c->unit);
    uint64_t validation = iso_units_in(c->validation, c->unit), test = iso_units_in(c->test, c->unit);
    if (validation > units)
        units = validation;
    return test > units ? test : units;
}

int iso_core_config_check(const iso_core_config *c, iso_error *e)
{
    const uint64_t most = (uint64_t)1 << 46; /* samples: order numbers hold round << 16 in 64 bits */
    if (!c->policy.policy)
        return iso_error_set(e, ISO_E_ARGUMENT, "core config: policy is not set");
    if (between("samples", c->samples, 1, most, e) || between("validation", c->validation, 0, most, e) ||
        between("test", c->test, 0, most, e) || between("batch", c->batch, 1, UINT64_MAX, e) ||
        between("unit", c->unit, 1, ISO_UNIT_MAX, e) || between("epochs", c->epochs, 1, UINT32_MAX, e) ||
        between("samples * epochs", c->samples > most / c->epochs ? UINT64_MAX : 1, 1, most, e) ||
        between("values", c->values, ISO_LANES, (uint64_t)1 << 48, e) ||
        between("values % 16", c->values % ISO_LANES, 0, 0, e) ||
        between("nodes_max", c->nodes_max, 1, ISO_NODES_MAX, e) ||
        between("nodes_first", c->nodes_first, 1, c->nodes_max, e) ||
        between("slices", c->slices, 1, ISO_SLICES_MAX, e) || between("depth", c->depth, 1, ISO_LEASE_DEPTH, e) ||
        between("units of a pass", units_max(c), 1, INT32_MAX, e) || not_negative("first_wait", c->first_wait, e) ||
        not_negative("resend", c->resend, e) || not_negative("deadline_floor", c->deadline_floor, e) ||
        not_negative("deadline_first", c->deadline_first, e) || not_negative("checkpoint_ns", c->checkpoint_ns, e))
        return ISO_E_ARGUMENT;
    if (!(c->deadline_factor >= 1 && c->deadline_factor <= 1e6))
        return iso_error_set(e, ISO_E_ARGUMENT, "core config: deadline_factor is outside 1 to 1e6");
    return ISO_OK;
}

/* ---- memory ---- */

static iso_coordinator *carve(iso_arena *a, const iso_core_config *config)
{
    iso_coordinator *c = iso_arena_take_zeroed(a, 1, sizeof *c);
    iso_coordinator parts = {.config = *config};
    uint64_t units = units_max(config);
    parts.nodes = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.nodes);
    parts.live = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.live);
    parts.sums = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.sums);
    parts.queue = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.queue);
    parts.share_of = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.share_of);
    parts.heap = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.heap);
    parts.pool.tag = iso_arena_take_zeroed(a, (size_t)units, sizeof *parts.pool.tag);
    if (config->audit) {
        parts.run = iso_arena_take_zeroed(a, (size_t)units, sizeof *parts.run);
        parts.run_start = iso_arena_take_zeroed(a, config->nodes_max, sizeof *parts.run_start);
    }
    if (c)
        *c = parts;
    return c;
}

size_t iso_coordinator_bytes(const iso_core_config *config)
{
    size_t bytes = 0;
    if (iso_core_config_check(config, NULL) != ISO_OK)
        return 0;
    iso_arena a = iso_arena_sizing();
    carve(&a, config);
    return iso_arena_size(&a, &bytes) ? bytes : 0;
}

/* A step sends a node at most three frames (RESET or WELCOME and WEIGHTS, or ISO_LEASE_DEPTH leases and COLLECT) and
 * says at most two things about it; what concerns all of them at once (update slices, audit, BYE) is one more each. */
uint32_t iso_coordinator_effects_max(const iso_core_config *config)
{
    if (iso_core_config_check(config, NULL) != ISO_OK)
        return 0;
    return 6 * config->nodes_max + config->slices + 32;
}

iso_coordinator *iso_coordinator_init(const iso_core_config *config, uint32_t incarnation, void *memory)
{
    size_t bytes = iso_coordinator_bytes(config);
    if (bytes == 0 || !memory)
        return NULL;
    iso_arena a = iso_arena_on(memory, bytes);
    iso_coordinator *c = carve(&a, config);
    ISO_ASSERT(c && !a.failed);
    c->incarnation = incarnation > 0 ? incarnation : 1;
    c->batch = iso_policy_batch(&config->policy, config->samples, config->batch);
    iso_policy_plan(&config->policy, config->samples, config->batch, &c->plan);
    c->rounds_epoch = iso_epoch_rounds(config->samples, c->batch);
    c->rounds = c->plan.whole_epoch ? 0 : c->rounds_epoch * config->epochs;
    c->effects_most = iso_coordinator_effects_max(config);
    c->box_at = ISO_NEVER;
    c->evaluated = true;
    c->wake = ISO_NEVER;
    c->bad_layer = -1;
    iso_totals_clear(&c->epoch_totals);
    iso_totals_clear(&c->pass_totals);
    for (int i = 0; i < 2; i++)
        iso_totals_clear(&c->evaluation[i]);
    return c;
}

/* ---- effects ---- */

iso_effect *iso_emit(iso_coordinator *c, iso_effect_kind kind)
{
    ISO_ASSERT(c->effects->count < c->effects->capacity);
    iso_effect *effect = &c->effects->item[c->effects->count++];
    effect->kind = kind;
    return effect;
}

iso_frame *iso_emit_frame(iso_coordinator *c, iso_frame_kind kind, uint32_t id)
{
    iso_frame *f = &iso_emit(c, ISO_EFFECT_SEND)->frame;
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->incarnation = c->incarnation;
    f->session = id < c->config.nodes_max ? c->nodes[id].session : 0;
    f->from = ISO_COORDINATOR;
    f->to = id;
    f->round = c->round;
    f->slice_count = f->chunk_count = 1;
    return f;
}

iso_record *iso_emit_record(iso_coordinator *c, iso_record_kind kind, uint32_t id)
{
    iso_record *r = &iso_emit(c, ISO_EFFECT_LOG)->record;
    *r = (iso_record){.kind = kind, .node = id, .epoch = iso_course_epoch(c), .round = c->round};
    r->session = id < c->config.nodes_max ? c->nodes[id].session : 0;
    return r;
}

void iso_arm(iso_coordinator *c, int64_t at)
{
    if (at < c->wake_wanted)
        c->wake_wanted = at;
}

int64_t iso_later(int64_t now, double ns)
{
    return ns < (double)(ISO_NEVER - now) ? now + (int64_t)ns : ISO_NEVER;
}

/* ---- the step ---- */

static void stale(iso_coordinator *c, const iso_frame *f)
{
    iso_emit_record(c, ISO_RECORD_STALE, f->from)->reason = f->kind;
    iso_member_reset(c, f->from, &(body_reset){.incarnation = f->incarnation, .session = f->session});
}

/* While an update runs there are no weights to send; they follow at the border, or it asks again. */
static void on_need(iso_coordinator *c, const iso_frame *f)
{
    body_need b;
    if (!iso_body_get_need(f, &b)) {
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, f->from)->reason = f->kind;
        return;
    }
    if (b.drifted) { /* it joins again */
        iso_emit_record(c, ISO_RECORD_DRIFTED, f->from);
        return;
    }
    if (c->config.shared_weights || c->phase == ISO_PHASE_UPDATE)
        return;
    if (c->plan.free && c->purpose == ISO_PASS_TRAIN && c->phase == ISO_PHASE_WORK)
        iso_free_need(c, f->from);
    else
        iso_member_weights(c, f->from);
}

static void on_member_frame(iso_coordinator *c, const iso_frame *f)
{
    switch (f->kind) {
    case ISO_FRAME_DONE:
    case ISO_FRAME_SUM:
        iso_lease_answer(c, f);
        return;
    case ISO_FRAME_NEED:
        on_need(c, f);
        return;
    case ISO_FRAME_HEARTBEAT:
        return;
    case ISO_FRAME_PULSE:
        iso_local_pulse(c, f);
        return;
    case ISO_FRAME_BYE:
        iso_member_drop(c, f->from, ISO_NODE_LEFT, ISO_RECORD_LEAVE);
        return;
    default:
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, f->from)->reason = f->kind;
    }
}

static void on_frame(iso_coordinator *c, const iso_frame *f)
{
    if (f->from >= ISO_EVERYONE) { /* nobody that could be answered */
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, ISO_COORDINATOR)->reason = f->kind;
        return;
    }
    if (c->phase == ISO_PHASE_DONE || c->phase == ISO_PHASE_FAILED) {
        if (f->kind != ISO_FRAME_BYE)
            iso_emit_frame(c, ISO_FRAME_BYE, f->from);
        return;
    }
    if (f->kind == ISO_FRAME_HELLO) {
        iso_member_hello(c, f);
        return;
    }
    if (f->from >= c->config.nodes_max) {
        iso_emit_record(c, ISO_RECORD_BAD_FRAME, ISO_COORDINATOR)->reason = f->kind;
        return;
    }
    const node *n = &c->nodes[f->from];
    if (f->incarnation == c->incarnation && n->state == ISO_NODE_LIVE && f->session == n->session)
        on_member_frame(c, f);
    else if (f->kind != ISO_FRAME_BYE)
        stale(c, f);
}

static void on_start(iso_coordinator *c)
{
    c->phase = ISO_PHASE_GATHER;
    c->saved_at = c->now;
    c->gather_until = c->config.first_wait < ISO_NEVER - c->now ? c->now + c->config.first_wait : ISO_NEVER;
    if (c->resumed)
        iso_emit_record(c, ISO_RECORD_RESUMED, ISO_COORDINATOR);
    if (iso_course_finished(c))
        iso_course_finish(c, false);
    else
        iso_arm(c, c->gather_until);
}

static void on_timer(iso_coordinator *c)
{
    if (c->now < c->wake)
        return;
    c->wake = ISO_NEVER;
    if (c->phase == ISO_PHASE_GATHER) {
        iso_course_gather(c);
    } else if (c->phase == ISO_PHASE_WORK) {
        iso_local_timer(c);
        iso_lease_timer(c);
    }
}

static void dispatch(iso_coordinator *c, const iso_event *ev)
{
    bool over = c->phase == ISO_PHASE_DONE || c->phase == ISO_PHASE_FAILED;
    switch (ev->kind) {
    case ISO_EVENT_START:
        on_start(c);
        return;
    case ISO_EVENT_FRAME:
        on_frame(c, ev->frame);
        return;
    case ISO_EVENT_ORDER_DONE:
        iso_course_order_done(c, ev);
        return;
    case ISO_EVENT_TIMER:
        on_timer(c);
        return;
    case ISO_EVENT_PEER_LOST:
        if (!over && ev->node < c->config.nodes_max && c->nodes[ev->node].state == ISO_NODE_LIVE)
            iso_member_drop(c, ev->node, ISO_NODE_LOST, ISO_RECORD_LOST);
        return;
    case ISO_EVENT_CHECKPOINT_WANTED:
        iso_course_checkpoint_wanted(c);
        return;
    case ISO_EVENT_STOP:
        iso_course_stop(c);
        return;
    case ISO_EVENT_PULSE: /* a worker's: refused above */
    case ISO_EVENT_DRIFTED:
        return;
    }
}

int iso_coordinator_step(iso_coordinator *c, const iso_event *event, iso_effects *effects)
{
    effects->count = 0;
    if ((int)event->kind < ISO_EVENT_START || event->kind > ISO_EVENT_STOP ||
        (event->kind == ISO_EVENT_FRAME && !event->frame) ||
        effects->capacity < c->effects_most)
        return ISO_E_ARGUMENT;
    if ((event->kind == ISO_EVENT_START) != (c->phase == ISO_PHASE_NEW))
        return ISO_E_STATE;
    c->effects = effects;
    c->wake_wanted = ISO_NEVER;
    c->saving = false;
    if (event->now > c->now)
        c->now = event->now;
    dispatch(c, event);
    if (c->share && c->phase == ISO_PHASE_WORK)
        iso_lease_share(c);
    if (c->phase == ISO_PHASE_WORK)
        iso_course_check(c);
    if (c->wake_wanted < c->wake && c->phase != ISO_PHASE_DONE && c->phase != ISO_PHASE_FAILED) {
        c->wake = c->wake_wanted;
        iso_emit(c, ISO_EFFECT_WAKE)->at = c->wake;
    }
    c->effects = NULL;
    return ISO_OK;
}

/* ---- views ---- */

void iso_coordinator_look(const iso_coordinator *c, iso_coordinator_view *out)
{
    uint64_t cursor = iso_course_cursor(c);
    *out = (iso_coordinator_view){
        .phase = c->phase,
        .purpose = c->purpose,
        .epoch = iso_course_epoch(c),
        .incarnation = c->incarnation,
        .round = c->round,
        .rounds = c->rounds,
        .cursor = cursor,
        .samples_done = iso_course_epoch(c) * c->config.samples + cursor,
        .batch = c->batch,
        .nodes = c->live_count,
        .units = c->pool.units,
        .units_free = c->pool.free,
        .units_counted = c->counted,
        .wake = c->wake,
    };
}

bool iso_coordinator_node(const iso_coordinator *c, uint32_t id, iso_node_info *out)
{
    if (id >= c->config.nodes_max)
        return false;
    const node *n = &c->nodes[id];
    *out = (iso_node_info){
        .state = n->state,
        .session = n->session,
        .score = n->score.ns > 0 ? 1e9 / n->score.ns : 0,
        .samples = n->samples,
        .busy = n->busy,
        .leases = n->leases,
        .deaths = n->deaths,
        .holding = n->state == ISO_NODE_LIVE && n->key == c->key ? n->held : 0,
    };
    int64_t present = n->present + (n->state == ISO_NODE_LIVE ? c->now - n->joined : 0);
    out->idle = present > n->busy ? present - n->busy : 0;
    uint64_t finished = c->round > 0 ? pass_key(c->round - 1, ISO_PASS_TRAIN) : 0;
    if (c->plan.free) {
        bool last = c->round > 0 && c->applied == id;
        out->round_samples = last ? c->applied_totals.samples : 0;
        out->round_busy = last ? c->applied_totals.busy : 0;
    } else if (n->key == finished && finished != 0) {
        out->round_samples = n->counted.samples;
        out->round_busy = n->counted.busy;
    } else if (n->last_key == finished && finished != 0) {
        out->round_samples = n->last_samples;
        out->round_busy = n->last_busy;
    }
    return true;
}

void iso_coordinator_hint(iso_coordinator *c, uint32_t id, double score)
{
    if (id < c->config.nodes_max && score > 0 && score < 1e18) {
        iso_score_hint(&c->nodes[id].score, 1e9 / score);
        iso_member_speeds(c);
    }
}

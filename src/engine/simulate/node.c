/* SPDX-License-Identifier: Apache-2.0
 * The nodes' side: a worker core each, its effects, and its orders unit by unit in virtual time. */
#include <string.h>

#include "engine/simulate/inside.h"

#define EVALUATION_SPEED 3.0 /* forward alone is so many times as fast */

static const uint32_t no_cut = UINT32_MAX;

int64_t iso_sim_node_awake(const iso_sim *s, uint32_t id)
{
    const iso_fate *fate = &s->node[id].fate;
    int64_t awake = s->now;
    for (uint32_t i = 0; i < fate->count && fate->event[i].at <= s->now; i++) {
        const iso_machine_event *e = &fate->event[i];
        if (e->kind == ISO_MACHINE_PAUSE && s->now < e->at + e->length && e->at + e->length > awake)
            awake = e->at + e->length;
    }
    return awake;
}

/* ---- lives --------------------------------------------------------------------------------------------- */

static void forget(iso_sim *s, sim_node *n)
{
    for (uint32_t i = 0; i < SIM_NEWS; i++)
        iso_sim_drop(s, &n->news[i]);
    iso_sim_drop(s, &n->weights);
    iso_sim_drop(s, &n->answer);
    iso_sim_gather_fini(s, &n->weights_gather);
    iso_sim_gather_fini(s, &n->delta_gather);
    n->done.count = 0;
    n->done.samples = 0;
    n->computing = n->cancelled = n->has_weights = false;
    n->session = 0;
    n->serial++;
    n->timer++;
}

void iso_sim_node_start(iso_sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    if (n->up || s->ended)
        return;
    forget(s, n);
    n->up = true;
    n->life++;
    n->idle_since = s->now;
    if (!iso_sim_node_room(s, n))
        return;
    iso_worker_config c = {.node = id,
                           .life = n->life << 20, /* the core counts on from it when it joins again */
                           .samples = s->core.samples,
                           .validation = s->core.validation,
                           .test = s->core.test,
                           .seed = s->core.seed,
                           .job_digest = s->core.job_digest,
                           .data_digest = s->core.data_digest,
                           .program = s->core.program,
                           .resend = s->core.resend,
                           .heartbeat = s->core.resend > 0 ? 4 * s->core.resend : 0};
    n->core = iso_worker_init(&c, n->core);
    iso_event start = {.kind = ISO_EVENT_START};
    iso_sim_node_step(s, id, &start);
}

void iso_sim_node_crash(iso_sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    if (!n->up)
        return;
    iso_sim_trace(s, id, "gone", s->now, s->now, 0);
    n->up = false;
    iso_sim_unplug(s, id);
    forget(s, n);
}

void iso_sim_node_fini(iso_sim *s, sim_node *n)
{
    forget(s, n);
    iso_sim_drop(s, &n->arrived);
    iso_sim_drop(s, &n->taken);
    iso_sim_gather_fini(s, &n->up_gather);
    iso_sim_span_fini(s, &n->done);
    iso_free(s->alloc, n->replica_memory);
    iso_free(s->alloc, n->sum);
}

/* ---- orders -------------------------------------------------------------------------------------------- */

/* Has the order reached a place where it may end? */
static bool at_border(const iso_sim *s, const sim_node *n)
{
    if (s->plan.way != ISO_PLAN_LOCAL || n->order.purpose != ISO_PASS_TRAIN || s->plan.local_batch <= n->order.unit)
        return true;
    return n->totals.samples % s->plan.local_batch == 0;
}

/* The next unit ends at a known time. */
static void begin_unit(iso_sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    uint64_t first;
    uint32_t count = iso_compute_unit(&n->order, n->unit, &first);
    double work = n->order.purpose == ISO_PASS_TRAIN ? count : count / EVALUATION_SPEED;
    int64_t begin = n->unit ? s->now : s->now + n->machine->overhead;
    int64_t end = iso_speed_end(n->machine, &n->fate, s->seed, id, begin, work, n->factor);
    iso_sim_at(s, end, SIM_UNIT, id, 0, n->serial);
}

static void begin_order(iso_sim *s, uint32_t id, const iso_compute *c)
{
    sim_node *n = &s->node[id];
    if (n->computing) {
        iso_sim_fail(s, ISO_E_WRONG, "node %s was told to compute while it computes", n->machine->name);
        return;
    }
    iso_sim_trace(s, id, "wait", n->idle_since, s->now, 0);
    n->computing = true;
    n->cancelled = false;
    n->order = *c;
    n->serial++;
    n->factor = iso_speed_factor(n->machine, s->seed, id, n->orders++);
    n->began = s->now;
    n->unit = 0;
    n->pulsed = 0;
    n->cut = no_cut;
    iso_totals_clear(&n->totals);
    if (c->purpose == ISO_PASS_TRAIN) {
        iso_sim_check_weights(s, id);
        iso_sim_drop(s, &n->answer);
        n->exact = c->exact || s->plan.one_node;
        if (c->fresh) {
            n->done.count = 0;
            n->done.samples = 0;
            n->done.epoch = c->epoch;
            if (n->sum)
                memset(n->sum, 0, s->values * sizeof *n->sum);
            if (n->replica)
                iso_replica_begin(n->replica, c->epoch, s->plan.way == ISO_PLAN_LOCAL ? c->units : c->pass_units);
        }
    }
    begin_unit(s, id);
}

static void end_order(iso_sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = n->order.order, .units = n->unit};
    if (n->replica && n->order.purpose == ISO_PASS_TRAIN && s->plan.way == ISO_PLAN_LOCAL) {
        int32_t bad = -1;
        iso_replica_finish(n->replica, &bad);
        if (bad >= 0 && (n->totals.bad_layer < 0 || bad < n->totals.bad_layer))
            n->totals.bad_layer = bad;
    }
    n->computing = false;
    n->idle_since = s->now;
    iso_sim_trace(s, id, n->order.purpose == ISO_PASS_TRAIN ? "train" : "evaluate", n->began, s->now, n->totals.samples);
    done.totals = n->totals;
    done.totals.busy = s->now - n->began;
    iso_sim_node_step(s, id, &done);
}

/* The monitor's figures; without arithmetic a walk that goes the same way everywhere and spreads. */
static void pulse(iso_sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    iso_event event = {.kind = ISO_EVENT_PULSE, .order = n->order.order, .totals = n->totals};
    event.totals.busy = s->now - n->began;
    n->pulsed = n->totals.samples;
    if (n->replica)
        iso_replica_figures(n->replica, &event.figures);
    else
        event.figures.norm2 = (double)n->totals.samples * 1e-6;
    iso_sim_node_step(s, id, &event);
}

void iso_sim_node_unit(iso_sim *s, uint32_t id)
{
    sim_node *n = &s->node[id];
    uint64_t first, serial = n->serial;
    uint32_t count = iso_compute_unit(&n->order, n->unit, &first);
    if (!n->cancelled) {
        iso_sim_unit(s, n, first, count);
        if (n->order.purpose == ISO_PASS_TRAIN)
            iso_sim_span_add(s, &n->done, first, count);
        iso_sim_unit_twice(s, id, first, count);
    }
    n->unit++;
    bool over = n->unit == n->order.units || n->cancelled || (n->unit >= n->cut && at_border(s, n));
    uint64_t step = (uint64_t)s->plan.monitor_every * s->plan.local_batch;
    if (!over && step && n->order.purpose == ISO_PASS_TRAIN && n->totals.samples - n->pulsed >= step && at_border(s, n))
        pulse(s, id);
    if (s->ended || n->serial != serial)
        return;
    if (over)
        end_order(s, id);
    else
        begin_unit(s, id);
}

/* ---- effects ------------------------------------------------------------------------------------------- */

/* A new session begins with nothing of the last one's. */
static void look_at_session(iso_sim *s, sim_node *n)
{
    iso_worker_view v;
    iso_worker_look(n->core, &v);
    if (v.session == 0 || v.session == n->session)
        return;
    if (n->replica && n->session)
        iso_replica_reset(n->replica);
    n->session = v.session;
    iso_sim_drop(s, &n->answer);
}

static void send_up(iso_sim *s, uint32_t id, const iso_frame *f)
{
    sim_node *n = &s->node[id];
    sim_blob *blob = f->kind == ISO_FRAME_SUM ? iso_sim_answer(s, n) : NULL;
    if (!s->ended)
        iso_sim_send(s, id, true, f, blob);
}

static void effect(iso_sim *s, uint32_t id, const iso_effect *f)
{
    sim_node *n = &s->node[id];
    switch (f->kind) {
    case ISO_EFFECT_SEND:
        send_up(s, id, &f->frame);
        return;
    case ISO_EFFECT_COMPUTE:
        begin_order(s, id, &f->compute);
        return;
    case ISO_EFFECT_CUT:
        if (n->computing && f->cut.order == n->order.order)
            n->cut = f->cut.units;
        return;
    case ISO_EFFECT_CANCEL:
        n->cancelled |= n->computing && f->order == n->order.order;
        return;
    case ISO_EFFECT_ADOPT:
    case ISO_EFFECT_APPLY:
        iso_sim_adopt(s, id, f->round, f->kind == ISO_EFFECT_ADOPT);
        return;
    case ISO_EFFECT_WAKE:
        n->timer++;
        if (f->at != ISO_NEVER)
            iso_sim_at(s, f->at, SIM_TIMER, id, 0, n->timer);
        return;
    case ISO_EFFECT_FAILED:
        iso_sim_fail(s, ISO_E_WRONG, "node %s ended: %s", n->machine->name, f->error->text);
        return;
    case ISO_EFFECT_LOG:
    case ISO_EFFECT_DONE:
        return;
    default:
        iso_sim_fail(s, ISO_E_WRONG, "a worker gave the effect %s", iso_effect_name(f->kind));
    }
}

void iso_sim_node_step(iso_sim *s, uint32_t id, iso_event *event)
{
    sim_node *n = &s->node[id];
    uint64_t life = n->life;
    iso_effect item[ISO_WORKER_EFFECTS_MAX];
    iso_effects effects = {.item = item, .capacity = ISO_WORKER_EFFECTS_MAX};
    event->now = s->now;
    if (iso_worker_step(n->core, event, &effects)) {
        iso_sim_fail(s, ISO_E_WRONG, "the worker of node %s refused an event", n->machine->name);
        return;
    }
    look_at_session(s, n);
    for (uint32_t i = 0; i < effects.count && !s->ended && n->up && n->life == life; i++)
        effect(s, id, &item[i]);
}

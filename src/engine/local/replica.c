/* SPDX-License-Identifier: Apache-2.0
 * A worker with weights of its own: leases of local steps or of gradients, its answers, and the news of a merge. On the worker's
 * thread. */
#include <string.h>

#include "engine/local/inside.h"

static void replica_config(const iso_local *l, iso_replica_config *c)
{
    *c = (iso_replica_config){.net = l->config.net,
                              .optimizer = &l->core.optimizer,
                              .schedule = &l->core.schedule,
                              .way = l->plan.way == ISO_PLAN_LOCAL ? ISO_WAY_LOCAL : ISO_WAY_GRADIENT,
                              .samples = l->core.samples,
                              .total = l->core.samples * l->core.epochs,
                              .unit = l->config.unit,
                              .local_batch = l->plan.local_batch,
                              .monitor = l->plan.monitor_every > 0,
                              .carry = l->plan.one_node};
}

/* A run that cannot go on ends with what this thread found. */
static void fail(worker *w, int code, const char *text)
{
    iso_local *l = w->local;
    iso_local_lock(l);
    if (!l->ended)
        iso_local_fail(l, code, text);
    iso_local_unlock(l);
}

/* ---- working ------------------------------------------------------------------------------------------- */

static const int32_t *load(void *context, uint64_t position, uint32_t n, iso_pass *pass, iso_narrow *narrow)
{
    worker *w = context;
    if (pass)
        iso_feeder_load(&w->feeder, ISO_FEED_TRAIN, w->epoch, position, n, pass);
    else
        iso_feeder_load_narrow(&w->feeder, w->epoch, position, n, narrow);
    return w->feeder.label;
}

/* Frames that came in while a unit was computed: they may cut or cancel the order. */
static void look_up(worker *w)
{
    while (!w->cancelled && iso_local_inbox_first(w))
        iso_local_worker_frame(w);
}

static void pulse(worker *w, const iso_compute *c, const iso_totals *totals)
{
    uint64_t steps = iso_replica_steps(w->replica);
    bool heard = w->local->config.workers > 1 && c->order > 0; /* order 0: nobody gave it, it measures */
    if (!heard || steps - w->pulsed < w->local->plan.monitor_every)
        return;
    w->pulsed = steps;
    iso_event event = {.kind = ISO_EVENT_PULSE, .order = c->order, .totals = *totals};
    iso_replica_figures(w->replica, &event.figures);
    iso_local_worker_step(w, &event);
}

static bool goes_on(const worker *w, uint32_t done)
{
    bool border = iso_replica_pending(w->replica) == 0;
    return !w->cancelled && !(border && done >= w->cut_units) &&
           !atomic_load_explicit(&w->local->over, memory_order_relaxed);
}

void iso_local_replica_train(worker *w, const iso_compute *c, iso_event *done)
{
    const iso_plan *plan = &w->local->plan;
    iso_totals *t = &done->totals;
    int64_t begun = iso_clock_ns();
    iso_totals_clear(t);
    w->cancelled = false;
    w->cut_units = c->units;
    w->epoch = c->epoch;
    w->exact = c->exact || plan->one_node;
    if (c->fresh) {
        iso_replica_begin(w->replica, c->epoch, plan->way == ISO_PLAN_LOCAL ? c->units : c->pass_units);
        w->pulsed = 0;
    }
    for (done->units = 0; done->units < c->units && goes_on(w, done->units); done->units++) {
        uint64_t first;
        int64_t unit_begun = iso_clock_ns();
        uint32_t n = iso_compute_unit(c, done->units, &first);
        iso_unit_result r;
        iso_replica_work(w->replica, w->step_pass, first, n, load, w, &r);
        iso_totals_add_unit(t, &r);
        iso_local_nap(w, iso_clock_ns() - unit_begun); /* here, so that pulses and cuts meet a slow worker where it would be */
        look_up(w);
        if (plan->monitor_every > 0 && !w->cancelled)
            pulse(w, c, t);
    }
    int32_t bad = -1;
    if (plan->way == ISO_PLAN_LOCAL)
        iso_replica_finish(w->replica, &bad);
    if (bad >= 0 && (t->bad_layer < 0 || bad < t->bad_layer))
        t->bad_layer = bad;
    t->busy = iso_clock_ns() - begun;
}

parcel *iso_local_replica_answer(worker *w)
{
    iso_local *l = w->local;
    iso_payload payload = w->exact ? ISO_PAYLOAD_EXACT : l->plan.up;
    iso_error e;
    iso_local_lock(l);
    parcel *p = iso_local_parcel(l, iso_replica_answer_bytes(w->replica, payload));
    iso_local_unlock(l);
    if (!p) {
        fail(w, ISO_E_NOMEM, "no memory for a worker's answer");
        return NULL;
    }
    p->payload = payload;
    int result = iso_replica_encode(w->replica, payload, p->data, p->bytes, &e);
    if (result == 0)
        return p;
    iso_local_parcel_drop(p);
    fail(w, result, e.text);
    return NULL;
}

/* ---- news ---------------------------------------------------------------------------------------------- */

void iso_local_replica_heard(worker *w, parcel *news, iso_frame_kind kind)
{
    if (w->news_count == NEWS_MAX) {
        iso_local_parcel_drop(w->news[0].parcel);
        memmove(w->news, w->news + 1, (NEWS_MAX - 1) * sizeof *w->news);
        w->news_count--;
    }
    w->news[w->news_count++] = (struct news){.parcel = news, .full = kind == ISO_FRAME_WEIGHTS};
}

/* Drops all up to this round. */
static void forget(worker *w, uint64_t round)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->news_count; i++)
        if (w->news[i].parcel->round <= round)
            iso_local_parcel_drop(w->news[i].parcel);
        else
            w->news[kept++] = w->news[i];
    w->news_count = kept;
}

void iso_local_replica_news(worker *w, uint64_t round, bool full)
{
    iso_error e = {0};
    int result = ISO_E_STATE;
    for (uint32_t i = 0; i < w->news_count; i++) {
        const parcel *p = w->news[i].parcel;
        if (p->round != round || w->news[i].full != full)
            continue;
        result = full ? iso_replica_adopt(w->replica, p->data, p->bytes, &e)
                      : iso_replica_apply(w->replica, p->payload, p->data, p->bytes, &e);
        break;
    }
    forget(w, round);
    if (result)
        fail(w, result, *e.text ? e.text : "a worker lost the weights it was sent");
}

/* A new session begins with nothing remembered. */
void iso_local_replica_session(worker *w)
{
    iso_worker_view v;
    iso_worker_look(w->core, &v);
    if (v.session == w->session || v.session == 0)
        return;
    w->session = v.session;
    iso_replica_reset(w->replica);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

int iso_local_replica_init(worker *w, iso_error *e)
{
    iso_local *l = w->local;
    iso_replica_config c;
    replica_config(l, &c);
    size_t bytes = iso_replica_bytes(&c);
    uint32_t unit = bytes == SIZE_MAX ? 0 : iso_replica_pass_unit(&c);
    size_t pass = unit ? iso_pass_bytes(l->config.net, unit, true) : 0;
    w->replica_memory = bytes == SIZE_MAX ? NULL : iso_new_raw(l->alloc, bytes, 1);
    w->step_pass_memory = pass ? iso_new_raw(l->alloc, pass, 1) : NULL;
    if (!w->replica_memory || (pass && !w->step_pass_memory))
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a worker's own weights: %zu bytes were asked for", bytes);
    w->replica = iso_replica_init(&c, w->replica_memory);
    w->step_pass = pass ? iso_pass_init(l->config.net, unit, true, w->step_pass_memory) : NULL;
    return 0;
}

void iso_local_replica_fini(worker *w)
{
    iso_free(w->local->alloc, w->replica_memory);
    iso_free(w->local->alloc, w->step_pass_memory);
}

/* SPDX-License-Identifier: Apache-2.0
 * The worker: joins, computes leases one after the other, answers, and starts over when it is told that it is stale.
 *
 * Invariants. At most one order runs. A result counts only for the session, pass and lease it was started for
 * (`wanted`). Leases of a pass are taken strictly by number: a gap is not entered, its repeat will come. Totals are of
 * one (session, pass, part). */
#include <string.h>

#include "base/assert.h"
#include "core/body.h"

struct iso_worker {
    iso_worker_config config;
    iso_worker_phase phase;
    uint32_t incarnation, session;
    uint64_t life;
    int64_t now, wake, wake_wanted, heard;
    uint32_t hellos;              /* sent for this life */
    iso_effects *effects;
    iso_error error;

    uint32_t weights_incarnation; /* of the weights below: another incarnation's may differ in the same round */
    bool has_weights;
    uint64_t weights_round;       /* of the current weights */
    bool adopting;                /* newer ones wait for the running order to end */
    bool applying;                /* ... and are a difference from the current ones */
    bool missed;                  /* a difference came that did not fit: whole weights must be asked for */
    uint64_t adopting_round;

    uint64_t key;                 /* present pass; 0: none */
    uint64_t round;
    uint32_t part, done;
    bool begun;                   /* this part's sum has been started */
    iso_totals totals;
    body_work queue[ISO_LEASE_DEPTH];
    uint32_t held;                /* in queue, the running one first */

    uint32_t last_units;          /* done of lease `done` */
    bool running, wanted;         /* an order runs; its result is still wanted */
    bool cut;                     /* it was told to end early */
    uint64_t order;
    bool rejoin;                  /* join again as soon as nothing runs */
};

static const int64_t resend_max = (int64_t)3600 * 1000000000; /* one hour: doubling it a few times stays in range */

size_t iso_worker_bytes(void)
{
    return sizeof(iso_worker);
}

iso_worker *iso_worker_init(const iso_worker_config *config, void *memory)
{
    iso_worker *w = memory;
    memset(w, 0, sizeof *w);
    w->config = *config;
    w->life = config->life;
    if (w->config.resend > resend_max)
        w->config.resend = resend_max;
    w->wake = ISO_NEVER;
    iso_totals_clear(&w->totals);
    return w;
}

/* ---- effects ---- */

static iso_effect *emit(iso_worker *w, iso_effect_kind kind)
{
    ISO_ASSERT(w->effects->count < w->effects->capacity);
    iso_effect *effect = &w->effects->item[w->effects->count++];
    effect->kind = kind;
    return effect;
}

static iso_frame *emit_frame(iso_worker *w, iso_frame_kind kind)
{
    iso_frame *f = &emit(w, ISO_EFFECT_SEND)->frame;
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->incarnation = w->incarnation;
    f->session = w->session;
    f->from = w->config.node;
    f->to = ISO_COORDINATOR;
    f->round = w->round;
    f->slice_count = f->chunk_count = 1;
    return f;
}

static void arm(iso_worker *w, int64_t delay)
{
    if (delay > 0 && delay < ISO_NEVER - w->now && w->now + delay < w->wake_wanted)
        w->wake_wanted = w->now + delay;
}

static void cancel(iso_worker *w)
{
    if (w->running && w->wanted)
        emit(w, ISO_EFFECT_CANCEL)->order = w->order;
    w->wanted = false;
}

/* ---- joining ---- */

static void send_hello(iso_worker *w)
{
    iso_frame *f = emit_frame(w, ISO_FRAME_HELLO);
    f->round = 0;
    iso_body_put_hello(f, &(body_hello){
                              .life = w->life,
                              .samples = w->config.samples,
                              .data_digest = w->config.data_digest,
                              .job_digest = w->config.job_digest,
                              .program = w->config.program,
                          });
    uint32_t doubled = w->hellos < 5 ? w->hellos : 5;
    w->hellos++;
    arm(w, w->config.resend << doubled);
}

/* Drops whatever the old session was about. While an order runs only its end can bring the new HELLO: a node that
 * cannot compute must not look as if it could. */
static void join_again(iso_worker *w, uint64_t life)
{
    w->phase = ISO_WORKER_JOINING;
    w->life = life;
    w->session = 0;
    w->hellos = 0;
    w->key = 0;
    w->held = 0;
    w->rejoin = w->running;
    cancel(w);
    if (!w->running)
        send_hello(w);
}

static void over(iso_worker *w)
{
    cancel(w);
    w->held = 0;
    w->phase = ISO_WORKER_OVER;
}

static void finish(iso_worker *w, bool stopped)
{
    over(w);
    emit(w, ISO_EFFECT_DONE)->stopped = stopped;
}

/* ---- computing ---- */

static void answer(iso_worker *w, bool sum)
{
    iso_frame *f = emit_frame(w, sum ? ISO_FRAME_SUM : ISO_FRAME_DONE);
    f->serial = w->done;
    iso_body_put_answer(f, &(body_answer){
                               .purpose = (iso_purpose_of_pass)((w->key - 1) % 4),
                               .number = w->done,
                               .part = w->part,
                               .units = w->last_units,
                               .totals = w->totals,
                           });
}

/* The answer to the last lease: with the sum when that is wanted and there is one. */
static void answer_last(iso_worker *w, bool final)
{
    answer(w, final && w->held == 0 && w->totals.samples > 0);
}

static uint64_t samples_of(const iso_worker *w, iso_purpose_of_pass purpose)
{
    switch (purpose) {
    case ISO_PASS_VALIDATION:
        return w->config.validation;
    case ISO_PASS_TEST:
        return w->config.test;
    default:
        return w->config.samples;
    }
}

static bool has_weights_of(const iso_worker *w, uint64_t round)
{
    return w->config.shared_weights ||
           (w->has_weights && w->weights_round == round && w->weights_incarnation == w->incarnation);
}

static void send_need(iso_worker *w, bool drifted)
{
    iso_body_put_need(emit_frame(w, ISO_FRAME_NEED), &(body_need){.drifted = drifted});
}

/* Makes received weights current, and starts the first lease that waits, unless something runs or its weights are not
 * here. */
static void start_next(iso_worker *w)
{
    if (w->running)
        return;
    if (w->adopting) {
        emit(w, w->applying ? ISO_EFFECT_APPLY : ISO_EFFECT_ADOPT)->round = w->adopting_round;
        w->has_weights = true;
        w->weights_round = w->adopting_round;
        w->adopting = w->applying = false;
    }
    if (w->held == 0)
        return;
    if (!has_weights_of(w, w->round)) {
        if (w->missed)
            send_need(w, false);
        w->missed = false;
        arm(w, w->config.resend);
        return;
    }
    w->missed = false;
    const body_work *b = &w->queue[0];
    iso_compute *c = &emit(w, ISO_EFFECT_COMPUTE)->compute;
    *c = (iso_compute){
        .order = ++w->order,
        .purpose = b->purpose,
        .fresh = b->purpose == ISO_PASS_TRAIN && !w->begun,
        .epoch = b->epoch,
        .round = w->round,
        .seed = w->config.seed,
        .samples = samples_of(w, b->purpose),
        .first = b->first,
        .end = b->end,
        .unit = b->unit,
        .pass_units = b->pass_units,
        .range_count = b->range_count,
        .exact = b->exact,
    };
    for (uint32_t i = 0; i < b->range_count; i++) {
        c->range[i] = b->range[i];
        c->units += b->range[i].count;
    }
    w->begun = true;
    w->running = w->wanted = true;
    w->cut = false;
}

static uint32_t units_of(const body_work *b)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < b->range_count; i++)
        units += b->range[i].count;
    return units;
}

/* The first lease is done, as far as it goes. */
static void retire_first(iso_worker *w, uint32_t units)
{
    bool final = w->queue[0].final;
    w->last_units = units;
    w->done++;
    w->held--;
    for (uint32_t i = 0; i < w->held; i++)
        w->queue[i] = w->queue[i + 1];
    answer_last(w, final);
}

static void on_order_done(iso_worker *w, const iso_event *ev)
{
    if (!w->running || ev->order != w->order)
        return;
    w->running = false;
    if (w->phase == ISO_WORKER_OVER)
        return;
    if (w->rejoin) {
        w->rejoin = false;
        send_hello(w);
    }
    if (w->wanted) {
        uint32_t units = units_of(&w->queue[0]);
        iso_totals_add(&w->totals, &ev->totals);
        w->wanted = false;
        retire_first(w, w->cut && ev->units < units ? ev->units : units);
    }
    start_next(w);
}

/* Nothing that was made with wrong weights may count: it says so and joins again, so that its leases go to whoever is right. */
static void on_drifted(iso_worker *w)
{
    if (w->phase != ISO_WORKER_READY || w->config.shared_weights)
        return;
    send_need(w, true);
    w->has_weights = w->adopting = w->applying = false;
    join_again(w, w->life + 1);
}

static void on_pulse(iso_worker *w, const iso_event *ev)
{
    if (!w->running || !w->wanted || ev->order != w->order || w->phase != ISO_WORKER_READY)
        return;
    iso_body_put_pulse(emit_frame(w, ISO_FRAME_PULSE), &(body_pulse){.number = w->done + 1,
                                                                     .part = w->part,
                                                                     .samples = ev->totals.samples,
                                                                     .figures = ev->figures});
}

/* ---- frames of the present session ---- */

static void enter_pass(iso_worker *w, uint64_t key, uint64_t round)
{
    cancel(w);
    w->key = key;
    w->round = round;
    w->held = w->done = w->last_units = 0;
    w->part = 0;
    w->begun = false;
    iso_totals_clear(&w->totals);
}

static void on_work(iso_worker *w, const iso_frame *f)
{
    body_work b;
    if (!iso_body_get_work(f, &b) || b.end > samples_of(w, b.purpose))
        return;
    uint64_t key = pass_key(f->round, b.purpose);
    bool outrun = w->weights_incarnation == w->incarnation &&
                  ((w->has_weights && w->weights_round > f->round) || (w->adopting && w->adopting_round > f->round));
    if (key < w->key || outrun)
        return;
    if (key > w->key)
        enter_pass(w, key, f->round);
    if (b.number <= w->done) { /* a repeat: the answer got lost */
        if (b.part == w->part)
            answer_last(w, b.final);
        return;
    }
    if (b.number != w->done + w->held + 1 || w->held == ISO_LEASE_DEPTH)
        return; /* waits already, or an earlier one has not come yet */
    if (b.part != w->part) {
        if (b.part < w->part || w->held > 0)
            return;
        w->part = b.part;
        w->begun = false;
        iso_totals_clear(&w->totals);
    }
    w->queue[w->held++] = b;
    start_next(w);
}

/* The lease is to end when `units` are done, or at the next border; one that waits for its weights ends unbegun. */
static void cut(iso_worker *w, uint32_t units)
{
    if (!w->running) {
        retire_first(w, 0);
    } else if (w->wanted) {
        emit(w, ISO_EFFECT_CUT)->cut = (iso_cut){.order = w->order, .units = units};
        w->cut = true;
    }
}

static void on_collect(iso_worker *w, const iso_frame *f)
{
    body_collect b;
    if (!iso_body_get_collect(f, &b) || pass_key(f->round, ISO_PASS_TRAIN) != w->key)
        return;
    if (b.part != w->part || b.number == 0)
        return;
    if (b.number == w->done && w->held == 0)
        answer_last(w, true);
    else if (b.cut && b.number == w->done + 1 && w->held == 1)
        cut(w, b.units);
}

/* Newer weights are here; they become current as soon as nothing runs. */
static void expect(iso_worker *w, uint64_t round)
{
    w->adopting = true;
    w->adopting_round = round;
    if (w->key > 0 && w->round < round) { /* that round is over without us */
        cancel(w);
        w->held = 0;
    }
    start_next(w);
}

/* Weights are welcome before WELCOME too: whoever gathers them tells of each version once. */
static void on_weights(iso_worker *w, uint32_t incarnation, uint64_t round)
{
    if (w->config.shared_weights || incarnation < w->weights_incarnation)
        return;
    if (incarnation > w->weights_incarnation) {
        w->has_weights = w->adopting = false;
        w->weights_incarnation = incarnation;
    }
    if ((w->has_weights && round <= w->weights_round) || (w->adopting && round <= w->adopting_round))
        return;
    w->applying = false;
    expect(w, round);
}

/* What one round changed fits the weights of the round before alone. */
static void on_delta(iso_worker *w, uint32_t incarnation, uint64_t round)
{
    bool known = incarnation == w->weights_incarnation && w->has_weights;
    if (w->config.shared_weights || incarnation < w->weights_incarnation || (known && round <= w->weights_round))
        return;
    if (!known || w->adopting || w->weights_round + 1 != round) {
        w->missed = true;
        return;
    }
    w->applying = true;
    expect(w, round);
}

/* ---- frames about sessions ---- */

static void on_welcome(iso_worker *w, const iso_frame *f)
{
    body_welcome b;
    if (!iso_body_get_welcome(f, &b) || w->phase != ISO_WORKER_JOINING || w->rejoin || b.life != w->life)
        return;
    w->incarnation = f->incarnation;
    w->session = f->session;
    w->phase = ISO_WORKER_READY;
    arm(w, w->config.heartbeat);
}

static void on_reset(iso_worker *w, const iso_frame *f)
{
    body_reset b;
    if (!iso_body_get_reset(f, &b))
        return;
    bool session = w->phase == ISO_WORKER_READY && b.session == w->session && b.incarnation == w->incarnation;
    bool hello = w->phase == ISO_WORKER_JOINING && b.floor > 0 && b.life == w->life;
    if (session || hello)
        join_again(w, b.floor > w->life ? b.floor : w->life + 1);
}

static void on_refuse(iso_worker *w, const iso_frame *f)
{
    body_refuse b;
    if (!iso_body_get_refuse(f, &b) || w->phase != ISO_WORKER_JOINING || b.life != w->life)
        return;
    iso_error_set(&w->error, b.reason == ISO_REFUSAL_FULL ? ISO_E_ARGUMENT : ISO_E_MISMATCH, "node %u was refused: %s",
                  (unsigned)w->config.node, iso_refusal_text(b.reason));
    over(w);
    emit(w, ISO_EFFECT_FAILED)->error = &w->error;
}

static void on_session_frame(iso_worker *w, const iso_frame *f)
{
    if (w->phase != ISO_WORKER_READY || f->session < w->session)
        return;
    if (f->incarnation > w->incarnation || f->session > w->session) /* it does not mean us as we are */
        join_again(w, w->life + 1);
    else if (f->kind == ISO_FRAME_WORK)
        on_work(w, f);
    else
        on_collect(w, f);
}

static void on_frame(iso_worker *w, const iso_frame *f)
{
    if (f->from != ISO_COORDINATOR || f->incarnation < w->incarnation || w->phase == ISO_WORKER_OVER)
        return;
    w->heard = w->now;
    switch (f->kind) {
    case ISO_FRAME_WELCOME:
        on_welcome(w, f);
        return;
    case ISO_FRAME_REFUSE:
        on_refuse(w, f);
        return;
    case ISO_FRAME_RESET:
        on_reset(w, f);
        return;
    case ISO_FRAME_BYE:
        finish(w, false);
        return;
    case ISO_FRAME_WEIGHTS:
    case ISO_FRAME_DELTA:
        if (f->kind == ISO_FRAME_WEIGHTS)
            on_weights(w, f->incarnation, f->round);
        else
            on_delta(w, f->incarnation, f->round);
        if (w->phase == ISO_WORKER_READY && f->incarnation > w->incarnation)
            join_again(w, w->life + 1);
        return;
    case ISO_FRAME_WORK:
    case ISO_FRAME_COLLECT:
        on_session_frame(w, f);
        return;
    default:
        return;
    }
}

/* ---- time ---- */

static void on_timer(iso_worker *w)
{
    if (w->now < w->wake)
        return;
    w->wake = ISO_NEVER;
    if (w->phase == ISO_WORKER_JOINING && !w->rejoin) {
        send_hello(w);
        return;
    }
    if (w->phase != ISO_WORKER_READY)
        return;
    bool lacking = !w->running && w->held > 0;
    if (lacking) {
        send_need(w, false);
        arm(w, w->config.resend);
    }
    if (w->config.heartbeat > 0) {
        if (!lacking && !w->running && w->now - w->heard >= w->config.heartbeat)
            emit_frame(w, ISO_FRAME_HEARTBEAT);
        arm(w, w->config.heartbeat);
    }
}

/* ---- the step ---- */

static void dispatch(iso_worker *w, const iso_event *ev)
{
    switch (ev->kind) {
    case ISO_EVENT_START:
        w->phase = ISO_WORKER_JOINING;
        w->heard = w->now;
        send_hello(w);
        return;
    case ISO_EVENT_FRAME:
        on_frame(w, ev->frame);
        return;
    case ISO_EVENT_ORDER_DONE:
        on_order_done(w, ev);
        return;
    case ISO_EVENT_TIMER:
        on_timer(w);
        return;
    case ISO_EVENT_PEER_LOST:
        if (w->phase == ISO_WORKER_READY)
            join_again(w, w->life + 1);
        else if (w->phase == ISO_WORKER_JOINING && !w->rejoin)
            send_hello(w);
        return;
    case ISO_EVENT_STOP:
        if (w->phase == ISO_WORKER_OVER)
            return;
        if (w->phase == ISO_WORKER_READY)
            emit_frame(w, ISO_FRAME_BYE);
        finish(w, true);
        return;
    case ISO_EVENT_PULSE:
        on_pulse(w, ev);
        return;
    case ISO_EVENT_DRIFTED:
        on_drifted(w);
        return;
    case ISO_EVENT_CHECKPOINT_WANTED:
        return;
    }
}

int iso_worker_step(iso_worker *w, const iso_event *event, iso_effects *effects)
{
    effects->count = 0;
    if ((int)event->kind < ISO_EVENT_START || event->kind > ISO_EVENT_DRIFTED ||
        event->kind == ISO_EVENT_CHECKPOINT_WANTED || (event->kind == ISO_EVENT_FRAME && !event->frame) ||
        effects->capacity < ISO_WORKER_EFFECTS_MAX)
        return ISO_E_ARGUMENT;
    if ((event->kind == ISO_EVENT_START) != (w->phase == ISO_WORKER_NEW))
        return ISO_E_STATE;
    w->effects = effects;
    w->wake_wanted = ISO_NEVER;
    if (event->now > w->now)
        w->now = event->now;
    dispatch(w, event);
    if (w->wake_wanted < w->wake && w->phase != ISO_WORKER_OVER) {
        w->wake = w->wake_wanted;
        emit(w, ISO_EFFECT_WAKE)->at = w->wake;
    }
    w->effects = NULL;
    return ISO_OK;
}

void iso_worker_look(const iso_worker *w, iso_worker_view *out)
{
    *out = (iso_worker_view){
        .phase = w->phase,
        .incarnation = w->incarnation,
        .session = w->session,
        .life = w->life,
        .round = w->weights_round,
        .running = w->running,
        .order = w->order,
        .wake = w->wake,
    };
}

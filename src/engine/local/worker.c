/* SPDX-License-Identifier: Apache-2.0
 * A worker's thread: frames in, units and update slices, frames out. */
#include "engine/local/inside.h"
#include "engine/machine/load.h"

/* ---- inbox --------------------------------------------------------------------------------------------- */

bool iso_local_inbox_put(worker *w, const iso_frame *frame, const float *weights, parcel *bulk)
{
    uint32_t tail = atomic_load_explicit(&w->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&w->head, memory_order_acquire) >= INBOX_SLOTS)
        return false;
    slot *s = &w->inbox[tail % INBOX_SLOTS];
    s->frame = *frame;
    s->weights = weights;
    s->bulk = bulk;
    if (bulk)
        iso_local_parcel_hold(bulk);
    atomic_store_explicit(&w->tail, tail + 1, memory_order_release);
    return true;
}

const slot *iso_local_inbox_first(worker *w)
{
    uint32_t head = atomic_load_explicit(&w->head, memory_order_relaxed);
    return head == atomic_load_explicit(&w->tail, memory_order_acquire) ? NULL : &w->inbox[head % INBOX_SLOTS];
}

void iso_local_inbox_taken(worker *w)
{
    atomic_store_explicit(&w->head, atomic_load_explicit(&w->head, memory_order_relaxed) + 1, memory_order_release);
}

/* ---- stepping ------------------------------------------------------------------------------------------ */

static void deliver(worker *w, const iso_frame *frame)
{
    iso_local *l = w->local;
    parcel *answer = NULL;
    iso_event event = {.kind = ISO_EVENT_FRAME, .frame = frame};
    if (w->replica && frame->kind == ISO_FRAME_SUM && !(answer = iso_local_replica_answer(w)))
        return; /* the run has failed */
    iso_local_lock(l);
    l->arriving = answer;
    iso_local_step(l, &event);
    l->arriving = NULL;
    iso_local_parcel_drop(answer);
    iso_local_unlock(l);
}

/* Planted faults, for tests. False: the thread ends here. */
static bool survive(worker *w)
{
    const iso_train_faults *f = w->local->config.faults;
    if (!f || !f->worker)
        return true;
    iso_fault fault = f->worker(f->context, w->id, w->orders++);
    if (fault.kind == ISO_FAULT_STALL)
        iso_sleep_ns((int64_t)fault.milliseconds * 1000000, NULL);
    return fault.kind != ISO_FAULT_DIE;
}

/* A COMPUTE is put off until the effects are done: w->have_order. */
void iso_local_worker_step(worker *w, iso_event *event)
{
    event->now = iso_clock_ns();
    if (iso_worker_step(w->core, event, &w->effects)) {
        w->over = true;
        return;
    }
    for (uint32_t i = 0; i < w->effects.count; i++) {
        const iso_effect *f = &w->effects.item[i];
        switch (f->kind) {
        case ISO_EFFECT_SEND:
            deliver(w, &f->frame);
            break;
        case ISO_EFFECT_COMPUTE:
            w->order = f->compute;
            w->have_order = true;
            break;
        case ISO_EFFECT_CUT:
            w->cut_units = f->cut.units;
            break;
        case ISO_EFFECT_CANCEL:
            w->cancelled = true;
            break;
        case ISO_EFFECT_ADOPT:
        case ISO_EFFECT_APPLY:
            if (w->replica) /* else weights are shared */
                iso_local_replica_news(w, f->round, f->kind == ISO_EFFECT_ADOPT);
            break;
        case ISO_EFFECT_WAKE:
            w->wake_at = f->at;
            break;
        case ISO_EFFECT_DONE:
        case ISO_EFFECT_FAILED:
            w->over = true;
            break;
        default: /* LOG: the coordinator tells the same story */
            break;
        }
    }
    if (w->replica)
        iso_local_replica_session(w);
}

void iso_local_worker_frame(worker *w)
{
    const slot *s = iso_local_inbox_first(w);
    iso_frame frame = s->frame;
    if (frame.kind == ISO_FRAME_WORK)
        w->weights = s->weights;
    if (s->bulk)
        iso_local_replica_heard(w, s->bulk, frame.kind);
    iso_local_inbox_taken(w);
    iso_event event = {.kind = ISO_EVENT_FRAME, .frame = &frame};
    iso_local_worker_step(w, &event);
    if (frame.kind == ISO_FRAME_WORK && !w->have_order)
        atomic_fetch_add(&w->work_done, 1); /* stale: nothing will be computed */
}

static void compute(worker *w, iso_event *done)
{
    const iso_compute order = w->order;
    if (w->replica && order.purpose == ISO_PASS_TRAIN) {
        iso_local_replica_train(w, &order, done);
        return;
    }
    if (w->replica)
        w->weights = iso_replica_weights(w->replica);
    iso_local_compute(w, &order, &done->totals);
    done->units = order.units;
}

/* The order that step put off. False: a planted fault ends the thread. */
static bool run_order(worker *w)
{
    iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = w->order.order};
    if (!survive(w))
        return false;
    w->have_order = false;
    compute(w, &done);
    /* Nothing of this work reads the weights any more: said before the coordinator hears of it. */
    atomic_fetch_add(&w->work_done, 1);
    iso_local_worker_step(w, &done);
    return true;
}

static void run_slices(worker *w)
{
    iso_local *l = w->local;
    iso_event done;
    while (iso_local_update_slice(w, &done)) {
        iso_local_lock(l);
        w->update_ns += done.totals.busy;
        if (l->replicas)
            iso_local_merge_done(l);
        iso_local_step(l, &done);
        iso_local_unlock(l);
    }
}

/* ---- away ---------------------------------------------------------------------------------------------- */

/* Frames to a life that is over. */
static void empty_inbox(worker *w)
{
    for (const slot *s; (s = iso_local_inbox_first(w));) {
        if (s->frame.kind == ISO_FRAME_WORK)
            atomic_fetch_add(&w->work_done, 1);
        iso_local_parcel_drop(s->bulk);
        iso_local_inbox_taken(w);
    }
}

/* Leaves with its first lease of the round not begun, sleeps until it is wanted, and joins as a new life. */
static void go_away(worker *w)
{
    iso_local *l = w->local;
    w->have_order = false;
    atomic_fetch_add(&w->work_done, 1);
    atomic_store(&w->away, true);
    iso_local_worker_step(w, &(iso_event){.kind = ISO_EVENT_STOP});
    while (atomic_load(&w->away_wanted) && !atomic_load_explicit(&l->over, memory_order_acquire))
        iso_bell_wait(&w->bell, 0, ISO_NEVER);
    empty_inbox(w);
    if (atomic_load_explicit(&l->over, memory_order_acquire))
        return;
    iso_local_worker_core(w);
    w->over = false;
    w->wake_at = ISO_NEVER;
    atomic_store(&w->away, false);
    iso_local_worker_step(w, &(iso_event){.kind = ISO_EVENT_START});
}

static void work(worker *w)
{
    iso_local *l = w->local;
    iso_local_worker_step(w, &(iso_event){.kind = ISO_EVENT_START});
    while (!w->over && !atomic_load_explicit(&l->over, memory_order_acquire)) {
        if (w->have_order && w->order.fresh && atomic_load_explicit(&w->away_wanted, memory_order_relaxed)) {
            go_away(w);
        } else if (w->have_order) {
            if (!run_order(w))
                return;
        } else if (iso_local_update_waits(l)) {
            run_slices(w);
        } else if (iso_local_inbox_first(w)) {
            iso_local_worker_frame(w);
        } else if (!iso_bell_wait(&w->bell, l->patience, w->wake_at)) {
            w->wake_at = ISO_NEVER;
            iso_local_worker_step(w, &(iso_event){.kind = ISO_EVENT_TIMER});
        }
    }
}

void *iso_local_worker_main(void *context)
{
    worker *w = context;
    iso_local *l = w->local;
    iso_local_flush_denormals();
    atomic_store(&w->kernel_thread, iso_load_thread());
    work(w);
    atomic_store(&w->gone, true);
    if (atomic_fetch_sub(&l->alive, 1) == 1) {
        iso_local_lock(l);
        if (!l->ended)
            iso_local_fail(l, ISO_E_STATE, "all worker threads have ended before the run was done");
        iso_local_unlock(l);
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * A worker's thread: frames in, units and update slices, frames out. */
#include "engine/local/inside.h"

/* ---- inbox --------------------------------------------------------------------------------------------- */

bool iso_local_inbox_put(worker *w, const iso_frame *frame, const float *weights)
{
    uint32_t tail = atomic_load_explicit(&w->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&w->head, memory_order_acquire) >= INBOX_SLOTS)
        return false;
    slot *s = &w->inbox[tail % INBOX_SLOTS];
    s->frame = *frame;
    s->weights = weights;
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
    iso_event event = {.kind = ISO_EVENT_FRAME, .frame = frame};
    iso_local_lock(l);
    iso_local_step(l, &event);
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

/* One event of the worker's core and its effects. A COMPUTE is put off until the effects are done: w->have_order. */
static void step(worker *w, iso_event *event)
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
        case ISO_EFFECT_CANCEL:
            w->cancelled = true;
            break;
        case ISO_EFFECT_WAKE:
            w->wake_at = f->at;
            break;
        case ISO_EFFECT_DONE:
        case ISO_EFFECT_FAILED:
            w->over = true;
            break;
        default: /* ADOPT: weights are shared; LOG: the coordinator tells the same story */
            break;
        }
    }
}

void iso_local_worker_frame(worker *w)
{
    const slot *s = iso_local_inbox_first(w);
    iso_frame frame = s->frame;
    if (frame.kind == ISO_FRAME_WORK)
        w->weights = s->weights;
    iso_local_inbox_taken(w);
    iso_event event = {.kind = ISO_EVENT_FRAME, .frame = &frame};
    step(w, &event);
    if (frame.kind == ISO_FRAME_WORK && !w->have_order)
        atomic_fetch_add(&w->work_done, 1); /* stale: nothing will be computed */
}

/* The order that step put off. False: a planted fault ends the thread. */
static bool run_order(worker *w)
{
    iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = w->order.order};
    if (!survive(w))
        return false;
    iso_local_compute(w, &w->order, &done.totals);
    w->have_order = false;
    /* Nothing of this work reads the weights any more: said before the coordinator hears of it. */
    atomic_fetch_add(&w->work_done, 1);
    step(w, &done);
    return true;
}

static void run_slices(worker *w)
{
    iso_local *l = w->local;
    iso_event done;
    while (iso_local_update_slice(w, &done)) {
        iso_local_lock(l);
        w->update_ns += done.totals.busy;
        iso_local_step(l, &done);
        iso_local_unlock(l);
    }
}

static void work(worker *w)
{
    iso_local *l = w->local;
    step(w, &(iso_event){.kind = ISO_EVENT_START});
    while (!w->over && !atomic_load_explicit(&l->over, memory_order_acquire)) {
        if (w->have_order) {
            if (!run_order(w))
                return;
        } else if (iso_local_update_waits(l)) {
            run_slices(w);
        } else if (iso_local_inbox_first(w)) {
            iso_local_worker_frame(w);
        } else if (!iso_bell_wait(&w->bell, l->patience, w->wake_at)) {
            w->wake_at = ISO_NEVER;
            step(w, &(iso_event){.kind = ISO_EVENT_TIMER});
        }
    }
}

void *iso_local_worker_main(void *context)
{
    worker *w = context;
    iso_local *l = w->local;
    iso_local_flush_denormals();
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

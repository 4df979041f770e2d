/* SPDX-License-Identifier: Apache-2.0
 * Stepping the coordinator and doing what it says. Everything here runs with the lock held, on whatever thread has an
 * event. */
#include <stdio.h>
#include <string.h>

#include "engine/local/inside.h"

void iso_local_lock(iso_local *l)
{
    for (uint32_t i = 0; l->patience > 0 && i < LOCK_LOOKS; i++) {
        if (pthread_mutex_trylock(&l->lock) == 0)
            return;
        iso_pause();
    }
    pthread_mutex_lock(&l->lock);
}

void iso_local_unlock(iso_local *l)
{
    pthread_mutex_unlock(&l->lock);
}

/* ---- notes --------------------------------------------------------------------------------------------- */

/* The next free note. A full queue holds the round up until the calling thread has dealt with some: it never waits
 * for the lock while notes are there. */
static iso_note *note_new(iso_local *l, iso_note_kind kind, int64_t at)
{
    uint32_t tail = atomic_load_explicit(&l->note_tail, memory_order_relaxed);
    while (tail - atomic_load_explicit(&l->note_head, memory_order_acquire) >= l->note_count) {
        iso_bell_ring(&l->bell);
        iso_sleep_ns(100000, NULL);
    }
    iso_note *n = (iso_note *)(void *)(l->notes + (tail % l->note_count) * l->note_bytes);
    n->kind = kind;
    n->at = at;
    n->stopped = n->late = n->more = false;
    n->bytes_up = n->bytes_down = n->sent_up = n->sent_down = 0;
    n->probe = 0;
    return n;
}

/* Rounds and what was counted in them are collected from time to time, other notes are told at once. */
static void note_put(iso_local *l, const iso_note *n)
{
    uint32_t tail = atomic_load_explicit(&l->note_tail, memory_order_relaxed);
    atomic_store_explicit(&l->note_tail, tail + 1, memory_order_release);
    if ((n->kind != ISO_NOTE_ROUND && n->kind != ISO_NOTE_COUNTED) ||
        tail + 1 - atomic_load_explicit(&l->note_head, memory_order_relaxed) > l->note_count / 2)
        iso_bell_ring(&l->bell);
}

static const char *node_state(const iso_node_info *info)
{
    return info->state == ISO_NODE_LIVE ? (info->round_samples ? "working" : "idle")
                                        : iso_node_state_name(info->state);
}

static void note_round(iso_local *l, const iso_round_result *r, int64_t at)
{
    iso_note *n = note_new(l, ISO_NOTE_ROUND, at);
    n->round = *r;
    int64_t span = r->ended - r->started;
    for (uint32_t i = 0; i < l->config.workers; i++) {
        iso_node_info info;
        iso_coordinator_node(l->coordinator, i, &info);
        int64_t busy = info.round_busy + l->worker[i].update_ns; /* the core knows of the units alone */
        l->worker[i].update_ns = 0;
        n->node[i] = (iso_node_record){.samples = info.round_samples,
                                       .busy_ns = busy,
                                       .idle_ns = span > busy ? span - busy : 0,
                                       .score = info.score,
                                       .state = node_state(&info)};
    }
    note_put(l, n);
}

/* The ranges live in the coordinator until its next step: copies go with the notes, in as many as it takes. */
static void note_counted(iso_local *l, const iso_record *r, int64_t at)
{
    for (uint32_t done = 0; done < r->range_count;) {
        uint32_t count = r->range_count - done < NOTE_RANGES ? r->range_count - done : NOTE_RANGES;
        iso_note *n = note_new(l, ISO_NOTE_COUNTED, at);
        n->record = *r;
        n->record.range = NULL;
        n->record.range_count = count;
        memcpy(n->node, r->range + done, count * sizeof *r->range);
        done += count;
        n->more = done < r->range_count;
        note_put(l, n);
    }
}

static void note_record(iso_local *l, const iso_record *r, int64_t at)
{
    if (r->kind == ISO_RECORD_COUNTED) {
        note_counted(l, r, at);
        return;
    }
    iso_note *n = note_new(l, ISO_NOTE_RECORD, at);
    n->record = *r;
    note_put(l, n);
}

static void note_epoch(iso_local *l, const iso_epoch_result *r, int64_t at)
{
    iso_note *n = note_new(l, ISO_NOTE_EPOCH, at);
    n->epoch = *r;
    if (r->best && l->best) {
        /* The last one is still being written: only an epoch shorter than a file's writing comes to wait here. */
        while (atomic_load_explicit(&l->best_busy, memory_order_acquire))
            iso_sleep_ns(100000, NULL);
        iso_local_get_weights(l, l->best);
        atomic_store_explicit(&l->best_busy, true, memory_order_release);
    } else {
        n->epoch.best = false;
    }
    note_put(l, n);
}

/* ---- checkpoints --------------------------------------------------------------------------------------- */

void iso_local_fill_snapshot(iso_local *l)
{
    iso_snapshot *s = l->snapshot;
    iso_saved saved = {0};
    s->core_bytes = iso_coordinator_save(l->coordinator, s->core, s->core_capacity);
    iso_saved_read(&saved, s->core, s->core_bytes, NULL);
    s->round = saved.round;
    s->epoch = saved.epoch;
    iso_local_get_weights(l, s->weights);
    iso_local_publish_states(l, s->state);
}

/* The last border goes into the snapshot. When the one before is still being written, a run that goes on asks again
 * later; at its end nothing changes the weights any more, and the calling thread takes the copy itself. */
static void checkpoint(iso_local *l, bool last, int64_t at)
{
    if (!l->snapshot)
        return;
    bool busy = atomic_load_explicit(&l->snapshot_busy, memory_order_acquire);
    if (busy && !last) {
        atomic_store(&l->checkpoint_missed, true);
        return;
    }
    if (!busy) {
        iso_local_fill_snapshot(l);
        atomic_store_explicit(&l->snapshot_busy, true, memory_order_release);
    }
    iso_note *n = note_new(l, ISO_NOTE_CHECKPOINT, at);
    n->late = busy;
    note_put(l, n);
}

/* ---- the optimiser's step ------------------------------------------------------------------------------ */

/* May a worker that was given work still read this buffer? */
static bool is_read(const iso_local *l, uint32_t buffer)
{
    for (uint32_t i = 0; i < l->config.workers; i++) {
        const worker *w = &l->worker[i];
        if (w->buffer == buffer && w->work_sent != atomic_load_explicit(&w->work_done, memory_order_acquire) &&
            !atomic_load_explicit(&w->gone, memory_order_acquire))
            return true;
    }
    return false;
}

/* A buffer for the new weights: the current one when nobody reads it, else another. UINT32_MAX: no memory. */
static uint32_t writable(iso_local *l)
{
    if (!is_read(l, l->current))
        return l->current;
    for (uint32_t i = 0; i <= l->config.workers; i++) {
        if (i == l->current || (l->buffer[i] && is_read(l, i)))
            continue;
        if (!l->buffer[i])
            l->buffer[i] = iso_new(l->alloc, l->values, sizeof(float));
        return l->buffer[i] ? i : UINT32_MAX;
    }
    return UINT32_MAX;
}

static void update_begin(iso_local *l, const iso_update_order *o)
{
    update_job *u = &l->update;
    u->what = (iso_update){.optimizer = &l->core.optimizer,
                           .rate = o->rate,
                           .step = o->step,
                           .samples = o->samples,
                           .units = o->units,
                           .state = l->state,
                           .sum = u->sum,
                           .kept = u->kept,
                           .unit = l->config.unit};
    for (uint32_t i = 0; i < o->node_count; i++) {
        worker *w = &l->worker[o->nodes[i]];
        u->sum[u->what.sum_count++] = w->sum;
        for (uint32_t k = 0; l->deferred && k < w->kept_count; k++)
            u->kept[u->what.kept_count++] = w->kept + k * l->kept_bytes;
        w->dirty = false; /* the update leaves zeros */
        w->kept_count = 0;
    }
    u->buffer = writable(l);
    if (u->buffer == UINT32_MAX) {
        iso_local_fail(l, ISO_E_NOMEM,
                       "no memory for a second copy of the weights, which a stalled worker still reads");
        return;
    }
    u->from = u->buffer == l->current ? NULL : l->buffer[l->current];
    u->what.w = l->buffer[u->buffer];
}

static void update_add(iso_local *l, const iso_update_order *o, uint32_t i)
{
    l->update.order[i] = o->order;
    l->update.begin[i] = o->begin;
    l->update.end[i] = o->end;
}

/* The slices are there: whoever has nothing else to do takes one. */
static void update_publish(iso_local *l, uint32_t count)
{
    if (l->ended)
        return;
    /* read again when the last slice has been answered: the coordinator hands out nothing before */
    if (!l->replicas)
        l->current = l->update.buffer;
    atomic_store(&l->update.count, count);
    atomic_store(&l->update.left, count);
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&l->update.taken[i], false, memory_order_release);
    for (uint32_t i = 0; i < l->config.workers; i++)
        iso_bell_ring(&l->worker[i].bell);
}

/* ---- effects ------------------------------------------------------------------------------------------- */

static void send_to(iso_local *l, uint32_t node, const iso_frame *frame, parcel *bulk)
{
    if (node >= l->config.workers || atomic_load_explicit(&l->worker[node].gone, memory_order_relaxed))
        return;
    worker *w = &l->worker[node];
    if (!iso_local_inbox_put(w, frame, l->buffer[l->current], bulk))
        return; /* a thread that has not looked for so long is dead or stalled: the coordinator finds out by its
                   deadline */
    if (frame->kind == ISO_FRAME_WORK) {
        w->work_sent++;
        w->buffer = l->current;
    }
    iso_bell_ring(&w->bell);
}

static void send(iso_local *l, const iso_frame *frame)
{
    parcel *bulk = NULL;
    if ((frame->kind == ISO_FRAME_WEIGHTS || frame->kind == ISO_FRAME_DELTA) && !(bulk = iso_local_news(l, frame)))
        return;
    if (frame->to != ISO_EVERYONE) {
        send_to(l, frame->to, frame, bulk);
        return;
    }
    for (uint32_t i = 0; i < l->config.workers; i++)
        if (!atomic_load_explicit(&l->worker[i].away, memory_order_relaxed))
            send_to(l, i, frame, bulk);
}

static void wake_at(iso_local *l, int64_t at)
{
    atomic_store(&l->wake_at, at);
    if (at < atomic_load(&l->waiting_until))
        iso_bell_ring(&l->bell);
}

static void end(iso_local *l, iso_note_kind kind, bool stopped, int64_t at)
{
    l->ended = true;
    iso_note *n = note_new(l, kind, at);
    n->stopped = stopped;
    note_put(l, n);
    atomic_store(&l->over, true);
    for (uint32_t i = 0; i < l->config.workers; i++)
        iso_bell_ring(&l->worker[i].bell);
}

void iso_local_fail(iso_local *l, int code, const char *text)
{
    iso_error_set(&l->error, code, "%s", text);
    end(l, ISO_NOTE_FAILED, false, iso_clock_ns());
}

static void update(iso_local *l, const iso_update_order *o, uint32_t slice)
{
    if (slice == 0 && l->replicas)
        iso_local_merge_begin(l, o);
    else if (slice == 0)
        update_begin(l, o);
    if (l->ended)
        return;
    if (l->replicas)
        iso_local_merge_add(l, o, slice);
    else
        update_add(l, o, slice);
}

/* A merge of one free answer is a matter of microseconds, and the next one waits for it: it is done at once. */
static void update_now(iso_local *l, iso_event *done)
{
    *done = (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = l->update.order[0]};
    iso_totals_clear(&done->totals);
    iso_local_merge_slice(l, 0, &done->totals.bad_layer);
    iso_local_merge_done(l);
}

/* What others wait for. Returns the number of update slices. */
static uint32_t act(iso_local *l)
{
    uint32_t slices = 0;
    for (uint32_t i = 0; i < l->effects.count; i++) {
        const iso_effect *f = &l->effects.item[i];
        if (f->kind == ISO_EFFECT_SEND)
            send(l, &f->frame);
        else if (f->kind == ISO_EFFECT_UPDATE)
            update(l, &f->update, slices++);
        else if (f->kind == ISO_EFFECT_TAKE && l->replicas) /* else sums stay in place */
            iso_local_taken(l, &f->take);
        else if (f->kind == ISO_EFFECT_WAKE)
            wake_at(l, f->at);
    }
    if (slices && !l->plan.free)
        update_publish(l, slices);
    return slices;
}

/* What the calling thread is told. CHECKPOINT and the end come last. */
static void tell(iso_local *l, int64_t at)
{
    const iso_effect *done = NULL, *failed = NULL;
    bool border = false;
    for (uint32_t i = 0; i < l->effects.count; i++) {
        const iso_effect *f = &l->effects.item[i];
        if (f->kind == ISO_EFFECT_ROUND)
            note_round(l, &f->round_result, at);
        else if (f->kind == ISO_EFFECT_EPOCH)
            note_epoch(l, &f->epoch_result, at);
        else if (f->kind == ISO_EFFECT_LOG)
            note_record(l, &f->record, at);
        else if (f->kind == ISO_EFFECT_CHECKPOINT)
            border = true;
        else if (f->kind == ISO_EFFECT_DONE)
            done = f;
        else if (f->kind == ISO_EFFECT_FAILED)
            failed = f;
    }
    if (border)
        checkpoint(l, done != NULL, at);
    if (done)
        end(l, ISO_NOTE_DONE, done->stopped, at);
    if (failed) {
        l->error = *failed->error;
        end(l, ISO_NOTE_FAILED, false, at);
    }
}

/* The effects of a step. Work goes out first whatever the order of the list: nobody waits for notes, nor for the copy of a border,
 * which stands until the next update. True: *next is to be stepped. */
static bool execute(iso_local *l, int64_t at, iso_event *next)
{
    uint32_t slices = act(l);
    if (!l->ended)
        tell(l, at);
    if (l->ended || slices == 0 || !l->plan.free)
        return false;
    update_now(l, next);
    return true;
}

void iso_local_step(iso_local *l, const iso_event *event)
{
    iso_event next = *event;
    for (bool more = !l->ended; more;) {
        next.now = iso_clock_ns();
        if (iso_coordinator_step(l->coordinator, &next, &l->effects)) {
            iso_local_fail(l, ISO_E_STATE, "the coordinator refused an event of the local engine");
            return;
        }
        more = execute(l, next.now, &next);
    }
}

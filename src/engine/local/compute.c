/* SPDX-License-Identifier: Apache-2.0
 * What workers compute: units of a lease, slices of the optimiser's step. */
#include <string.h>

#include "engine/local/inside.h"

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

void iso_local_flush_denormals(void)
{
#if defined(__x86_64__) || defined(__i386__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | (uint64_t)1 << 24));
#endif
}

static iso_feed_part part_of(iso_purpose_of_pass purpose)
{
    return purpose == ISO_PASS_TRAIN  ? ISO_FEED_TRAIN
           : purpose == ISO_PASS_TEST ? ISO_FEED_TEST
                                      : ISO_FEED_VALIDATION;
}

static void begin_sum(worker *w)
{
    if (w->dirty)
        memset(w->sum, 0, w->local->values * sizeof *w->sum);
    w->dirty = false;
    w->kept_count = 0;
}

static void train_unit(worker *w, uint32_t pass_units, iso_unit_result *r)
{
    const iso_local *l = w->local;
    void *kept = w->kept + (l->deferred ? w->kept_count : 0) * l->kept_bytes;
    w->dirty = true;
    w->kept_count++;
    iso_pass_train(w->pass, w->weights, w->feeder.label, kept, r);
    iso_pass_gradient(w->pass, kept, !l->deferred, pass_units, w->sum, r);
}

/* A slow machine by duty cycle: asleep for its share of the time. Short naps are saved up, since one takes 50 us at
 * least. */
void iso_local_nap(worker *w, int64_t busy_ns)
{
    const double shortest_ns = 200e3;
    if (w->slowdown <= 1)
        return;
    w->debt_ns += (double)busy_ns * (w->slowdown - 1);
    if (w->debt_ns < shortest_ns)
        return;
    int64_t before = iso_clock_ns();
    iso_sleep_ns((int64_t)w->debt_ns, NULL);
    w->debt_ns -= (double)(iso_clock_ns() - before);
}

/* Frames that came in while a unit was computed: one of them may cancel the order. */
static void look_up(worker *w)
{
    const slot *s;
    while (!w->cancelled && (s = iso_local_inbox_first(w)) && s->frame.kind == ISO_FRAME_RESET)
        iso_local_worker_frame(w);
}

void iso_local_compute(worker *w, const iso_compute *c, iso_totals *totals)
{
    iso_local *l = w->local;
    int64_t begun = iso_clock_ns();
    iso_totals_clear(totals);
    w->cancelled = false;
    if (c->purpose == ISO_PASS_TRAIN && c->fresh)
        begin_sum(w);
    for (uint32_t i = 0; i < c->units && !w->cancelled && !atomic_load_explicit(&l->over, memory_order_relaxed);
         i++) {
        uint64_t first;
        uint32_t n = iso_compute_unit(c, i, &first);
        iso_unit_result r;
        iso_feeder_load(&w->feeder, part_of(c->purpose), c->epoch, first, n, w->pass);
        if (c->purpose == ISO_PASS_TRAIN)
            train_unit(w, c->pass_units, &r);
        else
            iso_pass_evaluate(w->pass, w->weights, w->feeder.label, &r);
        iso_totals_add_unit(totals, &r);
        look_up(w);
    }
    iso_local_nap(w, iso_clock_ns() - begun);
    totals->busy = iso_clock_ns() - begun;
}

/* A slice that nobody has taken, this worker's own first; UINT32_MAX: none. */
static uint32_t take_slice(const worker *w)
{
    iso_local *l = w->local;
    update_job *u = &l->update;
    if (!iso_local_update_waits(l))
        return UINT32_MAX;
    uint32_t count = atomic_load_explicit(&u->count, memory_order_relaxed);
    uint32_t home = (uint32_t)((uint64_t)w->id * count / l->config.workers);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slice = (home + i) % count;
        if (!atomic_load_explicit(&u->taken[slice], memory_order_relaxed) && !atomic_exchange(&u->taken[slice], true)) {
            atomic_fetch_sub(&u->left, 1);
            return slice;
        }
    }
    return UINT32_MAX;
}

bool iso_local_update_slice(const worker *w, iso_event *done)
{
    iso_local *l = w->local;
    update_job *u = &l->update;
    uint32_t i = take_slice(w);
    if (i == UINT32_MAX)
        return false;
    int64_t begun = iso_clock_ns();
    size_t begin = (size_t)u->begin[i], end = (size_t)u->end[i];
    *done = (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = u->order[i]};
    iso_totals_clear(&done->totals);
    if (l->replicas) {
        iso_local_merge_slice(l, i, &done->totals.bad_layer);
    } else {
        if (u->from)
            memcpy(u->what.w + begin, u->from + begin, (end - begin) * sizeof(float));
        iso_net_update(l->config.net, &u->what, begin, end, &done->totals.bad_layer);
    }
    done->totals.busy = iso_clock_ns() - begun;
    return true;
}

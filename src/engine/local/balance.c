/* SPDX-License-Identifier: Apache-2.0
 * How many workers run. A worker that other programs push off its core holds up every round, so that one worker fewer is
 * faster; when a core has nothing to do again, one comes back. Affinity and quota are looked at again too.
 *
 * A worker goes at the first lease of a round, before it has computed anything: its units go back to the pool, nothing is lost.
 * It leaves and joins as a node on a network does. Thread: the calling thread decides, a worker obeys on its own. */
#include "engine/local/cores.h"
#include "engine/local/inside.h"
#include "engine/machine/load.h"

#define LOOK_NS 250000000
#define LOOKS_TO_GO 2u   /* looks in a row before a worker goes, */
#define LOOKS_TO_COME 2u /* or comes */
#define LOOKS_TO_TRY 8u  /* it comes back all the same to see whether those who are in the way give way; twice as many looks later */
#define LOOKS_TO_TRY_MAX 128u /* each time that it has to go again soon */
#define CROWDED 0.4 /* cores that all workers together waited for */
#define ROOMY 0.7   /* cores that had nothing to do */

static bool runs(const worker *w)
{
    return !atomic_load_explicit(&w->away_wanted, memory_order_relaxed) &&
           !atomic_load_explicit(&w->gone, memory_order_relaxed);
}

static uint32_t running(const iso_local *l)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->config.workers; i++)
        count += runs(&l->worker[i]);
    return count;
}

static void want(worker *w, bool away)
{
    atomic_store(&w->away_wanted, away);
    iso_bell_ring(&w->bell);
}

/* The one that waited longest for a core goes, the first one that is away comes. */
static void set_running(iso_local *l, uint32_t count)
{
    count = count < 1 ? 1 : count > l->config.workers ? l->config.workers : count;
    for (uint32_t now = running(l); now > count; now--) {
        worker *most = NULL;
        for (uint32_t i = 0; i < l->config.workers; i++) {
            worker *w = &l->worker[i];
            if (runs(w) && (!most || w->waited >= most->waited))
                most = w;
        }
        want(most, true);
    }
    for (uint32_t i = 0, now = running(l); i < l->config.workers && now < count; i++) {
        worker *w = &l->worker[i];
        if (runs(w) || atomic_load_explicit(&w->gone, memory_order_relaxed))
            continue;
        want(w, false);
        now++;
    }
}

/* Cores that running workers waited for since the last look. */
static double waited_cores(iso_local *l, double ns)
{
    double all = 0;
    for (uint32_t i = 0; i < l->config.workers; i++) {
        worker *w = &l->worker[i];
        uint64_t seen;
        int thread = atomic_load_explicit(&w->kernel_thread, memory_order_relaxed);
        w->waited = 0;
        if (thread == 0 || !iso_load_waited(thread, &seen))
            continue;
        w->waited = seen - w->waited_seen;
        w->waited_seen = seen;
        all += runs(w) ? (double)w->waited : 0;
    }
    return all / ns;
}

static double idle_cores(iso_local *l, double ns)
{
    uint64_t seen, before = l->balance.idle_seen;
    if (!iso_load_idle(&seen))
        return 0;
    l->balance.idle_seen = seen;
    return seen > before ? (double)(seen - before) / ns : 0;
}

static void change(iso_local *l, uint32_t count)
{
    balance *b = &l->balance;
    b->came = count > running(l);
    b->crowded = b->roomy = b->unchanged = 0;
    set_running(l, count);
}

static void decide(iso_local *l, double waited, double idle)
{
    balance *b = &l->balance;
    uint32_t now = running(l), most = iso_cores_allowed();
    most = most < l->config.workers ? most : l->config.workers;
    b->crowded = waited >= CROWDED ? b->crowded + 1 : 0;
    b->roomy = idle >= ROOMY && waited < CROWDED ? b->roomy + 1 : 0;
    b->unchanged++;
    if (b->unchanged > 2 * LOOKS_TO_TRY && b->came)
        b->looks_to_try = LOOKS_TO_TRY;
    if (now > most) {
        change(l, most);
    } else if (now > 1 && b->crowded >= LOOKS_TO_GO) {
        bool soon = b->came && b->unchanged <= LOOKS_TO_TRY;
        b->looks_to_try = soon && b->looks_to_try < LOOKS_TO_TRY_MAX ? 2 * b->looks_to_try : b->looks_to_try;
        change(l, now - 1);
    } else if (now < most && (b->roomy >= LOOKS_TO_COME || b->unchanged >= b->looks_to_try)) {
        change(l, now + 1);
    }
}

void iso_local_balance_init(iso_local *l)
{
    const iso_train_faults *f = l->config.faults;
    l->balance.on = l->config.workers > 1 && (l->config.job->workers == 0 || (f && f->cores));
    l->balance.looks_to_try = LOOKS_TO_TRY;
}

int64_t iso_local_balance(iso_local *l, int64_t now)
{
    balance *b = &l->balance;
    const iso_train_faults *f = l->config.faults;
    if (!b->on)
        return ISO_NEVER;
    if (now < b->look_at)
        return b->look_at;
    double ns = (double)(now - b->looked_at);
    bool first = b->looked_at == 0;
    b->looked_at = now;
    b->look_at = now + LOOK_NS;
    if (f && f->cores) {
        b->look_at = now + 1000000;
        set_running(l, f->cores(f->context));
        return b->look_at;
    }
    double waited = waited_cores(l, ns), idle = idle_cores(l, ns);
    if (!first)
        decide(l, waited, idle);
    return b->look_at;
}

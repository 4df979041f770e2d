/* SPDX-License-Identifier: Apache-2.0
 * Waiting and waking. */
#include "engine/local/bell.h"

#include <sched.h>
#include <time.h>

enum { LOOKS = 64, ALONE_NS = 20000 }; /* pauses between two looks at the clock; until others are let run */

int64_t iso_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void iso_sleep_ns(int64_t ns, const atomic_int *stop)
{
    const int64_t slice = 20000000;
    for (int64_t end = iso_clock_ns() + ns; ns > 0 && !(stop && atomic_load_explicit(stop, memory_order_relaxed));
         ns = end - iso_clock_ns()) {
        int64_t part = ns < slice ? ns : slice;
        nanosleep(&(struct timespec){.tv_sec = part / 1000000000, .tv_nsec = part % 1000000000}, NULL);
    }
}

int iso_bell_init(iso_bell *b)
{
    atomic_init(&b->rung, 0);
    atomic_init(&b->asleep, 0);
    pthread_condattr_t attr;
    int why = pthread_condattr_init(&attr);
    if (why)
        return why;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    why = pthread_cond_init(&b->cond, &attr);
    pthread_condattr_destroy(&attr);
    if (why)
        return why;
    why = pthread_mutex_init(&b->lock, NULL);
    if (why)
        pthread_cond_destroy(&b->cond);
    return why;
}

void iso_bell_fini(iso_bell *b)
{
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->cond);
}

void iso_bell_ring(iso_bell *b)
{
    /* Both sides write their own flag, then read the other's, in one total order: either the sleeper sees the ring or
     * the ringer sees the sleeper. */
    if (atomic_exchange(&b->rung, 1) == 0 && atomic_load(&b->asleep)) {
        pthread_mutex_lock(&b->lock);
        pthread_cond_signal(&b->cond);
        pthread_mutex_unlock(&b->lock);
    }
}

static bool heard(iso_bell *b)
{
    return atomic_load_explicit(&b->rung, memory_order_relaxed) && atomic_exchange(&b->rung, 0);
}

/* Looks again and again for `patience` ns at most. */
static bool heard_soon(iso_bell *b, int64_t patience)
{
    int64_t begun = iso_clock_ns(), waited = 0;
    do {
        for (uint32_t i = 0; i < LOOKS; i++) {
            if (heard(b))
                return true;
            iso_pause();
        }
        if (waited > ALONE_NS)
            sched_yield();
        waited = iso_clock_ns() - begun;
    } while (waited < patience);
    return false;
}

bool iso_bell_wait(iso_bell *b, int64_t patience, int64_t until_ns)
{
    if (patience > 0 ? heard_soon(b, patience) : heard(b))
        return true;
    bool got = false;
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->asleep, 1);
    while (!(got = atomic_exchange(&b->rung, 0))) {
        if (until_ns == INT64_MAX) {
            pthread_cond_wait(&b->cond, &b->lock);
            continue;
        }
        struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
        if (until_ns <= iso_clock_ns() || pthread_cond_timedwait(&b->cond, &b->lock, &until) != 0) {
            got = atomic_exchange(&b->rung, 0);
            break;
        }
    }
    atomic_store(&b->asleep, 0);
    pthread_mutex_unlock(&b->lock);
    return got;
}

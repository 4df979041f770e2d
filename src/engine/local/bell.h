/* SPDX-License-Identifier: Apache-2.0
 * How one thread waits for others: it looks again for some microseconds, then looks and lets others run in turns, since
 * to sleep and to be woken costs both sides some 50 us, then sleeps. With more threads than cores looking again would
 * only take the core from the thread that is waited for: patience is 0 then.
 *
 * Ringing is remembered until it is heard; ringing twice is heard once. Any thread rings, one thread waits. */
#ifndef ISO_ENGINE_LOCAL_BELL_H
#define ISO_ENGINE_LOCAL_BELL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct iso_bell {
    atomic_uint rung, asleep;
    pthread_mutex_t lock;
    pthread_cond_t cond;
} iso_bell;

/* 0, or an errno value. */
int iso_bell_init(iso_bell *b);
void iso_bell_fini(iso_bell *b);

void iso_bell_ring(iso_bell *b);

/* Returns when it was rung since the last time it was heard (true), or at until_ns of the monotonic clock (false;
 * INT64_MAX: never). Sleeps not before `patience` ns. */
bool iso_bell_wait(iso_bell *b, int64_t patience, int64_t until_ns);

/* The monotonic clock in nanoseconds. */
int64_t iso_clock_ns(void);

/* Sleeps, interrupted only when *stop becomes not 0 (looked at each 20 ms; may be NULL). */
void iso_sleep_ns(int64_t ns, const atomic_int *stop);

/* A breath for a processor that waits in a loop. */
static inline void iso_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif

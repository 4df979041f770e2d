/* SPDX-License-Identifier: Apache-2.0
 * How busy the machine is: what the kernel counts never falls, and a thread that shares its core has waited for it. */
#include "engine/machine/load.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "test.h"

static atomic_bool over;

static void spin_ms(long ms)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += ms * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static void *spin(void *context)
{
    (void)context;
    while (!atomic_load(&over))
        spin_ms(1);
    return NULL;
}

/* Two threads on one core: each of them waits for the other about half of the time. */
static void sharing_a_core_is_waiting(void **state)
{
    (void)state;
    uint64_t before, after;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    if (!iso_load_waited(iso_load_thread(), &before))
        skip(); /* a kernel that does not count */
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
    spin_ms(300);
    assert_true(iso_load_waited(iso_load_thread(), &after));
    atomic_store(&over, true);
    pthread_join(other, NULL);
    sched_setaffinity(0, sizeof all, &all);
    if (after - before < 50000000)
        fail_msg("waited %llu ns of 300 ms beside another thread", (unsigned long long)(after - before));
}

static void idle_never_falls(void **state)
{
    (void)state;
    uint64_t before, after, none;
    if (!iso_load_idle(&before))
        skip();
    spin_ms(50);
    assert_true(iso_load_idle(&after));
    assert_true(after >= before);
    assert_false(iso_load_waited(0, &none)); /* no thread has this number */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sharing_a_core_is_waiting), cmocka_unit_test(idle_never_falls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Pieces of the simulator: the queue of events, speeds over time. */
#include <math.h>

#include "test.h"

#include "engine/simulate/queue.h"
#include "engine/simulate/speed.h"

#define SECOND 1000000000

/* Events come by time, and those of one time in the order in which they were put in. */
static void test_queue(void **state)
{
    (void)state;
    test_heap heap;
    test_heap_init(&heap, 0);
    sim_queue q = {.alloc = &heap.alloc};
    uint64_t seed = test_seed("test_simulate");
    uint32_t put = 0, taken = 0;
    int64_t last_at = 0;
    uint64_t last_sequence = 0;
    sim_event e;
    while (taken < 20000) {
        if (put < 20000 && (q.count == 0 || test_random_below(&seed, 5) < 3)) {
            e = (sim_event){.at = last_at + (int64_t)test_random_below(&seed, 7), .what = put++};
            assert_true(sim_queue_put(&q, &e));
            continue;
        }
        assert_true(sim_queue_take(&q, &e));
        assert_true(taken == 0 || e.at > last_at || (e.at == last_at && e.sequence > last_sequence));
        last_at = e.at;
        last_sequence = e.sequence;
        taken++;
    }
    assert_false(sim_queue_take(&q, &e));
    iso_free(&heap.alloc, q.event);
    test_heap_expect_empty(&heap);
    test_heap_init(&heap, 1);
    q = (sim_queue){.alloc = &heap.alloc};
    assert_false(sim_queue_put(&q, &e));
}

static iso_machine machine(double speed)
{
    return (iso_machine){.speed = speed, .outliers = {0, 1}, .outlier_factor = 1, .burst_factor = 1};
}

/* Work takes its samples by the speed of the moment: changes, pauses, noise. */
static void test_speeds(void **state)
{
    (void)state;
    iso_machine m = machine(100);
    iso_fate none = {NULL, 0};
    assert_int_equal(iso_speed_end(&m, &none, 1, 0, 7, 50, 1), SECOND / 2 + 7);
    assert_int_equal(iso_speed_end(&m, &none, 1, 0, 0, 50, 4), 2 * (int64_t)SECOND);
    const iso_machine_event events[] = {{.kind = ISO_MACHINE_SPEED, .at = SECOND, .speed = 50},
                                        {.kind = ISO_MACHINE_PAUSE, .at = 2 * (int64_t)SECOND, .length = 3 * (int64_t)SECOND}};
    iso_fate fate = {events, TEST_COUNT(events)};
    assert_int_equal(iso_speed_end(&m, &fate, 1, 0, 0, 125, 1), (int64_t)SECOND * 3 / 2);
    assert_int_equal(iso_speed_end(&m, &fate, 1, 0, 0, 200, 1), 6 * (int64_t)SECOND);
    int64_t until;
    assert_true(iso_speed_at(&m, &fate, 1, 0, 3 * (int64_t)SECOND, &until) == 0);
    assert_int_equal(until, 5 * (int64_t)SECOND);
}

/* Over whole periods a drift takes no more and gives no more than it says; bursts take their share. */
static void test_changes(void **state)
{
    (void)state;
    iso_fate none = {NULL, 0};
    for (iso_drift_shape shape = ISO_DRIFT_SINE; shape <= ISO_DRIFT_SQUARE; shape++) {
        iso_machine m = machine(1000);
        m.drift = shape;
        m.amplitude = 0.5;
        m.period = SECOND;
        assert_true(fabs((double)iso_speed_end(&m, &none, 1, 0, 0, 10000, 1) / SECOND - 10) < 0.01);
        double low = 1e9, high = 0;
        for (int64_t t = 0; t < SECOND; t += SECOND / 100) {
            int64_t until;
            double v = iso_speed_at(&m, &none, 1, 0, t, &until);
            assert_true(until > t);
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        assert_true(low >= 499 && low < 520 && high <= 1501 && high > 1480);
    }
    iso_machine m = machine(1000);
    m.burst_every = SECOND;
    m.burst_length = SECOND / 5;
    m.burst_factor = 0.5;
    assert_true(fabs((double)iso_speed_end(&m, &none, 3, 2, 0, 9000, 1) / SECOND - 10) < 0.01);
}

/* Work over very many short periods takes its share of time, and no steps of its own: this would take days to count. */
static void test_short_periods(void **state)
{
    (void)state;
    const iso_machine_event change = {.kind = ISO_MACHINE_SPEED, .at = 1000000 * (int64_t)SECOND, .speed = 10};
    iso_fate none = {NULL, 0}, fate = {&change, 1};
    iso_machine m = machine(1);
    m.burst_every = 1000;
    m.burst_length = 500;
    m.burst_factor = 0.5;
    assert_true(fabs((double)iso_speed_end(&m, &none, 3, 2, 7, 1.5e6, 1) / SECOND - 2e6) < 1);
    assert_true(fabs((double)iso_speed_end(&m, &fate, 3, 2, 7, 1.5e6, 1) / SECOND - 1.1e6) < 1);
    m.drift = ISO_DRIFT_SINE;
    m.amplitude = 0.9;
    m.period = 1000;
    assert_true(fabs((double)iso_speed_end(&m, &none, 3, 2, 7, 1.5e6, 1) / SECOND - 2e6) < 1);
    m.period = 1000000 * (int64_t)SECOND;
    assert_true(fabs((double)iso_speed_end(&m, &none, 3, 2, 7, 1.5e6, 1) / SECOND - 2e6) < 1000);
    m.burst_length = 1000;
    m.burst_factor = 1e-6;
    m.speed = 1e-6;
    assert_int_equal(iso_speed_end(&m, &none, 3, 2, 7, 1e6, 1), ISO_FOREVER);
}

/* Noise has the deviation it says; it depends on its key alone. */
static void test_noise(void **state)
{
    (void)state;
    iso_machine m = machine(1);
    assert_true(iso_speed_factor(&m, 1, 0, 5) == 1);
    m.noise = 0.2;
    double sum = 0, square = 0;
    const int n = 20000;
    for (int i = 0; i < n; i++) {
        double x = log(iso_speed_factor(&m, 9, 3, (uint64_t)i));
        sum += x;
        square += x * x;
    }
    assert_true(fabs(sum / n) < 0.01 && fabs(sqrt(square / n) - 0.2) < 0.01);
    assert_true(iso_speed_factor(&m, 9, 3, 7) == iso_speed_factor(&m, 9, 3, 7));
    assert_true(iso_speed_factor(&m, 9, 3, 7) != iso_speed_factor(&m, 9, 4, 7));
    m.noise = 0;
    m.outliers = (iso_ratio){1, 100};
    m.outlier_factor = 4;
    int outliers = 0;
    for (int i = 0; i < n; i++)
        outliers += iso_speed_factor(&m, 9, 3, (uint64_t)i) == 4;
    assert_true(outliers > 150 && outliers < 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue), cmocka_unit_test(test_speeds),        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_noise), cmocka_unit_test(test_short_periods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

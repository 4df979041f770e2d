/* SPDX-License-Identifier: Apache-2.0
 * Proves that shares are the exact optimum of the longest time (every way to share tried, small cases with fixed times and
 * bounds), that they sum up, keep their bounds, depend on nothing but the input and cost O(K log K); that hysteresis and
 * parking do what they say. */
#include <math.h>

#include "base/rng.h"
#include "core/partition.h"
#include "test.h"

enum { MANY = 65536 };
static uint32_t heap[MANY];
static iso_share many[MANY];

static iso_share node_of(double unit_ns)
{
    return (iso_share){.unit_ns = unit_ns, .most = UINT32_MAX};
}

static void four_two_one_share_seventy(void **state)
{
    (void)state;
    iso_share s[3] = {node_of(1e6 / 4), node_of(1e6 / 2), node_of(1e6)};
    assert_int_equal(iso_partition(s, 3, 70, heap), 70);
    assert_int_equal(s[0].units, 40);
    assert_int_equal(s[1].units, 20);
    assert_int_equal(s[2].units, 10);
    assert_true(fabs(iso_partition_makespan(s, 3) - 10e6) < 1);
}

static void a_left_over_unit_goes_where_it_ends_first(void **state)
{
    (void)state;
    iso_share s[3] = {node_of(4), node_of(4), node_of(1)};
    assert_int_equal(iso_partition(s, 3, 4, heap), 4); /* the shares are 2/3, 2/3, 8/3 */
    assert_int_equal(s[2].units, 3);
    assert_int_equal(s[0].units, 1); /* the tie goes to the lower index */
    assert_int_equal(s[1].units, 0);
    iso_share equal[4] = {node_of(1), node_of(1), node_of(1), node_of(1)};
    iso_partition(equal, 4, 6, heap);
    const uint32_t right[4] = {2, 2, 1, 1};
    for (int i = 0; i < 4; i++)
        assert_int_equal(equal[i].units, right[i]);
}

static void a_node_too_slow_for_one_unit_gets_none(void **state)
{
    (void)state;
    iso_share s[3] = {node_of(1), node_of(100), node_of(1)};
    iso_partition(s, 3, 20, heap);
    assert_int_equal(s[1].units, 0);
    s[1].least = 1; /* tried all the same */
    iso_partition(s, 3, 20, heap);
    assert_int_equal(s[1].units, 1);
    assert_int_equal(s[0].units + s[2].units, 19);
    iso_share far[2] = {node_of(1), {.unit_ns = 1, .fixed_ns = 50, .most = UINT32_MAX}}; /* its way is too long */
    iso_partition(far, 2, 40, heap);
    assert_int_equal(far[1].units, 0);
    iso_partition(far, 2, 60, heap);
    assert_int_equal(far[1].units, 5);
}

static void bounds_of_memory_hold(void **state)
{
    (void)state;
    iso_share s[3] = {{.unit_ns = 1, .most = 10}, node_of(2), node_of(4)};
    assert_int_equal(iso_partition(s, 3, 40, heap), 40);
    assert_int_equal(s[0].units, 10);
    assert_int_equal(s[1].units, 20);
    assert_int_equal(s[2].units, 10);
    iso_share small[2] = {{.unit_ns = 1, .most = 3}, {.unit_ns = 1, .most = 4}};
    assert_int_equal(iso_partition(small, 2, 40, heap), 7);
    assert_int_equal(small[0].units, 3);
    assert_int_equal(small[1].units, 4);
    iso_share forced[2] = {{.unit_ns = 1, .least = 5, .most = 9}, {.unit_ns = 1, .least = 6, .most = 9}};
    assert_int_equal(iso_partition(forced, 2, 3, heap), 11);
}

static void nodes_without_a_time_get_their_least(void **state)
{
    (void)state;
    const double wrong[] = {0, -1, INFINITY, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        iso_share s[2] = {{.unit_ns = wrong[i], .least = 1, .most = UINT32_MAX}, node_of(3)};
        assert_int_equal(iso_partition(s, 2, 10, heap), 10);
        assert_int_equal(s[0].units, 1);
        assert_int_equal(s[1].units, 9);
    }
    iso_share none = node_of(0);
    assert_int_equal(iso_partition(&none, 1, 10, heap), 0);
    assert_int_equal(iso_partition(&none, 0, 10, heap), 0);
    assert_int_equal(iso_partition(&none, 1, 0, heap), 0);
    assert_true(iso_partition_makespan(&none, 0) == 0);
}

/* The least longest time over all ways to share `units` among share[at .. count). */
static double best_of(const iso_share *share, uint32_t count, uint32_t at, uint32_t units, double so_far)
{
    if (at == count)
        return units == 0 ? so_far : INFINITY;
    double best = INFINITY;
    for (uint32_t n = share[at].least; n <= share[at].most && n <= units; n++)
        best = fmin(best, best_of(share, count, at + 1, units - n, fmax(so_far, iso_share_end(&share[at], n))));
    return best;
}

static void shares_are_the_optimum(void **state)
{
    (void)state;
    uint64_t seed = test_seed("partition");
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = seed, .purpose = ISO_PURPOSE_TEST, .layer = 31});
    int bounded = 0, fixed = 0;
    for (int trial = 0; trial < 20000; trial++) {
        iso_share s[5];
        uint32_t count = 1 + iso_rng_below32(&r, 5), units = iso_rng_below32(&r, 13), most = 0;
        for (uint32_t i = 0; i < count; i++) {
            s[i] = node_of(1 + iso_rng_below32(&r, trial % 2 ? 6 : 1000000));
            if (trial % 3 == 0)
                s[i].fixed_ns = iso_rng_below32(&r, 8) * s[0].unit_ns / 2;
            if (trial % 5 == 0) {
                s[i].most = iso_rng_below32(&r, 8);
                s[i].least = iso_rng_below32(&r, s[i].most + 1) / 2;
            }
            most += s[i].most < 100 ? s[i].most : 100;
        }
        uint64_t given = iso_partition(s, count, units, heap);
        double end = iso_partition_makespan(s, count), best = best_of(s, count, 0, (uint32_t)given, 0);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_true(s[i].units >= s[i].least && s[i].units <= s[i].most);
            sum += s[i].units;
        }
        bounded += most < units;
        fixed += trial % 3 == 0;
        if (given != sum || (given < units && given != most) || end > best) {
            print_error("seed %llu trial %d: given %llu of %u, end %g, best %g\n", (unsigned long long)seed, trial,
                        (unsigned long long)given, units, end, best);
            fail();
        }
    }
    assert_true(bounded > 100 && fixed > 1000);
}

/* No unit moved from the last to end to another node would end sooner: with convex times that is the optimum. */
static void large_shares_cannot_be_improved(void **state)
{
    (void)state;
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = test_seed("partition"), .purpose = ISO_PURPOSE_TEST, .layer = 32});
    const uint32_t counts[] = {2, 37, 1000, MANY};
    for (int trial = 0; trial < 40; trial++) {
        uint32_t count = counts[trial % 4];
        uint64_t units = iso_rng_below64(&r, (uint64_t)count * (trial % 3 ? 3 : 20000)), sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            many[i] = node_of(1 + exp(12 * iso_rng_double(&r)));
            many[i].fixed_ns = trial % 2 ? 1e5 * iso_rng_double(&r) : 0;
            many[i].most = trial % 5 ? UINT32_MAX : iso_rng_below32(&r, 100);
        }
        uint64_t given = iso_partition(many, count, units, heap);
        double end = iso_partition_makespan(many, count);
        bool open = false;
        for (uint32_t i = 0; i < count; i++) {
            sum += many[i].units;
            open |= many[i].units < many[i].most;
            assert_true(many[i].units <= many[i].most);
            if (many[i].units < many[i].most)
                assert_true(iso_share_end(&many[i], many[i].units + 1) >= end * (1 - 1e-12));
        }
        assert_int_equal(given, sum);
        assert_true(given == units || (given < units && !open));
    }
}

static void equal_input_gives_equal_shares(void **state)
{
    (void)state;
    iso_share a[64], b[64];
    uint32_t other_heap[64];
    memset(other_heap, 0xAB, sizeof other_heap);
    for (uint32_t i = 0; i < 64; i++)
        a[i] = b[i] = (iso_share){.unit_ns = 1 + i % 7, .most = UINT32_MAX, .units = i};
    for (uint32_t i = 0; i < 64; i++)
        b[i].units = 0;
    iso_partition(a, 64, 1001, heap);
    iso_partition(b, 64, 1001, other_heap);
    assert_memory_equal(a, b, sizeof a);
}

static void hysteresis_asks_for_three_percent(void **state)
{
    (void)state;
    assert_true(iso_partition_keep(100, 98));
    assert_true(iso_partition_keep(100, 97.01));
    assert_false(iso_partition_keep(100, 97));
    assert_false(iso_partition_keep(100, 50));
    assert_true(iso_partition_keep(100, 100));
}

static void parked_nodes_are_tried_again_less_and_less(void **state)
{
    (void)state;
    iso_parking p = {0};
    uint32_t wait = ISO_PARKED_ROUNDS;
    for (int tries = 0; tries < 10; tries++) {
        for (uint32_t i = 1; i < wait; i++)
            assert_false(iso_parking_skip(&p));
        assert_true(iso_parking_skip(&p));
        wait = wait < ISO_PARKED_MOST ? 2 * wait : ISO_PARKED_MOST;
    }
    iso_parking_join(&p);
    for (uint32_t i = 1; i < ISO_PARKED_ROUNDS; i++)
        assert_false(iso_parking_skip(&p));
    assert_true(iso_parking_skip(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_two_one_share_seventy),
        cmocka_unit_test(a_left_over_unit_goes_where_it_ends_first),
        cmocka_unit_test(a_node_too_slow_for_one_unit_gets_none),
        cmocka_unit_test(bounds_of_memory_hold),
        cmocka_unit_test(nodes_without_a_time_get_their_least),
        cmocka_unit_test(shares_are_the_optimum),
        cmocka_unit_test(large_shares_cannot_be_improved),
        cmocka_unit_test(equal_input_gives_equal_shares),
        cmocka_unit_test(hysteresis_asks_for_three_percent),
        cmocka_unit_test(parked_nodes_are_tried_again_less_and_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic that engines share: wide sums, rounds, units, positions, samples, slices; and the pool of units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pool.h"
#include "isochron/core.h"

/* Sums far beyond 64 bits, and back, lose nothing; a loss is rounded once. */
static void wide_sums_do_not_overflow(void **state)
{
    (void)state;
    iso_wide sum = iso_wide_of(0);
    for (int i = 0; i < 100; i++)
        sum = iso_wide_add(sum, iso_wide_of(INT64_MAX));
    assert_true(sum.high == 49 && sum.low == (uint64_t)-100);
    assert_true(iso_wide_loss(sum) == 100 * 0x1p63 * 0x1p-40);
    for (int i = 0; i < 100; i++)
        sum = iso_wide_subtract(sum, iso_wide_of(INT64_MAX));
    assert_true(sum.high == 0 && sum.low == 0);
    sum = iso_wide_add(sum, iso_wide_of(-3));
    assert_true(sum.high == -1 && iso_wide_loss(sum) == -3 * 0x1p-40);
    for (int i = 0; i < 70; i++)
        sum = iso_wide_add(sum, iso_wide_of(INT64_MIN));
    assert_true(iso_wide_loss(sum) == -70 * 0x1p63 * 0x1p-40);
    /* 2^64 + 2^11 + 1 lies just above the middle of two doubles: the last bit decides. */
    assert_true(iso_wide_loss((iso_wide){.low = 2049, .high = 1}) == (0x1p64 + 0x1p12) * 0x1p-40);
    assert_true(iso_wide_loss((iso_wide){.low = 2048, .high = 1}) == 0x1p64 * 0x1p-40);
}

static void totals_add_up(void **state)
{
    (void)state;
    iso_totals a, b;
    iso_totals_clear(&a);
    iso_totals_clear(&b);
    assert_int_equal(a.bad_layer, -1);
    iso_totals_add_unit(&a, &(iso_unit_result){.samples = 4, .correct = 3, .loss = -5, .bad_layer = -1});
    iso_totals_add_unit(&b, &(iso_unit_result){.samples = 1, .correct = 0, .loss = 7, .bad_layer = 6});
    iso_totals_add_unit(&b, &(iso_unit_result){.samples = 1, .correct = 1, .loss = 7, .bad_layer = 2});
    b.busy = 9;
    iso_totals_add(&a, &b);
    assert_true(a.samples == 6 && a.correct == 4 && a.loss.low == 9 && a.loss.high == 0 && a.busy == 9 &&
                a.bad_layer == 2);
}

/* Every (samples, batch): rounds cover each position once, the last one may be short, past the end there is nothing. */
static void rounds_cover_an_epoch(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples <= 40; samples++)
        for (uint64_t batch = 1; batch <= 45; batch++) {
            uint64_t next = 0, first, count, rounds = iso_epoch_rounds(samples, batch);
            for (uint64_t r = 0; r < rounds; r++) {
                iso_round_positions(samples, batch, r, &first, &count);
                assert_true(first == next && count > 0 && count <= batch);
                next += count;
            }
            assert_true(next == samples);
            iso_round_positions(samples, batch, rounds, &first, &count);
            assert_true(count == 0);
        }
    assert_true(iso_epoch_rounds(9, 4) == 3);
    assert_true(iso_epoch_rounds(3, UINT64_MAX) == 1);
    assert_true(iso_epoch_rounds(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(iso_units_in(33, 16) == 3 && iso_units_in(0, 16) == 0 && iso_units_in(1, 64) == 1);
}

static void a_sampler_is_a_permutation_of_its_epoch(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 9, 100, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char seen[1000] = {0};
        iso_sampler a, b;
        uint64_t moved = 0, other = 0;
        iso_sampler_init(&a, 5, 0, sizes[i]);
        iso_sampler_init(&b, 5, 1, sizes[i]);
        for (uint64_t p = 0; p < sizes[i]; p++) {
            uint64_t sample = iso_sampler_at(&a, p);
            assert_true(sample < sizes[i] && !seen[sample]);
            seen[sample] = 1;
            moved += sample != p;
            other += sample != iso_sampler_at(&b, p);
        }
        if (sizes[i] >= 100)
            assert_true(moved > sizes[i] / 2 && other > sizes[i] / 2);
    }
}

static void slices_cover_the_values(void **state)
{
    (void)state;
    for (uint64_t values = 16; values <= 400; values += 16)
        for (uint32_t count = 1; count <= 30; count++) {
            uint64_t next = 0, begin, end, least = UINT64_MAX, most = 0;
            for (uint32_t i = 0; i < count; i++) {
                iso_slice_values(values, count, i, &begin, &end);
                assert_true(begin == next && end >= begin && end % 16 == 0);
                least = end - begin < least ? end - begin : least;
                most = end - begin > most ? end - begin : most;
                next = end;
            }
            assert_true(next == values && most - least <= 16);
        }
}

static void an_order_enumerates_its_units(void **state)
{
    (void)state;
    iso_compute c = {.first = 100, .end = 141, .unit = 4, .pass_units = 11, .units = 4, .range_count = 2};
    c.range[0] = (iso_range){.first = 2, .count = 2};
    c.range[1] = (iso_range){.first = 9, .count = 2};
    uint64_t first;
    static const uint64_t expected[4][2] = {{108, 4}, {112, 4}, {136, 4}, {140, 1}};
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(iso_compute_unit(&c, i, &first) == expected[i][1]);
        assert_true(first == expected[i][0]);
    }
    assert_int_equal(iso_compute_unit(&c, 4, &first), 0);
    assert_true(iso_compute_samples(&c) == 13);
}

/* Random takes, settles and revokes against a plain model of the same thing. */
static void the_pool_keeps_every_unit_in_one_state(void **state)
{
    (void)state;
    enum { UNITS = 200 };
    uint32_t tags[UNITS], random = 12345;
    int model[UNITS]; /* -1 free, node * 8 + part, 1000 + node: settled */
    iso_pool p = {.tag = tags};
    iso_pool_begin(&p, 50, 50 + UNITS * 3 - 1, 3);
    assert_int_equal(p.units, UNITS);
    for (int i = 0; i < UNITS; i++)
        model[i] = -1;
    for (int step = 0; step < 20000; step++) {
        random = random * 1664525u + 1013904223u;
        uint32_t node = random >> 28, part = random >> 26 & 3, want = 1 + (random >> 10) % 20, ranges = 0, freed = 0;
        iso_range range[ISO_RANGES_MAX];
        if (random >> 8 & 3) {
            uint32_t taken = iso_pool_take(&p, node, part, want, range, &ranges), listed = 0;
            for (uint32_t r = 0; r < ranges; r++)
                for (uint32_t k = 0; k < range[r].count; k++, listed++) {
                    assert_int_equal(model[range[r].first + k], -1);
                    model[range[r].first + k] = (random >> 7 & 7) == 0 ? (int)(1000 + node) : (int)(node * 8 + part);
                }
            assert_int_equal(listed, taken);
            assert_true(taken == want || ranges == ISO_RANGES_MAX || p.free == 0);
            if ((random >> 7 & 7) == 0)
                iso_pool_settle(&p, range, ranges);
        } else {
            uint32_t count = iso_pool_revoke(&p, node, part);
            for (int i = 0; i < UNITS; i++)
                if (model[i] == (int)(node * 8 + part)) {
                    model[i] = -1;
                    freed++;
                }
            assert_int_equal(count, freed);
        }
        uint32_t free_units = 0;
        for (uint32_t i = 0; i < UNITS; i++) {
            free_units += model[i] < 0;
            if (model[i] >= 0)
                assert_int_equal(iso_pool_node(&p, i), model[i] >= 1000 ? model[i] - 1000 : model[i] / 8);
        }
        assert_int_equal(free_units, p.free);
        if (p.free == 0 && (random >> 6 & 1)) {
            iso_pool_begin(&p, 50, 50 + UNITS * 3 - 1, 3);
            for (int i = 0; i < UNITS; i++)
                model[i] = -1;
        }
    }
    iso_pool_begin(&p, 50, 50 + UNITS * 3 - 1, 3);
    iso_range all = {.first = 0, .count = UNITS}, last = {.first = UNITS - 1, .count = 1};
    assert_true(iso_pool_samples(&p, &all, 1) == UNITS * 3 - 1);
    assert_true(iso_pool_samples(&p, &last, 1) == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_sums_do_not_overflow),
        cmocka_unit_test(totals_add_up),
        cmocka_unit_test(rounds_cover_an_epoch),
        cmocka_unit_test(a_sampler_is_a_permutation_of_its_epoch),
        cmocka_unit_test(slices_cover_the_values),
        cmocka_unit_test(an_order_enumerates_its_units),
        cmocka_unit_test(the_pool_keeps_every_unit_in_one_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

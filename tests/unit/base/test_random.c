/* SPDX-License-Identifier: Apache-2.0
 * Proves: Philox gives the published numbers; keys that differ anywhere give other numbers; drawn integers are within
 * bounds and even; the permutation is a bijection for every size and looks random. */
#include "test.h"

#include "base/permutation.h"
#include "base/rng.h"

static void philox_gives_the_published_numbers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], right[4];
    } vectors[] = {
        /* Random123's known answers for philox4x32-10 */
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < TEST_COUNT(vectors); i++) {
        uint32_t out[4];
        iso_philox(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].right, sizeof out);
    }
}

static void every_part_of_a_key_counts(void **state)
{
    (void)state;
    const iso_rng_key base = {.seed = 7, .purpose = ISO_PURPOSE_TEST, .epoch = 3, .index = 11, .layer = 2};
    iso_rng_key key[9];
    for (int i = 0; i < 9; i++)
        key[i] = base;
    key[1].seed ^= 1;
    key[2].seed ^= (uint64_t)1 << 63;
    key[3].purpose = ISO_PURPOSE_FAULT;
    key[4].epoch++;
    key[5].index++;
    key[6].index |= (uint64_t)1 << 39;
    key[7].layer++;
    key[8].layer |= 1u << 23;
    uint32_t word[10][4];
    for (int i = 0; i < 9; i++)
        iso_rng_block(&key[i], 0, word[i]);
    iso_rng_block(&base, 1, word[9]);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(word[i], word[j], sizeof word[0]);
    iso_rng r = iso_rng_make(&base);
    for (int i = 0; i < 4; i++)
        assert_int_equal(iso_rng_u32(&r), word[0][i]);
    assert_int_equal(iso_rng_u64(&r), word[9][0] | (uint64_t)word[9][1] << 32);
}

static void keys_reach_their_limits(void **state)
{
    (void)state;
    const iso_rng_key key = {~(uint64_t)0, ISO_PURPOSE_TEST, ~0u, ISO_RNG_INDEX_MAX, ISO_RNG_LAYER_MAX};
    uint32_t out[4], right[4];
    iso_rng_block(&key, (1u << 24) - 1, out);
    iso_philox((const uint32_t[]){~0u, ~0u, ~0u, ~0u}, (const uint32_t[]){~0u, ~0u}, right);
    assert_memory_equal(out, right, sizeof out); /* every bit of the counter has its use */
}

static void floats_are_below_one(void **state)
{
    (void)state;
    assert_true(iso_rng_to_float(0) == 0 && iso_rng_to_float(~0u) == 1 - 0x1p-24f);
    assert_true(iso_rng_to_double(0) == 0 && iso_rng_to_double(~(uint64_t)0) == 1 - 0x1p-53);
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = 1, .purpose = ISO_PURPOSE_TEST});
    double sum = 0;
    for (int i = 0; i < 100000; i++)
        sum += (double)iso_rng_float(&r) + iso_rng_double(&r);
    assert_true(sum > 99000 && sum < 101000); /* 100,000 within 5 deviations of 200 */
}

static void bounded_integers_are_even(void **state)
{
    (void)state;
    iso_rng r = iso_rng_make(
        &(iso_rng_key){.seed = test_seed("bounded_integers_are_even"), .purpose = ISO_PURPOSE_TEST});
    assert_int_equal(iso_rng_below32(&r, 0), 0);
    assert_int_equal(iso_rng_below32(&r, 1), 0);
    assert_int_equal(iso_rng_below64(&r, 0), 0);
    assert_int_equal(iso_rng_below64(&r, 1), 0);
    static const uint32_t bounds[] = {2, 3, 7, 10, 1000};
    for (size_t b = 0; b < TEST_COUNT(bounds); b++) {
        uint32_t bound = bounds[b], seen32[1000] = {0}, seen64[1000] = {0};
        for (uint32_t i = 0; i < bound * 1000; i++) {
            uint32_t x = iso_rng_below32(&r, bound);
            uint64_t y = iso_rng_below64(&r, bound);
            assert_true(x < bound && y < bound);
            seen32[x]++;
            seen64[y]++;
        }
        for (uint32_t k = 0; k < bound; k++) /* 1000 expected, deviation below 32 */
            assert_true(seen32[k] > 800 && seen32[k] < 1200 && seen64[k] > 800 && seen64[k] < 1200);
    }
    /* With a bound of 3 * 2^30 a plain remainder would give the first quarter twice as often as the rest. */
    uint32_t bound = 3u << 30, low = 0;
    for (int i = 0; i < 30000; i++)
        low += iso_rng_below32(&r, bound) < 1u << 30;
    assert_true(low > 9500 && low < 10500);
    low = 0;
    for (int i = 0; i < 30000; i++)
        low += iso_rng_below64(&r, (uint64_t)3 << 62) < (uint64_t)1 << 62;
    assert_true(low > 9500 && low < 10500);
}

static void ranges_hold_at_their_ends(void **state)
{
    (void)state;
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = 5, .purpose = ISO_PURPOSE_TEST});
    bool seen[5] = {false};
    for (int i = 0; i < 200; i++) {
        int64_t x = iso_rng_between(&r, -2, 2);
        assert_true(x >= -2 && x <= 2);
        seen[x + 2] = true;
    }
    for (int i = 0; i < 5; i++)
        assert_true(seen[i]);
    assert_int_equal(iso_rng_between(&r, 9, 9), 9);
    assert_true(iso_rng_between(&r, INT64_MAX, INT64_MAX) == INT64_MAX);
    int negative = 0;
    for (int i = 0; i < 1000; i++)
        negative += iso_rng_between(&r, INT64_MIN, INT64_MAX) < 0;
    assert_true(negative > 400 && negative < 600);
    int hits = 0;
    for (int i = 0; i < 10000; i++) {
        hits += iso_rng_chance(&r, 1, 4);
        assert_false(iso_rng_chance(&r, 0, 7));
        assert_true(iso_rng_chance(&r, 7, 7));
    }
    assert_true(hits > 2250 && hits < 2750);
}

static void expect_bijection(uint64_t seed, uint32_t epoch, uint64_t count)
{
    iso_permutation p;
    iso_permutation_init(&p, seed, ISO_PURPOSE_PERMUTATION, epoch, count);
    uint8_t *seen = calloc(count, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t x = iso_permutation_at(&p, i);
        if (x >= count || seen[x]++)
            fail_msg("seed %llu, epoch %u, N %llu: position %llu gives %llu", (unsigned long long)seed, epoch,
                     (unsigned long long)count, (unsigned long long)i, (unsigned long long)x);
    }
    free(seen);
}

static void the_permutation_is_a_bijection(void **state)
{
    (void)state;
    uint64_t random = test_seed("the_permutation_is_a_bijection");
    for (uint64_t count = 1; count <= 2000; count++)
        expect_bijection(random, (uint32_t)count, count);
    for (int i = 0; i < 12; i++)
        expect_bijection(test_random(&random), (uint32_t)i, 1 + test_random_below(&random, 200000));
    for (uint64_t power = 256; power <= 1u << 20; power *= 4)
        for (int64_t d = -1; d <= 1; d++)
            expect_bijection(random, 1, power + (uint64_t)d);
    iso_permutation p; /* too large to count: within bounds, and no two of a thousand alike */
    iso_permutation_init(&p, 3, ISO_PURPOSE_PERMUTATION, 0, (uint64_t)1 << 62);
    uint64_t before = ~(uint64_t)0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t x = iso_permutation_at(&p, i);
        assert_true(x < (uint64_t)1 << 62 && x != before);
        before = x;
    }
}

/* Over many keys every sample comes to every position equally often, and every ordered pair of samples to the first
 * two. */
static void the_permutation_is_even(void **state)
{
    (void)state;
    enum { N = 10, KEYS = 20000 };
    uint32_t at[N][N] = {{0}}, pair[N][N] = {{0}};
    for (uint32_t key = 0; key < KEYS; key++) {
        iso_permutation p;
        iso_permutation_init(&p, 99, ISO_PURPOSE_PERMUTATION, key, N);
        uint64_t first = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t x = iso_permutation_at(&p, i);
            at[i][x]++;
            if (i == 0)
                first = x;
            if (i == 1)
                pair[first][x]++;
        }
    }
    double chi_at = 0, chi_pair = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double a = at[i][j] - KEYS / (double)N, b = pair[i][j] - KEYS / (double)(N * (N - 1));
            chi_at += a * a / (KEYS / (double)N);
            if (i != j)
                chi_pair += b * b / (KEYS / (double)(N * (N - 1)));
        }
    /* chi square with 81 and 89 degrees of freedom: below 140 and 150 with probability .9999 */
    print_message("chi square: positions %.1f (81), first pairs %.1f (89)\n", chi_at, chi_pair);
    assert_true(chi_at < 140 && chi_pair < 150);
}

/* In one long permutation neighbours are unrelated, fixed points are rare, and epochs and seeds differ. */
static void the_permutation_looks_random(void **state)
{
    (void)state;
    enum { N = 60000 };
    uint32_t fixed = 0, rising = 0, same = 0, near = 0;
    iso_permutation p, next, other;
    iso_permutation_init(&p, 1, ISO_PURPOSE_PERMUTATION, 0, N);
    iso_permutation_init(&next, 1, ISO_PURPOSE_PERMUTATION, 1, N);
    iso_permutation_init(&other, 1, ISO_PURPOSE_VALIDATION, 0, N);
    for (uint64_t i = 0; i + 1 < N; i++) {
        uint64_t x = iso_permutation_at(&p, i), y = iso_permutation_at(&p, i + 1);
        fixed += x == i;
        rising += x < y;
        near += (x > y ? x - y : y - x) < N / 100;
        same += x == iso_permutation_at(&next, i) || x == iso_permutation_at(&other, i);
    }
    assert_true(fixed < 10 && same < 15);
    assert_true(rising > N / 2 - 500 && rising < N / 2 + 500);
    assert_true(near > 900 && near < 1500); /* about 2 % of 60,000 */
    /* The answer is part of every result of the program: it must never change. */
    assert_int_equal(iso_permutation_at(&p, 0), 54966);
    assert_int_equal(iso_permutation_at(&p, 59999), 5402);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(every_part_of_a_key_counts),
        cmocka_unit_test(keys_reach_their_limits),
        cmocka_unit_test(floats_are_below_one),
        cmocka_unit_test(bounded_integers_are_even),
        cmocka_unit_test(ranges_hold_at_their_ends),
        cmocka_unit_test(the_permutation_is_a_bijection),
        cmocka_unit_test(the_permutation_is_even),
        cmocka_unit_test(the_permutation_looks_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

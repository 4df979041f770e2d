/* SPDX-License-Identifier: Apache-2.0
 * Seeds that can be replayed, and a small generator that shares nothing with the code under test (SplitMix64). */
#include "test.h"

#include <errno.h>

uint64_t test_seed(const char *test)
{
    const char *text = getenv("ISO_SEED");
    uint64_t seed = text && *text ? strtoull(text, NULL, 0) : 1;
    print_message("%s: replay with ISO_SEED=%llu %s\n", test, (unsigned long long)seed, program_invocation_name);
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t test_random_below(uint64_t *state, uint64_t bound)
{
    return bound ? test_random(state) % bound : 0;
}

void test_expect_word(const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("\"%s\" is not in: %s", word, text);
}

/* SPDX-License-Identifier: Apache-2.0
 * Philox4x32-10 and what is drawn from it; see rng.h. Everything here is integer arithmetic: equal on every machine. */
#include "base/rng.h"

#include "base/assert.h"

#define ROUNDS 10
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u
#define WEYL_1 0xBB67AE85u
#define BLOCKS ((uint32_t)1 << 24)

void iso_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void iso_rng_block(const iso_rng_key *key, uint32_t block, uint32_t out[4])
{
    ISO_ASSERT(key->index <= ISO_RNG_INDEX_MAX);
    ISO_ASSERT(key->layer <= ISO_RNG_LAYER_MAX);
    ISO_ASSERT(block < BLOCKS);
    const uint32_t counter[4] = {
        (uint32_t)key->index,
        (uint32_t)(key->index >> 32) | block << 8,
        key->epoch,
        (uint32_t)key->purpose << 24 | key->layer,
    };
    const uint32_t seed[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)};
    iso_philox(counter, seed, out);
}

iso_rng iso_rng_make(const iso_rng_key *key)
{
    return (iso_rng){.key = *key, .block = 0, .used = 4};
}

uint32_t iso_rng_u32(iso_rng *r)
{
    if (r->used == 4) {
        iso_rng_block(&r->key, r->block, r->word);
        r->block++;
        r->used = 0;
    }
    return r->word[r->used++];
}

uint64_t iso_rng_u64(iso_rng *r)
{
    uint64_t low = iso_rng_u32(r);
    return low | (uint64_t)iso_rng_u32(r) << 32;
}

/* Lemire's method: the upper half of word * bound, drawing again while the lower half falls into the part that would
 * make some results more frequent (2^32 mod bound values). */
uint32_t iso_rng_below32(iso_rng *r, uint32_t bound)
{
    if (bound == 0)
        return 0;
    uint64_t product = (uint64_t)iso_rng_u32(r) * bound;
    if ((uint32_t)product < bound) {
        uint32_t surplus = (uint32_t)(0u - bound) % bound;
        while ((uint32_t)product < surplus)
            product = (uint64_t)iso_rng_u32(r) * bound;
    }
    return (uint32_t)(product >> 32);
}

/* By rejection: words at or above the largest multiple of bound are drawn again. */
uint64_t iso_rng_below64(iso_rng *r, uint64_t bound)
{
    if (bound == 0)
        return 0;
    uint64_t surplus = (0u - bound) % bound; /* 2^64 mod bound */
    uint64_t word = iso_rng_u64(r);
    while (word < surplus)
        word = iso_rng_u64(r);
    return word % bound;
}

int64_t iso_rng_between(iso_rng *r, int64_t low, int64_t high)
{
    ISO_ASSERT(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low; /* wraps right in unsigned arithmetic */
    uint64_t offset = span == UINT64_MAX ? iso_rng_u64(r) : iso_rng_below64(r, span + 1);
    return (int64_t)((uint64_t)low + offset);
}

bool iso_rng_chance(iso_rng *r, uint32_t numerator, uint32_t denominator)
{
    ISO_ASSERT(denominator > 0);
    return iso_rng_below32(r, denominator) < numerator;
}

float iso_rng_float(iso_rng *r)
{
    return iso_rng_to_float(iso_rng_u32(r));
}

double iso_rng_double(iso_rng *r)
{
    return iso_rng_to_double(iso_rng_u64(r));
}

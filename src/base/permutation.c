/* SPDX-License-Identifier: Apache-2.0
 * A keyed bijection of [0, N): balanced Feistel network and cycle walking; see permutation.h. */
#include "base/permutation.h"

#include "base/assert.h"

#define HALF_BITS_MIN 4u

void iso_permutation_init(iso_permutation *p, uint64_t seed, iso_purpose purpose, uint32_t epoch, uint64_t count)
{
    ISO_ASSERT(count <= (uint64_t)1 << 62);
    p->count = count;
    p->half_bits = HALF_BITS_MIN;
    while (p->half_bits < 32 && ((uint64_t)1 << (2 * p->half_bits)) < count)
        p->half_bits++;
    p->mask = (uint32_t)(((uint64_t)1 << p->half_bits) - 1);
    const iso_rng_key key = {.seed = seed, .purpose = purpose, .epoch = epoch};
    for (uint32_t block = 0; block < ISO_PERMUTATION_ROUNDS / 4; block++)
        iso_rng_block(&key, block, p->key + 4 * block);
}

/* A 32-bit mixer of full avalanche (the finaliser of MurmurHash3); the round uses its lower half_bits. */
static inline uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ x >> 16;
}

uint64_t iso_permutation_at(const iso_permutation *p, uint64_t position)
{
    ISO_ASSERT(position < p->count);
    uint64_t x = position;
    do {
        uint32_t left = (uint32_t)(x >> p->half_bits), right = (uint32_t)x & p->mask;
        for (int round = 0; round < ISO_PERMUTATION_ROUNDS; round++) {
            uint32_t next = left ^ (mix(right + p->key[round]) & p->mask);
            left = right;
            right = next;
        }
        x = (uint64_t)left << p->half_bits | right;
    } while (x >= p->count);
    return x;
}

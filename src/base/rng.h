/* SPDX-License-Identifier: Apache-2.0
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A number is a pure function of its key; there
 * is no hidden state, so any thread or machine computes any number at once and a resume needs nothing restored.
 *
 * Key    = seed (64 bits).
 * Counter= word 0,1: index (40 bits) | block << 40 (24 bits);  word 2: epoch;  word 3: purpose (8 bits) << 24 | layer
 * (24 bits). One block gives 4 words of 32 bits; a stream walks the block number, so it gives at most 2^26 words. */
#ifndef ISO_BASE_RNG_H
#define ISO_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

/* What the numbers are for: streams of different purposes never meet. The values are part of every result: never
 * renumber. */
typedef enum iso_purpose {
    ISO_PURPOSE_INIT = 1,        /* layer, index of the weight */
    ISO_PURPOSE_PERMUTATION = 2, /* epoch */
    ISO_PURPOSE_AUGMENT = 3,     /* epoch, sample */
    ISO_PURPOSE_VALIDATION = 4,  /* nothing: one split a seed */
    ISO_PURPOSE_DROPOUT = 5,     /* epoch, sample, layer */
    ISO_PURPOSE_FAULT = 6,       /* the simulator's faults */
    ISO_PURPOSE_NOISE = 7,       /* the simulator's uneven speeds */
    ISO_PURPOSE_TEST = 255
} iso_purpose;

#define ISO_RNG_INDEX_MAX (((uint64_t)1 << 40) - 1)
#define ISO_RNG_LAYER_MAX (((uint32_t)1 << 24) - 1)

/* The raw bijection: 10 rounds of Philox4x32 on `counter` under `key`. */
void iso_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Where in the space of numbers: fields that do not apply are 0. */
typedef struct iso_rng_key {
    uint64_t seed;
    iso_purpose purpose;
    uint32_t epoch;
    uint64_t index; /* sample, weight, ...; at most ISO_RNG_INDEX_MAX */
    uint32_t layer; /* at most ISO_RNG_LAYER_MAX */
} iso_rng_key;

/* The four words of one block of a key; block < 2^24. */
void iso_rng_block(const iso_rng_key *key, uint32_t block, uint32_t out[4]);

/* A stream of words of one key. */
typedef struct iso_rng {
    iso_rng_key key;
    uint32_t block, used; /* next block; words of `word` already given */
    uint32_t word[4];
} iso_rng;

iso_rng iso_rng_make(const iso_rng_key *key);
uint32_t iso_rng_u32(iso_rng *r);
uint64_t iso_rng_u64(iso_rng *r); /* first word drawn is the low half */

/* Uniform in [0, bound) without bias; bound 0 gives 0. */
uint32_t iso_rng_below32(iso_rng *r, uint32_t bound);
uint64_t iso_rng_below64(iso_rng *r, uint64_t bound);

/* Uniform in [low, high], both included; low <= high. */
int64_t iso_rng_between(iso_rng *r, int64_t low, int64_t high);

/* True with probability numerator/denominator, exactly; denominator > 0. */
bool iso_rng_chance(iso_rng *r, uint32_t numerator, uint32_t denominator);

/* A word as a float in [0, 1): its upper 24 bits times 2^-24, so every value is exact. */
static inline float iso_rng_to_float(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Two words as a double in [0, 1): 53 bits. */
static inline double iso_rng_to_double(uint64_t word)
{
    return (double)(word >> 11) * 0x1p-53;
}

float iso_rng_float(iso_rng *r);
double iso_rng_double(iso_rng *r);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The one permutation of an epoch: a bijection of [0, N), position -> sample, computed in O(1) time and memory, so that
 * nobody sends or stores an order. A balanced Feistel network of 8 rounds over the smallest even number of bits that
 * holds N (at least 8 bits, so that small N are mixed as well), its round keys drawn by Philox from (seed, purpose,
 * epoch); results outside [0, N) are fed in again (cycle walking, fewer than 4 passes on average for N > 64). */
#ifndef ISO_BASE_PERMUTATION_H
#define ISO_BASE_PERMUTATION_H

#include <stdint.h>

#include "base/rng.h"

#define ISO_PERMUTATION_ROUNDS 8

typedef struct iso_permutation {
    uint64_t count;
    uint32_t half_bits, mask;
    uint32_t key[ISO_PERMUTATION_ROUNDS];
} iso_permutation;

/* count at most 2^62. purpose: ISO_PURPOSE_PERMUTATION for epochs, ISO_PURPOSE_VALIDATION for the split. */
void iso_permutation_init(iso_permutation *p, uint64_t seed, iso_purpose purpose, uint32_t epoch, uint64_t count);

/* The sample at a position < count. Thread: any. */
uint64_t iso_permutation_at(const iso_permutation *p, uint64_t position);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * XXH64 (the published algorithm, seed 0), incremental: the fingerprint of data sets, where SHA-256 would cost more
 * than the reading. It finds mistakes, not attackers. Equal on every host. */
#ifndef ISO_BASE_HASH64_H
#define ISO_BASE_HASH64_H

#include <stddef.h>
#include <stdint.h>

typedef struct iso_hash64 {
    uint64_t lane[4], bytes;
    uint8_t block[32];
} iso_hash64;

void iso_hash64_init(iso_hash64 *h);
void iso_hash64_add(iso_hash64 *h, const void *data, size_t bytes);
/* The hash of all that was added; more may be added afterwards. */
uint64_t iso_hash64_value(const iso_hash64 *h);

#endif

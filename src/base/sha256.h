/* SPDX-License-Identifier: Apache-2.0
 * SHA-256 (FIPS 180-4), incremental. */
#ifndef ISO_BASE_SHA256_H
#define ISO_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct iso_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* fed so far */
    uint8_t block[64];
} iso_sha256;

void iso_sha256_init(iso_sha256 *s);
void iso_sha256_add(iso_sha256 *s, const void *data, size_t bytes);
/* Feeds n floats as little-endian fp32. */
void iso_sha256_add_f32(iso_sha256 *s, const float *values, size_t n);
/* Ends the hash; *s must be initialised again before another use. */
void iso_sha256_end(iso_sha256 *s, uint8_t digest[32]);

/* 64 lower-case hexadecimal digits and a NUL. */
void iso_sha256_hex(const uint8_t digest[32], char out[65]);

#endif

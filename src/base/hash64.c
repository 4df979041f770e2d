/* SPDX-License-Identifier: Apache-2.0
 * XXH64 with seed 0, from its published specification. */
#include "base/hash64.h"

#include <string.h>

#include "base/bytes.h"

#define PRIME_1 0x9E3779B185EBCA87u
#define PRIME_2 0xC2B2AE3D27D4EB4Fu
#define PRIME_3 0x165667B19E3779F9u
#define PRIME_4 0x85EBCA77C2B2AE63u
#define PRIME_5 0x27D4EB2F165667C5u

static inline uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline uint64_t round_of(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

void iso_hash64_init(iso_hash64 *h)
{
    *h = (iso_hash64){.lane = {PRIME_1 + PRIME_2, PRIME_2, 0, 0 - PRIME_1}};
}

/* Whole stripes of 32 bytes, the lanes in registers. */
static void stripes(uint64_t lane[4], const uint8_t *p, size_t count)
{
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; count; count--, p += 32) {
        a = round_of(a, iso_load_u64(p));
        b = round_of(b, iso_load_u64(p + 8));
        c = round_of(c, iso_load_u64(p + 16));
        d = round_of(d, iso_load_u64(p + 24));
    }
    lane[0] = a;
    lane[1] = b;
    lane[2] = c;
    lane[3] = d;
}

void iso_hash64_add(iso_hash64 *h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    size_t held = (size_t)(h->bytes % 32);
    h->bytes += bytes;
    if (held) {
        size_t part = 32 - held < bytes ? 32 - held : bytes;
        if (part)
            memcpy(h->block + held, p, part);
        p += part;
        bytes -= part;
        if (held + part < 32)
            return;
        stripes(h->lane, h->block, 1);
    }
    stripes(h->lane, p, bytes / 32);
    if (bytes % 32)
        memcpy(h->block, p + bytes / 32 * 32, bytes % 32);
}

uint64_t iso_hash64_value(const iso_hash64 *h)
{
    uint64_t x = PRIME_5;
    if (h->bytes >= 32) {
        x = rotate(h->lane[0], 1) + rotate(h->lane[1], 7) + rotate(h->lane[2], 12) + rotate(h->lane[3], 18);
        for (int i = 0; i < 4; i++)
            x = (x ^ round_of(0, h->lane[i])) * PRIME_1 + PRIME_4;
    }
    x += h->bytes;
    const uint8_t *p = h->block, *end = h->block + h->bytes % 32;
    for (; end - p >= 8; p += 8)
        x = rotate(x ^ round_of(0, iso_load_u64(p)), 27) * PRIME_1 + PRIME_4;
    for (; end - p >= 4; p += 4)
        x = rotate(x ^ iso_load_u32(p) * PRIME_1, 23) * PRIME_2 + PRIME_3;
    for (; p < end; p++)
        x = rotate(x ^ *p * PRIME_5, 11) * PRIME_1;
    x = (x ^ x >> 33) * PRIME_2;
    x = (x ^ x >> 29) * PRIME_3;
    return x ^ x >> 32;
}

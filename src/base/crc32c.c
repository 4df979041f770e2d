/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C by slicing (eight bytes a step) or by the processor's instruction; see crc32c.h.
 *
 * The tables need no generator: a crc is linear, so entry i of a table is the xor of the entries of i's set bits. Row k
 * below holds the eight entries 1, 2, 4, ..., 128 of the table for a byte followed by k zero bytes; the preprocessor
 * makes the rest. */
#include "base/crc32c.h"

#include "base/bytes.h"

#define ENTRY(i, a, b, c, d, e, f, g, h)                                                         \
    ((((i)&1) ? (a) : 0u) ^ (((i)&2) ? (b) : 0u) ^ (((i)&4) ? (c) : 0u) ^ (((i)&8) ? (d) : 0u) ^ \
     (((i)&16) ? (e) : 0u) ^ (((i)&32) ? (f) : 0u) ^ (((i)&64) ? (g) : 0u) ^ (((i)&128) ? (h) : 0u))
#define ENTRIES_4(i, ...) \
    ENTRY(i, __VA_ARGS__), ENTRY((i) + 1, __VA_ARGS__), ENTRY((i) + 2, __VA_ARGS__), ENTRY((i) + 3, __VA_ARGS__)
#define ENTRIES_16(i, ...)                                                                       \
    ENTRIES_4(i, __VA_ARGS__), ENTRIES_4((i) + 4, __VA_ARGS__), ENTRIES_4((i) + 8, __VA_ARGS__), \
        ENTRIES_4((i) + 12, __VA_ARGS__)
#define ENTRIES_64(i, ...)                                                                            \
    ENTRIES_16(i, __VA_ARGS__), ENTRIES_16((i) + 16, __VA_ARGS__), ENTRIES_16((i) + 32, __VA_ARGS__), \
        ENTRIES_16((i) + 48, __VA_ARGS__)
#define TABLE(...)                                                                             \
    {                                                                                          \
        ENTRIES_64(0, __VA_ARGS__), ENTRIES_64(64, __VA_ARGS__), ENTRIES_64(128, __VA_ARGS__), \
            ENTRIES_64(192, __VA_ARGS__)                                                       \
    }

static const uint32_t table[8][256] = {
    TABLE(0xF26B8303u, 0xE13B70F7u, 0xC79A971Fu, 0x8AD958CFu, 0x105EC76Fu, 0x20BD8EDEu, 0x417B1DBCu, 0x82F63B78u),
    TABLE(0x13A29877u, 0x274530EEu, 0x4E8A61DCu, 0x9D14C3B8u, 0x3FC5F181u, 0x7F8BE302u, 0xFF17C604u, 0xFBC3FAF9u),
    TABLE(0xA541927Eu, 0x4F6F520Du, 0x9EDEA41Au, 0x38513EC5u, 0x70A27D8Au, 0xE144FB14u, 0xC76580D9u, 0x8B277743u),
    TABLE(0xDD45AAB8u, 0xBF672381u, 0x7B2231F3u, 0xF64463E6u, 0xE964B13Du, 0xD725148Bu, 0xABA65FE7u, 0x52A0C93Fu),
    TABLE(0x38116FACu, 0x7022DF58u, 0xE045BEB0u, 0xC5670B91u, 0x8F2261D3u, 0x1BA8B557u, 0x37516AAEu, 0x6EA2D55Cu),
    TABLE(0xEF306B19u, 0xDB8CA0C3u, 0xB2F53777u, 0x6006181Fu, 0xC00C303Eu, 0x85F4168Du, 0x0E045BEBu, 0x1C08B7D6u),
    TABLE(0x68032CC8u, 0xD0065990u, 0xA5E0C5D1u, 0x4E2DFD53u, 0x9C5BFAA6u, 0x3D5B83BDu, 0x7AB7077Au, 0xF56E0EF4u),
    TABLE(0x493C7D27u, 0x9278FA4Eu, 0x211D826Du, 0x423B04DAu, 0x847609B4u, 0x0D006599u, 0x1A00CB32u, 0x34019664u),
};

uint32_t iso_crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint32_t low = crc ^ iso_load_u32(p), high = iso_load_u32(p + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; bytes; bytes--, p++)
        crc = table[0][(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint64_t wide = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8)
        wide = __builtin_ia32_crc32di(wide, iso_load_u64(p));
    uint32_t narrow = (uint32_t)wide;
    for (; bytes; bytes--, p++)
        narrow = __builtin_ia32_crc32qi(narrow, *p);
    return ~narrow;
}

uint32_t iso_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, data, bytes) : iso_crc32c_portable(crc, data, bytes);
}
#else
uint32_t iso_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return iso_crc32c_portable(crc, data, bytes);
}
#endif

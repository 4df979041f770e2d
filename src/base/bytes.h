/* SPDX-License-Identifier: Apache-2.0
 * Bytes on disk and in frames are little-endian whatever the host (IDX files are big-endian: the _be forms). Loads and
 * stores are by shifts, which compilers turn into one instruction. Cursors never leave their buffer: past the end a
 * read gives 0, a write does nothing, and `failed` stays set, so one check at the end is enough. */
#ifndef ISO_BASE_BYTES_H
#define ISO_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t iso_load_u16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | (uint16_t)b[1] << 8);
}

static inline uint32_t iso_load_u32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t iso_load_u64(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)iso_load_u32(b) | (uint64_t)iso_load_u32(b + 4) << 32;
}

static inline int64_t iso_load_i64(const void *p)
{
    uint64_t bits = iso_load_u64(p);
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int32_t iso_load_i32(const void *p)
{
    uint32_t bits = iso_load_u32(p);
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float iso_load_f32(const void *p)
{
    uint32_t bits = iso_load_u32(p);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double iso_load_f64(const void *p)
{
    uint64_t bits = iso_load_u64(p);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t iso_load_u16_be(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)((uint16_t)b[0] << 8 | b[1]);
}

static inline uint32_t iso_load_u32_be(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
}

static inline uint64_t iso_load_u64_be(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)iso_load_u32_be(b) << 32 | (uint64_t)iso_load_u32_be(b + 4);
}

static inline void iso_store_u16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void iso_store_u32(void *p, uint32_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}

static inline void iso_store_u64(void *p, uint64_t v)
{
    uint8_t *b = p;
    iso_store_u32(b, (uint32_t)v);
    iso_store_u32(b + 4, (uint32_t)(v >> 32));
}

static inline void iso_store_i64(void *p, int64_t v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    iso_store_u64(p, bits);
}

static inline void iso_store_i32(void *p, int32_t v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    iso_store_u32(p, bits);
}

static inline void iso_store_f32(void *p, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    iso_store_u32(p, bits);
}

static inline void iso_store_f64(void *p, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    iso_store_u64(p, bits);
}

/* ---- cursors ---- */

typedef struct iso_reader {
    const uint8_t *at, *end;
    bool failed;
} iso_reader;

typedef struct iso_writer {
    uint8_t *at, *end;
    bool failed;
} iso_writer;

iso_reader iso_reader_on(const void *bytes, size_t count);
size_t iso_reader_left(const iso_reader *r);
/* The next `count` bytes in place, or NULL and failed. */
const void *iso_read_bytes(iso_reader *r, size_t count);
uint8_t iso_read_u8(iso_reader *r);
uint16_t iso_read_u16(iso_reader *r);
uint32_t iso_read_u32(iso_reader *r);
uint64_t iso_read_u64(iso_reader *r);
int64_t iso_read_i64(iso_reader *r);
float iso_read_f32(iso_reader *r);
double iso_read_f64(iso_reader *r);

iso_writer iso_writer_on(void *bytes, size_t count);
size_t iso_writer_left(const iso_writer *w);
/* Room for `count` bytes to be filled by the caller, or NULL and failed. */
void *iso_write_room(iso_writer *w, size_t count);
void iso_write_bytes(iso_writer *w, const void *bytes, size_t count);
void iso_write_u8(iso_writer *w, uint8_t v);
void iso_write_u16(iso_writer *w, uint16_t v);
void iso_write_u32(iso_writer *w, uint32_t v);
void iso_write_u64(iso_writer *w, uint64_t v);
void iso_write_i64(iso_writer *w, int64_t v);
void iso_write_f32(iso_writer *w, float v);
void iso_write_f64(iso_writer *w, double v);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Bounded cursors over bytes; see bytes.h. */
#include "base/bytes.h"

iso_reader iso_reader_on(const void *bytes, size_t count)
{
    const uint8_t *begin = bytes;
    return (iso_reader){begin, count ? begin + count : begin, false};
}

size_t iso_reader_left(const iso_reader *r)
{
    return (size_t)(r->end - r->at);
}

const void *iso_read_bytes(iso_reader *r, size_t count)
{
    if (r->failed || count > iso_reader_left(r)) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *begin = r->at;
    if (count)
        r->at += count;
    return begin;
}

#define DEFINE_READ(name, type, bytes, load)         \
    type iso_read_##name(iso_reader *r)              \
    {                                                \
        const uint8_t *p = iso_read_bytes(r, bytes); \
        return p ? load(p) : (type)0;                \
    }

static inline uint8_t load_u8(const void *p)
{
    return *(const uint8_t *)p;
}

DEFINE_READ(u8, uint8_t, 1, load_u8)
DEFINE_READ(u16, uint16_t, 2, iso_load_u16)
DEFINE_READ(u32, uint32_t, 4, iso_load_u32)
DEFINE_READ(u64, uint64_t, 8, iso_load_u64)
DEFINE_READ(i64, int64_t, 8, iso_load_i64)
DEFINE_READ(f32, float, 4, iso_load_f32)
DEFINE_READ(f64, double, 8, iso_load_f64)

iso_writer iso_writer_on(void *bytes, size_t count)
{
    uint8_t *begin = bytes;
    return (iso_writer){begin, count ? begin + count : begin, false};
}

size_t iso_writer_left(const iso_writer *w)
{
    return (size_t)(w->end - w->at);
}

void *iso_write_room(iso_writer *w, size_t count)
{
    if (w->failed || count > iso_writer_left(w)) {
        w->failed = true;
        return NULL;
    }
    uint8_t *begin = w->at;
    if (count)
        w->at += count;
    return begin;
}

void iso_write_bytes(iso_writer *w, const void *bytes, size_t count)
{
    void *room = iso_write_room(w, count);
    if (room && count)
        memcpy(room, bytes, count);
}

#define DEFINE_WRITE(name, type, bytes, store)   \
    void iso_write_##name(iso_writer *w, type v) \
    {                                            \
        void *room = iso_write_room(w, bytes);   \
        if (room)                                \
            store(room, v);                      \
    }

static inline void store_u8(void *p, uint8_t v)
{
    *(uint8_t *)p = v;
}

DEFINE_WRITE(u8, uint8_t, 1, store_u8)
DEFINE_WRITE(u16, uint16_t, 2, iso_store_u16)
DEFINE_WRITE(u32, uint32_t, 4, iso_store_u32)
DEFINE_WRITE(u64, uint64_t, 8, iso_store_u64)
DEFINE_WRITE(i64, int64_t, 8, iso_store_i64)
DEFINE_WRITE(f32, float, 4, iso_store_f32)
DEFINE_WRITE(f64, double, 8, iso_store_f64)

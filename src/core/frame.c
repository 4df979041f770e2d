/* SPDX-License-Identifier: Apache-2.0
 * Frames as bytes. Byte table (all little-endian; docs/protocol.md has the bodies):
 *    0 u32 magic "ISOF"      4 u16 version           6 u16 kind            8 u32 incarnation    12 u32 session
 *   16 u64 round            24 u32 from             28 u32 to             32 u16 slice         34 u16 slice_count
 *   36 u32 chunk_index      40 u32 chunk_count      44 u32 chunk_bytes    48 u32 chunk_stride  52 u32 serial
 *   56 u16 body_bytes       58 u16 zero             60 u32 crc32c of the bytes 0..59 and of all that follows the header
 *   64 body                 64 + body_bytes: chunk
 * Bytes 0..7 and 24..31 keep their place and meaning in every version, so that another one can be named, answered. */
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "isochron/core.h"

enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 6,
    AT_INCARNATION = 8,
    AT_SESSION = 12,
    AT_ROUND = 16,
    AT_FROM = 24,
    AT_TO = 28,
    AT_SLICE = 32,
    AT_SLICES = 34,
    AT_CHUNK = 36,
    AT_CHUNKS = 40,
    AT_CHUNK_BYTES = 44,
    AT_STRIDE = 48,
    AT_SERIAL = 52,
    AT_BODY_BYTES = 56,
    AT_ZERO = 58,
    AT_CRC = 60
};

static const uint32_t frame_magic = 0x464F5349; /* "ISOF" */

size_t iso_frame_bytes(const iso_frame *f)
{
    return (size_t)ISO_FRAME_HEADER + f->body_bytes + f->chunk_bytes;
}

/* The place of the first field that breaks the rules, with its rule; NULL when all is well. */
static const char *fields_wrong(const iso_frame *f, int *at)
{
    *at = AT_KIND;
    if (f->kind < ISO_FRAME_HELLO || f->kind > ISO_FRAME_PULSE)
        return "a kind of frame from 1 to 12";
    *at = AT_BODY_BYTES;
    if (f->body_bytes > ISO_BODY_MAX)
        return "a body of at most 128 bytes";
    *at = AT_SLICE;
    if (f->slice_count == 0 || f->slice_count > UINT16_MAX || f->slice >= f->slice_count)
        return "a slice below the number of slices";
    *at = AT_CHUNK;
    if (f->chunk_count == 0 || f->chunk_index >= f->chunk_count)
        return "a chunk below the number of chunks";
    *at = AT_STRIDE;
    if (f->chunk_stride > ISO_CHUNK_MAX || (f->chunk_stride == 0 && f->chunk_count > 1))
        return "chunks of 1 byte to 1 MiB";
    *at = AT_CHUNK_BYTES;
    if (f->chunk_bytes > f->chunk_stride || (f->chunk_index + 1 < f->chunk_count && f->chunk_bytes != f->chunk_stride))
        return "a full chunk, or the last one";
    if (f->chunk_count > 1 && f->chunk_bytes == 0)
        return "a chunk that is not empty";
    return NULL;
}

static uint32_t crc_of(const uint8_t *frame, size_t bytes)
{
    uint32_t crc = iso_crc32c(0, frame, AT_CRC);
    return iso_crc32c(crc, frame + ISO_FRAME_HEADER, bytes - ISO_FRAME_HEADER);
}

size_t iso_frame_encode(const iso_frame *f, void *out, size_t capacity)
{
    int at;
    size_t bytes = iso_frame_bytes(f);
    if (fields_wrong(f, &at) || capacity < bytes || (f->chunk_bytes > 0 && !f->bulk))
        return 0;
    uint8_t *p = out;
    iso_store_u32(p + AT_MAGIC, frame_magic);
    iso_store_u16(p + AT_VERSION, ISO_FRAME_VERSION);
    iso_store_u16(p + AT_KIND, (uint16_t)f->kind);
    iso_store_u32(p + AT_INCARNATION, f->incarnation);
    iso_store_u32(p + AT_SESSION, f->session);
    iso_store_u64(p + AT_ROUND, f->round);
    iso_store_u32(p + AT_FROM, f->from);
    iso_store_u32(p + AT_TO, f->to);
    iso_store_u16(p + AT_SLICE, (uint16_t)f->slice);
    iso_store_u16(p + AT_SLICES, (uint16_t)f->slice_count);
    iso_store_u32(p + AT_CHUNK, f->chunk_index);
    iso_store_u32(p + AT_CHUNKS, f->chunk_count);
    iso_store_u32(p + AT_CHUNK_BYTES, f->chunk_bytes);
    iso_store_u32(p + AT_STRIDE, f->chunk_stride);
    iso_store_u32(p + AT_SERIAL, f->serial);
    iso_store_u16(p + AT_BODY_BYTES, (uint16_t)f->body_bytes);
    iso_store_u16(p + AT_ZERO, 0);
    memcpy(p + ISO_FRAME_HEADER, f->body, f->body_bytes);
    if (f->chunk_bytes > 0)
        memcpy(p + ISO_FRAME_HEADER + f->body_bytes, f->bulk, f->chunk_bytes);
    iso_store_u32(p + AT_CRC, crc_of(p, bytes));
    return bytes;
}

size_t iso_frame_span(const void *header)
{
    const uint8_t *p = header;
    uint32_t body = iso_load_u16(p + AT_BODY_BYTES), chunk = iso_load_u32(p + AT_CHUNK_BYTES);
    if (iso_load_u32(p + AT_MAGIC) != frame_magic || body > ISO_BODY_MAX || chunk > ISO_CHUNK_MAX)
        return 0;
    return (size_t)ISO_FRAME_HEADER + body + chunk;
}

static void load_header(iso_frame *f, const uint8_t *p)
{
    f->kind = iso_load_u16(p + AT_KIND);
    f->incarnation = iso_load_u32(p + AT_INCARNATION);
    f->session = iso_load_u32(p + AT_SESSION);
    f->round = iso_load_u64(p + AT_ROUND);
    f->from = iso_load_u32(p + AT_FROM);
    f->to = iso_load_u32(p + AT_TO);
    f->slice = iso_load_u16(p + AT_SLICE);
    f->slice_count = iso_load_u16(p + AT_SLICES);
    f->chunk_index = iso_load_u32(p + AT_CHUNK);
    f->chunk_count = iso_load_u32(p + AT_CHUNKS);
    f->chunk_bytes = iso_load_u32(p + AT_CHUNK_BYTES);
    f->chunk_stride = iso_load_u32(p + AT_STRIDE);
    f->serial = iso_load_u32(p + AT_SERIAL);
    f->body_bytes = iso_load_u16(p + AT_BODY_BYTES);
}

int iso_frame_decode(iso_frame *f, const void *bytes, size_t count, iso_error *e)
{
    const uint8_t *p = bytes;
    memset(f, 0, sizeof *f);
    if (count < ISO_FRAME_HEADER)
        return iso_error_set(e, ISO_E_PROTOCOL, "frame: expected a header of %u bytes, found %zu bytes",
                             ISO_FRAME_HEADER, count);
    if (iso_load_u32(p + AT_MAGIC) != frame_magic)
        return iso_error_set(e, ISO_E_PROTOCOL, "frame byte 0: expected the magic \"ISOF\", found 0x%08x",
                             (unsigned)iso_load_u32(p + AT_MAGIC));
    unsigned version = iso_load_u16(p + AT_VERSION);
    if (version != ISO_FRAME_VERSION) {
        f->kind = iso_load_u16(p + AT_KIND);
        f->from = iso_load_u32(p + AT_FROM);
        f->to = iso_load_u32(p + AT_TO);
        return iso_error_set(e, ISO_E_UNSUPPORTED,
                             "frame byte 4: expected version %u, found %u; use the same program on all nodes",
                             ISO_FRAME_VERSION, version);
    }
    load_header(f, p);
    int at;
    const char *rule = fields_wrong(f, &at);
    if (!rule && iso_load_u16(p + AT_ZERO) != 0) {
        at = AT_ZERO;
        rule = "zero";
    }
    if (rule)
        return iso_error_set(e, ISO_E_PROTOCOL, "frame byte %d: expected %s", at, rule);
    if (count != iso_frame_bytes(f))
        return iso_error_set(e, ISO_E_PROTOCOL, "frame: its header says %zu bytes, found %zu", iso_frame_bytes(f),
                             count);
    uint32_t crc = crc_of(p, count);
    if (crc != iso_load_u32(p + AT_CRC))
        return iso_error_set(e, ISO_E_PROTOCOL, "frame byte %d: crc32c is 0x%08x, the content has 0x%08x", AT_CRC,
                             (unsigned)iso_load_u32(p + AT_CRC), (unsigned)crc);
    memcpy(f->body, p + ISO_FRAME_HEADER, f->body_bytes);
    f->bulk = f->chunk_bytes > 0 ? p + ISO_FRAME_HEADER + f->body_bytes : NULL;
    return ISO_OK;
}

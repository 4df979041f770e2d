/* SPDX-License-Identifier: Apache-2.0
 * Bulk data in chunks: cutting and gathering. Fixed memory; never half a result is used: COMPLETE is told when every
 * chunk of one version has come, and a newer version starts from nothing. */
#include <string.h>

#include "isochron/core.h"

static uint32_t chunks_of(size_t bytes, uint32_t stride)
{
    return bytes == 0 ? 1 : (uint32_t)(bytes / stride + (bytes % stride != 0));
}

size_t iso_assembly_words(size_t bytes, uint32_t stride)
{
    return ((size_t)chunks_of(bytes, stride) + 63) / 64;
}

void iso_assembly_init(iso_assembly *a, void *data, size_t bytes, uint32_t stride, uint64_t *seen)
{
    *a = (iso_assembly){
        .data = data, .seen = seen, .bytes = bytes, .stride = stride, .chunk_count = chunks_of(bytes, stride)};
}

bool iso_frame_cut(iso_frame *f, const void *data, size_t bytes, uint32_t stride, uint32_t index)
{
    uint32_t count = chunks_of(bytes, stride);
    if (index >= count)
        return false;
    size_t offset = (size_t)index * stride, left = bytes - offset;
    f->chunk_index = index;
    f->chunk_count = count;
    f->chunk_stride = stride;
    f->chunk_bytes = left < stride ? (uint32_t)left : stride;
    f->bulk = bytes == 0 ? NULL : (const uint8_t *)data + offset;
    return true;
}

/* Negative: f is older than what is being gathered; positive: newer. */
static int compare_version(const iso_assembly *a, const iso_frame *f)
{
    if (!a->begun)
        return 1;
    if (f->incarnation != a->incarnation)
        return f->incarnation > a->incarnation ? 1 : -1;
    if (f->session != a->session)
        return f->session > a->session ? 1 : -1;
    if (f->round != a->round)
        return f->round > a->round ? 1 : -1;
    return f->serial == a->serial ? 0 : f->serial > a->serial ? 1 : -1;
}

iso_gather iso_assembly_add(iso_assembly *a, const iso_frame *f)
{
    size_t offset = (size_t)f->chunk_index * a->stride;
    if (f->chunk_count != a->chunk_count || f->chunk_index >= a->chunk_count || f->chunk_stride != a->stride)
        return ISO_GATHER_BAD;
    size_t left = a->bytes - offset;
    if (f->chunk_bytes != (left < a->stride ? left : a->stride) || (f->chunk_bytes > 0 && !f->bulk))
        return ISO_GATHER_BAD;
    int version = compare_version(a, f);
    if (version < 0)
        return ISO_GATHER_OLD;
    if (version > 0) {
        a->begun = true;
        a->incarnation = f->incarnation;
        a->session = f->session;
        a->round = f->round;
        a->serial = f->serial;
        a->missing = a->chunk_count;
        memset(a->seen, 0, iso_assembly_words(a->bytes, a->stride) * sizeof *a->seen);
    }
    uint64_t bit = (uint64_t)1 << (f->chunk_index % 64);
    if (a->seen[f->chunk_index / 64] & bit)
        return ISO_GATHER_OLD;
    if (f->chunk_bytes > 0)
        memcpy(a->data + offset, f->bulk, f->chunk_bytes);
    a->seen[f->chunk_index / 64] |= bit;
    a->missing--;
    return a->missing == 0 ? ISO_GATHER_COMPLETE : ISO_GATHER_MORE;
}

/* SPDX-License-Identifier: Apache-2.0
 * Shifts and flips, each a pure function of (seed, epoch, sample): whoever holds the sample makes the same copy. */
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "isochron/data.h"

bool iso_augment_any(const iso_augment *g)
{
    return g->shift > 0 || g->flip;
}

int iso_augment_check(const iso_augment *g, iso_shape shape, iso_error *e)
{
    if (!iso_augment_any(g))
        return ISO_OK;
    if (shape.h == 1 && shape.w == 1)
        return iso_error_set(
            e, ISO_E_SHAPE, "augment: samples of %u columns are no images: they cannot be shifted or flipped", shape.c);
    uint32_t side = shape.h < shape.w ? shape.h : shape.w;
    if (g->shift >= side)
        return iso_error_set(e, ISO_E_SHAPE, "augment: a shift of %u pixels empties images of %u x %u; at most %u",
                             g->shift, shape.h, shape.w, side - 1);
    return ISO_OK;
}

static void reverse_u8(const uint8_t *last, uint8_t *out, int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        out[x] = last[-x];
}

static void reverse_f32(const uint8_t *last, uint8_t *out, int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        memcpy(out + 4 * x, last - 4 * x, 4);
}

/* One row: out[x] = in[flip ? w-1-(x-dx) : x-dx], 0 outside. */
static void copy_row(const uint8_t *in, uint8_t *out, int64_t w, int64_t dx, bool flip, size_t size)
{
    int64_t begin = dx > 0 ? dx : 0, end = dx < 0 ? w + dx : w;
    memset(out, 0, (size_t)begin * size);
    memset(out + (size_t)end * size, 0, (size_t)(w - end) * size);
    const uint8_t *last = in + (size_t)(w - 1 - (begin - dx)) * size; /* of a flipped row: its first pixel to copy */
    if (!flip)
        memcpy(out + (size_t)begin * size, in + (size_t)(begin - dx) * size, (size_t)(end - begin) * size);
    else if (size == 1)
        reverse_u8(last, out + begin, end - begin);
    else
        reverse_f32(last, out + (size_t)begin * 4, end - begin);
}

void iso_augment_sample(const iso_augment *g, iso_shape shape, iso_dtype dtype, uint64_t seed, uint32_t epoch,
                        uint64_t sample, const void *in, void *out)
{
    ISO_ASSERT(g->shift == 0 || (g->shift < shape.h && g->shift < shape.w));
    const iso_rng_key key = {.seed = seed, .purpose = ISO_PURPOSE_AUGMENT, .epoch = epoch, .index = sample};
    iso_rng random = iso_rng_make(&key);
    int64_t dy = iso_rng_between(&random, -(int64_t)g->shift, g->shift);
    int64_t dx = iso_rng_between(&random, -(int64_t)g->shift, g->shift);
    bool flip = (iso_rng_u32(&random) & 1) && g->flip;
    size_t size = iso_dtype_bytes(dtype), row = (size_t)shape.w * size;
    const uint8_t *from = in;
    uint8_t *to = out;
    for (uint32_t c = 0; c < shape.c; c++) {
        for (int64_t y = 0; y < shape.h; y++, to += row) {
            int64_t source = y - dy;
            if (source < 0 || source >= shape.h)
                memset(to, 0, row);
            else
                copy_row(from + ((size_t)c * shape.h + (size_t)source) * row, to, shape.w, dx, flip, size);
        }
    }
}

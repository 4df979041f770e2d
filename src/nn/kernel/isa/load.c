/* SPDX-License-Identifier: Apache-2.0
 * Samples into lanes or rows, and the two layouts into each other.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/transpose.h"

static const size_t rows_of_16[16] = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240};

ISO_INLINE vf v_load_u8(const uint8_t *p)
{
#if defined ISO_ISA_avx512
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
#elif defined ISO_ISA_avx2
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
#else
    return (vf){{(float)p[0], (float)p[1], (float)p[2], (float)p[3]}};
#endif
}

/* Where the first value of channel c, row i lies in the bordered lanes. */
static size_t inside(const iso_conv *c, uint32_t channel, uint32_t row)
{
    size_t width = c->columns + 2 * (size_t)c->pad_columns, height = c->rows + 2 * (size_t)c->pad_rows;
    return ((channel * height + row + c->pad_rows) * width + c->pad_columns) * 16;
}

/* Both loaders: a channel is a run of H*W values; 16 at a time are put as rows of a 16x16 tile, transposed, and stored row by
 * row of the image. TAKE loads VL values of a sample. */
#define ISO_LOADER(TYPE, TAKE) \
    for (uint32_t channel = 0; channel < c->channels; channel++) { \
        const vf factor = v_set(scale[channel]), offset = v_set(shift[channel]); \
        const size_t pixels = (size_t)c->rows * c->columns; \
        float tile[256] __attribute__((aligned(64))), turned[256] __attribute__((aligned(64))); \
        memset(tile, 0, sizeof tile); \
        uint32_t row = 0, column = 0; \
        float *to = x + inside(c, channel, 0); \
        for (size_t first = 0; first < pixels; first += 16) { \
            size_t count = pixels - first < 16 ? pixels - first : 16; \
            for (uint32_t i = 0; i < n; i++) { \
                const TYPE *from = sample[i] + channel * pixels + first; \
                TYPE edge[16] = {0}; \
                if (count < 16) { \
                    memcpy(edge, from, count * sizeof edge[0]); \
                    from = edge; \
                } \
                for (size_t part = 0; part < 16; part += VL) \
                    v_store(tile + 16 * i + part, v_fma(TAKE(from + part), factor, offset)); \
            } \
            transpose16(turned, 16, tile, rows_of_16); \
            for (size_t i = 0; i < count; i++) { \
                memcpy(to, turned + 16 * i, 16 * sizeof *to); \
                to += 16; \
                if (++column == c->columns) { \
                    column = 0; \
                    if (++row < c->rows) \
                        to = x + inside(c, channel, row); \
                } \
            } \
        } \
    }

void ISO_K(load_u8)(float *x, const iso_conv *c, uint32_t n, const uint8_t *const *sample, const float *scale, const float *shift)
{
    ISO_LOADER(uint8_t, v_load_u8)
}

void ISO_K(load_f32)(float *x, const iso_conv *c, uint32_t n, const float *const *sample, const float *scale, const float *shift)
{
    ISO_LOADER(float, v_load)
}

#define ISO_ROW_LOADER(TYPE, TAKE) \
    size_t i = 0; \
    for (; i + VL <= count; i += VL) \
        v_store(row + i, v_fma(TAKE(sample + i), v_load(scale + i), v_load(shift + i))); \
    for (; i < count; i++) \
        row[i] = __builtin_fmaf((float)sample[i], scale[i], shift[i]); \
    for (; i % 16 != 0; i++) \
        row[i] = 0.0f;

void ISO_K(load_row_u8)(float *row, uint32_t count, const uint8_t *sample, const float *scale, const float *shift)
{
    ISO_ROW_LOADER(uint8_t, v_load_u8)
}

void ISO_K(load_row_f32)(float *row, uint32_t count, const float *sample, const float *scale, const float *shift)
{
    ISO_ROW_LOADER(float, v_load)
}

void ISO_K(lanes_to_rows)(float *rows, size_t ld, const float *lanes, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        transpose16(rows + i, ld, lanes + 16 * i, rows_of_16);
    if (i < count) {
        float edge[256] __attribute__((aligned(64))) = {0};
        memcpy(edge, lanes + 16 * i, (count - i) * 16 * sizeof *lanes);
        transpose16(rows + i, ld, edge, rows_of_16);
    }
}

void ISO_K(rows_to_lanes)(float *lanes, const float *rows, size_t ld, size_t count)
{
    size_t at[16], i = 0;
    for (size_t r = 0; r < 16; r++)
        at[r] = r * ld;
    for (; i + 16 <= count; i += 16)
        transpose16(lanes + 16 * i, 16, rows + i, at);
    if (i < count) {
        float edge[256] __attribute__((aligned(64)));
        transpose16(edge, 16, rows + i, at); /* rows are padded to 16 */
        memcpy(lanes + 16 * i, edge, (count - i) * 16 * sizeof *lanes);
    }
}

void ISO_K(add_border)(float *padded, const float *x, const iso_conv *c)
{
    size_t width = c->columns + 2 * (size_t)c->pad_columns;
    size_t side = (size_t)c->pad_columns * 16, line = (size_t)c->columns * 16, full = width * 16;
    for (uint32_t channel = 0; channel < c->channels; channel++) {
        memset(padded, 0, c->pad_rows * full * sizeof *padded);
        padded += c->pad_rows * full;
        for (uint32_t row = 0; row < c->rows; row++, padded += full, x += line) {
            memset(padded, 0, side * sizeof *padded);
            memcpy(padded + side, x, line * sizeof *padded);
            memset(padded + side + line, 0, side * sizeof *padded);
        }
        memset(padded, 0, c->pad_rows * full * sizeof *padded);
        padded += c->pad_rows * full;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * Forward convolution of an image of one channel with 2x2 max pooling behind it, lane = pixel: the tile of conv_tile.h, its four columns
 * two rows of 2 VL pixels. Even and odd pixels are parted for the pooling; 16 pooled pixels of 16 filters are then turned into pixels.
 */
#include "nn/kernel/isa/narrow_image.h"

#include "nn/kernel/isa/conv_tile.h"
#include "nn/kernel/isa/narrow_simd.h"
#include "nn/kernel/isa/transpose.h"

typedef struct image_ends {
    const float *bias;
    float *y, *arg;   /* [M][16]; arg holds integers */
} image_ends;

/* Lanes 0, 2, 4 .. of a and then of b; and 1, 3, 5 .. */
#if defined ISO_ISA_avx512
ISO_INLINE vf v_evens(vf a, vf b)
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}
ISO_INLINE vf v_odds(vf a, vf b)
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
}
#elif defined ISO_ISA_avx2
ISO_INLINE vf v_in_order(vf x) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8)); }
ISO_INLINE vf v_evens(vf a, vf b) { return v_in_order(_mm256_shuffle_ps(a, b, 0x88)); }
ISO_INLINE vf v_odds(vf a, vf b) { return v_in_order(_mm256_shuffle_ps(a, b, 0xdd)); }
#else
ISO_INLINE vf v_evens(vf a, vf b) { return (vf){{a.v[0], a.v[2], b.v[0], b.v[2]}}; }
ISO_INLINE vf v_odds(vf a, vf b) { return (vf){{a.v[1], a.v[3], b.v[1], b.v[3]}}; }
#endif

ISO_INLINE void pool_row(vf a, vf b, vf c, vf d, float *y, float *arg)
{
    vi where;
    v_store(y, window_largest(v_evens(a, b), v_odds(a, b), v_evens(c, d), v_odds(c, d), &where));
    v_store(arg, v_bits(where));
}

#define ISO_I_START(p, m) vf c##m##_##p = v_set(e->bias[m]);
#define ISO_I_ROW_START(m, x_) ISO_COLUMNS_4(ISO_I_START, m)
#define ISO_I_ROW_POOL(m, x_) pool_row(c##m##_0, c##m##_1, c##m##_2, c##m##_3, e->y + (m) * 16, e->arg + (m) * 16);
#define ISO_DEFINE_IMAGE(M) \
    static void image_##M(const conv_sum *s, const image_ends *e) \
    { \
        ISO_ROWS_##M(ISO_I_ROW_START, ~) \
        ISO_CONV_LOOP(M, const float *w_tap = w + k) \
        ISO_ROWS_##M(ISO_I_ROW_POOL, ~) \
    }
ISO_DEFINE_IMAGE(1)
ISO_DEFINE_IMAGE(2)
ISO_DEFINE_IMAGE(3)
#if CONV_ROWS == 6
ISO_DEFINE_IMAGE(4)
ISO_DEFINE_IMAGE(5)
ISO_DEFINE_IMAGE(6)
static void (*const tiles[])(const conv_sum *, const image_ends *) = {image_1, image_2, image_3, image_4, image_5, image_6};
#else
static void (*const tiles[])(const conv_sum *, const image_ends *) = {image_1, image_2, image_3};
#endif

/* [filters][16 pixels] to pixels. */
static void store_pixels(const iso_conv *c, uint32_t filters, size_t pixels, float *y, uint8_t *arg, const float *values,
                         const float *places)
{
    static const size_t rows[16] = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240};
    float turned[256] __attribute__((aligned(64))), turned_places[256] __attribute__((aligned(64)));
    size_t arg_step = iso_round16(c->filters);
    transpose16(turned, 16, values, rows);
    transpose16(turned_places, 16, places, rows);
    for (size_t i = 0; i < pixels; i++) {
        for (size_t part = 0; part < filters; part += VL) {
            v_store_part(y + i * c->filters + part, v_load(turned + 16 * i + part), filters - part);
            i_store_u8(arg + i * arg_step + part, i_bits(v_load(turned_places + 16 * i + part)));
        }
    }
}

void ISO_K(narrow_image)(const iso_conv *c, float *y, uint8_t *arg, const float *x, const float *w, const float *bias,
                         const int32_t *taps)
{
    float values[256] __attribute__((aligned(64))) = {0}, places[256] __attribute__((aligned(64))) = {0};
    size_t width = c->columns + 2 * (size_t)c->pad_columns, area = (size_t)c->kernel_rows * c->kernel_columns;
    size_t rows = c->out_rows / 2, columns = c->out_columns / 2;
    conv_sum s = {.n = area, .x_at = taps, .w_row = area};
    for (uint32_t group = 0; group < c->filters; group += 16) {
        uint32_t filters = c->filters - group < 16 ? c->filters - group : 16;
        for (size_t row = 0; row < rows; row++) {
            for (size_t column = 0; column < columns; column += 16) {
                size_t pixels = columns - column < 16 ? columns - column : 16, pixel = row * columns + column;
                for (size_t part = 0; part < pixels; part += VL) {
                    for (size_t p = 0; p < CONV_PIXELS; p++)
                        s.x[p] = x + (2 * row + p / 2) * width + 2 * (column + part) + p % 2 * VL;
                    for (uint32_t f = 0, m; f < filters; f += m) {
                        m = conv_rows_at(filters, f);
                        s.w = w + (group + f) * area;
                        tiles[m - 1](&s, &(image_ends){bias + group + f, values + 16 * f + part, places + 16 * f + part});
                    }
                }
                store_pixels(c, filters, pixels, y + pixel * c->filters + group, arg + pixel * iso_round16(c->filters) + group, values,
                             places);
            }
        }
    }
}

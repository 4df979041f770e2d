/* SPDX-License-Identifier: Apache-2.0
 * Few samples: loading, pooling, one factor and offset a channel (lane = channel), and sums over samples.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/narrow_simd.h"

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

/* One channel straight into its rows, the last register of a row over the one before; several value by value. */
#define ISO_LOADER(TAKE) \
    const size_t width = c->columns + 2 * (size_t)c->pad_columns, step = c->channels; \
    for (uint32_t channel = 0; channel < c->channels; channel++) { \
        const vf factor = v_set(scale[channel]), offset = v_set(shift[channel]); \
        for (size_t row = 0; row < c->rows; row++, sample += c->columns) { \
            float *to = x + ((row + c->pad_rows) * width + c->pad_columns) * step + channel; \
            size_t j = 0; \
            for (; step == 1 && c->columns >= VL && j < c->columns; j += VL) { \
                size_t first = j + VL <= c->columns ? j : c->columns - VL; \
                v_store(to + first, v_fma(TAKE(sample + first), factor, offset)); \
            } \
            for (; j < c->columns; j++) \
                to[j * step] = __builtin_fmaf((float)sample[j], scale[channel], shift[channel]); \
        } \
    }

void ISO_K(narrow_load_u8)(float *x, const iso_conv *c, const uint8_t *sample, const float *scale, const float *shift)
{
    ISO_LOADER(v_load_u8)
}

void ISO_K(narrow_load_f32)(float *x, const iso_conv *c, const float *sample, const float *scale, const float *shift)
{
    ISO_LOADER(v_load)
}

/* ---- pooling --------------------------------------------------------------------------------------------------------------- */

/* For every output pixel and register of channels. window: the register's first input pixel; s: where input pixel (r, s) of the window
 * lies behind it. */
#define ISO_EACH_WINDOW(BODY) \
    const size_t channels = p->channels, line = p->columns * channels; \
    for (size_t i = 0; i < p->out_rows; i++) { \
        for (size_t j = 0; j < p->out_columns; j++) { \
            const size_t pixel = i * p->out_columns + j, place = i * p->stride_rows * line + j * p->stride_columns * channels; \
            for (size_t first = 0; first < channels; first += VL) { \
                const size_t keep = channels - first < VL ? channels - first : VL; \
                BODY \
            } \
        } \
    }
#define ISO_EACH_INPUT(BODY) \
    for (uint32_t r = 0; r < p->window_rows; r++) \
        for (uint32_t s = 0; s < p->window_columns; s++) { \
            const size_t at = place + first + r * line + s * channels; \
            BODY \
        }

void ISO_K(narrow_max_pool_forward)(const iso_pool *p, float *y, uint16_t *arg, const float *x)
{
    ISO_EACH_WINDOW(
        vf best = v_load(x + place + first);
        vi where = i_set(0);
        ISO_EACH_INPUT(
            vf value = v_load(x + at);
            where = i_select(v_gt(value, best), i_set((int32_t)(r * p->window_columns + s)), where);
            best = v_max(value, best);)
        v_store_part(y + pixel * channels + first, best, keep);
        i_store_u16(arg + pixel * iso_round16(channels) + first, where);)
}

void ISO_K(narrow_max_pool_backward)(const iso_pool *p, float *dx, const float *dy, const uint16_t *arg)
{
    memset(dx, 0, (size_t)p->rows * p->columns * p->channels * sizeof *dx);
    ISO_EACH_WINDOW(
        vf d = v_load(dy + pixel * channels + first);
        vi where = i_load_u16(arg + pixel * iso_round16(channels) + first);
        ISO_EACH_INPUT(
            vm here = i_eq(where, i_set((int32_t)(r * p->window_columns + s)));
            v_store_part(dx + at, v_add(v_load(dx + at), v_select(here, d, v_zero())), keep);))
}

void ISO_K(narrow_average_pool_forward)(const iso_pool *p, float *y, const float *x, float factor)
{
    ISO_EACH_WINDOW(
        vf sum = v_zero();
        ISO_EACH_INPUT(sum = v_add(sum, v_load(x + at));)
        v_store_part(y + pixel * channels + first, v_mul(sum, v_set(factor)), keep);)
}

void ISO_K(narrow_average_pool_backward)(const iso_pool *p, float *dx, const float *dy, float factor)
{
    memset(dx, 0, (size_t)p->rows * p->columns * p->channels * sizeof *dx);
    ISO_EACH_WINDOW(
        vf d = v_mul(v_load(dy + pixel * channels + first), v_set(factor));
        ISO_EACH_INPUT(v_store_part(dx + at, v_add(v_load(dx + at), d), keep);))
}

/* ---- a factor and an offset a channel ---------------------------------------------------------------------------------------- */

void ISO_K(narrow_scale_forward)(float *y, const float *x, const float *a, const float *b, uint32_t n, uint32_t channels,
                                 uint32_t pixels)
{
    size_t sample = iso_narrow_row((size_t)channels * pixels);
    for (uint32_t i = 0; i < n; i++) {
        for (size_t pixel = 0; pixel < pixels; pixel++) {
            for (size_t first = 0; first < channels; first += VL) {
                size_t at = i * sample + pixel * channels + first;
                v_store_part(y + at, v_fma(v_load(x + at), v_load(a + first), v_load(b + first)), channels - first);
            }
        }
    }
}

void ISO_K(narrow_scale_backward)(float *dx, float *da, float *db, const float *dy, const float *x, const float *a, uint32_t n,
                                  uint32_t channels, uint32_t pixels)
{
    size_t sample = iso_narrow_row((size_t)channels * pixels), sums = iso_round16(channels);
    memset(da, 0, n * sums * sizeof *da);
    memset(db, 0, n * sums * sizeof *db);
    for (uint32_t i = 0; i < n; i++) {
        for (size_t first = 0; first < channels; first += VL) {
            vf factor = v_load(a + first), chain_a = v_zero(), chain_b = v_zero();
            for (size_t pixel = 0; pixel < pixels; pixel++) {
                size_t at = i * sample + pixel * channels + first;
                vf d = v_load(dy + at);
                chain_a = v_fma(d, v_load(x + at), chain_a);
                chain_b = v_add(chain_b, d);
                v_store_part(dx + at, v_flush(v_mul(d, factor)), channels - first);
            }
            v_store_part(da + i * sums + first, chain_a, channels - first);
            v_store_part(db + i * sums + first, chain_b, channels - first);
        }
    }
}

/* ---- sums over samples --------------------------------------------------------------------------------------------------------- */

/* to += from, when sample `from` is there. */
ISO_INLINE void join(float *sums, uint32_t n, size_t step, size_t count, uint32_t to, uint32_t from)
{
    if (from >= n)
        return;
    for (size_t i = 0; i < count; i += VL)
        v_store(sums + to * step + i, v_add(v_load(sums + to * step + i), v_load(sums + from * step + i)));
}

void ISO_K(narrow_tree)(float *sums, uint32_t n, size_t step, size_t count)
{
    for (uint32_t half = 4; half != 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            join(sums, n, step, count, i, i + half);
}

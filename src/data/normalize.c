/* SPDX-License-Identifier: Apache-2.0
 * Mean and deviation of each channel (for a table: column) of the training part, and the scale and shift that follow.
 * u8 is summed in exact integers; f32 in doubles: first the mean, then the squares of the differences, in the order of
 * the view. Only + - * / sqrt are used, so every machine gets the same bits. */
#include <math.h>
#include <string.h>

#include "isochron/data.h"

__extension__ typedef unsigned __int128 u128;

static const char *const mode_names[] = {"none", "unit", "standard"};

int iso_normalize_parse(const char *word, iso_normalize *out)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, mode_names[i]) == 0) {
            *out = (iso_normalize)i;
            return ISO_OK;
        }
    }
    return ISO_E_ARGUMENT;
}

const char *iso_normalize_name(iso_normalize mode)
{
    return mode_names[mode];
}

/* Channels measured in one pass over the samples: a table's columns lie side by side, so one pass a column would be
 * slow. */
#define CHUNK 64u
#define BLOCK 4096u /* squares of so many u8 values fit in 32 bits */

typedef struct u8_sums {
    uint64_t sum, squares; /* 65,025 a value: room for 2.8e14 values */
    uint8_t low, high;
} u8_sums;

static void add_u8(u8_sums *s, const uint8_t *x, size_t n)
{
    while (n) {
        size_t part = n < BLOCK ? n : BLOCK;
        uint32_t sum = 0, squares = 0;
        uint8_t low = s->low, high = s->high;
        for (size_t k = 0; k < part; k++) {
            sum += x[k];
            squares += (uint32_t)x[k] * x[k];
            low = x[k] < low ? x[k] : low;
            high = x[k] > high ? x[k] : high;
        }
        s->sum += sum;
        s->squares += squares;
        s->low = low;
        s->high = high;
        x += part;
        n -= part;
    }
}

/* Channels [first, first + count). deviation = sqrt(n * sum of squares - sum^2) / n; the difference is exact. */
static void measure_u8(const iso_view *v, uint32_t first, uint32_t count, iso_channel *out)
{
    size_t plane = (size_t)v->set->shape.h * v->set->shape.w;
    u8_sums sums[CHUNK];
    for (uint32_t c = 0; c < count; c++)
        sums[c] = (u8_sums){0, 0, 255, 0};
    for (uint64_t i = 0; i < v->count; i++) {
        const uint8_t *x = (const uint8_t *)iso_view_sample(v, i) + first * plane;
        for (uint32_t c = 0; c < count; c++)
            add_u8(&sums[c], x + c * plane, plane);
    }
    uint64_t n = v->count * plane;
    for (uint32_t c = 0; c < count; c++) {
        u128 spread = (u128)n * sums[c].squares - (u128)sums[c].sum * sums[c].sum;
        out[c].minimum = sums[c].low;
        out[c].maximum = sums[c].high;
        out[c].mean = (double)sums[c].sum / (double)n;
        out[c].deviation = sqrt((double)spread) / (double)n;
    }
}

/* First pass over f32: sum into mean, minimum, maximum. */
static int sum_f32(const iso_view *v, uint32_t first, uint32_t count, iso_channel *out, iso_error *e)
{
    size_t plane = (size_t)v->set->shape.h * v->set->shape.w;
    for (uint32_t c = 0; c < count; c++)
        out[c] = (iso_channel){.minimum = INFINITY, .maximum = -INFINITY};
    for (uint64_t i = 0; i < v->count; i++) {
        const float *x = (const float *)iso_view_sample(v, i) + first * plane;
        for (uint32_t c = 0; c < count; c++) {
            for (size_t k = 0; k < plane; k++, x++) {
                double value = (double)*x;
                if (!(value - value == 0))
                    return iso_error_set(e, ISO_E_NONFINITE, "%s: sample %llu, channel %u: a value is not finite",
                                         v->set->source, (unsigned long long)(v->index ? v->index[i] : i), first + c);
                out[c].mean += value;
                out[c].minimum = value < out[c].minimum ? value : out[c].minimum;
                out[c].maximum = value > out[c].maximum ? value : out[c].maximum;
            }
        }
    }
    return ISO_OK;
}

/* Second pass: squares of the differences from the mean. */
static int measure_f32(const iso_view *v, uint32_t first, uint32_t count, iso_channel *out, iso_error *e)
{
    size_t plane = (size_t)v->set->shape.h * v->set->shape.w;
    double n = (double)v->count * (double)plane, squares[CHUNK] = {0};
    int status = sum_f32(v, first, count, out, e);
    if (status != ISO_OK)
        return status;
    for (uint32_t c = 0; c < count; c++)
        out[c].mean = out[c].minimum == out[c].maximum ? out[c].minimum : out[c].mean / n;
    for (uint64_t i = 0; i < v->count; i++) {
        const float *x = (const float *)iso_view_sample(v, i) + first * plane;
        for (uint32_t c = 0; c < count; c++)
            for (size_t k = 0; k < plane; k++, x++)
                squares[c] += ((double)*x - out[c].mean) * ((double)*x - out[c].mean);
    }
    for (uint32_t c = 0; c < count; c++)
        out[c].deviation = sqrt(squares[c] / n);
    return ISO_OK;
}

static void set_scale(iso_channel *c, iso_normalize mode, iso_dtype dtype)
{
    c->constant = c->minimum == c->maximum;
    double scale = 1, shift = 0;
    if (mode != ISO_NORMALIZE_NONE && c->constant) {
        scale = 0;
    } else if (mode == ISO_NORMALIZE_UNIT && dtype == ISO_U8) {
        scale = 1.0 / 255;
    } else if (mode == ISO_NORMALIZE_UNIT) {
        scale = 1 / (c->maximum - c->minimum);
        shift = -c->minimum / (c->maximum - c->minimum);
    } else if (mode == ISO_NORMALIZE_STANDARD) {
        scale = 1 / c->deviation;
        shift = -c->mean / c->deviation;
    }
    c->scale = (float)scale;
    c->shift = (float)shift;
}

int iso_normalize_measure(const iso_view *v, iso_normalize mode, iso_channel *channel, uint32_t *constant, iso_error *e)
{
    if (v->count == 0 || !v->set->values)
        return iso_error_set(e, ISO_E_ARGUMENT, "there are no samples to measure");
    uint32_t found = 0, channels = v->set->shape.c;
    for (uint32_t first = 0; first < channels; first += CHUNK) {
        uint32_t count = channels - first < CHUNK ? channels - first : CHUNK;
        int status = ISO_OK;
        if (v->set->dtype == ISO_U8)
            measure_u8(v, first, count, channel + first);
        else
            status = measure_f32(v, first, count, channel + first, e);
        if (status != ISO_OK)
            return status;
    }
    for (uint32_t c = 0; c < channels; c++) {
        set_scale(&channel[c], mode, v->set->dtype);
        if (!(channel[c].scale - channel[c].scale == 0) || !(channel[c].shift - channel[c].shift == 0))
            return iso_error_set(e, ISO_E_NONFINITE,
                                 "%s: channel %u: values from %g to %g are too close together to be normalised",
                                 v->set->source, c, channel[c].minimum, channel[c].maximum);
        found += channel[c].constant;
    }
    if (constant)
        *constant = found;
    return ISO_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 * Mean and deviation of each channel (for a table: column) of the training part, and the scale and shift that follow. u8 is summed in
 * exact integers; f32 in doubles: first the mean, then the squares of the differences, in the order of the view. Only + - * / sqrt are
 * used, so every machine gets the same bits. */
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

/* deviation = sqrt(n * sum of squares - sum^2) / n; the difference is exact. */
static void measure_u8_channel(const iso_view *v, uint32_t c, iso_channel *out)
{
    size_t plane = (size_t)v->set->shape.h * v->set->shape.w;
    uint64_t sum = 0;
    uint64_t squares = 0; /* 65,025 a value: room for 2.8e14 values */
    uint8_t low = 255, high = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        const uint8_t *x = (const uint8_t *)iso_view_sample(v, i) + c * plane;
        for (size_t k = 0; k < plane; k++) {
            sum += x[k];
            squares += (uint32_t)x[k] * x[k];
            low = x[k] < low ? x[k] : low;
            high = x[k] > high ? x[k] : high;
        }
    }
    uint64_t n = v->count * plane;
    u128 spread = (u128)n * squares - (u128)sum * sum;
    out->minimum = low;
    out->maximum = high;
    out->mean = (double)sum / (double)n;
    out->deviation = sqrt((double)spread) / (double)n;
}

static int measure_f32_channel(const iso_view *v, uint32_t c, iso_channel *out, iso_error *e)
{
    size_t plane = (size_t)v->set->shape.h * v->set->shape.w;
    double n = (double)v->count * (double)plane, sum = 0, squares = 0;
    double low = INFINITY, high = -INFINITY;
    for (uint64_t i = 0; i < v->count; i++) {
        const float *x = (const float *)iso_view_sample(v, i) + c * plane;
        for (size_t k = 0; k < plane; k++) {
            double value = (double)x[k];
            if (!(value - value == 0))
                return iso_error_set(e, ISO_E_NONFINITE, "%s: sample %llu, channel %u: a value is not finite", v->set->source,
                                     (unsigned long long)(v->index ? v->index[i] : i), c);
            sum += value;
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
    }
    double mean = sum / n;
    for (uint64_t i = 0; i < v->count; i++) {
        const float *x = (const float *)iso_view_sample(v, i) + c * plane;
        for (size_t k = 0; k < plane; k++)
            squares += ((double)x[k] - mean) * ((double)x[k] - mean);
    }
    out->minimum = low;
    out->maximum = high;
    out->mean = low == high ? low : mean;
    out->deviation = low == high ? 0 : sqrt(squares / n);
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
    uint32_t found = 0;
    for (uint32_t c = 0; c < v->set->shape.c; c++) {
        if (v->set->dtype == ISO_U8) {
            measure_u8_channel(v, c, &channel[c]);
        } else {
            int status = measure_f32_channel(v, c, &channel[c], e);
            if (status != ISO_OK)
                return status;
        }
        set_scale(&channel[c], mode, v->set->dtype);
        if (!(channel[c].scale - channel[c].scale == 0) || !(channel[c].shift - channel[c].shift == 0))
            return iso_error_set(e, ISO_E_NONFINITE, "%s: channel %u: values from %g to %g are too close together to be normalised",
                                 v->set->source, c, channel[c].minimum, channel[c].maximum);
        found += channel[c].constant;
    }
    if (constant)
        *constant = found;
    return ISO_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 * What every engine shares: wide sums, totals, and the arithmetic that turns epochs into rounds, units, positions and
 * samples. Pure functions. Invariant: a unit never crosses the end of its batch. */
#include <string.h>

#include "base/permutation.h"
#include "isochron/core.h"

_Static_assert(sizeof(iso_permutation) <= sizeof(iso_sampler), "a permutation fits a sampler");

/* ---- wide sums ---- */

iso_wide iso_wide_add(iso_wide a, iso_wide b)
{
    iso_wide sum = {.low = a.low + b.low};
    uint64_t high = (uint64_t)a.high + (uint64_t)b.high + (sum.low < a.low);
    memcpy(&sum.high, &high, sizeof high);
    return sum;
}

iso_wide iso_wide_subtract(iso_wide a, iso_wide b)
{
    iso_wide difference = {.low = a.low - b.low};
    uint64_t high = (uint64_t)a.high - (uint64_t)b.high - (a.low < b.low);
    memcpy(&difference.high, &high, sizeof high);
    return difference;
}

iso_wide iso_wide_of(int64_t value)
{
    return (iso_wide){.low = (uint64_t)value, .high = value < 0 ? -1 : 0};
}

double iso_wide_loss(iso_wide sum)
{
    bool negative = sum.high < 0;
    if (negative)
        sum = iso_wide_subtract(iso_wide_of(0), sum);
    /* The upper 64 significant bits; what is cut off sets the lowest one, so that the one rounding below sees it. */
    uint64_t high = (uint64_t)sum.high, low = sum.low;
    double scale = 0x1p-40;
    while (high != 0) {
        low = low >> 1 | (low & 1) | high << 63;
        high >>= 1;
        scale *= 2;
    }
    double value = (double)low * scale;
    return negative ? -value : value;
}

/* ---- totals ---- */

void iso_totals_clear(iso_totals *t)
{
    *t = (iso_totals){.bad_layer = -1};
}

static int32_t worse_layer(int32_t a, int32_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

void iso_totals_add_unit(iso_totals *t, const iso_unit_result *r)
{
    t->samples += r->samples;
    t->correct += r->correct;
    t->loss = iso_wide_add(t->loss, iso_wide_of(r->loss));
    t->bad_layer = worse_layer(t->bad_layer, r->bad_layer);
}

void iso_totals_add(iso_totals *t, const iso_totals *more)
{
    t->samples += more->samples;
    t->correct += more->correct;
    t->loss = iso_wide_add(t->loss, more->loss);
    t->busy += more->busy;
    t->bad_layer = worse_layer(t->bad_layer, more->bad_layer);
}

/* ---- epochs, rounds, units ---- */

uint64_t iso_epoch_rounds(uint64_t samples, uint64_t batch)
{
    return batch == 0 ? 0 : samples / batch + (samples % batch != 0);
}

void iso_round_positions(uint64_t samples, uint64_t batch, uint64_t round_in_epoch, uint64_t *first, uint64_t *count)
{
    if (round_in_epoch >= iso_epoch_rounds(samples, batch)) {
        *first = samples;
        *count = 0;
        return;
    }
    *first = round_in_epoch * batch; /* <= samples: no overflow */
    uint64_t left = samples - *first;
    *count = left < batch ? left : batch;
}

uint64_t iso_units_in(uint64_t count, uint32_t unit)
{
    return unit == 0 ? 0 : count / unit + (count % unit != 0);
}

void iso_sampler_init(iso_sampler *s, uint64_t seed, uint32_t epoch, uint64_t samples)
{
    iso_permutation p;
    memset(&p, 0, sizeof p);
    iso_permutation_init(&p, seed, ISO_PURPOSE_PERMUTATION, epoch, samples);
    memset(s, 0, sizeof *s);
    memcpy(s->state, &p, sizeof p);
}

uint64_t iso_sampler_at(const iso_sampler *s, uint64_t position)
{
    iso_permutation p;
    memcpy(&p, s->state, sizeof p);
    return iso_permutation_at(&p, position);
}

void iso_slice_values(uint64_t values, uint32_t count, uint32_t index, uint64_t *begin, uint64_t *end)
{
    uint64_t lines = values / ISO_LANES, each = lines / count, extra = lines % count;
    uint64_t from = each * index + (index < extra ? index : extra);
    *begin = from * ISO_LANES;
    *end = (from + each + (index < extra)) * ISO_LANES;
}

/* ---- the units of an order ---- */

uint32_t iso_compute_unit(const iso_compute *c, uint32_t index, uint64_t *first)
{
    for (uint32_t r = 0; r < c->range_count; r++) {
        if (index < c->range[r].count) {
            *first = c->first + (uint64_t)(c->range[r].first + index) * c->unit;
            uint64_t left = c->end - *first;
            return left < c->unit ? (uint32_t)left : c->unit;
        }
        index -= c->range[r].count;
    }
    *first = c->end;
    return 0;
}

uint64_t iso_compute_samples(const iso_compute *c)
{
    uint64_t samples = 0;
    for (uint32_t r = 0; r < c->range_count; r++) {
        uint64_t first = c->first + (uint64_t)c->range[r].first * c->unit;
        uint64_t left = c->end - first, whole = (uint64_t)c->range[r].count * c->unit;
        samples += left < whole ? left : whole;
    }
    return samples;
}

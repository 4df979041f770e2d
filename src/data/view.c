/* SPDX-License-Identifier: Apache-2.0
 * Views of a data set and the validation split. The split is a function of (count, share, seed) alone: sample x is for
 * validation if the permutation of (seed, VALIDATION) puts it into the last places. */
#include <string.h>

#include "base/assert.h"
#include "base/permutation.h"
#include "isochron/data.h"

iso_view iso_view_all(const iso_dataset *d)
{
    return (iso_view){.set = d, .count = d->count};
}

void iso_view_free(iso_view *v)
{
    if (!v)
        return;
    iso_free(v->alloc, (void *)(uintptr_t)v->index);
    *v = (iso_view){0};
}

const void *iso_view_sample(const iso_view *v, uint64_t i)
{
    ISO_ASSERT(i < v->count);
    return iso_dataset_sample(v->set, v->index ? v->index[i] : i);
}

int32_t iso_view_label(const iso_view *v, uint64_t i)
{
    ISO_ASSERT(i < v->count);
    return v->set->labels[v->index ? v->index[i] : i];
}

void iso_view_class_counts(const iso_view *v, uint32_t classes, uint64_t *counts)
{
    memset(counts, 0, classes * sizeof *counts);
    for (uint64_t i = 0; i < v->count; i++) {
        int32_t label = iso_view_label(v, i);
        if ((uint32_t)label < classes)
            counts[label]++;
    }
}

/* Writes the samples of positions [begin, end) of the permutation in ascending order, by way of one bit a sample. */
static void fill(const iso_permutation *p, uint64_t begin, uint64_t end, uint8_t *bits, uint64_t *index)
{
    memset(bits, 0, (size_t)(p->count / 8 + 1));
    for (uint64_t i = begin; i < end; i++) {
        uint64_t x = iso_permutation_at(p, i);
        bits[x / 8] = (uint8_t)(bits[x / 8] | 1u << (x % 8));
    }
    for (uint64_t x = 0; x < p->count; x++)
        if (bits[x / 8] >> (x % 8) & 1)
            *index++ = x;
}

int iso_split_make(const iso_dataset *d, double share, uint64_t seed, const iso_alloc *a, iso_view *training,
                   iso_view *validation, iso_error *e)
{
    *training = iso_view_all(d);
    *validation = (iso_view){.set = d};
    if (!(share >= 0 && share < 1))
        return iso_error_set(e, ISO_E_ARGUMENT, "the validation share must be at least 0 and below 1");
    if (share == 0)
        return ISO_OK;
    if (d->count < 2)
        return iso_error_set(e, ISO_E_ARGUMENT, "%s: too small for a validation share: it has 1 sample", d->source);
    uint64_t held = (uint64_t)((double)d->count * share + 0.5);
    held = held < 1 ? 1 : held > d->count - 1 ? d->count - 1 : held;
    uint64_t *kept_index = iso_new_raw(a, (size_t)(d->count - held), sizeof *kept_index);
    uint64_t *held_index = iso_new_raw(a, (size_t)held, sizeof *held_index);
    uint8_t *bits = iso_new_raw(a, (size_t)(d->count / 8 + 1), 1);
    if (!kept_index || !held_index || !bits) {
        iso_free(a, kept_index);
        iso_free(a, held_index);
        iso_free(a, bits);
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for the validation split of %llu samples",
                             (unsigned long long)d->count);
    }
    iso_permutation p;
    iso_permutation_init(&p, seed, ISO_PURPOSE_VALIDATION, 0, d->count);
    fill(&p, 0, d->count - held, bits, kept_index);
    fill(&p, d->count - held, d->count, bits, held_index);
    iso_free(a, bits);
    *training = (iso_view){d, d->count - held, kept_index, a};
    *validation = (iso_view){d, held, held_index, a};
    return ISO_OK;
}

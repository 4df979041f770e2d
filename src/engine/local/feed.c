/* SPDX-License-Identifier: Apache-2.0
 * Finding and loading the samples of a unit. */
#include "engine/local/feed.h"

#include "engine/run/model.h"

static size_t stride(const iso_feed *f)
{
    size_t bytes = iso_dataset_sample_bytes(f->view[ISO_FEED_TRAIN].set);
    return (bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
}

size_t iso_feeder_bytes(const iso_feed *f)
{
    return iso_augment_any(&f->augment) ? stride(f) * ISO_UNIT_MAX : 0;
}

void iso_feeder_init(iso_feeder *r, const iso_feed *f, void *memory)
{
    *r = (iso_feeder){.feed = f, .copy = iso_augment_any(&f->augment) ? memory : NULL, .copy_stride = stride(f)};
}

static uint64_t place(iso_feeder *r, iso_feed_part part, uint32_t epoch, uint64_t position)
{
    if (part != ISO_FEED_TRAIN)
        return position;
    if (!r->have_order || r->epoch != epoch) {
        iso_permutation_init(&r->order, r->feed->seed, ISO_PURPOSE_PERMUTATION, epoch, r->feed->view[part].count);
        r->epoch = epoch;
        r->have_order = true;
    }
    return iso_permutation_at(&r->order, position);
}

/* Finds n samples and their labels; augmented ones are made. */
static void find(iso_feeder *r, iso_feed_part part, uint32_t epoch, uint64_t first, uint32_t n, const void **sample)
{
    const iso_feed *f = r->feed;
    const iso_view *view = &f->view[part];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = place(r, part, epoch, first + i);
        sample[i] = iso_view_sample(view, at);
        r->label[i] = iso_view_label(view, at);
        if (part == ISO_FEED_TRAIN && r->copy) {
            unsigned char *out = r->copy + i * r->copy_stride;
            uint64_t index = view->index ? view->index[at] : at;
            iso_augment_sample(&f->augment, view->set->shape, view->set->dtype, f->seed, epoch, index, sample[i],
                               out);
            sample[i] = out;
        }
    }
}

void iso_feeder_load(iso_feeder *r, iso_feed_part part, uint32_t epoch, uint64_t first, uint32_t n, iso_pass *pass)
{
    const void *sample[ISO_UNIT_MAX];
    find(r, part, epoch, first, n, sample);
    iso_pass_load(pass, r->feed->view[part].set->dtype, n, sample, r->feed->scale, r->feed->shift);
}

void iso_feeder_load_narrow(iso_feeder *r, uint32_t epoch, uint64_t first, uint32_t n, iso_narrow *narrow)
{
    const void *sample[ISO_UNIT_MAX];
    find(r, ISO_FEED_TRAIN, epoch, first, n, sample);
    if (r->feed->view[ISO_FEED_TRAIN].set->dtype == ISO_U8)
        iso_narrow_load_u8(narrow, n, (const uint8_t *const *)sample, r->feed->scale, r->feed->shift);
    else
        iso_narrow_load_f32(narrow, n, (const float *const *)sample, r->feed->scale, r->feed->shift);
}

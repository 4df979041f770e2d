/* SPDX-License-Identifier: Apache-2.0
 * The data set: ownership, joining samples and labels, fingerprint, checks against a model. */
#include "data/dataset.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash64.h"
#include "base/size.h"

#define OWNED_MAX (sizeof((iso_dataset *)0)->owned / sizeof(void *))

void iso_bytes_release(iso_bytes *b)
{
    if (!b)
        return;
    if (b->release)
        b->release(b->context, b->bytes, b->size);
    *b = (iso_bytes){0};
}

const char *iso_dtype_name(iso_dtype dtype)
{
    return dtype == ISO_U8 ? "u8" : "f32";
}

size_t iso_dtype_bytes(iso_dtype dtype)
{
    return dtype == ISO_U8 ? 1 : 4;
}

void iso_dataset_free(iso_dataset *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < OWNED_MAX; i++)
        iso_free(d->alloc, d->owned[i]);
    for (int i = 0; i < 2; i++)
        iso_bytes_release(&d->borrowed[i]);
    *d = (iso_dataset){0};
}

void iso_dataset_own(iso_dataset *d, void *block)
{
    size_t i = 0;
    while (i < OWNED_MAX && d->owned[i])
        i++;
    ISO_ASSERT(i < OWNED_MAX);
    d->owned[i] = block;
}

const char *iso_dataset_text(iso_dataset *d, const char *format, ...)
{
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *copy = iso_strdup(d->alloc, text);
    if (copy)
        iso_dataset_own(d, copy);
    return copy;
}

size_t iso_dataset_sample_bytes(const iso_dataset *d)
{
    return (size_t)d->shape.c * d->shape.h * d->shape.w * iso_dtype_bytes(d->dtype);
}

const void *iso_dataset_sample(const iso_dataset *d, uint64_t i)
{
    ISO_ASSERT(i < d->count);
    return (const uint8_t *)d->values + (size_t)i * iso_dataset_sample_bytes(d);
}

int iso_dataset_set_labels(iso_dataset *d, const int32_t *labels, uint32_t classes, iso_error *e)
{
    uint32_t limit = d->class_names ? classes : ISO_CLASSES_MAX;
    for (uint64_t i = 0; i < d->count; i++) {
        if (labels[i] < 0 || (uint32_t)labels[i] >= limit)
            return iso_error_set(e, ISO_E_FORMAT, "label %d at item %llu: labels are 0 to %u", labels[i],
                                 (unsigned long long)i, limit - 1);
        if ((uint32_t)labels[i] >= classes)
            classes = (uint32_t)labels[i] + 1;
    }
    d->labels = labels;
    d->classes = classes;
    return ISO_OK;
}

/* Adds 4-byte values as little-endian words, so that every host gets the same number. */
static void hash_words(iso_hash64 *h, const void *values, size_t count)
{
    const uint8_t *p = values;
    uint8_t chunk[4096];
    while (count) {
        size_t part = count < sizeof chunk / 4 ? count : sizeof chunk / 4;
        for (size_t i = 0; i < part; i++) {
            uint32_t word;
            memcpy(&word, p + 4 * i, 4);
            iso_store_u32(chunk + 4 * i, word);
        }
        iso_hash64_add(h, chunk, 4 * part);
        p += 4 * part;
        count -= part;
    }
}

void iso_dataset_finish(iso_dataset *d)
{
    iso_hash64 h;
    uint8_t head[40];
    const uint64_t words[5] = {d->shape.c, d->shape.h, d->shape.w, d->values ? (uint64_t)d->dtype : 99, d->count};
    for (int i = 0; i < 5; i++)
        iso_store_u64(head + 8 * i, words[i]);
    iso_hash64_init(&h);
    iso_hash64_add(&h, head, sizeof head);
    size_t values = (size_t)d->count * d->shape.c * d->shape.h * d->shape.w;
    if (d->values && d->dtype == ISO_U8)
        iso_hash64_add(&h, d->values, values);
    else if (d->values)
        hash_words(&h, d->values, values);
    if (d->labels)
        hash_words(&h, d->labels, (size_t)d->count);
    d->fingerprint = iso_hash64_value(&h);
}

int iso_dataset_wrap(iso_dataset *out, iso_shape shape, iso_dtype dtype, uint64_t count, const void *values,
                     const int32_t *labels, uint32_t classes, const iso_alloc *a, iso_error *e)
{
    *out = (iso_dataset){0};
    uint64_t bytes = count;
    if (!values || !shape.c || !shape.h || !shape.w || !count || !iso_u64_mul(bytes, shape.c, &bytes) ||
        !iso_u64_mul(bytes, shape.h, &bytes) || !iso_u64_mul(bytes, shape.w, &bytes) ||
        !iso_u64_mul(bytes, iso_dtype_bytes(dtype), &bytes) || bytes > SIZE_MAX / 2)
        return iso_error_set(e, ISO_E_ARGUMENT,
                             "a data set needs at least one sample of at least one value (and fits in memory)");
    iso_dataset d = {.shape = shape, .count = count, .dtype = dtype, .values = values, .alloc = a};
    if (labels && iso_dataset_set_labels(&d, labels, classes, e))
        return e ? (e->code = ISO_E_ARGUMENT) : ISO_E_ARGUMENT;
    d.source = iso_dataset_text(&d, "memory: %llu x %u x %u x %u, %s", (unsigned long long)count, shape.c, shape.h,
                                shape.w, iso_dtype_name(dtype));
    if (!d.source)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory");
    iso_dataset_finish(&d);
    *out = d;
    return ISO_OK;
}

int iso_dataset_join(iso_dataset *samples, iso_dataset *labels, iso_error *e)
{
    if (!samples->values)
        return iso_error_set(e, ISO_E_FORMAT, "%s: these are labels, samples are wanted", samples->source);
    if (!labels->labels)
        return iso_error_set(e, ISO_E_FORMAT, "%s: there are no labels in it", labels->source);
    if (samples->count != labels->count)
        return iso_error_set(e, ISO_E_FORMAT, "%llu samples but %llu labels: %s; %s",
                             (unsigned long long)samples->count, (unsigned long long)labels->count, samples->source,
                             labels->source);
    samples->labels = labels->labels;
    samples->classes = labels->classes;
    samples->class_names = labels->class_names;
    if (!samples->warning)
        samples->warning = labels->warning;
    for (size_t i = 0; i < OWNED_MAX; i++) {
        if (!labels->owned[i])
            continue;
        if (labels->owned[i] == (const void *)labels->source)
            iso_free(labels->alloc, labels->owned[i]);
        else
            iso_dataset_own(samples, labels->owned[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (labels->borrowed[i].bytes) {
            ISO_ASSERT(!samples->borrowed[1].bytes);
            samples->borrowed[1] = labels->borrowed[i];
        }
    }
    *labels = (iso_dataset){0};
    iso_dataset_finish(samples);
    return ISO_OK;
}

int iso_dataset_check_labels(const iso_dataset *d, uint32_t classes, iso_error *e)
{
    if (!d->labels)
        return iso_error_set(e, ISO_E_FORMAT, "%s: there are no labels in it", d->source);
    for (uint64_t i = 0; i < d->count; i++)
        if ((uint32_t)d->labels[i] >= classes)
            return iso_error_set(e, ISO_E_FORMAT, "%s: label %d at item %llu, the model has %u classes", d->source,
                                 d->labels[i], (unsigned long long)i, classes);
    return ISO_OK;
}

int iso_dataset_check_shape(const iso_dataset *d, iso_shape shape, iso_error *e)
{
    if (d->values && d->shape.c == shape.c && d->shape.h == shape.h && d->shape.w == shape.w)
        return ISO_OK;
    if (!d->values)
        return iso_error_set(e, ISO_E_SHAPE, "%s: these are labels, samples of %u x %u x %u are wanted", d->source,
                             shape.c, shape.h, shape.w);
    return iso_error_set(e, ISO_E_SHAPE, "%s: samples of %u x %u x %u (channels, height, width), wanted %u x %u x %u",
                         d->source, d->shape.c, d->shape.h, d->shape.w, shape.c, shape.h, shape.w);
}

const char *iso_dataset_class_name(const iso_dataset *d, uint32_t k, char out[16])
{
    if (d->class_names && k < d->classes)
        return d->class_names[k];
    snprintf(out, 16, "%u", k);
    return out;
}

/* SPDX-License-Identifier: Apache-2.0
 * Writing safetensors: the header is built first (so the size is known), then everything streams to the sink. Order and
 * padding are fixed, so the same tensors give the same bytes. */
#include <string.h>

#include "base/buffer.h"
#include "base/size.h"
#include "base/text.h"
#include "format/tensor_type.h"

#define CHUNK_BYTES 65536u

/* Sorted copies of what the caller gave. */
typedef struct plan {
    const void **tensor;   /* [count] of iso_tensor_out: wide types first, then by name */
    const void **metadata; /* [metadata_count] of iso_metadata, by key */
    uint32_t count, metadata_count;
    uint64_t data_bytes;
    iso_buffer header; /* the length and the JSON, padded */
} plan;

static const iso_tensor_out *tensor_at(const plan *p, uint32_t i)
{
    return p->tensor[i];
}

static const iso_metadata *metadata_at(const plan *p, uint32_t i)
{
    return p->metadata[i];
}

/* Does a stand before b? */
typedef bool (*before)(const void *a, const void *b);

static bool names_in_order(const void *a, const void *b)
{
    return strcmp(((const iso_tensor_out *)a)->name, ((const iso_tensor_out *)b)->name) < 0;
}

static bool tensors_in_order(const void *a, const void *b)
{
    size_t x = iso_tensor_type_bytes(((const iso_tensor_out *)a)->type),
           y = iso_tensor_type_bytes(((const iso_tensor_out *)b)->type);
    return x != y ? x > y : names_in_order(a, b);
}

static bool keys_in_order(const void *a, const void *b)
{
    return strcmp(((const iso_metadata *)a)->key, ((const iso_metadata *)b)->key) < 0;
}

/* Heap sort: no recursion, no memory. */
static void sift(const void **item, size_t root, size_t count, before in_order)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && in_order(item[child], item[child + 1]))
            child++;
        if (!in_order(item[root], item[child]))
            return;
        const void *kept = item[root];
        item[root] = item[child];
        item[child] = kept;
    }
}

static void sort(const void **item, size_t count, before in_order)
{
    for (size_t i = count / 2; i-- > 0;)
        sift(item, i, count, in_order);
    for (size_t end = count; end > 1; end--) {
        const void *last = item[end - 1];
        item[end - 1] = item[0];
        item[0] = last;
        sift(item, 0, end - 1, in_order);
    }
}

static bool good_text(const char *text)
{
    return text && iso_is_utf8(text, strlen(text));
}

/* Names and keys: UTF-8, none twice. Leaves p->tensor sorted by name. */
static int check_names(plan *p, iso_error *e)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const iso_tensor_out *t = p->tensor[i];
        if (!good_text(t->name) || strcmp(t->name, "__metadata__") == 0)
            return iso_error_set(e, ISO_E_ARGUMENT,
                                 "tensor %u has a name that cannot be written (UTF-8, not __metadata__)", i);
        if (t->rank > ISO_TENSOR_RANK_MAX)
            return iso_error_set(e, ISO_E_ARGUMENT, "tensor \"%.100s\" has %u dimensions, at most %u", t->name, t->rank,
                                 ISO_TENSOR_RANK_MAX);
    }
    for (uint32_t i = 0; i < p->metadata_count; i++)
        if (!good_text(metadata_at(p, i)->key) || !good_text(metadata_at(p, i)->value))
            return iso_error_set(e, ISO_E_ARGUMENT, "metadata %u is not UTF-8 text", i);
    sort(p->tensor, p->count, names_in_order);
    sort(p->metadata, p->metadata_count, keys_in_order);
    for (uint32_t i = 1; i < p->count; i++)
        if (strcmp(tensor_at(p, i - 1)->name, tensor_at(p, i)->name) == 0)
            return iso_error_set(e, ISO_E_ARGUMENT, "two tensors are called \"%.100s\"", tensor_at(p, i)->name);
    for (uint32_t i = 1; i < p->metadata_count; i++)
        if (strcmp(metadata_at(p, i - 1)->key, metadata_at(p, i)->key) == 0)
            return iso_error_set(e, ISO_E_ARGUMENT, "metadata has the key \"%.100s\" twice", metadata_at(p, i)->key);
    return ISO_OK;
}

static bool tensor_bytes(const iso_tensor_out *t, uint64_t *out)
{
    *out = iso_tensor_type_bytes(t->type);
    for (uint32_t i = 0; i < t->rank; i++)
        if (!iso_u64_mul(*out, t->dim[i], out))
            return false;
    return *out <= SIZE_MAX;
}

/* One entry of the JSON; *at is the offset of its data, moved behind it. */
static int put_entry(iso_buffer *b, const iso_tensor_out *t, uint64_t *at, iso_error *e)
{
    uint64_t bytes, end;
    if (!tensor_bytes(t, &bytes) || !iso_u64_add(*at, bytes, &end) || end > INT64_MAX)
        return iso_error_set(e, ISO_E_ARGUMENT, "tensor \"%.100s\" is too large", t->name);
    iso_buffer_json(b, t->name);
    iso_buffer_format(b, ":{\"dtype\":\"%s\",\"shape\":[", iso_tensor_type_name(t->type));
    for (uint32_t i = 0; i < t->rank; i++)
        iso_buffer_format(b, i ? ",%llu" : "%llu", (unsigned long long)t->dim[i]);
    iso_buffer_format(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*at, (unsigned long long)end);
    *at = end;
    return ISO_OK;
}

static int build_header(plan *p, iso_error *e)
{
    iso_buffer *b = &p->header;
    iso_buffer_put(b, "\0\0\0\0\0\0\0\0{", 9);
    if (p->metadata_count) {
        iso_buffer_text(b, "\"__metadata__\":{");
        for (uint32_t i = 0; i < p->metadata_count; i++) {
            if (i)
                iso_buffer_text(b, ",");
            iso_buffer_json(b, metadata_at(p, i)->key);
            iso_buffer_text(b, ":");
            iso_buffer_json(b, metadata_at(p, i)->value);
        }
        iso_buffer_text(b, "}");
    }
    for (uint32_t i = 0; i < p->count; i++) {
        if (i || p->metadata_count)
            iso_buffer_text(b, ",");
        int status = put_entry(b, tensor_at(p, i), &p->data_bytes, e);
        if (status != ISO_OK)
            return status;
    }
    iso_buffer_text(b, "}");
    while (!b->failed && b->size % 8)
        iso_buffer_text(b, " ");
    if (b->failed)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for the header of %u tensors", p->count);
    uint64_t length = b->size - 8;
    if (length > ISO_TENSOR_HEADER_MAX)
        return iso_error_set(e, ISO_E_ARGUMENT, "names and metadata take %llu bytes; at most %u are allowed",
                             (unsigned long long)length, ISO_TENSOR_HEADER_MAX);
    for (int i = 0; i < 8; i++)
        b->bytes[i] = (uint8_t)(length >> (8 * i));
    return ISO_OK;
}

/* The tensor's bytes to the sink, by chunks, so that a host of the other byte order needs no second copy of the whole.
 */
static int send_tensor(const iso_tensor_out *t, iso_sink sink, void *context, iso_error *e)
{
    uint64_t left = 0;
    if (!tensor_bytes(t, &left))
        return iso_error_set(e, ISO_E_ARGUMENT, "tensor \"%.100s\" is too large", t->name);
    const uint8_t *from = t->data;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return left ? sink(context, from, (size_t)left, e) : ISO_OK;
#else
    uint8_t chunk[CHUNK_BYTES];
    int status = ISO_OK;
    while (left && status == ISO_OK) {
        size_t part = left < sizeof chunk ? (size_t)left : sizeof chunk;
        iso_tensor_swap(chunk, from, part, iso_tensor_type_bytes(t->type));
        status = sink(context, chunk, part, e);
        from += part;
        left -= part;
    }
    return status;
#endif
}

static int write_plan(plan *p, iso_sink sink, void *context, uint64_t *size, iso_error *e)
{
    int status = check_names(p, e);
    if (status != ISO_OK)
        return status;
    sort(p->tensor, p->count, tensors_in_order);
    status = build_header(p, e);
    if (status == ISO_OK && size)
        *size = p->header.size + p->data_bytes;
    if (status != ISO_OK || !sink)
        return status;
    status = sink(context, p->header.bytes, p->header.size, e);
    for (uint32_t i = 0; i < p->count && status == ISO_OK; i++)
        status = send_tensor(tensor_at(p, i), sink, context, e);
    return status;
}

int iso_tensors_write(const iso_tensor_out *tensors, uint32_t count, const iso_metadata *metadata,
                      uint32_t metadata_count, iso_sink sink, void *context, const iso_alloc *a, uint64_t *size,
                      iso_error *e)
{
    plan p = {.count = count, .metadata_count = metadata_count};
    iso_buffer_init(&p.header, a, 0);
    p.tensor = iso_new_raw(a, count, sizeof *p.tensor);
    p.metadata = iso_new_raw(a, metadata_count, sizeof *p.metadata);
    int status;
    if (!p.tensor || !p.metadata) {
        status = iso_error_set(e, ISO_E_NOMEM, "out of memory for %u tensors", count);
    } else {
        for (uint32_t i = 0; i < count; i++)
            p.tensor[i] = &tensors[i];
        for (uint32_t i = 0; i < metadata_count; i++)
            p.metadata[i] = &metadata[i];
        status = write_plan(&p, sink, context, size, e);
    }
    iso_buffer_fini(&p.header);
    iso_free(a, p.metadata);
    iso_free(a, p.tensor);
    return status;
}

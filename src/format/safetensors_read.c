/* SPDX-License-Identifier: Apache-2.0
 * Reading safetensors. The header is parsed by jansson (a key twice is refused), then every number of it is held against the size of
 * the file before it is used. Names and metadata stay in the JSON tree, which lives as long as the object. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "format/tensor_type.h"

struct iso_tensors {
    json_t *root;
    json_t *metadata;      /* part of root, or NULL */
    iso_tensor_view *view; /* [count], in the order of their bytes */
    uint32_t count;
    const iso_alloc *alloc;
};

#define MAGIC_BYTES 8u

/* Why jansson refused the header. */
static int json_failed(const json_error_t *j, iso_error *e)
{
    enum json_error_code code = json_error_code(j);
    if (code == json_error_out_of_memory || j->text[0] == '\0')
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for the header");
    if (code == json_error_duplicate_key)
        return iso_error_set(e, ISO_E_FORMAT, "a key is there twice: %s (byte %u)", j->text, MAGIC_BYTES + (unsigned)j->position);
    return iso_error_set(e, ISO_E_FORMAT, "the header is not JSON: %s (byte %u)", j->text, MAGIC_BYTES + (unsigned)j->position);
}

/* Parses the JSON header; *header is its length. */
static int parse_header(const uint8_t *bytes, size_t size, json_t **root, size_t *header, iso_error *e)
{
    if (size < MAGIC_BYTES)
        return iso_error_set(e, ISO_E_FORMAT, "too small for safetensors: 8 bytes of header length wanted, %zu there", size);
    uint64_t length = iso_load_u64(bytes);
    if (length > size - MAGIC_BYTES)
        return iso_error_set(e, ISO_E_FORMAT,
                             "no safetensors file, or cut: a header of %llu bytes wanted (byte 0), %zu there behind byte 8",
                             (unsigned long long)length, size - MAGIC_BYTES);
    if (length > ISO_TENSOR_HEADER_MAX)
        return iso_error_set(e, ISO_E_FORMAT, "a header of %llu bytes; at most %u are allowed", (unsigned long long)length,
                             ISO_TENSOR_HEADER_MAX);
    if (length == 0 || bytes[MAGIC_BYTES] != '{')
        return iso_error_set(e, ISO_E_FORMAT, "no safetensors file: the header at byte 8 does not begin with {");
    json_error_t error = {.text = ""};
    *header = (size_t)length;
    *root = json_loadb((const char *)bytes + MAGIC_BYTES, *header, JSON_REJECT_DUPLICATES, &error);
    return *root ? ISO_OK : json_failed(&error, e);
}

static int check_metadata(const json_t *metadata, iso_error *e)
{
    if (!json_is_object(metadata))
        return iso_error_set(e, ISO_E_FORMAT, "__metadata__ is not an object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value))
            return iso_error_set(e, ISO_E_FORMAT, "__metadata__: the value of \"%.100s\" is not a string; metadata values are strings", key);
    }
    return ISO_OK;
}

/* A JSON number as a size; false for anything else. */
static bool to_u64(const json_t *j, uint64_t *out)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return false;
    *out = (uint64_t)json_integer_value(j);
    return true;
}

static int read_shape(const json_t *shape, iso_tensor_view *v, iso_error *e)
{
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": no shape", v->name);
    if (rank > ISO_TENSOR_RANK_MAX)
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": %zu dimensions; at most %u can be read", v->name, rank,
                             ISO_TENSOR_RANK_MAX);
    v->rank = (uint32_t)rank;
    v->count = 1;
    for (size_t i = 0; i < rank; i++) {
        if (!to_u64(json_array_get(shape, i), &v->dim[i]))
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": dimension %zu is not a whole number", v->name, i);
        if (!iso_u64_mul(v->count, v->dim[i], &v->count))
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": the shape is larger than any file", v->name);
    }
    return ISO_OK;
}

/* One entry of the header against `room` bytes of data at `data`. */
static int read_entry(const json_t *entry, const uint8_t *data, size_t room, size_t data_offset, iso_tensor_view *v, iso_error *e)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end, bytes;
    if (!type || !iso_tensor_type_find(type, &v->type))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": %s%.20s", v->name, type ? "unknown dtype " : "no dtype", type ? type : "");
    int status = read_shape(json_object_get(entry, "shape"), v, e);
    if (status != ISO_OK)
        return status;
    if (json_array_size(offsets) != 2 || !to_u64(json_array_get(offsets, 0), &begin) || !to_u64(json_array_get(offsets, 1), &end) ||
        begin > end)
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": data_offsets are not [begin, end]", v->name);
    if (!iso_u64_mul(v->count, iso_tensor_type_bytes(v->type), &bytes))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": the shape is larger than any file", v->name);
    if (bytes != end - begin)
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": %llu bytes by its shape, %llu by its offsets", v->name,
                             (unsigned long long)bytes, (unsigned long long)(end - begin));
    if (end > room)
        return iso_error_set(e, ISO_E_FORMAT, "the data ends early: tensor \"%.100s\" wants bytes up to %llu, %zu there (from byte %zu)",
                             v->name, (unsigned long long)end, room, data_offset);
    v->data = data + begin;
    v->bytes = (size_t)bytes;
    v->offset = data_offset + (size_t)begin;
    return ISO_OK;
}

static int by_offset(const void *a, const void *b)
{
    const iso_tensor_view *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) /* an empty tensor stands before the one that begins where it lies */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The tensors must cover the data exactly once. */
static int check_layout(const iso_tensors *t, size_t data_offset, size_t size, iso_error *e)
{
    size_t at = data_offset;
    for (uint32_t i = 0; i < t->count; i++) {
        const iso_tensor_view *v = &t->view[i];
        if (v->offset != at)
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\" begins at byte %zu, wanted %zu: tensors %s", v->name, v->offset, at,
                                 v->offset < at ? "overlap" : "leave a hole");
        at += v->bytes;
    }
    if (at != size)
        return iso_error_set(e, ISO_E_FORMAT, "%zu byte%s left over at byte %zu, behind the last tensor", size - at,
                             size - at == 1 ? "" : "s", at);
    return ISO_OK;
}

static int read_tensors(iso_tensors *t, const uint8_t *bytes, size_t size, iso_error *e)
{
    size_t header = 0;
    int status = parse_header(bytes, size, &t->root, &header, e);
    if (status != ISO_OK)
        return status;
    t->metadata = json_object_get(t->root, "__metadata__");
    if (t->metadata && (status = check_metadata(t->metadata, e)) != ISO_OK)
        return status;
    t->view = iso_new(t->alloc, json_object_size(t->root) + 1, sizeof *t->view);
    if (!t->view)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for %zu tensors", json_object_size(t->root));
    size_t data_offset = MAGIC_BYTES + header;
    const char *key;
    json_t *entry;
    json_object_foreach(t->root, key, entry) {
        if (entry == t->metadata)
            continue;
        t->view[t->count].name = key;
        status = read_entry(entry, bytes + data_offset, size - data_offset, data_offset, &t->view[t->count], e);
        if (status != ISO_OK)
            return status;
        t->count++;
    }
    qsort(t->view, t->count, sizeof *t->view, by_offset);
    return check_layout(t, data_offset, size, e);
}

int iso_tensors_read(iso_tensors **out, const void *bytes, size_t size, const char *name, const iso_alloc *a, iso_error *e)
{
    *out = NULL;
    int status = ISO_E_NOMEM;
    iso_tensors *t = iso_new(a, 1, sizeof *t);
    if (!t) {
        iso_error_set(e, ISO_E_NOMEM, "out of memory");
    } else {
        t->alloc = a;
        status = read_tensors(t, bytes, size, e);
    }
    if (status != ISO_OK) {
        iso_tensors_free(t);
        iso_error_prefix(e, "%s: ", name);
        return status;
    }
    *out = t;
    return ISO_OK;
}

void iso_tensors_free(iso_tensors *t)
{
    if (!t)
        return;
    json_decref(t->root);
    iso_free(t->alloc, t->view);
    iso_free(t->alloc, t);
}

uint32_t iso_tensors_count(const iso_tensors *t)
{
    return t->count;
}

const iso_tensor_view *iso_tensors_at(const iso_tensors *t, uint32_t index)
{
    return index < t->count ? &t->view[index] : NULL;
}

const iso_tensor_view *iso_tensors_find(const iso_tensors *t, const char *name)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->view[i].name, name) == 0)
            return &t->view[i];
    return NULL;
}

uint32_t iso_tensors_metadata_count(const iso_tensors *t)
{
    return (uint32_t)json_object_size(t->metadata);
}

void iso_tensors_metadata_at(const iso_tensors *t, uint32_t index, const char **key, const char **value)
{
    void *at = json_object_iter(t->metadata);
    while (at && index--)
        at = json_object_iter_next(t->metadata, at);
    *key = at ? json_object_iter_key(at) : NULL;
    *value = at ? json_string_value(json_object_iter_value(at)) : NULL;
}

const char *iso_tensors_metadata(const iso_tensors *t, const char *key)
{
    return json_string_value(json_object_get(t->metadata, key));
}

void iso_tensor_copy(const iso_tensor_view *v, void *out)
{
    iso_tensor_swap(out, v->data, v->bytes, iso_tensor_type_bytes(v->type));
}

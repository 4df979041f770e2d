/* SPDX-License-Identifier: Apache-2.0
 * Reading safetensors. The header is parsed once from front to end; every number of it is held against the size of the
 * file before it is used. While parsing, names are offsets into the buffer of texts, which moves as it grows; they
 * become pointers at the end. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "format/json_header.h"
#include "format/tensor_type.h"

#define MAGIC_BYTES 8u

/* Offsets into texts. */
typedef struct pair {
    size_t key, value;
} pair;

struct iso_tensors {
    iso_buffer texts; /* names and metadata, each with its NUL */
    iso_buffer views; /* iso_tensor_view[count], in the order of their bytes */
    iso_buffer names; /* size_t[count] while parsing: where each view's name lies in texts */
    iso_buffer pairs; /* pair[metadata_count] */
    iso_tensor_view *view;
    uint32_t count, metadata_count;
    const iso_alloc *alloc;
};

/* The file while its header is parsed. */
typedef struct source {
    iso_json json;
    const uint8_t *data;
    size_t data_offset, room; /* of the data in the file; its bytes */
} source;

static const char *text_at(const iso_tensors *t, size_t offset)
{
    return (const char *)t->texts.bytes + offset;
}

static int no_memory(iso_error *e)
{
    return iso_error_set(e, ISO_E_NOMEM, "out of memory for the header");
}

/* Finds the header and the data behind it. */
static int open_source(iso_tensors *t, const uint8_t *bytes, size_t size, source *s, iso_error *e)
{
    if (size < MAGIC_BYTES)
        return iso_error_set(e, ISO_E_FORMAT, "too small for safetensors: 8 bytes of header length wanted, %zu there",
                             size);
    uint64_t length = iso_load_u64(bytes);
    if (length > size - MAGIC_BYTES)
        return iso_error_set(
            e, ISO_E_FORMAT,
            "no safetensors file, or cut: a header of %llu bytes wanted (byte 0), %zu there behind byte 8",
            (unsigned long long)length, size - MAGIC_BYTES);
    if (length > ISO_TENSOR_HEADER_MAX)
        return iso_error_set(e, ISO_E_FORMAT, "a header of %llu bytes; at most %u are allowed",
                             (unsigned long long)length, ISO_TENSOR_HEADER_MAX);
    if (length == 0 || bytes[MAGIC_BYTES] != '{')
        return iso_error_set(e, ISO_E_FORMAT, "no safetensors file: the header at byte 8 does not begin with {");
    iso_json_begin(&s->json, bytes + MAGIC_BYTES, (size_t)length, MAGIC_BYTES, &t->texts);
    s->data_offset = MAGIC_BYTES + (size_t)length;
    s->data = bytes + s->data_offset;
    s->room = size - s->data_offset;
    return ISO_OK;
}

/* The key of a member and its colon. */
static int read_key(iso_json *j, size_t *key, iso_error *e)
{
    int status = iso_json_string(j, key, e);
    if (status == ISO_OK && !iso_json_take(j, ':'))
        status = iso_json_error(j, "a colon", e);
    return status;
}

static int read_metadata(iso_tensors *t, iso_json *j, iso_error *e)
{
    if (!iso_json_take(j, '{'))
        return iso_error_set(e, ISO_E_FORMAT, "__metadata__ is not an object");
    if (iso_json_take(j, '}'))
        return ISO_OK;
    do {
        pair p = {0, 0};
        int status = read_key(j, &p.key, e);
        if (status != ISO_OK)
            return status;
        if (iso_json_peek(j) != '"')
            return iso_error_set(e, ISO_E_FORMAT,
                                 "__metadata__: the value of \"%.100s\" is not a string; metadata values are strings",
                                 text_at(t, p.key));
        status = iso_json_string(j, &p.value, e);
        if (status != ISO_OK)
            return status;
        if (!iso_buffer_put(&t->pairs, &p, sizeof p))
            return no_memory(e);
    } while (iso_json_take(j, ','));
    return iso_json_take(j, '}') ? ISO_OK : iso_json_error(j, "a comma or }", e);
}

static int read_shape(iso_json *j, const char *name, iso_tensor_view *v, iso_error *e)
{
    if (!iso_json_take(j, '['))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": the shape is not a list", name);
    v->rank = 0;
    v->count = 1;
    if (iso_json_take(j, ']'))
        return ISO_OK;
    do {
        uint64_t dim;
        if (!iso_json_whole(j, &dim))
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": dimension %u is not a whole number that fits",
                                 name, v->rank);
        if (v->rank == ISO_TENSOR_RANK_MAX)
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": more than %u dimensions", name,
                                 ISO_TENSOR_RANK_MAX);
        v->dim[v->rank++] = dim;
        if (!iso_u64_mul(v->count, dim, &v->count))
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": the shape is larger than any file", name);
    } while (iso_json_take(j, ','));
    return iso_json_take(j, ']') ? ISO_OK : iso_json_error(j, "a comma or ]", e);
}

/* [begin, end] */
static bool read_offsets(iso_json *j, uint64_t offset[2])
{
    return iso_json_take(j, '[') && iso_json_whole(j, &offset[0]) && iso_json_take(j, ',') &&
           iso_json_whole(j, &offset[1]) && iso_json_take(j, ']') && offset[0] <= offset[1];
}

static int read_type(iso_tensors *t, iso_json *j, const char *name, iso_tensor_type *type, iso_error *e)
{
    char kept[104]; /* the text below may move the buffer that name lies in */
    size_t mark = t->texts.size, text = 0;
    strncpy(kept, name, sizeof kept - 1);
    kept[sizeof kept - 1] = '\0';
    int status = iso_json_string(j, &text, e);
    if (status != ISO_OK)
        return status;
    if (!iso_tensor_type_find(text_at(t, text), type))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": unknown dtype %.20s", kept, text_at(t, text));
    t->texts.size = mark;
    return ISO_OK;
}

/* The three members of an entry in any order; what else is there is passed over. */
static int read_members(iso_tensors *t, iso_json *j, size_t name, iso_tensor_view *v, uint64_t offset[2], iso_error *e)
{
    static const char *const wanted[3] = {"dtype", "shape", "data_offsets"};
    bool seen[3] = {false, false, false};
    if (!iso_json_take(j, '{'))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\" is not an object", text_at(t, name));
    if (!iso_json_take(j, '}')) {
        do {
            size_t mark = t->texts.size, key = 0;
            int status = read_key(j, &key, e);
            if (status != ISO_OK)
                return status;
            int which = 0;
            while (which < 3 && strcmp(text_at(t, key), wanted[which]) != 0)
                which++;
            t->texts.size = mark;
            if (which < 3 && seen[which])
                return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": the key %s is there twice", text_at(t, name),
                                     wanted[which]);
            if (which == 0)
                status = read_type(t, j, text_at(t, name), &v->type, e);
            else if (which == 1)
                status = read_shape(j, text_at(t, name), v, e);
            else if (which == 2 && !read_offsets(j, offset))
                status = iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": data_offsets are not [begin, end]",
                                       text_at(t, name));
            else if (which == 3)
                status = iso_json_skip(j, e);
            if (status != ISO_OK)
                return status;
            if (which < 3)
                seen[which] = true;
        } while (iso_json_take(j, ','));
        if (!iso_json_take(j, '}'))
            return iso_json_error(j, "a comma or }", e);
    }
    for (int i = 0; i < 3; i++)
        if (!seen[i])
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": no %s", text_at(t, name), wanted[i]);
    return ISO_OK;
}

/* One tensor, held against the data that is there. */
static int read_entry(iso_tensors *t, source *s, size_t name, iso_error *e)
{
    iso_tensor_view v = {0};
    uint64_t offset[2] = {0, 0}, bytes;
    int status = read_members(t, &s->json, name, &v, offset, e);
    if (status != ISO_OK)
        return status;
    if (!iso_u64_mul(v.count, iso_tensor_type_bytes(v.type), &bytes))
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": the shape is larger than any file", text_at(t, name));
    if (bytes != offset[1] - offset[0])
        return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\": %llu bytes by its shape, %llu by its offsets",
                             text_at(t, name), (unsigned long long)bytes, (unsigned long long)(offset[1] - offset[0]));
    if (offset[1] > s->room)
        return iso_error_set(e, ISO_E_FORMAT,
                             "the data ends early: tensor \"%.100s\" wants bytes up to %llu, %zu there (from byte %zu)",
                             text_at(t, name), (unsigned long long)offset[1], s->room, s->data_offset);
    v.data = s->data + offset[0];
    v.bytes = (size_t)bytes;
    v.offset = s->data_offset + (size_t)offset[0];
    if (!iso_buffer_put(&t->views, &v, sizeof v) || !iso_buffer_put(&t->names, &name, sizeof name))
        return no_memory(e);
    return ISO_OK;
}

static int read_header(iso_tensors *t, source *s, iso_error *e)
{
    iso_json *j = &s->json;
    bool metadata = false;
    iso_json_take(j, '{');
    if (!iso_json_take(j, '}')) {
        do {
            size_t key = 0;
            int status = read_key(j, &key, e);
            if (status != ISO_OK)
                return status;
            bool is_metadata = strcmp(text_at(t, key), "__metadata__") == 0;
            if (is_metadata && metadata)
                return iso_error_set(e, ISO_E_FORMAT, "the key __metadata__ is there twice");
            metadata |= is_metadata;
            status = is_metadata ? read_metadata(t, j, e) : read_entry(t, s, key, e);
            if (status != ISO_OK)
                return status;
        } while (iso_json_take(j, ','));
        if (!iso_json_take(j, '}'))
            return iso_json_error(j, "a comma or }", e);
    }
    return iso_json_peek(j) == -1 ? ISO_OK : iso_json_error(j, "nothing more", e);
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
            return iso_error_set(e, ISO_E_FORMAT, "tensor \"%.100s\" begins at byte %zu, wanted %zu: tensors %s",
                                 v->name, v->offset, at, v->offset < at ? "overlap" : "leave a hole");
        at += v->bytes;
    }
    if (at != size)
        return iso_error_set(e, ISO_E_FORMAT, "%zu byte%s left over at byte %zu, behind the last tensor", size - at,
                             size - at == 1 ? "" : "s", at);
    return ISO_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No name twice: by a sorted list of `count` pointers that `item(t, i)` gives. */
static int check_twice(const iso_tensors *t, uint32_t count, const char *(*item)(const iso_tensors *t, uint32_t i),
                       iso_error *e)
{
    const char **sorted = iso_new_raw(t->alloc, count, sizeof *sorted);
    if (!sorted)
        return no_memory(e);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = item(t, i);
    qsort(sorted, count, sizeof *sorted, by_name);
    int status = ISO_OK;
    for (uint32_t i = 1; i < count && status == ISO_OK; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = iso_error_set(e, ISO_E_FORMAT, "the key \"%.100s\" is there twice", sorted[i]);
    iso_free(t->alloc, sorted);
    return status;
}

static const char *tensor_name(const iso_tensors *t, uint32_t i)
{
    return t->view[i].name;
}

static const char *metadata_key(const iso_tensors *t, uint32_t i)
{
    const char *key, *value;
    iso_tensors_metadata_at(t, i, &key, &value);
    return key;
}

static int read_tensors(iso_tensors *t, const uint8_t *bytes, size_t size, iso_error *e)
{
    source s;
    int status = open_source(t, bytes, size, &s, e);
    if (status == ISO_OK)
        status = read_header(t, &s, e);
    if (status != ISO_OK)
        return status;
    t->count = (uint32_t)(t->views.size / sizeof *t->view);
    t->metadata_count = (uint32_t)(t->pairs.size / sizeof(pair));
    t->view = (iso_tensor_view *)(void *)t->views.bytes;
    for (uint32_t i = 0; i < t->count; i++)
        t->view[i].name = text_at(t, ((const size_t *)(const void *)t->names.bytes)[i]);
    iso_buffer_fini(&t->names);
    status = check_twice(t, t->count, tensor_name, e);
    if (status == ISO_OK)
        status = check_twice(t, t->metadata_count, metadata_key, e);
    if (status != ISO_OK)
        return status;
    if (t->count)
        qsort(t->view, t->count, sizeof *t->view, by_offset);
    return check_layout(t, s.data_offset, size, e);
}

int iso_tensors_read(iso_tensors **out, const void *bytes, size_t size, const char *name, const iso_alloc *a,
                     iso_error *e)
{
    *out = NULL;
    int status = ISO_E_NOMEM;
    iso_tensors *t = iso_new(a, 1, sizeof *t);
    if (!t) {
        no_memory(e);
    } else {
        t->alloc = a;
        iso_buffer_init(&t->texts, a, 0);
        iso_buffer_init(&t->views, a, 0);
        iso_buffer_init(&t->names, a, 0);
        iso_buffer_init(&t->pairs, a, 0);
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
    iso_buffer_fini(&t->pairs);
    iso_buffer_fini(&t->names);
    iso_buffer_fini(&t->views);
    iso_buffer_fini(&t->texts);
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
    return t->metadata_count;
}

void iso_tensors_metadata_at(const iso_tensors *t, uint32_t index, const char **key, const char **value)
{
    *key = *value = NULL;
    if (index >= t->metadata_count)
        return;
    const pair *p = (const pair *)(const void *)t->pairs.bytes + index;
    *key = text_at(t, p->key);
    *value = text_at(t, p->value);
}

const char *iso_tensors_metadata(const iso_tensors *t, const char *key)
{
    for (uint32_t i = 0; i < t->metadata_count; i++) {
        const char *k, *value;
        iso_tensors_metadata_at(t, i, &k, &value);
        if (strcmp(k, key) == 0)
            return value;
    }
    return NULL;
}

void iso_tensor_copy(const iso_tensor_view *v, void *out)
{
    iso_tensor_swap(out, v->data, v->bytes, iso_tensor_type_bytes(v->type));
}

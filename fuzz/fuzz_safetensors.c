/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: the bytes as a safetensors file. What loads is written again and must read back as the same tensors and
 * metadata; an allocation that fails must end in E_NOMEM or change nothing. */
#include <string.h>

#include "base/buffer.h"
#include "check.h"
#include "isochron/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int keep(void *context, const void *bytes, size_t size, iso_error *e)
{
    return iso_buffer_put(context, bytes, size) ? ISO_OK : iso_error_set(e, ISO_E_NOMEM, "out of memory");
}

static void expect_same(const iso_tensors *a, const iso_tensors *b)
{
    FUZZ_CHECK(iso_tensors_count(a) == iso_tensors_count(b));
    FUZZ_CHECK(iso_tensors_metadata_count(a) == iso_tensors_metadata_count(b));
    for (uint32_t i = 0; i < iso_tensors_count(a); i++) {
        const iso_tensor_view *v = iso_tensors_at(a, i), *w = iso_tensors_find(b, v->name);
        FUZZ_CHECK(w && v->type == w->type && v->rank == w->rank && v->bytes == w->bytes);
        FUZZ_CHECK(memcmp(v->dim, w->dim, v->rank * sizeof *v->dim) == 0);
        FUZZ_CHECK(v->bytes == 0 || memcmp(v->data, w->data, v->bytes) == 0);
    }
    for (uint32_t i = 0; i < iso_tensors_metadata_count(a); i++) {
        const char *key, *value;
        iso_tensors_metadata_at(a, i, &key, &value);
        FUZZ_CHECK(strcmp(iso_tensors_metadata(b, key), value) == 0);
    }
}

static void write_and_compare(const iso_tensors *t)
{
    uint32_t count = iso_tensors_count(t), metadata_count = iso_tensors_metadata_count(t);
    iso_tensor_out *out = iso_new(NULL, count, sizeof *out);
    iso_metadata *metadata = iso_new(NULL, metadata_count, sizeof *metadata);
    iso_buffer file;
    iso_error e;
    iso_tensors *again = NULL;
    FUZZ_CHECK(out && metadata);
    for (uint32_t i = 0; i < count; i++) {
        const iso_tensor_view *v = iso_tensors_at(t, i);
        out[i] = (iso_tensor_out){.name = v->name, .type = v->type, .rank = v->rank, .data = v->data};
        memcpy(out[i].dim, v->dim, sizeof v->dim);
    }
    for (uint32_t i = 0; i < metadata_count; i++)
        iso_tensors_metadata_at(t, i, &metadata[i].key, &metadata[i].value);
    iso_buffer_init(&file, NULL, 0);
    FUZZ_CHECK(iso_tensors_write(out, count, metadata, metadata_count, keep, &file, NULL, NULL, &e) == ISO_OK);
    FUZZ_CHECK(iso_tensors_read(&again, file.bytes, file.size, "again", NULL, &e) == ISO_OK);
    expect_same(t, again);
    FUZZ_CHECK(iso_tensors_check(again, out, count, NULL, &e) == ISO_OK);
    iso_tensors_free(again);
    iso_buffer_fini(&file);
    iso_free(NULL, metadata);
    iso_free(NULL, out);
}

static int read_once(const uint8_t *data, size_t size, size_t fail_at)
{
    fuzz_heap heap;
    fuzz_heap_init(&heap, fail_at);
    iso_tensors *t = NULL;
    iso_error e = {.text = ""};
    int status = iso_tensors_read(&t, data, size, "input", &heap.alloc, &e);
    FUZZ_CHECK(heap.largest <= 64 * size + 2000);
    FUZZ_CHECK((status == ISO_OK) == (t != NULL));
    if (status == ISO_OK && !fail_at)
        write_and_compare(t);
    if (status != ISO_OK)
        FUZZ_CHECK((status == ISO_E_FORMAT || status == ISO_E_NOMEM) && strncmp(e.text, "input: ", 7) == 0);
    iso_tensors_free(t);
    FUZZ_CHECK(heap.live == 0);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int right = read_once(data, size, 0);
    FUZZ_CHECK(right == ISO_OK || right == ISO_E_FORMAT);
    for (size_t k = 1; k <= 12; k++) {
        int status = read_once(data, size, k);
        FUZZ_CHECK(status == right || status == ISO_E_NOMEM);
    }
    return 0;
}

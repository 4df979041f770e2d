/* SPDX-License-Identifier: Apache-2.0
 * gzip to bytes: all members joined, every check sum checked (by zlib), nothing behind the end but zeros. */
#include <string.h>
#include <zlib.h>

#include "base/buffer.h"
#include "base/size.h"
#include "engine/file/file.h"

/* Deflate cannot make more than 1032 bytes of one (258 bytes for 2 bits); what claims more is no gzip. */
#define RATIO_MAX 1032u
#define OUTPUT_STEP ((size_t)1 << 16)
#define INPUT_STEP ((size_t)1 << 30)

typedef struct job {
    z_stream z;
    const uint8_t *bytes;
    size_t size, at; /* bytes of input, and how many zlib was given */
    const char *name;
    iso_buffer out;
} job;

bool iso_is_gzip(const void *bytes, size_t size)
{
    const uint8_t *b = bytes;
    return size >= 2 && b[0] == 0x1F && b[1] == 0x8B;
}

static void *zlib_alloc(void *context, unsigned items, unsigned size)
{
    return iso_new(context, items, size);
}

static void zlib_free(void *context, void *block)
{
    iso_free(context, block);
}

static void release_heap(void *context, const uint8_t *bytes, size_t size)
{
    (void)size;
    iso_free(context, (void *)(uintptr_t)bytes);
}

/* Input that zlib has used. */
static size_t used(const job *j)
{
    return j->at - j->z.avail_in;
}

static int failed(job *j, int code, iso_error *e)
{
    if (code == Z_MEM_ERROR)
        return iso_error_set(e, ISO_E_NOMEM, "%s: out of memory while decompressing", j->name);
    if (code == Z_BUF_ERROR)
        return iso_error_set(e, ISO_E_FORMAT,
                             "%s: the gzip file is cut: it ends at byte %zu in the middle of the compressed data; copy "
                             "or download it again",
                             j->name, j->size);
    return iso_error_set(e, ISO_E_FORMAT, "%s: damaged gzip data at about byte %zu: %s", j->name, used(j),
                         j->z.msg ? j->z.msg : "not deflate");
}

/* Decompresses one member to its end. */
static int one_member(job *j, iso_error *e)
{
    for (int code = Z_OK; code != Z_STREAM_END;) {
        if (j->z.avail_in == 0) {
            size_t part = j->size - j->at < INPUT_STEP ? j->size - j->at : INPUT_STEP;
            j->z.next_in = (Bytef *)(uintptr_t)(j->bytes + j->at);
            j->z.avail_in = (uInt)part;
            j->at += part;
        }
        size_t step = j->out.limit - j->out.size < OUTPUT_STEP ? j->out.limit - j->out.size : OUTPUT_STEP;
        if (j->out.size == j->out.capacity && !iso_buffer_reserve(&j->out, step))
            return failed(j, Z_MEM_ERROR, e);
        size_t room = j->out.capacity - j->out.size;
        room = room < INPUT_STEP ? room : INPUT_STEP;
        j->z.next_out = j->out.bytes + j->out.size;
        j->z.avail_out = (uInt)room;
        code = inflate(&j->z, Z_NO_FLUSH);
        j->out.size += room - j->z.avail_out;
        if (code == Z_BUF_ERROR && (j->z.avail_out == 0 || j->at < j->size))
            code = Z_OK; /* only room or input was short */
        if (code != Z_OK && code != Z_STREAM_END)
            return failed(j, code, e);
        if (j->out.size == j->out.limit) /* the limit is one more than what is allowed */
            return iso_error_set(e, ISO_E_FORMAT, "%s: more than %zu bytes when decompressed", j->name,
                                 j->out.limit - 1);
    }
    return ISO_OK;
}

static int all_members(job *j, iso_error *e)
{
    for (;;) {
        int status = one_member(j, e);
        if (status != ISO_OK)
            return status;
        size_t at = used(j);
        if (iso_is_gzip(j->bytes + at, j->size - at)) {
            if (inflateReset(&j->z) != Z_OK)
                return failed(j, Z_STREAM_ERROR, e);
            continue;
        }
        size_t end = at;
        while (end < j->size && j->bytes[end] == 0)
            end++;
        if (end < j->size)
            return iso_error_set(e, ISO_E_FORMAT,
                                 "%s: %zu byte%s behind the end of the gzip data (byte %zu) are not gzip", j->name,
                                 j->size - at, j->size - at == 1 ? "" : "s", at);
        return ISO_OK;
    }
}

int iso_gunzip(const void *bytes, size_t size, const char *name, size_t max, const iso_alloc *a, iso_bytes *out,
               iso_error *e)
{
    size_t bound;
    *out = (iso_bytes){0};
    if (max == 0 || max > ISO_FILE_MAX)
        max = ISO_FILE_MAX;
    if (iso_size_mul(size, RATIO_MAX, &bound) && bound < max)
        max = bound;
    job j = {.bytes = bytes, .size = size, .name = name};
    j.z = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = (void *)(uintptr_t)a};
    iso_buffer_init(&j.out, a, max + 1);
    int code = inflateInit2(&j.z, 15 + 16);
    if (code != Z_OK)
        return failed(&j, code, e);
    size_t first = size < max / 3 ? 3 * size : max; /* images shrink to about half */
    int status = iso_buffer_reserve(&j.out, first + 1) ? all_members(&j, e) : failed(&j, Z_MEM_ERROR, e);
    inflateEnd(&j.z);
    if (status != ISO_OK) {
        iso_buffer_fini(&j.out);
        return status;
    }
    *out = (iso_bytes){j.out.bytes, j.out.size, release_heap, (void *)(uintptr_t)a};
    return ISO_OK;
}

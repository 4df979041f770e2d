/* SPDX-License-Identifier: Apache-2.0
 * Bytes to order, in exactly sized blocks. */
#include <zlib.h>

#include "test.h"

void test_bytes_free(test_bytes *b)
{
    free(b->bytes);
    *b = (test_bytes){NULL, 0};
}

void test_put(test_bytes *b, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    uint8_t *larger = realloc(b->bytes, b->size + size);
    if (!larger)
        abort();
    memcpy(larger + b->size, bytes, size);
    b->bytes = larger;
    b->size += size;
}

void test_put_text(test_bytes *b, const char *text)
{
    test_put(b, text, strlen(text));
}

void test_put_u8(test_bytes *b, uint8_t v)
{
    test_put(b, &v, 1);
}

void test_put_u32_be(test_bytes *b, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    test_put(b, bytes, sizeof bytes);
}

void test_put_u64_le(test_bytes *b, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        test_put_u8(b, (uint8_t)(v >> (8 * i)));
}

test_bytes test_bytes_copy(const void *bytes, size_t size)
{
    test_bytes b = {NULL, 0};
    test_put(&b, bytes, size);
    return b;
}

test_bytes test_idx(uint8_t type, uint32_t rank, const uint32_t *dim, const void *data, size_t size)
{
    test_bytes b = {NULL, 0};
    const uint8_t magic[4] = {0, 0, type, (uint8_t)rank};
    test_put(&b, magic, sizeof magic);
    for (uint32_t i = 0; i < rank; i++)
        test_put_u32_be(&b, dim[i]);
    test_put(&b, data, size);
    return b;
}

test_bytes test_gzip(const void *bytes, size_t size)
{
    z_stream z = {0};
    test_bytes b = {NULL, 0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, (uLong)size) + 64;
    uint8_t *out = malloc(room);
    assert_non_null(out);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    test_put(&b, out, room - z.avail_out);
    deflateEnd(&z);
    free(out);
    return b;
}

test_bytes test_safetensors(const char *header, const void *data, size_t size)
{
    test_bytes b = {NULL, 0};
    test_put_u64_le(&b, strlen(header));
    test_put_text(&b, header);
    test_put(&b, data, size);
    return b;
}

/* SPDX-License-Identifier: Apache-2.0
 * Payloads as wholes: names, sizes, blocks one after another, and the check of bytes from outside. The arithmetic of a block is
 * in the kernels. */
#include "nn/codec.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

static const char *const names[ISO_PAYLOADS] = {"exact", "fp32", "bf16", "int8", "int4"};

const char *iso_payload_name(iso_payload payload)
{
    return (size_t)payload < ISO_PAYLOADS ? names[payload] : "?";
}

int iso_payload_parse(const char *word, iso_payload *out)
{
    for (size_t i = 0; i < ISO_PAYLOADS; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = (iso_payload)i;
            return ISO_OK;
        }
    return ISO_E_ARGUMENT;
}

size_t iso_payload_bytes(iso_payload payload, size_t values)
{
    size_t blocks = values / ISO_BLOCK + (values % ISO_BLOCK != 0);
    if (values > SIZE_MAX / 4)
        return SIZE_MAX;
    switch (payload) {
    case ISO_PAYLOAD_INT8:
        return values + blocks;
    case ISO_PAYLOAD_INT4:
        return values / 2 + values % 2 + blocks;
    case ISO_PAYLOAD_BF16:
        return 2 * values;
    default:
        return 4 * values;
    }
}

int32_t iso_layer_of(const iso_net *net, size_t index)
{
    for (uint32_t t = 0; t < net->tensor_count; t++)
        if (index - net->tensor[t].offset < net->tensor[t].count)
            return (int32_t)net->tensor[t].layer;
    return -1;
}

int iso_value_error(const iso_net *net, size_t index, const char *what, iso_error *e)
{
    for (uint32_t t = 0; net && t < net->tensor_count; t++)
        if (index - net->tensor[t].offset < net->tensor[t].count)
            return iso_error_set(e, ISO_E_NONFINITE, "%s: value %zu of %s is not finite or too large; lower the learning rate", what,
                                 index - net->tensor[t].offset, net->tensor[t].name);
    return iso_error_set(e, ISO_E_NONFINITE, "%s: value %zu is not finite or too large", what, index);
}

static bool blocked(iso_payload payload)
{
    return payload == ISO_PAYLOAD_INT8 || payload == ISO_PAYLOAD_INT4;
}

/* The first value that is not below limit; a NaN is not. */
static size_t first_bad(const float *value, size_t n, float limit)
{
    size_t i = 0;
    while (i + 1 < n && value[i] < limit && value[i] > -limit)
        i++;
    return i;
}

int iso_payload_verify(const iso_kernels *k, const iso_net *net, iso_payload payload, size_t values, const uint8_t *bytes,
                       size_t count, float limit, const char *what, iso_error *e)
{
    if ((unsigned)payload >= ISO_PAYLOADS)
        return iso_error_set(e, ISO_E_ARGUMENT, "%s: there is no payload %u", what, (unsigned)payload);
    if (count != iso_payload_bytes(payload, values))
        return iso_error_set(e, ISO_E_PROTOCOL, "%s: %zu bytes where %zu values in %s take %zu", what, count, values,
                             iso_payload_name(payload), iso_payload_bytes(payload, values));
    float value[ISO_BLOCK];
    for (size_t begin = 0; begin < values; begin += ISO_BLOCK) {
        size_t n = iso_block_values(values, begin);
        const uint8_t *at = bytes + iso_payload_bytes(payload, begin);
        uint32_t top = payload == ISO_PAYLOAD_INT8 ? 56 : 60;
        if (blocked(payload) && at[0] > top)
            return iso_error_set(e, ISO_E_PROTOCOL, "%s: the exponent of block %zu is %u, more than %u", what, begin / ISO_BLOCK,
                                 at[0], top);
        if (!k->unpack(payload, value, n, at, limit))
            return iso_value_error(net, begin + first_bad(value, n, limit), what, e);
    }
    return ISO_OK;
}

/* One block by way of memory of its own, since the caller's ends with its last value. */
static bool encode_block(const iso_kernels *k, iso_payload payload, size_t n, const float *value, const float *error_in,
                         float *error_out, float *sent, uint8_t *out)
{
    float v[ISO_BLOCK] = {0}, rest[ISO_BLOCK] = {0};
    memcpy(v, value, n * sizeof *v);
    if (error_in)
        memcpy(rest, error_in, n * sizeof *rest);
    bool good = k->pack(payload, out, n, v, rest, rest);
    if (error_out)
        memcpy(error_out, rest, n * sizeof *rest);
    if (sent)
        memcpy(sent, v, n * sizeof *v);
    return good;
}

int iso_payload_encode(iso_isa isa, iso_payload payload, size_t values, const float *value, const float *error_in,
                       float *error_out, float *sent, void *out, iso_error *e)
{
    const iso_kernels *k = iso_kernels_of(isa);
    if (!k)
        return iso_error_set(e, ISO_E_UNSUPPORTED, "this machine has no %s", iso_isa_name(isa));
    for (size_t begin = 0; begin < values; begin += ISO_BLOCK) {
        size_t n = iso_block_values(values, begin);
        float before[ISO_BLOCK];
        for (size_t i = 0; i < n; i++) /* sent may be value, error_out error_in: the bad one is looked for afterwards */
            before[i] = value[begin + i] + (error_in && payload != ISO_PAYLOAD_EXACT ? error_in[begin + i] : 0.0f);
        if (!encode_block(k, payload, n, value + begin, error_in ? error_in + begin : NULL, error_out ? error_out + begin : NULL,
                          sent ? sent + begin : NULL, (uint8_t *)out + iso_payload_bytes(payload, begin)))
            return iso_value_error(NULL, begin + first_bad(before, n, 0x1p22f), "encoding", e);
    }
    return ISO_OK;
}

int iso_payload_decode(iso_isa isa, iso_payload payload, size_t values, const void *bytes, size_t count, float *value,
                       iso_error *e)
{
    const iso_kernels *k = iso_kernels_of(isa);
    if (!k)
        return iso_error_set(e, ISO_E_UNSUPPORTED, "this machine has no %s", iso_isa_name(isa));
    int status = iso_payload_verify(k, NULL, payload, values, bytes, count, ISO_DECODED_LIMIT, "payload", e);
    for (size_t begin = 0; status == ISO_OK && begin < values; begin += ISO_BLOCK) {
        float v[ISO_BLOCK];
        size_t n = iso_block_values(values, begin);
        k->unpack(payload, v, n, (const uint8_t *)bytes + iso_payload_bytes(payload, begin), ISO_DECODED_LIMIT);
        memcpy(value + begin, v, n * sizeof *v);
    }
    return status;
}

uint32_t iso_values_check(uint32_t crc, const float *published, size_t count)
{
    uint8_t bytes[4 * 64];
    for (size_t first = 0; first < count; first += 64) {
        size_t n = count - first < 64 ? count - first : 64;
        for (size_t i = 0; i < n; i++)
            iso_store_f32(bytes + 4 * i, published[first + i]);
        crc = iso_crc32c(crc, bytes, 4 * n);
    }
    return crc;
}

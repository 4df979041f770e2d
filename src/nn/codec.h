/* SPDX-License-Identifier: Apache-2.0
 * Inside nn: payloads block by block. */
#ifndef ISO_NN_CODEC_H
#define ISO_NN_CODEC_H

#include "isochron/replica.h"
#include "nn/net.h"

/* What an honest sender's rounding can make of a value below 2^22. */
#define ISO_DECODED_LIMIT 0x1p23f

/* Values of the block that begins at `begin`, and where its bytes begin. */
static inline size_t iso_block_values(size_t values, size_t begin)
{
    return values - begin < ISO_BLOCK ? values - begin : ISO_BLOCK;
}

/* Looks at a whole payload before anything is changed by it: length, exponents, every value below limit. net names the tensor
 * (NULL: the index alone), what: "difference", "weights". Errors: ISO_E_PROTOCOL, ISO_E_NONFINITE. */
int iso_payload_verify(const iso_kernels *k, const iso_net *net, iso_payload payload, size_t values, const uint8_t *bytes,
                       size_t count, float limit, const char *what, iso_error *e);

/* ISO_E_NONFINITE for published value `index`. */
int iso_value_error(const iso_net *net, size_t index, const char *what, iso_error *e);

/* The layer of published value `index`. */
int32_t iso_layer_of(const iso_net *net, size_t index);

/* crc32c of published values, little-endian, going on from crc. */
uint32_t iso_values_check(uint32_t crc, const float *published, size_t count);

#endif

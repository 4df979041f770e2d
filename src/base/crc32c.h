/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C (Castagnoli, reflected 0x82F63B78): frames and checkpoints. The processor's instruction is used where there
 * is one; the result never depends on it. */
#ifndef ISO_BASE_CRC32C_H
#define ISO_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The crc of what `crc` stood for followed by `bytes` bytes; begin with 0. iso_crc32c(0, "123456789", 9) is 0xE3069283.
 * Thread: any. */
uint32_t iso_crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same by tables alone: the reference of the tests. */
uint32_t iso_crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif

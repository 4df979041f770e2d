/* SPDX-License-Identifier: Apache-2.0
 * Files of tensors: safetensors. Pure: reading parses bytes in memory, writing streams to a callback, so that a large
 * model is never held twice. Layout of the file: u64 little-endian header length n; n bytes of JSON, padded with spaces
 * to a multiple of 8; the tensors' bytes without holes. */
#ifndef ISOCHRON_FORMAT_H
#define ISOCHRON_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/error.h"

#define ISO_TENSOR_RANK_MAX 8u
#define ISO_TENSOR_HEADER_MAX 100000000u /* bytes of JSON: the reference reader's limit */

typedef enum iso_tensor_type {
    ISO_TENSOR_BOOL,
    ISO_TENSOR_U8,
    ISO_TENSOR_I8,
    ISO_TENSOR_F8_E5M2,
    ISO_TENSOR_F8_E4M3,
    ISO_TENSOR_I16,
    ISO_TENSOR_U16,
    ISO_TENSOR_F16,
    ISO_TENSOR_BF16,
    ISO_TENSOR_I32,
    ISO_TENSOR_U32,
    ISO_TENSOR_F32,
    ISO_TENSOR_F64,
    ISO_TENSOR_I64,
    ISO_TENSOR_U64
} iso_tensor_type;

ISO_API const char *iso_tensor_type_name(iso_tensor_type type); /* "F32" */
ISO_API size_t iso_tensor_type_bytes(iso_tensor_type type);

/* One tensor of a file that was read. name is the file object's, data points into the bytes that were parsed (any
 * alignment, little endian). */
typedef struct iso_tensor_view {
    const char *name;
    iso_tensor_type type;
    uint32_t rank;
    uint64_t dim[ISO_TENSOR_RANK_MAX];
    uint64_t count; /* product of dim; 1 for rank 0 */
    const uint8_t *data;
    size_t bytes;
    size_t offset; /* of data in the file */
} iso_tensor_view;

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct iso_tensors iso_tensors;

/* Parses a whole file. `name` is for messages. The bytes must outlive *out; nothing of them is copied but names and
 * metadata. Errors: ISO_E_FORMAT (file, byte or key, wanted, found), ISO_E_NOMEM. Nothing is allocated from an
 * unchecked length. Refused: a key twice, holes, overlaps, bytes left over, metadata that is not a string, unknown
 * types, a shape that does not give the bytes. */
ISO_API int iso_tensors_read(iso_tensors **out, const void *bytes, size_t size, const char *name, const iso_alloc *a,
                             iso_error *e);
ISO_API void iso_tensors_free(iso_tensors *t);

/* How many there are, the one at an index below that, and the one of a name. Views are valid as long as t. Any thread. */
ISO_API uint32_t iso_tensors_count(const iso_tensors *t);
ISO_API const iso_tensor_view *iso_tensors_at(const iso_tensors *t, uint32_t index); /* in the order of their bytes */
ISO_API const iso_tensor_view *iso_tensors_find(const iso_tensors *t, const char *name); /* NULL when it is not there */
ISO_API uint32_t iso_tensors_metadata_count(const iso_tensors *t);
ISO_API void iso_tensors_metadata_at(const iso_tensors *t, uint32_t index, const char **key, const char **value);
ISO_API const char *iso_tensors_metadata(const iso_tensors *t, const char *key); /* NULL when it is not there */

/* Copies a tensor's values to host order: ISO_TENSOR_F32 to float, I64 to int64_t, and so on; out has `bytes` bytes. */
ISO_API void iso_tensor_copy(const iso_tensor_view *v, void *out);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* A tensor to write: data in host order, borrowed until the call returns. */
typedef struct iso_tensor_out {
    const char *name;
    iso_tensor_type type;
    uint32_t rank;
    uint64_t dim[ISO_TENSOR_RANK_MAX];
    const void *data;
} iso_tensor_out;

typedef struct iso_metadata {
    const char *key, *value; /* UTF-8 */
} iso_metadata;

/* Takes the next bytes of the file; a negative return (with *e filled) ends the writing and is passed on. */
typedef int (*iso_sink)(void *context, const void *bytes, size_t size, iso_error *e);

/* Writes a file: header, then the tensors, both in one order: wide types first (so that every tensor is aligned to its
 * type), then by name; metadata by key. The same input gives the same bytes. *size (may be NULL) is the size of the
 * file; with a NULL sink nothing is written and only the size is computed. Errors: ISO_E_ARGUMENT (a name twice, a text
 * that is not UTF-8, too large), ISO_E_NOMEM, or the sink's. */
ISO_API int iso_tensors_write(const iso_tensor_out *tensors, uint32_t count, const iso_metadata *metadata,
                              uint32_t metadata_count, iso_sink sink, void *context, const iso_alloc *a, uint64_t *size,
                              iso_error *e);

/* ---- does a file fit? -------------------------------------------------------------------------------------------- */

/* Does the file hold exactly the wanted tensors (data is not looked at)? ISO_E_MISMATCH lists what is missing, what is
 * there besides, and what has another type or shape. `ignore` (may be NULL) is a prefix of names that may be there
 * besides. */
ISO_API int iso_tensors_check(const iso_tensors *t, const iso_tensor_out *wanted, uint32_t count, const char *ignore,
                              iso_error *e);

#endif

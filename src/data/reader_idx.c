/* SPDX-License-Identifier: Apache-2.0
 * IDX, the format of MNIST and its relatives. All numbers are big-endian:
 *
 *   byte 0, 1   0
 *   byte 2      type: 08 u8, 09 i8, 0B i16, 0C i32, 0D f32, 0E f64
 *   byte 3      number of dimensions: 1 labels; 2 N x D; 3 N x H x W; 4 N x C x H x W
 *   byte 4...   the dimensions, u32 each
 *   then        the values, last dimension fastest
 *
 * u8 values are used where they lie; other types become f32. Nothing is allocated before the size of the file has been
 * found to be exactly what the header promises. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/size.h"
#include "data/dataset.h"
#include "data/reader.h"

#define RANK_MAX 4u

typedef struct idx_type {
    uint8_t code;
    uint8_t bytes;
    const char *name;
    bool whole; /* values can be labels */
} idx_type;

static const idx_type types[] = {
    {0x08, 1, "u8", true},  {0x09, 1, "i8", true},   {0x0B, 2, "i16", true},
    {0x0C, 4, "i32", true}, {0x0D, 4, "f32", false}, {0x0E, 8, "f64", false},
};

typedef struct idx_header {
    const idx_type *type;
    uint32_t rank, dim[RANK_MAX];
    size_t header_bytes, count; /* count: product of all dimensions */
    char shape[64];             /* "60000 x 28 x 28" */
} idx_header;

static const idx_type *find_type(uint8_t code)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code)
            return &types[i];
    return NULL;
}

/* A magic number with its bytes in the wrong order: rank type 0 0. */
static bool is_swapped(const uint8_t *b)
{
    return b[2] == 0 && b[3] == 0 && find_type(b[1]) && b[0] >= 1 && b[0] <= RANK_MAX;
}

static bool contains(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static iso_sniff idx_sniff(const uint8_t *bytes, size_t size, const char *name)
{
    if (size >= 4 && ((bytes[0] == 0 && bytes[1] == 0 && find_type(bytes[2]) && bytes[3] >= 1) || is_swapped(bytes)))
        return ISO_SNIFF_CONTENT;
    return contains(name, "idx") || contains(name, "ubyte") ? ISO_SNIFF_NAME : ISO_SNIFF_NO;
}

/* Magic number and dimensions; says what is wrong with them. */
static int parse_header(const uint8_t *b, size_t size, idx_header *h, iso_error *e)
{
    if (size < 4)
        return iso_error_set(e, ISO_E_FORMAT, "short header: 4 bytes of magic number wanted, %zu there", size);
    h->type = find_type(b[2]);
    h->rank = b[3];
    if (is_swapped(b))
        return iso_error_set(
            e, ISO_E_FORMAT,
            "magic number %02x %02x %02x %02x at byte 0: the byte order is wrong, IDX files are big-endian "
            "(%02x %02x %02x %02x); write the file again, most significant byte first",
            b[0], b[1], b[2], b[3], b[3], b[2], b[1], b[0]);
    if (b[0] != 0 || b[1] != 0 || !h->type) {
        const char *guess = iso_guess_content(b, size);
        return iso_error_set(
            e, ISO_E_FORMAT,
            "magic number %02x %02x %02x %02x at byte 0, an IDX file begins with 00 00, a type (08, 09, 0b, 0c, 0d, "
            "0e) and the number of dimensions%s%s",
            b[0], b[1], b[2], b[3], guess ? "; this looks like " : "", guess ? guess : "");
    }
    if (h->rank < 1 || h->rank > RANK_MAX)
        return iso_error_set(
            e, ISO_E_FORMAT,
            "%u dimensions (byte 3); 1 (labels), 2 (N x columns), 3 (N x height x width) or 4 (N x channels x height x "
            "width) can be used",
            h->rank);
    h->header_bytes = 4 + 4 * (size_t)h->rank;
    if (size < h->header_bytes)
        return iso_error_set(e, ISO_E_FORMAT, "short header: %zu bytes wanted for %u dimension%s, %zu there",
                             h->header_bytes, h->rank, h->rank == 1 ? "" : "s", size);
    size_t at = 0;
    for (uint32_t i = 0; i < h->rank; i++) {
        h->dim[i] = iso_load_u32_be(b + 4 + 4 * i);
        at += (size_t)snprintf(h->shape + at, sizeof h->shape - at, i ? " x %u" : "%u", h->dim[i]);
    }
    return ISO_OK;
}

/* Would the dimensions fit the size if their bytes were in the other order? */
static bool swapped_dimensions_fit(const idx_header *h, size_t left)
{
    uint64_t bytes = h->type->bytes;
    for (uint32_t i = 0; i < h->rank; i++)
        if (!iso_u64_mul(bytes, __builtin_bswap32(h->dim[i]), &bytes))
            return false;
    return bytes == left;
}

/* The file must hold exactly the bytes that the dimensions promise. */
static int check_size(idx_header *h, size_t size, iso_error *e)
{
    uint64_t count = 1, bytes = 0;
    bool fits = true;
    for (uint32_t i = 0; i < h->rank; i++) {
        if (h->dim[i] == 0)
            return iso_error_set(e, ISO_E_FORMAT, "empty data set: the header says %s", h->shape);
        fits = fits && iso_u64_mul(count, h->dim[i], &count);
    }
    fits = fits && iso_u64_mul(count, h->type->bytes, &bytes) && bytes <= INT64_MAX;
    size_t left = size - h->header_bytes;
    const char *hint = swapped_dimensions_fit(h, left) ? "; the dimensions are in the wrong byte order" : "";
    if (!fits)
        return iso_error_set(e, ISO_E_FORMAT,
                             "the header promises %s values of %s, more than any file holds; %zu byte%s there%s",
                             h->shape, h->type->name, left, left == 1 ? "" : "s", hint);
    if (bytes > left)
        return iso_error_set(
            e, ISO_E_FORMAT, "the file is cut: %llu bytes wanted behind the header (%s values of %s), %zu there%s",
            (unsigned long long)bytes, h->shape, h->type->name, left, *hint ? hint : "; copy or download it again");
    if (bytes < left)
        return iso_error_set(e, ISO_E_FORMAT, "%llu byte%s left over at byte %llu: %s values of %s end there",
                             (unsigned long long)(left - bytes), left - bytes == 1 ? "" : "s",
                             (unsigned long long)(h->header_bytes + bytes), h->shape, h->type->name);
    h->count = (size_t)count;
    return ISO_OK;
}

static int check_role(const idx_header *h, iso_role role, iso_error *e)
{
    if (role == ISO_ROLE_LABELS && h->rank != 1)
        return iso_error_set(e, ISO_E_FORMAT,
                             "labels are wanted, but there are %u dimensions (%s): these are images or other samples",
                             h->rank, h->shape);
    if (role == ISO_ROLE_SAMPLES && h->rank == 1)
        return iso_error_set(e, ISO_E_FORMAT, "samples are wanted, but there is 1 dimension (%s): these are labels",
                             h->shape);
    if (h->rank == 1 && !h->type->whole)
        return iso_error_set(e, ISO_E_FORMAT, "labels (1 dimension) are whole numbers, these are %s", h->type->name);
    return ISO_OK;
}

/* Value i as a double, which holds every type's values exactly. */
static double value_at(const uint8_t *data, const idx_type *type, size_t i)
{
    const uint8_t *p = data + i * type->bytes;
    switch (type->code) {
    case 0x08:
        return *p;
    case 0x09:
        return (double)(int8_t)*p;
    case 0x0B:
        return (double)(int16_t)iso_load_u16_be(p);
    case 0x0C:
        return (double)(int32_t)iso_load_u32_be(p);
    case 0x0D: {
        uint32_t bits = iso_load_u32_be(p);
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    default: {
        uint64_t bits = iso_load_u64_be(p);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    }
}

static int read_labels(const uint8_t *data, const idx_header *h, iso_dataset *out, iso_error *e)
{
    int32_t *labels = iso_new_raw(out->alloc, h->count, sizeof *labels);
    if (!labels)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for %zu labels", h->count);
    iso_dataset_own(out, labels);
    for (size_t i = 0; i < h->count; i++)
        labels[i] = (int32_t)value_at(data, h->type, i);
    return iso_dataset_set_labels(out, labels, 0, e);
}

static int read_floats(const uint8_t *data, const idx_header *h, iso_dataset *out, iso_error *e)
{
    float *values = iso_new_raw(out->alloc, h->count, sizeof *values);
    if (!values)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for %zu values", h->count);
    iso_dataset_own(out, values);
    size_t inexact = 0, each = h->count / h->dim[0];
    for (size_t i = 0; i < h->count; i++) {
        double value = value_at(data, h->type, i);
        if (!(value >= -(double)FLT_MAX && value <= (double)FLT_MAX))
            return iso_error_set(e, ISO_E_FORMAT, "value %zu of sample %zu (byte %zu) is not a finite 32-bit float",
                                 i % each, i / each, h->header_bytes + i * h->type->bytes);
        values[i] = (float)value;
        inexact += h->type->whole && (double)values[i] != value;
    }
    out->values = values;
    out->dtype = ISO_F32;
    if (inexact) {
        out->warning = iso_dataset_text(out, "%zu whole numbers are too large for a 32-bit float and were rounded",
                                        inexact);
        if (!out->warning)
            return iso_error_set(e, ISO_E_NOMEM, "out of memory");
    }
    return ISO_OK;
}

static int idx_read(const uint8_t *bytes, size_t size, const iso_read_options *options, iso_dataset *out, bool *borrows,
                    iso_error *e)
{
    idx_header h = {0};
    int status = parse_header(bytes, size, &h, e);
    if (status == ISO_OK)
        status = check_role(&h, options->role, e);
    if (status == ISO_OK)
        status = check_size(&h, size, e);
    if (status != ISO_OK)
        return status;
    const uint8_t *data = bytes + h.header_bytes;
    out->count = h.dim[0];
    if (h.rank == 2)
        out->shape = (iso_shape){h.dim[1], 1, 1};
    else if (h.rank == 3)
        out->shape = (iso_shape){1, h.dim[1], h.dim[2]};
    else if (h.rank == 4)
        out->shape = (iso_shape){h.dim[1], h.dim[2], h.dim[3]};
    out->source = iso_dataset_text(out, "%s: IDX, %s, %s", options->name, h.shape, h.type->name);
    if (!out->source)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory");
    if (h.rank == 1)
        return read_labels(data, &h, out, e);
    if (h.type->code != 0x08)
        return read_floats(data, &h, out, e);
    out->values = data;
    out->dtype = ISO_U8;
    *borrows = true;
    return ISO_OK;
}

const iso_data_reader iso_reader_idx = {
    "idx",
    "IDX (MNIST and its relatives), plain or gzip: images N x H x W or N x C x H x W, tables N x D, labels N",
    idx_sniff,
    idx_read,
};

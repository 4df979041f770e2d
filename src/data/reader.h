/* SPDX-License-Identifier: Apache-2.0
 * The interface of a data format. A new format is one file reader_NAME.c and its line in the table of reader.c. */
#ifndef ISO_DATA_READER_H
#define ISO_DATA_READER_H

#include "isochron/data.h"

/* How sure a reader is: of two the surer one reads; at a tie the first of the table. */
typedef enum iso_sniff { ISO_SNIFF_NO, ISO_SNIFF_NAME, ISO_SNIFF_CONTENT } iso_sniff;

typedef struct iso_data_reader {
    const char *name, *help;
    /* Is it this format? name is the file's, without a folder or a suffix of compression; looks at no more than `size`
     * bytes. */
    iso_sniff (*sniff)(const uint8_t *bytes, size_t size, const char *name);
    /* Parses size > 0 bytes into *out, which comes with alloc set and all else empty, and leaves it fit for
     * iso_dataset_free on errors too. Sets *borrows when out points into the bytes. Sets everything but the
     * fingerprint. Error texts do not name the file: the caller does. */
    int (*read)(const uint8_t *bytes, size_t size, const iso_read_options *options, iso_dataset *out, bool *borrows,
                iso_error *e);
} iso_data_reader;

extern const iso_data_reader iso_reader_idx;

/* What these bytes look like to a person, when no reader knows them ("an HTML page: a failed download?"); NULL: no
 * idea. */
const char *iso_guess_content(const uint8_t *bytes, size_t size);

#endif

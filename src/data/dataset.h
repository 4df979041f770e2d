/* SPDX-License-Identifier: Apache-2.0
 * What the readers of this folder need to build a data set. Private to src/data. */
#ifndef ISO_DATA_DATASET_H
#define ISO_DATA_DATASET_H

#include "isochron/data.h"

/* Hands a block of d->alloc over to *d, which frees it with the rest. There is always room for what a reader makes
 * (values, labels, names, source, warning). */
void iso_dataset_own(iso_dataset *d, void *block);

/* Formats a text that *d owns; NULL when out of memory. */
const char *iso_dataset_text(iso_dataset *d, const char *format, ...) ISO_PRINTF(2, 3);

/* Takes labels [count] of d and finds `classes` (at least the given number). ISO_E_FORMAT names the first label outside
 * [0, ISO_CLASSES_MAX) or beyond the class names. */
int iso_dataset_set_labels(iso_dataset *d, const int32_t *labels, uint32_t classes, iso_error *e);

/* Fills the fingerprint when all else is set. */
void iso_dataset_finish(iso_dataset *d);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * summary.json, and the same figures as text inside a checkpoint. Place: engine. */
#ifndef ISO_ENGINE_RUN_SUMMARY_H
#define ISO_ENGINE_RUN_SUMMARY_H

#include "engine/run/folder.h"
#include "isochron/train.h"

#define ISO_SUMMARY_BYTES_MAX (4u << 20)

/* JSON text of a summary, a block of a. NULL: out of memory. compact: one line. */
char *iso_summary_text(const iso_summary *s, bool compact, const iso_alloc *a);

/* Back again; what is missing stays as iso_summary_begin leaves it. name is for messages. Errors: ISO_E_FORMAT,
 * ISO_E_NOMEM; then *s is clear. */
int iso_summary_parse(iso_summary *s, const char *text, size_t size, const char *name, const iso_alloc *a,
                      iso_error *e);

/* All figures not there: NaN, 0, "". */
void iso_summary_begin(iso_summary *s);

/* The node of this name, made if need be. NULL: out of memory. */
iso_node_summary *iso_summary_node(iso_summary *s, const char *name, const iso_alloc *a);

/* What summary.json holds: *size bytes without a NUL, a block of a. NULL: out of memory. */
char *iso_summary_file(const iso_summary *s, size_t *size, const iso_alloc *a);

#endif

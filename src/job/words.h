/* SPDX-License-Identifier: Apache-2.0
 * The parts of the messages about a job: what stands in the file, shown safely, and which words would be right. */
#ifndef ISO_JOB_WORDS_H
#define ISO_JOB_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "isochron/error.h"

#define ISO_SHOW_BYTES 80u

/* text in quotes, cut when it is long, control characters as '?': what a file says never reaches a terminal raw.
 * Returns out. */
const char *iso_job_show(char out[ISO_SHOW_BYTES], const char *text);

/* Fills e (ISO_E_JOB): "<what> '<word>' ...; did you mean 'x'? The <whats> are a, b, c". Returns ISO_E_JOB.
 * what: "key", "word"; of: where ("optimizer" or ""). */
int iso_job_unknown(iso_error *e, const char *of, const char *what, const char *word, const char *const *words,
                    size_t count);
/* The same when the caller knows best what was meant; NULL: nothing comes near. */
int iso_job_unknown_near(iso_error *e, const char *of, const char *what, const char *word, const char *near,
                         const char *const *words, size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Numbers with units, as a cluster file spells them. Each is false when the text is not one, and then writes nothing. */
#ifndef ISO_JOB_QUANTITY_H
#define ISO_JOB_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* "20us", "0.5ms", "3s", "2min", "1h" in ns, whole; below 2^62. */
bool iso_quantity_time(const char *text, double *ns);
/* "56kbit", "100Mbit", "1Gbit", "10bit" in bits a second; above 0. */
bool iso_quantity_bandwidth(const char *text, double *bits);
/* "64KiB", "512MiB", "4GiB", "100MB", "7B"; at least 1, below 2^62. */
bool iso_quantity_bytes(const char *text, double *bytes);
/* "2/1000": part <= of, of at least 1; "0" is 0/1. */
bool iso_quantity_chance(const char *text, uint32_t *part, uint32_t *of);

#endif

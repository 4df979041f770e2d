/* SPDX-License-Identifier: Apache-2.0
 * Numbers with units (quantity.h). */
#include "job/quantity.h"

#include <math.h>
#include <string.h>

typedef struct scale {
    const char *unit;
    double factor;
} scale;

static const scale times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {NULL, 0}};
static const scale bandwidths[] = {{"bit", 1}, {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}, {NULL, 0}};
static const scale sizes[] = {{"B", 1},          {"kB", 1e3},        {"MB", 1e6},           {"GB", 1e9}, {"KiB", 1024},
                              {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}, {NULL, 0}};

static bool scaled(const char *text, const scale *scales, double *out)
{
    size_t digits = strspn(text, "0123456789.+-");
    double value;
    if (iso_parse_double(text, digits, &value) != ISO_PARSE_OK)
        return false;
    for (; scales->unit; scales++)
        if (!strcmp(scales->unit, text + digits)) {
            *out = value * scales->factor;
            return *out >= 0 && *out < 0x1p62;
        }
    return false;
}

bool iso_quantity_time(const char *text, double *ns)
{
    double value;
    if (!scaled(text, times, &value))
        return false;
    *ns = nearbyint(value);
    return true;
}

bool iso_quantity_bandwidth(const char *text, double *bits)
{
    double value;
    if (!scaled(text, bandwidths, &value) || !(value > 0))
        return false;
    *bits = value;
    return true;
}

bool iso_quantity_bytes(const char *text, double *bytes)
{
    double value;
    if (!scaled(text, sizes, &value) || value < 1)
        return false;
    *bytes = value;
    return true;
}

bool iso_quantity_chance(const char *text, uint32_t *part, uint32_t *of)
{
    const char *slash = strchr(text, '/');
    uint64_t upper, lower = 1;
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    if (iso_parse_u64(text, length, 0, slash ? UINT32_MAX : 0, &upper) != ISO_PARSE_OK ||
        (slash && iso_parse_u64(slash + 1, strlen(slash + 1), 1, UINT32_MAX, &lower) != ISO_PARSE_OK) || upper > lower)
        return false;
    *part = (uint32_t)upper;
    *of = (uint32_t)lower;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * Numbers with units (cluster.h). */
#include "job/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/words.h"

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {NULL, 0}};
static const unit sizes[] = {{"B", 1},          {"kB", 1e3},       {"MB", 1e6},         {"GB", 1e9},
                             {"KiB", 1024},     {"MiB", 1048576},  {"GiB", 1073741824}, {NULL, 0}};
static const unit bandwidths[] = {{"bit", 0.125}, {"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"B", 1},
                                  {"kB", 1e3},    {"MB", 1e6},   {"GB", 1e9},     {NULL, 0}};
static const char *const shapes[] = {"none", "sine", "triangle", "square"};

static int wrong(const char *where, const char *wants, const char *text, iso_error *e)
{
    char shown[ISO_SHOW_BYTES];
    return iso_error_set(e, ISO_E_JOB, "%s wants %s, found %s", where, wants, iso_job_show(shown, text));
}

/* "1.5ms" by a table of units; false when it is something else. 0 needs no unit. */
static bool with_unit(const unit *table, const char *text, double *out)
{
    size_t number = strspn(text, "0123456789.eE+-");
    while (number > 0) { /* an exponent's e may be the unit's */
        double value;
        if (iso_parse_double(text, number, &value) == ISO_PARSE_OK) {
            const char *name = text + number + strspn(text + number, " ");
            size_t length = strcspn(name, "/");
            if (!*name && value == 0) {
                *out = 0;
                return true;
            }
            for (const unit *u = table; u->name; u++)
                if (strlen(u->name) == length && !memcmp(u->name, name, length) &&
                    (!name[length] || !strcmp(name + length, "/s"))) {
                    *out = value * u->factor;
                    return true;
                }
            return false;
        }
        number--;
    }
    return false;
}

static int set_name(char *to, const char *where, const char *text, iso_error *e)
{
    size_t length = strlen(text);
    bool good = length && length < ISO_CLUSTER_NAME_MAX && iso_is_utf8(text, length);
    for (const char *c = text; *c; c++)
        good = good && (unsigned char)*c >= 32 && *c != 127 && *c != '"' && *c != '\\'; /* so that JSON has it as it is */
    if (!good) {
        char wants[80];
        snprintf(wants, sizeof wants, "a name of 1 to %u bytes without quotes and backslashes", ISO_CLUSTER_NAME_MAX - 1);
        return wrong(where, wants, text, e);
    }
    memcpy(to, text, length + 1);
    return ISO_OK;
}

static int set_count(const cluster_key *key, uint32_t *to, const char *where, const char *text, iso_error *e)
{
    uint64_t value;
    if (iso_parse_u64(text, strlen(text), (uint64_t)key->min, (uint64_t)key->max, &value) != ISO_PARSE_OK) {
        char wants[80];
        snprintf(wants, sizeof wants, "a whole number from %.0f to %.0f", key->min, key->max);
        return wrong(where, wants, text, e);
    }
    *to = (uint32_t)value;
    return ISO_OK;
}

static int set_number(const cluster_key *key, double *to, const char *where, const char *text, iso_error *e)
{
    double value;
    if (iso_parse_double(text, strlen(text), &value) != ISO_PARSE_OK || value < key->min || value > key->max) {
        char wants[120], min[ISO_NUMBER_TEXT], max[ISO_NUMBER_TEXT];
        iso_print_double(min, key->min);
        iso_print_double(max, key->max);
        snprintf(wants, sizeof wants, "a number from %s to %s", min, max);
        return wrong(where, wants, text, e);
    }
    *to = value;
    return ISO_OK;
}

static int set_time(const cluster_key *key, int64_t *to, const char *where, const char *text, iso_error *e)
{
    double ns;
    if (!with_unit(times, text, &ns))
        return wrong(where, "a time with its unit: ns, us, ms, s, min or h, as in 0.5ms", text, e);
    if (ns < key->min || ns > key->max) {
        char wants[100];
        snprintf(wants, sizeof wants, "a time from %.0f ns to %.0f s", key->min, key->max * 1e-9);
        return wrong(where, wants, text, e);
    }
    *to = (int64_t)llrint(ns);
    return ISO_OK;
}

static int set_size(uint64_t *to, const char *where, const char *text, iso_error *e)
{
    double bytes;
    if (!with_unit(sizes, text, &bytes) || bytes < 0 || bytes > 1e18 || strchr(text, '/'))
        return wrong(where, "a size with its unit: B, kB, MB, GB, KiB, MiB or GiB, as in 4GiB", text, e);
    *to = (uint64_t)bytes;
    return ISO_OK;
}

static int set_bandwidth(double *to, const char *where, const char *text, iso_error *e)
{
    double bytes = 0;
    bool endless = !strcmp(text, "unlimited");
    if (!endless && (!with_unit(bandwidths, text, &bytes) || bytes < 1 || bytes > 1e15))
        return wrong(where, "a bandwidth with its unit: kbit, Mbit, Gbit, kB, MB or GB a second, as in 1Gbit; or unlimited", text, e);
    *to = bytes;
    return ISO_OK;
}

static int set_ratio(iso_ratio *to, const char *where, const char *text, iso_error *e)
{
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    uint64_t numerator, denominator = 1;
    bool good = iso_parse_u64(text, length, 0, UINT32_MAX, &numerator) == ISO_PARSE_OK;
    if (good && slash)
        good = iso_parse_u64(slash + 1, strlen(slash + 1), 1, UINT32_MAX, &denominator) == ISO_PARSE_OK;
    if (!good || numerator > denominator)
        return wrong(where, "a probability as a ratio of whole numbers, as in 2/1000, at most 1", text, e);
    *to = (iso_ratio){(uint32_t)numerator, (uint32_t)denominator};
    return ISO_OK;
}

static int set_shape(iso_drift_shape *to, const char *where, const char *text, iso_error *e)
{
    const size_t count = sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(shapes[i], text)) {
            *to = (iso_drift_shape)i;
            return ISO_OK;
        }
    return iso_job_unknown(e, where, "shape", text, shapes, count);
}

int iso_cluster_value(const cluster_key *key, void *to, const char *where, const char *text, iso_error *e)
{
    void *member = (char *)to + key->offset;
    switch (key->type) {
    case CLUSTER_NAME:
        return set_name(member, where, text, e);
    case CLUSTER_COUNT:
        return set_count(key, member, where, text, e);
    case CLUSTER_NUMBER:
        return set_number(key, member, where, text, e);
    case CLUSTER_TIME:
        return set_time(key, member, where, text, e);
    case CLUSTER_SIZE:
        return set_size(member, where, text, e);
    case CLUSTER_BANDWIDTH:
        return set_bandwidth(member, where, text, e);
    case CLUSTER_RATIO:
        return set_ratio(member, where, text, e);
    case CLUSTER_SHAPE:
        return set_shape(member, where, text, e);
    case CLUSTER_TRUE:
        if (strcmp(text, "true") != 0)
            return wrong(where, "true", text, e);
        *(bool *)member = true;
        return ISO_OK;
    }
    return ISO_E_JOB;
}

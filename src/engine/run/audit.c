/* SPDX-License-Identifier: Apache-2.0
 * Lines of the audit log (audit.h): room is reserved once and digits are written in place (line.h). */
#include "engine/run/audit.h"

#include <string.h>

#include "engine/run/line.h"

#define RANGE_MAX 44u /* bytes of ",[first,count]" at most */
#define HEAD_MAX 120u /* bytes of a line without name and ranges */

/* Positions of one range of units, the last of the round cut at its end; false when none are left. */
static bool positions(const iso_record *r, const iso_range *range, uint64_t *first, uint64_t *end)
{
    *first = r->first + (uint64_t)range->first * r->unit;
    *end = *first + (uint64_t)range->count * r->unit;
    if (*end > r->end)
        *end = r->end;
    return *first < *end;
}

static char *put_range(char *at, bool comma, uint64_t first, uint64_t end)
{
    at = iso_line_number(iso_line_text(at, comma ? ",[" : "["), first);
    *at++ = ',';
    at = iso_line_number(at, end - first);
    *at++ = ']';
    return at;
}

/* All ranges; neighbours become one. */
static char *put_ranges(char *at, const iso_record *r, uint64_t *counted)
{
    uint64_t first = 0, end = 0, next_first, next_end;
    bool comma = false;
    *counted = 0;
    for (uint32_t i = 0; i < r->range_count; i++) {
        if (!positions(r, &r->range[i], &next_first, &next_end))
            continue;
        *counted += next_end - next_first;
        if (end > first && next_first == end) {
            end = next_end;
            continue;
        }
        if (end > first) {
            at = put_range(at, comma, first, end);
            comma = true;
        }
        first = next_first;
        end = next_end;
    }
    return end > first ? put_range(at, comma, first, end) : at;
}

void iso_audit_line(iso_buffer *b, const iso_record *r, const char *name)
{
    uint64_t counted;
    if (!iso_buffer_reserve(b, HEAD_MAX + strlen(name) + (size_t)r->range_count * RANGE_MAX))
        return;
    char *start = (char *)b->bytes + b->size, *at = start;
    at = iso_line_number(iso_line_text(at, "{\"event\":\"counted\",\"round\":"), r->round + 1);
    at = iso_line_number(iso_line_text(at, ",\"epoch\":"), (uint64_t)r->epoch + 1);
    at = iso_line_text(iso_line_text(at, ",\"node\":"), name);
    at = put_ranges(iso_line_text(at, ",\"positions\":["), r, &counted);
    at = iso_line_text(at, "]}\n");
    if (counted)
        b->size += (size_t)(at - start);
}

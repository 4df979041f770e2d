/* SPDX-License-Identifier: Apache-2.0
 * Lines of metrics.jsonl, and where an interrupted file is cut. */
#include "engine/run/journal.h"

#include <math.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/run/line.h"

static const char round_key[] = "{\"round\":";

/* ---- writing: into room that was reserved, so that nothing is checked byte by byte --------------------- */

#define HEAD_MAX 640u                            /* bytes of a line without its nodes, at most */
#define NODE_MAX (ISO_NODE_NAME_MAX * 6u + 288u) /* bytes of a node, at most */

/* value with `digits` places; value must be below 2^63 / 10^digits, else (and when it is no number) null. */
static char *fixed(char *at, double value, int digits)
{
    static const uint64_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    double scaled = value * (double)power[digits] + 0.5;
    if (!(scaled >= 0 && scaled < 0x1p63))
        return iso_line_text(at, "null");
    uint64_t v = (uint64_t)scaled;
    at = iso_line_number(at, v / power[digits]);
    if (digits > 0) {
        *at++ = '.';
        v %= power[digits];
        for (int i = digits; i-- > 0;) {
            at[i] = (char)('0' + v % 10);
            v /= 10;
        }
        at += digits;
    }
    return at;
}

static char *real(char *at, double value)
{
    return isfinite(value) ? at + iso_print_double(at, value) : iso_line_text(at, "null");
}

static char *seconds(char *at, int64_t ns)
{
    return fixed(at, ns > 0 ? (double)ns * 1e-9 : 0, 9);
}

static char *node_text(char *at, const iso_node_record *n, const char *name, uint64_t samples)
{
    at = iso_line_text(iso_line_text(at, "{\"name\":"), name);
    at = iso_line_text(at, ",\"score\":");
    at = n->score > 0 ? fixed(at, n->score, 1) : iso_line_text(at, "null");
    at = fixed(iso_line_text(at, ",\"share\":"), samples ? (double)n->samples / (double)samples : 0, 6);
    at = iso_line_number(iso_line_text(at, ",\"samples\":"), n->samples);
    at = seconds(iso_line_text(at, ",\"busy_seconds\":"), n->busy_ns);
    at = seconds(iso_line_text(at, ",\"idle_seconds\":"), n->idle_ns);
    at = iso_line_text(iso_line_text(at, ",\"state\":\""), n->state);
    return iso_line_text(at, "\"}");
}

/* ---- the trail ----------------------------------------------------------------------------------------- */

static const char check_head[] = ",\"check\":\"", check_tail[] = "\"}";

#define CHECK_HEAD (sizeof check_head - 1)
#define CHECK_SIZE (CHECK_HEAD + 8 + sizeof check_tail - 1)

void iso_trail_begin(iso_trail *t, const char *mark, const void *kept, size_t size)
{
    *t = (iso_trail){.crc = iso_crc32c(iso_crc32c(0, mark, strlen(mark)), kept, size)};
}

void iso_trail_take(iso_trail *t, const iso_buffer *b)
{
    if (b->size > t->at)
        t->crc = iso_crc32c(t->crc, b->bytes + t->at, b->size - t->at);
    t->at = 0;
}

void iso_trail_end(iso_trail *t, iso_buffer *b)
{
    if (!iso_buffer_reserve(b, CHECK_SIZE + 1))
        return;
    iso_trail_take(t, b);
    t->at = b->size;
    char *start = (char *)b->bytes + b->size, *at = iso_line_text(start, check_head);
    for (int shift = 28; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[t->crc >> shift & 15];
    at = iso_line_text(iso_line_text(at, check_tail), "\n");
    b->size += (size_t)(at - start);
}

iso_trail_state iso_trail_follow(iso_trail *t, const char *line, size_t size)
{
    const char *check = size > CHECK_SIZE ? line + size - CHECK_SIZE : NULL;
    uint64_t found = 0;
    size_t before = size;
    iso_trail_state state = ISO_TRAIL_NONE;
    if (check && memcmp(check, check_head, CHECK_HEAD) == 0 && iso_parse_hex(check + CHECK_HEAD, 8, &found) &&
        memcmp(check + CHECK_HEAD + 8, check_tail, sizeof check_tail - 1) == 0) {
        before = size - CHECK_SIZE;
        state = iso_crc32c(t->crc, line, before) == found ? ISO_TRAIL_GOOD : ISO_TRAIL_BROKEN;
    }
    t->crc = state == ISO_TRAIL_NONE ? iso_crc32c(t->crc, line, before) : (uint32_t)found;
    t->crc = iso_crc32c(iso_crc32c(t->crc, line + before, size - before), "\n", 1);
    return state;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

void iso_metrics_line(iso_buffer *b, iso_trail *t, const iso_round_record *r, const iso_node_record *node,
                      const char (*name)[ISO_NODE_NAME_MAX], uint32_t count)
{
    if (!iso_buffer_reserve(b, HEAD_MAX + (size_t)count * NODE_MAX))
        return;
    char *start = (char *)b->bytes + b->size, *at = start;
    at = iso_line_number(iso_line_text(at, round_key), r->round);
    at = iso_line_number(iso_line_text(at, ",\"epoch\":"), r->epoch);
    at = iso_line_number(iso_line_text(at, ",\"samples\":"), r->samples);
    at = fixed(iso_line_text(at, ",\"loss\":"), r->loss, 9);
    at = fixed(iso_line_text(at, ",\"accuracy\":"), r->samples ? (double)r->correct / (double)r->samples : NAN, 6);
    at = iso_line_text(at, ",\"rate\":");
    at += iso_print_double(at, r->rate);
    at = seconds(iso_line_text(at, ",\"seconds\":"), r->ns);
    at = iso_line_number(iso_line_text(at, ",\"bytes_up\":"), r->bytes_up);
    at = iso_line_number(iso_line_text(at, ",\"bytes_down\":"), r->bytes_down);
    if (r->sent_up || r->sent_down) {
        at = iso_line_number(iso_line_text(at, ",\"sent_up\":"), r->sent_up);
        at = iso_line_number(iso_line_text(at, ",\"sent_down\":"), r->sent_down);
    }
    if (r->steps)
        at = iso_line_number(iso_line_text(at, ",\"steps\":"), r->steps);
    if (r->theta > 0) {
        at = real(iso_line_text(at, ",\"variance\":"), r->variance);
        at = real(iso_line_text(at, ",\"theta\":"), r->theta);
    }
    if (r->probe_accuracy > 0)
        at = fixed(iso_line_text(at, ",\"probe_accuracy\":"), r->probe_accuracy, 6);
    at = iso_line_text(at, ",\"nodes\":[");
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            *at++ = ',';
        at = node_text(at, &node[i], name[i], r->samples);
    }
    *at++ = ']';
    b->size += (size_t)(at - start);
    iso_trail_end(t, b);
}

/* ---- cutting ------------------------------------------------------------------------------------------- */

uint64_t iso_metrics_upto(const char *lines, size_t size, uint64_t round, bool *complete)
{
    uint64_t kept = 0, last = 0;
    const size_t key = sizeof round_key - 1;
    *complete = false;
    while (last < round && kept < size) {
        const char *line = lines + kept, *end = memchr(line, '\n', size - kept);
        const char *comma = end ? memchr(line, ',', (size_t)(end - line)) : NULL;
        uint64_t value;
        if (!comma || (size_t)(comma - line) <= key || memcmp(line, round_key, key) != 0 ||
            iso_parse_u64(line + key, (size_t)(comma - line) - key, last + 1, last + 1, &value) != ISO_PARSE_OK)
            break;
        last = value;
        kept += (uint64_t)(end - line) + 1;
    }
    *complete = last == round;
    return kept;
}

uint64_t iso_lines_whole(const char *lines, size_t size)
{
    const char *end = size ? memrchr(lines, '\n', size) : NULL;
    return end ? (uint64_t)(end - lines) + 1 : 0;
}

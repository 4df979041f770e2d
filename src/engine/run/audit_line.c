/* SPDX-License-Identifier: Apache-2.0
 * Reading lines of the audit log (audit_line.h). */
#include "engine/run/audit_line.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define COUNTED_HEAD "{\"event\":\"counted\",\"round\":"

static int bad(iso_audit_line_read *l, const char *why)
{
    l->kind = ISO_AUDIT_BAD;
    snprintf(l->why, sizeof l->why, "%s", why);
    return ISO_OK;
}

/* One more span; ISO_E_ARGUMENT when it does not stand behind the one before. */
static int add_span(iso_audit_line_read *l, uint64_t first, uint64_t count, const iso_alloc *a)
{
    if (!count || count > UINT64_MAX - first)
        return ISO_E_ARGUMENT;
    if (l->spans && first < l->span[l->spans - 1].first + l->span[l->spans - 1].count)
        return ISO_E_ARGUMENT;
    if (l->spans == l->room) {
        size_t room = l->room ? l->room * 2 : 16;
        iso_audit_span *more = iso_new_raw(a, room, sizeof *more);
        if (!more)
            return ISO_E_NOMEM;
        if (l->spans)
            memcpy(more, l->span, l->spans * sizeof *more);
        iso_free(a, l->span);
        l->span = more;
        l->room = room;
    }
    l->span[l->spans++] = (iso_audit_span){first, count};
    return ISO_OK;
}

/* ---- our own form -------------------------------------------------------------------------------------- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static bool take(cursor *c, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

static bool take_number(cursor *c, uint64_t *out)
{
    const char *first = c->at;
    uint64_t v = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        unsigned digit = (unsigned)(*c->at - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = v;
    return c->at > first && (*first != '0' || c->at == first + 1);
}

/* A name that needs no unescaping. */
static bool take_name(cursor *c, char out[ISO_NODE_NAME_MAX])
{
    if (!take(c, "\""))
        return false;
    const char *end = memchr(c->at, '"', (size_t)(c->end - c->at));
    size_t n = end ? (size_t)(end - c->at) : 0;
    if (!end || n >= ISO_NODE_NAME_MAX || memchr(c->at, '\\', n))
        return false;
    memcpy(out, c->at, n);
    out[n] = 0;
    c->at = end + 1;
    return true;
}

/* *ours: the line has our form and was read. */
static int parse_ours(iso_audit_line_read *l, const char *text, size_t size, const iso_alloc *a, bool *ours)
{
    cursor c = {text, text + size};
    *ours = take(&c, COUNTED_HEAD) && take_number(&c, &l->round) && take(&c, ",\"epoch\":") &&
            take_number(&c, &l->epoch) && take(&c, ",\"node\":") && take_name(&c, l->node) &&
            take(&c, ",\"positions\":[");
    int result = ISO_OK;
    for (bool more = *ours; more && !result; more = *ours && take(&c, ",")) {
        uint64_t first, count;
        *ours = take(&c, "[") && take_number(&c, &first) && take(&c, ",") && take_number(&c, &count) && take(&c, "]");
        result = *ours ? add_span(l, first, count, a) : ISO_OK;
    }
    *ours = *ours && take(&c, "]}") && c.at == c.end;
    return result;
}

/* ---- any JSON ------------------------------------------------------------------------------------------ */

static bool get_whole(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    bool good = json_is_integer(v) && json_integer_value(v) >= 0;
    *out = good ? (uint64_t)json_integer_value(v) : 0;
    return good;
}

/* Hexadecimal digits under `key`; 0 and false when they are not there. */
static bool get_hex(const json_t *o, const char *key, size_t digits, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    *out = 0;
    return json_string_length(v) == digits && iso_parse_hex(json_string_value(v), digits, out);
}

static int read_resume(iso_audit_line_read *l, const json_t *o)
{
    uint64_t mark;
    l->kind = ISO_AUDIT_RESUME;
    get_whole(o, "samples", &l->samples);
    get_whole(o, "epochs", &l->epochs);
    get_hex(o, "job", 16, &l->job);
    if (get_hex(o, "mark", ISO_MARK_TEXT - 1, &mark))
        snprintf(l->mark, sizeof l->mark, "%s", json_string_value(json_object_get(o, "mark")));
    return get_whole(o, "round", &l->round) ? ISO_OK : bad(l, "a resume without its round");
}

static int read_counted(iso_audit_line_read *l, const json_t *o, const iso_alloc *a)
{
    const char *node = json_string_value(json_object_get(o, "node"));
    const json_t *list = json_object_get(o, "positions");
    if (!get_whole(o, "round", &l->round) || !get_whole(o, "epoch", &l->epoch))
        return bad(l, "a counted line without round and epoch");
    if (!node || strlen(node) >= sizeof l->node)
        return bad(l, "a counted line without a node's name");
    if (!json_array_size(list))
        return bad(l, "a counted line without positions");
    snprintf(l->node, sizeof l->node, "%s", node);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i), *first = json_array_get(pair, 0),
                     *count = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(first) || !json_is_integer(count) ||
            json_integer_value(first) < 0 || json_integer_value(count) < 0)
            return bad(l, "positions are not pairs [first, count]");
        int r = add_span(l, (uint64_t)json_integer_value(first), (uint64_t)json_integer_value(count), a);
        if (r)
            return r;
    }
    l->kind = ISO_AUDIT_COUNTED;
    return ISO_OK;
}

static int parse_json(iso_audit_line_read *l, const char *text, size_t size, const iso_alloc *a)
{
    json_error_t why;
    json_t *o = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    const char *event = json_string_value(json_object_get(o, "event"));
    int result = ISO_OK;
    if (!o) {
        l->kind = ISO_AUDIT_BAD;
        snprintf(l->why, sizeof l->why, "not a JSON object: %.100s at byte %d", why.text, why.position);
    } else if (!event) {
        result = bad(l, "not an event: it has no \"event\"");
    } else if (!strcmp(event, "counted")) {
        result = read_counted(l, o, a);
    } else if (!strcmp(event, "start") || !strcmp(event, "resume") || !strcmp(event, "resumed")) {
        result = read_resume(l, o);
    } else if (!strcmp(event, "epoch") || !strcmp(event, "checkpoint")) {
        l->kind = *event == 'e' ? ISO_AUDIT_EPOCH : ISO_AUDIT_CHECKPOINT;
        get_whole(o, "round", &l->round);
        l->best = json_is_true(json_object_get(o, "best"));
    } else if (!strcmp(event, "done")) {
        uint64_t crc;
        l->kind = ISO_AUDIT_DONE;
        l->vouches = get_hex(o, "summary", 8, &crc);
        l->summary = (uint32_t)crc;
    }
    json_decref(o);
    return result;
}

int iso_audit_line_parse(iso_audit_line_read *l, const char *text, size_t size, const iso_alloc *a)
{
    bool ours;
    l->kind = ISO_AUDIT_OTHER;
    l->round = l->epoch = l->samples = l->epochs = l->job = 0;
    l->mark[0] = 0;
    l->best = l->vouches = false;
    l->spans = 0;
    int result = parse_ours(l, text, size, a, &ours);
    if (ours && !result)
        l->kind = ISO_AUDIT_COUNTED;
    if (!ours && !result) {
        l->spans = 0;
        result = parse_json(l, text, size, a);
    }
    if (result == ISO_E_ARGUMENT)
        result = bad(l, "positions are empty or not in ascending order");
    if (!result && l->kind == ISO_AUDIT_COUNTED && (!l->round || !l->epoch))
        result = bad(l, "rounds and epochs count from 1");
    return result;
}

void iso_audit_line_fini(iso_audit_line_read *l, const iso_alloc *a)
{
    iso_free(a, l->span);
    *l = (iso_audit_line_read){.kind = ISO_AUDIT_OTHER};
}

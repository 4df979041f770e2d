/* SPDX-License-Identifier: Apache-2.0
 * The check of an audit log (audit.h).
 *
 * Two readings of the events: the first finds the resumes, since they take back lines that stand before them; the
 * second counts what stands, round by round, and holds each round against its line of metrics.jsonl. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run/audit.h"
#include "engine/run/audit_line.h"
#include "engine/run/tally.h"

typedef struct resume_point {
    size_t offset;  /* of its line */
    uint64_t round; /* the least of this and all later ones: rounds above it that stand before are taken back */
} resume_point;

typedef struct metrics_line {
    uint64_t round;
    size_t offset, size, line; /* line: its number */
    bool seen;
} metrics_line;

/* What one node counted in the round being read. */
typedef struct counted {
    char node[ISO_NODE_NAME_MAX];
    uint64_t samples;
    size_t line;
    bool again; /* was told already */
} counted;

typedef struct check {
    const iso_audit_input *in;
    iso_audit *out;
    iso_error *error;
    iso_tally tally;
    iso_audit_line_read read;
    iso_buffer resumes; /* resume_point */
    iso_buffer metrics; /* metrics_line, rounds ascending */
    iso_buffer nodes;   /* counted, of round `round` */
    uint64_t round, epoch;
    size_t next_resume;
} check;

/* The elements of a buffer of structs. */
#define ITEMS(type, buffer) ((type *)(void *)(buffer).bytes)
#define COUNT(type, buffer) ((buffer).size / sizeof(type))

void iso_audit_fault(iso_audit *a, const char *format, ...)
{
    a->faults++;
    if (a->fault_count == ISO_AUDIT_FAULTS_MAX)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(a->fault[a->fault_count++], sizeof a->fault[0], format, list);
    va_end(list);
}

static int no_memory(check *c)
{
    return iso_error_set(c->error, ISO_E_NOMEM, "%s: no memory to count %" PRIu64 " samples in %" PRIu32 " epochs",
                         c->in->events_name, c->out->samples, c->out->epochs);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

typedef struct lines {
    const char *text;
    size_t size, offset, length, number; /* of the present line, without its newline */
    size_t next;
} lines;

/* The next whole line; false at the end, where what is left has no newline. */
static bool next_line(lines *l)
{
    const char *end = l->next < l->size ? memchr(l->text + l->next, '\n', l->size - l->next) : NULL;
    if (!end)
        return false;
    l->offset = l->next;
    l->length = (size_t)(end - l->text) - l->next;
    l->next += l->length + 1;
    l->number++;
    return true;
}

/* ---- first reading: resumes ---------------------------------------------------------------------------- */

/* What the log says of the training: the same whenever it says it. */
static void learn_size(check *c, size_t number)
{
    const iso_audit_line_read *r = &c->read;
    if (r->samples && !c->out->samples)
        c->out->samples = r->samples;
    if (r->epochs && r->epochs <= UINT32_MAX && !c->out->epochs)
        c->out->epochs = (uint32_t)r->epochs;
    if (r->samples && r->samples != c->out->samples)
        iso_audit_fault(c->out, "%s:%zu: a training of %" PRIu64 " samples; this run has %" PRIu64, c->in->events_name,
                        number, r->samples, c->out->samples);
    if (r->epochs && r->epochs != c->out->epochs)
        iso_audit_fault(c->out, "%s:%zu: a training of %" PRIu64 " epochs; this run has %" PRIu32, c->in->events_name,
                        number, r->epochs, c->out->epochs);
}

static int find_resumes(check *c)
{
    lines l = {.text = c->in->events, .size = c->in->events_size};
    bool since = false; /* counted lines since the last resume: the engine and the core each write a line of it */
    while (next_line(&l)) {
        int r = iso_audit_line_parse(&c->read, l.text + l.offset, l.length, c->in->alloc);
        if (r)
            return no_memory(c);
        since |= c->read.kind == ISO_AUDIT_COUNTED;
        if (c->read.kind == ISO_AUDIT_BAD)
            iso_audit_fault(c->out, "%s:%zu: %s", c->in->events_name, l.number, c->read.why);
        if (c->read.kind != ISO_AUDIT_RESUME)
            continue;
        learn_size(c, l.number);
        if (!iso_buffer_put(&c->resumes, &(resume_point){l.offset, c->read.round}, sizeof(resume_point)))
            return no_memory(c);
        c->out->resumes += since;
        since = false;
    }
    c->out->cut = l.next < l.size;
    if (!l.number)
        return iso_error_set(c->error, ISO_E_FORMAT, "%s: no whole line in it", c->in->events_name);
    resume_point *p = ITEMS(resume_point, c->resumes);
    for (size_t i = COUNT(resume_point, c->resumes); i-- > 1;)
        if (p[i].round < p[i - 1].round)
            p[i - 1].round = p[i].round;
    return ISO_OK;
}

/* Does a later resume take back round `round` of the line at `offset`? Lines come in their order. */
static bool taken_back(check *c, size_t offset, uint64_t round)
{
    const resume_point *p = ITEMS(resume_point, c->resumes);
    size_t count = COUNT(resume_point, c->resumes);
    while (c->next_resume < count && p[c->next_resume].offset < offset)
        c->next_resume++;
    return c->next_resume < count && round > p[c->next_resume].round;
}

/* ---- metrics ------------------------------------------------------------------------------------------- */

/* The round of a metrics line; 0 when it has none. */
static uint64_t round_of(const char *text, size_t size)
{
    json_t *o = json_loadb(text, size, 0, NULL);
    json_int_t round = json_integer_value(json_object_get(o, "round"));
    json_decref(o);
    return round > 0 ? (uint64_t)round : 0;
}

/* Places of the lines by round; a line takes back those before it whose round is not below its own. */
static int find_metrics(check *c)
{
    lines l = {.text = c->in->metrics, .size = c->in->metrics ? c->in->metrics_size : 0};
    while (next_line(&l)) {
        metrics_line m = {.offset = l.offset, .size = l.length, .line = l.number};
        m.round = round_of(l.text + l.offset, l.length);
        if (!m.round) {
            iso_audit_fault(c->out, "%s:%zu: not a line of a round", c->in->metrics_name, l.number);
            continue;
        }
        while (c->metrics.size && ITEMS(metrics_line, c->metrics)[COUNT(metrics_line, c->metrics) - 1].round >= m.round)
            c->metrics.size -= sizeof m;
        if (!iso_buffer_put(&c->metrics, &m, sizeof m))
            return no_memory(c);
    }
    return ISO_OK;
}

static metrics_line *metrics_of(check *c, uint64_t round)
{
    metrics_line *m = ITEMS(metrics_line, c->metrics);
    size_t low = 0, high = COUNT(metrics_line, c->metrics);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m[middle].round < round)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(metrics_line, c->metrics) && m[low].round == round ? &m[low] : NULL;
}

static int by_node(const void *a, const void *b)
{
    return strcmp(((const counted *)a)->node, ((const counted *)b)->node);
}

static counted *node_of(check *c, const char *name)
{
    counted key;
    snprintf(key.node, sizeof key.node, "%s", name);
    size_t count = COUNT(counted, c->nodes);
    return count ? bsearch(&key, c->nodes.bytes, count, sizeof key, by_node) : NULL;
}

/* The nodes of a metrics line against those that counted; c->nodes is sorted. */
static void compare_nodes(check *c, const metrics_line *m, const json_t *list, uint64_t epoch)
{
    size_t i;
    const json_t *o;
    json_array_foreach(list, i, o)
    {
        const char *name = json_string_value(json_object_get(o, "name"));
        json_int_t samples = json_integer_value(json_object_get(o, "samples"));
        const counted *n = name ? node_of(c, name) : NULL;
        uint64_t have = n ? n->samples : 0;
        if (name && (samples < 0 || (uint64_t)samples != have))
            iso_audit_fault(c->out,
                            "epoch %" PRIu64 ", round %" PRIu64
                            ", node %s: %s:%zu has %lld samples, the audit log %" PRIu64,
                            epoch, m->round, name, c->in->metrics_name, m->line, (long long)samples, have);
    }
}

/* Holds the round that has been read, or one without a counted line, against its metrics. */
static void compare_metrics(check *c, metrics_line *m)
{
    m->seen = true;
    json_t *o = json_loadb(c->in->metrics + m->offset, m->size, 0, NULL);
    json_int_t samples = json_integer_value(json_object_get(o, "samples")),
               epoch = json_integer_value(json_object_get(o, "epoch"));
    uint64_t before = c->out->faults, have = 0;
    for (size_t i = 0; i < COUNT(counted, c->nodes); i++)
        have += ITEMS(counted, c->nodes)[i].samples;
    compare_nodes(c, m, json_object_get(o, "nodes"), (uint64_t)(epoch > 0 ? epoch : 0));
    if (c->out->faults == before && (samples < 0 || (uint64_t)samples != have))
        iso_audit_fault(c->out, "epoch %lld, round %" PRIu64 ": %s:%zu has %lld samples, the audit log %" PRIu64,
                        (long long)epoch, m->round, c->in->metrics_name, m->line, (long long)samples, have);
    json_decref(o);
}

/* ---- second reading: counts ---------------------------------------------------------------------------- */

/* Rounds up to here have all their lines: they were written in order. */
static uint64_t vouched(const check *c)
{
    uint64_t before_last = c->out->last_round ? c->out->last_round - 1 : 0;
    return c->in->finished ? UINT64_MAX : c->in->border > before_last ? c->in->border : before_last;
}

/* The lines of one round are together. last: none follows, so that its metrics may not have been written. */
static void end_round(check *c, bool last)
{
    size_t count = COUNT(counted, c->nodes);
    if (!count)
        return;
    counted *n = ITEMS(counted, c->nodes);
    qsort(n, count, sizeof *n, by_node);
    for (size_t i = 1; i < count; i++)
        if (!by_node(&n[i - 1], &n[i]) && !n[i].again && !n[i - 1].again)
            iso_audit_fault(c->out,
                            "%s:%zu: epoch %" PRIu64 ", round %" PRIu64
                            ", node %s: the node has a line in this round already",
                            c->in->events_name, n[i].line > n[i - 1].line ? n[i].line : n[i - 1].line, c->epoch,
                            c->round, n[i].node);
    metrics_line *m = metrics_of(c, c->round);
    if (m && !m->seen && (!last || c->round <= vouched(c)))
        compare_metrics(c, m);
    iso_buffer_clear(&c->nodes);
    c->out->rounds++;
}

/* Rounds and epochs only grow. */
static void check_order(check *c, size_t number)
{
    const iso_audit_line_read *r = &c->read;
    if (r->round != c->round) {
        end_round(c, false);
        if (r->round < c->round)
            iso_audit_fault(c->out, "%s:%zu: round %" PRIu64 " behind round %" PRIu64, c->in->events_name, number,
                            r->round, c->round);
    }
    if (r->epoch < c->epoch || (r->round == c->round && r->epoch != c->epoch))
        iso_audit_fault(c->out,
                        "%s:%zu: round %" PRIu64 " of epoch %" PRIu64 " behind round %" PRIu64 " of epoch %" PRIu64,
                        c->in->events_name, number, r->round, r->epoch, c->round, c->epoch);
    c->round = r->round;
    c->epoch = r->epoch;
}

static int count_line(check *c, size_t number)
{
    const iso_audit_line_read *r = &c->read;
    iso_audit *o = c->out;
    check_order(c, number);
    counted n = {.line = number};
    memcpy(n.node, r->node, sizeof n.node);
    for (size_t i = 0; i < r->spans; i++) {
        const iso_audit_span *s = &r->span[i];
        uint64_t again, first_again;
        int result = r->epoch > o->epochs
                         ? ISO_E_ARGUMENT
                         : iso_tally_add(&c->tally, (uint32_t)(r->epoch - 1), s->first, s->count, &again, &first_again);
        if (result == ISO_E_ARGUMENT) {
            iso_audit_fault(c->out,
                            "%s:%zu: positions %" PRIu64 " to %" PRIu64 " of epoch %" PRIu64
                            " are not in this training of %" PRIu32 " epochs of %" PRIu64 " samples",
                            c->in->events_name, number, s->first, s->first + s->count - 1, r->epoch, o->epochs,
                            o->samples);
            continue;
        }
        if (result)
            return no_memory(c);
        n.samples += s->count;
        if (again)
            iso_audit_fault(c->out,
                            "%s:%zu: epoch %" PRIu64 ", round %" PRIu64 ", node %s: %" PRIu64
                            " samples had been counted before, the first at position %" PRIu64,
                            c->in->events_name, number, r->epoch, r->round, r->node, again, first_again);
        n.again |= again > 0;
    }
    o->lines++;
    o->last_round = r->round > o->last_round ? r->round : o->last_round;
    if (r->round <= c->in->border || c->in->finished)
        o->settled += n.samples;
    return iso_buffer_put(&c->nodes, &n, sizeof n) ? ISO_OK : no_memory(c);
}

static int count_lines(check *c)
{
    lines l = {.text = c->in->events, .size = c->in->events_size};
    while (next_line(&l)) {
        int r = iso_audit_line_parse(&c->read, l.text + l.offset, l.length, c->in->alloc);
        if (r)
            return no_memory(c);
        if (c->read.kind != ISO_AUDIT_COUNTED)
            continue;
        if (taken_back(c, l.offset, c->read.round)) {
            c->out->superseded++;
            continue;
        }
        r = count_line(c, l.number);
        if (r)
            return r;
    }
    end_round(c, true);
    return ISO_OK;
}

/* ---- verdict ------------------------------------------------------------------------------------------- */

/* Rounds that metrics.jsonl knows and the audit log does not. */
static void find_missing_rounds(check *c)
{
    metrics_line *m = ITEMS(metrics_line, c->metrics);
    for (size_t i = 0; i < COUNT(metrics_line, c->metrics); i++)
        if (!m[i].seen && m[i].round <= vouched(c))
            compare_metrics(c, &m[i]);
}

static void tell_never(check *c, uint32_t epoch, uint64_t never)
{
    uint64_t first = 0, run = iso_tally_run(&c->tally, epoch, 0, 0, &first);
    if (run == 1)
        iso_audit_fault(c->out,
                        "epoch %" PRIu32 ": %" PRIu64 " samples were never counted, the first at position %" PRIu64,
                        epoch + 1, never, first);
    else
        iso_audit_fault(c->out,
                        "epoch %" PRIu32 ": %" PRIu64 " samples were never counted, the first at positions %" PRIu64
                        " to %" PRIu64,
                        epoch + 1, never, first, first + run - 1);
}

static int judge(check *c)
{
    iso_audit *o = c->out;
    o->epoch = iso_new(c->in->alloc, o->epochs, sizeof *o->epoch);
    if (!o->epoch)
        return no_memory(c);
    if (o->lines)
        find_missing_rounds(c);
    else
        iso_audit_fault(c->out, "%s: nothing was counted%s", c->in->events_name,
                        o->finished ? ": the run was made without an audit log" : " yet");
    uint32_t last = 0;
    for (uint32_t i = 0; i < o->epochs; i++) {
        const iso_tally_epoch *e = &c->tally.epoch[i];
        o->epoch[i] = (iso_audit_epoch){e->counted - e->more_count, e->more_count, o->samples - e->counted};
        last = e->counted ? i + 1 : last;
        if (o->whole == i && o->epoch[i].once == o->samples)
            o->whole = i + 1;
    }
    o->epoch_count = o->finished ? o->epochs : last;
    for (uint32_t i = 0; i < o->epochs;
         i++) /* lines come in order: what stands before the last epoch is all there is */
        if (o->epoch[i].never && (o->finished || i + 1 < last))
            tell_never(c, i, o->epoch[i].never);
    if (o->finished && o->cut)
        iso_audit_fault(c->out, "%s: its last line is cut", c->in->events_name);
    return ISO_OK;
}

int iso_audit_check(const iso_audit_input *in, iso_audit *out, iso_error *e)
{
    *out = (iso_audit){.samples = in->samples, .epochs = in->epochs, .finished = in->finished, .border = in->border};
    check c = {.in = in, .out = out, .error = e};
    iso_buffer_init(&c.resumes, in->alloc, 0);
    iso_buffer_init(&c.metrics, in->alloc, 0);
    iso_buffer_init(&c.nodes, in->alloc, 0);
    int r = find_resumes(&c);
    if (!r && (!out->samples || !out->epochs))
        r = iso_error_set(e, ISO_E_FORMAT, "%s: no start line says how many samples and epochs there are",
                          in->events_name);
    if (!r && iso_tally_init(&c.tally, out->samples, out->epochs, in->alloc))
        r = no_memory(&c);
    if (!r)
        r = find_metrics(&c);
    if (!r)
        r = count_lines(&c);
    if (!r)
        r = judge(&c);
    iso_tally_fini(&c.tally);
    iso_audit_line_fini(&c.read, in->alloc);
    iso_buffer_fini(&c.resumes);
    iso_buffer_fini(&c.metrics);
    iso_buffer_fini(&c.nodes);
    return r;
}

void iso_audit_clear(iso_audit *a, const iso_alloc *alloc)
{
    iso_free(alloc, a->epoch);
    a->epoch = NULL;
    a->epoch_count = 0;
}

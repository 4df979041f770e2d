/* SPDX-License-Identifier: Apache-2.0
 * The check of an audit log (audit.h).
 *
 * Two readings of the events: the first follows the trail and finds the resumes, since they take back lines that stand
 * before them; the second counts what stands, round by round, and holds each round against its line of metrics.jsonl. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run/audit.h"
#include "engine/run/audit_line.h"
#include "engine/run/journal.h"
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
    bool held;  /* its line of metrics.jsonl has it */
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
    iso_trail trail;
    size_t checked; /* lines up to here are vouched for */
    uint64_t round, epoch, bare, first_bare, pending;
    size_t next_resume;
} check;

/* The elements of a buffer of structs. */
#define ITEMS(type, buffer) ((type *)(void *)(buffer).bytes)
#define COUNT(type, buffer) ((buffer).size / sizeof(type))

#define SENTENCE_MAX sizeof((iso_audit *)0)->fault[0]

void iso_audit_fault(iso_audit *a, const char *format, ...)
{
    a->faults++;
    if (a->fault_count == ISO_AUDIT_FAULTS_MAX)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(a->fault[a->fault_count++], SENTENCE_MAX, format, list);
    va_end(list);
}

void iso_audit_missing(iso_audit *a, const char *format, ...)
{
    a->missing++;
    if (a->missing_count == ISO_AUDIT_FAULTS_MAX)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(a->lack[a->missing_count++], SENTENCE_MAX, format, list);
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

/* ---- the trail ----------------------------------------------------------------------------------------- */

/* One line of a log whose run has a mark. optional: it need have no check. */
static void follow(check *c, const char *name, const lines *l, bool optional)
{
    iso_trail_state state = iso_trail_follow(&c->trail, l->text + l->offset, l->length);
    if (state == ISO_TRAIL_NONE && !optional)
        iso_audit_fault(c->out, "%s:%zu: the line has no check sum: this run did not write it", name, l->number);
    if (state == ISO_TRAIL_BROKEN)
        iso_audit_fault(c->out,
                        "%s:%zu: its check sum does not fit: a line from %zu to here was changed, lost, doubled or is of another run",
                        name, l->number, c->checked + 1);
    if (state != ISO_TRAIL_NONE)
        c->checked = l->number;
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

/* What the run was, whenever the log says it. */
static void learn_run(check *c, const lines *l)
{
    const iso_audit_line_read *r = &c->read;
    iso_audit *o = c->out;
    learn_size(c, l->number);
    if (r->job && !o->job)
        o->job = r->job;
    if (r->job != o->job && r->job)
        iso_audit_fault(o, "%s:%zu: the job is another one than that the log begins with", c->in->events_name, l->number);
    if (r->mark[0] && !o->mark[0]) {
        memcpy(o->mark, r->mark, sizeof o->mark);
        o->marked = l->number == 1;
        iso_trail_begin(&c->trail, o->mark, l->text, l->offset);
    }
    if (r->mark[0] && strcmp(r->mark, o->mark) != 0)
        iso_audit_fault(o, "%s:%zu: it bears the mark %s, the log %s: it is of another run", c->in->events_name, l->number, r->mark,
                        o->mark);
}

/* Lines in their order: the log begins with a start and ends with its end. */
static void learn_line(check *c, const lines *l)
{
    const iso_audit_line_read *r = &c->read;
    iso_audit *o = c->out;
    if (r->kind == ISO_AUDIT_BAD)
        iso_audit_fault(o, "%s:%zu: %s", c->in->events_name, l->number, r->why);
    else if (l->number == 1 && r->kind != ISO_AUDIT_RESUME)
        iso_audit_fault(o, "%s:1: a log begins with the line of its start", c->in->events_name);
    if (r->kind == ISO_AUDIT_RESUME)
        learn_run(c, l);
    else if (o->ended)
        iso_audit_fault(o, "%s:%zu: a line behind the end of the run", c->in->events_name, l->number);
    o->ended = r->kind == ISO_AUDIT_DONE || (o->ended && r->kind != ISO_AUDIT_RESUME);
    if (r->kind == ISO_AUDIT_DONE) {
        o->vouches = r->vouches;
        o->summary = r->summary;
    }
    if (o->mark[0])
        follow(c, c->in->events_name, l, !o->marked || r->kind == ISO_AUDIT_COUNTED || r->kind == ISO_AUDIT_BAD);
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
        learn_line(c, &l);
        if (c->read.kind != ISO_AUDIT_RESUME)
            continue;
        if (!iso_buffer_put(&c->resumes, &(resume_point){l.offset, c->read.round}, sizeof(resume_point)))
            return no_memory(c);
        c->out->resumes += since;
        since = false;
    }
    c->out->cut = l.next < l.size;
    c->out->finished |= c->out->ended;
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
    iso_trail_begin(&c->trail, c->out->mark, NULL, 0);
    c->checked = 0;
    while (next_line(&l)) {
        if (c->out->mark[0])
            follow(c, c->in->metrics_name, &l, !c->out->marked);
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
    if (c->out->finished && l.next < l.size)
        iso_audit_fault(c->out, "%s: its last line is cut", c->in->metrics_name);
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
        counted *n = name ? node_of(c, name) : NULL;
        uint64_t have = n ? n->samples : 0;
        if (n)
            n->held = true;
        if (name && (samples < 0 || (uint64_t)samples != have))
            iso_audit_fault(c->out,
                            "epoch %" PRIu64 ", round %" PRIu64
                            ", node %s: %s:%zu has %lld samples, the audit log %" PRIu64,
                            epoch, m->round, name, c->in->metrics_name, m->line, (long long)samples, have);
    }
    for (i = 0; i < COUNT(counted, c->nodes); i++) {
        const counted *n = &ITEMS(counted, c->nodes)[i];
        if (!n->held)
            iso_audit_fault(c->out,
                            "epoch %" PRIu64 ", round %" PRIu64 ", node %s: the audit log counts %" PRIu64
                            " samples, %s:%zu has no such node",
                            epoch, m->round, n->node, n->samples, c->in->metrics_name, m->line);
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
    if (COUNT(counted, c->nodes) && (epoch < 0 || (uint64_t)epoch != c->epoch))
        iso_audit_fault(c->out, "epoch %" PRIu64 ", round %" PRIu64 ": %s:%zu has it in epoch %lld", c->epoch, m->round,
                        c->in->metrics_name, m->line, (long long)epoch);
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
    return c->out->finished ? UINT64_MAX : c->in->border > before_last ? c->in->border : before_last;
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
    bool due = !last || c->round <= vouched(c);
    if (m && !m->seen && due)
        compare_metrics(c, m);
    if (!m && due && c->bare++ == 0)
        c->first_bare = c->round;
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
    if (r->round <= c->in->border || o->finished)
        o->settled += n.samples;
    return iso_buffer_put(&c->nodes, &n, sizeof n) ? ISO_OK : no_memory(c);
}

/* What the log says of files: the best epoch, and a checkpoint, which was written when something follows its line. */
static void note_files(check *c)
{
    const iso_audit_line_read *r = &c->read;
    if (c->pending && r->kind != ISO_AUDIT_RESUME)
        c->out->kept = c->pending;
    c->pending = r->kind == ISO_AUDIT_CHECKPOINT ? r->round : 0;
    if (r->kind == ISO_AUDIT_EPOCH && r->best)
        c->out->best = r->round;
}

static int count_lines(check *c)
{
    lines l = {.text = c->in->events, .size = c->in->events_size};
    while (next_line(&l)) {
        int r = iso_audit_line_parse(&c->read, l.text + l.offset, l.length, c->in->alloc);
        if (r)
            return no_memory(c);
        if (c->read.round && taken_back(c, l.offset, c->read.round)) {
            c->out->superseded += c->read.kind == ISO_AUDIT_COUNTED;
            continue;
        }
        note_files(c);
        if (c->read.kind != ISO_AUDIT_COUNTED)
            continue;
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

/* Rounds that have no line in metrics.jsonl. */
static void tell_bare(check *c)
{
    if (c->bare && !c->in->metrics)
        iso_audit_missing(c->out, "%s is not there: none of %" PRIu64 " rounds was held against it", c->in->metrics_name, c->bare);
    else if (c->bare)
        iso_audit_missing(c->out,
                          "%s has no line of %" PRIu64 " of %" PRIu64 " rounds, the first is round %" PRIu64
                          ": they were not held against it",
                          c->in->metrics_name, c->bare, c->out->rounds, c->first_bare);
}

static int judge(check *c)
{
    iso_audit *o = c->out;
    o->epoch = iso_new(c->in->alloc, o->epochs, sizeof *o->epoch);
    if (!o->epoch)
        return no_memory(c);
    if (o->lines)
        find_missing_rounds(c);
    else if (o->finished || c->in->border)
        iso_audit_fault(o, "%s: nothing was counted: the run was made without an audit log", c->in->events_name);
    tell_bare(c);
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

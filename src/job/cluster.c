/* SPDX-License-Identifier: Apache-2.0
 * The cluster file: a tree into nodes, links and fates, driven by tables of fields. */
#include "isochron/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/quantity.h"
#include "job/schema.h"
#include "job/words.h"

enum { FIELDS_MAX = 32, NODE_COUNT_MAX = ISO_CLUSTER_NODES_MAX };

typedef enum field_type {
    FIELD_NAME, FIELD_NUMBER, FIELD_COUNT, FIELD_TIME, FIELD_BANDWIDTH, FIELD_BYTES, FIELD_CHANCE, FIELD_BOOL, FIELD_SHAPE,
    FIELD_MAP, FIELD_FATES
} field_type;

static const char *const type_names[] = {"name",   "number", "whole number", "time",  "bandwidth", "bytes",
                                         "chance", "bool",   "word",         "keys", "list"};
static const char *const shapes[] = {"none", "sine", "square", "ramp", NULL};

typedef struct field {
    const char *name;
    field_type type;
    size_t offset;
    double min, max;                  /* of numbers; of times in seconds */
    const struct field *fields;       /* MAP */
    const char *standard, *help;
} field;

/* A node with what only the file knows of it. */
typedef struct draft {
    iso_cluster_node node;
    uint64_t count;
} draft;

/* One entry of `events`. */
typedef struct draft_fate {
    double speed;                     /* NaN: not given */
    int64_t at, pause;
    bool crash, join;
} draft_fate;

#define LINK(member) offsetof(iso_link, member)
static const field link_fields[] = {
    {"bandwidth", FIELD_BANDWIDTH, LINK(bandwidth), 0, 0, NULL, "1Gbit", "a second, each way"},
    {"latency", FIELD_TIME, LINK(latency), 0, 1000, NULL, "0.5ms", "one way"},
    {"loss", FIELD_CHANCE, LINK(loss), 0, 0, NULL, "0/1000", "frames that do not arrive"},
    {"duplicate", FIELD_CHANCE, LINK(duplicate), 0, 0, NULL, "0/1000", "frames that arrive twice"},
    {"reorder", FIELD_CHANCE, LINK(reorder), 0, 0, NULL, "0/1000", "frames that are overtaken"},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};
#define NODE(member) offsetof(draft, node.member)
static const field outlier_fields[] = {
    {"rate", FIELD_CHANCE, NODE(outlier), 0, 0, NULL, "", "units that take much longer"},
    {"factor", FIELD_NUMBER, NODE(outlier_factor), 1, 1e6, NULL, "4", "so many times as long"},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};
static const field drift_fields[] = {
    {"shape", FIELD_SHAPE, NODE(drift), 0, 0, NULL, "sine", "sine, square or ramp"},
    {"amplitude", FIELD_NUMBER, NODE(drift_amplitude), 0, 0.99, NULL, "0.5", "part of the speed that comes and goes"},
    {"period", FIELD_TIME, NODE(drift_period), 1e-6, 1e9, NULL, "20s", ""},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};
static const field burst_fields[] = {
    {"every", FIELD_TIME, NODE(burst_every), 1e-6, 1e9, NULL, "10s", "about so often a neighbour makes noise"},
    {"length", FIELD_TIME, NODE(burst_length), 1e-6, 1e9, NULL, "2s", "for so long"},
    {"factor", FIELD_NUMBER, NODE(burst_factor), 1, 1e6, NULL, "3", "units take so many times as long meanwhile"},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};
static const field node_fields[] = {
    {"name", FIELD_NAME, NODE(name), 0, 0, NULL, "", "else node-1, node-2, ..."},
    {"count", FIELD_COUNT, offsetof(draft, count), 1, NODE_COUNT_MAX, NULL, "1", "so many alike: name-1, name-2, ..."},
    {"speed", FIELD_NUMBER, NODE(speed), 1e-6, 1e12, NULL, "", "samples a second of the job's model"},
    {"overhead", FIELD_TIME, NODE(overhead), 0, 1000, NULL, "0s", "at the beginning of every order"},
    {"memory", FIELD_BYTES, NODE(memory), 0, 0, NULL, "", "bounds the units of an order"},
    {"noise", FIELD_NUMBER, NODE(noise), 0, 3, NULL, "0", "deviation of the logarithm of a unit's time"},
    {"outliers", FIELD_MAP, 0, 0, 0, outlier_fields, "", ""},
    {"drift", FIELD_MAP, 0, 0, 0, drift_fields, "", ""},
    {"bursts", FIELD_MAP, 0, 0, 0, burst_fields, "", ""},
    {"absent", FIELD_BOOL, NODE(absent), 0, 0, NULL, "false", "not there until an event says join"},
    {"link", FIELD_MAP, NODE(link), 0, 0, link_fields, "", "its own link; else the cluster's"},
    {"events", FIELD_FATES, 0, 0, 0, NULL, "", "what happens to it, by time"},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};
#define FATE(member) offsetof(draft_fate, member)
static const field fate_fields[] = {
    {"at", FIELD_TIME, FATE(at), 0, 1e9, NULL, "", "time since the start"},
    {"speed", FIELD_NUMBER, FATE(speed), 1e-6, 1e12, NULL, "", "it is so fast from now on"},
    {"pause", FIELD_TIME, FATE(pause), 1e-9, 1e9, NULL, "", "it stands still for so long"},
    {"crash", FIELD_BOOL, FATE(crash), 0, 0, NULL, "", "it is gone"},
    {"join", FIELD_BOOL, FATE(join), 0, 0, NULL, "", "it comes (back)"},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};
static const field coordinator_fields[] = {
    {"bandwidth", FIELD_BANDWIDTH, offsetof(iso_cluster, bandwidth), 0, 0, NULL, "", "of its own link, each way; else the cluster's"},
    {NULL, FIELD_NAME, 0, 0, 0, NULL, NULL, NULL},
};

typedef struct reader {
    job_source source;
    iso_cluster *cluster;
    iso_buffer nodes, fates;          /* iso_cluster_node, iso_fate */
    iso_error *e;
} reader;

static const tree_node *at(const reader *r, uint32_t node)
{
    return iso_tree_node(r->source.tree, node);
}

static int fail(reader *r, uint32_t node)
{
    return iso_job_fail_at(&r->source, node, r->e);
}

static int no_memory(reader *r)
{
    return iso_error_set(r->e, ISO_E_NOMEM, "no memory for the cluster's nodes");
}

static int wants(reader *r, uint32_t node, const char *key, const char *what)
{
    char shown[ISO_SHOW_BYTES];
    iso_error_set(r->e, ISO_E_JOB, "%s wants %s, found %s", key, what, iso_job_node_shown(&r->source, node, shown));
    return fail(r, node);
}

static int read_number(reader *r, const field *f, uint32_t node, const char *text, void *to)
{
    char what[160], low[ISO_NUMBER_TEXT], high[ISO_NUMBER_TEXT];
    double value;
    bool good;
    iso_print_double(low, f->min);
    iso_print_double(high, f->max);
    switch (f->type) {
    case FIELD_TIME:
        good = iso_quantity_time(text, &value) && value >= f->min * 1e9 && value <= f->max * 1e9;
        snprintf(what, sizeof what, "a time with its unit, 20us, 0.5ms, 3s or 2min, from %ss to %ss", low, high);
        if (good)
            *(int64_t *)to = (int64_t)value;
        break;
    case FIELD_BANDWIDTH:
        good = iso_quantity_bandwidth(text, &value);
        snprintf(what, sizeof what, "a bandwidth with its unit, 56kbit, 100Mbit or 1Gbit, above 0");
        if (good)
            *(double *)to = value;
        break;
    case FIELD_BYTES:
        good = iso_quantity_bytes(text, &value);
        snprintf(what, sizeof what, "bytes with their unit, 512MiB or 4GiB");
        if (good)
            *(uint64_t *)to = (uint64_t)value;
        break;
    default:
        good = iso_parse_double(text, strlen(text), &value) == ISO_PARSE_OK && value >= f->min && value <= f->max &&
               (f->type != FIELD_COUNT || value == floor(value));
        snprintf(what, sizeof what, "a %snumber from %s to %s", f->type == FIELD_COUNT ? "whole " : "", low, high);
        if (good && f->type == FIELD_COUNT)
            *(uint64_t *)to = (uint64_t)value;
        else if (good)
            *(double *)to = value;
    }
    return good ? ISO_OK : wants(r, node, f->name, what);
}

static int read_scalar(reader *r, const field *f, uint32_t node, void *to)
{
    if (at(r, node)->kind != TREE_SCALAR || iso_job_node_is_null(r->source.tree, node))
        return wants(r, node, f->name, type_names[f->type]);
    const char *text = iso_tree_text(r->source.tree, node);
    size_t words = 0;
    switch (f->type) {
    case FIELD_NAME:
        if (strlen(text) >= ISO_CLUSTER_NAME_MAX || !text[0] || !iso_is_utf8(text, strlen(text)))
            return wants(r, node, f->name, "a name of 1 to 31 bytes");
        memcpy(to, text, strlen(text) + 1);
        return ISO_OK;
    case FIELD_CHANCE:
        return iso_quantity_chance(text, &((iso_chance *)to)->part, &((iso_chance *)to)->of)
                   ? ISO_OK
                   : wants(r, node, f->name, "a chance as two whole numbers, 2/1000");
    case FIELD_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return wants(r, node, f->name, "true or false");
        *(bool *)to = text[0] == 't';
        return ISO_OK;
    case FIELD_SHAPE:
        for (; shapes[words]; words++)
            if (!strcmp(shapes[words], text)) {
                *(iso_drift_shape *)to = (iso_drift_shape)words;
                return ISO_OK;
            }
        iso_job_unknown(r->e, f->name, "word", text, shapes, words);
        return fail(r, node);
    default:
        return read_number(r, f, node, text, to);
    }
}

static const field *find(const field *fields, const char *name, uint32_t *index)
{
    for (*index = 0; fields[*index].name; (*index)++)
        if (!strcmp(fields[*index].name, name))
            return &fields[*index];
    return NULL;
}

static int unknown_key(reader *r, const field *fields, const char *of, uint32_t key)
{
    const char *words[FIELDS_MAX];
    size_t count = 0;
    for (; fields[count].name; count++)
        words[count] = fields[count].name;
    iso_job_unknown(r->e, of, "key", iso_tree_text(r->source.tree, key), words, count);
    return fail(r, key);
}

static int read_fates(reader *r, uint32_t list, draft *d);

/* One key of a map. Recursion is as deep as the tables: two. */
static int read_map(reader *r, const field *fields, const char *of, uint32_t map, void *to, draft *d)
{
    uint32_t seen = 0;
    if (at(r, map)->kind != TREE_MAP)
        return wants(r, map, of, "keys with values");
    for (uint32_t key = at(r, map)->child; key;) {
        uint32_t value = at(r, key)->next, index;
        const field *f = find(fields, iso_tree_text(r->source.tree, key), &index);
        if (!f)
            return unknown_key(r, fields, of, key);
        if (seen >> index & 1) {
            iso_error_set(r->e, ISO_E_JOB, "%s: key '%s' comes twice", of, f->name);
            return fail(r, key);
        }
        seen |= (uint32_t)1 << index;
        char *place = (char *)to + f->offset;
        int result = f->type == FIELD_MAP     ? read_map(r, f->fields, f->name, value, f->fields == link_fields ? place : to, d)
                     : f->type == FIELD_FATES ? read_fates(r, value, d)
                                              : read_scalar(r, f, value, place);
        if (result)
            return result;
        key = at(r, value)->next;
    }
    return ISO_OK;
}

/* ---- fates --------------------------------------------------------------------------------------------- */

static int read_fate(reader *r, uint32_t map, iso_fate *out)
{
    draft_fate f = {.speed = NAN, .at = -1};
    int result = read_map(r, fate_fields, "events", map, &f, NULL);
    if (result)
        return result;
    int given = !isnan(f.speed) + (f.pause > 0) + f.crash + f.join;
    if (f.at < 0 || given != 1)
        return wants(r, map, "an event", "a time `at` and one of speed, pause, crash, join");
    *out = (iso_fate){.at = f.at, .speed = f.speed, .pause = f.pause};
    out->kind = !isnan(f.speed) ? ISO_FATE_SPEED : f.pause > 0 ? ISO_FATE_PAUSE : f.crash ? ISO_FATE_CRASH : ISO_FATE_JOIN;
    return ISO_OK;
}

static int read_fates(reader *r, uint32_t list, draft *d)
{
    if (at(r, list)->kind != TREE_LIST)
        return wants(r, list, "events", "a list");
    d->node.fate = (uint32_t)(r->fates.size / sizeof(iso_fate));
    int64_t last = 0;
    for (uint32_t entry = at(r, list)->child; entry; entry = at(r, entry)->next) {
        iso_fate fate;
        int result = read_fate(r, entry, &fate);
        if (result)
            return result;
        if (fate.at < last)
            return wants(r, entry, "events", "times that do not go back");
        last = fate.at;
        d->node.fate_count++;
        if (!iso_buffer_put(&r->fates, &fate, sizeof fate))
            return no_memory(r);
    }
    return ISO_OK;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static int add_nodes(reader *r, const draft *d, uint32_t entry)
{
    size_t have = r->nodes.size / sizeof(iso_cluster_node);
    if (have + d->count > ISO_CLUSTER_NODES_MAX)
        return wants(r, entry, "nodes", "at most 65536 of them");
    for (uint64_t i = 0; i < d->count; i++) {
        iso_cluster_node n = d->node;
        char stem[ISO_CLUSTER_NAME_MAX];
        memcpy(stem, n.name[0] ? n.name : "node", n.name[0] ? sizeof stem : sizeof "node");
        int length = 0;
        if (d->count > 1)
            length = snprintf(n.name, sizeof n.name, "%.*s-%llu", (int)sizeof stem, stem, (unsigned long long)(i + 1));
        else if (!n.name[0])
            length = snprintf(n.name, sizeof n.name, "node-%zu", have + 1);
        if (length >= (int)sizeof n.name)
            return wants(r, entry, "name", "a shorter name");
        if (!iso_buffer_put(&r->nodes, &n, sizeof n))
            return no_memory(r);
    }
    return ISO_OK;
}

static int read_node(reader *r, uint32_t entry)
{
    draft d = {.count = 1, .node = {.outlier = {0, 1}, .outlier_factor = 4, .drift_amplitude = 0.5, .burst_factor = 3,
                                    .drift_period = 20000000000, .link = r->cluster->link}};
    int result = read_map(r, node_fields, "nodes", entry, &d, &d);
    if (result)
        return result;
    if (!(d.node.speed > 0))
        return wants(r, entry, "a node", "its speed in samples a second");
    if ((d.node.burst_every > 0) != (d.node.burst_length > 0) || d.node.burst_length > d.node.burst_every)
        return wants(r, entry, "bursts", "every and length, the second not above the first");
    return add_nodes(r, &d, entry);
}

static int read_nodes(reader *r, uint32_t list)
{
    if (at(r, list)->kind != TREE_LIST || !at(r, list)->child)
        return wants(r, list, "nodes", "a list of nodes");
    for (uint32_t entry = at(r, list)->child; entry; entry = at(r, entry)->next) {
        int result = read_node(r, entry);
        if (result)
            return result;
    }
    return ISO_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(reader *r, uint32_t list)
{
    const iso_cluster_node *node = (const void *)r->nodes.bytes;
    size_t count = r->nodes.size / sizeof *node;
    const char **name = iso_new_raw(r->cluster->alloc, count, sizeof *name);
    if (!name)
        return no_memory(r);
    for (size_t i = 0; i < count; i++)
        name[i] = node[i].name;
    qsort(name, count, sizeof *name, compare_names);
    int result = ISO_OK;
    for (size_t i = 1; i < count && result == ISO_OK; i++)
        if (!strcmp(name[i - 1], name[i])) {
            iso_error_set(r->e, ISO_E_JOB, "nodes: two are called '%s'", name[i]);
            result = fail(r, list);
        }
    iso_free(r->cluster->alloc, name);
    return result;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static const char *const top_words[] = {"link", "coordinator", "nodes"};

/* Links come first, whatever the order in the file: nodes begin with the cluster's. */
static int read_top(reader *r, uint32_t root)
{
    uint32_t value[3] = {0, 0, 0};
    if (!root || at(r, root)->kind != TREE_MAP)
        return iso_error_set(r->e, ISO_E_JOB, "%s: expected the keys link and nodes of a cluster", r->source.file);
    for (uint32_t key = at(r, root)->child; key; key = at(r, at(r, key)->next)->next) {
        uint32_t which = 0;
        while (which < 3 && strcmp(top_words[which], iso_tree_text(r->source.tree, key)))
            which++;
        if (which == 3) {
            iso_job_unknown(r->e, "", "key", iso_tree_text(r->source.tree, key), top_words, 3);
            return fail(r, key);
        }
        if (value[which]) {
            iso_error_set(r->e, ISO_E_JOB, "key '%s' comes twice", top_words[which]);
            return fail(r, key);
        }
        value[which] = at(r, key)->next;
    }
    int result = value[0] ? read_map(r, link_fields, "link", value[0], &r->cluster->link, NULL) : ISO_OK;
    r->cluster->bandwidth = r->cluster->link.bandwidth;
    if (result == ISO_OK && value[1])
        result = read_map(r, coordinator_fields, "coordinator", value[1], r->cluster, NULL);
    if (result == ISO_OK && !value[2])
        return iso_error_set(r->e, ISO_E_JOB, "%s: nodes are missing: - {name: a, speed: 4000}, one a line", r->source.file);
    if (result == ISO_OK)
        result = read_nodes(r, value[2]);
    return result == ISO_OK ? check_names(r, value[2]) : result;
}

int iso_cluster_parse(iso_cluster *out, const char *file, const char *text, size_t length, const iso_alloc *a, iso_error *e)
{
    iso_error own;
    const iso_alloc *alloc = a ? a : iso_alloc_default();
    const iso_chance never = {0, 1};
    *out = (iso_cluster){.alloc = alloc,
                         .link = {.bandwidth = 1e9, .latency = 500000, .loss = never, .duplicate = never, .reorder = never}};
    tree t;
    reader r = {.source = {.tree = &t, .file = file}, .cluster = out, .e = e ? e : &own};
    int result = iso_tree_parse(&t, file, text, length, alloc, r.e);
    if (result)
        return result;
    iso_buffer_init(&r.nodes, alloc, 0);
    iso_buffer_init(&r.fates, alloc, 0);
    result = read_top(&r, t.root);
    iso_tree_clear(&t);
    uint32_t nodes = (uint32_t)(r.nodes.size / sizeof *out->node), fates = (uint32_t)(r.fates.size / sizeof *out->fate);
    if (result == ISO_OK) {
        out->node = iso_new_raw(alloc, nodes, sizeof *out->node);
        out->fate = iso_new_raw(alloc, fates + 1, sizeof *out->fate);
        if (!out->node || !out->fate)
            result = no_memory(&r);
    }
    if (result == ISO_OK) {
        memcpy(out->node, r.nodes.bytes, r.nodes.size);
        if (fates)
            memcpy(out->fate, r.fates.bytes, r.fates.size);
        out->nodes = nodes;
        out->fates = fates;
    } else {
        iso_cluster_free(out);
    }
    iso_buffer_fini(&r.nodes);
    iso_buffer_fini(&r.fates);
    return result;
}

void iso_cluster_free(iso_cluster *c)
{
    if (!c->alloc)
        return;
    iso_free(c->alloc, c->node);
    iso_free(c->alloc, c->fate);
    *c = (iso_cluster){.nodes = 0};
}

double iso_cluster_speed(const iso_cluster *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->nodes; i++)
        sum += c->node[i].absent ? 0 : c->node[i].speed;
    return sum;
}

/* ---- help ---------------------------------------------------------------------------------------------- */

bool iso_cluster_key_at(uint32_t index, iso_cluster_key *out)
{
    static const struct {
        const char *section;
        const field *fields;
    } part[] = {{"link", link_fields},     {"coordinator", coordinator_fields}, {"nodes", node_fields}, {"nodes.outliers", outlier_fields},
                {"nodes.drift", drift_fields}, {"nodes.bursts", burst_fields},   {"nodes.events", fate_fields}};
    static _Thread_local char path[64];
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        for (const field *f = part[i].fields; f->name; f++) {
            if (index-- > 0)
                continue;
            snprintf(path, sizeof path, "%s.%s", part[i].section, f->name);
            *out = (iso_cluster_key){.path = path, .type = type_names[f->type], .standard = f->standard, .help = f->help};
            return true;
        }
    return false;
}

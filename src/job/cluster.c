/* SPDX-License-Identifier: Apache-2.0
 * A cluster file's tree into an iso_cluster. Every map of the file has a table of its plain keys; what is deeper has a reader of
 * its own. A machine that says nothing of its link has the file's. */
#include "job/cluster.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "job/schema.h"
#include "job/words.h"

#define YEAR_NS (365.0 * 86400e9)
#define KEYS_MAX 16u

static const cluster_key link_keys[] = {
    {"bandwidth", CLUSTER_BANDWIDTH, offsetof(iso_link, bandwidth), 0, 0},
    {"latency", CLUSTER_TIME, offsetof(iso_link, latency), 0, 3600e9},
    {"loss", CLUSTER_RATIO, offsetof(iso_link, loss), 0, 0},
    {"duplicate", CLUSTER_RATIO, offsetof(iso_link, duplicate), 0, 0},
    {"reorder", CLUSTER_RATIO, offsetof(iso_link, reorder), 0, 0},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

static const cluster_key coordinator_keys[] = {
    {"bandwidth", CLUSTER_BANDWIDTH, offsetof(iso_cluster, bandwidth), 0, 0},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

/* A machine as the file has it: `count` of them. */
typedef struct entry {
    iso_machine m;
    uint32_t count;
} entry;

#define IN_MACHINE(member) (offsetof(entry, m) + offsetof(iso_machine, member))

static const cluster_key machine_keys[] = {
    {"name", CLUSTER_NAME, IN_MACHINE(name), 0, 0},
    {"count", CLUSTER_COUNT, offsetof(entry, count), 1, ISO_CLUSTER_NODES_MAX},
    {"speed", CLUSTER_NUMBER, IN_MACHINE(speed), 1e-6, 1e12},
    {"overhead", CLUSTER_TIME, IN_MACHINE(overhead), 0, 3600e9},
    {"memory", CLUSTER_SIZE, IN_MACHINE(memory), 0, 0},
    {"noise", CLUSTER_NUMBER, IN_MACHINE(noise), 0, 3},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

static const cluster_key outlier_keys[] = {
    {"rate", CLUSTER_RATIO, IN_MACHINE(outliers), 0, 0},
    {"factor", CLUSTER_NUMBER, IN_MACHINE(outlier_factor), 1, 1e6},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

static const cluster_key drift_keys[] = {
    {"shape", CLUSTER_SHAPE, IN_MACHINE(drift), 0, 0},
    {"amplitude", CLUSTER_NUMBER, IN_MACHINE(amplitude), 0, 0.999},
    {"period", CLUSTER_TIME, IN_MACHINE(period), 1e3, YEAR_NS},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

static const cluster_key burst_keys[] = {
    {"every", CLUSTER_TIME, IN_MACHINE(burst_every), 1e3, YEAR_NS},
    {"length", CLUSTER_TIME, IN_MACHINE(burst_length), 1e3, YEAR_NS},
    {"factor", CLUSTER_NUMBER, IN_MACHINE(burst_factor), 1e-6, 1},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

/* What one map of `events` may say. */
typedef struct happening {
    int64_t at, pause;
    double speed;
    bool crash, join;
} happening;

static const cluster_key event_keys[] = {
    {"at", CLUSTER_TIME, offsetof(happening, at), 0, YEAR_NS},
    {"speed", CLUSTER_NUMBER, offsetof(happening, speed), 1e-6, 1e12},
    {"pause", CLUSTER_TIME, offsetof(happening, pause), 1, YEAR_NS},
    {"crash", CLUSTER_TRUE, offsetof(happening, crash), 0, 0},
    {"join", CLUSTER_TRUE, offsetof(happening, join), 0, 0},
    {NULL, CLUSTER_NAME, 0, 0, 0},
};

typedef struct reader {
    job_source source;
    iso_link link;                /* of machines that have none of their own */
    iso_cluster *out;
    iso_buffer machines, events;
    iso_error *e;
} reader;

/* A deeper key: reads its value into the same struct. */
typedef int deeper_read(reader *r, void *to, uint32_t node);
typedef struct deeper_key {
    const char *name;
    deeper_read *read;
} deeper_key;

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
    return iso_error_set(r->e, ISO_E_NOMEM, "no memory for the cluster of %s", r->source.file);
}

static int unknown_key(reader *r, const char *where, const cluster_key *keys, const deeper_key *deeper, uint32_t key)
{
    const char *words[KEYS_MAX];
    size_t count = 0;
    for (const cluster_key *k = keys; k->name; k++)
        words[count++] = k->name;
    for (const deeper_key *d = deeper; d && d->name; d++)
        words[count++] = d->name;
    iso_job_unknown(r->e, where, "key", iso_tree_text(r->source.tree, key), words, count);
    return fail(r, key);
}

static int read_key(reader *r, const char *where, const cluster_key *k, void *to, uint32_t value)
{
    char path[80], shown[80];
    snprintf(path, sizeof path, "%s%s%s", where, where[0] ? "." : "", k->name);
    if (at(r, value)->kind == TREE_SCALAR && !iso_job_node_is_null(r->source.tree, value)) {
        int result = iso_cluster_value(k, to, path, iso_tree_text(r->source.tree, value), r->e);
        return result ? fail(r, value) : ISO_OK;
    }
    iso_error_set(r->e, ISO_E_JOB, "%s wants one value, found %s", path, iso_job_node_shown(&r->source, value, shown));
    return fail(r, value);
}

/* A map by its tables. seen: bit i is key i of `keys`, behind them those of `deeper`; may be NULL. */
static int read_map(reader *r, const char *where, const cluster_key *keys, const deeper_key *deeper, void *to, uint32_t map,
                    uint32_t *seen)
{
    uint32_t had = 0;
    char shown[80];
    if (at(r, map)->kind != TREE_MAP) {
        iso_error_set(r->e, ISO_E_JOB, "%s wants keys with values, found %s", where[0] ? where : "a cluster file",
                      iso_job_node_shown(&r->source, map, shown));
        return fail(r, map);
    }
    for (uint32_t key = at(r, map)->child; key; key = at(r, at(r, key)->next)->next) {
        const char *name = iso_tree_text(r->source.tree, key);
        uint32_t bit = 1;
        const cluster_key *k = keys;
        for (; k->name && strcmp(k->name, name); k++)
            bit <<= 1;
        const deeper_key *d = k->name ? NULL : deeper;
        for (; d && d->name && strcmp(d->name, name); d++)
            bit <<= 1;
        if (!k->name && !(d && d->name))
            return unknown_key(r, where, keys, deeper, key);
        if (had & bit) {
            iso_error_set(r->e, ISO_E_JOB, "%s%s%s is there twice", where, where[0] ? "." : "", name);
            return fail(r, key);
        }
        had |= bit;
        uint32_t value = at(r, key)->next;
        int result = k->name ? read_key(r, where, k, to, value) : d->read(r, to, value);
        if (result)
            return result;
    }
    if (seen)
        *seen = had;
    return ISO_OK;
}

/* All keys of a small map must be there. */
static int read_whole(reader *r, const char *where, const cluster_key *keys, void *to, uint32_t map)
{
    uint32_t seen, bit = 1;
    int result = read_map(r, where, keys, NULL, to, map, &seen);
    for (const cluster_key *k = keys; !result && k->name; k++, bit <<= 1)
        if (!(seen & bit)) {
            iso_error_set(r->e, ISO_E_JOB, "%s needs %s as well", where, k->name);
            result = fail(r, map);
        }
    return result;
}

static int read_outliers(reader *r, void *to, uint32_t node)
{
    return read_whole(r, "nodes.outliers", outlier_keys, to, node);
}

static int read_drift(reader *r, void *to, uint32_t node)
{
    return read_whole(r, "nodes.drift", drift_keys, to, node);
}

static int read_bursts(reader *r, void *to, uint32_t node)
{
    const entry *one = to;
    int result = read_whole(r, "nodes.bursts", burst_keys, to, node);
    if (!result && one->m.burst_length > one->m.burst_every) {
        iso_error_set(r->e, ISO_E_JOB, "nodes.bursts: length is longer than every");
        result = fail(r, node);
    }
    return result;
}

static int read_own_link(reader *r, void *to, uint32_t node)
{
    entry *one = to;
    return read_map(r, "nodes.link", link_keys, NULL, &one->m.link, node, NULL);
}

static int read_event(reader *r, uint32_t node, int64_t *last)
{
    happening h = {0};
    uint32_t seen;
    int result = read_map(r, "nodes.events", event_keys, NULL, &h, node, &seen);
    if (result)
        return result;
    bool whole = (seen & 1) && (h.speed > 0) + (h.pause > 0) + h.crash + h.join == 1;
    if (!whole || h.at < *last) {
        iso_error_set(r->e, ISO_E_JOB,
                      whole ? "nodes.events: events stand in the order of their times"
                            : "nodes.events: an event is {at: TIME} and one of speed, pause, crash, join");
        return fail(r, node);
    }
    *last = h.at;
    iso_machine_event event = {.at = h.at, .speed = h.speed, .length = h.pause};
    event.kind = h.speed > 0   ? ISO_MACHINE_SPEED
                 : h.pause > 0 ? ISO_MACHINE_PAUSE
                 : h.crash     ? ISO_MACHINE_CRASH
                               : ISO_MACHINE_JOIN;
    return iso_buffer_put(&r->events, &event, sizeof event) ? ISO_OK : no_memory(r);
}

static int read_events(reader *r, void *to, uint32_t node)
{
    entry *one = to;
    char shown[80];
    int64_t last = 0;
    if (at(r, node)->kind != TREE_LIST) {
        iso_error_set(r->e, ISO_E_JOB, "nodes.events wants a list of events, found %s",
                      iso_job_node_shown(&r->source, node, shown));
        return fail(r, node);
    }
    one->m.event = (uint32_t)(r->events.size / sizeof(iso_machine_event));
    int result = ISO_OK;
    for (uint32_t item = at(r, node)->child; item && !result; item = at(r, item)->next)
        result = read_event(r, item, &last);
    one->m.events = (uint32_t)(r->events.size / sizeof(iso_machine_event)) - one->m.event;
    return result;
}

static const deeper_key machine_deeper[] = {
    {"outliers", read_outliers}, {"drift", read_drift}, {"bursts", read_bursts}, {"link", read_own_link},
    {"events", read_events},     {NULL, NULL},
};

/* Whether one of the first `count` machines has the name. */
static bool same_name(const reader *r, size_t count, const char *name)
{
    const iso_machine *m = (const iso_machine *)(const void *)r->machines.bytes;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(m[i].name, name))
            return true;
    return false;
}

/* The machines of one entry: itself, or NAME-1 .. NAME-count. */
static int add_machines(reader *r, const entry *one, bool many, uint32_t node)
{
    size_t before = r->machines.size / sizeof(iso_machine);
    if (before + one->count > ISO_CLUSTER_NODES_MAX) {
        iso_error_set(r->e, ISO_E_JOB, "nodes: more than %u machines", ISO_CLUSTER_NODES_MAX);
        return fail(r, node);
    }
    for (uint32_t i = 0; i < one->count; i++) {
        iso_machine m = one->m;
        char name[ISO_CLUSTER_NAME_MAX + 24];
        snprintf(name, sizeof name, many ? "%s-%u" : "%s", one->m.name, (unsigned)i + 1);
        bool twice = same_name(r, before, name); /* those of one entry differ by their numbers */
        if (strlen(name) >= sizeof m.name || twice) {
            iso_error_set(r->e, ISO_E_JOB, twice ? "nodes.name: there are two machines %s" : "nodes.name: %s is too long a name", name);
            return fail(r, node);
        }
        memcpy(m.name, name, strlen(name) + 1);
        if (!iso_buffer_put(&r->machines, &m, sizeof m))
            return no_memory(r);
    }
    return ISO_OK;
}

static int read_machine(reader *r, uint32_t node)
{
    entry one = {.count = 1, .m = {.outliers = {0, 1}, .outlier_factor = 1, .burst_factor = 1, .link = r->link}};
    uint32_t seen;
    int result = read_map(r, "nodes", machine_keys, machine_deeper, &one, node, &seen);
    if (result)
        return result;
    if (!(seen & 4)) {
        iso_error_set(r->e, ISO_E_JOB, "nodes: a machine needs its speed in samples a second, {name: a, speed: 4000}");
        return fail(r, node);
    }
    if (!(seen & 1))
        snprintf(one.m.name, sizeof one.m.name, seen & 2 ? "node-%zu" : "%zu", r->machines.size / sizeof(iso_machine) + 1);
    return add_machines(r, &one, seen & 2, node);
}

static int read_nodes(reader *r, uint32_t node)
{
    char shown[80];
    if (at(r, node)->kind != TREE_LIST || !at(r, node)->child) {
        iso_error_set(r->e, ISO_E_JOB, "nodes wants a list of machines, found %s",
                      at(r, node)->kind == TREE_LIST ? "an empty one" : iso_job_node_shown(&r->source, node, shown));
        return fail(r, node);
    }
    int result = ISO_OK;
    for (uint32_t item = at(r, node)->child; item && !result; item = at(r, item)->next)
        result = read_machine(r, item);
    return result;
}

/* The file's own keys; nodes are read last, wherever they stand, since they have the file's link. */
static int read_file(reader *r, uint32_t root)
{
    static const cluster_key none[] = {{NULL, CLUSTER_NAME, 0, 0, 0}};
    static const deeper_key words[] = {{"link", NULL}, {"coordinator", NULL}, {"nodes", NULL}, {NULL, NULL}};
    uint32_t value[3] = {0, 0, 0};
    if (at(r, root)->kind != TREE_MAP)
        return read_map(r, "", none, words, NULL, root, NULL);
    for (uint32_t key = at(r, root)->child; key; key = at(r, at(r, key)->next)->next) {
        size_t i = 0;
        while (words[i].name && strcmp(words[i].name, iso_tree_text(r->source.tree, key)) != 0)
            i++;
        if (!words[i].name)
            return unknown_key(r, "", none, words, key);
        if (value[i]) {
            iso_error_set(r->e, ISO_E_JOB, "%s is there twice", words[i].name);
            return fail(r, key);
        }
        value[i] = at(r, key)->next;
    }
    int result = value[0] ? read_map(r, "link", link_keys, NULL, &r->link, value[0], NULL) : ISO_OK;
    r->out->bandwidth = r->link.bandwidth;
    if (!result && value[1])
        result = read_map(r, "coordinator", coordinator_keys, NULL, r->out, value[1], NULL);
    if (!result && !value[2]) {
        iso_error_set(r->e, ISO_E_JOB, "nodes is missing: the list of machines, [{name: a, speed: 4000}, ...]");
        result = fail(r, root);
    }
    return result ? result : read_nodes(r, value[2]);
}

int iso_cluster_parse(iso_cluster *out, const char *file, const char *text, size_t length, const iso_alloc *a, iso_error *e)
{
    *out = (iso_cluster){.alloc = a};
    tree t;
    int result = iso_tree_parse(&t, file, text, length, a, e);
    if (result)
        return result;
    reader r = {.source = {&t, file}, .out = out, .e = e};
    r.link = (iso_link){.bandwidth = 125e6, .latency = 500000, .loss = {0, 1}, .duplicate = {0, 1}, .reorder = {0, 1}};
    iso_buffer_init(&r.machines, a, 0);
    iso_buffer_init(&r.events, a, 0);
    result = t.root ? read_file(&r, t.root)
                    : iso_error_set(e, ISO_E_JOB, "%s:1:1: nothing in it: a cluster file has nodes: [{name: a, speed: 4000}, ...]", file);
    iso_tree_clear(&t);
    if (result) {
        iso_buffer_fini(&r.machines);
        iso_buffer_fini(&r.events);
        *out = (iso_cluster){.alloc = a};
        return result;
    }
    out->machine = (iso_machine *)(void *)r.machines.bytes;
    out->count = (uint32_t)(r.machines.size / sizeof(iso_machine));
    out->event = (iso_machine_event *)(void *)r.events.bytes;
    out->event_count = (uint32_t)(r.events.size / sizeof(iso_machine_event));
    return ISO_OK;
}

void iso_cluster_clear(iso_cluster *c)
{
    iso_free(c->alloc, c->machine);
    iso_free(c->alloc, c->event);
    *c = (iso_cluster){.alloc = c->alloc};
}

double iso_cluster_speed(const iso_cluster *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->count; i++)
        sum += c->machine[i].speed;
    return sum;
}

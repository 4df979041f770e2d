/* SPDX-License-Identifier: Apache-2.0
 * The summary of a run as JSON and back. */
#include "engine/run/summary.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* JSON readers keep 63 bits; a larger number (a seed) is written as text. */
static json_t *whole(uint64_t value)
{
    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return json_string(digits);
}

static json_t *word(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *nodes_object(const iso_summary *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < s->node_count; i++) {
        const iso_node_summary *n = &s->nodes[i];
        json_t *o = json_object();
        int bad = !o;
        bad |= json_object_set_new(o, "name", json_string(n->name));
        bad |= json_object_set_new(o, "score", n->score > 0 ? real(n->score) : json_null());
        bad |= json_object_set_new(o, "share", real(n->share));
        bad |= json_object_set_new(o, "samples", whole(n->samples));
        bad |= json_object_set_new(o, "busy_seconds", real(n->busy_seconds));
        bad |= json_object_set_new(o, "idle_seconds", real(n->idle_seconds));
        bad |= json_array_append_new(list, o);
        if (bad) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *best_object(const iso_best_epoch *b)
{
    if (!b->epoch)
        return json_null();
    return json_pack("{s:s, s:I, s:o, s:o}", "file", ISO_BEST_NAME, "epoch", (json_int_t)b->epoch, "validation_loss",
                     real(b->validation_loss), "validation_accuracy", real(b->validation_accuracy));
}

static json_t *summary_object(const iso_summary *s)
{
    json_t *o = json_object();
    int bad = !o;
    bad |= json_object_set_new(o, "train_loss", real(s->train_loss));
    bad |= json_object_set_new(o, "train_accuracy", real(s->train_accuracy));
    bad |= json_object_set_new(o, "validation_loss", real(s->validation_loss));
    bad |= json_object_set_new(o, "validation_accuracy", real(s->validation_accuracy));
    bad |= json_object_set_new(o, "test_loss", real(s->test_loss));
    bad |= json_object_set_new(o, "test_accuracy", real(s->test_accuracy));
    bad |= json_object_set_new(o, "best", best_object(&s->best));
    bad |= json_object_set_new(o, "epochs", whole(s->epochs));
    bad |= json_object_set_new(o, "rounds", whole(s->rounds));
    bad |= json_object_set_new(o, "samples", whole(s->samples));
    bad |= json_object_set_new(o, "seconds", real(s->seconds));
    bad |= json_object_set_new(o, "samples_per_second", real(s->samples_per_second));
    bad |= json_object_set_new(o, "efficiency", real(s->efficiency));
    bad |= json_object_set_new(o, "bytes_up", whole(s->bytes_up));
    bad |= json_object_set_new(o, "bytes_down", whole(s->bytes_down));
    bad |= json_object_set_new(o, "weights_sha256", word(s->weights_sha256));
    if (s->sent_up || s->sent_down) {
        bad |= json_object_set_new(o, "sent_up", whole(s->sent_up));
        bad |= json_object_set_new(o, "sent_down", whole(s->sent_down));
    }
    bad |= json_object_set_new(o, "seed", whole(s->seed));
    bad |= json_object_set_new(o, "engine", word(s->engine));
    bad |= json_object_set_new(o, "sync", word(s->sync));
    if (s->mark[0])
        bad |= json_object_set_new(o, "mark", json_string(s->mark));
    bad |= json_object_set_new(o, "nodes", nodes_object(s));
    if (bad) {
        json_decref(o);
        return NULL;
    }
    return o;
}

char *iso_summary_text(const iso_summary *s, bool compact, const iso_alloc *a)
{
    json_t *o = summary_object(s);
    char *text = o ? json_dumps(o, JSON_REAL_PRECISION(15) | (compact ? JSON_COMPACT : JSON_INDENT(2))) : NULL;
    json_decref(o);
    char *copy = text ? iso_strdup(a, text) : NULL;
    free(text);
    return copy;
}

void iso_summary_begin(iso_summary *s)
{
    *s = (iso_summary){.train_loss = NAN,
                       .train_accuracy = NAN,
                       .validation_loss = NAN,
                       .validation_accuracy = NAN,
                       .test_loss = NAN,
                       .test_accuracy = NAN,
                       .samples_per_second = NAN,
                       .efficiency = NAN};
}

void iso_summary_clear(iso_summary *s, const iso_alloc *a)
{
    iso_free(a, s->nodes);
    *s = (iso_summary){.nodes = NULL};
}

iso_node_summary *iso_summary_node(iso_summary *s, const char *name, const iso_alloc *a)
{
    for (uint32_t i = 0; i < s->node_count; i++)
        if (strcmp(s->nodes[i].name, name) == 0)
            return &s->nodes[i];
    iso_node_summary *more = iso_new(a, s->node_count + 1, sizeof *more);
    if (!more)
        return NULL;
    if (s->node_count)
        memcpy(more, s->nodes, s->node_count * sizeof *more);
    iso_free(a, s->nodes);
    s->nodes = more;
    iso_node_summary *n = &more[s->node_count++];
    snprintf(n->name, sizeof n->name, "%s", name);
    return n;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static double get_real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static uint64_t get_whole(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    uint64_t value = 0;
    if (json_is_integer(v))
        return json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
    if (json_is_string(v) &&
        iso_parse_u64(json_string_value(v), json_string_length(v), 0, UINT64_MAX, &value) != ISO_PARSE_OK)
        value = 0;
    return value;
}

static void get_word(const json_t *o, const char *key, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(o, key));
    snprintf(out, capacity, "%s", text ? text : "");
}

static double not_negative(double value)
{
    return value >= 0 ? value : 0;
}

static int read_nodes(iso_summary *s, const json_t *list, const iso_alloc *a)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        char name[ISO_NODE_NAME_MAX];
        get_word(o, "name", name, sizeof name);
        iso_node_summary *n = iso_summary_node(s, name, a);
        if (!n)
            return ISO_E_NOMEM;
        n->score = not_negative(get_real(o, "score"));
        n->share = not_negative(get_real(o, "share"));
        n->samples = get_whole(o, "samples");
        n->busy_seconds = not_negative(get_real(o, "busy_seconds"));
        n->idle_seconds = not_negative(get_real(o, "idle_seconds"));
    }
    return 0;
}

int iso_summary_parse(iso_summary *s, const char *text, size_t size, const char *name, const iso_alloc *a,
                      iso_error *e)
{
    iso_summary_begin(s);
    json_error_t why;
    json_t *o = json_loadb(text, size, 0, &why);
    if (!json_is_object(o)) {
        json_decref(o);
        return iso_error_set(e, ISO_E_FORMAT, "%s: line %d: %s; not a summary", name, why.line,
                             o ? "no object" : why.text);
    }
    s->train_loss = get_real(o, "train_loss");
    s->train_accuracy = get_real(o, "train_accuracy");
    s->validation_loss = get_real(o, "validation_loss");
    s->validation_accuracy = get_real(o, "validation_accuracy");
    s->test_loss = get_real(o, "test_loss");
    s->test_accuracy = get_real(o, "test_accuracy");
    const json_t *best = json_object_get(o, "best");
    s->best = (iso_best_epoch){(uint32_t)get_whole(best, "epoch"), get_real(best, "validation_loss"),
                               get_real(best, "validation_accuracy")};
    s->epochs = (uint32_t)get_whole(o, "epochs");
    s->rounds = get_whole(o, "rounds");
    s->samples = get_whole(o, "samples");
    s->seconds = not_negative(get_real(o, "seconds"));
    s->samples_per_second = get_real(o, "samples_per_second");
    s->efficiency = get_real(o, "efficiency");
    s->bytes_up = get_whole(o, "bytes_up");
    s->bytes_down = get_whole(o, "bytes_down");
    s->sent_up = get_whole(o, "sent_up");
    s->sent_down = get_whole(o, "sent_down");
    s->seed = get_whole(o, "seed");
    get_word(o, "weights_sha256", s->weights_sha256, sizeof s->weights_sha256);
    get_word(o, "engine", s->engine, sizeof s->engine);
    get_word(o, "sync", s->sync, sizeof s->sync);
    get_word(o, "mark", s->mark, sizeof s->mark);
    int result = read_nodes(s, json_object_get(o, "nodes"), a);
    json_decref(o);
    if (result) {
        iso_summary_clear(s, a);
        return iso_error_set(e, ISO_E_NOMEM, "%s: no memory for its nodes", name);
    }
    return 0;
}

char *iso_summary_file(const iso_summary *s, size_t *size, const iso_alloc *a)
{
    char *text = iso_summary_text(s, false, a);
    if (!text)
        return NULL;
    *size = strlen(text) + 1;
    text[*size - 1] = '\n'; /* the NUL's place: a text file ends with a newline */
    return text;
}

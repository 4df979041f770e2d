/* SPDX-License-Identifier: Apache-2.0
 * The list of layers of a job file. Which layers there are and what they can be told comes from the table of layer
 * kinds alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/schema.h"
#include "job/words.h"

/* Message "<kind>.<option> wants <what>, found <node>". */
static int wrong(const job_source *s, uint32_t node, const char *kind, const iso_option *o, iso_error *e)
{
    char shown[ISO_SHOW_BYTES], wants[200], min[ISO_NUMBER_TEXT], max[ISO_NUMBER_TEXT];
    iso_print_double(min, o->min);
    iso_print_double(max, o->max);
    if (o->type == ISO_OPTION_BOOL)
        snprintf(wants, sizeof wants, "true or false");
    else
        snprintf(wants, sizeof wants, "a %snumber from %s to %s", o->type == ISO_OPTION_INT ? "whole " : "", min, max);
    iso_error_set(e, ISO_E_JOB, "%s.%s wants %s, found %s", kind, o->name, wants, iso_job_node_shown(s, node, shown));
    return iso_job_fail_at(s, node, e);
}

static int option_choice(const job_source *s, uint32_t node, const char *kind, const iso_option *o, double *value,
                         iso_error *e)
{
    const char *text = iso_tree_text(s->tree, node);
    size_t count = 0;
    for (; o->choices[count]; count++)
        if (!strcmp(o->choices[count], text)) {
            *value = (double)count;
            return ISO_OK;
        }
    char of[120];
    snprintf(of, sizeof of, "%s.%s", kind, o->name);
    iso_job_unknown(e, of, "word", text, o->choices, count);
    return iso_job_fail_at(s, node, e);
}

static int option_set(const job_source *s, uint32_t node, const char *kind, const iso_option *o, double *value,
                      iso_error *e)
{
    if (iso_tree_node(s->tree, node)->kind != TREE_SCALAR)
        return wrong(s, node, kind, o, e);
    const char *text = iso_tree_text(s->tree, node);
    int64_t whole;
    switch (o->type) {
    case ISO_OPTION_INT:
        if (iso_parse_i64(text, strlen(text), (int64_t)o->min, (int64_t)o->max, &whole) != ISO_PARSE_OK)
            return wrong(s, node, kind, o, e);
        *value = (double)whole;
        return ISO_OK;
    case ISO_OPTION_FLOAT:
        if (iso_parse_double(text, strlen(text), value) != ISO_PARSE_OK || *value < o->min || *value > o->max)
            return wrong(s, node, kind, o, e);
        return ISO_OK;
    case ISO_OPTION_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return wrong(s, node, kind, o, e);
        *value = text[0] == 't';
        return ISO_OK;
    case ISO_OPTION_CHOICE:
        return option_choice(s, node, kind, o, value, e);
    }
    return ISO_OK;
}

static int unknown_option(const job_source *s, uint32_t key, const char *kind, const iso_option *options,
                          uint32_t count, iso_error *e)
{
    const char *words[ISO_LAYER_OPTIONS_MAX + 1];
    for (uint32_t i = 0; i < count; i++)
        words[i] = options[i].name;
    words[count] = "name";
    iso_job_unknown(e, kind, "option", iso_tree_text(s->tree, key), words, count + 1);
    return iso_job_fail_at(s, key, e);
}

static int layer_name(const job_source *s, uint32_t node, iso_layer_spec *spec, iso_error *e)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *text = iso_tree_node(s->tree, node)->kind == TREE_SCALAR ? iso_tree_text(s->tree, node) : "";
    size_t length = strlen(text), longest = sizeof spec->name - sizeof ".weight";
    if (!length || length > longest || strspn(text, allowed) != length) {
        char shown[ISO_SHOW_BYTES];
        iso_error_set(e, ISO_E_JOB, "a layer's name is 1 to %zu letters, digits, '_' or '-', found %s", longest,
                      iso_job_node_shown(s, node, shown));
        return iso_job_fail_at(s, node, e);
    }
    memcpy(spec->name, text, length + 1);
    return ISO_OK;
}

/* {filters: 6, kernel: 5} */
static int layer_options(const job_source *s, uint32_t map, iso_layer_spec *spec, iso_error *e)
{
    const char *kind = iso_layer_kind_name(spec->kind);
    uint32_t count;
    const iso_option *options = iso_layer_kind_options(spec->kind, &count);
    bool seen[ISO_LAYER_OPTIONS_MAX + 1] = {false};
    for (uint32_t key = iso_tree_node(s->tree, map)->child; key;) {
        uint32_t value = iso_tree_node(s->tree, key)->next, i = 0;
        while (i < count && strcmp(options[i].name, iso_tree_text(s->tree, key)))
            i++;
        if (i == count && strcmp("name", iso_tree_text(s->tree, key)))
            return unknown_option(s, key, kind, options, count, e);
        if (seen[i]) {
            iso_error_set(e, ISO_E_JOB, "%s.%s is there twice", kind, iso_tree_text(s->tree, key));
            return iso_job_fail_at(s, key, e);
        }
        seen[i] = true;
        int r =
            i == count ? layer_name(s, value, spec, e) : option_set(s, value, kind, &options[i], &spec->value[i], e);
        if (r)
            return r;
        key = iso_tree_node(s->tree, value)->next;
    }
    return ISO_OK;
}

static int unknown_kind(const job_source *s, uint32_t node, iso_error *e)
{
    const char *words[64];
    uint32_t count = iso_layer_kind_count() < 64 ? iso_layer_kind_count() : 64;
    for (uint32_t i = 0; i < count; i++)
        words[i] = iso_layer_kind_name(iso_layer_kind_at(i));
    iso_job_unknown(e, "", "layer", iso_tree_text(s->tree, node), words, count);
    return iso_job_fail_at(s, node, e);
}

static int check_required(const job_source *s, uint32_t node, const iso_layer_spec *spec, iso_error *e)
{
    uint32_t count;
    const iso_option *options = iso_layer_kind_options(spec->kind, &count);
    for (uint32_t i = 0; i < count; i++)
        if (isnan(spec->value[i])) {
            iso_error_set(e, ISO_E_JOB, "%s needs %s: %s", iso_layer_kind_name(spec->kind), options[i].name,
                          options[i].help);
            return iso_job_fail_at(s, node, e);
        }
    return ISO_OK;
}

/* relu, or {dense: 120}, or {conv: {filters: 6, kernel: 5}}. */
static int layer_set(const job_source *s, uint32_t item, iso_layer_spec *spec, iso_error *e)
{
    const tree *t = s->tree;
    bool map = iso_tree_node(t, item)->kind == TREE_MAP;
    uint32_t word = map ? iso_tree_node(t, item)->child : item;
    uint32_t told = map && word ? iso_tree_node(t, word)->next : 0;
    if (!word || iso_tree_node(t, item)->kind == TREE_LIST || (told && iso_tree_node(t, told)->next)) {
        iso_error_set(e, ISO_E_JOB,
                      "a layer is a word, relu, or one key with its options, {conv: {filters: 6, kernel: 5}}");
        return iso_job_fail_at(s, item, e);
    }
    const iso_layer_kind *kind = iso_layer_kind_find(iso_tree_text(t, word));
    if (!kind)
        return unknown_kind(s, word, e);
    if (iso_layer_spec_default(spec, iso_layer_kind_name(kind), e))
        return iso_job_fail_at(s, word, e);
    uint32_t count;
    const iso_option *options = iso_layer_kind_options(kind, &count);
    int r = ISO_OK;
    if (told && iso_tree_node(t, told)->kind == TREE_MAP) {
        r = layer_options(s, told, spec, e);
    } else if (told && count) {
        r = option_set(s, told, iso_layer_kind_name(kind), &options[0], &spec->value[0], e);
    } else if (told) {
        char shown[ISO_SHOW_BYTES];
        iso_error_set(e, ISO_E_JOB, "%s takes no value, found %s", iso_layer_kind_name(kind),
                      iso_job_node_shown(s, told, shown));
        r = iso_job_fail_at(s, told, e);
    }
    return r ? r : check_required(s, word, spec, e);
}

int iso_job_layers_set(iso_model *layers, const job_source *s, uint32_t list, iso_error *e)
{
    layers->count = 0;
    for (uint32_t item = iso_tree_node(s->tree, list)->child; item; item = iso_tree_node(s->tree, item)->next) {
        if (layers->count == ISO_LAYERS_MAX) {
            iso_error_set(e, ISO_E_JOB, "more than %u layers", ISO_LAYERS_MAX);
            return iso_job_fail_at(s, item, e);
        }
        int r = layer_set(s, item, &layers->layer[layers->count], e);
        if (r)
            return r;
        layers->count++;
    }
    if (layers->count)
        return ISO_OK;
    iso_error_set(e, ISO_E_JOB, "model.layers is empty");
    return iso_job_fail_at(s, list, e);
}

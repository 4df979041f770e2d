/* SPDX-License-Identifier: Apache-2.0
 * libyaml's events into a tree (tree.h). */
#include "job/tree.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define NODES_MAX 65536u /* far beyond any job: 128 layers of 8 options are about 2,200 nodes */


/* The containers that are open while events come in: the innermost last. */
typedef struct open_node {
    uint32_t node, last;          /* the container, and its latest child (0: none yet) */
    bool key_next;                /* in a map: the next child is a key */
} open_node;

typedef struct builder {
    tree *t;
    const char *file;
    iso_error *e;
    open_node open[ISO_JOB_DEPTH_MAX];
    uint32_t depth;
    uint32_t documents;
} builder;

static iso_place place_of(yaml_mark_t mark)
{
    return (iso_place){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static int fail_at(const char *file, iso_place at, iso_error *e, const char *sentence)
{
    if (!file)
        return iso_error_set(e, ISO_E_JOB, "%s", sentence);
    return iso_error_set(e, ISO_E_JOB, "%s:%u:%u: %s", file, at.line, at.column, sentence);
}

static int fail(builder *b, iso_place at, const char *sentence)
{
    return fail_at(b->file, at, b->e, sentence);
}

static int fail_memory(builder *b)
{
    return iso_error_set(b->e, ISO_E_NOMEM, "out of memory while reading the job file");
}

static tree_node *node_at(builder *b, uint32_t index)
{
    return (tree_node *)(void *)b->t->nodes.bytes + index;
}

/* A new node at the end of the innermost container; its index in *index. */
static int add_node(builder *b, tree_node node, uint32_t *index)
{
    *index = (uint32_t)(b->t->nodes.size / sizeof node);
    if (*index >= NODES_MAX)
        return fail(b, node.at, "too many values for a job file");
    if (!iso_buffer_put(&b->t->nodes, &node, sizeof node))
        return fail_memory(b);
    if (!b->depth) {
        b->t->root = *index;
        return ISO_OK;
    }
    open_node *o = &b->open[b->depth - 1];
    if (o->last)
        node_at(b, o->last)->next = *index;
    else
        node_at(b, o->node)->child = *index;
    o->last = *index;
    if (node_at(b, o->node)->kind == TREE_MAP) {
        if (o->key_next && node.kind != TREE_SCALAR)
            return fail(b, node.at, "a key must be a word");
        o->key_next = !o->key_next;
    }
    return ISO_OK;
}

static int add_scalar(builder *b, const yaml_event_t *event)
{
    iso_place at = place_of(event->start_mark);
    if (event->data.scalar.anchor)
        return fail(b, at, "anchors (&name) are not used in a job file");
    if (event->data.scalar.tag)
        return fail(b, at, "tags (!name) are not used in a job file");
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return fail(b, at, "a value with a NUL byte in it");
    tree_node node = {.kind = TREE_SCALAR, .plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE, .at = at};
    node.text = b->t->text.size;
    if (!iso_buffer_put(&b->t->text, event->data.scalar.value, event->data.scalar.length) ||
        !iso_buffer_put(&b->t->text, "", 1))
        return fail_memory(b);
    uint32_t index;
    return add_node(b, node, &index);
}

static int open_container(builder *b, tree_kind kind, const yaml_event_t *event, bool anchor, bool tag)
{
    iso_place at = place_of(event->start_mark);
    if (anchor)
        return fail(b, at, "anchors (&name) are not used in a job file");
    if (tag)
        return fail(b, at, "tags (!name) are not used in a job file");
    if (b->depth >= ISO_JOB_DEPTH_MAX)
        return fail(b, at, "nested too deeply for a job file");
    uint32_t index;
    int r = add_node(b, (tree_node){.kind = kind, .at = at}, &index);
    if (r)
        return r;
    b->open[b->depth++] = (open_node){.node = index, .key_next = true};
    return ISO_OK;
}

static int take_event(builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++)
            return fail(b, place_of(event->start_mark), "a second document: a job file holds one");
        return ISO_OK;
    case YAML_SCALAR_EVENT:
        return add_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(b, TREE_LIST, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_container(b, TREE_MAP, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return ISO_OK;
    case YAML_ALIAS_EVENT:
        return fail(b, place_of(event->start_mark),
                    "aliases (*name) are not used in a job file; write the value again");
    default:
        return ISO_OK;
    }
}

/* libyaml marks what the reader refuses by byte offset alone. */
static iso_place place_of_byte(const char *text, size_t offset)
{
    iso_place at = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        at.column++;
        if (text[i] == '\n')
            at = (iso_place){at.line + 1, 1};
    }
    return at;
}

static int fail_yaml(builder *b, const yaml_parser_t *parser, const char *text, size_t length)
{
    char sentence[300];
    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(b);
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    if (parser->error == YAML_READER_ERROR) {
        size_t offset = parser->problem_offset < length ? parser->problem_offset : length;
        snprintf(sentence, sizeof sentence, "not a YAML text: %s", problem);
        return fail(b, place_of_byte(text, offset), sentence);
    }
    if (parser->context)
        snprintf(sentence, sizeof sentence, "not YAML: %s, %s that began in line %u", problem, parser->context,
                 place_of(parser->context_mark).line);
    else
        snprintf(sentence, sizeof sentence, "not YAML: %s", problem);
    return fail(b, place_of(parser->problem_mark), sentence);
}

static int build(builder *b, yaml_parser_t *parser, const char *text, size_t length)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return fail_yaml(b, parser, text, length);
        int r = take_event(b, &event);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (r)
            return r;
    }
    return ISO_OK;
}

int iso_tree_parse(tree *t, const char *file, const char *text, size_t length, const iso_alloc *a, iso_error *e)
{
    t->root = 0;
    iso_buffer_init(&t->nodes, a, 0);
    iso_buffer_init(&t->text, a, 0);
    if (length > ISO_JOB_BYTES_MAX)
        return fail_at(file, (iso_place){1, 1}, e, "longer than 1 MiB: not a job file");
    if (length >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) { /* a byte order mark, as some editors write */
        text += 3;
        length -= 3;
    }
    const char *zero = length ? memchr(text, 0, length) : NULL;
    if (zero)
        return fail_at(file, place_of_byte(text, (size_t)(zero - text)), e, "a NUL byte: not a text in UTF-8");
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return iso_error_set(e, ISO_E_NOMEM, "out of memory while reading the job file");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(length ? text : ""), length); /* it refuses NULL */
    builder b = {.t = t, .file = file, .e = e};
    int r = iso_buffer_add(&t->nodes, sizeof(tree_node)) ? build(&b, &parser, text, length) : fail_memory(&b);
    yaml_parser_delete(&parser);
    if (r)
        iso_tree_clear(t);
    return r;
}

void iso_tree_clear(tree *t)
{
    iso_buffer_fini(&t->nodes);
    iso_buffer_fini(&t->text);
    t->root = 0;
}

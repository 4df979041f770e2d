/* SPDX-License-Identifier: Apache-2.0
 * A YAML text as a tree of places and values. Between libyaml and the schema: limits on size and depth live here, and
 * the parts of YAML that a job file has no use for (anchors, tags, several documents, keys that are not words) end here
 * with a message. Nothing recurses; nodes live in one array and refer to each other by index. */
#ifndef ISO_JOB_TREE_H
#define ISO_JOB_TREE_H

#include "base/buffer.h"
#include "isochron/job.h"

typedef enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP } tree_kind;

/* Children are a chain: child is the first, next the following one, 0 ends it. In a map, key and value nodes take
 * turns. */
typedef struct tree_node {
    tree_kind kind;
    bool plain;                   /* a scalar without quotes */
    uint32_t child, next;
    size_t text;                  /* of a scalar: where it begins in the text; NUL-terminated, no NUL inside */
    iso_place at;
} tree_node;

typedef struct tree {
    iso_buffer nodes;             /* tree_node each; the first is never used, so that index 0 can mean none */
    iso_buffer text;              /* all scalars, one after the other */
    uint32_t root;                /* 0: the text holds no document (empty, or comments alone) */
} tree;

/* Parses length bytes. file begins the messages: "file:line:column: ". With file NULL messages have no place in front.
 * Errors: ISO_E_JOB, ISO_E_NOMEM; *t then holds nothing. */
int iso_tree_parse(tree *t, const char *file, const char *text, size_t length, const iso_alloc *a, iso_error *e);
void iso_tree_clear(tree *t);

static inline const tree_node *iso_tree_node(const tree *t, uint32_t index)
{
    return (const tree_node *)(const void *)t->nodes.bytes + index;
}

static inline const char *iso_tree_text(const tree *t, uint32_t index)
{
    return (const char *)t->text.bytes + iso_tree_node(t, index)->text;
}

#endif

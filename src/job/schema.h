/* SPDX-License-Identifier: Apache-2.0
 * The job file's schema: one row a key. Parsing, --set, writing, comparing, defaults and help are all driven by it; a
 * new key is a member of iso_job and a row here.
 *
 * A row of type SECTION is a map whose keys are the rows that begin with its path and a dot. `standard` of a section
 * names the key that its short form sets: `optimizer: adam` is `optimizer: {name: adam}`; "" when it has none. Whoever
 * assigns a section as a whole sets its keys back to their defaults first. */
#ifndef ISO_JOB_SCHEMA_H
#define ISO_JOB_SCHEMA_H

#include "isochron/job.h"
#include "job/tree.h"

typedef enum job_type {
    JOB_SECTION,
    JOB_PATH,                     /* char[ISO_PATH_MAX]: any text */
    JOB_WORD,                     /* char[ISO_WORD_MAX] */
    JOB_NAME,                     /* char[2 * ISO_WORD_MAX], part of a folder's name */
    JOB_U32,
    JOB_U64,
    JOB_REAL,
    JOB_BOOL,
    JOB_CHOICE,                   /* an enum; its value is the index of the word */
    JOB_PRESET,                   /* JOB_WORD, one of iso_preset_at */
    JOB_VALIDATION,               /* a share or a path: two members of iso_job_data */
    JOB_WIDTHS,                   /* model.hidden: a list of whole numbers */
    JOB_LAYERS,                   /* model.layers */
    JOB_SYNC                      /* policy with parameters, or a map */
} job_type;

enum {
    JOB_AUTO = 1,                 /* the word auto is allowed: 0, for a REAL NaN */
    JOB_ABOVE = 2,                /* min itself is too small */
    JOB_BELOW = 4,                /* max itself is too large */
    JOB_RESUME = 8,               /* may differ at a resume: decides no number, or a fingerprint tells what it leads to */
    JOB_PLACE = 16                /* a path: whether it is given may not differ; what it leads to has a fingerprint */
};

typedef struct job_row {
    const char *path;
    job_type type;
    unsigned flags;
    size_t offset;                /* in iso_job */
    double min, max;              /* numbers; U32 and U64 beyond 2^53 are not bounded by it */
    uint32_t multiple;            /* U32: a multiple of this; 0 or 1: any */
    const char *const *words;     /* CHOICE: NULL-terminated */
    const char *standard;         /* default as the file spells it; "" leaves the member zero */
    const char *help;
} job_row;

#define JOB_ROWS_MAX 64u

extern const job_row iso_job_rows[];
extern const uint32_t iso_job_row_count;

/* The row of a path, or NULL. */
const job_row *iso_job_row_find(const char *path, size_t length);
/* The row of key `name` in the section (NULL: the top level), or NULL. */
const job_row *iso_job_row_in(const job_row *section, const char *name);
/* Whether the row stands directly in the section; its last word. */
bool iso_job_row_is_in(const job_row *row, const job_row *section);
const char *iso_job_row_word(const job_row *row);

/* Sets every row of the section (NULL: all) to its default. */
void iso_job_row_defaults(iso_job *job, const job_row *section);

/* Sets a row that takes one scalar. The error's text begins with the key's path and has no place. */
int iso_job_value_set(iso_job *job, const job_row *row, const char *text, iso_error *e);

/* Where a message points: the node it is about. */
typedef struct job_source {
    const tree *tree;
    const char *file;             /* NULL: no place in front of messages */
} job_source;

/* Puts the node's place before e's text; returns e->code. */
int iso_job_fail_at(const job_source *s, uint32_t node, iso_error *e);
/* What a node is, for messages: "a list", "keys with values", or its text in quotes. */
const char *iso_job_node_shown(const job_source *s, uint32_t node, char out[80]);
/* A scalar that stands for nothing: empty, ~ or null without quotes. */
bool iso_job_node_is_null(const tree *t, uint32_t node);

/* model.layers from a list (layers.c). The messages have their place. */
int iso_job_layers_set(iso_model *layers, const job_source *s, uint32_t list, iso_error *e);

/* A policy with its parameters (sync.c): from text "name:key=value:key=value", and from a map {policy: name, key:
 * value}. */
int iso_job_sync_set(iso_job *job, const char *text, iso_error *e);
int iso_job_sync_set_map(iso_job *job, const job_source *s, uint32_t map, iso_error *e);

#endif

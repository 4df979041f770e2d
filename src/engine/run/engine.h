/* SPDX-License-Identifier: Apache-2.0
 * What a session needs of an engine: a table of functions. Everything about the run folder is the session's; everything about
 * nodes, threads and time is the engine's.
 *
 * Place: engine. Thread: all of them are called by the thread of the session. `self` is what `open` put into session->self. */
#ifndef ISO_ENGINE_RUN_ENGINE_H
#define ISO_ENGINE_RUN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/local/local.h"
#include "engine/run/checkpoint.h"
#include "isochron/error.h"

struct iso_session;

typedef struct iso_engine {
    const char *name;                    /* as summary.json tells it */
    /* Number of nodes, into session->workers, and what else the engine knows before it has data. */
    int (*nodes)(struct iso_session *s);
    /* Makes self; data, network and policy are there. Names the nodes by iso_session_name. */
    int (*open)(struct iso_session *s, uint64_t job_digest);
    void (*free)(void *self);
    /* Weights to start from, internal layout [P']; those of now, published [P]. */
    void (*take)(void *self, const float *internal);
    void (*publish)(void *self, float *published);
    /* What a snapshot holds beside the weights: bytes of the coordinator's state at most, and arrays by name. */
    size_t (*state_max)(void *self);
    uint32_t (*arrays)(void *self);
    const char *(*array_name)(void *self, uint32_t index);
    int (*resume)(void *self, const iso_snapshot *snapshot, iso_error *e);
    /* The mark of a new run (card.h), when the same run made again shall bear the same. NULL: a random one. */
    uint64_t (*mark)(const struct iso_session *s);
    /* What a person should know before it starts; may measure. May be NULL. */
    int (*greet)(struct iso_session *s);
    int (*start)(void *self, iso_snapshot *snapshot, float *best, iso_error *e);
    /* As iso_local_next, _pop, _error, _stop, _join. */
    const iso_note *(*next)(void *self, int64_t until_ns);
    void (*pop)(void *self);
    const iso_error *(*error)(void *self);
    void (*stop)(void *self);
    void (*join)(void *self);
    /* ns of the engine's own clock; NULL: the machine's. */
    int64_t (*now)(void *self);
    /* Files of its own, at the end of a run that began, however it ended. May be NULL. */
    int (*close)(struct iso_session *s);
    /* False: there are no weights worth a model file. NULL: there are. */
    bool (*has_model)(const struct iso_session *s);
} iso_engine;

extern const iso_engine iso_engine_local;

#endif

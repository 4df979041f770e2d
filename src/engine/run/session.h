/* SPDX-License-Identifier: Apache-2.0
 * One call of iso_train: what its steps share. Place: engine. Thread: the caller's alone. */
#ifndef ISO_ENGINE_RUN_SESSION_H
#define ISO_ENGINE_RUN_SESSION_H

#include "engine/file/open_data.h"
#include "engine/local/local.h"
#include "engine/run/card.h"
#include "engine/run/checkpoint.h"
#include "engine/run/engine.h"
#include "engine/run/folder.h"
#include "engine/run/journal.h"
#include "engine/run/summary.h"
#include "isochron/train.h"

#define ISO_SPEED_POINTS 32u

typedef struct iso_session {
    const iso_engine *engine;
    void *self;          /* the engine's */
    const void *setting; /* what the engine's caller gave it; may be NULL */
    const iso_train_options *options;
    const iso_alloc *alloc;
    iso_job *job;    /* a finished copy */
    iso_job *before; /* a resume: what the run folder's job.yaml says; NULL when there is none */
    iso_policy_spec policy;
    uint32_t workers, unit;
    iso_plan plan;
    uint64_t batch, rounds_in_epoch; /* rounds_in_epoch: 0 when nobody knows before */

    iso_run run;
    iso_journal metrics, events;
    iso_buffer metrics_text, events_text; /* not yet written */
    iso_trail metrics_trail, events_trail;
    iso_buffer ranges;                    /* iso_range of a node's line that is not complete */
    int64_t flushed_at;

    iso_data data;
    bool have_data;
    iso_view validation_part; /* split off the training set */
    iso_view training_part;
    iso_channel *channel;
    iso_feed feed;
    iso_card card;
    iso_net *net;
    iso_snapshot snapshot;
    float *best; /* [P], with validation */

    uint64_t job_digest; /* iso_job_digest */
    uint64_t resumed_round;
    int64_t begun_at;  /* of training */
    iso_summary total; /* of all calls; the part of earlier ones was in the checkpoint */
    double earlier_seconds, earlier_training_seconds;
    int64_t training_ns;             /* in rounds, of this call */
    uint64_t samples;                /* of this call */
    double alone;                    /* samples a second of all workers, each alone; 0: not measured */
    char (*name)[ISO_NODE_NAME_MAX]; /* [workers] as JSON text: with quotes */
    uint32_t *node;                  /* [workers] places in total.nodes */
    char shown[ISO_NODE_NAME_MAX];   /* of iso_session_node */

    iso_progress progress;
    int64_t told_at, epoch_begun_at;
    struct {
        int64_t at;
        uint64_t samples;
    } point[ISO_SPEED_POINTS]; /* of the last seconds, a ring */
    uint32_t points;

    iso_error *error;
    int failed; /* of a file: the run is being stopped, nothing more is written */
} iso_session;

/* ---- tell.c: what the observer and the journals are told ----------------------------------------------- */

void iso_tell(const iso_session *s, iso_message_level level, const char *format, ...) ISO_PRINTF(3, 4);
void iso_tell_begin(iso_session *s);
void iso_tell_round(iso_session *s, const iso_note *n);
void iso_tell_epoch(iso_session *s, const iso_note *n);
void iso_tell_record(iso_session *s, const iso_record *r, int64_t at);
/* What a node's sum counted. */
void iso_tell_counted(iso_session *s, const iso_note *n);
/* Progress, if it is time for it or `now` says so. */
void iso_tell_progress(iso_session *s, bool now);
/* A line of events.jsonl: {"event":NAME,"seconds":...,"round":..., then `more`: text that begins with a comma, or "".
 */
void iso_tell_event(iso_session *s, const char *event, int64_t at, uint64_t round, const char *more);

/* ---- train.c ------------------------------------------------------------------------------------------- */

/* iso_train with any engine; setting: for its functions. */
int iso_session_run(const iso_engine *engine, const void *setting, const iso_job *job, const iso_train_options *options,
                    iso_summary *summary, iso_error *e);
/* Now by the engine's clock. */
int64_t iso_session_now(const iso_session *s);

/* Writes what was told so far. sync: to the disk. Errors: ISO_E_IO, ISO_E_NOMEM. */
int iso_session_flush(iso_session *s, bool sync);

/* ---- prepare.c ----------------------------------------------------------------------------------------- */

/* The name of node i: no quotes, backslashes or control characters in it, short enough. */
void iso_session_name(iso_session *s, uint32_t i, const char *name);
/* It again, for messages; good until the next call. */
const char *iso_session_node(iso_session *s, uint32_t i);

/* Data, network, engine; in this order, each with its own errors. */
int iso_session_data(iso_session *s);
int iso_session_net(iso_session *s);
int iso_session_engine(iso_session *s);
/* What training begins from: a resume's newest whole checkpoint, if there is one, else the first weights. */
int iso_session_state(iso_session *s);
void iso_session_fini(iso_session *s);

#endif

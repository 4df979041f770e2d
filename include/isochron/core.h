/* SPDX-License-Identifier: Apache-2.0
 * The protocol core: a coordinator and its workers as two pure state machines.
 *
 *     iso_coordinator_step(c, event, effects)        iso_worker_step(w, event, effects)
 *
 * No I/O, no clock, no threads, no globals, no allocation after init: time comes in with the event, everything to be
 * done comes out as effects, and the engine (threads, a simulator, Flink, Storm) does it. docs/protocol.md has the
 * full story.
 *
 * Words. A *round* is one optimiser step over one global batch. A *pass* is a set of units to be worked off: a training
 * round, or an evaluation of the validation or test set. Units of a pass are numbered from 0. A *lease* is a list of
 * units of the present pass given to one node. A *node* is a worker that speaks for itself; ids are 0 .. nodes_max-1.
 * The *sum* of a node is its integer gradient sum of the round; it belongs to the engine, the core names it by node id.
 *
 * Intended use (coordinator's side; the worker's is the same with its own functions)
 *   1. Fill an iso_core_config (iso_core_config_default first), take iso_coordinator_bytes of memory,
 *      iso_coordinator_init.
 *   2. After a restart: iso_coordinator_resume with the bytes an earlier ISO_EFFECT_CHECKPOINT saved.
 *   3. Step ISO_EVENT_START, then whatever happens; after each step execute effects->item[0 .. count) in order.
 *   4. ISO_EFFECT_DONE or ISO_EFFECT_FAILED ends the run. Nothing needs to be freed but the memory of step 1.
 *
 * Thread rule: one caller at a time an object; an object is not bound to a thread. Different objects are independent.
 * Ownership: what an effect points to (update.nodes, counted ranges) lives in the object and is valid until the next
 * step on it. Frames are values: copy them with =; only `bulk` is a reference, and whoever set it owns it. An event and
 * what it points to is borrowed until the step returns.
 * A node that was declared dead or told RESET may still be computing. Its result is dropped by the core; where weights
 * are shared memory the engine sees to it that such a straggler does not read weights an UPDATE writes, nor write a sum
 * that counts. */
#ifndef ISOCHRON_CORE_H
#define ISOCHRON_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/error.h"
#include "isochron/nn.h"
#include "isochron/replica.h"

#define ISO_COORDINATOR UINT32_MAX       /* the coordinator's id in from/to */
#define ISO_EVERYONE (UINT32_MAX - 1)    /* to: all nodes the engine can reach */
#define ISO_NODES_MAX 65536u             /* largest nodes_max */
#define ISO_SLICES_MAX 4096u             /* largest number of update slices */
#define ISO_RANGES_MAX 8u                /* unit ranges in one lease */
#define ISO_LEASE_DEPTH 2u               /* leases a node may hold at once */
#define ISO_PARAMETERS_MAX 16u           /* parameters of a policy */
#define ISO_NEVER INT64_MAX              /* a time that does not come */

/* ---- sums that do not overflow ---------------------------------------------------------------------------------- */

/* A 128-bit two's complement integer: sums of losses on the grid 2^-40 over any number of samples. */
typedef struct iso_wide {
    uint64_t low;
    int64_t high;
} iso_wide;

/* a + b, modulo 2^128. Thread: any, as all functions of this section and the next. */
ISO_API iso_wide iso_wide_add(iso_wide a, iso_wide b);
/* a - b. */
ISO_API iso_wide iso_wide_subtract(iso_wide a, iso_wide b);
/* The same value, wide. */
ISO_API iso_wide iso_wide_of(int64_t value);
/* The value of a sum of losses: times 2^-ISO_GRID_BITS, correctly rounded to one double for sums below 2^93. */
ISO_API double iso_wide_loss(iso_wide sum);

/* What some units gave together. bad_layer: -1, or the first layer with a value that is not finite or beyond the
 * grid. */
typedef struct iso_totals {
    uint64_t samples, correct;
    iso_wide loss;
    int64_t busy;                        /* ns of compute */
    int32_t bad_layer;
} iso_totals;

/* Nothing yet: zeros, bad_layer -1. */
ISO_API void iso_totals_clear(iso_totals *t);
/* Adds one unit's result / another total. bad_layer becomes the smaller one that is not -1. */
ISO_API void iso_totals_add_unit(iso_totals *t, const iso_unit_result *r);
ISO_API void iso_totals_add(iso_totals *t, const iso_totals *more);

/* ---- epochs, rounds, units -------------------------------------------------------------------------------------- */

/* Rounds in an epoch of `samples` with global batch `batch` (a short last one counts; 0 samples: 0). */
ISO_API uint64_t iso_epoch_rounds(uint64_t samples, uint64_t batch);

/* Positions [*first, *first + *count) of the epoch that round `round_in_epoch` covers; count 0 past the last. */
ISO_API void iso_round_positions(uint64_t samples, uint64_t batch, uint64_t round_in_epoch, uint64_t *first,
                                 uint64_t *count);

/* Units of `unit` samples that `count` positions make (the last may be short). */
ISO_API uint64_t iso_units_in(uint64_t count, uint32_t unit);

/* Sample of a position, the same on every machine. Keyed by seed and epoch; evaluation takes positions as they are. */
typedef struct iso_sampler {
    uint64_t state[8];
} iso_sampler;
ISO_API void iso_sampler_init(iso_sampler *s, uint64_t seed, uint32_t epoch, uint64_t samples);
ISO_API uint64_t iso_sampler_at(const iso_sampler *s, uint64_t position);

/* Slice `index` of `count`: internal values [*begin, *end), multiples of 16, nearly equal; values is a multiple of
 * 16. */
ISO_API void iso_slice_values(uint64_t values, uint32_t count, uint32_t index, uint64_t *begin, uint64_t *end);

/* ---- policies --------------------------------------------------------------------------------------------------- */

/* A row of the table of synchronisation policies. */
typedef struct iso_policy iso_policy;

/* The table: index 0 .. count-1, NULL past the end; _find gives NULL for an unknown name. */
ISO_API uint32_t iso_policy_count(void);
ISO_API const iso_policy *iso_policy_at(uint32_t index);
ISO_API const iso_policy *iso_policy_find(const char *name);
ISO_API const char *iso_policy_name(const iso_policy *p);
ISO_API const char *iso_policy_summary(const iso_policy *p);  /* one line, for `--sync help` */
ISO_API const char *iso_policy_source(const iso_policy *p);   /* where it comes from: a paper, "baseline" */
ISO_API bool iso_policy_ignores_batch(const iso_policy *p);   /* the job's `batch` has no effect */
/* Parameters as options (isochron/nn.h), in the order of iso_policy_spec.value; *count may be 0. */
ISO_API const iso_option *iso_policy_parameters(const iso_policy *p, uint32_t *count);

/* A policy with its parameters' values (for a choice: its index). No pointer but into static tables: copy with =. */
typedef struct iso_policy_spec {
    const iso_policy *policy;
    double value[ISO_PARAMETERS_MAX];
} iso_policy_spec;

/* Every parameter at its default. */
ISO_API void iso_policy_spec_default(iso_policy_spec *out, const iso_policy *p);
/* Sets one parameter from text. Errors: ISO_E_ARGUMENT; names the policy, the wrong word and the right ones, or the
 * bounds. */
ISO_API int iso_policy_spec_set(iso_policy_spec *spec, const char *key, const char *value, iso_error *e);
/* "key=value:key=value" over *spec ("" changes nothing). Errors as _set, and a key given twice or without '='. On
 * an error *spec is as before. */
ISO_API int iso_policy_spec_parse(iso_policy_spec *spec, const char *parameters, iso_error *e);
/* The whole form of the command line: "nns", "hmdspt:payload=int4:local_batch=8". */
ISO_API int iso_policy_parse(iso_policy_spec *out, const char *text, iso_error *e);

/* What a node makes of its units, and what the coordinator does with it. */
typedef enum iso_way {
    ISO_PLAN_SUM,                        /* exact integer sums of gradients, one optimiser step a batch */
    ISO_PLAN_GRADIENT,                     /* encoded mean gradients (iso_replica, iso_merger, way GRADIENT) */
    ISO_PLAN_LOCAL                         /* local steps, encoded differences (way LOCAL) */
} iso_way;
/* "sum", "gradient", "local". */
ISO_API const char *iso_way_name(iso_way way);

/* When a round of local steps ends. */
typedef enum iso_trigger_kind {
    ISO_TRIGGER_FIXED,                   /* after h_max steps of the fastest node */
    ISO_TRIGGER_SWITCH,                  /* 1 step until the learning rate has fallen, then h_max (post-local SGD) */
    ISO_TRIGGER_LOSS,                    /* h_max sqrt(loss / first loss) steps (AdaComm) */
    ISO_TRIGGER_VARIANCE,                /* when the variance between nodes exceeds theta (FDA) */
    ISO_TRIGGER_MICRO                    /* the same with a theta that calibrates itself and falls with the loss (HMDSPT) */
} iso_trigger_kind;

/* A policy with its parameters as the settings that engines and workers act on. The same on every machine of a job. */
typedef struct iso_plan {
    iso_way way;
    bool free;                           /* each answer is applied at once, with rate / (1 + staleness); else all of a round */
    bool one_node;                       /* one node works at a time; its optimiser's state travels (carry) */
    bool whole_epoch;                    /* the pool is the epoch, not a batch: LOCAL, and GRADIENT when free */
    bool by_score;                       /* a node gets its share of the round as one lease, in proportion to its score */
    bool boxed;                          /* rounds of local steps end by time: nobody waits for a slow lease */
    uint64_t batch;                      /* global batch of the ways that have one, not yet cut to the samples; samples of a
                                            lease when free */
    uint32_t local_batch;                /* samples of a local step */
    uint32_t h_min, h_max;               /* local steps of the fastest node in a round */
    uint32_t monitor_every;              /* local steps between two PULSEs; 0: none */
    uint32_t staleness;                  /* free: leases a node may be ahead of the slowest; UINT32_MAX: any number */
    iso_trigger_kind trigger;
    double theta;                        /* VARIANCE: the threshold; MICRO: its factor */
    iso_payload up, down;                /* GRADIENT, LOCAL */
    iso_outer outer;                     /* LOCAL */
} iso_plan;

/* The plan of a policy for a job of `samples` training samples and global batch `batch`. Thread: any. */
ISO_API void iso_policy_plan(const iso_policy_spec *spec, uint64_t samples, uint64_t batch, iso_plan *out);

/* The global batch a policy works with: the job's, or its own when it ignores it; never more than `samples`. */
ISO_API uint64_t iso_policy_batch(const iso_policy_spec *spec, uint64_t samples, uint64_t batch);

/* ---- frames ----------------------------------------------------------------------------------------------------- */

/* X(kind, value, name). C: sent by the coordinator, N: by a node. */
#define ISO_FRAME_MAP(X)                                                                     \
    X(HELLO, 1, "hello")         /* N: takes part; proves version, job and data */           \
    X(WELCOME, 2, "welcome")     /* C: your session; weights and work follow */              \
    X(REFUSE, 3, "refuse")       /* C: not this program, job or data: stop */                \
    X(WORK, 4, "work")           /* C: a lease */                                            \
    X(DONE, 5, "done")           /* N: leases up to a number are finished, totals so far */  \
    X(COLLECT, 6, "collect")     /* C: send your sum */                                      \
    X(SUM, 7, "sum")             /* N: totals, and the sum as bulk */                        \
    X(WEIGHTS, 8, "weights")     /* C: weights of a round, as bulk */                        \
    X(NEED, 9, "need")           /* N: I lack the weights of this round */                   \
    X(RESET, 10, "reset")        /* C: you are stale, join again */                          \
    X(HEARTBEAT, 11, "heartbeat")/* N: I am here, and I hear nothing */                      \
    X(BYE, 12, "bye")            /* C: the run is over; N: I leave */                        \
    X(DELTA, 13, "delta")        /* C: what one round changed, as bulk */                    \
    X(PULSE, 14, "pulse")        /* N: how far its local steps have led it */

typedef enum iso_frame_kind {
#define ISO_FRAME_ENUM(name, value, text) ISO_FRAME_##name = (value),
    ISO_FRAME_MAP(ISO_FRAME_ENUM)
#undef ISO_FRAME_ENUM
} iso_frame_kind;

/* "hello", ...; "?" for an unknown kind. */
ISO_API const char *iso_frame_name(unsigned kind);

#define ISO_FRAME_VERSION 1u
#define ISO_FRAME_HEADER 64u             /* bytes on the wire before the body */
#define ISO_BODY_MAX 128u                /* bytes of the largest body */
#define ISO_CHUNK_MAX (1u << 20)         /* bytes of the largest chunk of bulk data */
#define ISO_FRAME_MAX (ISO_FRAME_HEADER + ISO_BODY_MAX + ISO_CHUNK_MAX)

/* A frame, decoded. The core sets and reads all but the bulk part. SUM and WEIGHTS carry bulk data, which the core
 * never looks at: on a SEND effect bulk is NULL and chunk_count 1, and the engine attaches the data: the sum of
 * node `from`, or the weights after `round` rounds. In process it sets whatever reference suits it. Between
 * processes it sends chunk_count frames of at most ISO_CHUNK_MAX bytes, all with the same header fields and body,
 * and the receiving engine gathers them (iso_assembly) and steps one FRAME event when they are complete. */
typedef struct iso_frame {
    uint32_t kind;                       /* iso_frame_kind */
    uint32_t incarnation;                /* of the coordinator: larger after each restart; 0 in a first HELLO */
    uint32_t session;                    /* of the node with this incarnation; 0: none (HELLO, REFUSE, broadcasts) */
    uint32_t from, to;
    uint64_t round;                      /* rounds that made the weights in question: 0 for the initial ones */
    uint32_t serial;                     /* bulk data of one round: a larger one replaces a smaller one */
    uint32_t slice, slice_count;         /* parameter slice of the bulk data; 0 of 1 */
    uint32_t chunk_index, chunk_count;   /* 0 of 1 unless cut */
    uint32_t chunk_stride;               /* bytes of every chunk but the last; 0 without bulk bytes */
    uint32_t chunk_bytes;                /* bytes of this chunk */
    const void *bulk;                    /* borrowed: chunk_bytes bytes, or the engine's own reference in process */
    uint32_t body_bytes;
    uint8_t body[ISO_BODY_MAX];          /* control body, always little-endian: tables in docs/protocol.md */
} iso_frame;

/* Bytes the frame takes on the wire. */
ISO_API size_t iso_frame_bytes(const iso_frame *f);
/* Writes header, body and chunk with a crc32c over all of it; returns the bytes written, 0 when capacity is too
 * small or a field is out of range. */
ISO_API size_t iso_frame_encode(const iso_frame *f, void *out, size_t capacity);
/* Reads one frame of exactly `count` bytes; f->bulk points into `bytes`. Never reads past count. Errors:
 * ISO_E_PROTOCOL (short, long, wrong magic, crc or field; the text says which byte), ISO_E_UNSUPPORTED (another
 * version: kind, from and to are set). */
ISO_API int iso_frame_decode(iso_frame *f, const void *bytes, size_t count, iso_error *e);
/* How many bytes the frame that starts here has, from its first ISO_FRAME_HEADER bytes, for stream transports; 0:
 * not a frame. */
ISO_API size_t iso_frame_span(const void *header);

/* Gathers the chunks of one kind of bulk data from one sender (one parameter slice) in fixed memory. Chunks may
 * come twice, late, in any order; a newer (incarnation, session, round, serial) replaces what was gathered, an
 * older one is ignored; nothing is complete before every byte is there. */
typedef struct iso_assembly {
    uint8_t *data;                       /* `bytes` bytes, caller's */
    uint64_t *seen;                      /* a bit a chunk, iso_assembly_words words, caller's */
    size_t bytes;
    uint32_t stride, chunk_count, missing;
    uint32_t incarnation, session, serial;
    uint64_t round;
    bool begun;
} iso_assembly;

typedef enum iso_gather {
    ISO_GATHER_MORE,                     /* taken, not complete */
    ISO_GATHER_COMPLETE,                 /* this chunk completed it: data holds the whole; told once */
    ISO_GATHER_OLD,                      /* repeated or older: nothing changed */
    ISO_GATHER_BAD                       /* its sizes do not fit: nothing changed */
} iso_gather;

/* 64-bit words of `seen` for chunks of `stride` bytes. */
ISO_API size_t iso_assembly_words(size_t bytes, uint32_t stride);
/* data and seen stay the caller's. stride: chunk size both sides agree on, 1 .. ISO_CHUNK_MAX. */
ISO_API void iso_assembly_init(iso_assembly *a, void *data, size_t bytes, uint32_t stride, uint64_t *seen);
ISO_API iso_gather iso_assembly_add(iso_assembly *a, const iso_frame *f);
/* Sets the chunk fields and bulk of *f to chunk `index` of `data`; false past the last (0 bytes still make one
 * chunk). */
ISO_API bool iso_frame_cut(iso_frame *f, const void *data, size_t bytes, uint32_t stride, uint32_t index);

/* ---- orders: what an engine computes ---------------------------------------------------------------------------- */

/* The order of the values is the order of passes that share one round number. */
typedef enum iso_purpose_of_pass { ISO_PASS_VALIDATION, ISO_PASS_TEST, ISO_PASS_TRAIN } iso_purpose_of_pass;
ISO_API const char *iso_purpose_name(iso_purpose_of_pass purpose); /* "validation", "test", "train" */

typedef struct iso_range {
    uint32_t first, count;               /* units of the pass */
} iso_range;

/* A worker's order: compute these units against the weights after `round` rounds. Training adds each unit's
 * gradient to the node's sum; evaluation runs forward only and touches no sum. Positions are samples of the epoch's
 * permutation (training: iso_sampler_at) or sample numbers as they are (evaluation). Answer: ISO_EVENT_ORDER_DONE
 * with the same order number. */
typedef struct iso_compute {
    uint64_t order;                      /* number of this order, unique a worker */
    iso_purpose_of_pass purpose;
    bool fresh;                          /* training: set the node's sum to 0 before the first unit */
    uint32_t epoch;                      /* from 0 */
    uint64_t round;
    uint64_t seed, samples;              /* for iso_sampler_init; samples of the set in question */
    uint64_t first, end;                 /* positions [first, end) of the whole pass */
    uint32_t unit;                       /* samples in a unit; the last unit of the pass may be short */
    uint32_t pass_units;                 /* units of the whole pass: the bound of iso_pass_gradient */
    uint32_t units;                      /* in this order */
    uint32_t range_count;
    iso_range range[ISO_RANGES_MAX];
    bool exact;                          /* LOCAL: answer with payload exact, whatever the plan says: no other node works */
} iso_compute;

/* Unit number `index` < c->units of the order: its positions [*first, *first + return value). */
ISO_API uint32_t iso_compute_unit(const iso_compute *c, uint32_t index, uint64_t *first);
/* Samples in the order. */
ISO_API uint64_t iso_compute_samples(const iso_compute *c);

/* A coordinator's order: the optimiser's step on internal values [begin, end) with the sums of `nodes`. All slices
 * of a round come in one step, do not overlap and may run on any threads at once; the weights belong to them until
 * the last is answered. Afterwards these nodes' sums are free (iso_net_update leaves them 0). Answer:
 * ISO_EVENT_ORDER_DONE each. */
typedef struct iso_update_order {
    uint64_t order;                      /* number of this order, unique a coordinator */
    uint64_t round;                      /* the weights before; round + 1 after it */
    uint32_t slice, slice_count;
    uint64_t begin, end;                 /* multiples of 16 */
    double rate;                         /* of iso_schedule_rate */
    uint64_t step;                       /* round + 1: Adam's bias correction */
    uint64_t samples, units;             /* of the round */
    const uint32_t *nodes;               /* node_count ids whose sums are merged, each once */
    uint32_t node_count;
    uint64_t staleness;                  /* free: rounds since the weights that this answer was made with; rate is divided
                                            by 1 + staleness already */
} iso_update_order;

/* ---- events ----------------------------------------------------------------------------------------------------- */

typedef enum iso_event_kind {
    ISO_EVENT_START,                     /* C, N: first event */
    ISO_EVENT_FRAME,                     /* C, N: a whole frame arrived (bulk gathered) */
    ISO_EVENT_ORDER_DONE,                /* C, N: an order is finished, cancelled ones too; each exactly once */
    ISO_EVENT_TIMER,                     /* C, N: the time of the last WAKE has come (early ones are harmless) */
    ISO_EVENT_PEER_LOST,                 /* C: this node's thread or connection is gone; N: the coordinator's */
    ISO_EVENT_CHECKPOINT_WANTED,         /* C: as soon as there is a round border to save */
    ISO_EVENT_STOP,                      /* C: abandon the round in flight, save the border, DONE; N: leave, DONE */
    ISO_EVENT_PULSE,                     /* N: a running LOCAL order has made another monitor_every steps */
    ISO_EVENT_DRIFTED                    /* N: its weights are not those of their round: check sums differ */
} iso_event_kind;

typedef struct iso_event {
    iso_event_kind kind;
    int64_t now;                         /* ns, any origin, never decreasing on one object */
    const iso_frame *frame;              /* FRAME: borrowed */
    uint64_t order;                      /* ORDER_DONE, PULSE */
    iso_totals totals;                   /* ORDER_DONE: of the order; busy is its measured time. Updates: bad_layer.
                                            PULSE: of the order so far */
    uint32_t units;                      /* ORDER_DONE at a worker: units done, a prefix of the order's; fewer than ordered
                                            only after CUT */
    iso_figures figures;                 /* PULSE */
    uint32_t node;                       /* PEER_LOST at the coordinator */
} iso_event;

/* ---- effects ---------------------------------------------------------------------------------------------------- */

/* X(effect, name): in the order of a step's list they are executed one after the other. */
#define ISO_EFFECT_MAP(X)                                                                                          \
    X(SEND, "send")             /* C, N: send `frame` to frame.to (never to oneself); best effort */               \
    X(COMPUTE, "compute")       /* N: run `compute`; at most one runs at a time a worker */                         \
    X(CUT, "cut")               /* N: end the running order after `cut.units` units; ORDER_DONE says how many */     \
    X(CANCEL, "cancel")         /* N: the result of `order` is no longer wanted; answer ORDER_DONE soon */          \
    X(ADOPT, "adopt")           /* N: make the weights of the last WEIGHTS event (round `round`) the current ones */\
    X(APPLY, "apply")           /* N: add the difference of the last DELTA event: the weights become those of `round` */\
    X(UPDATE, "update")         /* C: run `update` */                                                               \
    X(TAKE, "take")             /* C: the SUM of `node` in this event counts: an engine that copies merges it now */\
    X(WAKE, "wake")             /* C, N: step TIMER at `at`; replaces the last one; ISO_NEVER: none */              \
    X(CHECKPOINT, "checkpoint") /* C: save weights, optimiser and iso_coordinator_save before the next UPDATE runs */\
    X(ROUND, "round")           /* C: `round_result`: a round is finished */                                        \
    X(EPOCH, "epoch")           /* C: `epoch_result`: an epoch is finished and evaluated */                         \
    X(LOG, "log")               /* C, N: `record`: something worth a line */                                        \
    X(DONE, "done")             /* C, N: the end; `stopped` tells whether by STOP */                                \
    X(FAILED, "failed")         /* C, N: the end; `error` says why. No checkpoint belongs to the failed round */

typedef enum iso_effect_kind {
#define ISO_EFFECT_ENUM(name, text) ISO_EFFECT_##name,
    ISO_EFFECT_MAP(ISO_EFFECT_ENUM)
#undef ISO_EFFECT_ENUM
} iso_effect_kind;
/* "send", "compute", ...; never NULL. */
ISO_API const char *iso_effect_name(iso_effect_kind kind);

typedef struct iso_round_result {
    uint64_t round;                      /* rounds done, this one included */
    uint32_t epoch;                      /* from 0 */
    iso_totals totals;                   /* of this round */
    iso_totals epoch_totals;             /* of the epoch so far */
    uint64_t samples_done;               /* since the beginning of the run */
    double rate;                         /* learning rate used */
    int64_t started, ended;              /* times of the events that began and ended it */
    uint32_t nodes;                      /* whose sums were merged */
    bool epoch_end;
    uint32_t steps;                      /* LOCAL: local steps of the fastest node that the round was planned for; else 0 */
    double variance, theta;              /* LOCAL with a monitor: between the nodes, and its threshold; else 0 */
} iso_round_result;

typedef struct iso_epoch_result {
    uint32_t epoch;                      /* from 0 */
    uint64_t round;                      /* rounds done */
    iso_totals train, validation, test;  /* samples 0: there is no such set */
    bool best;                           /* the lowest validation loss so far (never without a validation set); the
                                            weights are those of now: copy them before the next UPDATE runs */
    bool last;
} iso_epoch_result;

/* X(record, name). What the fields mean stands in docs/protocol.md; `node` is ISO_COORDINATOR where none is meant. */
#define ISO_RECORD_MAP(X)                                                                            \
    X(JOIN, "join")             /* a node takes part */                                              \
    X(RETURN, "return")         /* a node that had been here takes part again */                     \
    X(LEAVE, "leave")           /* it said BYE */                                                    \
    X(LOST, "lost")             /* the engine said so */                                             \
    X(DEAD, "dead")             /* its learned deadline passed */                                    \
    X(REVOKE, "revoke")         /* `units` units of it went back to the pool */                      \
    X(REFUSED, "refused")       /* `reason`: iso_refusal */                                          \
    X(STALE, "stale")           /* it was answered with RESET */                                     \
    X(WAITING, "waiting")       /* no node is left: waiting for one */                               \
    X(BAD_FRAME, "bad_frame")   /* a frame that makes no sense was dropped; `reason`: its kind */    \
    X(BAD_TOTALS, "bad_totals") /* a node's count of samples is not that of its leases: reset */     \
    X(EPOCH, "epoch")           /* an epoch begins */                                                \
    X(COUNTED, "counted")       /* audit: units of the round that count, by this node */             \
    X(RESUMED, "resumed")       /* the run goes on from a saved state */                             \
    X(DRIFTED, "drifted")       /* a node's weights were not those of the round; it gets them anew */

typedef enum iso_record_kind {
#define ISO_RECORD_ENUM(name, text) ISO_RECORD_##name,
    ISO_RECORD_MAP(ISO_RECORD_ENUM)
#undef ISO_RECORD_ENUM
} iso_record_kind;
/* "join", "return", ...; never NULL. */
ISO_API const char *iso_record_name(iso_record_kind kind);

typedef enum iso_refusal {
    ISO_REFUSAL_NONE, ISO_REFUSAL_PROGRAM, ISO_REFUSAL_JOB, ISO_REFUSAL_DATA, ISO_REFUSAL_FULL
} iso_refusal;
ISO_API const char *iso_refusal_text(unsigned refusal); /* a sentence for a person */

typedef struct iso_record {
    iso_record_kind kind;
    uint32_t node, session, epoch;
    uint64_t round, units;
    uint32_t reason;
    /* COUNTED: exactly once a (round, node) that counted, when config.audit. Ranges of the round's units, ascending. */
    const iso_range *range;
    uint32_t range_count;
    uint64_t first, end;                 /* positions of the round; unit j is [first + j*unit, ...) cut at end */
    uint32_t unit;
} iso_record;

/* The answer of `node` in this very event counts. */
typedef struct iso_take {
    uint32_t node;
    uint64_t samples;                    /* of this answer: its weight in the merge (GRADIENT, LOCAL) */
} iso_take;

/* The running order is to end when `units` of it are done, or at the next unit's and local step's border if they are
 * already. */
typedef struct iso_cut {
    uint64_t order;
    uint32_t units;
} iso_cut;

typedef struct iso_effect {
    iso_effect_kind kind;
    union {
        iso_frame frame;
        iso_compute compute;
        iso_update_order update;
        iso_round_result round_result;
        iso_epoch_result epoch_result;
        iso_record record;
        const iso_error *error;          /* lives in the object */
        uint64_t order;                  /* CANCEL */
        iso_cut cut;                     /* CUT */
        uint64_t round;                  /* ADOPT, APPLY, CHECKPOINT */
        iso_take take;                   /* TAKE */
        int64_t at;                      /* WAKE */
        bool stopped;                    /* DONE */
    };
} iso_effect;

/* Caller's array. capacity must be at least iso_coordinator_effects_max / ISO_WORKER_EFFECTS_MAX: a step never
 * needs more. */
typedef struct iso_effects {
    iso_effect *item;
    uint32_t capacity, count;            /* a step sets count */
} iso_effects;

/* ---- coordinator ------------------------------------------------------------------------------------------------ */

typedef struct iso_core_config {
    /* the job */
    uint64_t samples;                    /* training samples, >= 1 */
    uint64_t validation, test;           /* samples to evaluate after each epoch; 0: none */
    uint64_t batch;                      /* the job's global batch, >= 1 */
    uint32_t unit;                       /* samples in a unit, 1 .. ISO_UNIT_MAX */
    uint32_t epochs;                     /* >= 1 */
    uint64_t seed;
    iso_policy_spec policy;
    iso_optimizer optimizer;
    iso_schedule schedule;
    uint64_t values;                     /* P', a multiple of 16 */
    const iso_net *net;                  /* for layer names in messages; may be NULL. Borrowed for the object's life */
    uint64_t job_digest;                 /* anything that differs when the job does; proved at join */
    uint64_t data_digest;                /* fingerprint of the training data; proved at join with `samples` */
    uint32_t program;                    /* version of the program; proved at join */
    /* members */
    uint32_t nodes_max;                  /* ids 0 .. nodes_max-1 */
    uint32_t nodes_first;                /* begin when so many have joined, or ... */
    int64_t first_wait;                  /* ... ns after START, with at least one; ISO_NEVER: wait for all */
    /* the engine's ways */
    uint32_t slices;                     /* update orders a round, 1 .. ISO_SLICES_MAX */
    bool sums_in_place;                  /* sums stay in the nodes' accumulators until UPDATE (shared memory). Else a
                                            TAKE copies or merges the SUM, and what was taken survives its node */
    bool shared_weights;                 /* nodes see the weights without WEIGHTS frames */
    bool audit;                          /* COUNTED records */
    uint32_t depth;                      /* leases a node may hold at once, 1 .. ISO_LEASE_DEPTH; 2 hides latency */
    int64_t resend;                      /* ns before an unanswered frame is repeated; 0: frames are never lost */
    double deadline_factor;              /* a node is dead after factor * expected time + floor; learned from it */
    int64_t deadline_floor;              /* ns; with resend > 0 several times that */
    int64_t deadline_first;              /* ns, while nothing is known of the node; ISO_NEVER: as long as it takes */
    /* checkpoints, at round borders */
    uint64_t checkpoint_rounds;          /* 0: not by rounds */
    int64_t checkpoint_ns;               /* 0: not by time */
} iso_core_config;

/* nns, one node, one epoch, deadlines 8x + 1 s, first 60 s, no resend, nothing shared; the job's part is left 0. */
ISO_API void iso_core_config_default(iso_core_config *c);
/* Errors: ISO_E_ARGUMENT naming the member and its bounds. */
ISO_API int iso_core_config_check(const iso_core_config *c, iso_error *e);

typedef struct iso_coordinator iso_coordinator;

/* Bytes of memory (aligned to ISO_ALIGN), effects of the largest step, bytes of the largest saved state. 0 when the
 * config is wrong. */
ISO_API size_t iso_coordinator_bytes(const iso_core_config *config);
ISO_API uint32_t iso_coordinator_effects_max(const iso_core_config *config);
ISO_API size_t iso_coordinator_state_max(const iso_core_config *config);

/* Makes a coordinator in caller memory; copies config. incarnation: larger at each restart as far as the caller
 * knows (0 for a first start). NULL when the config is wrong. */
ISO_API iso_coordinator *iso_coordinator_init(const iso_core_config *config, uint32_t incarnation, void *memory);

/* Before START: go on from a saved state, under a larger incarnation than any before. Errors: ISO_E_FORMAT (cut,
 * crc, version), ISO_E_MISMATCH (another job: names what differs), ISO_E_STATE (already started). The coordinator
 * is unchanged on an error. */
ISO_API int iso_coordinator_resume(iso_coordinator *c, const void *state, size_t bytes, iso_error *e);

/* Writes the state of the last round border (little-endian, versioned, crc32c); returns its bytes, 0 when capacity is
 * too small, while an UPDATE is running (there is no border then) and after FAILED. Always right when executing
 * CHECKPOINT. Equal states give equal bytes, but for learned speeds and measured times. */
ISO_API size_t iso_coordinator_save(const iso_coordinator *c, void *out, size_t capacity);

/* What a saved state says, without a coordinator. Errors: ISO_E_FORMAT. */
typedef struct iso_saved {
    uint32_t incarnation, epoch, epochs; /* epoch: running, from 0; == epochs when finished */
    uint64_t round, cursor, samples_done;/* cursor: position in the epoch */
    uint64_t samples, batch, seed;
    bool finished, evaluated;            /* evaluated: the epoch that ended at this border has been reported */
} iso_saved;
ISO_API int iso_saved_read(iso_saved *out, const void *state, size_t bytes, iso_error *e);

/* One event. Frames that are stale, repeated or make no sense are answered or dropped (LOG), never an error.
 * Errors: ISO_E_ARGUMENT (an unknown kind of event, no frame, effects too small), ISO_E_STATE (not started, started
 * twice). No effect is given then. After DONE or FAILED frames are answered with BYE and the rest is ignored.
 * Cost: O(what changed), about a microsecond. */
ISO_API int iso_coordinator_step(iso_coordinator *c, const iso_event *event, iso_effects *effects);

typedef enum iso_phase {
    ISO_PHASE_NEW,                       /* before START */
    ISO_PHASE_GATHER,                    /* waiting for the first nodes */
    ISO_PHASE_WORK,                      /* a pass is being worked off (or waits for nodes) */
    ISO_PHASE_UPDATE,                    /* update orders are running */
    ISO_PHASE_DONE,
    ISO_PHASE_FAILED
} iso_phase;

typedef struct iso_coordinator_view {
    iso_phase phase;
    iso_purpose_of_pass purpose;         /* of the present pass */
    uint32_t epoch, incarnation;
    uint64_t round, rounds;              /* done; in the whole run, 0: nobody knows before (local steps, free) */
    uint64_t cursor;                     /* position in the epoch at the last border */
    uint64_t samples_done;
    uint64_t batch;                      /* the policy's */
    uint32_t nodes;                      /* live */
    uint64_t units, units_free, units_counted; /* of the present pass */
    int64_t wake;
} iso_coordinator_view;
/* Where the run stands. Cost O(1). */
ISO_API void iso_coordinator_look(const iso_coordinator *c, iso_coordinator_view *out);

typedef enum iso_node_state {
    ISO_NODE_ABSENT, ISO_NODE_LIVE, ISO_NODE_DEAD, ISO_NODE_LOST, ISO_NODE_LEFT
} iso_node_state;
/* "absent", "live", "dead", "lost", "left". */
ISO_API const char *iso_node_state_name(iso_node_state state);

typedef struct iso_node_info {
    iso_node_state state;
    uint32_t session;
    double score;                        /* samples a second while busy, learned; 0: not known yet */
    uint64_t samples;                    /* training samples that counted, since this coordinator started or resumed */
    int64_t busy, idle;                  /* ns since then, as a live node; at the time of the last event */
    uint64_t round_samples;              /* of the last finished round */
    int64_t round_busy;
    uint32_t leases, deaths;             /* since this coordinator started */
    uint32_t holding;                    /* leases not answered yet */
} iso_node_info;
/* False when the id is beyond nodes_max. Cost O(1). */
ISO_API bool iso_coordinator_node(const iso_coordinator *c, uint32_t node, iso_node_info *out);

/* Learned speeds are hints: an engine that has measured a node before tells its score here (samples a second, > 0). */
ISO_API void iso_coordinator_hint(iso_coordinator *c, uint32_t node, double score);

/* ---- worker ----------------------------------------------------------------------------------------------------- */

typedef struct iso_worker_config {
    uint32_t node;                       /* its id */
    uint64_t life;                       /* larger at each start of the node (a clock, a counter); any value works */
    uint64_t samples, validation, test;  /* of its data */
    uint64_t seed, job_digest, data_digest;
    uint32_t program;
    bool shared_weights;                 /* as the coordinator's */
    int64_t resend;                      /* ns before HELLO is repeated; 0: frames are never lost */
    int64_t heartbeat;                   /* ns of silence before HEARTBEAT; 0: never */
} iso_worker_config;

typedef struct iso_worker iso_worker;

#define ISO_WORKER_EFFECTS_MAX 8u

/* Bytes of a worker's memory. */
ISO_API size_t iso_worker_bytes(void);
/* Makes a worker in caller memory (aligned to ISO_ALIGN); copies config. */
ISO_API iso_worker *iso_worker_init(const iso_worker_config *config, void *memory);
/* One event. Errors as iso_coordinator_step. START joins. A worker that was told RESET or lost its coordinator
 * joins again by itself, but never while an order runs: it cancels the order and waits for its ORDER_DONE. */
ISO_API int iso_worker_step(iso_worker *w, const iso_event *event, iso_effects *effects);

typedef enum iso_worker_phase {
    ISO_WORKER_NEW, ISO_WORKER_JOINING, ISO_WORKER_READY, ISO_WORKER_OVER /* DONE or FAILED */
} iso_worker_phase;
typedef struct iso_worker_view {
    iso_worker_phase phase;
    uint32_t incarnation, session;
    uint64_t life, round;                /* round of the weights it holds */
    bool running;                        /* a COMPUTE is not answered yet */
    uint64_t order;                      /* the running one */
    int64_t wake;
} iso_worker_view;
/* Where the worker stands. Cost O(1). */
ISO_API void iso_worker_look(const iso_worker *w, iso_worker_view *out);

#endif

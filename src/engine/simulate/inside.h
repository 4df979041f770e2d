/* SPDX-License-Identifier: Apache-2.0
 * Inside the simulator: what its files share.
 *
 * One event after the other is taken from the queue, given to the core of a node or of the coordinator, and its effects are
 * carried out: orders become events of their ends, frames become messages that arrive. Data that frames carry are *blobs*,
 * immutable and counted; on a link that loses nothing they travel by reference, on others in chunks that are gathered and
 * compared. Invariant: nothing here asks a clock or draws a number but by its key, so equal inputs give equal runs. */
#ifndef ISO_ENGINE_SIMULATE_INSIDE_H
#define ISO_ENGINE_SIMULATE_INSIDE_H

#include "base/buffer.h"
#include "engine/run/tally.h"
#include "engine/simulate/link.h"
#include "engine/simulate/queue.h"
#include "engine/simulate/simulate.h"
#include "engine/simulate/speed.h"
#include "isochron/core.h"

#define SIM_STRIDE (256u << 10) /* bytes of a chunk on a link that loses some */
#define SIM_NEWS 4u             /* weights and differences a node keeps until it takes them */
#define SIM_CHECKS 256u         /* rounds whose check sum is remembered */

/* Positions [first, first + count) of an epoch. */
typedef struct sim_span {
    uint64_t first, count;
} sim_span;

/* Spans of samples, in the order they were worked off. */
typedef struct sim_spans {
    sim_span *span;
    uint32_t count, capacity;
    uint64_t samples;
    uint32_t epoch;
} sim_spans;

/* What a frame carries. data is NULL with the cost model. */
typedef struct sim_blob {
    uint32_t refs;
    uint64_t round;        /* weights, difference: the round that made them, as in ADOPT and APPLY */
    bool full;             /* weights, not a difference */
    size_t bytes;          /* of data */
    uint64_t cost;         /* bytes on the way: exact sums count as fp32 */
    iso_payload payload;   /* of a difference or an answer */
    unsigned char *data;
    float *internal;       /* weights of the SUM way: [P'] as the kernels read them; else NULL */
    sim_spans spans;       /* of an answer: what is in it */
    struct sim_blob *true_one; /* a damaged copy: of what. NULL otherwise */
    struct sim_blob *before;   /* taken of the same node in the same round: a node can answer again when another one dies */
} sim_blob;

typedef struct sim_message {
    iso_frame frame;       /* bulk points into blob */
    sim_blob *blob;        /* may be NULL */
    bool whole;            /* not cut into chunks */
    bool dead;             /* the machine at one end went while its own wire carried it */
    uint64_t cost;         /* bytes on the way */
    uint64_t life;         /* down, on the machine's wire: of the machine */
    int64_t sent;          /* when its last byte has left the sender */
    int64_t last;          /* when its last byte is at the second wire */
    uint32_t node;         /* it comes from there (up), or goes there */
    bool up;
} sim_message;

typedef struct sim_gather {
    iso_assembly assembly;
    unsigned char *data;   /* NULL until needed */
    uint64_t *seen;
} sim_gather;

typedef struct sim_node {
    const iso_machine *machine;
    iso_fate fate;
    bool up, absent;       /* absent: not there at first */
    uint64_t life;         /* of the machine: +1 at each start; events of older lives are void */
    uint64_t timer;        /* serial of the last WAKE */
    iso_worker *core;
    uint32_t session;
    sim_wire wire_up, wire_down;
    sim_blob *news[SIM_NEWS]; /* weights and differences that have come whole; NULL: a free place */
    sim_blob *weights;     /* current, SUM way */
    iso_replica *replica;  /* other ways, real arithmetic; in replica_memory */
    void *replica_memory;
    bool damaged;          /* cost model: the canary's bit */
    uint64_t base_round;
    bool has_weights;
    int64_t *sum;          /* [P'], SUM way, real arithmetic */
    sim_blob *answer;      /* what it would send now; NULL: to be made */
    sim_spans done;        /* since the last fresh order */
    bool exact;
    sim_gather up_gather, weights_gather, delta_gather;
    sim_blob *arrived, *taken; /* at the coordinator: its last whole SUM; what was taken of it and waits for the update */
    /* the running order */
    bool computing, cancelled;
    iso_compute order;
    uint64_t orders;       /* begun in this and earlier lives */
    uint64_t serial;       /* of the unit's event */
    double factor;
    int64_t began;
    uint32_t unit, cut;    /* units done; UINT32_MAX, or end after so many */
    uint64_t pulsed;       /* samples of the order at the last pulse */
    iso_totals totals;
    int64_t idle_since;    /* for the trace */
    uint64_t adopted;      /* weights taken, for the canary */
} sim_node;

/* What the fault seed gave besides losses. */
typedef struct sim_drawn {
    iso_ratio crash, told, pause; /* of machines; of crashes that the coordinator is told of */
    uint32_t parts;               /* length of the fault phase in quarters of the run's expected time */
} sim_drawn;

struct iso_sim {
    iso_sim_config config;
    iso_core_config core;
    const iso_alloc *alloc;
    iso_plan plan;
    size_t values, parameters;
    uint32_t states, count;
    uint64_t seed;         /* of noise and faults */
    bool lossy;            /* some link loses, repeats or reorders */
    int64_t now;

    sim_queue queue;
    sim_node *node;        /* [count] */
    void *worker_memory;
    iso_effects effects;
    void *coordinator_memory;
    iso_coordinator *coordinator;
    uint64_t timer;
    sim_wire wire_in, wire_out;

    sim_message *message;  /* a pool; free ones form a chain through frame.round */
    uint32_t messages, first_free;
    uint64_t packets;      /* sent, for the draws */

    /* the coordinator's weights: internal [P'] with states (SUM), or a merger */
    float *w, *state[ISO_STATES_MAX];
    int64_t *merged;       /* [P'] */
    iso_merger *merger;
    void *merger_memory;
    float *scratch;        /* [P], of the check of weights */
    sim_blob *full, *change; /* of the last border, made when asked for */
    uint32_t check[SIM_CHECKS]; /* of the weights after round i, at i % SIM_CHECKS */
    uint64_t border;       /* rounds that made the weights */
    iso_update_order update;
    uint32_t *update_node; /* [count] */

    /* arithmetic, one at a time */
    iso_pass *pass, *eval;
    void *pass_memory, *eval_memory, *kept;
    iso_feeder feeder;
    void *feeder_memory;

    /* faults */
    iso_machine_event *fate; /* of all nodes, by node and time */
    iso_ratio loss, duplicate, reorder; /* drawn, while the phase lasts */
    sim_drawn drawn;
    int64_t heals_at;
    bool healed;
    bool dropped;          /* canary: a frame is lost, and with it the coordinator's timers */
    uint32_t deaf;         /* canary: the node that it was for */
    bool planted;

    /* what was seen */
    uint64_t round;        /* told as done */
    uint64_t bytes_up, bytes_down, sent_up, sent_down; /* since the last round was told */
    int64_t progress_at, patience;
    uint64_t progress, progress_seen;
    bool resumed;
    sim_spans merging;     /* what the round's answers hold */
    iso_tally counted, audited;
    uint64_t audit_samples, merged_samples; /* of the running round */
    uint64_t next_probe;   /* samples */
    iso_buffer trace;

    iso_buffer notes;
    size_t note_at;        /* of the first one not dealt with */
    bool ended, failed, told_failure, stop_wanted;
    iso_error error;
    iso_snapshot *snapshot;
    float *best;
    iso_note last;         /* of a run that failed; at the end, since a note may have more behind it */
};

/* ---- simulate.c ---------------------------------------------------------------------------------------- */

/* The run ends with an error; the first one counts. */
void iso_sim_fail(iso_sim *s, int code, const char *format, ...) ISO_PRINTF(3, 4);
void iso_sim_no_memory(iso_sim *s);
void iso_sim_at(iso_sim *s, int64_t at, sim_kind kind, uint32_t node, uint32_t what, uint64_t serial);

/* ---- blob.c -------------------------------------------------------------------------------------------- */

/* A blob with data of `bytes`, one reference; NULL: no memory, told. */
sim_blob *iso_sim_blob(iso_sim *s, size_t bytes, uint64_t cost, bool internal);
sim_blob *iso_sim_hold(sim_blob *b);
/* Gives a reference back; *b becomes NULL. */
void iso_sim_drop(iso_sim *s, sim_blob **b);
void iso_sim_span_add(iso_sim *s, sim_spans *list, uint64_t first, uint64_t count);
void iso_sim_span_copy(iso_sim *s, sim_spans *to, const sim_spans *from);
void iso_sim_span_fini(iso_sim *s, sim_spans *list);

/* ---- network.c ----------------------------------------------------------------------------------------- */

/* A frame of the coordinator to a node, or of a node to the coordinator, with what it carries (NULL: nothing). */
void iso_sim_send(iso_sim *s, uint32_t node, bool up, const iso_frame *f, sim_blob *blob);
/* A message's first byte comes to the second wire at `first`. */
void iso_sim_pass(iso_sim *s, uint32_t index, int64_t first);
/* A message has arrived. */
void iso_sim_arrive(iso_sim *s, uint32_t index);
/* A machine is gone: what its own link has not done with is lost. */
void iso_sim_unplug(iso_sim *s, uint32_t node);
void iso_sim_network_fini(iso_sim *s);
void iso_sim_gather_fini(iso_sim *s, sim_gather *g);

/* ---- node.c -------------------------------------------------------------------------------------------- */

void iso_sim_node_start(iso_sim *s, uint32_t id);
void iso_sim_node_crash(iso_sim *s, uint32_t id);
void iso_sim_node_step(iso_sim *s, uint32_t id, iso_event *event);
void iso_sim_node_unit(iso_sim *s, uint32_t id);
void iso_sim_node_fini(iso_sim *s, sim_node *n);
/* The end of the pause that node is in; `now` when it is in none. */
int64_t iso_sim_node_awake(const iso_sim *s, uint32_t id);

/* ---- arithmetic.c -------------------------------------------------------------------------------------- */

/* A node's unit into n->totals; its gradient into the sum, its steps into the replica. */
void iso_sim_unit(iso_sim *s, sim_node *n, uint64_t first, uint32_t count);
/* The canary: what a node has just done is counted once more. */
void iso_sim_unit_twice(iso_sim *s, uint32_t id, uint64_t first, uint32_t count);
/* A node's weights become those after `round` rounds: by whole weights (full), or by the difference that this round made. */
void iso_sim_adopt(iso_sim *s, uint32_t id, uint64_t round, bool full);
/* What a node answers; borrowed. */
sim_blob *iso_sim_answer(iso_sim *s, sim_node *n);
/* The coordinator's weights for WEIGHTS; borrowed. NULL: no memory. */
sim_blob *iso_sim_full(iso_sim *s);
/* The update: all that was taken becomes new weights. */
void iso_sim_update(iso_sim *s, int32_t *bad_layer);
/* Share of right answers on the probe's part of the test set, with the coordinator's weights; NaN without one. */
double iso_sim_probe(iso_sim *s);
int iso_sim_arithmetic_init(iso_sim *s, iso_error *e);
void iso_sim_arithmetic_fini(iso_sim *s);
void iso_sim_replica_config(const iso_sim *s, iso_replica_config *c);
/* Room for a node's replica or sum. */
bool iso_sim_node_room(iso_sim *s, sim_node *n);

/* ---- coordinator.c ------------------------------------------------------------------------------------- */

/* Bytes of a note with what follows it. */
size_t iso_sim_note_size(const iso_sim *s, const iso_note *n);
void iso_sim_step(iso_sim *s, iso_event *event);
void iso_sim_updated(iso_sim *s, uint32_t slice);

/* ---- faults.c ------------------------------------------------------------------------------------------ */

/* Fates and the fault phase, from the cluster and the seed. Errors: ISO_E_NOMEM. */
int iso_sim_faults_init(iso_sim *s, iso_error *e);
/* Does the coordinator hear of this crash? */
bool iso_sim_told(const iso_sim *s, uint32_t id, uint64_t life);

/* ---- check.c ------------------------------------------------------------------------------------------- */

void iso_sim_check_update(iso_sim *s);
void iso_sim_check_counted(iso_sim *s, const iso_record *r);
void iso_sim_check_round(iso_sim *s, const iso_round_result *r);
void iso_sim_check_epoch(iso_sim *s, const iso_epoch_result *r);
/* Before a node computes: are its weights the coordinator's? */
void iso_sim_check_weights(iso_sim *s, uint32_t id);
/* Does anything that counts still happen? */
void iso_sim_check_progress(iso_sim *s);

/* ---- trace.c ------------------------------------------------------------------------------------------- */

/* A span of time in node's line (count: the coordinator's) of the timeline. */
void iso_sim_trace(iso_sim *s, uint32_t line, const char *name, int64_t from, int64_t to, uint64_t samples);

#endif

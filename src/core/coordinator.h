/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's insides, shared by its files:
 *   coordinator.c  memory, the step, views          member.c  who takes part
 *   lease.c        who computes what, until when    course.c  passes, updates, borders, the end
 *   saved.c        the state as bytes                shares.c   how much each node gets
 *   local.c        rounds of local steps             pace.c     how long they are
 *   free.c         answers applied as they come
 *
 * Invariants. Only LIVE nodes hold leases. given - done == held for every node. `counted` is the number of units whose
 * result the coordinator has for good (in-place sums: until their node dies), and a pass ends exactly when it equals
 * pool.units. A node's fields of the present pass are valid only if node.key == c->key: a new pass costs nothing for
 * nodes that take no part. */
#ifndef ISO_CORE_COORDINATOR_H
#define ISO_CORE_COORDINATOR_H

#include "core/body.h"
#include "core/pace.h"
#include "core/partition.h"
#include "core/policy.h"
#include "core/pool.h"
#include "core/score.h"
#include "isochron/core.h"

typedef struct lease {
    uint32_t number, units, range_count;
    bool final, exact;
    uint64_t samples;
    iso_range range[ISO_RANGES_MAX];
} lease;

typedef struct node {
    /* membership */
    uint64_t life;
    uint32_t session, live_index; /* live_index: place in c->live while LIVE */
    iso_node_state state;
    bool known;                   /* it was here before: life is valid */
    int64_t joined, present;      /* when this session began; ns of the sessions before */

    /* the present pass: see enter_pass */
    uint64_t key;
    uint32_t given, done, held;   /* leases of this session; held == given - done of them wait in `lease` */
    uint32_t part;                /* what would be lost with the node */
    uint32_t units;               /* of this part */
    bool taken, collecting, listed; /* its SUM counts; COLLECT was sent; it stands in c->sums */
    uint64_t samples_done;        /* samples of the leases answered in this part: what totals must say */
    iso_totals totals;            /* of this part, as the node told */
    iso_totals counted;           /* of this pass, as it counts */
    lease lease[ISO_LEASE_DEPTH]; /* oldest first */

    /* rounds of local steps */
    uint32_t quota;               /* units it is to get */
    bool cutting;                 /* COLLECT with cut was sent for the lease it holds */
    uint32_t cut_units;
    lease finished;               /* what counts of its lease, once taken */
    uint64_t base;                /* free: rounds that made the weights of its lease */
    uint64_t clock;               /* free: its leases answered in this epoch */
    bool queued;                  /* free: its answer waits for its update; outlives it */
    uint64_t weights_sent;        /* free: 1 + the newest round whose weights it was sent; 0: none */
    uint64_t pulse_samples;       /* as of its last PULSE of this round */
    iso_figures figures;

    /* waiting for an answer */
    int64_t asked, deadline, resend_at;
    uint32_t tries;

    /* learned */
    iso_score score;              /* score.ns: ns a sample, 0: not known */
    iso_overhead fixed;           /* of answers that needed no repeat: what a lease costs beside its samples */
    double overhead; /* ns between asking and answering that were not compute, repeats included: moving mean */
    double clean_overhead;        /* the same of answers that needed no repeat: slowly falling maximum */
    uint32_t patience;            /* doublings of the first wait before a repeat; grows while answers need repeats */
    uint32_t overdue;             /* deadlines missed since its last answer; each doubles the next */
    uint32_t sums;                /* SUMs that counted */
    iso_parking parking;
    uint64_t parked_key;          /* the last pass that parking knows of */

    /* figures */
    uint64_t samples, last_key, last_samples;
    int64_t busy, last_busy;      /* last_: the training pass before the present one */
    uint32_t leases, deaths;
} node;

struct iso_coordinator {
    iso_core_config config;
    uint64_t batch, rounds_epoch, rounds;
    uint32_t incarnation, sessions; /* sessions: the last one given out */
    iso_phase phase;
    int64_t now, wake, wake_wanted;
    int64_t gather_until;         /* from then on one node is enough to begin */
    iso_effects *effects;         /* of the running step */
    uint32_t effects_most;        /* of any step */
    iso_error error;

    node *nodes;                  /* nodes_max */
    uint32_t *live, live_count;   /* ids */
    uint32_t idle;                /* live nodes that hold no lease */
    double known_speed, fastest;  /* samples a ns, of live nodes with a known speed */
    uint32_t known_count;
    bool speeds_stale;            /* the fastest one has become slower: look for it anew at the next pass */
    iso_share *share_of;          /* nodes_max: shares.c works in it, in the order of `live` */
    uint32_t *heap;               /* nodes_max */
    uint32_t shared_units;        /* what the quotas add up to while they may stay; 0: they may not */
    uint32_t passes;              /* begun; the speeds are summed anew now and then */
    bool waiting_told;            /* WAITING was logged for the present lack of nodes */

    /* border state: what a checkpoint holds */
    uint64_t round;
    bool evaluated;               /* the epoch that ended at this border is reported (true inside an epoch) */
    bool has_best;
    double best;
    iso_totals epoch_totals;

    /* present pass */
    iso_purpose_of_pass purpose, stage; /* stage: what to evaluate next at an epoch's end */
    uint64_t key;
    iso_pool pool;
    uint32_t counted, leased;     /* units */
    uint32_t held;                /* leases of all nodes */
    iso_plan plan;
    uint32_t epoch;               /* plan.whole_epoch: running, or ended and not evaluated */
    uint64_t settled;             /* its samples that count */
    iso_pace pace;
    bool cut;                     /* the round was told to end */
    uint32_t *queue, queue_first, queue_count; /* free: a ring of ids */
    uint64_t staleness;           /* of the answer that is applied */
    uint32_t applied;             /* free: whose answer the last round was, and what it held */
    iso_totals applied_totals;
    int64_t box_at;               /* then whoever still works ends at its next border */
    bool share;                   /* units came back or a node came: offer what is free */
    int64_t pass_started;
    iso_totals pass_totals;
    iso_totals evaluation[2];     /* validation, test of the epoch that ended */
    uint32_t *sums, sum_count;    /* nodes with counted sums */
    double rate;
    uint64_t slice_open[ISO_SLICES_MAX / 64]; /* bit set: not answered */
    uint32_t slices_open;
    bool stopping, checkpoint_wanted;
    int32_t bad_layer;            /* of the update */

    /* checkpoints */
    bool saved_any, saved_evaluated, resumed;
    bool saving;                  /* CHECKPOINT was given in this step: no update may begin in it */
    uint64_t saved_round;
    int64_t saved_at;

    /* audit */
    iso_range *run;               /* pool capacity, NULL without audit */
    uint32_t *run_start;          /* nodes_max */
};

/* ---- coordinator.c ---- */
iso_effect *iso_emit(iso_coordinator *c, iso_effect_kind kind);
/* A SEND to a node under its present session; the caller fills the body. */
iso_frame *iso_emit_frame(iso_coordinator *c, iso_frame_kind kind, uint32_t id);
/* A LOG about a node or ISO_COORDINATOR. */
iso_record *iso_emit_record(iso_coordinator *c, iso_record_kind kind, uint32_t id);
/* A WAKE at `at` or before. */
void iso_arm(iso_coordinator *c, int64_t at);
int64_t iso_later(int64_t now, double ns); /* saturates at ISO_NEVER */

/* ---- member.c ---- */
void iso_member_hello(iso_coordinator *c, const iso_frame *f);
/* The node is gone: its leases and what would be lost with it go back. */
void iso_member_drop(iso_coordinator *c, uint32_t id, iso_node_state state, iso_record_kind why);
/* RESET as the answer to a frame, or to a session of our own choice. */
void iso_member_reset(iso_coordinator *c, uint32_t to, const body_reset *b);
void iso_member_weights(iso_coordinator *c, uint32_t to);
/* To everyone, at a border: the new weights, or what the round changed. */
void iso_member_news(iso_coordinator *c);
/* Sums the speeds of live nodes anew. */
void iso_member_speeds(iso_coordinator *c);
/* So many samples took a node ns of compute. */
void iso_member_learn(iso_coordinator *c, node *n, double samples, double ns);
/* Was a node without units in this pass long enough to be tried again? At most once a pass. */
bool iso_member_try_again(iso_coordinator *c, node *n);

/* ---- lease.c ---- */
void iso_lease_answer(iso_coordinator *c, const iso_frame *f);
/* Takes the leases up to the answer's number off the node; false when its totals cannot be those of these leases. */
bool iso_lease_retire(iso_coordinator *c, node *n, const body_answer *b);
/* The node said what cannot be: it is reset. */
void iso_lease_bad_totals(iso_coordinator *c, uint32_t id);
/* Says again what the node has not answered. */
void iso_lease_repeat(iso_coordinator *c, uint32_t id);
void iso_lease_revoke(iso_coordinator *c, uint32_t id);
/* Offers free units to all live nodes; if nobody wants any and nobody works, the fastest must. */
void iso_lease_share(iso_coordinator *c);
void iso_lease_timer(iso_coordinator *c);

/* Grants a node up to `units` units as one lease. final: its answer brings the sum. */
void iso_lease_grant(iso_coordinator *c, uint32_t id, uint32_t units, bool final, bool exact);
/* Asks for the end of the lease a node holds, after `units` of it. */
void iso_lease_cut(iso_coordinator *c, uint32_t id, uint32_t units);

/* ---- shares.c ---- */
/* ns that one unit takes a node, its speed being known. */
double iso_share_unit_ns(const iso_coordinator *c, const node *n);
/* Sets the quota of every live node, so that `units` are shared out and all end together: exact minimum of the longest time.
 * Shares of before that are about as good stay. A node of unknown speed gets a probe. False when no speed is
 * known: then there are only probes. */
bool iso_shares_of(iso_coordinator *c, uint32_t units);
/* The same for as many units as fit into `ns`. Returns their number, probes left out. */
uint64_t iso_shares_within(iso_coordinator *c, double ns);
/* A round of one batch: every node gets its share as one lease. */
void iso_shares_grant(iso_coordinator *c);

/* ---- local.c ---- */
/* Plans a round of local steps and hands out its leases. */
void iso_local_begin(iso_coordinator *c);
void iso_local_pulse(iso_coordinator *c, const iso_frame *f);
/* Ends what outlasts the round. */
void iso_local_timer(iso_coordinator *c);
/* At a border: what counts is settled, and told when audit is on. */
void iso_local_settle(iso_coordinator *c);

/* The audit record of what counts of a node's lease. */
void iso_local_tell_counted(iso_coordinator *c, uint32_t id);

/* ---- free.c ---- */
/* A lease for every node that may have one. */
void iso_free_offer(iso_coordinator *c);
void iso_free_joined(iso_coordinator *c, node *n);
void iso_free_need(iso_coordinator *c, uint32_t id);
void iso_free_answer(iso_coordinator *c, const iso_frame *f);
/* Makes the longest waiting answer the one to be applied; false when none waits. */
bool iso_free_next(iso_coordinator *c, uint64_t *staleness);
/* At a border: it counts. Then, unless the epoch has ended: on. */
void iso_free_settle(iso_coordinator *c);
void iso_free_go_on(iso_coordinator *c);

/* ---- course.c ---- */
/* Enough nodes at the start? Then the first pass. */
void iso_course_gather(iso_coordinator *c);
/* Ends the pass if all its units are counted. */
void iso_course_check(iso_coordinator *c);
void iso_course_order_done(iso_coordinator *c, const iso_event *ev);
void iso_course_checkpoint_wanted(iso_coordinator *c);
void iso_course_stop(iso_coordinator *c);
void iso_course_finish(iso_coordinator *c, bool stopped);
void iso_course_fail(iso_coordinator *c, int32_t layer);
/* The last epoch is done and evaluated. */
bool iso_course_finished(const iso_coordinator *c);
/* Running epoch (the one that ended, until it is evaluated) and position in it, at the last border. */
uint32_t iso_course_epoch(const iso_coordinator *c);
uint64_t iso_course_cursor(const iso_coordinator *c);

#endif
